"""bambi: every family, in its formula. The quick tests need no chains: log-likelihoods of some rows and the weighted density against PyMC's own.

`likelihoods_table.py` writes what the long test finds into docs/likelihoods.md.
"""

from __future__ import annotations

from typing import Any

import bambi
import numpy as np
import pandas as pd
import pytest
from likelihoods_pymc import above_zero, counts, level, of_ten, real, unit, yes, zeros
from test_likelihoods_pymc import against_all_rows, model_point, reference, tool_of

import corelet

N = 300


def table(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.normal(size=n)
    several = rng.multinomial(8, [0.2, 0.3, 0.5], n)
    end = rng.uniform(0.5, 3.0, n)
    positive = above_zero(rng, x)
    names = np.array(list("abc"))
    return pd.DataFrame(
        {
            "x": x,
            "g": names[rng.integers(0, 3, n)],
            "real": real(rng, x),
            "positive": positive,
            "with_zeros": positive * (rng.random(n) < 0.7),
            "unit": unit(rng, x),
            "count": counts(rng, x),
            "zeros": zeros(rng, x),
            "of_ten": of_ten(rng, x),
            "ten": 10,
            "yes": yes(rng, x),
            "level": pd.Categorical(names[level(rng, x)], ordered=True),
            "angle": rng.vonmises(0.5, 2.0, n),
            "time": np.minimum(positive, end),
            "status": np.where(positive > end, "right", "none"),
            "m1": several[:, 0],
            "m2": several[:, 1],
            "m3": several[:, 2],
            "share": rng.uniform(1, 2, n),
        }
    )


FORMULAS = {
    "gaussian": "real ~ x + (x | g)",
    "t": "real ~ x",
    "laplace": "real ~ x",
    "asymmetriclaplace": "real ~ x",
    "bernoulli": "yes ~ x + (1 | g)",
    "binomial": "p(of_ten, ten) ~ x",
    "beta_binomial": "p(of_ten, ten) ~ x",
    "zero_inflated_binomial": "p(of_ten, ten) ~ x",
    "beta": "unit ~ x",
    "poisson": "count ~ x + (1 | g)",
    "negativebinomial": "count ~ x",
    "zero_inflated_poisson": "zeros ~ x",
    "zero_inflated_negativebinomial": "zeros ~ x",
    "hurdle_poisson": "zeros ~ x",
    "hurdle_negativebinomial": "zeros ~ x",
    "hurdle_gamma": "with_zeros ~ x",
    "hurdle_lognormal": "with_zeros ~ x",
    "gamma": "positive ~ x",
    "exponential": "positive ~ x",
    "weibull": "positive ~ x",
    "wald": "positive ~ x",
    "vonmises": "angle ~ x",
    "categorical": "level ~ x",
    "cumulative": "level ~ 0 + x",
    "sratio": "level ~ 0 + x",
    "multinomial": "c(m1, m2, m3) ~ x",
    "dirichlet_multinomial": "c(m1, m2, m3) ~ x",
}
WITH_MORE = {
    "censored(): weibull": ("censored(time, status) ~ x", "weibull"),
    "weighted(): gaussian": ("weighted(real, share) ~ x", "gaussian"),
    "offset(): poisson": ("count ~ x + offset(share)", "poisson"),
    "two formulas: gaussian": (bambi.Formula("real ~ x", "sigma ~ x"), "gaussian"),
}
KINKED = ("asymmetriclaplace",)
CASES: dict[str, tuple[Any, str]] = {**{name: (formula, name) for name, formula in FORMULAS.items()}, **WITH_MORE}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_density_of_weighted_rows(name: str) -> None:
    formula, family = CASES[name]
    model = bambi.Model(formula, table(), family=family)
    model.build()
    tool = tool_of(model)
    tool._loglik.compile(numba=False)
    tool.check_slicing(0)
    rng = np.random.default_rng(2)
    rows, weights = np.sort(rng.choice(N, 40, replace=False)), rng.gamma(2.0, size=40)
    points = model_point(tool.model, tool) + 0.1 * rng.normal(size=(2, tool.free.dimension))
    density, gradient = tool._density(rows, weights, points)
    wanted = reference(tool.model, rows, weights, points, tool)
    inside = np.isfinite(density)  # An inverse link has no density where the predictor is negative.
    assert inside.any() or tool.model.check_bounds
    assert np.isfinite(gradient[inside]).all()
    assert np.allclose(density[inside], wanted[inside], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_posterior_of_all_rows(name: str) -> None:
    fit, shift = fitted(name)
    assert fit.verdict.certified, fit.verdict
    assert shift < 5.0


def fitted(name: str) -> tuple[corelet.Fit, float]:
    """A family by a coreset, and the largest shift of its means against chains on all rows."""
    formula, family = CASES[name]
    return against_all_rows(bambi.Model(formula, table(2000), family=family), 300 if name in KINKED else 80)


@pytest.mark.filterwarnings("ignore")
def test_a_prior_that_bambi_could_not_scale_is_named() -> None:
    """bambi scales the priors of a truncated response by its bounds, which are infinite."""
    model = bambi.Model("truncated(positive, lb=0) ~ x", table())
    with pytest.raises(corelet.CoreletError, match="initial point of .* is not finite"):
        tool_of(model)
    priors = {"Intercept": bambi.Prior("Normal", mu=0, sigma=2), "sigma": bambi.Prior("HalfNormal", sigma=2)}
    tool = tool_of(bambi.Model("truncated(positive, lb=0) ~ x", table(), priors=priors))
    tool._loglik.compile(numba=False)
    tool.check_slicing(0)
