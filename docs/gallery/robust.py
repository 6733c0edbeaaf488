"""
A robust regression
===================

Fit a regression with outliers: 200 000 measurements, one in twenty far off. The noise is Student-t, with estimated scale σ and degrees of freedom ν.
With so many rows the log-likelihood is nearly quadratic, so one Gaussian can replace all of them.

.. image:: /gallery/results/robust.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/robust.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/robust.svg'


import numpy as np
from _shown import marginals, report, rows, timed

import corelet

# %%
# Generate measurements with heavy-tailed noise and outliers.

rng = np.random.default_rng(5)
n = rows(200_000, 5_000)
X = rng.normal(size=(n, 6))
noise = rng.standard_t(4, n) * np.where(rng.random(n) < 0.05, 8.0, 1.0)
y = X @ np.linspace(-1.0, 1.0, 6) + noise

# %%
# Fit a Gaussian factor, then all rows with the same sampler. A posterior with Student-t noise can have several modes, so Corelet
# searches for them and gives an A only if no second mode matters. Weighted rows alone would have one at a tiny σ, where the
# regression passes through some of the rows, and get a C. A Gaussian factor has no such mode.

chains = dict(chains=2, tune=300, draws=500, seed=1)
fit, seconds = timed(lambda: corelet.fit(X, y, model="student", degrees="estimated", rest="gaussian", **chains))
full, seconds_full = timed(lambda: corelet.fit(X, y, model="student", degrees="estimated", full=True, **chains))


def shown(idata):
    return {
        "x1": idata.posterior["original"].values[..., 0],
        "x6": idata.posterior["original"].values[..., 5],
        "σ": idata.posterior["sigma"].values,
        "ν": idata.posterior["nu"].values,
    }


marginals("robust", shown(fit.idata), shown(full.idata))
report("robust", fit.verdict, {"one call": f"{seconds:.1f} s", f"NUTS on all {n} rows": f"{seconds_full:.0f} s"}, "arviz")
