"""PyMC: every likelihood gives the posterior of all rows or is refused in one line, and what is not a likelihood stays as it is.

The quick tests need no chains: log-likelihoods of some rows, and the weighted density with its gradient, against PyMC's own.
`likelihoods_table.py` writes what the long test finds into docs/likelihoods.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from likelihoods_pymc import CASES, REFUSED, line, model_of, real

import corelet
import corelet.pymc
from corelet.results.draws import Draws
from corelet.adapters.pymc_graph import AS_IT_IS, unchecked, with_own_data
from corelet.adapters.pymc_model import Sampler

SMALL = 300
KINKED = ("AsymmetricLaplace", "Triangular")
"""Log-likelihoods with a kink for each row, which few rows of large weights turn into several modes."""


def tool_of(model: pm.Model) -> Sampler:
    return Sampler(model, 500, 400, 2, 0, None, {})


def reference(model: pm.Model, rows: Any, weights: Any, points: Any, tool: Sampler) -> Any:
    """Σ wᵢ ℓᵢ + log-prior at unconstrained points, by PyMC alone: its log-density of what is not observed, with all its data, and its
    elementwise log-likelihoods of all rows."""
    prior: Any = model.logp(vars=[*model.free_RVs, *model.potentials])
    parts: list[Any] = list(model.logp(vars=model.observed_RVs, sum=False))
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]
    inputs = [value.type(value.name) for value in values]
    graphs = unchecked(with_own_data([prior, *parts], dict(zip(values, inputs))))
    function: Any = pytensor.function(inputs, graphs, mode=AS_IT_IS, on_unused_input="ignore")
    found = []
    for point in points:
        prior_value, *observed = function(*tool.free.split(point))
        of_rows = [part for part in observed if np.shape(part)[:1] == (tool.n,)]
        beside = sum(float(np.sum(part)) for part in observed if np.shape(part)[:1] != (tool.n,))
        by_row = sum(part.reshape(tool.n, -1).sum(axis=1) for part in of_rows)
        found.append(float(prior_value) + beside + float(weights @ by_row[rows]))
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_density_of_weighted_rows(name: str) -> None:
    model = model_of(CASES[name], SMALL)
    tool = tool_of(model)
    tool._loglik.compile(numba=False)
    tool.check_slicing(0)
    rng = np.random.default_rng(2)
    rows, weights = np.sort(rng.choice(SMALL, 40, replace=False)), rng.gamma(2.0, size=40)
    points = 0.3 * (tool.free.starts(3, 1) - tool.free.starts(1, 1)) + model_point(model, tool)
    density, gradient = tool._density(rows, weights, points)
    wanted = reference(model, rows, weights, points, tool)
    assert np.isfinite(wanted).all()
    assert np.allclose(density, wanted, rtol=1e-7, atol=1e-7)
    assert any(slope_agrees(tool, rows, weights, points[0], gradient[0], step) for step in (1e-6, 1e-5, 1e-4))


def slope_agrees(tool: Sampler, rows: Any, weights: Any, point: Any, gradient: Any, step: float) -> bool:
    """Whether finite differences give this gradient. (A long step goes over a kink; a short one loses digits.)"""
    steps = step * np.eye(len(point))
    up, down = (tool._density(rows, weights, point + sign * steps)[0] for sign in (1, -1))
    return np.allclose(gradient, (up - down) / (2 * step), rtol=1e-3, atol=1e-3 * np.abs(gradient).max())


def model_point(model: Any, tool: Sampler) -> Any:
    point = model.initial_point()
    return np.concatenate([np.ravel(point[name]) for name in tool.free.value_names])


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_refused_in_one_line(name: str) -> None:
    build, words = REFUSED[name]
    with pytest.raises(corelet.CoreletError, match=words) as caught:
        tool = tool_of(model_of(build, SMALL))
        tool._loglik.compile(numba=False)
        tool.check_slicing(0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_posterior_of_all_rows(name: str) -> None:
    fit, shift = fitted(name)
    print(fit)
    assert fit.verdict.certified, fit.verdict
    assert shift < 5.0


def fitted(name: str) -> tuple[corelet.Fit, float]:
    """A case by a coreset, and the largest shift of its means against chains on all rows."""
    return against_all_rows(model_of(CASES[name]), 300 if name in KINKED else 80)


def against_all_rows(model: Any, k: int) -> tuple[corelet.Fit, float]:
    """A model by a coreset, and the largest shift of its means against chains of the same compiled model with weight 1 on every row."""
    fit = corelet.pymc.fit(model, k=k, draws=500, tune=400, chains=2)
    tool: Any = getattr(fit._convert, "__self__")
    full = tool.sample(np.arange(tool.n), np.ones(tool.n), None, 1000, True)
    return fit, largest_shift(full, fit._draws)


def largest_shift(full: Draws, found: Any) -> float:
    """Of a mean, in Monte-Carlo errors of the difference, at 200 effective draws of each at least."""
    import arviz

    shifts = []
    for name, values in full.values.items():
        other = found.values[name]
        for at in np.ndindex(values.shape[2:]):
            ours, theirs = other[(slice(None), slice(None), *at)], values[(slice(None), slice(None), *at)]
            if theirs.std() == 0:
                continue
            sizes = [max(20.0, float(arviz.ess(np.asarray(x)))) for x in (ours, theirs)]
            error = theirs.std() * np.sqrt(sum(1 / size for size in sizes))
            shifts.append(abs(ours.mean() - theirs.mean()) / error)
    return float(max(shifts))


# Priors and potentials that read the data.


def liars() -> dict[str, Any]:
    def truncation(rng: Any, x: Any) -> None:
        y = rng.normal(1.0, 1.0, 4 * len(x))
        y = y[y > 0][: len(x)]
        m, s = pm.Normal("m", 0, 2), pm.HalfNormal("s", 2)
        pm.Potential("normaliser", -len(y) * pm.math.log1mexp(pm.logcdf(pm.Normal.dist(m, s), 0.0)))
        pm.Normal("y", m, s, observed=y)

    def over_rows(rng: Any, x: Any) -> None:
        b = pm.Normal("b", 0, 2)
        pm.Potential("penalty", (-0.01 * (b * x) ** 2).sum())
        pm.Normal("y", b * x, observed=real(rng, x))

    def over_data(rng: Any, x: Any) -> None:
        data: Any = pm.Data("x", x)
        b = pm.Normal("b", 0, 2)
        pm.Potential("penalty", (-0.01 * (b * data) ** 2).sum() - 0.1 * data.shape[0] * b**2)
        pm.Normal("y", b * data, observed=real(rng, x))

    def prior_of_number(rng: Any, x: Any) -> None:
        data: Any = pm.Data("x", x)
        pm.Normal("y", pm.Normal("b", 0, 1 / pm.math.sqrt(data.shape[0])) * data, observed=real(rng, x))

    def g_prior(rng: Any, x: Any) -> None:
        data: Any = pm.Data("x", x)
        pm.Normal("y", pm.Normal("b", 0, pm.math.sqrt(10 / (data**2).sum())) * data, observed=real(rng, x))

    def prior_of_scale(rng: Any, x: Any) -> None:
        data: Any = pm.Data("x", x)
        pm.Normal("y", line(x), pm.HalfNormal("sigma", data.std()), observed=real(rng, x))

    return dict(
        truncation=truncation,
        over_rows=over_rows,
        over_data=over_data,
        prior_of_number=prior_of_number,
        g_prior=g_prior,
        prior_of_scale=prior_of_scale,
    )


@pytest.mark.parametrize("name", liars())
@pytest.mark.filterwarnings("ignore")
def test_priors_and_potentials_see_all_rows(name: str) -> None:
    model = model_of(liars()[name], SMALL)
    tool = tool_of(model)
    points = 0.3 * tool.free.starts(3, 1)
    rows, weights = np.arange(0, SMALL, 7), np.full(len(range(0, SMALL, 7)), 7.0)
    assert np.allclose(tool._density(rows, weights, points)[0], reference(model, rows, weights, points, tool), rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_a_potential_over_the_data_has_the_posterior_of_all_rows() -> None:
    model = model_of(liars()["truncation"])
    # A potential of all rows outweighs the likelihood of some: the pilot has all of them.
    fit = corelet.pymc.fit(model, k=80, pilot=2000, draws=500, tune=400, chains=2)
    print(fit)
    with model:
        full = Draws.of(pm.sample(draws=800, tune=500, chains=2, cores=1, random_seed=1, progressbar=False))
    assert fit.verdict.certified and largest_shift(full, fit._draws) < 5.0


@pytest.mark.filterwarnings("ignore")
def test_scores_of_honest_draws_obey_steins_identities() -> None:
    model = model_of(CASES["StudentT"])
    tool = Sampler(model, 2000, 500, 4, 0, None, {})
    tool.compile()
    rows, weights = np.arange(200), np.full(200, 10.0)
    draws = tool.sample(rows, weights, None, 1000, True)
    values, gradients = tool.scores(rows, weights, draws, 2000)
    assert values.shape == gradients.shape and len(values) <= 2000
    standard = np.sqrt(len(gradients)) * gradients.mean(axis=0) / gradients.std(axis=0)
    assert np.abs(standard).max() < 6.0
    product = gradients.T @ (values - values.mean(axis=0)) / len(values)
    assert np.abs(product + np.eye(tool.free.dimension)).max() < 0.5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["StudentT", "Poisson", "Categorical", "MvNormal rows"])
def test_gradient_of_all_rows_is_that_of_the_density_without_the_prior(name: str) -> None:
    tool = tool_of(model_of(CASES[name], 20_000))
    at = model_point(tool.model, tool) + 0.2 * np.random.default_rng(3).normal(size=(3, tool.free.dimension))
    totals, gradients = tool.gradient_of_all_rows(at)
    density, slopes = tool._density(np.arange(tool.n), np.ones(tool.n), at)
    prior, prior_slopes = tool.log_prior(at)
    assert np.allclose(totals, density - prior, rtol=1e-9)
    assert np.allclose(gradients, slopes - prior_slopes, rtol=1e-7, atol=1e-7 * np.abs(gradients).max())
