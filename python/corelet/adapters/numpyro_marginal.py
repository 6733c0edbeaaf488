"""A NumPyro model with a latent site integrated out: its log densities as functions of one value for each group, and the draws that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .._lib import CoreletError
from ..results.draws import Draws
from .chains import first_line
from .gaussian import Numbers
from . import integrated as limits
from .integrated import COMPARED, pays
from .marginal import Marginal
from .numpyro_check import tolerance
from .numpyro_latent import Latent, best_latent, latent_of
from .numpyro_model import Sampler
from .numpyro_quadrature import Functions, XlaLoops
from .numpyro_rows import Rows

OWN = {"target_accept_prob"}
"""Settings of NUTS that Corelet's own has too."""


class NumPyroMarginal:
    """The other sites, and compiled functions of rows and groups."""

    def __init__(self, tool: Sampler, latent: Latent) -> None:
        self.tool = tool
        self.latent = latent
        self.labels = np.arange(latent.levels)
        middle = tool.constrained(np.zeros((2, tool.dimension))).values[latent.site][0, 0]
        self.left = left = tool.like(latent.left(jnp.asarray(middle)))
        """The model without it."""

        def rows(phi: Any, v: Any, data: tuple[Any, ...]) -> Any:
            codes, *values = data
            return latent.log_likelihood(left.apart(phi), v, codes, values)

        def prior(phi: Any, u: Any, others: tuple[Any, ...]) -> Any:
            return latent.log_density(left.apart(phi), u, others[0], tool.few)

        def effect(phi: Any, u: Any, others: tuple[Any, ...]) -> Any:
            return latent.effect(left.apart(phi), u, others[0], tool.few)

        self.loops = XlaLoops(Functions(rows, prior, effect), tool.once, self.data(np.zeros(1, np.int64)))
        self._check()

    @property
    def name(self) -> str:
        return self.latent.name

    def _check(self) -> None:
        """Against the model itself: the log-likelihood of all rows with the values of their groups, and the rest of the log density."""
        tool, latent, known = self.tool, self.latent, self.tool.known
        assert known is not None
        draws = Draws({name: np.asarray(values)[None] for name, values in known.theta.items()})
        every, points = np.arange(latent.levels), tool.unconstrained(draws)
        few = np.arange(0, latent.levels, max(latent.levels // COMPARED, 2))
        at = next(piece for name, piece, _ in tool.layout() if name == latent.site)
        for point, expected in zip(points, known.rows):
            value, others = np.ascontiguousarray(point[at]), np.delete(point, at)
            own = self.loops.prior(others, value, self.others(every))
            if not np.allclose(self.loops.prior(others, value[few], self.others(few)), own[few], rtol=1e-6, atol=1e-6):
                raise CoreletError(f"the prior of a value of {latent.site} depends on its other values")
            rows = self.loops.values(others, value[latent.codes], self.data(np.arange(tool.rows.n)))
            whole = tool.log_prior(point[None])[0][0]
            both = self.log_prior(others[None])[0][0] + own.sum()
            near = np.allclose(rows, expected, rtol=tolerance(), atol=tolerance(), equal_nan=True)
            if not (near and np.isclose(both, whole, rtol=tolerance(), atol=tolerance(), equal_nan=True)):
                raise CoreletError(f"the log density with {latent.site} taken group by group is not that of the model")

    @property
    def dimension(self) -> int:
        return self.left.dimension

    @property
    def length(self) -> tuple[int, int, int, float]:
        return self.tool.length

    def data(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return (self.latent.codes[rows], *self.tool.rows.take(rows, 0))

    def others(self, groups: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return (np.asarray(groups),)

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        return self.left.log_prior(at)

    def places(self, count: int) -> Numbers:
        return self.left.places(count)

    def coordinates(self) -> list[str]:
        return self.left.coordinates()

    def unconstrained(self, draws: Draws) -> Numbers:
        return self.left.unconstrained(draws)

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        found = self.left.constrained(points, stats)
        return Draws(found.values, found.chained, int(stats["diverging"].sum()) if stats else 0)

    def only_left(self, draws: Draws) -> Draws:
        return draws.only(self.left.rows.latent, "site")

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        return self.left.inference_data(draws, attributes)


def sought(rows: Rows, asked: str, kernel: Mapping[str, Any], notes: list[str]) -> Optional[Latent]:
    """A latent site that is to be integrated out: that of this name, or where `auto` says that it pays."""
    if asked == "none":
        return None
    if asked != "auto":
        if asked not in rows.latent:
            known = ", ".join(rows.latent)
            raise CoreletError(f"marginalise is '{asked}', but it must be auto, none or a latent site of the model: {known}")
        if not _precise():
            raise CoreletError(f"{asked} cannot be integrated out in single precision; call numpyro.enable_x64() first, or marginalise='none' samples it")
        try:
            return latent_of(rows, asked)
        except Exception as error:  # What a user's model raises where it is traced for other rows.
            raise _refused(asked, error) from error
    if set(kernel) - OWN:
        return None
    try:
        latent = best_latent(rows, limits.FEWEST_LEVELS)
    except Exception:  # A model that cannot be followed is sampled as it is.
        return None
    if latent is None or not pays(latent.codes, latent.beside):
        return None
    if not _precise():
        notes.append(f"{latent.name} was not integrated out: that takes double precision; call numpyro.enable_x64() first")
        return None
    return latent


def integrated(tool: Sampler, latent: Latent, asked: str, notes: list[str]) -> Optional[Marginal]:
    """The model with this site integrated out; what forbids it is noted, or raised where it was asked for."""
    try:
        return Marginal(NumPyroMarginal(tool, latent), latent.codes, tool.seed)
    except Exception as error:  # The same.
        if asked != "auto":
            raise _refused(latent.site, error) from error
        notes.append(f"{latent.name} was not integrated out: {_words(error)}")
        return None


def _refused(name: str, error: Exception) -> CoreletError:
    return CoreletError(f"{name} cannot be integrated out: {_words(error)}; marginalise='none' samples it")


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, CoreletError) else f"it cannot be computed group by group ({first_line(error)})"


def _precise() -> bool:
    return bool(np.finfo(jnp.result_type(float)).eps < 1e-10)
