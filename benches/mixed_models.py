"""Mixed models beside other tools, and whether their posteriors are calibrated.

    python benches/mixed_models.py nuts                  # all parameters by NumPyro, 200 groups × 20 rows
    python benches/mixed_models.py gpboost ROWS GROUPS    # GPBoost's estimate (pip install gpboost)
    python benches/mixed_models.py crossed               # the same with two crossed factors
    python benches/mixed_models.py lme4 [ROWS GROUPS]      # estimates of lme4 and glmmTMB (R, r-cran-lme4, r-cran-glmmtmb)
    python benches/mixed_models.py large [ROWS GROUPS MB]  # 10⁷ rows × 10⁶ groups through the command, in so much --memory: processor seconds, memory
    python benches/mixed_models.py sbc [REPLICATES GROUPS ROWS LEVELS]  # ranks of the truth: 60 groups × 5 binary rows, a crossed factor of 4 levels

`nuts` prints means and standard deviations of both posteriors; `gpboost` seconds and distances from the truth in standard errors; `sbc` a
chi-squared statistic of the ranks of each parameter in ten bins, whose mean is 9 and whose standard deviation is 4.2 where they are uniform; with 0 levels there is no second factor.
"""

import sys
import time

import numpy as np

import corelet

TRUTH = dict(intercept=-1.0, slopes=np.array([0.5, -0.3, 0.2]), sd=0.8)


def visits(rows, groups, seed, sd=TRUTH["sd"], intercept=TRUTH["intercept"], slopes=TRUTH["slopes"]):
    """Features, outcomes, the group of each row, and the effect of each group."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(slopes)))
    group = np.sort(rng.integers(0, groups, rows)) if rows % groups else np.repeat(np.arange(groups), rows // groups)
    effect = sd * rng.normal(size=groups)
    y = rng.random(rows) < 1 / (1 + np.exp(-(intercept + X @ slopes + effect[group])))
    return X, y.astype(float), group, effect


def fitted(X, y, group, **keywords):
    columns = {f"x{j + 1}": X[:, j] for j in range(X.shape[1])}
    began, worked = time.perf_counter(), time.process_time()
    fit = corelet.fit(columns, y, random=group, seed=1, prior_sd=2.5, **keywords)
    print(f"corelet: {time.process_time() - worked:.1f} s of all cores together")
    return fit, time.perf_counter() - began


def nuts(rows=4000, groups=200):
    """The same posterior with every effect a parameter."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    numpyro.set_host_device_count(2)
    X, y, group, _ = visits(rows, groups, 5)
    scale, mean = X.std(axis=0), X.mean(axis=0)
    Z = (X - mean) / scale

    def model():
        b = numpyro.sample("b", dist.Normal(0, 2.5).expand([X.shape[1]]).to_event(1))
        a = numpyro.sample("a", dist.Normal(0, 2.5))
        sd = numpyro.sample("sd", dist.HalfNormal(2.5))
        v = numpyro.sample("v", dist.Normal(0, 1).expand([groups]).to_event(1))
        numpyro.deterministic("u", sd * v)
        numpyro.sample("y", dist.Bernoulli(logits=a + Z @ b + sd * v[group]), obs=y)

    began = time.perf_counter()
    chains = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=1000, num_samples=5000, num_chains=2, progress_bar=False)
    chains.run(jax.random.PRNGKey(0))
    draws = {name: np.asarray(values) for name, values in chains.get_samples().items()}
    print(f"NumPyro, {groups + 5} parameters: {time.perf_counter() - began:.1f} s")
    slopes = draws["b"] / scale
    theirs = {f"x{j + 1}": slopes[:, j] for j in range(X.shape[1])}
    theirs |= {"(intercept)": draws["a"] - slopes @ mean, "1|groups_sigma": draws["sd"]}
    fit, seconds = fitted(X, y, group, k=50)
    print(f"corelet: {seconds:.1f} s, {len(fit.groups)} of {groups} groups, {fit.verdict.grade}, V {fit.verdict.variance:.2g}")
    for name, other in theirs.items():
        own = fit.draws[name].ravel()
        off, ratio = (own.mean() - other.mean()) / other.std(), own.std() / other.std()
        print(f"  {name:16} {own.mean():8.4f} ± {own.std():.4f}   NumPyro {other.mean():8.4f} ± {other.std():.4f}   off {off:+.3f} sd, × {ratio:.3f}")
    table = fit.random_effects(quantiles=(0.05, 0.95))
    at = np.argsort(table["group"].astype(int))
    mean, sd = draws["u"].mean(axis=0), draws["u"].std(axis=0)
    print(f"  effects: mean off by at most {np.max(np.abs(table['mean'][at] - mean) / sd):.3f} sd, root mean square "
          f"{np.sqrt(np.mean(((table['mean'][at] - mean) / sd) ** 2)):.3f}; sd × {np.min(table['sd'][at] / sd):.3f} to {np.max(table['sd'][at] / sd):.3f}")
    for name, q in (("q5", 0.05), ("q95", 0.95)):
        print(f"  effects: {name} off by at most {np.max(np.abs(table[name][at] - np.quantile(draws['u'], q, axis=0)) / sd):.3f} sd")


