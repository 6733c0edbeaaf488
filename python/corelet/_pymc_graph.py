"""The log-likelihood of a PyMC model, row by row, with everything in it that has a value for each row made exchangeable.

`pymc.logp` gives the log-likelihoods of the observed variables as a graph. Constants and shared variables with an axis as
long as the data are leaves of it; with new leaves in their place, the same graph serves any rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.initial_point import make_initial_point_expression
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import find_rng_nodes, replace_rng_nodes, reseed_rngs
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorConstant

from ._lib import CoreletError
from ._units import Which

AS_IT_IS = Mode("py", None)
"""Evaluates a graph by NumPy, an operation at a time. (Rewriting joins products to operations that loop over rows in Python.)"""

REWRITTEN = Mode("py", RewriteDatabaseQuery(include=["fast_compile", "py_only"]))
"""The same after the rewritings of pytensor's FAST_COMPILE."""


@dataclass(frozen=True)
class Leaf:
    """Data of which each row has its part: along this axis."""

    values: NDArray[Any]
    axis: int
    variable: Any

    def take(self, rows: Which) -> NDArray[Any]:
        """The part of these rows."""
        if isinstance(rows, slice):
            index = (slice(None),) * self.axis + (rows,)
            return self.values[index]
        return np.take(self.values, rows, axis=self.axis)


@dataclass(frozen=True)
class RowLogp:
    """A vector of log-likelihoods, of whatever rows the leaves hold."""

    graph: Any
    leaves: list[Leaf]


def number_of_rows(model: Any) -> int:
    """The common length of the observed variables; refuses models that have no rows of their own."""
    if not model.observed_RVs:
        raise CoreletError(
            "this model has no observed variable; write its likelihood as one (pm.CustomDist for one of your own), since a "
            "pm.Potential does not tell which part of it belongs to which row"
        )
    if not model.free_RVs:
        raise CoreletError("this model has no free variable, so there is nothing to fit")
    lengths = {}
    for rv in model.observed_RVs:
        if type(rv.owner.op).__name__ == "PartialObservedRV" or rv.name.endswith("_observed"):
            raise CoreletError(
                f"{rv.name} has missing values that the model imputes, one unknown for each; leave these rows out, or fill "
                "them in before"
            )
        if rv.ndim == 0:
            raise CoreletError(f"the observed variable {rv.name} is a single number; it must have one entry for each row")
        lengths[rv.name] = shape_of(model.rvs_to_values[rv])[0]
    if len(set(lengths.values())) != 1:
        raise CoreletError(
            f"the observed variables have different lengths ({lengths}), so there are no rows that a coreset could choose; fit "
            "models with one table of rows, or give groups of a common length"
        )
    n = next(iter(lengths.values()))
    for rv in model.free_RVs:
        if n in shape_of(rv):
            raise CoreletError(
                f"{rv.name} has one latent value for each of the {n} rows, so a row has a part of the posterior of its own; "
                "integrate it out (pm.Mixture, pm.Marginal…), or give it one value for each group"
            )
    return n


def shape_of(variable: Any) -> tuple[int, ...]:
    """Its shape, worked out where it is not known beforehand."""
    static = variable.type.shape
    return tuple(static) if None not in static else tuple(int(x) for x in variable.shape.eval(mode=AS_IT_IS))


def starting_points(model: Any, transformed: bool) -> Callable[[Any], dict[str, NDArray[Any]]]:
    """A function of a seed: the values of all free variables at a place where chains may start, as PyMC has them, whose own
    function (`make_initial_point_fn`) loads what compiles C, and that takes longer than everything else here."""
    values = make_initial_point_expression(
        free_rvs=model.free_RVs,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies=dict(model.rvs_to_initial_values),
        jitter_rvs=set(model.free_RVs),
        return_transformed=transformed,
    )
    names = [(model.rvs_to_values[rv] if transformed else rv).name for rv in model.free_RVs]
    function = compile_graph([], replace_rng_nodes(values), mode=REWRITTEN)
    generators = find_rng_nodes(function.maker.fgraph.outputs)

    def at(seed: Any) -> dict[str, NDArray[Any]]:
        reseed_rngs(generators, seed)
        return dict(zip(names, function()))

    return at


