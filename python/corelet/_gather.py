"""One pass over all rows: the log-likelihood of everything at each draw, and a pool of candidates for a coreset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ._beside import in_order
from ._coreset import Coreset
from ._lib import CoreletError

Which = Union[slice, NDArray[np.int64]]
"""Rows, as a slice or by their ascending numbers."""

AT_ONCE = 1 << 20
"""Log-likelihoods that are asked for at once: 8 MB of them."""

NORM_DRAWS = 64
"""Draws that tell well enough how much the log-likelihood of a row varies, to sample by it."""


def block_size(n: int, draws: int) -> int:
    """How many of n rows are asked for at once, at so many draws."""
    return min(n, max(1, AT_ONCE // max(1, draws)))


class Units:
    """What is chosen: rows, or groups of rows, whose log-likelihoods are added."""

    def __init__(self, n: int, groups: Any = None) -> None:
        self.n = n
        self.count = n
        self.labels: Optional[NDArray[Any]] = None
        if groups is None:
            return
        names = np.asarray(groups)
        if names.ndim != 1 or len(names) != n:
            raise CoreletError(f"groups has shape {names.shape}; it must have one entry for each of the {n} rows")
        if names.dtype.kind == "f" and not np.isfinite(names).all():
            raise CoreletError(f"the group of row {int(np.argmin(np.isfinite(names)))} is missing")
        self.labels, codes = np.unique(names, return_inverse=True)
        self.count = len(self.labels)
        order = np.argsort(codes, kind="stable")
        self._order = None if np.array_equal(order, np.arange(n)) else order.astype(np.int64)
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=self.count))]).astype(np.int64)

    def blocks(self, draws: int) -> Iterator[slice]:
        """Consecutive units, as many at a time as may be asked for at once."""
        most = max(1, AT_ONCE // max(draws, 1))
        if self.labels is None:
            for start in range(0, self.n, most):
                yield slice(start, min(start + most, self.n))
            return
        start = 0
        while start < self.count:
            stop = int(np.searchsorted(self._ends, self._ends[start] + most, side="right")) - 1
            stop = min(max(stop, start + 1), self.count)
            yield slice(start, stop)
            start = stop

    def rows(self, units: Which) -> Which:
        """The rows of these units, in the order in which `add` wants them."""
        if self.labels is None:
            return units
        if isinstance(units, slice):
            span = slice(int(self._ends[units.start]), int(self._ends[units.stop]))
            return span if self._order is None else self._order[span]
        places = np.concatenate([np.arange(self._ends[unit], self._ends[unit + 1]) for unit in units])
        return places if self._order is None else self._order[places]

    def add(self, values: NDArray[Any], units: Which) -> NDArray[Any]:
        """Draws by rows as draws by units."""
        if self.labels is None:
            return values
        ids = np.arange(units.start, units.stop) if isinstance(units, slice) else units
        sizes = self._ends[ids + 1] - self._ends[ids]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return np.add.reduceat(values, starts, axis=1)

    def expand(self, ids: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows, ascending, with the weight of their unit."""
        if self.labels is None:
            return ids, weights
        rows = self.rows(ids)
        assert not isinstance(rows, slice)
        repeated = np.repeat(weights, self._ends[ids + 1] - self._ends[ids])
        order = np.argsort(rows, kind="stable")
        return rows[order], repeated[order]


def expanded(coreset: Coreset, units: Units) -> Coreset:
    """A coreset of groups, as one of their rows."""
    if units.labels is None:
        return coreset
    ids, weights = coreset.rows, coreset.weights
    rows, row_weights = units.expand(ids, weights)
    summary = {**coreset.summary, "n": units.n, "groups": units.count, "groups_chosen": len(ids)}
    labels = units.labels[ids]
    return replace(
        coreset, rows=rows, weights=row_weights, summary=summary, groups=labels, group_ids=ids, group_weights=weights
    )


