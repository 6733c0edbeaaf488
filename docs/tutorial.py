# %% [markdown]
# # From a slow fit to a coreset
#
# This tutorial fits your own model in one call, and explains when that pays. It then goes through the steps on a built-in model: a logistic
# regression on many rows, fitted by NUTS on all rows, on a uniform subsample, and on a coreset.
#
# Run it with `python docs/tutorial.py [FOLDER]`; pictures go to FOLDER. It uses the flights that left New York in 2013 (`flights.parquet` in the
# folder that CORELET_DATA names), or generated data if there are none.
#
# `# %%` marks the cells, so Jupyter, VS Code and PyCharm can open this page as a notebook.

# %%
import os
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import corelet

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("tutorial-pictures")
FOLDER.mkdir(parents=True, exist_ok=True)
FLIGHTS = Path(os.environ.get("CORELET_DATA") or ".") / "flights.parquet"
REDUCED = "CORELET_TUTORIAL_REDUCED" in os.environ
CHAINS = dict(chains=2, tune=200, draws=200) if REDUCED else dict(chains=2, tune=300, draws=500)

# %% [markdown]
# ## Any model, in one call
#
# Pass a PyMC, bambi or NumPyro model unchanged: `corelet.pymc.fit(model, k=300)`. For any other model, write two functions. One draws
# from the posterior given weighted rows, with a sampler of your choice. The other returns log-likelihoods. This example is a linear regression with
# unknown noise, whose posterior can be sampled exactly.

# %%
generator = np.random.default_rng(7)
size = 20_000
design = np.column_stack([np.ones(size), generator.normal(size=(size, 3))])
response = design @ [1.0, -2.0, 0.5, 0.0] + 0.7 * generator.normal(size=size)


def draw(rows, weights, start):
    """Two chains of 500 draws, under β | σ² ~ N(0, 100 σ² I) and σ² ~ IG(1, 1)."""
    X, z = design[rows], response[rows]
    precision = (X.T * weights) @ X + 0.01 * np.eye(4)
    mean = np.linalg.solve(precision, X.T @ (weights * z))
    scale = 1 + 0.5 * (weights @ (z - X @ mean) ** 2 + 0.01 * mean @ mean)
    variance = scale / generator.gamma(1 + 0.5 * weights.sum(), size=(2, 500))
    normal = generator.normal(size=(2, 500, 4)) @ np.linalg.inv(np.linalg.cholesky(precision))
    return {"beta": mean + normal * np.sqrt(variance)[..., None], "sigma": np.sqrt(variance)}


def log_likelihood(theta, rows):
    error = response[rows] - theta["beta"] @ design[rows].T
    return -0.5 * (error / theta["sigma"][:, None]) ** 2 - np.log(theta["sigma"])[:, None]


fit = corelet.fit_model(draw, log_likelihood, n=size, k=40)
print(fit)

# %% [markdown]
# The pilot used 1000 unweighted rows. Each round then selected weighted rows under the last posterior, sampled them, and made one pass over all
# rows.
#
# ## When it pays
#
# A fit of all rows evaluates the gradient of every row at every step of every chain. A coreset fit evaluates the log-likelihood of every row at
# about 400 draws, three or four times, and compiles one model more. It pays if sampling all rows takes minutes, and not if it takes
# seconds. In PyMC and NumPyro it pays from 20 000 to 40 000 rows for most models. It never pays if each row has its own parameter, if
# there are about as many parameters as selected rows, or if chains do not mix even on unweighted rows. In the last case the verdict is a C and gives
# the cause.
#
# The rest of this page is a logistic regression. It is a built-in model, so Corelet needs no pilot and samples it itself.
# `corelet.fit(table, target="late", k=300)` does all of the following steps in one call.
#
# ## The data
#
# Was a flight late? The features are distance, hour, weather and others; text columns become indicators.

# %%
if FLIGHTS.exists():
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(FLIGHTS).drop_null()
    table = table.slice(0, 20_000) if REDUCED else table
    target = "late"
else:
    print("No flights here (CORELET_DATA): generated data instead.")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000 if REDUCED else 200_000, 8))
    table = {f"x{j}": X[:, j] for j in range(8)}
    table["late"] = rng.random(len(X)) < 1 / (1 + np.exp(1.0 - X @ np.linspace(-1, 1, 8)))
    target = "late"

# %% [markdown]
# ## A coreset
#
# Select at most 300 rows with weights. The result estimates its divergence before you sample it.

# %%
start = time.perf_counter()
cs = corelet.build(table, target=target, k=300)
seconds_build = time.perf_counter() - start
print(cs)
cs.plot().figure.savefig(FOLDER / "path.png", bbox_inches="tight")