def row_logp(model: Any, n: int, shared: bool, given: dict[Any, Any]) -> RowLogp:
    """The log-likelihood of each row, the sum over the observed variables and over what a row has several of.

    Leaves are shared variables or plain ones. `given` replaces random variables, which stay in it otherwise.
    """
    graphs = [pm.logp(rv, model.rvs_to_values[rv], warn_rvs=False) for rv in model.observed_RVs]
    for rv, graph in zip(model.observed_RVs, graphs):
        if graph.ndim == 0 or (graph.ndim < rv.ndim and graph.type.shape[0] not in (None, n)):
            raise CoreletError(
                f"the log-likelihood of {rv.name} is not a sum over its rows (a time series, a Gaussian process, …), so no "
                "rows can stand for all"
            )
    rebuilt = _Rebuild(n, shared, given, model.free_RVs)
    rows = [graph.sum(axis=tuple(range(1, graph.ndim))) for graph in rebuilt.of(graphs)]
    total = rows[0]
    for other in rows[1:]:
        total = total + other
    return RowLogp(total, rebuilt.leaves)


def plain_logp(model: Any, given: dict[Any, Any]) -> Any:
    """The same of all rows, with the graph as the model has it: what the other must agree with."""
    rows = []
    for rv in model.observed_RVs:
        graph = pm.logp(rv, model.rvs_to_values[rv], warn_rvs=False)
        rows.append(graph.sum(axis=tuple(range(1, graph.ndim))))
    total = rows[0]
    for other in rows[1:]:
        total = total + other
    return _Rebuild(-1, False, given, model.free_RVs).of([total])[0]


class _Rebuild:
    """Makes a graph again, node by node, on new leaves."""

    def __init__(self, n: int, shared: bool, given: dict[Any, Any], stop: list[Any]) -> None:
        self.n = n
        self.shared = shared
        self.stop = list(stop)
        self.made: dict[Any, Any] = dict(given)
        self.leaves: list[Leaf] = []

    def of(self, outputs: list[Any]) -> list[Any]:
        """These outputs."""
        blocked = {rv.owner for rv in self.stop}
        nodes = [node for node in toposort(outputs, blockers=self.stop) if node not in blocked]
        for variable in [*outputs, *(variable for node in nodes for variable in node.inputs)]:
            self._leaf(variable)
        for node in nodes:
            self._node(node)
        return [self.made.get(output, output) for output in outputs]

    def _leaf(self, variable: Any) -> None:
        if variable in self.made or not isinstance(variable, (Constant, SharedVariable)):
            return
        values = variable.data if isinstance(variable, Constant) else variable.get_value(borrow=True)
        if not isinstance(values, np.ndarray) or self.n not in values.shape:
            return
        axes = [axis for axis, length in enumerate(values.shape) if length == self.n]
        if len(axes) > 1:
            raise CoreletError(
                f"the model holds an array of shape {values.shape}, with an entry for each pair of rows: its likelihood is "
                "not a sum over rows"
            )
        axis = axes[0]
        shape = tuple(None if at == axis else length for at, length in enumerate(values.shape))
        name = f"corelet_{len(self.leaves)}"
        if self.shared:
            made = pytensor.shared(np.take(values, [0], axis), name=name, shape=shape)
        else:
            made = pt.TensorType(values.dtype, shape)(name)
        self.made[variable] = made
        self.leaves.append(Leaf(values, axis, made))

    def _node(self, node: Any) -> None:
        inputs = [self.made.get(variable, variable) for variable in node.inputs]
        inputs = self._lengths(node.op, inputs)
        if all(new is old for new, old in zip(inputs, node.inputs)):
            return
        if isinstance(node.op, SpecifyShape):
            self.made[node.outputs[0]] = inputs[0]
            return
        rebuilt = node.op.make_node(*inputs)
        self.made.update(zip(node.outputs, rebuilt.outputs))

    def _lengths(self, op: Any, inputs: list[Any]) -> list[Any]:
        """Where a shape is written out, the number of rows becomes that of the leaves. (A number that happens to be the same
        is found out when some rows are compared with all.)"""
        if not self.leaves or isinstance(op, Elemwise):
            return inputs
        leaf = self.leaves[0]
        length = leaf.variable.shape[leaf.axis]

        def replaced(variable: Any) -> Any:
            shape_like = isinstance(variable, TensorConstant) and variable.ndim <= 1 and variable.dtype.startswith("int")
            if not shape_like or variable.data.size > 8 or not (variable.data == self.n).any():
                return variable
            if variable.ndim == 0:
                return length
            return pt.stack([length if x == self.n else pt.constant(x, dtype="int64") for x in variable.data])

        return [replaced(variable) for variable in inputs]
