"""`corelet.update_model`: rows that arrive, joined to the coreset of a fit of any model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count
from ._fit import Fit, FitProgressOption, plan_of, run_rounds
from ._seeds import seeded
from .adapters.bridge import Layout, checked
from .adapters.functions import Functions
from .frames.units import Units, Which
from .results.draws import Draws

LOOKED = 16
"""Draws at which models are compared, and rows told from each other."""
CERTIFIED_BY = 2000
"""Draws that a certificate is carried by, at most."""
SAME = 1e-9
"""Log-likelihoods that differ by a smaller part are those of the same row."""
MARKED = 64
"""Rows of a block by which it is known again, at most."""
FEW_KINDS = 0.5
"""Where fewer rows than this share of all are told apart by their log-likelihoods, equal ones are no sign that any came twice."""


@seeded
def update_model(
    fit: Fit,
    sample: Callable[[NDArray[np.int64], NDArray[np.float64], Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    *,
    n: int,
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    max_rounds: int = 10,
    gradient: Optional[Callable[[Any, NDArray[np.int64], NDArray[np.float64]], Any]] = None,
    allow_repeats: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: FitProgressOption = None,
) -> Fit:
    """Add rows to a fit of `corelet.fit_model`, or to an update of one.

    The weighted rows of the fit's coreset stand for the rows before, which need not be there but for these. A coreset is chosen from
    them and the new rows together, sampled, and judged on both; what the certificate of the rows before leaves open is added to V.

    Parameters
    ----------
    fit
        What `fit_model` or `update_model` returned, by rows alone (`rest="none"`, without `groups`).
    sample, log_likelihood, gradient
        As for `fit_model`. Rows go on being numbered: the new ones are those after all that the fit stands for, and of the earlier ones
        only those in `fit.coreset.rows` are asked for.
    n
        Number of new rows.
    k, max_k
        Most rows of the coreset, to begin with and in the end; as many as the fit's has, and four times as many.
    allow_repeats
        Whether new rows may be equal to earlier ones, which else are refused: they would count twice.
    max_rounds, seed, threads, progress
        As for `fit_model`.
    """
    tool = Functions(sample, log_likelihood, gradient)
    earlier = known(fit, Functions)
    count = _count("n", n)
    rows = np.arange(earlier.total, earlier.total + count)
    union = Union(tool, earlier, rows, fit.coreset.rows)
    return updated(fit, union, (k, max_k, max_rounds, seed, threads), allow_repeats, progress)


class Earlier:
    """A fit as an update sees it."""

    def __init__(self, fit: Fit, tool: Any, rows: NDArray[np.int64]) -> None:
        assert fit._draws is not None
        self.tool, self.rows = tool, rows
        self.draws = fit._draws
        self.weights = fit.coreset.weights
        self.total = int(fit.coreset.summary["n"])
        self.blocks = fit._blocks or certified(None, fit, tool, self.total)[0]
        looked = self.draws.thin(LOOKED) if fit._marks is None else fit._marks[0]
        self.looked, self.theta, self.count = looked, looked.flat(), looked.count
        self.marks = _signs(self.log_likelihoods()) if fit._marks is None else fit._marks[1]
        """Of some rows of each block that came before, by which they are known again."""

    def log_likelihoods(self) -> NDArray[np.float64]:
        """Of the coreset's rows."""
        return checked(self.tool.log_likelihood(self.theta, self.rows), self.count, self.rows)


def known(fit: Any, kind: type) -> Earlier:
    """A fit whose rows can stand for others."""
    if not isinstance(fit, Fit):
        raise TypeError(f"fit is of type {type(fit).__name__}; it must be a Fit")
    coreset, tool = fit.coreset, fit._tool
    if fit._effects is not None or coreset.groups is not None:
        raise _lib.CoreletError("the rows of this fit came in groups, and new rows may be of the same groups: fit all rows again")
    if coreset.rest is not None:
        raise _lib.CoreletError("a Gaussian stands in place of rows of this fit, and cannot be updated: fit by rows alone, with rest='none'")
    if not isinstance(tool, kind):
        raise _lib.CoreletError(
            "this fit is of another tool, of another process, or of a model that Corelet knows: update it by the tool that made it, where it was made"
        )
    if fit.verdict.grade == "C":
        raise _lib.CoreletError(f"the fit is not certified, and no update of it could be: {fit.verdict.headline}")
    return Earlier(fit, tool, coreset.rows if fit._tool_rows is None else fit._tool_rows)


