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
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.mode import get_mode

from ._beside import beside
from ._pymc_graph import shape_of, starting_points

KNOWN_FIELDS = frozenset(
    "dims compiled_logp_func compiled_expand_func initial_point_func shared_data user_data n_expanded shape_info logp_func "
    "expand_func _n_dim _shapes _coords _transform_adapt_args".split()
)
"""What a compiled model of nutpie is made of, in the versions whose C functions are those below."""
NUMBA = get_mode("NUMBA").excluding("local_usmm")
"""Without a rewriting of sparse products that numba has no operation for, and that makes pytensor look for a BLAS by a compiler of
C, which takes half a second."""


def compiled_for_nutpie(model: Any) -> Any:
    """Has `with_data`, which makes of shared variables by their names what `nutpie.sample` takes."""
    import nutpie
    from nutpie.compile_pymc import CompiledPyMCModel

    if {field.name for field in fields(CompiledPyMCModel)} == KNOWN_FIELDS:
        return _Compiled(model)
    return nutpie.compile_pymc_model(model, var_names=[rv.name for rv in model.free_RVs])


class _Compiled:
    """The log-density with its gradient, and the way from unconstrained values to parameters, as C functions. Their graphs are
    made here, and compiled in a thread."""

    def __init__(self, model: Any) -> None:
        values = [model.rvs_to_values[rv] for rv in model.free_RVs]
        transformed = [rv for rv, value in zip(model.free_RVs, values) if rv.name != value.name]
        self.names = [value.name for value in values]
        self._initial = starting_points(model, transformed=True)
        self._lock = threading.Lock()
        point = self._initial(0)
        shapes = [np.shape(point[name]) for name in self.names]
        self.dimension = sum(int(np.prod(shape)) for shape in shapes)
        with model:
            density, expand = _functions(model, values, shapes, transformed)
        self.shared = list(dict.fromkeys([*density.get_shared(), *expand.get_shared()]))
        self.variables = [*zip(self.names, shapes), *((rv.name, shape_of(rv)) for rv in transformed)]
        self.expanded = sum(int(np.prod(shape)) for _, shape in self.variables)
        self._made = beside(self._compile, density, expand)

    def _compile(self, density: Any, expand: Any) -> tuple[Any, Any]:
        return (
            _c_density(_guarded(density, self.dimension, self.shared), self.dimension),
            _c_expand(_guarded(expand, self.dimension, self.shared), self.dimension, self.expanded),
        )

    def with_data(self, **data: NDArray[Any]) -> Any:
        """The model of these data."""
        import pandas as pd
        from nutpie.compile_pymc import CompiledPyMCModel

        given = {variable: data.get(variable.name, variable.get_value(borrow=True)) for variable in self.shared}
        arrays = [np.array(values, dtype=variable.dtype, order="C") for variable, values in given.items()]
        table = [entry for array in arrays for entry in (array.ctypes.data, *array.shape)]
        density, expand = self._made.result()
        names, shapes = zip(*self.variables)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        slices = [slice(int(end) - int(np.prod(shape)), int(end)) for end, shape in zip(ends, shapes)]
        return CompiledPyMCModel(
            dims={},
            _n_dim=self.dimension,
            _coords={"unconstrained_parameter": pd.RangeIndex(self.dimension)},
            _shapes=dict(self.variables),
            compiled_logp_func=density,
            compiled_expand_func=expand,
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
    mode = _mode()
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
    # With sums in any order, code from the cache on disk rounds otherwise than the same code just compiled, and chains part ways.
    with pytensor.config.change_flags(numba__fastmath=False):
        return (
            compile_graph((point,), both, mode=mode),
            compile_graph((point,), [expanded], givens=list(given.items()), mode=mode),
        )


def _mode() -> Any:
    try:
        from ._special import CALL_BY_NAME
    except ImportError:  # Other versions of pytensor, which may keep nothing on disk.
        return NUMBA
    return NUMBA.register(CALL_BY_NAME)


def _guarded(function: Any, dimension: int, shared: list[Any]) -> Any:
    """A compiled function as an operation of numba on the addresses of a vector and of a table, which has the address and the
    shape of each array, one after the other. It returns whether the function raised, and what it returned.

    It is written in LLVM, since numba takes seconds to compile `try` and the arrays of C.
    """
    from numba.core import types
    from numba.extending import intrinsic
    from numba.np.numpy_support import from_dtype

    compiled = function.vm.jit_fn
    starts = dict(zip(shared, np.cumsum([0] + [1 + variable.ndim for variable in shared]).tolist()))
    vector_type = types.Array(types.float64, 1, "C")
    arrays = [vector_type, *(types.Array(from_dtype(np.dtype(x.dtype)), x.ndim, "C") for x in function.get_shared())]

    @intrinsic  # type: ignore[untyped-decorator]
    def call(typing: Any, vector: Any, table: Any) -> Any:
        inner = typing.resolve_function_type(types.Dispatcher(compiled), tuple(arrays), {})

        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            entries = _Entries(context, builder, given[1])
            values = [entries.array(vector_type, given[0], [context.get_constant(types.intp, dimension)])]
            for kind, variable in zip(arrays[1:], function.get_shared()):
                at = starts[variable]
                values.append(entries.array(kind, entries.address(at), [entries.number(at + 1 + i) for i in range(kind.ndim)]))
            if isinstance(inner.args[0], types.BaseTuple):  # What comes from pytensor's cache takes any arguments.
                values = [context.make_tuple(builder, inner.args[0], values)]
            made = compiled.overloads[inner.args]
            convention = context.call_conv
            kind = convention.get_function_type(inner.return_type, inner.args).as_pointer()
            # By its address: by its name, numba would compile it once more as a part of this one.
            address = context.get_constant(types.intp, made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
            callee = builder.inttoptr(address, kind)
            status, found = convention.call_function(builder, callee, inner.return_type, inner.args, values)
            nothing = context.get_constant_null(inner.return_type)
            parts = [status.is_error, builder.select(status.is_error, nothing, found)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.Tuple((types.boolean, inner.return_type))(vector, table), code

    return call


class _Entries:
    """The entries of a table of 64-bit numbers, as they are read in LLVM."""

    def __init__(self, context: Any, builder: Any, table: Any) -> None:
        from llvmlite import ir

        self.context = context
        self.builder = builder
        self.table = builder.bitcast(table, ir.IntType(64).as_pointer())

    def number(self, at: int) -> Any:
        """An entry."""
        from llvmlite import ir

        return self.builder.load(self.builder.gep(self.table, [ir.Constant(ir.IntType(64), at)]))

    def address(self, at: int) -> Any:
        """An entry that is one."""
        from llvmlite import ir

        return self.builder.inttoptr(self.number(at), ir.IntType(8).as_pointer())

    def array(self, kind: Any, address: Any, shape: list[Any]) -> Any:
        """An array there, which belongs to nobody."""
        from numba.core import types
        from numba.np.arrayobj import populate_array

        size = self.context.get_constant(types.intp, self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype)))
        strides = [size]
        for length in reversed(shape[1:]):
            strides.insert(0, self.builder.mul(strides[0], length))
        array = self.context.make_array(kind)(self.context, self.builder)
        data = self.builder.bitcast(address, array.data.type)
        populate_array(array, data=data, shape=shape, strides=strides[: len(shape)], itemsize=size, meminfo=None)
        return array._getvalue()


def _c_density(call: Any, dimension: int) -> Any:
    """Log-density and gradient at a point, as nutpie calls it; 0, or what is wrong."""
    import numba
    from numba.types import CPointer, float64, int64, uint64, voidptr

    signature = int64(uint64, CPointer(float64), CPointer(float64), CPointer(float64), voidptr)

    def density(count: Any, point: Any, gradient: Any, value: Any, table: Any) -> Any:
        if count != dimension:
            return -1
        raised, (found, slope) = call(point, table)
        if raised:
            return 1
        for i in range(dimension):
            gradient[i] = slope[i]
            if not np.isfinite(slope[i]):
                return 3
        value[0] = found.item()
        return 0 if np.isfinite(value[0]) else 4

    return numba.cfunc(signature)(density)


def _c_expand(call: Any, dimension: int, expanded: int) -> Any:
    """All values at a point, as nutpie calls it; 0, or what is wrong."""
    import numba
    from numba.types import CPointer, float64, int64, uint64, voidptr

    signature = int64(uint64, uint64, CPointer(float64), CPointer(float64), voidptr)

    def expand(count: Any, wanted: Any, point: Any, values: Any, table: Any) -> Any:
        if count != dimension or wanted != expanded:
            return -1
        raised, (found,) = call(point, table)
        if raised:
            return -2
        for i in range(expanded):
            values[i] = found[i]
        return 0

    return numba.cfunc(signature)(expand)
