"""One call against the same sampler on all rows: PyMC with nutpie, and NumPyro.

    python benches/any_model.py TOOL MODEL ROWS [full]

TOOL is `pymc` or `numpyro`, MODEL is `poisson` (random intercepts of two factors, 38 parameters) or `student` (a regression
with unknown σ and ν, 9 parameters). Needs the environment of `make integrations`. Prints one line of JSON.

Times are seconds of the processor, which depend little on who else is on the machine where OPENBLAS_NUM_THREADS is 1 (threads of
BLAS that wait for each other count as work); `wall` are those of the clock, and
`steps` where they went. What the same sampler would take on all rows is extrapolated: the gradient evaluations that the last
chains made for each draw, times as many draws and as much warm-up, times the measured seconds of one gradient on all rows. With
`full` it really runs where that is less than ten minutes, and the posteriors are compared: the largest shift of a mean in
posterior standard deviations, the same in Monte-Carlo errors, and the ratios of standard deviations. `more_mb` is the peak of
memory above the data and the imported tools; most of it is what the compilers take, whatever the number of rows is.
"""

import json
import re
import sys
import time

import numpy as np

DRAWS, TUNE, CHAINS = 1000, 500, 2
LONGEST = 600.0
"""Seconds of the processor beyond which the fit of all rows is not run."""


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
    """The fit in one call."""
    import corelet

    settings = dict(draws=DRAWS, tune=TUNE, chains=CHAINS, progress=True)
    if tool == "pymc":
        return corelet.pymc.fit(pymc_model(name, columns), **settings)
    return corelet.numpyro.fit(numpyro_model(name), columns, **settings)


def steps_a_draw(fit):
    """The gradient evaluations of its last chains for each draw."""
    return float(fit.idata.sample_stats["n_steps"].mean())


def gradient_seconds(tool, name, columns):
    """Of the processor, for one log-density of all rows with its gradient, by the back end that the sampler uses."""
    if tool == "pymc":
        model = pymc_model(name, columns)
        compiled = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
        compiled.set_extra_values({})
        at = np.concatenate([np.ravel(x) for x in model.initial_point().values()])
        evaluate = lambda: compiled(at)
    else:
        import jax
        from numpyro.infer.util import initialize_model

        info = initialize_model(jax.random.PRNGKey(0), numpyro_model(name), model_args=columns)
        compiled = jax.jit(jax.value_and_grad(info.potential_fn))
        evaluate = lambda: jax.block_until_ready(compiled(info.param_info.z))
    evaluate()
    count, start = 0, time.process_time()
    while time.process_time() - start < 3.0 or count < 5:
        evaluate()
        count += 1
    return (time.process_time() - start) / count


def full(tool, name, columns):
    """Draws of the sampler on all rows."""
    if tool == "pymc":
        import nutpie

        compiled = nutpie.compile_pymc_model(pymc_model(name, columns))
        trace = nutpie.sample(compiled, draws=DRAWS, tune=TUNE, chains=CHAINS, seed=1, progress_bar=False)
        return {n: trace.posterior[n].values for n in names(name)}
    import jax
    from numpyro.infer import MCMC, NUTS

    sampler = NUTS(numpyro_model(name))
    mcmc = MCMC(
        sampler, num_warmup=TUNE, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.PRNGKey(1), *columns)
    return {n: np.asarray(v) for n, v in mcmc.get_samples(group_by_chain=True).items()}


def names(model):
    return {"student": ("intercept", "slopes", "sigma", "nu"), "poisson": ("intercept", "slopes", "sd", "first", "second")}[model]


def table(draws, model):
    return np.concatenate([np.asarray(draws[n]).reshape(*np.shape(draws[n])[:2], -1) for n in names(model)], axis=2)


def compare(fit, draws, model):
    """Shift of the means, ratios of sds, and the Monte-Carlo error of the largest shift, by effective sample sizes."""
    import arviz as az

    ours, theirs = table(fit.draws, model), table(draws, model)
    flat = [x.reshape(-1, x.shape[2]) for x in (ours, theirs)]
    shift = np.abs(flat[0].mean(axis=0) - flat[1].mean(axis=0)) / flat[1].std(axis=0)
    ratio = flat[0].std(axis=0) / flat[1].std(axis=0)
    ess = [np.array([float(az.ess(np.float64(x[:, :, j]), method="bulk")) for j in range(x.shape[2])]) for x in (ours, theirs)]
    error = np.sqrt(1 / ess[0] + 1 / ess[1])
    return dict(
        shift=float(shift.max()),
        shift_in_mc_error=float((shift / error).max()),
        ratio=[float(ratio.min()), float(ratio.max())],
        least_ess=[float(e.min()) for e in ess],
    )


def steps_of(fit):
    """Seconds of the clock of each kind of step, over all rounds; what is left is compiling, the pilot and its look."""
    steps = {}
    for this in fit.rounds:
        for name, seconds in this.seconds.items():
            steps[name] = steps.get(name, 0.0) + seconds
    steps["compile and pilot"] = fit.seconds - sum(steps.values())
    return {name: round(seconds, 2) for name, seconds in steps.items()}


def peak():
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])


def main():
    tool, name, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    columns = data(name, n)
    import corelet

    getattr(corelet, tool)
    if tool == "numpyro":
        import numpyro

        numpyro.enable_x64(n > 100_000)  # in single precision the log-likelihood of more rows is too coarse for NUTS
    before, processor, clock = peak(), time.process_time(), time.perf_counter()
    fit = call(tool, name, columns)
    seconds, wall = time.process_time() - processor, time.perf_counter() - clock
    line = dict(
        tool=tool, model=name, n=n, grade=fit.verdict.grade, reasons=fit.verdict.reasons, rounds=len(fit.rounds),
        points=len(fit.coreset), variance=fit.verdict.variance, seconds=seconds, wall=wall, steps=steps_of(fit),
        data_mb=sum(c.nbytes for c in columns) / 1e6, more_mb=(peak() - before) / 1e6,
    )
    steps = line["steps_a_draw"] = steps_a_draw(fit)
    gradient = gradient_seconds(tool, name, columns)
    line.update(gradient=gradient, extrapolated=gradient * steps * (DRAWS + TUNE) * CHAINS)
    line.update(times_faster=line["extrapolated"] / seconds)
    if "full" in sys.argv[4:] and line["extrapolated"] < LONGEST:
        processor, clock = time.process_time(), time.perf_counter()
        draws = full(tool, name, columns)
        line.update(full=time.process_time() - processor, full_wall=time.perf_counter() - clock)
        line.update(compare(fit, draws, name))
        line.update(times_faster=line["full"] / seconds)
    print(json.dumps({key: round(x, 4) if isinstance(x, float) else x for key, x in line.items()}))


if __name__ == "__main__":
    main()
