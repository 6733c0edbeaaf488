"""A PyMC model with weights, compiled once for nutpie; rows and weights are read from wherever they are at the time.

`nutpie.compile_pymc_model` does this too, but more than half of its time goes into one assignment between arrays, for whose
error message numba compiles the formatting of strings. The two C functions that nutpie calls are written out here instead.
"""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.initial_point import make_initial_point_fn
from pymc.pytensorf import compile as compile_graph

from ._pymc_graph import shape_of

KNOWN_FIELDS = frozenset(
    "dims compiled_logp_func compiled_expand_func initial_point_func shared_data user_data n_expanded shape_info logp_func "
    "expand_func _n_dim _shapes _coords _transform_adapt_args".split()
)
"""What a compiled model of nutpie is made of, in the versions whose C functions are those below."""


def compiled_for_nutpie(model: Any) -> Any:
    """Has `with_data`, which makes of shared variables by their names what `nutpie.sample` takes."""
    import nutpie
    from nutpie.compile_pymc import CompiledPyMCModel

    if {field.name for field in fields(CompiledPyMCModel)} == KNOWN_FIELDS:
        return _Compiled(model)
    return nutpie.compile_pymc_model(model, var_names=[rv.name for rv in model.free_RVs])


class _Compiled:
    """The log-density with its gradient, and the way from unconstrained values to parameters, as C functions."""

    def __init__(self, model: Any) -> None:
        values = [model.rvs_to_values[rv] for rv in model.free_RVs]
        transformed = [rv for rv, value in zip(model.free_RVs, values) if rv.name != value.name]
        self.names = [value.name for value in values]
        self._initial = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs), return_transformed=True)
        self._lock = threading.Lock()
        point = self._initial(0)
        shapes = [np.shape(point[name]) for name in self.names]
        self.dimension = sum(int(np.prod(shape)) for shape in shapes)
        with model:
            density, expand = _functions(model, values, shapes, transformed)
        self.shared = list(dict.fromkeys([*density.get_shared(), *expand.get_shared()]))
        self.variables = [*zip(self.names, shapes), *((rv.name, shape_of(rv)) for rv in transformed)]
        self.expanded = sum(int(np.prod(shape)) for _, shape in self.variables)
        entries = sum(1 + variable.ndim for variable in self.shared)
        self._density = _c_density(_on_table(density, self.shared), self.dimension, entries)
        self._expand = _c_expand(_on_table(expand, self.shared), self.dimension, self.expanded, entries)

    def with_data(self, **data: NDArray[Any]) -> Any:
        """The model of these data."""
        import pandas as pd
        from nutpie.compile_pymc import CompiledPyMCModel

        given = {variable: data.get(variable.name, variable.get_value(borrow=True)) for variable in self.shared}
        arrays = [np.array(values, dtype=variable.dtype, order="C") for variable, values in given.items()]
        table = [entry for array in arrays for entry in (array.ctypes.data, *array.shape)]
        names, shapes = zip(*self.variables)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        slices = [slice(int(end) - int(np.prod(shape)), int(end)) for end, shape in zip(ends, shapes)]
        return CompiledPyMCModel(
            dims={},
            _n_dim=self.dimension,
            _coords={"unconstrained_parameter": pd.RangeIndex(self.dimension)},
            _shapes=dict(self.variables),
            compiled_logp_func=self._density,
            compiled_expand_func=self._expand,
            initial_point_func=self._start,
            shared_data=dict(enumerate(arrays)),  # They must live as long as the table of their addresses.
            user_data=np.array(table, dtype=np.uint64),
            n_expanded=self.expanded,
            shape_info=(list(names), slices, list(shapes)),
            logp_func=None,
            expand_func=None,
        )

    def _start(self, seed: Any) -> NDArray[np.float64]:
        with self._lock:  # Chains ask for it at the same time.
            point = self._initial(seed)
        return np.concatenate([np.ravel(point[name]).astype(np.float64) for name in self.names])


