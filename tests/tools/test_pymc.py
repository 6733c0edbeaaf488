"""PyMC: a small regression with two random intercepts, fitted as it is."""

import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import corelet.pymc  # noqa: E402


def test_counts_by_group(agrees):
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=3000), rng.integers(0, 4, 3000)
    y = rng.poisson(np.exp(1.0 + 0.4 * x + np.array([-0.5, 0.0, 0.2, 0.6])[group]))
    with pm.Model(coords={"group": list("abcd")}) as model:
        slope = pm.Normal("slope", 0, 1)
        middle = pm.Normal("middle", 1, 1, dims="group")
        pm.Deterministic("ratio", pm.math.exp(slope))
        pm.Poisson("y", mu=pm.math.exp(middle[group] + slope * x), observed=y)
    fit = corelet.pymc.fit(model, k=60)
    with model:
        full = pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("slope", "middle", "ratio")})
    assert fit.idata.posterior["middle"].dims == ("chain", "draw", "group")
    assert list(fit.idata.posterior["group"].values) == list("abcd")
