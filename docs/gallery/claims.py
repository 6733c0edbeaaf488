"""
Claims: overdispersed counts
============================

Fit overdispersed counts with an exposure: 200 000 insurance policies with skewed features and regions with rare levels. The model is a
negative binomial regression with an estimated size, a spline of age and weakly informative priors. The coreset alone predicts new
policies.

.. image:: /gallery/results/claims.svg
   :alt: marginal posteriors of the coreset over those of all rows

.. literalinclude:: /gallery/results/claims.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/claims.svg'


import numpy as np
import pandas as pd
from _shown import marginals, report, rows, timed

import corelet

# %%
# Generate the policies.

rng = np.random.default_rng(3)
n = rows(200_000, 5_000)
policies = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n),
        "power": np.round(rng.gamma(6.0, 15.0, n)),
        "region": rng.choice(list("ABCDEF"), n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01]),
        "years": rng.uniform(0.1, 2.0, n),
    }
)
rate = policies.years * np.exp(-2.0 + 0.0008 * (policies.age - 45) ** 2 + 0.004 * policies.power + 0.3 * (policies.region == "C"))
policies["claims"] = rng.poisson(rate * rng.gamma(1.5, 1 / 1.5, n))

# %%
# Fit them. ``bs`` is a spline with five coefficients, and ``exposure`` an offset on the log scale.

model = dict(model="negative-binomial", exposure="years", priors="auto")
chains = dict(chains=2, tune=300, seed=1)
fit, seconds = timed(lambda: corelet.fit("claims ~ bs(age, df=5) + power + region", policies, k=300, draws=1000, **model, **chains))

# %%
# Predict the number of claims of two new policies in a year, including the noise of a single policy.

new = pd.DataFrame({"age": [20, 45], "power": [120.0, 75.0], "region": ["C", "A"], "years": [1.0, 1.0]})
print(fit.coreset.predict(new, kind="outcome").quantiles)

# %%
# Sample all rows with the same sampler, and compare.

full, seconds_full = timed(lambda: corelet.fit("claims ~ bs(age, df=5) + power + region", policies, full=True, draws=500, **model, **chains))


def shown(idata):
    original = idata.posterior["original"]
    at = {str(name): original.values[..., column] for column, name in enumerate(original[original.dims[-1]].values)}
    chosen = [name for name in at if "power" in name or "C" in name][:2]
    return {**{name: at[name] for name in chosen}, "size": idata.posterior["size"].values}


marginals("claims", shown(fit.idata), shown(full.idata))
report("claims", fit.verdict, {"one call": f"{seconds:.1f} s", f"NUTS on all {n} rows": f"{seconds_full:.0f} s"}, "arviz")
