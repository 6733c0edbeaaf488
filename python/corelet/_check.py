"""The check of a weighted fit by its log-likelihoods: which inputs are accepted, and which are refused."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from .results.coreset import Coreset
from .results.draws import Draws
from .adapters.bridge import Layout, gathered
from ._loglik import log_likelihood_group, log_likelihood_values
from .frames.units import Units


def check_loglik(coreset: Coreset, loglik: Any, idata: Any, var_name: Optional[str]) -> dict[str, Any]:
    """The fields of a verdict on the weighted fit of a model of which only log-likelihoods are known."""
    if coreset.rest is not None:
        raise _lib.CoreletError(
            "this coreset has a Gaussian part, whose value the log-likelihoods of rows do not contain; quality.verdict has the verdict of its "
            "fit, and certify of corelet, corelet.pymc or corelet.numpyro judges other draws on all rows"
        )
    if callable(loglik):
        return _check_function(coreset, loglik, idata)
    given = idata if loglik is None else loglik
    group = log_likelihood_group(given)
    values = np.asarray(given, dtype=np.float64) if group is None else log_likelihood_values(group, var_name)
    chained = values.ndim == 3
    if values.ndim == 2:
        values = values[None]
    _check_shape(coreset, values, np.shape(given) if group is None else values.shape)
    if not np.isfinite(values).all():
        chain, draw, row = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise _lib.CoreletError(f"the log-likelihood of row {row} at draw {draw} of chain {chain} is not finite")
    _check_data(coreset, values)
    source = given if idata is None else idata
    draws = Draws.of(source) if hasattr(source, "posterior") else None
    if draws is not None and draws.shape != values.shape[:2]:
        raise _lib.CoreletError(
            f"the posterior has {draws.shape[0]} chains of {draws.shape[1]} draws, the log-likelihood {values.shape[0]} of "
            f"{values.shape[1]}: they are not of the same fit"
        )
    weighted = values[:, :, coreset.rows] @ coreset.weights
    return _judged(coreset, values.sum(axis=2), weighted, draws, chained)


def _check_function(coreset: Coreset, function: Any, idata: Any) -> dict[str, Any]:
    if idata is None:
        raise _lib.CoreletError("a function as loglik needs the draws of the weighted fit beside it: idata")
    draws = Draws.of(idata)
    known = np.empty(0, np.int64) if coreset.sketch is None else coreset.sketch.rows
    keep = np.union1d(coreset.rows, known)
    units = Units(int(coreset.summary["n"]))
    seen = gathered(function, draws.flat(), draws.count, units, size=0, keep=keep, seed=0)
    at = {unit: place for place, unit in enumerate(seen["pool"].tolist())}
    weighted = coreset.weights @ seen["columns"][[at[row] for row in coreset.rows.tolist()]]
    if coreset.sketch is not None:
        _check_sketch(coreset, seen["columns"][[at[row] for row in known.tolist()]].mean(axis=1))
    shape = draws.shape
    return _judged(coreset, seen["totals"].reshape(shape), weighted.reshape(shape), draws, draws.chained)


def _judged(
    coreset: Coreset,
    totals: NDArray[np.float64],
    weighted: NDArray[np.float64],
    draws: Optional[Draws],
    chained: bool,
) -> dict[str, Any]:
    quality = coreset.quality
    held_out = 2 * quality.nats if quality.nats is not None and quality.judged_on == "posterior" else None
    return evidence(
        (totals - weighted).ravel(),
        weighted.ravel(),
        points=len(coreset),
        n=int(coreset.summary["n"]),
        chains=len(totals),
        draws=draws,
        chained=chained,
        held_out=held_out,
    )


def evidence(
    errors: NDArray[np.float64],
    weighted: NDArray[np.float64],
    *,
    points: int,
    n: int,
    chains: int,
    draws: Optional[Draws],
    chained: bool = True,
    held_out: Optional[float] = None,
) -> dict[str, Any]:
    """The fields of the judge's verdict on Δ and L_w at draws, with chains concatenated."""
    return _lib.judge(
        dict(
            errors=np.ascontiguousarray(errors),
            weighted=np.ascontiguousarray(weighted),
            chains=chains,
            chained=chained,
            theta=None if draws is None else Layout.of(draws).table(draws),
            names=[] if draws is None else Layout.of(draws).entries(),
            diverged=0 if draws is None else draws.diverged,
            held_out=held_out,
            points=points,
            n=n,
        )
    )


def _check_shape(coreset: Coreset, values: NDArray[np.float64], shown: tuple[int, ...]) -> None:
    n = int(coreset.summary["n"])
    if values.ndim == 3 and values.shape[2] == n:
        return
    hint = "; it is transposed" if values.ndim == 3 and values.shape[1] == n and len(values) == 1 else ""
    raise _lib.CoreletError(
        f"loglik has shape {shown}; it must be draws by {n} data, or chains by draws by {n} data{hint}"
    )


def _check_data(coreset: Coreset, values: NDArray[np.float64]) -> None:
    if coreset.sketch is not None:
        _check_sketch(coreset, values[:, :, coreset.sketch.rows].mean(axis=(0, 1)))


def _check_sketch(coreset: Coreset, means: NDArray[np.float64]) -> None:
    if coreset.sketch is not None and not coreset.sketch.knows(means):
        raise _lib.CoreletError(
            "these log-likelihoods are not of the data that the coreset was built on: other data, rows in another order, or "
            "a transposed matrix"
        )
