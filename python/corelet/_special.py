"""Special functions of SciPy called by name, so that pytensor keeps on disk what numba compiles of a density that has them.

Pytensor calls them by their addresses, which no other process shares: whatever has one in it (the gradient of a Student-t with
unknown ν has the digamma function) it lets numba compile again in every process.
"""

from __future__ import annotations

from typing import Any, Optional

import llvmlite.binding
import numpy as np
import scipy.special.cython_special as in_c
from numba import from_dtype, types
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import (
    numba_funcify_and_cache_key,
    numba_njit,
    register_funcify_and_cache_key,
)
from pytensor.link.numba.dispatch.cython_support import wrap_cython_function
from pytensor.link.numba.dispatch.scalar import scalar_op_cache_key
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.elemwise import Elemwise

DOUBLE = np.dtype(np.float64)


class ByName(ScalarOp):  # type: ignore[misc]
    """A function that numba calls by its name."""


@register_funcify_and_cache_key(ByName)  # type: ignore[untyped-decorator]
def _by_name(op: Any, node: Any, **kwargs: Any) -> tuple[Any, str]:
    name, wrapped = _name(op), _in_c(op, len(node.inputs))
    assert wrapped is not None
    symbol = f"corelet_{name}"
    llvmlite.binding.add_symbol(symbol, wrapped.__wrapper_address__())
    result, arguments = from_dtype(wrapped.numpy_output_dtype()), map(from_dtype, wrapped.numpy_arg_dtypes())
    given = ", ".join(f"x{i}" for i in range(len(node.inputs)))
    flag = ", skip_dispatch" if wrapped.has_pyx_skip_dispatch() else ""
    source = f"def {name}({given}): return in_c({given}{flag})"
    known = {"in_c": types.ExternalFunction(symbol, result(*arguments)), "skip_dispatch": np.intc(1)}
    return numba_njit(compile_numba_function_src(source, name, known)), scalar_op_cache_key(op)


@node_rewriter([Elemwise])  # type: ignore[untyped-decorator]
def _call_by_name(fgraph: Any, node: Any) -> Optional[list[Any]]:
    op = node.op.scalar_op
    as_others = numba_funcify_and_cache_key.dispatch(type(op)) is numba_funcify_and_cache_key.dispatch(ScalarOp)
    doubles = all(variable.dtype == DOUBLE for variable in [*node.inputs, *node.outputs])
    if not as_others or not doubles or _in_c(op, len(node.inputs)) is None:
        return None
    return [Elemwise(_class_of(type(op))(op.output_types_preference))(*node.inputs)]


CALL_BY_NAME = (in2out(_call_by_name), 47)
"""With the place among pytensor's rewritings: after those that know these functions, before those that join operations."""


_classes: dict[type, Any] = {}


def _class_of(kind: type) -> Any:
    """The same operation, called by name."""
    return _classes.setdefault(kind, type(f"{kind.__name__}ByName", (ByName, kind), {}))


def _name(op: Any) -> str:
    return str(op.nfunc_spec[0]).rpartition(".")[2]


def _in_c(op: Any, arguments: int) -> Any:
    """The function in C for doubles, or None."""
    if not str((getattr(op, "nfunc_spec", None) or [""])[0]).startswith("scipy.special."):
        return None
    function = getattr(in_c, _name(op), None)
    try:
        return None if function is None else wrap_cython_function(function, DOUBLE, [DOUBLE] * arguments)
    except (NotImplementedError, ValueError):
        return None
