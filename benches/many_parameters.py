"""Models with hundreds of parameters in one call, against the same sampler on all rows.

    python benches/many_parameters.py CASE [ROWS] [full] [rest=auto|gaussian|none] [marginalise=auto|none|NAME]

CASE is one of those below, `python benches/many_parameters.py` lists them. Needs the environment of `make integrations`. Prints one line of
JSON: parameters, rows of the data (`n`) and of the coreset, V, grade, and seconds by the clock (`wall`) and of the processor (`cpu`), which
depend less on who else is on the machine. What the tool's sampler takes on all rows is extrapolated from one gradient of all rows
(`forecast`); with `full` it runs: with all draws where the forecast is below ten minutes, else with as few as fit into these and its seconds
are multiplied (`full_share` below 1 says so). Then the posteriors are compared: R-hat of the full fit, the largest shift of a mean in
posterior sds, the same in Monte-Carlo errors, and the least and the greatest ratio of two sds.
"""

import json
import sys
import time

import numpy as np

DRAWS, TUNE, CHAINS = 1000, 500, 4
LONGEST = 600.0
"""Seconds that a fit of all rows may take."""


def rng_of(name):
    return np.random.default_rng([20261118, sum(map(ord, name))])


def intercepts(family, groups):
    """A regression on three features with an intercept for each group."""

    def build(n, rng):
        import pymc as pm

        X, g = rng.normal(size=(n, 3)), rng.integers(0, groups, n)
        eta = 0.3 + X @ [0.2, -0.3, 0.1] + 0.4 * rng.normal(size=groups)[g]
        y = rng.poisson(np.exp(eta)) if family == "poisson" else (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        with pm.Model() as model:
            middle, slopes = pm.Normal("middle", 0, 2), pm.Normal("slopes", 0, 1, shape=3)
            spread = pm.HalfNormal("spread", 1)
            levels = pm.Normal("levels", middle, spread, shape=groups)
            eta = levels[g] + pm.math.dot(X, slopes)
            if family == "poisson":
                pm.Poisson("y", mu=pm.math.exp(eta), observed=y)
            else:
                pm.Bernoulli("y", logit_p=eta, observed=y)
        return model

    return build


def crossed(n, rng):
    """Counts with more spread than Poisson's, by two crossed factors."""
    import pymc as pm

    x, g, h = rng.normal(size=n), rng.integers(0, 40, n), rng.integers(0, 25, n)
    mu = np.exp(1.0 + 0.3 * x + 0.4 * rng.normal(size=40)[g] + 0.3 * rng.normal(size=25)[h])
    y = rng.negative_binomial(3.0, 3.0 / (3.0 + mu))
    with pm.Model() as model:
        middle, slope, alpha = pm.Normal("middle", 0, 2), pm.Normal("slope", 0, 1), pm.Gamma("alpha", 2, 0.5)
        sds = pm.HalfNormal("sds", 1, shape=2)
        first, second = pm.Normal("first", 0, sds[0], shape=40), pm.Normal("second", 0, sds[1], shape=25)
        pm.NegativeBinomial("y", mu=pm.math.exp(middle + slope * x + first[g] + second[h]), alpha=alpha, observed=y)
    return model


def items(n, rng):
    """Answers of persons to 60 questions: ability, difficulty and discrimination."""
    import pymc as pm

    persons = n // 60
    person, item = np.repeat(np.arange(persons), 60), np.tile(np.arange(60), persons)
    ability, hard, sharp = rng.normal(size=persons), rng.normal(size=60), np.exp(0.3 * rng.normal(size=60))
    y = (rng.random(persons * 60) < 1 / (1 + np.exp(-sharp[item] * (ability[person] - hard[item])))).astype(int)
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, 1, shape=persons)
        hard, sharp = pm.Normal("hard", 0, 2, shape=60), pm.LogNormal("sharp", 0, 0.5, shape=60)
        pm.Bernoulli("y", logit_p=sharp[item] * (ability[person] - hard[item]), observed=y)
    return model


def horseshoe(n, rng):
    """A logistic regression on 100 features, of which five matter, under a regularised horseshoe."""
    import pymc as pm

    X = rng.normal(size=(n, 100))
    beta = np.zeros(100)
    beta[:5] = [1.0, -0.8, 0.5, -0.4, 0.3]
    y = (rng.random(n) < 1 / (1 + np.exp(-(X @ beta - 0.5)))).astype(int)
    with pm.Model() as model:
        middle, tau = pm.Normal("middle", 0, 2), pm.HalfCauchy("tau", 0.05)
        local, slab = pm.HalfCauchy("local", 1, shape=100), pm.InverseGamma("slab", 2, 4)
        z = pm.Normal("z", 0, 1, shape=100)
        scale = pm.math.sqrt(slab * local**2 / (slab + tau**2 * local**2))
        pm.Bernoulli("y", logit_p=middle + pm.math.dot(X, z * tau * scale), observed=y)
    return model


def regions(n, rng):
    """Counts in 150 regions, each with an intercept and a slope."""
    import pymc as pm

    x, g = rng.normal(size=n), rng.integers(0, 150, n)
    y = rng.poisson(np.exp(0.5 + 0.4 * rng.normal(size=150)[g] + (0.3 + 0.2 * rng.normal(size=150)[g]) * x))
    with pm.Model() as model:
        middles, sds = pm.Normal("middles", 0, 1, shape=2), pm.HalfNormal("sds", 1, shape=2)
        level, slope = pm.Normal("level", middles[0], sds[0], shape=150), pm.Normal("slope", middles[1], sds[1], shape=150)
        pm.Poisson("y", mu=pm.math.exp(level[g] + slope[g] * x), observed=y)
    return model


