"""NumPyro: a logistic regression and a mixture of two regressions, on all data and on a coreset.

The one line that a weighted fit needs is `with numpyro.handlers.scale(scale=weights)` around the observed site.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from common import Array, compare, logistic_data, mixture_data
from numpyro.handlers import scale
from numpyro.infer import MCMC, NUTS, init_to_median, init_to_value, log_likelihood

import corelet

numpyro.enable_x64()
ONE = np.ones(1)


def logistic(X: Array, y: Any, weights: Array = ONE) -> None:
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 2.0))
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 2.0).expand([X.shape[1]]).to_event(1))
    with scale(scale=weights):
        numpyro.sample("y", dist.Bernoulli(logits=intercept + X @ slopes), obs=y)


def mixture(x: Array, y: Array, weights: Array = ONE) -> None:
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    # The intercepts are ordered, so that the two lines cannot change places.
    free = dist.Normal(0.0, 3.0).expand([2]).to_event(1)
    intercepts = numpyro.sample("intercepts", dist.TransformedDistribution(free, dist.transforms.OrderedTransform()))
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    lines = dist.Normal(intercepts + x[:, None] * slopes, sigma)
    with scale(scale=weights):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1 - share])), lines), obs=y)


def fit(model: Callable[..., None], *data: Any, start: Optional[dict[str, Array]] = None) -> MCMC:
    """Two chains, from `start` where it is given.

    A chain of a mixture that begins far away can stay in a mode of its own, on all data as on a coreset; and a coreset
    agrees with all data only where the posterior is. So the full fit is given a start, and the weighted fit starts from
    a draw of the posterior that the coreset was built on.
    """
    strategy = init_to_median() if start is None else init_to_value(values={k: v[-1] for k, v in start.items()})
    sampler = NUTS(model, init_strategy=strategy)
    mcmc = MCMC(sampler, num_warmup=400, num_samples=600, num_chains=2, chain_method="sequential", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), *data)
    return mcmc


def draws(mcmc: MCMC) -> dict[str, Array]:
    return {name: np.asarray(values) for name, values in mcmc.get_samples().items()}


def coreset(model: Callable[..., None], mcmc: MCMC, x: Array, y: Any, k: int) -> corelet.Coreset:
    """From a function of the draws and a slice of the data: the matrix of all log-likelihoods is never held."""
    theta = mcmc.get_samples()

    def log_likelihood_of(theta: dict[str, Any], rows: slice) -> Array:
        return np.asarray(log_likelihood(model, theta, x[rows], y[rows])["y"])

    return corelet.build_from_loglik(log_likelihood_of, k=k, theta=theta, n=len(y))


def check(
    name: str, model: Callable[..., None], x: Array, y: Any, k: int, start: Optional[dict[str, Array]] = None
) -> None:
    full = fit(model, x, y, start=start)
    cs = coreset(model, full, x, y, k)
    core = fit(model, x[cs.rows], y[cs.rows], cs.weights, start=draws(full))
    assert cs.quality.nats is not None and cs.quality.nats < 0.1
    assert compare(name, draws(full), draws(core)) < 0.3


def test_logistic() -> None:
    check("NumPyro, logistic", logistic, *logistic_data(), k=80)


def test_mixture_of_regressions() -> None:
    check("NumPyro, mixture of two regressions", mixture, *mixture_data(), k=120, start={"intercepts": np.array([[-1.0, 1.0]])})