def gpboost(rows, groups):
    """Seconds, and distances from the truth in standard errors."""
    X, y, group, _ = visits(rows, groups, 11)
    fit, seconds = fitted(X, y, group, k=50)
    means = {name: (values.mean(), values.std()) for name, values in fit.draws.items()}
    want = {f"x{j + 1}": value for j, value in enumerate(TRUTH["slopes"])}
    want |= {"(intercept)": TRUTH["intercept"], "1|groups_sigma": TRUTH["sd"]}
    off = {name: (means[name][0] - value) / means[name][1] for name, value in want.items()}
    spent = {name: sum(step.seconds.get(name, 0.0) for step in fit.rounds) for name in ("build", "sample", "look", "verdict")}
    print(f"corelet: {seconds:.1f} s, {len(fit.groups)} groups, {fit.verdict.grade}, V {fit.verdict.variance:.2g}, {fit.nodes} nodes "
          f"(bias {fit.quadrature_bias:.3f} sd), {len(fit.rounds)} rounds", {name: round(value, 1) for name, value in spent.items()})
    print("  off by", {name: round(float(value), 2) for name, value in off.items()})
    try:
        import gpboost as gpb
    except ImportError:
        return
    began, worked = time.perf_counter(), time.process_time()
    model = gpb.GPModel(group_data=group, likelihood="bernoulli_logit")
    model.fit(y=y, X=np.column_stack([np.ones(rows), X]))
    seconds = time.perf_counter() - began
    print(f"GPBoost: {time.process_time() - worked:.1f} s of all cores together")
    coefficients, variance = model.get_coef(), float(np.asarray(model.get_cov_pars()).ravel()[0])
    values = np.asarray(coefficients)
    values = values[0] if values.ndim == 2 and values.shape[0] < 4 else values.reshape(4, -1)[:, 0]
    estimates = dict(zip(["(intercept)", "x1", "x2", "x3"], values))
    off = {name: round(float((estimates[name] - want[name]) / means[name][1]), 2) for name in estimates}
    off["1|groups_sigma"] = round(float((variance**0.5 - TRUTH["sd"]) / means["1|groups_sigma"][1]), 2)
    print(f"GPBoost: {seconds:.1f} s\n  off by (our sd)", off)


def lme4(rows=100_000, groups=5000):
    """Seconds of lme4's and glmmTMB's estimates, and distances from the truth in our and in their standard errors."""
    import csv
    import subprocess
    import tempfile
    from pathlib import Path

    X, y, group, _ = visits(rows, groups, 11)
    fit, seconds = fitted(X, y, group, k=50)
    want = {"(intercept)": TRUTH["intercept"]} | {f"x{j + 1}": value for j, value in enumerate(TRUTH["slopes"])}
    want["1|groups_sigma"] = TRUTH["sd"]
    print(f"corelet: {seconds:.1f} s, {fit.verdict.grade}, V {fit.verdict.variance:.2g}")
    own = {name: (fit.draws[name].mean(), fit.draws[name].std()) for name in want}
    print("  off by (posterior sds)", {name: round(float((own[name][0] - value) / own[name][1]), 2) for name, value in want.items()})
    with tempfile.TemporaryDirectory() as folder:
        table, answers = Path(folder, "visits.csv"), Path(folder, "answers.csv")
        with table.open("w") as file:
            file.write("y,x1,x2,x3,g\n")
            file.writelines(f"{int(y[i])},{X[i, 0]:.8g},{X[i, 1]:.8g},{X[i, 2]:.8g},{group[i]}\n" for i in range(rows))
        subprocess.run(["Rscript", "-e", R, str(table), str(answers)], check=True)
        for line in csv.DictReader(answers.open()):
            name, value = line["name"], float(line["estimate"])
            theirs = float(line["se"]) if line["se"] not in ("", "NA") else own[name][1]
            print(f"  {line['tool']:8} {float(line['seconds']):6.1f} s of the processor  {name:15} off by {(value - want[name]) / theirs:+.2f} of its "
                  f"standard errors, {(value - own[name][0]) / own[name][1]:+.2f} sd from ours")


