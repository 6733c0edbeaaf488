"""Models that live in Python, as the engine asks them: draws as one table, log-likelihoods as one matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from ..results.draws import Draws
from ..frames.units import Units, Which
from .gaussian import Differentiable, in_lines, names_of


class Sampler(Protocol):
    """What a tool's adapter has: draws of the posterior given weighted rows, log-likelihoods and, where it can, gradients."""

    @property
    def last_steps(self) -> int:
        """Steps of the final chains, warm-up included; 0 where these are no longer than others."""

    @property
    def at_once(self) -> int:
        """How many threads may ask for log-likelihoods at a time."""

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        """Chains, from draws `start` where there are any; at least about `draws` in all, unless `final`."""

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        """Draws by rows."""


@dataclass(frozen=True)
class Layout:
    """Which variables stand where in a table of draws × numbers."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, draws: Draws) -> Layout:
        """Of these draws."""
        arrays = draws.values.values()
        return cls(tuple(draws.values), tuple(array.shape[2:] for array in arrays), tuple(array.dtype for array in arrays))

    def table(self, draws: Draws) -> NDArray[np.float64]:
        """Chains × draws × numbers."""
        leading = draws.shape
        columns = [array.reshape(*leading, -1) for array in draws.values.values()]
        return np.ascontiguousarray(np.concatenate(columns, axis=2, dtype=np.float64))

    def draws(self, table: NDArray[np.float64], chained: bool = True) -> Draws:
        """The variables of such a table."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        values, start = {}, 0
        for name, shape, dtype, end in zip(self.names, self.shapes, self.dtypes, ends):
            values[name] = table[:, :, start:end].reshape(*table.shape[:2], *shape).astype(dtype, copy=False)
            start = int(end)
        return Draws(values, chained)

    def entries(self) -> list[str]:
        """The name of each number; an array without names is `theta`."""
        return [entry for name, shape in zip(self.names, self.shapes) for entry in names_of(name or "theta", shape)]

    def same_as(self, other: Layout) -> bool:
        """Whether both are of the same variables."""
        return (self.names, self.shapes) == (other.names, other.shapes)


