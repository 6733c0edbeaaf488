"""`corelet.sparse_nnls`: the solver alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _lib
from ._build import _count
from ._progress import ProgressOption, reporter
from ._seeds import seeded
from ._types import Execution


class PathPoint(NamedTuple):
    """The best solution found with this number of columns."""

    ids: NDArray[np.int64]
    """The columns, ascending."""
    weights: NDArray[np.float64]
    """Their weights, > 0."""
    residual: float
    """‖y − Φw‖."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of `sparse_nnls`."""

    ids: NDArray[np.int64]
    """The columns with a weight, ascending."""
    weights: NDArray[np.float64]
    """Their weights, > 0."""
    residual: float
    """‖y − Φw‖."""
    target_norm: float
    """‖y‖."""
    status: str
    """Why the method stopped."""
    iterations: int
    """Steps of the method."""
    passes: float
    """Passes over the columns."""
    seconds: float
    """Wall time."""
    path: list[PathPoint]
    """The best solution found for every size 1, 2, …, by methods that produce it (pursuit)."""

    def dense(self, n: int) -> NDArray[np.float64]:
        """The weights as a vector of length n."""
        dense = np.zeros(n)
        dense[self.ids] = self.weights
        return dense

    def __repr__(self) -> str:
        return f"Solution({len(self.ids)} columns, residual {self.residual:.3g} of {self.target_norm:.3g}, {self.status})"


@seeded
def sparse_nnls(
    Phi: ArrayLike,
    y: Optional[ArrayLike] = None,
    k: int = 100,
    *,
    method: str = "pursuit",
    reference: bool = False,
    total: Optional[float] = None,
    polish: bool = False,
    seed: int = 0,
    max_iterations: Optional[int] = None,
    max_passes: Optional[float] = None,
    max_seconds: Optional[float] = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
) -> Solution:
    """Minimise ‖y − Φw‖² over w ≥ 0 with at most k nonzero entries.

    Parameters
    ----------
    Phi
        The matrix, with one column per weight. A Fortran-ordered float64 array is read without a copy.
    y
        The target; by default the sum of the columns.
    k
        Largest number of columns with a weight.
    method
        `pursuit`, `omp`, `a-iht-2`, `a-iht`, `iht`, `giga`, `frank-wolfe`, `importance`, `importance-nnls`, `uniform` or
        `uniform-nnls`.
    reference, total, polish
        Halve the step of hard thresholding, as the authors' code does; keep Σw at this value (hard thresholding only); compute
        the best weights of the final columns once more.
    seed, max_iterations, max_passes, max_seconds, threads, progress
        The random seed; limits, which end the run with a status instead of an error; as in `corelet.build`.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> Phi = np.array([[1.0, 0.0, 2.0, 1.0], [0.0, 1.0, 2.0, 1.0]])
    >>> solution = corelet.sparse_nnls(Phi, Phi.sum(axis=1), k=2)
    >>> solution.ids.tolist(), solution.weights.round(6).tolist(), solution.status
    ([2], [2.0], 'numerical-floor')
    """
    matrix = _array("Phi", Phi, 2)
    goal = None if y is None else np.ascontiguousarray(_array("y", y, 1))
    keywords: dict[str, object] = dict(
        k=_count("k", k),
        method=method,
        reference=reference,
        total=total,
        seed=_count("seed", seed),
        polish=polish,
        max_iterations=_count("max_iterations", max_iterations),
        max_passes=max_passes,
        max_seconds=max_seconds,
    )
    with reporter(progress) as report:
        columns = np.ascontiguousarray(matrix.T)
        fields = _lib.solve_dense(columns, goal, keywords, Execution(report, _count("threads", threads)))
    fields["path"] = [PathPoint(*point) for point in fields["path"]]
    return Solution(**fields)


def _array(name: str, values: Any, dimensions: int) -> NDArray[np.float64]:
    """Values as float64 with this number of dimensions."""
    array = np.asarray(values)
    if array.dtype.kind not in "iubf" or array.dtype.itemsize > 8:
        raise _lib.CoreletError(f"{name} has dtype {array.dtype}; integers, floats and booleans can be used")
    if array.ndim != dimensions:
        wanted = "one dimension" if dimensions == 1 else "two dimensions"
        raise _lib.CoreletError(f"{name} has shape {array.shape}; it must have {wanted}")
    return array.astype(np.float64, copy=False)
