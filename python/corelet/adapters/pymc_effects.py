"""The effects of a PyMC model: what its likelihood sees of the free variables, where that is made of several of them.

Deviations `sd * z` of groups, coefficients `z * tau * lam` under a horseshoe, correlated slopes `z @ chol.T`: where there are many rows the
log-likelihood is nearly quadratic in these products, and far from it in their factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.basic import TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.type import TensorType

from .gaussian import names_of
from .pymc_density import Parameters
from .pymc_graph import AS_IT_IS, RowLogp
from .pymc_loglik import AllRows, function_of, in_pieces

VIEWS = (DimShuffle, Reshape, SpecifyShape, TensorFromScalar)
INDEXED = ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
"""Operations that show entries of an array as they are; these by name, since pytensor has had the last in some versions only."""


def seen_by_rows(rows: RowLogp) -> tuple[list[Any], list[Any], dict[Any, list[str]]]:
    """What the rows see: variables of the graph that several free variables make, and free variables; and the names of those that make
    each of the first."""
    made_of: dict[Any, frozenset[Any]] = {plain: frozenset([rv]) for rv, plain in rows.free.items()}
    of_rows: set[Any] = set(rows.leaf_variables)
    edge: dict[Any, None] = {}
    for node in rows.nodes:
        origin = frozenset().union(*(made_of.get(variable, frozenset()) for variable in node.inputs))
        made_of.update((output, origin) for output in node.outputs)
        if any(variable in of_rows for variable in node.inputs) or rows.has_their_number(node):
            of_rows.update(node.outputs)
            edge.update((variable, None) for variable in node.inputs if variable in made_of)
    edge.update((graph, None) for graph in rows.graphs)
    composed: dict[Any, None] = {}
    plain: dict[Any, None] = {}
    waiting = [variable for variable in edge if variable not in of_rows]
    while waiting:
        variable = waiting.pop()
        node, origin = variable.owner, made_of[variable]
        before = [] if node is None else [x for x in node.inputs if made_of.get(x)]
        if len(origin) == 1:
            plain.update((rv, None) for rv in origin)
        elif not (isinstance(variable.type, TensorType) and variable.type.dtype.startswith("float")):
            waiting.extend(before)  # A condition, say.
        elif len(before) == 1 and (_is_view(node.op) or (isinstance(node.op, Elemwise) and len(node.inputs) == 1)):
            # Of exp(x) the likelihood is nearer to quadratic in x.
            waiting.extend(before)
        else:
            composed[variable] = None
    order = {rv: at for at, rv in enumerate(rows.free)}
    places = {output: at for at, node in enumerate(rows.nodes) for output in node.outputs}
    ordered = sorted(composed, key=places.__getitem__)
    makers = {variable: [rv.name for rv in sorted(made_of[variable], key=order.__getitem__)] for variable in ordered}
    return ordered, sorted(plain, key=order.__getitem__), makers


def _is_view(op: Any) -> bool:
    return isinstance(op, VIEWS) or type(op).__name__ in INDEXED


class Effects:
    """The numbers that the rows see of a point: those free variables that they see themselves, unconstrained, and what others make."""

    def __init__(self, parameters: Parameters, rows: RowLogp) -> None:
        self.composed, self._plain, makers = seen_by_rows(rows)
        self._rows = rows
        self._parameters = parameters
        self._all_rows: Optional[AllRows] = None
        if not self.composed:
            self.names: list[str] = []
            return
        point, values = in_pieces(parameters.value_shapes)
        made = rows.within(self.composed, dict(zip(parameters.free, parameters.constrained(values))))
        chosen = [at for at, rv in enumerate(parameters.free) if rv in self._plain]
        whole = pt.concatenate([*(values[at].ravel() for at in chosen), *(graph.ravel().astype("float64") for graph in made)])
        slope = pt.vector("corelet_slopes")
        back = pytensor.grad((whole * slope).sum(), point, disconnected_inputs="ignore")
        start = parameters.starts(1, 0, 0.0)[0]
        shapes = [np.shape(x) for x in pytensor.function([point], made, mode=AS_IT_IS, on_unused_input="ignore")(start)]
        self._at = _each(function_of([point], [whole]))
        self._back = _each(function_of([point, slope], [back]))
        self._chosen = chosen
        self._shapes = shapes
        self.names = [name for at in chosen for name in names_of(parameters.value_names[at], parameters.value_shapes[at])]
        for (variable, names), shape in zip(makers.items(), shapes):
            self.names.extend(names_of(variable.name or f"effect({', '.join(names)})", shape))

    @property
    def count(self) -> int:
        """How many there are; 0 where the rows see free variables themselves only."""
        return len(self.names)

    def at(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each point, a line."""
        out = np.empty((len(points), self.count))
        self._at(out, np.ascontiguousarray(points), ())
        return out

    def pull_back(self, points: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Slopes by the effects as slopes by the unconstrained numbers at these points."""
        out = np.empty(points.shape)
        self._back(out, np.ascontiguousarray(points), (np.ascontiguousarray(slopes),))
        return out

    def slopes(
        self, at: NDArray[np.float64], rows: Optional[NDArray[np.int64]], weights: Optional[NDArray[np.float64]] = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of these rows at lines of effects, and its gradient by these."""
        if self._all_rows is None:
            self._all_rows = AllRows(self._rows, *self._variables())
        return self._all_rows(at, rows, weights)

    def _variables(self) -> tuple[list[Any], dict[Any, Any], dict[Any, Any]]:
        """A variable for each part of a line of effects; the free variables and the composed ones as functions of these."""
        parameters = self._parameters
        own = [parameters.variables()[at] for at in self._chosen]
        others = [pt.TensorType("float64", shape)(f"corelet_effect_{number}") for number, shape in enumerate(self._shapes)]
        instead = {old: new.astype(old.type.dtype) for old, new in zip(self.composed, others)}
        return [*own, *others], parameters.some_constrained(dict(zip(self._chosen, own))), instead


def _each(function: Any) -> Callable[..., None]:
    """A function of one line for many, without the lock of the interpreter."""
    import numba

    one = function.vm.jit_fn

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def alone(out: Any, points: Any) -> None:
        for s in range(points.shape[0]):
            found = one(points[s])[0]
            for j in range(out.shape[1]):
                out[s, j] = found[j]

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def beside(out: Any, points: Any, others: Any) -> None:
        for s in range(points.shape[0]):
            found = one(points[s], others[s])[0]
            for j in range(out.shape[1]):
                out[s, j] = found[j]

    def each(out: Any, points: Any, others: tuple[Any, ...]) -> None:
        beside(out, points, *others) if others else alone(out, points)

    return each
