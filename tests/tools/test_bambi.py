"""bambi: a small regression by a formula, fitted as it is."""

import numpy as np
import pandas as pd
import pytest

bambi = pytest.importorskip("bambi")

import corelet.pymc  # noqa: E402
from corelet.adapters import integrated  # noqa: E402


def test_a_formula(agrees, line):
    x, y = line
    model = bambi.Model("y ~ x", pd.DataFrame({"x": x, "y": y}))
    fit = corelet.pymc.fit(model, k=60)
    full = model.fit(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("Intercept", "x", "sigma")})


def test_effects_of_many_groups_are_integrated_out(monkeypatch):
    """Which auto does from some hundred groups on; here of 80, whose coreset names them as bambi does."""
    rng = np.random.default_rng(2)
    county = np.arange(800) % 80
    radon = rng.poisson(np.exp(1.0 + 0.4 * rng.normal(size=80)[county]))
    table = pd.DataFrame({"radon": radon, "county": [f"c{at:02}" for at in county]})
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", 80)
    fit = corelet.pymc.fit(bambi.Model("radon ~ (1 | county)", table, family="poisson"), k=30, draws=500, force=True)
    assert fit.verdict.grade == "A" and fit.notes[0].startswith("1|county, with a value for each of 80 groups"), fit
    assert set(fit.idata.posterior.data_vars) == {"Intercept", "1|county_sigma"}
    effects = fit.random_effects()
    assert list(effects["group"]) == [f"c{at:02}" for at in range(80)] and set(effects["effect"]) == {"1|county"}
    raw = np.log([radon[county == at].mean() for at in range(80)])
    assert np.corrcoef(raw, effects["mean"])[0, 1] > 0.95


def test_shops_that_share_a_mean_have_one_mode():
    """Where their spread is next to 0 the density rises evenly with its logarithm, which is no further mode."""
    rng = np.random.default_rng(2)
    shop, price = rng.integers(0, 40, 50_000), rng.normal(size=50_000)
    sold = rng.poisson(np.exp(1.0 - 0.3 * price + 0.4 * rng.normal(size=40)[shop]))
    table = pd.DataFrame({"sold": sold, "price": price, "shop": shop.astype(str)})
    fit = corelet.pymc.fit(bambi.Model("sold ~ price + (1 | shop)", table, family="poisson"), k=300, chains=2, seed=1)
    assert fit.verdict.grade == "A" and fit.coreset.rest is not None, fit