class Bridge:
    """A sampler behind the interface that the engine calls."""

    def __init__(self, sampler: Sampler, units: Units, parameters: int = 0) -> None:
        self.sampler = sampler
        self.n = units.n
        self.units = units
        self.parameters = parameters
        self.at_once = sampler.at_once
        self.final_steps = sampler.last_steps
        self.layout: Optional[Layout] = None
        self._model: Any = sampler
        self.coordinates: int = getattr(sampler, "dimension", 0)
        """Of the unconstrained space in which the model has gradients; 0 where it has none."""
        self.length: tuple[int, int, int, float] = getattr(sampler, "length", (0, 0, 0, 0.0))
        self.blocks: Optional[str] = getattr(sampler, "blocks", None)
        """What certifies the rows that some of these stand for."""
        self.stands_for: int = getattr(sampler, "stands_for", 0)
        """How many rows all stand for then."""
        self._effects: Any = getattr(sampler, "effects", None)
        self.effects: int = 0 if self._effects is None else self._effects.count
        """That the likelihood sees of the coordinates; 0 where it sees these themselves."""

    @property
    def members(self) -> Optional[NDArray[np.int64]]:
        """The group of each row, where the sampler's rows are groups with a latent variable integrated out."""
        return getattr(self.sampler, "members", None)

    def integrals(self, table: NDArray[np.float64]) -> tuple[int, int, int, float]:
        """How exact the integrals are at these draws: nodes, points of the rule that they are compared with, groups on which they are, and
        by how much they move the posterior."""
        return self.sampler.checked(self.draws(table))  # type: ignore[attr-defined,no-any-return]

    def given(self, draws: Draws) -> tuple[NDArray[np.float64], bool, int]:
        """Draws as the engine takes them."""
        layout = Layout.of(draws)
        if self.layout is None:
            self.layout = layout
        elif not layout.same_as(self.layout):
            raise _lib.CoreletError("the draws of the weighted fit are not of the variables that the pilot has")
        return layout.table(draws), draws.chained, draws.diverged

    def draws(self, table: NDArray[np.float64], chained: bool = True) -> Draws:
        """Draws of the engine as variables."""
        assert self.layout is not None
        return self.layout.draws(table, chained)

    def entries(self) -> list[str]:
        """The names of the numbers of a draw."""
        return [] if self.layout is None else self.layout.entries()

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[NDArray[np.float64]],
        draws: int,
        final: bool,
    ) -> tuple[NDArray[np.float64], bool, int]:
        """Chains × draws × numbers, whether the chains are known, and divergent draws."""
        began = None if start is None else self.draws(start)
        return self.given(self.sampler.sample(rows, weights, began, draws, final))

    def place(self, table: NDArray[np.float64]) -> tuple[Any, int]:
        """Draws as the model is asked at them, without their chains, and how many there are."""
        draws = self.draws(table)
        return draws.flat(), draws.count

    def log_likelihood(self, place: tuple[Any, int], rows: Which) -> NDArray[np.float64]:
        """Draws by rows."""
        theta, draws = place
        return checked(self.sampler.log_likelihood(theta, rows), draws, rows)

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], table: NDArray[np.float64], most: int
    ) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64], int]]:
        """Draws and the gradient of the weighted log posterior there, draws × numbers, and how many chains they are of."""
        ask = getattr(self.sampler, "scores", None)
        answer = None if ask is None else ask(rows, weights, self.draws(table), most)
        if answer is None:
            return None
        theta, gradient = (np.ascontiguousarray(part, dtype=np.float64) for part in answer)
        return theta, gradient, len(table)

    def before_all_rows(self, seconds: float) -> None:
        """All rows are to be sampled, which takes so many seconds: an adapter that knows a faster way raises what ends the fit."""
        ask = getattr(self.sampler, "before_all_rows", None)
        if ask is not None:
            ask(seconds)

    # Of models with gradients.

    @property
    def model(self) -> Differentiable:
        """The adapter."""
        return self._model  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        """Of the coordinates."""
        return self.model.coordinates()

    def starts(self, count: int) -> NDArray[np.float64]:
        """Points to climb from."""
        return in_lines(self.model.places(count), self.coordinates)

    def unconstrained(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draws as points."""
        return in_lines(self.model.unconstrained(self.draws(table)), self.coordinates)

    def slopes(
        self,
        at: NDArray[np.float64],
        rows: Optional[NDArray[np.int64]],
        weights: Optional[NDArray[np.float64]] = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of rows and its gradient."""
        values, gradients = self.model.slopes(at, rows, weights)
        return np.asarray(values, np.float64), in_lines(gradients, self.coordinates)

    def prior_slopes(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log prior and its gradient."""
        values, gradients = self.model.log_prior(at)
        return np.asarray(values, np.float64), in_lines(gradients, self.coordinates)

    def effect_names(self) -> list[str]:
        """Of the effects."""
        return list(self._effects.names)

    def effects_at(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The effects at points."""
        return in_lines(self._effects.at(points), self.effects)

    def pull_back(self, points: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Slopes by the effects as slopes by the coordinates."""
        return in_lines(self._effects.pull_back(points, slopes), self.coordinates)

    def effect_slopes(
        self, effects: NDArray[np.float64], rows: Optional[NDArray[np.int64]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of rows and its gradient by the effects."""
        values, gradients = self._effects.slopes(effects, rows)
        return np.asarray(values, np.float64), in_lines(gradients, self.effects)

    def constrained(
        self, points: NDArray[np.float64], stats: Optional[dict[str, NDArray[np.float64]]]
    ) -> tuple[NDArray[np.float64], bool, int]:
        """Chains of points as `sample` returns draws."""
        diverged = int(stats["diverging"].sum()) if stats else 0
        return self.given(replace(self.model.constrained(points, stats), diverged=diverged))


class GivenDraws:
    """A function of draws that are known beforehand, behind the same interface."""

    parameters, final_steps, at_once, coordinates, effects, length = 0, 0, 1, 0, 0, (0, 0, 0, 0.0)
    blocks, stands_for = None, 0

    def __init__(self, function: Any, theta: Any, draws: int, n: int) -> None:
        self.n = n
        self._function = function
        self._theta = theta
        self._draws = draws

    def place(self, table: NDArray[np.float64]) -> Any:
        """The draws, whatever the engine calls them."""
        return self._theta

    def log_likelihood(self, theta: Any, rows: Which) -> NDArray[np.float64]:
        """Draws by rows."""
        return checked(self._function(theta, rows), self._draws, rows)


def checked(answer: Any, draws: int, rows: Which) -> NDArray[np.float64]:
    """What a user's function returned, as a matrix of draws by rows."""
    count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _lib.CoreletError(f"the function returned {type(answer)}, which is not an array of numbers") from error
    if values.shape != (draws, count):
        where = f"rows {rows.start} to {rows.stop}" if isinstance(rows, slice) else f"{count} rows"
        raise _lib.CoreletError(
            f"the function returned an array of shape {values.shape} for {where}; it must be ({draws}, {count}), draws by rows"
        )
    return np.ascontiguousarray(values)


def gathered(
    function: Any, theta: Any, draws: int, units: Units, *, size: int, keep: NDArray[np.int64], seed: int
) -> dict[str, Any]:
    """One pass of a function over all units: `totals` at each draw, a `pool` of candidates, and their `columns`."""
    seen = _lib.gather(GivenDraws(function, theta, draws, units.n), units.codes, draws, (size, keep, seed))
    if seen["not_finite"] is not None:
        unit, draw, value = seen["not_finite"]
        raise _lib.CoreletError(f"the log-likelihood of {units.name(unit)} at draw {draw} is not finite ({value})")
    return seen
