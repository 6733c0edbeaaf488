"""bambi: a formula with random effects, fitted by `corelet.pymc.fit` as it is."""

from __future__ import annotations

import bambi
import pandas as pd
from common import compare, draws_of, hierarchical_data

import corelet.pymc


def test_random_effects_of_a_formula() -> None:
    x, shop, day, y = hierarchical_data(5000)
    table = pd.DataFrame({"x": x, "shop": shop.astype(str), "y": y})
    model = bambi.Model("y ~ x + (1 | shop)", table, family="poisson")
    fit = corelet.pymc.fit(model, k=150, options={"target_accept": 0.95})
    print(fit)
    assert fit.verdict.grade == "A"
    idata = model.fit(draws=600, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    wanted = draws_of(idata)
    assert compare("bambi, random effects", {name: wanted[name] for name in ("Intercept", "x", "1|shop")}, draws_of(fit.idata)) < 0.35
