"""Log-likelihoods of rows of a PyMC model at many draws, and gradients of their sum: compiled by numba, loops that let threads work beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.compile.mode import get_mode

from .beside import MOST_AT_ONCE, cores, in_order
from .pymc_density import Parameters, by_numpy, stable
from .pymc_graph import Leaf, RowLogp, with_own_data
from ..frames.units import Which

NUMBA = get_mode("NUMBA").including("local_remove_check_parameter").excluding("local_usmm")
"""Without checks of parameters, for a sampler has been there; and without a rewriting of sparse products that numba has no operation
for, and that makes pytensor look for a BLAS by a compiler of C."""
BLOCK = 8192
"""Rows at a time, so that what is computed of them at one draw stays in the cache of a core."""


class LogLikelihoods:
    """Draws by rows."""

    def __init__(self, parameters: Parameters, rows: RowLogp) -> None:
        self.parameters = parameters
        self.leaves: list[Leaf] = rows.leaves
        sizes = [int(np.prod(shape)) for shape in parameters.shapes]
        ends = np.cumsum(sizes).tolist()
        flat = pt.TensorType("float64", (ends[-1],))("corelet_theta")
        places = zip(parameters.free, parameters.shapes, sizes, ends)
        given = {rv: flat[end - size : end].reshape(shape).astype(rv.dtype) for rv, shape, size, end in places}
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in rows.leaves}
        self._graph = rows.total(leaves, given).astype("float64")
        self._inputs = [flat, *leaves.values()]
        self._over_draws: Optional[Callable[..., None]] = None
        self.compiler = ""
        """What computes them."""

    @property
    def compiled(self) -> bool:
        """Whether it can be called."""
        return bool(self.compiler)

    @property
    def at_once(self) -> int:
        return min(cores(), MOST_AT_ONCE) if self.compiler == "numba" else 1

    def compile(self, numba: bool = True) -> None:
        """By numba; by NumPy where numba cannot, or where it would not pay."""
        if numba:
            try:
                self._over_draws = _loop(pytensor.function(self._inputs, [self._graph], mode=NUMBA, on_unused_input="ignore"))
                self.compiler = "numba"
                self._block(np.zeros((1, self._inputs[0].type.shape[0])), slice(0, 2))
                return
            except Exception:  # Numba raises errors of many kinds for an operation that it has not.
                pass
        self._over_draws, self.compiler = _one_by_one(by_numpy(self._inputs, [stable(self._graph)])), "NumPy"

    def __call__(self, theta: Mapping[str, NDArray[Any]], rows: Which) -> NDArray[np.float64]:
        columns = [np.asarray(theta[name], np.float64).reshape(len(theta[name]), -1) for name in self.parameters.names]
        return self._block(np.ascontiguousarray(np.concatenate(columns, axis=1)), rows)

    def _block(self, flat: NDArray[np.float64], rows: Which) -> NDArray[np.float64]:
        assert self._over_draws is not None
        data = [leaf.take(rows) for leaf in self.leaves]
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        found = np.full((len(flat), count), np.nan)
        for start in range(0, count, BLOCK):
            some = slice(start, min(start + BLOCK, count))
            parts = [leaf.part(values, some) for leaf, values in zip(self.leaves, data)]
            self._over_draws(found, start, flat, tuple(parts))
        return found


class AllRows:
    """The log-likelihood of all rows and its gradient by some variables, at lines of their numbers."""

    def __init__(self, rows: RowLogp, variables: list[Any], free: Mapping[Any, Any], instead: Mapping[Any, Any] = {}) -> None:
        """`free` are the free variables as functions of these, and `instead` stands in place of others inside of the graphs."""
        self.leaves = rows.leaves
        self.n = rows.n
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in rows.leaves}
        weights = pt.vector("corelet_weights")
        each = rows.total(leaves, free, instead)
        flat, both = _with_slope(variables, (weights * each).sum())
        self._over_draws = _summing(function_of([flat, weights, *leaves.values()], both))

    def __call__(
        self,
        at: NDArray[np.float64],
        some: Optional[NDArray[np.int64]] = None,
        weights: Optional[NDArray[np.float64]] = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of `some` rows, each times its weight; of all where none are named."""
        points = np.ascontiguousarray(at, dtype=np.float64)
        totals, gradients = np.zeros(len(points)), np.zeros(points.shape)
        held = [leaf.values if some is None else leaf.take(some) for leaf in self.leaves]
        count = self.n if some is None else len(some)
        factors = np.ones(count) if weights is None else weights

        def block(rows: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            data = (factors[rows], *(leaf.part(values, rows) for leaf, values in zip(self.leaves, held)))
            found, slopes = np.zeros(len(points)), np.zeros(points.shape)
            self._over_draws(found, slopes, points, data)
            return found, slopes

        if count <= BLOCK:
            return block(slice(0, count))
        blocks = (slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))
        for found, slopes in in_order(block, blocks, min(cores(), MOST_AT_ONCE)):
            totals += found
            gradients += slopes
        return totals, gradients


