"""bambi: a small regression by a formula, fitted as it is."""

import pandas as pd
import pytest

bambi = pytest.importorskip("bambi")

import corelet.pymc  # noqa: E402


def test_a_formula(agrees, line):
    x, y = line
    model = bambi.Model("y ~ x", pd.DataFrame({"x": x, "y": y}))
    fit = corelet.pymc.fit(model, k=60)
    full = model.fit(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("Intercept", "x", "sigma")})