def lkj(n, rng):
    """An intercept and two slopes for each of 60 groups, correlated, by noise of unknown size."""
    import pymc as pm

    x, g = rng.normal(size=(n, 2)), rng.integers(0, 60, n)
    chol = np.linalg.cholesky(np.array([[0.25, 0.1, 0.0], [0.1, 0.16, -0.05], [0.0, -0.05, 0.09]]))
    u = np.array([1.0, 0.5, -0.5]) + rng.normal(size=(60, 3)) @ chol.T
    y = u[g, 0] + (x * u[g, 1:]).sum(axis=1) + rng.normal(size=n)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=3), compute_corr=True)
        middle, noise = pm.Normal("middle", 0, 2, shape=3), pm.HalfNormal("noise", 2)
        z = pm.Normal("z", 0, 1, shape=(60, 3))
        u = middle + pm.math.dot(z, chol.T)
        pm.Normal("y", u[g, 0] + (x * u[g, 1:]).sum(axis=1), noise, observed=y)
    return model


CASES = {
    "poisson200": (100_000, intercepts("poisson", 200)),
    "poisson500": (100_000, intercepts("poisson", 500)),
    "bernoulli200": (100_000, intercepts("bernoulli", 200)),
    "bernoulli1000": (1_000_000, intercepts("bernoulli", 1000)),
    "crossed": (40_000, crossed),
    "items": (24_000, items),
    "horseshoe": (20_000, horseshoe),
    "regions": (30_000, regions),
    "lkj": (30_000, lkj),
}


def timed(work):
    """What comes of it, and seconds by the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def gradient_seconds(model):
    """By the clock and one core, for the log posterior of all rows and its gradient, by what nutpie compiles."""
    compiled = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    compiled.set_extra_values({})
    at = np.concatenate([np.ravel(x) for x in model.initial_point().values()])
    compiled(at)
    count, start = 0, time.process_time()
    while time.process_time() - start < 2.0 or count < 3:
        compiled(at)
        count += 1
    return (time.process_time() - start) / count


def full(model, share):
    """Draws of nutpie on all rows: this share of them and of the warm-up."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    draws, tune = max(round(share * DRAWS), 20), max(round(share * TUNE), 50)
    trace = nutpie.sample(compiled, draws=draws, tune=tune, chains=CHAINS, seed=1, progress_bar=False)
    return trace, (draws + tune) / (DRAWS + TUNE)


def compare(fit, trace, names):
    """Shifts of means, ratios of sds, Monte-Carlo errors, and whether the full fit's own chains agree."""
    import arviz as az

    ours, theirs = (np.concatenate([np.asarray(d[v]).reshape(*np.shape(d[v])[:2], -1) for v in names], axis=2) for d in (fit.draws, trace))
    flat = [x.reshape(-1, x.shape[2]) for x in (ours, theirs)]
    shift = np.abs(flat[0].mean(axis=0) - flat[1].mean(axis=0)) / flat[1].std(axis=0)
    ratio = flat[0].std(axis=0) / flat[1].std(axis=0)
    ess = [np.array([float(az.ess(np.float64(x[:, :, j]), method="bulk")) for j in range(x.shape[2])]) for x in (ours, theirs)]
    r_hat = max(float(az.rhat(np.float64(theirs[:, :, j]))) for j in range(theirs.shape[2]))
    errors = shift / np.sqrt(1 / ess[0] + 1 / ess[1])
    return dict(full_r_hat=r_hat, full_ess=float(ess[1].min()), shift=float(shift.max()), shift_in_mc_error=float(errors.max()), ratio=[float(ratio.min()), float(ratio.max())])


def main():
    if len(sys.argv) < 2:
        for name, (n, build) in CASES.items():
            print(f"{name:15} {n:>9} rows")
        return
    words = sys.argv[2:]
    name = sys.argv[1]
    n, build = CASES[name]
    n = next((int(word) for word in words if word.isdigit()), n)
    rest, marginalise = (next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "auto") for name in ("rest", "marginalise"))
    model = build(n, rng_of(name))
    import corelet.pymc

    settings = dict(draws=DRAWS, tune=TUNE, chains=CHAINS, progress=True, rest=rest, marginalise=marginalise)
    fit, wall, cpu = timed(lambda: corelet.pymc.fit(model, **settings))
    print(fit, file=sys.stderr)
    verdict = fit.verdict
    line = dict(case=name, n=n, p=int(sum(np.size(x) for x in model.initial_point().values())), k=300, rest=rest, marginalise=marginalise, rows=len(fit.coreset), grade=verdict.grade, reasons=verdict.reasons, V=verdict.variance, rounds=len(fit.rounds), wall=wall, cpu=cpu)
    steps = fit.idata.sample_stats["n_steps"].values.mean() if "sample_stats" in fit.idata else float("nan")
    line.update(steps_a_draw=float(steps), gradient=gradient_seconds(model))
    # Of nutpie on all rows the steps of a draw are not known beforehand: 15 is a tree of depth 4.
    line.update(forecast=line["gradient"] * 15 * (DRAWS + TUNE) * CHAINS)
    print(json.dumps(line), file=sys.stderr, flush=True)
    if "full" in words:
        share = min(1.0, LONGEST / line["forecast"])
        (trace, done), wall, cpu = timed(lambda: full(model, share))
        line.update(full_share=done, full_wall=wall / done, full_cpu=cpu / done)
        found = {variable.name: trace.posterior[variable.name].values for variable in model.free_RVs if variable.name in fit.draws}
        line.update(compare(fit, found, list(found)))
        line.update(times_faster=line["full_cpu"] / line["cpu"])
    print(json.dumps({key: float(f"{x:.4g}") if isinstance(x, float) else x for key, x in line.items()}), flush=True)


if __name__ == "__main__":
    main()