class Union:
    """A tool's model of new rows and, after them, of rows that stand for others, which count with their weights."""

    def __init__(self, tool: Any, earlier: Earlier, rows: NDArray[np.int64], standing: NDArray[np.int64]) -> None:
        """The tool's numbers of both."""
        self.tool, self.earlier = tool, earlier
        self.new = len(rows)
        self.ids = np.concatenate([rows, standing]).astype(np.int64)
        self.weights = np.concatenate([np.ones(len(rows)), earlier.weights])
        self.blocks = earlier.blocks
        self.stands_for = earlier.total + len(rows)
        self.last_steps = tool.last_steps

    def __getattr__(self, name: str) -> Any:
        # What does not depend on rows, where the tool has it.
        return getattr(self.tool, name)

    def sample(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], start: Optional[Draws], draws: int, final: bool
    ) -> Draws:
        """Draws of the posterior of these rows with these weights."""
        drawn: Draws = self.tool.sample(self.ids[rows], self.weights[rows] * weights, start, draws, final)
        return drawn

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        """Draws by rows, each times its weight."""
        ids = self.ids[rows]
        return np.asarray(self.tool.log_likelihood(theta, ids), np.float64) * self.weights[rows]

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Some of these draws, and the gradient there."""
        scored: Optional[tuple[NDArray[np.float64], NDArray[np.float64]]] = self.tool.scores(
            self.ids[rows], self.weights[rows] * weights, draws, most
        )
        return scored

    def slopes(
        self, at: NDArray[np.float64], rows: Optional[NDArray[np.int64]], weights: Optional[NDArray[np.float64]] = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of these rows, each times its weights, and its gradient; of all rows where none are named."""
        which = np.arange(len(self.ids)) if rows is None else rows
        factors = self.weights[which] if weights is None else self.weights[which] * weights
        found: tuple[NDArray[np.float64], NDArray[np.float64]] = self.tool.slopes(at, self.ids[which], factors)
        return found

    def check(self, allow_repeats: bool) -> None:
        """Refuses another model than that of the fit, and rows that are in already."""
        if self.new == 0:
            raise _lib.CoreletError("there is no new row")
        earlier, standing = self.earlier, self.ids[self.new :]
        before = earlier.log_likelihoods()
        here = checked(self.tool.log_likelihood(earlier.theta, standing), earlier.count, standing)
        if not np.allclose(here, before, rtol=1e-6, atol=1e-6):
            row = int(np.argmax(np.abs(here - before).max(axis=0)))
            raise _lib.CoreletError(
                f"this is not the model of the fit: row {earlier.rows[row]} of its coreset has another log-likelihood here. The new rows need "
                "the model, the levels and the scales that the earlier ones had"
            )
        self._check_prior()
        if not allow_repeats:
            self._check_repeats()

    def _check_prior(self) -> None:
        if not hasattr(self.tool, "log_prior"):
            return
        some = self.earlier.looked
        (before, was), (here, now) = (
            (points, tool.log_prior(points)[0]) for tool in (self.earlier.tool, self.tool) for points in (tool.unconstrained(some),)
        )
        if not (np.allclose(here, before, rtol=1e-6, atol=1e-8) and np.allclose(now, was, rtol=1e-6, atol=1e-6)):
            raise _lib.CoreletError("this is not the model of the fit: its prior is another, which may depend on the data; write it in numbers")

    @cached_property
    def signs(self) -> NDArray[np.float64]:
        """What tells the new rows from each other."""
        size = _lib.block_size(self.new, self.earlier.count)
        blocks = (slice(start, min(start + size, self.new)) for start in range(0, self.new, size))
        return np.concatenate([_signs(self.log_likelihood(self.earlier.theta, rows)) for rows in blocks])

    def marks(self, seed: int) -> NDArray[np.float64]:
        """Those of earlier rows, and of some of the new ones."""
        some = np.random.default_rng([seed, self.stands_for]).choice(self.new, min(MARKED, self.new), replace=False)
        return np.concatenate([self.earlier.marks, self.signs[some]])

    def _check_repeats(self) -> None:
        new, old = np.sort(self.signs), np.unique(self.earlier.marks)
        gap = SAME * max(float(np.abs(new).max()), 1e-300)
        kinds = (1 + int((np.diff(new) > gap).sum())) / len(new)
        if kinds < FEW_KINDS or len(old) < FEW_KINDS * len(self.earlier.marks):
            return
        at = np.searchsorted(new, old)
        nearest = np.minimum(np.abs(new[np.minimum(at, len(new) - 1)] - old), np.abs(new[np.maximum(at - 1, 0)] - old))
        twice = int((nearest <= gap).sum())
        if twice > 2 + 3 * (1 - kinds) * len(old):
            raise _lib.CoreletError(
                f"of {len(old)} earlier rows that are known, {twice} are among the new ones, so rows would count twice: leave out those that are in "
                "already, or say allow_repeats=True where they are equal and yet new"
            )


