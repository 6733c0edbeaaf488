"""Log-likelihoods of all rows of a PyMC model beside one gradient of them.

    python benches/passes.py [ROWS]

Prints milliseconds of the processor for one draw, by model: a gradient of the log posterior of all rows by numba, as nutpie takes it, and the
log-likelihoods of all rows as `corelet.pymc.fit` asks for them, 64 draws at a time. JAX has no part in either.
"""

import sys
import time

import numpy as np
import pymc as pm
from any_model import data, pymc_model

import corelet.pymc

DRAWS = 64
LEAST = 3.0
"""Seconds that a figure is taken over, at least."""


def hurdle(n):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4))
    mean = np.exp(0.5 + X @ [0.3, -0.2, 0.1, 0.0])
    y = np.where(rng.random(n) < 0.6, 1 + rng.poisson(rng.gamma(2.0, mean / 2.0)), 0)
    with pm.Model() as model:
        eta = pm.Normal("intercept", 0, 2) + pm.math.dot(X, pm.Normal("slopes", 0, 1, shape=4))
        pm.HurdleNegativeBinomial("y", psi=pm.Beta("psi", 2, 2), mu=pm.math.exp(eta), alpha=pm.Gamma("alpha", 2, 1), observed=y)
    return model


def milliseconds(work, of=1):
    """Of the processor for each of so many draws."""
    work()
    count, start = 0, time.process_time()
    while time.process_time() - start < LEAST:
        work()
        count += of
    return 1000 * (time.process_time() - start) / count


def gradient(model):
    compiled = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    compiled.set_extra_values({})
    at = np.concatenate([np.ravel(x) for x in model.initial_point().values()])
    return milliseconds(lambda: compiled(at))


def log_likelihoods(model):
    tool = corelet.pymc.Sampler(model, 4, 1, 1, 0, "pymc", {})
    points = tool.free.starts(1, 0, 0.0) + 0.05 * np.random.default_rng(1).normal(size=(DRAWS, tool.dimension))
    theta = {name: values[0] for name, values in tool.free.constrain(points[None]).items()}
    return milliseconds(lambda: tool.log_likelihood(theta, slice(0, tool.n)), DRAWS)


def main():
    n = int(sys.argv[1]) if sys.argv[1:] else 100_000
    models = {"Student-t": pymc_model("student", data("student", n)), "Poisson, random intercepts of two factors": pymc_model("poisson", data("poisson", n))}
    models["hurdle negative binomial"] = hurdle(n)
    for name, model in models.items():
        by_gradient, by_rows = gradient(model), log_likelihoods(model)
        print(f"| {name} | {by_gradient:.2g} | {by_rows:.2g} |", flush=True)


if __name__ == "__main__":
    main()
