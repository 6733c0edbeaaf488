"""Every likelihood of NumPyro: the posterior of all rows, or a refusal.

`likelihoods_table.py` writes what the long test finds into docs/likelihoods.md.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from likelihoods_numpyro import CASES, NOT_OF_ROWS, Case, data_of, kernel
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS, log_likelihood
from numpyro.infer.util import log_density, potential_energy, unconstrain_fn

import corelet
import corelet.numpyro
from corelet.adapters.numpyro_check import check
from corelet.adapters.numpyro_rows import Rows

numpyro.enable_x64()
QUICK = (
    "Normal",
    "Poisson",
    "OrderedLogistic",
    "ZeroInflatedPoisson",
    "MixtureSameFamily",
    "MultivariateNormal",
    "RightCensoredDistribution",
    "a factor with one value for each row",
    "handlers.mask and handlers.scale",
    "handlers.reparam",
)
NAMES = [name for name, case in CASES.items() if all(hasattr(dist, one) for one in case.of)]


@pytest.mark.quick
def test_every_distribution_is_here() -> None:
    tried = {name for case in CASES.values() for name in case.of}
    classes = {name for name, one in vars(dist).items() if inspect.isclass(one) and issubclass(one, dist.Distribution)}
    assert not classes - tried - set(NOT_OF_ROWS)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick if name in QUICK else ()) for name in NAMES])
def test_weighted_density(name: str) -> None:
    """Σ wᵢ ℓᵢ + prior, by what NumPyro itself says of the model of some rows, with rows of weight 0 in it."""
    case = CASES[name]
    rows = Rows(case.model, data_of(case, 80), {})
    check(rows, 0)
    rng = np.random.default_rng(1)
    picked, weights = rng.choice(80, 12, replace=False), np.concatenate([rng.uniform(1, 9, 9), np.zeros(3)])
    data = rows.take(picked, 12)
    theta = {name: jnp.asarray(case.truth[name], like.dtype) for name, like in rows.latent.items()}
    args, kwargs = rows.call(data)
    alone = log_density(case.model, args, kwargs, theta)[0]
    if name.startswith("a factor"):
        likelihood = np.asarray(rows.log_likelihood(theta, data))
    else:
        found = log_likelihood(case.model, {name: values[None] for name, values in theta.items()}, *args, **kwargs)
        likelihood = sum(np.asarray(values)[0].reshape(12, -1).sum(axis=1) for values in found.values())
        if "scale" in name:
            likelihood = likelihood * (1 + data[0] ** 2)
    wanted = float(alone) - likelihood.sum() + weights @ likelihood
    assert np.isclose(float(log_density(rows.weighted, (jnp.asarray(weights), *data), {}, theta)[0]), wanted, rtol=1e-8, atol=1e-6)
    free = unconstrain_fn(case.model, args, kwargs, theta)
    jacobians = -float(potential_energy(case.model, args, kwargs, free)) - float(alone)
    total = float(rows.log_prior(free, data)) + weights @ np.asarray(rows.log_likelihood(theta, data))
    assert np.isclose(total, wanted + jacobians, rtol=1e-8, atol=1e-6)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """What was compiled for one model is of no use to another."""
    yield
    jax.clear_caches()


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", NAMES)
def test_posterior_of_all_rows(name: str) -> None:
    fit, shift, ratio = fitted(name)
    assert fit.verdict.certified, fit.verdict
    assert shift < 5 and ratio < 5


def fitted(name: str) -> tuple[corelet.Fit, float, float]:
    """A case by a coreset, and its largest differences from NUTS on all rows: of a mean, and of a standard deviation."""
    case = CASES[name]
    data = data_of(case, 2000)
    settings: dict[str, Any] = dict(k=80, max_k=320, pilot=400, chains=2, draws=600, tune=400, kernel=kernel())
    fit = corelet.numpyro.fit(case.model, data, **settings)
    return fit, *compared(fit.draws, full(case, data))


def full(case: Case, data: tuple[Any, ...]) -> dict[str, Any]:
    mcmc = MCMC(NUTS(case.model, **kernel()), num_warmup=400, num_samples=1000, num_chains=1, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(1), *data)
    return {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()}


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, float]:
    """The largest difference of means and of standard deviations, in Monte-Carlo errors."""
    errors = ratios = 0.0
    for name, values in ours.items():
        mine, other = (x.reshape(*x.shape[:2], -1) for x in (values, theirs[name]))
        moving = np.ptp(mine.reshape(-1, mine.shape[2]), axis=0) > 0
        mine, other = mine[:, :, moving], other[:, :, moving]
        if not moving.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            size = [np.minimum(np.atleast_1d(effective_sample_size(x)), x.shape[0] * x.shape[1]) for x in (mine, other)]
        mean, sd = ([f(x, axis=(0, 1)) for x in (mine, other)] for f in (np.mean, np.std))
        error = np.sqrt(1 / size[0] + 1 / size[1])
        errors = max(errors, float((np.abs(mean[0] - mean[1]) / sd[1] / error).max()))
        ratios = max(ratios, float((np.abs(np.log(sd[0] / sd[1])) / (error / np.sqrt(2))).max()))
    return errors, ratios
