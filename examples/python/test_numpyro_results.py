"""What a fit of a NumPyro model hands over: sites, dimensions, statistics, gradients."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import reparam
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density

import corelet
import corelet.numpyro
from corelet.results.arviz import dataset_of
from corelet.adapters.numpyro_rows import Rows
from corelet._fit import Plan
from corelet.adapters.chains import Steps
from corelet.adapters.numpyro_model import Sampler

numpyro.enable_x64()
rng = np.random.default_rng(0)
N = 3000
x, g = rng.normal(size=N), rng.integers(0, 6, N)
y = rng.normal(0.5 * x + rng.normal(size=6)[g])


def grouped(x: Any, g: Any, y: Any) -> None:
    m, t = numpyro.sample("m", dist.Normal(0.0, 2.0)), numpyro.sample("t", dist.HalfNormal(1.0))
    with numpyro.plate("shops", 6):
        a = numpyro.sample("a", dist.Normal(m, t))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.deterministic("odds", jnp.exp(b))
    eta = numpyro.deterministic("eta", a[g] + b * x)
    numpyro.deterministic("average", eta.mean())
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(eta, 1.0), obs=y)


decentred = reparam(grouped, config={"a": LocScaleReparam(0.0)})


@pytest.fixture(scope="module")
def fit() -> corelet.Fit:
    return corelet.numpyro.fit(decentred, (x, g, y), k=60, chains=2, draws=400)


def test_idata_has_what_the_model_has(fit: corelet.Fit) -> None:
    posterior = dataset_of(fit.idata, "posterior")
    assert {"m", "t", "a", "a_decentered", "b", "odds", "average"} == set(posterior.data_vars)
    assert posterior["a"].dims == ("chain", "draw", "shops") and posterior["a_decentered"].dims == ("chain", "draw", "shops")
    assert np.allclose(posterior["odds"], np.exp(posterior["b"]))
    a, b = posterior["a"].values, posterior["b"].values
    assert np.allclose(posterior["average"], a[..., g].mean(axis=-1) + b * x.mean())
    decentred = posterior["m"].values[..., None] + posterior["t"].values[..., None] * posterior["a_decentered"].values
    assert np.allclose(a, decentred)
    assert any(note.startswith("eta: one value for each row") for note in fit.notes)


def test_idata_has_statistics_of_nuts(fit: corelet.Fit) -> None:
    stats, posterior = (dataset_of(fit.idata, group) for group in ("sample_stats", "posterior"))
    assert {"diverging", "energy", "lp", "n_steps", "tree_depth", "acceptance_rate", "step_size"} == set(stats.data_vars)
    assert stats.sizes["draw"] == posterior.sizes["draw"] and (stats["n_steps"] >= 1).all()
    model = Rows(decentred, (x, g, y), {})
    data = model.take(fit.coreset.rows, 0)
    at = {name: jnp.asarray(fit.draws[name][1, 7]) for name in model.latent}
    density = log_density(model.weighted, (jnp.asarray(fit.coreset.weights), *data), {}, at)[0]
    jacobian = np.log(fit.draws["t"][1, 7])
    assert np.isclose(float(stats["lp"][1, 7]), float(density) + jacobian)


@pytest.fixture(scope="module")
def tool() -> Sampler:
    return Sampler(Rows(decentred, (x, g, y), {}), Steps(400, 300, 2), Plan(k=60, max_k=60), 0, {})


def test_scores_are_gradients_of_the_weighted_posterior(fit: corelet.Fit, tool: Sampler) -> None:
    rows, weights = fit.coreset.rows, fit.coreset.weights
    assert fit._draws is not None
    u, scores = tool.scores(rows, weights, fit._draws, 100)
    assert u.shape == scores.shape == (100, 9)

    def density(u: Any) -> Any:
        theta = tool.constrained(u)
        likelihood = tool.log_likelihood(flat_draws(theta), rows, padded=False) @ weights
        flat = {name: values[0] for name, values in theta.values.items()}
        prior = -0.5 * (flat["m"] / 2) ** 2 - 0.5 * flat["t"] ** 2 - 0.5 * (flat["a_decentered"] ** 2).sum(axis=1) - 0.5 * flat["b"] ** 2
        return likelihood + prior + np.log(flat["t"])

    for j in range(9):
        step = 1e-4 * np.eye(9)[j]
        assert np.allclose((density(u + step) - density(u - step)) / 2e-4, scores[:, j], rtol=1e-4, atol=1e-3)
    assert np.allclose(tool.unconstrained(tool.constrained(u)), u)


def test_scores_of_a_posterior_are_zero_in_the_mean_and_of_a_shifted_one_are_not(fit: corelet.Fit, tool: Sampler) -> None:
    rows, weights = fit.coreset.rows, fit.coreset.weights
    assert fit._draws is not None
    u, scores = tool.scores(rows, weights, fit._draws, 800)
    whiten = np.linalg.cholesky(np.cov(u.T))
    mean = whiten.T @ scores.mean(axis=0)
    assert np.abs(mean).max() < 0.5
    moved = tool.constrained(u + 3 * u.std(axis=0) * np.eye(9)[-1])
    mean = whiten.T @ tool.scores(rows, weights, moved, 800)[1].mean(axis=0)
    assert np.abs(mean).max() > 1.5


def flat_draws(draws: Any) -> dict[str, Any]:
    return {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.values.items()}


def test_gradient_of_all_rows_and_prior(tool: Sampler) -> None:
    u = np.random.default_rng(1).normal(0.0, 0.3, (3, 9))
    totals, gradients = tool.gradient_of_all_rows(u)
    prior, slopes = tool.log_prior(u)
    assert np.allclose(totals, tool.log_likelihood(flat_draws(tool.constrained(u)), slice(0, N)).sum(axis=1))
    theta = {name: values[0] for name, values in tool.constrained(u).values.items()}
    whole = [float(log_density(decentred, (x, g, y), {}, {name: v[s] for name, v in theta.items()})[0]) for s in range(3)]
    assert np.allclose(totals + prior, np.array(whole) + np.log(theta["t"]))
    for j in range(9):
        step = 1e-5 * np.eye(9)[j]
        for density, found in ((tool.gradient_of_all_rows, gradients), (tool.log_prior, slopes)):
            assert np.allclose((density(u + step)[0] - density(u - step)[0]) / 2e-5, found[:, j], rtol=1e-5, atol=1e-3)
    with pytest.raises(corelet.CoreletError, match="draws × 9"):
        tool.log_prior(u[:, :4])


def test_a_resampled_posterior_has_no_statistics_of_chains(fit: corelet.Fit, tool: Sampler) -> None:
    assert fit._draws is not None
    some = fit._draws.take(np.arange(50))
    assert dataset_of(tool.inference_data(some, {}), "sample_stats") is None
    assert dataset_of(tool.inference_data(some, {}), "posterior")["a"].shape == (1, 50, 6)
