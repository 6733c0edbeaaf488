"""The check of a weighted fit by its log-likelihoods: what is taken, and what is refused."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._coreset import Coreset
from ._draws import Draws
from ._gather import LogLikelihood, Units
from ._judge import judge
from ._loglik import log_likelihood_group, log_likelihood_values


def check_loglik(coreset: Coreset, loglik: Any, idata: Any, var_name: Optional[str]) -> dict[str, Any]:
    """The fields of a verdict on the weighted fit of a model that is known by its log-likelihoods."""
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
    theta, units = draws.flat(), Units(int(coreset.summary["n"]))
    log_likelihood = LogLikelihood(function, units)
    totals = np.zeros(draws.count)
    for block in units.blocks(draws.count):
        values = log_likelihood(theta, draws.count, block)
        totals += values.sum(axis=1)
        if not np.isfinite(totals).all():
            raise log_likelihood.explain(values, block)
    weighted = log_likelihood(theta, draws.count, coreset.rows) @ coreset.weights
    if coreset.sketch is not None:
        _check_sketch(coreset, log_likelihood(theta, draws.count, coreset.sketch.rows).mean(axis=0))
    shape = draws.shape
    return _judged(coreset, totals.reshape(shape), weighted.reshape(shape), draws, draws.chained)


def _judged(
    coreset: Coreset,
    totals: NDArray[np.float64],
    weighted: NDArray[np.float64],
    draws: Optional[Draws],
    chained: bool,
) -> dict[str, Any]:
    quality = coreset.quality
    held_out = 2 * quality.nats if quality.nats is not None and quality.judged_on == "posterior" else None
    return judge(
        (totals - weighted).ravel(),
        weighted.ravel(),
        points=len(coreset),
        n=int(coreset.summary["n"]),
        chains=len(totals),
        draws=draws,
        chained=chained,
        held_out=held_out,
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
