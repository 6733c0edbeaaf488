"""The marginal model of chosen groups for other tools: a Stan program with its data, and a NumPyro model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class StanMarginal:
    """A Stan program and its data."""

    program: str
    """The program."""
    data: dict[str, Any]
    """Its data, as CmdStanPy and PyStan take them."""


def numpyro_model(given: Mapping[str, Any]) -> Callable[[], None]:
    """A NumPyro model of what the native part says of the chosen groups."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.nn import log_sigmoid
    from jax.ops import segment_sum
    from jax.scipy.special import gammaln, logsumexp

    X, y, e, o, f, z, v, log_a = (np.asarray(given[name]) for name in ("X", "y", "e", "o", "f", "z", "v", "log_a"))
    w, original, known = np.asarray(given["w"]), np.asarray(given["original"]), float(given["known"])
    start = np.asarray(given["start"]) - 1
    group = np.repeat(np.arange(given["G"]), np.diff(start))
    features, constants, effects = int(given["K"]), int(given["C"]), int(given["E"])
    y, e, f = y[:, None], e[:, None], f[:, None]
    log_y = np.log(np.where(y > 0, y, 1.0))

    def row(eta: Any, c: Any) -> Any:
        likelihood = given["likelihood"]
        if likelihood == "logistic":
            return log_sigmoid(y * eta)
        if likelihood == "binomial":
            return y * log_sigmoid(eta) + (e - y) * log_sigmoid(-eta)
        if likelihood == "poisson":
            return y * eta - e * jnp.exp(eta)
        if likelihood == "negative-binomial":
            size = jnp.exp(c[0])
            return gammaln(y + size) - gammaln(size) + y * eta + size * c[0] - (y + size) * jnp.log(e * jnp.exp(eta) + size)
        if likelihood == "linear":
            log_sigma = c[0] if constants else np.log(known)
            return -log_sigma - 0.5 * ((y - eta) / jnp.exp(log_sigma)) ** 2
        if likelihood == "student":
            return -c[0] - 0.5 * (known + 1) * jnp.log1p(((y - eta) / jnp.exp(c[0])) ** 2 / known)
        if likelihood == "gamma":
            shape = jnp.exp(c[0])
            return shape * c[0] - gammaln(shape) - shape * (eta - log_y) - shape * y * jnp.exp(-eta)
        if likelihood == "weibull":
            return e * (c[0] + jnp.exp(c[0]) * (log_y - eta)) - jnp.exp(jnp.exp(c[0]) * (log_y - eta))
        return -e * eta - y * jnp.exp(-eta)

    def log_prior(theta: Any) -> Any:
        total = 0.0
        for j, prior in enumerate(given["priors"]):
            total += _density(dist, prior).log_prob(theta[j])
        at = features + constants
        for j, prior in enumerate(given["sd_priors"]):
            total += _of_log(dist, jnp, prior, theta[at + j])
        if given["lkj"] is not None:
            total += given["lkj"] * jnp.log1p(-jnp.tanh(theta[at + effects]) ** 2)
        return total

    def factors(theta: Any) -> tuple[Any, Any]:
        """The effects of factors that are parameters, by row, and their log prior."""
        at, eta, total = features + constants + effects + int(given["correlated"]), 0.0, 0.0
        for kept in given["kept"]:
            a, level = np.asarray(kept["a"]), np.asarray(kept["level"]) - 1
            log_sd, s = theta[at], theta[at + 1 : at + 1 + len(a)]
            eta += (jnp.exp(a * log_sd) * s)[level]
            total += _of_log(dist, jnp, kept["sd_prior"], log_sd)
            total += dist.Normal(0.0, jnp.exp((1 - a) * log_sd)).log_prob(s).sum()
            at += 1 + len(a)
        return eta, total

    def model() -> None:
        theta = numpyro.sample("theta", dist.ImproperUniform(dist.constraints.real_vector, (), (int(given["D"]),)))
        beta, c = theta[:features], theta[features : features + constants]
        at = features + constants
        u = [jnp.exp(theta[at]) * v[0]]
        if effects == 2:
            r = theta[at + 2] if given["correlated"] else 0.0
            u.append(jnp.exp(theta[at + 1]) * (jnp.tanh(r) * v[0] + v[1] / jnp.cosh(r)))
        moved, prior = factors(theta)
        eta = (X @ beta + o + moved)[:, None] + sum(z[:, [j]] * effect[group] for j, effect in enumerate(u))
        logs = log_a + segment_sum(f * row(eta, c), group, num_segments=int(given["G"]))
        numpyro.factor("prior", log_prior(theta) + prior)
        numpyro.factor("groups", w @ logsumexp(logs, axis=1))
        numpyro.deterministic("coefficients", original @ beta)

    return model


def _density(dist: Any, prior: str) -> Any:
    """A prior in words: `normal(0, 1)`."""
    name, numbers = _words(prior)
    kinds = {"normal": dist.Normal, "student_t": dist.StudentT, "laplace": dist.Laplace}
    return kinds[name](*numbers)


def _words(prior: str) -> tuple[str, list[float]]:
    name, _, inside = prior.removesuffix(")").partition("(")
    return name, [float(number) for number in inside.split(",")]


def _of_log(dist: Any, jnp: Any, prior: str, log_sd: Any) -> Any:
    """The log density of log sd, of a prior of the standard deviation in words."""
    name, numbers = _words(prior)
    sd = jnp.exp(log_sd)
    if name == "half_normal":
        density = dist.Normal(0.0, numbers[0]).log_prob(sd)
    elif name == "half_student_t":
        density = dist.StudentT(numbers[0], 0.0, numbers[1]).log_prob(sd)
    else:
        density = dist.Exponential(numbers[0]).log_prob(sd)
    return density + log_sd
