"""
Survival with censoring
=======================

Fit a survival model: when do 200 000 customers of a subscription leave? They are observed for two years. In the Weibull regression, customers who are
still there are censored.

.. image:: /gallery/results/survival.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/survival.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/survival.svg'


import numpy as np
import pandas as pd
from _shown import marginals, report, rows, timed

import corelet

# %%
# Generate the time in days until a customer left; ``left`` is 0 if that did not happen within 730 days.

rng = np.random.default_rng(11)
n = rows(200_000, 5_000)
customers = pd.DataFrame(
    {
        "price": rng.normal(12.0, 3.0, n),
        "channel": rng.choice(["web", "shop", "friend"], n, p=[0.6, 0.3, 0.1]),
        "support": rng.poisson(1.2, n),
    }
)
scale = np.exp(7.0 - 0.05 * (customers.price - 12) + 0.4 * (customers.channel == "friend") - 0.15 * customers.support)
customers["days"] = scale * rng.weibull(1.3, n)
customers["left"] = (customers.days < 730).astype(int)
customers["days"] = customers.days.clip(upper=730.0)

# %%
# Fit a coreset, then all rows with the same sampler.

model = dict(model="weibull", target="days", event="left")
chains = dict(chains=2, tune=300, draws=500, seed=1)
fit, seconds = timed(lambda: corelet.fit(customers, k=200, **model, **chains))
full, seconds_full = timed(lambda: corelet.fit(customers, full=True, **model, **chains))


def shown(idata):
    original = idata.posterior["original"]
    at = {str(name): original.values[..., column] for column, name in enumerate(original[original.dims[-1]].values)}
    return {**{name: at[name] for name in ("price", "channel=friend", "support") if name in at}, "shape": idata.posterior["shape"].values}


marginals("survival", shown(fit.idata), shown(full.idata))
censored = f"{100 * (1 - customers.left.mean()):.0f} %"
report(
    "survival",
    fit.verdict,
    {"censored": censored, "one call": f"{seconds:.1f} s", f"NUTS on all {n} rows": f"{seconds_full:.0f} s"},
    "arviz",
)
