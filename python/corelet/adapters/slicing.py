"""The check that rows can be taken out of a model: some of them must have alone the log-likelihood that they have among all."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .._lib import CoreletError

CHECKED_ROWS = 50
"""Rows that are compared."""


def checked_rows(whole: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Some rows to compare, by the log-likelihoods of all of them, points × rows. They are fewer than all, since a model may
    ask how many there are."""
    finite = np.flatnonzero(np.isfinite(whole).any(axis=0))
    if len(finite) == 0:
        raise CoreletError(
            f"the log-likelihood of no row is finite at {len(whole)} points near the middle of the parameter space; scale "
            "the data, or write the model so that chains can start there"
        )
    count = min(CHECKED_ROWS, max(1, whole.shape[1] // 2), len(finite))
    return np.sort(np.random.default_rng(seed).choice(finite, count, replace=False)).astype(np.int64)


def without_a_value(values: NDArray[Any], rows: NDArray[np.int64]) -> Optional[CoreletError]:
    """What to say where chains cannot start and some of these rows, but not all, have a finite log-likelihood at no point. Values are points ×
    rows."""
    never = np.flatnonzero(~np.isfinite(values).any(axis=0))
    if len(never) in (0, values.shape[1]):
        return None
    others = f" and {len(never) - 1} other rows" if len(never) > 1 else ""
    return CoreletError(
        f"chains cannot start: the log-likelihood of row {rows[never[0]]} (the first is 0){others} is not finite at any of {len(values)} points near the "
        f"middle of the parameter space (it is {values[0, never[0]]}); look for a missing value in it, or one that the distribution cannot have"
    )


def compare(alone: NDArray[Any], among_all: NDArray[Any], tolerance: float) -> None:
    """Refuses a model in which they differ."""
    if not np.allclose(alone, among_all, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise CoreletError(
            "the log-likelihood of a row depends on the other rows (a mean or a cumulative sum of the data, or their number, "
            "inside the model, for instance), so rows cannot be taken out of it; compute such quantities before the model"
        )
