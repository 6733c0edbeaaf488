"""
Customers: how many will come back?
===================================

Fit the BG/NBD model of ``pymc-marketing`` to 50 000 customers, as ``pymc-marketing`` builds it. Each customer buys at an individual rate, and
leaves after a purchase with an individual probability. The likelihood integrates both out, so that each customer is one row (frequency, recency,
observation time) and the model has four parameters.

.. image:: /gallery/results/customers.svg
   :alt: marginal posteriors of the coreset over those of all customers

.. literalinclude:: /gallery/results/customers.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/customers.svg'

import warnings

import numpy as np
import nutpie
import pandas as pd
from _shown import REDUCED, marginals, report, rows, timed
from pymc_extras.prior import Prior
from pymc_marketing import clv

import corelet.pymc

warnings.filterwarnings("ignore", category=UserWarning)

# %%
# Generate all customers at once: each waits for the next purchase, until it leaves or the observation time is over.

rng = np.random.default_rng(0)
n = rows(50_000, 1_000)
watched = rng.uniform(20, 40, n)
rate, leaves = rng.gamma(0.8, 1 / 6, n), rng.beta(0.8, 2.5, n)
frequency, recency, clock, here = np.zeros(n), np.zeros(n), np.zeros(n), np.ones(n, bool)
while here.any():
    clock += rng.exponential(1 / rate)
    here &= clock <= watched
    frequency += here
    recency = np.where(here, clock, recency)
    here &= rng.random(n) >= leaves
customers = pd.DataFrame({"customer_id": np.arange(n), "frequency": frequency, "recency": recency, "T": watched})

# %%
# Build the model, with a prior for each of its four parameters.

wide = Prior("HalfNormal", sigma=10)
bg_nbd = clv.BetaGeoModel(data=customers, model_config={"a": wide, "b": wide, "alpha": wide, "r": wide})
bg_nbd.build_model()

# %%
# Fit a coreset, then all rows with the same sampler.

fit, seconds = timed(lambda: corelet.pymc.fit(bg_nbd.model, k=100, chains=2, seed=1))


def all_rows():
    compiled = nutpie.compile_pymc_model(bg_nbd.model)
    return nutpie.sample(compiled, chains=2, tune=300, draws=300 if REDUCED else 1000, seed=1, progress_bar=False)


full, seconds_full = timed(all_rows)


def shown(idata):
    return {name: np.asarray(idata.posterior[name].values) for name in ("r", "alpha", "a", "b")}


marginals("customers", shown(fit.idata), shown(full))
report(
    "customers",
    fit.verdict,
    {"one call": f"{seconds:.0f} s, compiling included", f"NUTS on all {n} customers": f"{seconds_full:.0f} s, compiling included"},
    "pymc-marketing",
    "pymc",
    "nutpie",
)
