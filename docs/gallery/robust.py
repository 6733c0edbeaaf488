"""
A robust regression
===================

200 000 measurements, one in twenty of them far off. Student-t noise whose scale σ and degrees of freedom ν are both
estimated. With so many rows their log-likelihood is nearly quadratic, so that one Gaussian stands for all of them.

.. image:: /gallery/results/robust.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/robust.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/robust.svg'


import numpy as np
from _shown import marginals, report, rows, timed

import corelet

# %%
# Measurements, and errors that a Gaussian does not know.

rng = np.random.default_rng(5)
n = rows(200_000, 5_000)
X = rng.normal(size=(n, 6))
noise = rng.standard_t(4, n) * np.where(rng.random(n) < 0.05, 8.0, 1.0)
y = X @ np.linspace(-1.0, 1.0, 6) + noise

# %%
# The fit, and all rows by the same sampler. A posterior with Student-t noise can have several modes: they are looked for,
# and an A is given only where no second one counts. A few rows with large weights have one of their own, at a tiny σ where the
# curve goes through some of them, for which the verdict refuses them; a Gaussian in place of rows has none.

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
