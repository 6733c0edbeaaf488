"""What an adapter of models with gradients has besides: the posterior as a density on ℝᵖ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from ..results.draws import Draws

Numbers = NDArray[np.float64]

MOST_EFFECTS = 2000
"""Effects beyond which the coordinates themselves serve: their Hessian is a matrix."""


class Differentiable(Protocol):
    """Points are lines of p unconstrained numbers."""

    @property
    def dimension(self) -> int:
        """p."""

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the final chains, and the acceptance rate that their step size is adapted to."""

    def coordinates(self) -> list[str]:
        """The name of each of the p numbers."""

    def places(self, count: int) -> Numbers:
        """So many points, far apart, from which a search for modes may begin."""

    def unconstrained(self, draws: Draws) -> Numbers:
        """Draws as points; not finite where a draw is at the edge of its range."""

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        """Chains × draws × p numbers as draws, with statistics of the sampler, chains × draws, where it was one."""

    def slopes(
        self, at: Numbers, rows: Optional[NDArray[np.int64]], weights: Optional[Numbers] = None
    ) -> tuple[Numbers, Numbers]:
        """The log-likelihood of these rows, each times its weight, and its gradient at each point; of all rows where none are named."""

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """The log density of the prior, with potentials and Jacobians, and its gradient at each point."""


class ByEffects(Protocol):
    """The log-likelihood as a function of its effects: what it sees of the p numbers, where that is something else than these."""

    @property
    def names(self) -> list[str]:
        """The name of each effect."""

    @property
    def count(self) -> int:
        """How many there are."""

    def at(self, points: Numbers) -> Numbers:
        """The effects at points, a line for each."""

    def pull_back(self, points: Numbers, slopes: Numbers) -> Numbers:
        """Slopes by the effects as slopes by the p numbers at these points."""

    def slopes(
        self, at: Numbers, rows: Optional[NDArray[np.int64]], weights: Optional[Numbers] = None
    ) -> tuple[Numbers, Numbers]:
        """As those of `Differentiable`, at lines of effects."""


def names_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """Of the entries of an array: its own where it is one number."""
    return [f"{name}[{', '.join(map(str, at))}]" if at else name for at in np.ndindex(*shape)]


def in_lines(points: Any, dimension: int) -> Numbers:
    """Points as the engine takes them: a table in memory, line by line."""
    return np.ascontiguousarray(points, dtype=np.float64).reshape(-1, dimension)
