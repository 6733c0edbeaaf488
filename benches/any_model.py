"""One call against the same sampler on all rows: PyMC with nutpie, and NumPyro.

    python benches/any_model.py TOOL MODEL ROWS [full]

TOOL is `pymc` or `numpyro`, MODEL is `poisson` (random intercepts of two factors, 38 parameters) or `student` (a regression
with unknown σ and ν, 9 parameters). Needs the environment of `make integrations`. Prints one line of JSON: seconds of the call and
of its parts, by the clock and of the processor; with `full`, those of the same sampler with as many draws on all rows (stopped
after ten minutes and then extrapolated by its gradient evaluations), the largest shift of a mean in posterior standard
deviations, the ratios of the standard deviations, and the Monte-Carlo error of such a shift.
"""

import json
import re
import sys
import time

import numpy as np

DRAWS, TUNE, CHAINS = 1000, 500, 2


def data(model, n):
    rng = np.random.default_rng(20261115)
    if model == "student":
        X = rng.normal(size=(n, 6))
        return X, 1.0 + X @ np.linspace(-1, 1, 6) + 0.5 * rng.standard_t(4, size=n)
    X, g, h = rng.normal(size=(n, 3)), rng.integers(0, 14, n), rng.integers(0, 18, n)
    eta = 0.3 + X @ [0.2, -0.3, 0.1] + 0.4 * rng.normal(size=14)[g] + 0.3 * rng.normal(size=18)[h]
    return X, g, h, rng.poisson(np.exp(eta))


def pymc_model(name, columns):
    import pymc as pm

    with pm.Model() as model:
        if name == "student":
            X, y = columns
            intercept, slopes = pm.Normal("intercept", 0, 5), pm.Normal("slopes", 0, 5, shape=6)
            sigma, nu = pm.HalfNormal("sigma", 2), pm.Gamma("nu", 2, 0.1)
            pm.StudentT("y", nu=nu, mu=intercept + pm.math.dot(X, slopes), sigma=sigma, observed=y)
        else:
            X, g, h, y = columns
            intercept, slopes = pm.Normal("intercept", 0, 2), pm.Normal("slopes", 0, 1, shape=3)
            sd = pm.HalfNormal("sd", 1, shape=2)
            first, second = pm.Normal("first", 0, sd[0], shape=14), pm.Normal("second", 0, sd[1], shape=18)
            pm.Poisson("y", mu=pm.math.exp(intercept + pm.math.dot(X, slopes) + first[g] + second[h]), observed=y)
    return model


def numpyro_model(name):
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def student(X, y):
        intercept = numpyro.sample("intercept", dist.Normal(0, 5))
        slopes = numpyro.sample("slopes", dist.Normal(0, 5).expand([6]))
        sigma, nu = numpyro.sample("sigma", dist.HalfNormal(2)), numpyro.sample("nu", dist.Gamma(2, 0.1))
        numpyro.sample("y", dist.StudentT(nu, intercept + X @ slopes, sigma), obs=y)

    def poisson(X, g, h, y):
        intercept = numpyro.sample("intercept", dist.Normal(0, 2))
        slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([3]))
        sd = numpyro.sample("sd", dist.HalfNormal(1).expand([2]))
        first = numpyro.sample("first", dist.Normal(0, sd[0]).expand([14]))
        second = numpyro.sample("second", dist.Normal(0, sd[1]).expand([18]))
        numpyro.sample("y", dist.Poisson(jnp.exp(intercept + X @ slopes + first[g] + second[h])), obs=y)

    return student if name == "student" else poisson


def call(tool, name, columns):
    import corelet

    if tool == "pymc":
        return corelet.pymc.fit(pymc_model(name, columns), draws=DRAWS, tune=TUNE, chains=CHAINS, progress=True)
    return corelet.numpyro.fit(numpyro_model(name), columns, draws=DRAWS, chains=CHAINS, progress=True)