# %% [markdown]
# ## Its posterior
#
# Run NUTS on the weighted rows. Its time does not depend on the number of rows in the data. The weights multiply log-likelihoods.

# %%
start = time.perf_counter()
posterior = cs.sample(**CHAINS, seed=1)
seconds_core = time.perf_counter() - start

# %% [markdown]
# ## Can it be trusted?
#
# Make one pass over all rows at draws of the coreset's posterior. A means that you may use the draws as draws of the full-data posterior. C gives
# the reason and what to do.

# %%
start = time.perf_counter()
verdict = corelet.check(cs, table, **CHAINS, seed=1)
seconds_check = time.perf_counter() - start
print(verdict)

# %% [markdown]
# ## Other models, priors and data
#
# `model=` also takes softmax or ordinal for several classes, binomial, poisson, negative-binomial, linear, student, gamma, weibull and
# exponential. Their additional parameters (a size, σ, a shape) are estimated like any other. Formulas, exposures, offsets, priors by name and
# predictions work as in other packages. The example has overdispersed claims of insurance policies by age and region.

# %%
import pandas as pd

count = 5_000
policies = pd.DataFrame(
    {
        "age": generator.integers(18, 80, count),
        "region": generator.choice(["north", "south", "west"], count, p=[0.6, 0.3, 0.1]),
        "years": generator.uniform(0.5, 3.0, count),
    }
)
rate = policies.years * np.exp(-1.0 + 0.0004 * (policies.age - 50) ** 2 + 0.3 * (policies.region == "south"))
policies["claims"] = generator.poisson(rate * generator.gamma(2.0, 0.5, count))
claims = corelet.build(
    "claims ~ region + bs(age, df=4)",
    policies,
    model="negative-binomial",
    exposure="years",
    priors={"default": "auto", "intercept": "student_t(4, 0, 5)", "coefficients": {"region*": "laplace(0, 1)"}},
    k=80,
)
print(claims)
print(claims.predict(policies.head(3), kind="outcome").quantiles)

# %% [markdown]
# Rows may have weights, such as counts or survey weights. A row of weight w counts as w equal rows. If few rows are distinct, `collapse=True`
# merges equal rows, and if k is large enough, the merged rows are the coreset, exactly.

# %%
counted = policies.groupby(["region", policies.age // 10, policies.claims > 0], as_index=False).size()
counted.columns = ["region", "decade", "any", "times"]
weighted = corelet.build(counted, target="any", weights="times", k=len(counted))
repeated = corelet.build(counted.loc[counted.index.repeat(counted.times)].drop(columns="times"), target="any", collapse=True)
print(f"{len(counted)} rows with weights and {len(repeated)} distinct ones of {count}: {weighted.weights.sum():.0f} in all")

# %% [markdown]
# ## The slow way, to compare
#
# Run the same sampler on all rows, and on a random subsample with as many rows as the coreset.

# %%
n = int(cs.summary["n"])
everything = corelet.fit(table, target=target, full=True, **CHAINS, seed=2)
full, seconds_full = everything.idata, everything.seconds

subsample = corelet.build(table, target=target, k=len(cs), method="uniform", rounds=1)
rough = subsample.sample(**CHAINS, seed=3)

# %% [markdown]
# ## Side by side


# %%
def moments(idata):
    draws = idata.posterior["standardised"].values.reshape(-1, len(cs.names))
    return draws.mean(axis=0), draws.std(axis=0)


mean, sd = moments(full)
shift = {name: (moments(idata)[0] - mean) / sd for name, idata in {"coreset": posterior, "uniform rows": rough}.items()}
print(f"NUTS on all {n} rows: {seconds_full:.1f} s")
print(f"coreset: build {seconds_build:.1f} s, NUTS {seconds_core:.1f} s, verdict {seconds_check:.1f} s")
print(f"largest shift of a mean: coreset {np.abs(shift['coreset']).max():.2f} sd, uniform {np.abs(shift['uniform rows']).max():.1f} sd")

figure, axes = plt.subplots(figsize=(6, 4))
for offset, (name, values) in enumerate(shift.items()):
    axes.plot(values, np.arange(len(values)) + 0.15 * offset, "o", label=name)
axes.axvline(0, color="grey", linewidth=0.8)
axes.set(yticks=np.arange(len(cs.names)), xlabel="shift of the posterior mean, in posterior sd", xscale="symlog")
axes.set_yticklabels(cs.names, fontsize=6)
axes.legend(frameon=False)
figure.savefig(FOLDER / "shifts.png", bbox_inches="tight")
