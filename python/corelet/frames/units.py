"""What is chosen: rows, or groups of rows, by the labels that a user has for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from ..results.coreset import Coreset
from .._lib import CoreletError

Which = Union[slice, NDArray[np.int64]]
"""Rows, as a slice or by their ascending numbers."""


class Units:
    """Rows, or groups of them with one label each."""

    def __init__(self, n: int, groups: Any = None) -> None:
        self.n = n
        self.count = n
        self.labels: Optional[NDArray[Any]] = None
        self.codes: Optional[NDArray[np.int64]] = None
        if groups is None:
            return
        names = np.asarray(groups)
        if names.ndim != 1 or len(names) != n:
            raise CoreletError(f"groups has shape {names.shape}; it must have one entry for each of the {n} rows")
        if names.dtype.kind == "f" and not np.isfinite(names).all():
            raise CoreletError(f"the group of row {int(np.argmin(np.isfinite(names)))} is missing")
        self.labels, codes = np.unique(names, return_inverse=True)
        self.codes = np.ascontiguousarray(codes, dtype=np.int64)
        self.count = len(self.labels)

    @property
    def what(self) -> str:
        """What they are called."""
        return "rows" if self.labels is None else "groups"

    def name(self, unit: int) -> str:
        """What one of them is called."""
        return f"row {unit}" if self.labels is None else f"group {self.labels[unit]}"

    def add(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draws by rows as draws by units."""
        if self.codes is None:
            return matrix
        order = np.argsort(self.codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.codes, minlength=self.count))[:-1]])
        return np.add.reduceat(matrix[:, order], starts, axis=1)

    def expanded(self, coreset: Coreset) -> Coreset:
        """A coreset of groups, as one of their rows."""
        if self.codes is None or self.labels is None:
            return coreset
        ids, weights = coreset.rows, coreset.weights
        dense = np.zeros(self.count)
        dense[ids] = weights
        rows = np.flatnonzero(np.isin(self.codes, ids)).astype(np.int64)
        summary = {**coreset.summary, "n": self.n, "groups": self.count, "groups_chosen": len(ids)}
        return replace(
            coreset,
            rows=rows,
            weights=dense[self.codes[rows]],
            summary=summary,
            groups=self.labels[ids],
            group_ids=ids,
            group_weights=weights,
        )
