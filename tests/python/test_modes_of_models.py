"""A model whose posterior has two modes that mirror each other, in PyMC: no grade but C, however the chains look."""

import numpy as np
import pytest

import corelet

pm = pytest.importorskip("pymc")


@pytest.mark.slow
def test_components_that_can_change_places_are_no_posterior_of_one_mode():
    import corelet.pymc

    random = np.random.default_rng(1)
    n = 20_000
    X = random.normal(size=(n, 25))
    y = np.where(random.random(n) < 0.5, -2.0, 2.0) + random.normal(size=n)
    with pm.Model() as model:
        middles, share = pm.Normal("middles", 0, 3, shape=2), pm.Beta("share", 2, 2)
        slopes, noise = pm.Normal("slopes", 0, 1, shape=25), pm.HalfNormal("noise", 1)
        eta = pm.math.dot(X, slopes)
        means = pm.math.stack([middles[0] + eta, middles[1] + eta], axis=1)
        pm.NormalMixture("y", w=pm.math.stack([share, 1 - share]), mu=means, sigma=noise, observed=y)
    fit = corelet.pymc.fit(model, draws=1000, tune=500, chains=4, rest="gaussian", force=True)
    assert fit.verdict.grade == "C" and "second_mode" in fit.verdict.reasons