def full(tool, name, columns, limit=600.0):
    """Draws of the sampler on all rows, and its seconds, extrapolated where it did not end in time."""
    if tool == "numpyro":
        return full_numpyro(name, columns, limit)
    import nutpie

    compiled = nutpie.compile_pymc_model(pymc_model(name, columns))
    sampler = nutpie.sample(
        compiled, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=CHAINS, seed=1, progress_bar=False, blocking=False
    )
    start = time.perf_counter()
    while not sampler.is_finished and time.perf_counter() - start < limit:
        time.sleep(0.5)
    ended = sampler.is_finished
    trace = sampler.wait() if ended else sampler.abort()
    seconds = time.perf_counter() - start
    done = sum(group.sizes["draw"] for group in (trace.posterior, trace.warmup_posterior))
    draws = {n: trace.posterior[n].values for n in trace.posterior.data_vars if n in names(name)}
    return draws, seconds * (1.0 if ended else (DRAWS + TUNE) / max(done, 1)), not ended


def full_numpyro(name, columns, limit):
    import jax
    from numpyro.infer import MCMC, NUTS

    def run(warmup, draws):
        mcmc = MCMC(
            NUTS(numpyro_model(name)), num_warmup=warmup, num_samples=draws, num_chains=CHAINS, chain_method="vectorized",
            progress_bar=False,
        )
        start = time.perf_counter()
        mcmc.run(jax.random.PRNGKey(1), *columns, extra_fields=("num_steps",))
        return mcmc, time.perf_counter() - start

    # A short run tells what the whole would take, in draws after a short warm-up.
    _, short = run(50, 50)
    if short * (DRAWS + 300) / 100 > limit:
        return None, short * (DRAWS + 300) / 100, True
    mcmc, seconds = run(300, DRAWS)
    return {n: np.asarray(v) for n, v in mcmc.get_samples(group_by_chain=True).items()}, seconds, False


def names(model):
    return {"student": ("intercept", "slopes", "sigma", "nu"), "poisson": ("intercept", "slopes", "sd", "first", "second")}[model]


def table(draws, model):
    return np.concatenate([np.asarray(draws[n]).reshape(*np.shape(draws[n])[:2], -1) for n in names(model)], axis=2)


def compare(fit, draws, model):
    """Shift of the means, ratios of sds, and the Monte-Carlo error of the largest shift, by effective sample sizes."""
    import arviz

    ours, theirs = table(fit.draws, model), table(draws, model)
    flat = [x.reshape(-1, x.shape[2]) for x in (ours, theirs)]
    shift = np.abs(flat[0].mean(axis=0) - flat[1].mean(axis=0)) / flat[1].std(axis=0)
    ratio = flat[0].std(axis=0) / flat[1].std(axis=0)
    ess = [np.array([float(arviz.ess(x[:, :, j])) for j in range(x.shape[2])]) for x in (ours, theirs)]
    error = np.sqrt(1 / ess[0] + 1 / ess[1])
    return dict(
        shift=float(shift.max()),
        shift_in_mc_error=float((shift / error).max()),
        ratio=[float(ratio.min()), float(ratio.max())],
        least_ess=[float(e.min()) for e in ess],
    )


def peak():
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])


def main():
    tool, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    columns = data(name, n)
    import corelet

    getattr(corelet, tool)
    before, clock, processor = peak(), time.perf_counter(), time.process_time()
    fit = call(tool, name, columns)
    parts = {}
    for this in fit.rounds:
        for part, seconds in this.seconds.items():
            parts[part] = parts.get(part, 0.0) + seconds
    line = dict(
        tool=tool, model=name, n=n, grade=fit.verdict.grade, reasons=fit.verdict.reasons, rounds=len(fit.rounds),
        points=len(fit.coreset), variance=fit.verdict.variance, seconds=time.perf_counter() - clock,
        processor=time.process_time() - processor, parts={k: round(v, 1) for k, v in parts.items()},
        data_mb=sum(c.nbytes for c in columns) / 1e6, peak_mb=(peak() - before) / 1e6,
    )
    if "full" in sys.argv[4:]:
        clock, processor = time.perf_counter(), time.process_time()
        draws, seconds, extrapolated = full(tool, name, columns)
        line.update(full_seconds=seconds, full_wall=time.perf_counter() - clock, full_processor=time.process_time() - processor)
        line.update(extrapolated=extrapolated)
        if draws is not None and not extrapolated:
            line.update(compare(fit, draws, name))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
