"""`corelet.k_fold`: K-fold cross-validation with K coresets that share one embedding."""

from __future__ import annotations

from inspect import signature
from typing import Any, Optional

from . import _lib
from ._build import _count, build, given, native
from ._progress import ProgressOption, reporter
from ._types import Execution
from ._warn import warn
from .frames.formula import resolved
from .results.review import KFold, k_fold_from
from .results.verdict import chain_settings


def k_fold(
    X: Any,
    y: Any = None,
    *,
    folds: int = 10,
    k: Optional[int] = None,
    model: str = "logistic",
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> KFold:
    """K-fold cross-validation of a built-in model: how well the rows of each fold are predicted by the other folds.

    For each fold, a coreset represents all other rows. All folds share one pass: with y = Σφᵢ in one embedding, the target of a
    fold's coreset is y minus the columns of the fold. NUTS samples each coreset, and a pass over all rows judges it. Use this if
    leave-one-out has large Pareto k̂, or if rows come in groups.

    Parameters
    ----------
    X, y, model, keywords
        The data and the model, as for `corelet.build`. Rows of a group (`groups=`) are in one fold.
    folds
        The number of folds, to which rows or groups of rows are assigned in random order.
    k
        Largest number of points of each coreset; by default 300.
    draws, tune, chains, target_accept, max_depth, seed, threads, progress
        As for `corelet.fit`. The same seed gives the same folds.

    Returns
    -------
    KFold
        `elpd`, `se`, `elpd_i` and `fold_i` of each row, and the grade of each fold's coreset. `corelet.compare` accepts it.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = rng.random(3000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> both = corelet.k_fold(X, y, folds=5, k=80)
    >>> neither = corelet.k_fold(X[:, 1:], y, folds=5, k=80)
    >>> corelet.compare({"both": both, "neither": neither}).names[0]
    'both'
    """
    unknown = set(keywords) - set(signature(build).parameters)
    if unknown:
        raise TypeError(f"k_fold() has no keyword '{min(unknown)}'; it takes those of build() and its own")
    settings = chain_settings(draws, tune, chains, target_accept, max_depth, seed)
    X, y, asked, _ = resolved(X, y, dict(k=None, rest="none", model=model, **keywords))
    native_keywords = native({name: value for name, value in asked.items() if name != "format"})
    with reporter(progress) as report, given(X, y, asked, native_keywords) as data:
        execution = Execution(report, _count("threads", threads))
        counts = (_count("folds", folds), None if k is None else _count("k", k))
        fields = _lib.k_fold(data, native_keywords, counts, settings, execution)
    warn(*fields["warnings"])
    return k_fold_from(fields)
