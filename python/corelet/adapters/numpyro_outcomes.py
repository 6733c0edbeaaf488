"""Outcomes of some rows of a NumPyro model, drawn at draws of its posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy.typing import NDArray
from numpyro.handlers import seed as seeded
from numpyro.handlers import substitute, trace

from .._lib import CoreletError
from .numpyro_rows import Rows, is_factor, shape_of_rows
from .outcomes import BINARY, BLOCK, COUNTS, NUMBERS
from ..frames.units import Which

CLASSES = ("Categorical", "OrderedLogistic", "Multinomial", "OneHot")
"""Distributions whose names begin so are of classes, whose numbers mean nothing."""


class NumPyroOutcomes:
    """What was observed, and what the model draws in its place."""

    def __init__(self, rows: Rows, seed: int) -> None:
        (self._site,) = rows.likelihood
        site = rows.sites[self._site]
        self.observed = np.asarray(rows.observed(self._site), np.float64)
        support = site["fn"].support
        self.kind = NUMBERS
        if support.is_discrete:
            two = type(site["fn"]).__name__.startswith("Bernoulli")
            self.kind = BINARY if two and np.isin(self.observed, (0.0, 1.0)).all() else COUNTS
        self._rows = rows
        self._key = jax.random.PRNGKey(seed)

        def one(theta: Any, key: Any, data: Any) -> Any:
            args, kwargs = rows.call(data)
            sites = trace(substitute(seeded(rows.model, 0), data=dict(theta))).get_trace(*args, **kwargs)
            site = sites[self._site]
            # A distribution without predictors is that of each row.
            return site["fn"].expand(np.shape(site["value"])).sample(key)

        self._draw = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))

    def simulate(self, theta: Any, rows: Which) -> NDArray[np.float64]:
        """Draws by rows."""
        first = rows.start if isinstance(rows, slice) else int(rows[0])
        size = min(BLOCK, self._rows.n)
        count = len(next(iter(theta.values())))
        keys = jax.random.split(jax.random.fold_in(self._key, first), count)
        drawn = self._draw({name: jnp.asarray(theta[name]) for name in self._rows.latent}, keys, self._rows.take(rows, size))
        length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        return np.asarray(drawn, np.float64)[:, :length]


def improper(rows: Rows) -> Optional[str]:
    """The first latent site whose prior is no distribution."""
    for name in rows.latent:
        base: Any = rows.sites[name]["fn"]
        while hasattr(base, "base_dist") and not isinstance(base, dist.MaskedDistribution):
            base = base.base_dist
        if isinstance(base, (dist.ImproperUniform, dist.MaskedDistribution)):
            return name
    return None


def observed_of(rows: Rows) -> Optional[NDArray[np.float64]]:
    """The outcome of each row, where it is one number."""
    if len(rows.likelihood) != 1 or is_factor(rows.sites[rows.likelihood[0]]):
        return None
    values = np.asarray(rows.observed(rows.likelihood[0]))
    return values.astype(np.float64) if values.shape == (rows.n,) else None


def column_of(rows: Rows, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> Any:
    """An argument of the model with one value for each row."""
    given = signature(rows.model).bind(*args, **kwargs).arguments
    given = {**given, **given.pop("kwargs", {})} if isinstance(given.get("kwargs"), Mapping) else given
    fitting = {key: values for key, values in given.items() if np.shape(values) == (rows.n,)}
    if name not in fitting:
        known = f"it has {', '.join(fitting)}" if fitting else "it has none; give the values themselves"
        raise CoreletError(f"by='{name}' is no argument of the model with one value for each row; {known}")
    return fitting[name]


def outcomes_of(rows: Rows, seed: int) -> Optional[NumPyroOutcomes]:
    """None where outcomes are of several sites, are classes, or are no numbers."""
    if len(rows.likelihood) != 1:
        return None
    site = rows.sites[rows.likelihood[0]]
    if is_factor(site) or len(shape_of_rows(site)) != 1 or np.ndim(site["value"]) != 1:
        return None
    base: Any = site["fn"]
    while isinstance(base, (dist.MaskedDistribution, dist.ExpandedDistribution, dist.Independent)):
        base = base.base_dist
    if type(base).__name__.startswith(CLASSES) or not hasattr(base, "support"):
        return None
    return NumPyroOutcomes(rows, seed)
