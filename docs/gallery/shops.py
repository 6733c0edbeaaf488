"""
Shops with random effects, in bambi
===================================

Fit a bambi model with random effects: 50 000 counts of sales in 40 shops, with a price and a random intercept for every shop. The formula is
bambi's, the sampler is nutpie, and the model is unchanged.

.. image:: /gallery/results/shops.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/shops.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/shops.svg'

import bambi
import numpy as np
import nutpie
import pandas as pd
from _shown import REDUCED, marginals, report, rows, timed

import corelet.pymc

# %%
# Generate the sales.

rng = np.random.default_rng(2)
n = rows(50_000, 5_000)
shop = rng.integers(0, 40, n)
price = rng.normal(size=n)
sold = rng.poisson(np.exp(1.0 - 0.3 * price + 0.4 * rng.normal(size=40)[shop]))
table = pd.DataFrame({"sold": sold, "price": price, "shop": shop.astype(str)})
model = bambi.Model("sold ~ price + (1 | shop)", table, family="poisson")

# %%
# Fit a coreset, then all rows with the same sampler. With all rows its chains move slowly through the spread of the shops: 2000 draws
# are worth 26 there, so the grey area of ``1|shop_sigma`` is rough. A grid over the spread gives 0.476 ± 0.056.

fit, seconds = timed(lambda: corelet.pymc.fit(model, k=300, chains=2, seed=1))


def all_rows():
    model.build()
    compiled = nutpie.compile_pymc_model(model.backend.model)
    return nutpie.sample(compiled, chains=2, tune=300, draws=300 if REDUCED else 1000, seed=1, progress_bar=False)


full, seconds_full = timed(all_rows)


def shown(idata):
    return {name: np.asarray(idata.posterior[name].values) for name in ("price", "1|shop_sigma")}


marginals("shops", shown(fit.idata), shown(full))
report(
    "shops",
    fit.verdict,
    {"one call": f"{seconds:.0f} s, compiling included", f"NUTS on all {n} rows": f"{seconds_full:.0f} s, compiling included"},
    "bambi",
    "pymc",
    "nutpie",
)