class LogLikelihood:
    """A user's function of draws and rows, whose answers are checked."""

    def __init__(self, function: Callable[[Any, Which], Any], units: Units, at_once: int = 1) -> None:
        self.function = function
        self.units = units
        self.at_once = at_once
        """How many threads may call it at a time."""

    def __call__(self, theta: Any, draws: int, units: Which) -> NDArray[np.float64]:
        """Draws by units."""
        rows = self.units.rows(units)
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        answer = self.function(theta, rows)
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise CoreletError(f"the function returned {type(answer)}, which is not an array of numbers") from error
        if values.shape != (draws, count):
            where = f"rows {rows.start} to {rows.stop}" if isinstance(rows, slice) else f"{count} rows"
            raise CoreletError(
                f"the function returned an array of shape {values.shape} for {where}; it must be ({draws}, {count}), "
                "draws by rows"
            )
        return self.units.add(values, units)

    def explain(self, values: NDArray[np.float64], units: Which) -> CoreletError:
        """The first of these that is not finite."""
        draw, at = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        unit = units.start + at if isinstance(units, slice) else int(units[at])
        what = f"row {unit}" if self.units.labels is None else f"group {self.units.labels[unit]}"
        return CoreletError(f"the log-likelihood of {what} at draw {draw} is not finite ({values[draw, at]})")


@dataclass(frozen=True, eq=False)
class Gathered:
    """What one pass at S draws found."""

    totals: NDArray[np.float64]
    """The log-likelihood of all units at each draw."""
    pool: NDArray[np.int64]
    """Candidates, ascending."""
    columns: NDArray[np.float64]
    """Their log-likelihoods, candidates × draws."""

    def errors(self, ids: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """L(θ) − L_w(θ) at each draw, of a coreset whose units are in the pool."""
        return self.totals - self.weighted(ids, weights)

    def weighted(self, ids: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """L_w(θ) at each draw."""
        return weights @ self.columns[np.searchsorted(self.pool, ids)]


def gather(
    log_likelihood: LogLikelihood,
    theta: Any,
    draws: int,
    *,
    size: int,
    keep: Optional[NDArray[np.int64]] = None,
    seed: int = 0,
    strict: bool = True,
) -> Gathered:
    """One pass for the totals and a sample of `size` units, and a call for the columns of these.

    A unit is in the pool with a chance that grows with the standard deviation of its log-likelihood over the draws (of
    which every unit has at least half the average, so that none is without a chance); `keep` are in it anyhow. Where not
    `strict`, a draw at which a log-likelihood is not finite has a total that is not.
    """
    units = log_likelihood.units
    totals, norms = np.zeros(draws), np.empty(units.count)
    some = slice(None, None, max(1, draws // NORM_DRAWS))

    def look(block: slice) -> NDArray[np.float64]:
        values = log_likelihood(theta, draws, block)
        sums: NDArray[np.float64] = values @ np.ones(values.shape[1])
        if strict and not np.isfinite(sums).all():
            raise log_likelihood.explain(values, block)
        with np.errstate(invalid="ignore"):
            norms[block] = values[some].std(axis=0)
        return sums

    for sums in in_order(look, units.blocks(draws), log_likelihood.at_once):
        totals += sums
    pool = _sample(np.nan_to_num(norms, nan=0.0, posinf=0.0), min(size, units.count), seed)
    if keep is not None:
        pool = np.union1d(pool, keep)
    columns = np.empty((len(pool), draws))
    step = max(1, AT_ONCE // draws)
    for start in range(0, len(pool), step):
        columns[start : start + step] = log_likelihood(theta, draws, pool[start : start + step]).T
    return Gathered(totals, pool, columns)


def _sample(norms: NDArray[np.float64], size: int, seed: int) -> NDArray[np.int64]:
    """Without replacement, ∝ norm + half their mean: the first of exponential clocks to ring. Ascending."""
    if size >= len(norms):
        return np.arange(len(norms), dtype=np.int64)
    clocks = np.random.default_rng(seed).exponential(size=len(norms))
    with np.errstate(divide="ignore", invalid="ignore"):
        rings = clocks / (norms + 0.5 * norms.mean() + np.finfo(float).tiny)
    return np.sort(np.argpartition(rings, size)[:size]).astype(np.int64)
