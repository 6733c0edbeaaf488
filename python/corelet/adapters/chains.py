"""What chains of any tool have: their lengths, the sampler's statistics beside the draws, and its failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._build import _count
from .._lib import CoreletError
from ..results.draws import Draws


TYPES = {"diverging": np.bool_, "n_steps": np.int64, "tree_depth": np.int64}
"""Of statistics of the sampler that are not numbers on a scale."""


class SamplerFailed(RuntimeError):
    """A sampler that could not draw, in one line: the engine draws a larger pilot then, and the last one is what a user is told."""


class Steps(NamedTuple):
    """Of some chains."""

    draws: int
    tune: int
    chains: int

    @property
    def total(self) -> int:
        """Of all of them, warm-up included."""
        return self.chains * (self.draws + self.tune)


def lengths_of(draws: int, tune: int, chains: int) -> Steps:
    """Draws, warm-up and number of the final chains, where chains can have them."""
    found = []
    for name, value, least in (("draws", draws, 4), ("tune", tune, 0), ("chains", chains, 1)):
        count = _count(name, value)
        if count is None or count < least:
            raise CoreletError(f"{name} = {count} cannot be used: it must be at least {least}")
        found.append(count)
    return Steps(*found)


class Statistics:
    """The sampler's statistics of the chains that it drew, chains × draws × …, which are found again by their draws."""

    def __init__(self) -> None:
        self._kept: list[tuple[Draws, Mapping[str, NDArray[Any]]]] = []

    def keep(self, draws: Draws, stats: Mapping[str, NDArray[Any]]) -> None:
        """Of these chains. Numbers of Corelet's own sampler are all floats; ArviZ takes flags and counts as such."""
        self._kept.append((draws, {name: np.asarray(values).astype(TYPES.get(name, values.dtype)) for name, values in stats.items()}))

    def of(self, draws: Draws) -> dict[str, NDArray[Any]]:
        """Of draws that are chains of the sampler, or several runs of it on end; none of others."""
        first = next(iter(draws.values))
        whole, left = draws.values[first], draws.shape[1]
        runs: list[Mapping[str, NDArray[Any]]] = []
        for chains, stats in reversed(self._kept):
            values = chains.values[first]
            if np.array_equal(values, whole[:, max(left - values.shape[1], 0) : left]):
                runs.insert(0, stats)
                left -= values.shape[1]
        if left or not draws.chained:
            return {}
        names = [name for name in runs[0] if all(name in run for run in runs)]
        return {name: np.concatenate([run[name] for run in runs], axis=1) for name in names}


def first_line(error: BaseException) -> str:
    """What an error of another package says, in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"
