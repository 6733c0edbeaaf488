"""NumPyro: a small regression, fitted as it is."""

import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

import corelet.numpyro  # noqa: E402

numpyro.enable_x64()


def model(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(intercept + slope * x, sigma), obs=y)


def test_a_line(agrees, line):
    x, y = line
    fit = corelet.numpyro.fit(model, (x, y), k=60)
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, y)
    agrees(fit, {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()})