R = """
paths <- commandArgs(TRUE); d <- read.csv(paths[1]); d$g <- factor(d$g)
answer <- NULL; names <- c("(intercept)", "x1", "x2", "x3")
add <- function(tool, seconds, beta, se, sd) {
  answer <<- rbind(answer, data.frame(tool, seconds, name = c(names, "1|groups_sigma"), estimate = c(beta, sd), se = c(se, NA)))
}
t <- system.time(m <- lme4::glmer(y ~ x1 + x2 + x3 + (1 | g), d, family = binomial))
add("lme4", t[1] + t[2], lme4::fixef(m), sqrt(diag(as.matrix(vcov(m)))), attr(lme4::VarCorr(m)$g, "stddev"))
t <- system.time(m <- glmmTMB::glmmTMB(y ~ x1 + x2 + x3 + (1 | g), d, family = binomial))
add("glmmTMB", t[1] + t[2], glmmTMB::fixef(m)$cond, sqrt(diag(vcov(m)$cond)), attr(glmmTMB::VarCorr(m)$cond$g, "stddev"))
write.csv(answer, paths[2], row.names = FALSE)
"""


def crossed(rows=4000, groups=200, levels=8):
    """Two crossed factors, against NumPyro's NUTS of all parameters."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    X, y, group, _ = visits(rows, groups, 5)
    rng = np.random.default_rng(6)
    level = rng.integers(0, levels, rows)
    eta = X @ TRUTH["slopes"] + 0.8 * rng.normal(size=groups)[group] + 0.6 * rng.normal(size=levels)[level]
    y = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(float)
    scale, mean = X.std(axis=0), X.mean(axis=0)
    Z = (X - mean) / scale

    def model():
        b = numpyro.sample("b", dist.Normal(0, 2.5).expand([X.shape[1]]).to_event(1))
        a = numpyro.sample("a", dist.Normal(0, 2.5))
        sds = numpyro.sample("sds", dist.HalfNormal(2.5).expand([2]).to_event(1))
        v = numpyro.sample("v", dist.Normal(0, 1).expand([groups]).to_event(1))
        s = numpyro.sample("s", dist.Normal(0, 1).expand([levels]).to_event(1))
        r = numpyro.deterministic("r", sds[1] * s)
        numpyro.sample("y", dist.Bernoulli(logits=a + Z @ b + sds[0] * v[group] + r[level]), obs=y)

    chains = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=1000, num_samples=3000, num_chains=2, progress_bar=False)
    chains.run(jax.random.PRNGKey(0))
    draws = {name: np.asarray(values) for name, values in chains.get_samples().items()}
    slopes = draws["b"] / scale
    theirs = {f"x{j + 1}": slopes[:, j] for j in range(X.shape[1])}
    theirs |= {"(intercept)": draws["a"] - slopes @ mean, "1|c_sigma": draws["sds"][:, 0], "1|p_sigma": draws["sds"][:, 1]}
    theirs |= {f"1|p[{h}]": draws["r"][:, h] for h in range(levels)}
    columns = {f"x{j + 1}": X[:, j] for j in range(X.shape[1])} | {"c": group.astype(str), "p": level.astype(str)}
    fit = corelet.fit(columns, y, random="(1 | c) + (1 | p)", k=60, seed=1, prior_sd=2.5)
    print(f"corelet: {len(fit.groups)} of {groups} groups, {fit.verdict.grade}, V {fit.verdict.variance:.2g}")
    for name, other in theirs.items():
        own = fit.draws[name].ravel()
        print(f"  {name:16} {own.mean():8.4f} ± {own.std():.4f}   NumPyro {other.mean():8.4f} ± {other.std():.4f}   "
              f"off {(own.mean() - other.mean()) / other.std():+.3f} sd, × {own.std() / other.std():.3f}")


def large(rows=10_000_000, groups=1_000_000, megabytes=None):
    """A file whose rows stand in no order, through the command: processor seconds and the most memory that it took."""
    import pathlib
    import resource
    import subprocess
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    effect, slopes, step = 0.8 * rng.normal(size=groups).astype(np.float32), np.array([0.5, -0.3, 0.2, 0], np.float32), 500_000
    schema = pa.schema([("bought", pa.int8()), ("customer", pa.int32()), *((f"x{j}", pa.float32()) for j in range(4))])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "visits.parquet"
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, rows, step):
                count = min(step, rows - start)
                customer, X = rng.integers(0, groups, count).astype(np.int32), rng.normal(size=(count, 4)).astype(np.float32)
                chance = 1 / (1 + np.exp(1 - X @ slopes - effect[customer]))
                bought = (rng.random(count) < chance).astype(np.int8)
                writer.write_table(pa.table({"bought": bought, "customer": customer, **{f"x{j}": X[:, j] for j in range(4)}}, schema=schema))
        flags = ["--target", "bought", "--random", "customer", "-k", "50", "-o", str(pathlib.Path(folder) / "draws.parquet")]
        flags += [] if megabytes is None else ["--memory", f"{megabytes}MB", "--scratch", folder]
        subprocess.run(["corelet", "fit", str(path), *flags], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} processor seconds, {used.ru_maxrss / 1e6:.2f} GB at most")


def sbc(replicates=200, groups=60, each=5, levels=4):
    """Truth from the prior, data from the truth, and the rank of the truth among thinned draws; a crossed factor where it has levels."""
    rng = np.random.default_rng(2)
    ranks, grades = {}, {}
    for replicate in range(replicates):
        x = rng.normal(size=groups * each)
        x = (x - x.mean()) / x.std()
        slope, intercept, sd, other = rng.normal(), rng.normal(), abs(rng.normal()), abs(rng.normal())
        group, level = np.repeat(np.arange(groups), each), rng.integers(0, max(levels, 1), groups * each)
        r = (other if levels else 0.0) * rng.normal(size=max(levels, 1))
        eta = intercept + slope * x + (sd * rng.normal(size=groups))[group] + r[level]
        y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
        if y.min() == y.max():
            continue
        columns = dict(x=x, c=group.astype(str), **(dict(p=level.astype(str)) if levels else {}))
        fit = corelet.fit(columns, y, random="(1 | c) + (1 | p)" if levels else "c", k=30, prior_sd=1.0, sd_prior="half_normal(1)", seed=replicate, draws=500)
        grades[fit.verdict.grade] = grades.get(fit.verdict.grade, 0) + 1
        truth = {"x": slope, "(intercept)": intercept, "1|c_sigma": sd}
        truth |= {"1|p_sigma": other, "1|p[0]": r[0]} if levels else {}
        for name, value in truth.items():
            ranks.setdefault(name, []).append(int((fit.draws[name][:, ::20].ravel() < value).sum()))
        if replicate % 20 == 19:
            print(replicate + 1, grades, flush=True)
    print("grades", grades)
    for name, found in ranks.items():
        found = np.asarray(found)
        bins = np.bincount(np.minimum(found * 10 // 101, 9), minlength=10)
        expected = len(found) / 10
        print(f"  {name:16} chi-squared {np.sum((bins - expected) ** 2 / expected):5.1f} of 9 degrees   {bins.tolist()}")


if __name__ == "__main__":
    what, *numbers = sys.argv[1:] or ["nuts"]
    {"nuts": nuts, "crossed": crossed, "gpboost": gpboost, "lme4": lme4, "large": large, "sbc": sbc}[what](*map(int, numbers))
