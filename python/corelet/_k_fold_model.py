"""`corelet.k_fold_model`: K-fold cross-validation of any model, with a coreset of the other rows for each fold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count
from ._fit import Plan, plan_of, run_rounds
from ._seeds import seeded
from .adapters.bridge import checked
from .adapters.functions import Functions
from .frames.units import Units, Which
from .results.draws import Draws
from .results.review import Fold, KFold, k_fold_from

DRAWS = 1000
"""The largest number of draws at which the rows of a fold are predicted."""
BLOCK = 8192
"""Rows per block: nothing of size draws × rows is held."""


@seeded
def k_fold_model(
    draws: Any,
    sample: Callable[[NDArray[np.int64], NDArray[np.float64], Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    *,
    n: int,
    y: Any = None,
    folds: int = 10,
    k: int = 300,
    groups: Any = None,
    gradient: Optional[Callable[[Any, NDArray[np.int64], NDArray[np.float64]], Any]] = None,
    seed: int = 0,
    threads: Optional[int] = None,
) -> KFold:
    """`corelet.k_fold` for any model: how well the rows of each of K folds are predicted by the other folds.

    For each fold, a coreset represents all other rows. It is chosen at the given draws, sampled by `sample`, and judged as in
    `corelet.fit_model`.

    Parameters
    ----------
    draws
        Draws of the posterior of all rows: a `Fit`, or draws in the form of a pilot of `corelet.fit_model`.
    sample, log_likelihood, gradient, n, k
        As for `corelet.fit_model`. An A needs the gradient.
    y
        The outcome of each row. `corelet.compare` uses it to verify that models have the same outcomes.
    folds, groups, seed, threads
        As for `corelet.k_fold`; `groups` is one label per row, and rows of a group are in one fold. The same seed gives the same folds.
    """
    found = getattr(draws, "_draws", None)
    given = found if isinstance(found, Draws) else Draws.of(draws)
    units = Units(_count("n", n), groups)
    plan = plan_of(units, k, None, 1000, None, 10, seed, threads)
    return folded(Functions(sample, log_likelihood, gradient), given, units, plan, _count("folds", folds), y)


def folded(tool: Any, draws: Draws, units: Units, plan: Plan, folds: int, y: Any) -> KFold:
    """Runs the folds of a tool's model, given draws of the posterior of all rows."""
    outcomes = _outcomes(y, units.n)
    if not 2 <= folds <= units.count:
        raise _lib.CoreletError(
            f"{folds} folds cannot be made: there must be between 2 and {units.count}, as many as there are {units.what}"
        )
    order = np.random.default_rng([plan.seed, folds]).permutation(units.count)
    of_unit = np.empty(units.count, np.int64)
    of_unit[order] = np.arange(units.count) % folds
    fold_of = of_unit if units.codes is None else of_unit[units.codes]
    each, found = np.empty(units.n), []
    for fold in range(folds):
        held = np.flatnonzero(fold_of == fold)
        others = _Others(tool, np.flatnonzero(fold_of != fold))
        smaller = min(plan.k, len(others.rows))
        fit = run_rounds(others, replace(plan, k=smaller, max_k=max(smaller, plan.max_k)), Units(len(others.rows)), draws, False)
        assert fit._draws is not None
        each[held] = _log_densities(tool, fit._draws.thin(DRAWS), held)
        verdict = fit.verdict
        found.append(Fold(len(held), len(fit.coreset), verdict.grade, verdict.variance, float(each[held].sum())))
    elpd, se = float(each.sum()), math.sqrt(len(each)) * float(np.std(each))
    lines = _lib.k_folded(elpd, se, units.n, [(fold.points, fold.grade) for fold in found])
    told = [tuple(vars(fold).values()) for fold in found]
    return k_fold_from(dict(elpd=elpd, se=se, folds=told, elpd_i=each, fold_i=fold_of, outcomes=outcomes, lines=lines))


class _Others:
    """A tool's model restricted to some of its rows, which are renumbered from 0."""

    def __init__(self, tool: Any, rows: NDArray[np.int64]) -> None:
        self.tool, self.rows = tool, rows
        self.at_once, self.last_steps = tool.at_once, tool.last_steps
        self.parameters = int(getattr(tool, "parameters", 0))

    def sample(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], start: Optional[Draws], draws: int, final: bool
    ) -> Draws:
        """Draws of the posterior of these rows with these weights."""
        drawn: Draws = self.tool.sample(self.rows[rows], weights, start, draws, final)
        return drawn

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        """Draws by rows."""
        return self.tool.log_likelihood(theta, self.rows[rows])

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Some of these draws, and the gradient there."""
        scored: Optional[tuple[NDArray[np.float64], NDArray[np.float64]]] = self.tool.scores(self.rows[rows], weights, draws, most)
        return scored


def _log_densities(tool: Any, draws: Draws, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """log p(yᵢ | the draws) of these rows."""
    theta, count, found = draws.flat(), draws.count, []
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        values = checked(tool.log_likelihood(theta, some), count, some)
        if not np.isfinite(values).all():
            draw, row = (int(at) for at in np.argwhere(~np.isfinite(values))[0])
            raise _lib.CoreletError(f"the log-likelihood of row {some[row]} at draw {draw} is not finite ({values[draw, row]})")
        largest = values.max(axis=0)
        found.append(largest + np.log(np.exp(values - largest).mean(axis=0)))
    return np.concatenate(found)


def _outcomes(y: Any, n: int) -> Optional[NDArray[np.float64]]:
    if y is None:
        return None
    array = np.asarray(y)
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise _lib.CoreletError(f"y has shape {array.shape} and holds {array.dtype}; it must be one number for each of {n} rows")
    return array.astype(np.float64)
