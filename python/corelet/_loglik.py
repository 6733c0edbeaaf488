"""`corelet.build_from_loglik`: a coreset for any model, from its log-likelihoods at draws of its posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _lib
from .results.arviz import dataset_of
from ._build import _count
from .results.coreset import SKETCH, Coreset, Sketch, coreset_from
from .adapters.bridge import gathered
from ._nnls import _array
from ._progress import ProgressOption, reporter
from ._seeds import seeded
from ._types import Execution
from ._warn import warn
from .frames.units import Units

Given = Union[ArrayLike, Callable[[Any, Any], ArrayLike], Any]

@seeded
def build_from_loglik(
    ll: Given,
    k: Optional[int] = None,
    *,
    theta: Any = None,
    n: Optional[int] = None,
    var_name: Optional[str] = None,
    groups: Any = None,
    held_out: float = 0.2,
    pilot: bool = False,
    method: str = "pursuit",
    reference: bool = False,
    polish: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
) -> Coreset:
    """Choose at most k weighted observations of a model of which only log-likelihoods are known.

    Parameters
    ----------
    ll
        One of these: a matrix of log-likelihoods, with one row per posterior draw and one column per observation; an
        ArviZ `InferenceData` (or `DataTree`) with a `log_likelihood` group; or a function `fn(theta, rows)` that returns such a matrix for
        all draws and the given rows (a slice or an array of row numbers). The function is called block by block, once for every
        observation and once more for the few thousand candidates, and nothing of size draws × n is stored. (Methods other than pursuit make
        their own passes, each with a call for every observation.)
    k
        Largest number of observations; by default 100, or all if there are fewer.
    theta, n
        For a function: the draws, which are passed to it unchanged (their first axis counts draws), and the number of observations.
    var_name
        The variable of the `log_likelihood` group, if it has several.
    groups
        One label per observation: k whole groups are chosen instead of single observations, each with one weight.
    held_out
        The share of the draws, the last ones of each chain, that is held out from the build and judges the coreset.
    pilot
        Whether the draws come from a pilot run, near the posterior but not from it; `quality` then says so.
    method, reference, polish, seed, threads, progress
        As in `corelet.build`.

    Returns
    -------
    Coreset
        `quality.nats` is the estimate on the held-out draws. The draws should come from the posterior or be near it, because the coreset
        agrees with the full data only there. There should be well over k of them.

    Examples
    --------
    A Student-t regression without an intercept and with a known scale:

    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = 2 * x + rng.standard_t(4, size=1000)
    >>> slope = rng.normal(2, 0.04, size=(500, 1))
    >>> def log_likelihood(theta, rows):
    ...     return -2.5 * np.log1p((y[rows] - theta * x[rows]) ** 2 / 4)
    >>> cs = corelet.build_from_loglik(log_likelihood, k=20, theta=slope, n=1000)
    >>> cs.quality.nats < 1e-2, cs.quality.heldout_draws
    (True, 100)
    """
    keywords: dict[str, object] = dict(
        k=_count("k", k), method=method, reference=reference, polish=polish, seed=_count("seed", seed)
    )
    threads = _count("threads", threads)
    with reporter(progress) as report:
        execution = Execution(report, threads)
        if callable(ll):
            coreset = _of_function((ll, theta, n), groups, held_out, keywords, execution)
        else:
            if theta is not None or n is not None:
                raise _lib.CoreletError("theta and n are for a function; a matrix has its own draws and data")
            coreset = _of_matrix(*_matrix(ll, var_name, held_out), groups, keywords, execution)
    if pilot:
        coreset.quality = replace(coreset.quality, judged_on="pilot")
        coreset.say_divergence(coreset.quality.judgement)
    warn(*coreset.warnings)
    return coreset


def _of_matrix(
    matrix: NDArray[np.float64],
    unseen: int,
    groups: Any,
    keywords: dict[str, object],
    execution: Execution,
) -> Coreset:
    units = Units(matrix.shape[1], groups)
    coreset = coreset_from(_lib.build_matrix(np.ascontiguousarray(units.add(matrix)), unseen, keywords, execution))
    some = np.unique(np.linspace(0, matrix.shape[1] - 1, SKETCH).astype(np.int64))
    coreset.sketch = Sketch(some, matrix[: len(matrix) - unseen, some].mean(axis=0))
    return units.expanded(coreset)


def _of_function(
    given: tuple[Callable[[Any, Any], ArrayLike], Any, Optional[int]],
    groups: Any,
    held_out: float,
    keywords: dict[str, object],
    execution: Execution,
) -> Coreset:
    function, theta, n = given
    if theta is None or n is None:
        raise _lib.CoreletError("a function needs the draws (theta) and the number of data (n) beside it")
    draws, size = _draws(theta), int(_count("n", n))
    unseen = _held_out(draws, held_out)
    if keywords["method"] != "pursuit":
        if groups is not None:
            raise _lib.CoreletError("groups and a function go with method='pursuit'")
        source = dict(function=function, theta=theta, draws=draws, n=size)
        return coreset_from(_lib.build_function(source, unseen, keywords, execution))
    units = Units(size, groups)
    k: Any = keywords["k"]
    if k is not None and k > units.count:
        raise _lib.CoreletError(f"k = {k} points cannot be chosen from {units.count} {'rows' if groups is None else 'groups'}")
    seed: Any = keywords["seed"]
    size, none = max(3000, 20 * (k or 100)), np.empty(0, np.int64)
    seen = gathered(function, theta, draws, units, size=size, keep=none, seed=seed)
    pool = dict(data=seen["pool"], columns=seen["columns"], totals=seen["totals"], n=units.count)
    coreset = coreset_from(_lib.build_pool(pool, unseen, keywords, execution))
    if groups is None:
        coreset.sketch = Sketch.of(seen["pool"], seen["columns"])
    return units.expanded(coreset)


def _matrix(ll: Any, var_name: Optional[str], held_out: float) -> tuple[NDArray[np.float64], int]:
    """Draws by data, the held-out draws last, and how many these are."""
    group = log_likelihood_group(ll)
    if group is None:
        if var_name is not None:
            raise _lib.CoreletError("var_name is for an InferenceData or DataTree with a log_likelihood group")
        matrix = np.ascontiguousarray(_array("ll", ll, 2))
        return matrix, _held_out(matrix.shape[0], held_out)
    values = log_likelihood_values(group, var_name)
    chains, draws = values.shape[:2]
    unseen = _held_out(draws, held_out)
    seen = values[:, : draws - unseen].reshape(-1, values.shape[2])
    return np.concatenate([seen, values[:, draws - unseen :].reshape(-1, values.shape[2])]), chains * unseen


def log_likelihood_values(group: Any, var_name: Optional[str]) -> NDArray[np.float64]:
    """Chains by draws by data of one variable of the group."""
    names = [str(name) for name in group.data_vars]
    if var_name is None and len(names) != 1:
        raise _lib.CoreletError(f"the log_likelihood group has {len(names)} variables; name one with var_name: {names}")
    name = names[0] if var_name is None else var_name
    if name not in names:
        raise _lib.CoreletError(f"the log_likelihood group has no variable '{name}'; it has {names}")
    values = np.asarray(group[name].transpose("chain", "draw", ...).values, dtype=np.float64)
    return values.reshape(*values.shape[:2], -1)


def log_likelihood_group(ll: Any) -> Any:
    """The group of an InferenceData or a DataTree, or None."""
    if isinstance(ll, np.ndarray) or not (hasattr(ll, "groups") or hasattr(ll, "log_likelihood")):
        return None
    group = dataset_of(ll, "log_likelihood") if hasattr(ll, "groups") else ll.log_likelihood
    if group is None:
        raise _lib.CoreletError(
            f"this {type(ll).__name__} has no log_likelihood group; pymc.compute_log_likelihood(idata) or "
            "arviz.from_numpyro(mcmc, log_likelihood=True) adds one"
        )
    return group


def _draws(theta: Any) -> int:
    first: Any = next(iter(theta.values()), None) if isinstance(theta, Mapping) else theta
    try:
        return len(first)
    except TypeError:
        raise _lib.CoreletError(f"theta is of type {type(theta).__name__}, whose draws cannot be counted") from None


def _held_out(draws: int, share: float) -> int:
    if not 0 <= share < 1:
        raise _lib.CoreletError(f"held_out is {share}, but it must be a share of the draws, in [0, 1)")
    unseen = round(draws * share)
    if draws - unseen < 2:
        raise _lib.CoreletError(f"{draws} draws are too few: at least 2 must be left to build on")
    return unseen