class Prior:
    """The log density of priors, potentials and Jacobians, and its gradient, at lines of unconstrained numbers."""

    def __init__(self, parameters: Parameters) -> None:
        values = parameters.variables()
        flat, both = _with_slope(values, parameters.log_prior(values))
        self._over_draws = _summing(function_of([flat], both))

    def __call__(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found, slopes = np.empty(len(at)), np.empty(at.shape)
        self._over_draws(found, slopes, at, ())
        return found, slopes


def function_of(inputs: list[Any], graphs: list[Any]) -> Any:
    """Compiled by numba."""
    # With sums in any order, code from the cache on disk would round otherwise than the same code just compiled.
    with pytensor.config.change_flags(numba__fastmath=False):
        return pytensor.function(inputs, graphs, mode=NUMBA, on_unused_input="ignore")


def _with_slope(values: list[Any], density: Any) -> tuple[Any, list[Any]]:
    """A line of numbers in place of these variables, and the density with its gradient as functions of it."""
    total = stable(density)
    gradients = pytensor.grad(total, values, disconnected_inputs="ignore")
    gradient = pt.concatenate([part.ravel() for part in gradients])
    flat, pieces = in_pieces([value.type.shape for value in values])
    return flat, with_own_data([total, gradient], dict(zip(values, pieces)))


def in_pieces(shapes: Sequence[tuple[int, ...]]) -> tuple[Any, list[Any]]:
    """A line of numbers as a variable, and its parts in these shapes."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    ends = np.cumsum(sizes).tolist()
    flat = pt.TensorType("float64", (ends[-1],))("corelet_point")
    return flat, [flat[end - size : end].reshape(shape) for shape, size, end in zip(shapes, sizes, ends)]


def _summing(function: Any) -> Callable[..., None]:
    """The two results of a function at each draw, without the lock of the interpreter."""
    import numba

    one = function.vm.jit_fn

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def over_draws(totals: Any, gradients: Any, points: Any, data: Any) -> None:
        for s in range(points.shape[0]):
            found, slope = one(points[s], *data)
            totals[s] = found.item()
            for j in range(slope.shape[0]):
                gradients[s, j] = slope[j]

    return over_draws  # type: ignore[no-any-return]


def _loop(function: Any) -> Callable[..., None]:
    """The function at each draw, without the lock of the interpreter."""
    import numba

    one = function.vm.jit_fn

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def over_draws(out: Any, start: Any, theta: Any, data: Any) -> None:
        for s in range(theta.shape[0]):
            found = one(theta[s], *data)[0]
            if start + found.shape[0] > out.shape[1]:
                raise ValueError("more log-likelihoods than rows")
            # Entry by entry: for the error message of an assignment between arrays numba would compile the formatting of strings.
            for j in range(found.shape[0]):
                out[s, start + j] = found[j]

    return over_draws  # type: ignore[no-any-return]


def _one_by_one(function: Any) -> Callable[..., None]:
    def over_draws(out: NDArray[np.float64], start: int, theta: NDArray[np.float64], data: tuple[Any, ...]) -> None:
        with np.errstate(all="ignore"):
            for s, line in enumerate(theta):
                found = function(line, *data)[0]
                out[s, start : start + len(found)] = found

    return over_draws
