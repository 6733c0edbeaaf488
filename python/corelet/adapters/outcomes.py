"""Outcomes that a model of any tool draws for some rows, against those that were observed: what a review says of the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from ..frames.columns import column
from ..frames.units import Which
from ..results.draws import Draws

BINARY, COUNTS, NUMBERS = "binary", "counts", "numbers"
"""What outcomes are. Classes that are more than two are not checked."""
BLOCK = 8192
"""Rows at a time: nothing of size draws × rows is held."""


class Simulator(Protocol):
    """A model whose outcomes can be drawn."""

    kind: str
    """One of the above."""
    observed: NDArray[np.float64]
    """The outcome of each row."""

    def simulate(self, theta: Any, rows: Which) -> NDArray[np.float64]:
        """An outcome of each of these rows at each draw: draws × rows."""


@dataclass(frozen=True)
class Levels:
    """A column by which outcomes are looked at."""

    labels: list[str]
    """Its levels, or ranges of its numbers."""
    codes: NDArray[np.uint32]
    """The place of each row's."""


def levels_by(by: Any, n: int, find: Optional[Callable[[str], Any]] = None) -> Optional[Levels]:
    """The levels of a value for each row, or of what `find` has under a name; None where nothing is asked."""
    if by is None:
        return None
    name = by if isinstance(by, str) else str(getattr(by, "name", None) or "by")
    if isinstance(by, str):
        if find is None:
            raise _lib.CoreletError(f"by='{by}' names a column, but there is no table of rows here: give one value for each row")
        by = find(by)
    part = column(name, by)
    if len(part[1]) != n:
        raise _lib.CoreletError(f"by has {len(part[1])} values for {n} rows; it must have one for each, in the order of the rows")
    return Levels(*_lib.levels_of(("rows", [part]), part[0][0], n))


class Simulated:
    """A user's function as such a model."""

    def __init__(self, simulate: Any, y: Any, n: int) -> None:
        if not callable(simulate):
            raise TypeError("simulate must be a function")
        array = np.asarray(y)
        if array.shape != (n,) or array.dtype.kind not in "biuf":
            raise _lib.CoreletError(f"y has shape {array.shape} and holds {array.dtype}; it must be one number for each of {n} rows")
        if not np.isfinite(array).all():
            raise _lib.CoreletError(f"y of row {int(np.argmin(np.isfinite(array)))} is not finite")
        self.kind = {"b": BINARY, "f": NUMBERS}.get(array.dtype.kind, COUNTS)
        self.observed = array.astype(np.float64)
        self._simulate = simulate

    def simulate(self, theta: Any, rows: Which) -> NDArray[np.float64]:
        """What the function draws, which must be draws by rows and finite."""
        drawn = np.asarray(self._simulate(theta, rows), np.float64)
        count = len(next(iter(theta.values())) if isinstance(theta, Mapping) else theta)
        expected = (count, len(self.observed[rows]))
        if drawn.shape != expected:
            raise _lib.CoreletError(f"simulate returned shape {drawn.shape}; it must return draws × rows, here {expected}")
        if not np.isfinite(drawn).all():
            raise _lib.CoreletError("simulate returned outcomes that are not finite")
        return drawn


def checked(
    simulator: Optional[Simulator],
    log_likelihood: Any,
    draws: Draws,
    log_weights: Optional[NDArray[np.float64]],
    most: int,
    seed: int,
    levels: Optional[Levels] = None,
) -> Optional[Any]:
    """Sums over all rows at no more than `most` draws, and over those of each level; None where there is nothing to draw."""
    if simulator is None or most == 0:
        if levels is not None:
            why = "outcomes is 0" if most == 0 else "they are not one number for each row that the model can draw"
            raise _lib.CoreletError(f"by asks for checks of outcomes by a column, but outcomes are not checked: {why}")
        return None
    some = _weighted(draws, log_weights, most, seed)
    theta, count = some.flat(), some.count
    checks = _lib.OutcomeChecks(simulator.kind, count)
    chances = np.random.default_rng(seed)
    n = len(simulator.observed)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        y = np.ascontiguousarray(simulator.observed[rows])
        uniform = chances.random(len(y))
        codes = None if levels is None else levels.codes[rows]
        if simulator.kind == BINARY:
            # The likelihood of what was observed is its probability.
            seen = np.exp(np.asarray(log_likelihood(theta, rows), np.float64))
            probabilities = np.ascontiguousarray(np.where(y == 1.0, seen, 1.0 - seen))
            drawn = (chances.random(probabilities.shape) < probabilities).astype(np.float64)
            checks.add(y, drawn, uniform, probabilities, codes)
            continue
        drawn = np.ascontiguousarray(simulator.simulate(theta, rows), dtype=np.float64)
        if not np.isfinite(drawn).all():
            if levels is not None:
                raise _lib.CoreletError(f"outcomes that the model drew of rows {rows.start} to {rows.stop} are not finite, so that none can be checked")
            return None
        checks.add(y, drawn, uniform, None, codes)
    return checks


def _weighted(draws: Draws, log_weights: Optional[NDArray[np.float64]], most: int, seed: int) -> Draws:
    """At most so many, by their weights where they have any."""
    if log_weights is None:
        return draws.thin(most)
    weights = np.exp(log_weights - log_weights.max())
    ends = np.cumsum(weights / weights.sum())
    at = np.searchsorted(ends, (np.arange(most) + np.random.default_rng(seed).random()) / most)
    return draws.take(np.minimum(at, draws.count - 1))