def _functions(model: Any, values: list[Any], shapes: list[tuple[int, ...]], transformed: list[Any]) -> tuple[Any, Any]:
    """The log-density and its gradient, and all values, of one vector."""
    checks = [] if model.check_bounds else ["local_remove_check_parameter"]
    density = pytensor.graph.rewrite_graph(model.logp(), include=["canonicalize", "stabilize", *checks])
    gradient = pt.concatenate([part.ravel() for part in pytensor.gradient.grad(density, values)])
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    point = pt.TensorType("float64", shape=(int(ends[-1]),))("corelet_point")
    pieces = [point[end - int(np.prod(shape)) : end].reshape(shape) for end, shape in zip(ends.tolist(), shapes)]
    given = {value: piece.astype(value.dtype) for value, piece in zip(values, pieces)}
    both = pytensor.clone_replace([density, gradient], given)
    wanted = {variable.name: variable for variable in model.unobserved_value_vars}
    expanded = pt.concatenate([point, *(wanted[rv.name].ravel() for rv in transformed)])
    return (
        compile_graph((point,), both, mode="NUMBA"),
        compile_graph((point,), [expanded], givens=list(given.items()), mode="NUMBA"),
    )


def _on_table(function: Any, shared: list[Any]) -> Any:
    """A compiled function as one of a vector and a table: the address and the shape of each array, one after the other."""
    import numba
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(_: Any, address: Any) -> Any:
        return types.voidptr(address), lambda _, builder, signature, given: builder.inttoptr(given[0], cgutils.voidptr_t)

    starts = np.cumsum([0] + [1 + variable.ndim for variable in shared])
    known: dict[str, Any] = dict(function=function.vm.jit_fn, pointer=pointer, carray=numba.carray, int64=np.int64)
    arrays = []
    for variable in function.get_shared():
        at = int(starts[shared.index(variable)])
        shape = "".join(f"int64(table[{at + axis}])," for axis in range(1, 1 + variable.ndim))
        arrays.append(f", carray(pointer(table[{at}]), ({shape}), {variable.dtype}_)")
        known[f"{variable.dtype}_"] = np.dtype(variable.dtype)
    # Source text, since numba has no loop over arrays of different types.
    exec(f"def call(point, table):\n    return function(point{''.join(arrays)})", known)
    return numba.njit(inline="always")(known["call"])  # Compiled by itself, it would take a second more.


def _c_density(call: Any, dimension: int, entries: int) -> Any:
    """Log-density and gradient at a point, as nutpie calls it; 0, or what is wrong."""
    import numba
    from numba.types import CPointer, float64, int64, uint64, voidptr

    signature = int64(uint64, CPointer(float64), CPointer(float64), CPointer(float64), voidptr)

    def density(count: Any, point: Any, gradient: Any, value: Any, table: Any) -> Any:
        if count != dimension:
            return -1
        slopes = numba.carray(gradient, (dimension,))
        try:
            found, slope = call(numba.carray(point, (dimension,)), numba.carray(table, (entries,), np.uint64))
            at = found.item()
            for i in range(dimension):
                slopes[i] = slope[i]
                if not np.isfinite(slope[i]):
                    return 3
        except Exception:
            return 1
        numba.carray(value, (1,))[0] = at
        return 0 if np.isfinite(at) else 4

    return numba.cfunc(signature)(density)


def _c_expand(call: Any, dimension: int, expanded: int, entries: int) -> Any:
    """All values at a point, as nutpie calls it; 0, or what is wrong."""
    import numba
    from numba.types import CPointer, float64, int64, uint64, voidptr

    signature = int64(uint64, uint64, CPointer(float64), CPointer(float64), voidptr)

    def expand(count: Any, wanted: Any, point: Any, values: Any, table: Any) -> Any:
        if count != dimension or wanted != expanded:
            return -1
        out = numba.carray(values, (expanded,))
        try:
            (found,) = call(numba.carray(point, (dimension,)), numba.carray(table, (entries,), np.uint64))
            for i in range(expanded):
                out[i] = found[i]
        except Exception:
            return -2
        return 0

    return numba.cfunc(signature)(expand)