def _signs(log_likelihoods: NDArray[np.float64]) -> NDArray[np.float64]:
    """A number for each row, by its log-likelihoods at some draws: rows that have the same are equal."""
    mix = np.random.default_rng(0).normal(size=len(log_likelihoods))
    signs: NDArray[np.float64] = mix @ log_likelihoods
    return signs


def certified(before: Optional[str], fit: Fit, tool: Any, new: int) -> tuple[str, list[str]]:
    """What certifies the rows of a fit, `new` of which were not in `before`, and what is said of that."""
    assert fit._draws is not None
    some = fit._draws.thin(CERTIFIED_BY)
    points = tool.unconstrained(some) if hasattr(tool, "unconstrained") else Layout.of(some).table(some)
    at = np.ascontiguousarray(np.asarray(points, np.float64).reshape(some.count, -1))
    return _lib.certified_blocks(before, (new, len(fit.coreset)), (fit.verdict.grade, fit.verdict.variance_upper), at)


def updated(
    fit: Fit,
    union: Union,
    asked: tuple[Optional[int], Optional[int], int, int, Optional[int]],
    allow_repeats: bool,
    progress: FitProgressOption,
    convert: Any = None,
) -> Fit:
    """The fit of the weighted rows of another and of new ones."""
    union.check(allow_repeats)
    earlier = union.earlier
    k, max_k, max_rounds, seed, threads = asked
    units = Units(len(union.ids))
    k = min(max(2, len(earlier.rows)) if k is None else _count("k", k), units.count - 1)
    plan = plan_of(units, k, max_k, 1000, None, max_rounds, seed, threads)
    found = run_rounds(union, plan, units, earlier.draws, progress, convert)
    blocks, lines = certified(earlier.blocks, found, union, union.new)
    chosen = found.coreset.rows
    numbers = np.concatenate([np.arange(earlier.total, earlier.total + union.new), fit.coreset.rows])[chosen]
    order = np.argsort(numbers)
    coreset = found.coreset
    coreset.rows, coreset.weights = numbers[order], (coreset.weights * union.weights[chosen])[order]
    # Rows of it are known by numbers that they have no longer.
    coreset.sketch = None
    marks = (earlier.looked, union.marks(seed))
    verdict = replace(found.verdict, lines=[*found.verdict.lines, *lines])
    coreset.quality = replace(coreset.quality, verdict=verdict)
    return replace(found, verdict=verdict, _tool=union.tool, _tool_rows=union.ids[chosen][order], _blocks=blocks, _marks=marks)
