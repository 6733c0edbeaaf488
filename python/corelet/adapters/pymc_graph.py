"""The log-likelihood of a PyMC model, row by row, as a graph that serves any of its rows.

PyMC gives the log-likelihood of an observed variable as a graph. What in it depends on data alone is computed once, from all
rows; results with one entry for each row become inputs of the graph, of which rows can be taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Optional

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.type import TensorType

from .._lib import CoreletError
from ..frames.units import Which

AS_IT_IS = Mode("py", None)
"""Evaluates a graph by NumPy, an operation at a time, as it stands: nothing is compiled."""

LONG = 1000
"""Entries of an array that compilers had better not see."""

_numbers = count()

INSIDE = (
    "compute what mixes rows (an index that takes rows by position, a mask, pt.roll, a mean, a cumulative sum) before the model, from "
    "data alone"
)


@dataclass(frozen=True)
class Leaf:
    """Data of which each row has its part: along this axis."""

    values: NDArray[Any]
    axis: int
    name: str

    def take(self, rows: Which) -> NDArray[Any]:
        """The part of these rows."""
        if isinstance(rows, slice):
            index = (slice(None),) * self.axis + (rows,)
            return self.values[index]
        return np.take(self.values, rows, axis=self.axis)

    def part(self, taken: NDArray[Any], rows: slice) -> NDArray[Any]:
        """Some rows of what `take` returned, as one block of memory."""
        return np.ascontiguousarray(taken[(slice(None),) * self.axis + (rows,)])

    @property
    def type(self) -> Any:
        """That of a variable which holds any rows."""
        shape = tuple(None if at == self.axis else length for at, length in enumerate(self.values.shape))
        return TensorType(self.values.dtype, shape)

    def shared(self) -> Any:
        """A shared variable that holds any rows; at first one."""
        return pytensor.shared(self.take(np.zeros(1, np.int64)), name=self.name, shape=self.type.shape)


def check_model(model: Any) -> int:
    """The number of rows: the common length of the observed variables. Refuses models that have no rows of their own."""
    if not model.observed_RVs:
        raise CoreletError(
            "this model has no observed variable; write its likelihood as one (pm.CustomDist for one of your own), since a "
            "pm.Potential does not tell which part of it belongs to which row"
        )
    for variable in [*model.observed_RVs, *model.free_RVs, *model.potentials]:
        if not isinstance(variable.type, TensorType):
            raise CoreletError(
                f"{variable.name} is a variable of pymc.dims, which cannot be fitted by a coreset yet; write the model with pm. in place "
                "of pymc.dims."
            )
    _check_free(model)
    for rv in model.observed_RVs:
        if _is_minibatch(rv, model.rvs_to_values[rv]):
            raise CoreletError(
                f"{rv.name} is observed through pm.Minibatch or has a total_size; give it all rows (observed=y, no total_size): corelet "
                "chooses rows itself"
            )
        base = rv.name.removesuffix("_observed")
        if base != rv.name and f"{base}_unobserved" in {free.name for free in model.free_RVs}:
            raise CoreletError(
                f"{base} has missing values that the model imputes, one unknown for each; leave these rows "
                "out, or fill them in before"
            )
    of_rows, _ = observed_of(model)
    if not of_rows:
        raise CoreletError(f"the observed variable {model.observed_RVs[0].name} is a single number; it must have one entry for each row")
    n = _length_of(model, of_rows[0])
    for rv in model.free_RVs:
        if n in shape_of(rv):
            raise CoreletError(
                f"{rv.name} has one latent value for each of the {n} rows{_first_axis(model, of_rows[0])}, so a row has a part of the posterior of its own; "
                "integrate it out (pm.Mixture, pm.Marginal…), or give it one value for each group"
            )
    return n


def observed_of(model: Any) -> tuple[list[Any], list[Any]]:
    """The observed variables of the rows, which are the longest, and those of anything else (a census, a smaller survey), which stand beside
    the rows as priors do."""
    lengths = {rv: _length_of(model, rv) for rv in model.observed_RVs}
    n = max(lengths.values(), default=0)
    return [rv for rv in lengths if 0 < lengths[rv] == n], [rv for rv in lengths if lengths[rv] == 0 or lengths[rv] < n]


def _first_axis(model: Any, rv: Any) -> str:
    shape = shape_of(model.rvs_to_values[rv])
    return f" (the first axis of {rv.name}, whose shape is {shape})" if len(shape) > 1 else ""


def _length_of(model: Any, rv: Any) -> int:
    return shape_of(model.rvs_to_values[rv])[0] if rv.ndim else 0


def _check_free(model: Any) -> None:
    if not model.free_RVs:
        raise CoreletError("this model has no free variable, so there is nothing to fit")
    for rv in model.free_RVs:
        if rv.dtype.startswith(("int", "uint", "bool")):
            raise CoreletError(
                f"{rv.name} is a discrete variable, which NUTS cannot sample; sum it out of the model (pm.Mixture, or pymc_extras.marginalize)"
            )


def _is_minibatch(rv: Any, value: Any) -> bool:
    """Whether the log-likelihood is scaled up from some rows."""
    for variable in (rv, value):
        if variable.owner is not None and type(variable.owner.op).__name__ in ("MinibatchRandomVariable", "MinibatchIndexRV"):
            return True
    between = toposort([value]) if value.owner is not None else []
    return any(type(node.op).__name__ == "MinibatchIndexRV" for node in between)


def shape_of(variable: Any) -> tuple[int, ...]:
    """Its shape, worked out where it is not known beforehand."""
    static = variable.type.shape
    return tuple(static) if None not in static else tuple(int(x) for x in variable.shape.eval(mode=AS_IT_IS))


class RowLogp:
    """The log-likelihood of whatever rows its leaves hold."""

    def __init__(self, model: Any, n: int) -> None:
        self.n = n
        self.leaves: list[Leaf] = []
        self._free = {rv: rv.type(rv.name) for rv in model.free_RVs}
        self._graphs: dict[str, Any] = {}
        self._nodes: dict[str, list[Any]] = {}
        self._values: dict[Any, NDArray[Any]] = {}
        self._leaf_of: dict[Any, Leaf] = {}
        self._identity: set[Any] = set()
        of_rows, _ = observed_of(model)
        for rv in of_rows:
            try:
                self._add(rv, self._elementwise(model, rv))
            except CoreletError:
                raise
            except Exception as error:
                differ = len(set(_data_lengths(model).values())) > 1
                raise (not_of_all_rows(model, n, error) if differ else refusal(rv.name, error)) from error
        if not self.leaves:
            names = ", ".join(rv.name for rv in of_rows)
            raise CoreletError(f"the log-likelihood of {names} reads no data with an entry for each of the {n} rows")

    def _elementwise(self, model: Any, rv: Any) -> Any:
        """Of free variables that are plain variables, and of other observed ones as they were observed: PyMC would take random
        variables for part of the distribution."""
        others = {other: model.rvs_to_values[other] for other in model.observed_RVs if other is not rv}
        conditional = _folded(with_own_data([rv], {**self._free, **others})[0])
        graph = pm.logp(conditional, model.rvs_to_values[rv], warn_rvs=False)
        if graph.ndim == 0 or (graph.ndim < rv.ndim and graph.type.shape[0] not in (None, self.n)):
            raise CoreletError(
                f"the log-likelihood of {rv.name} is not a sum over its rows (a time series, a Gaussian process, …), so no rows can stand "
                "for all; fit this model without corelet, or give each series its row"
            )
        if _is_random(graph):  # It asks a random variable for its shape, which can be worked out without one.
            graph = rewrite_graph(graph, include=("ShapeOpt", "canonicalize"))
        if _is_random(graph):
            raise CoreletError(
                f"the log-likelihood of {rv.name} is made of random draws (pm.Simulator, for instance), so it has no value that rows could "
                "be chosen by; fit this model without corelet"
            )
        return graph

    def _add(self, rv: Any, graph: Any) -> None:
        """Finds what of this graph depends on data alone, and its value for all rows."""
        varying = set(self._free.values())
        kept = []
        for node in toposort([graph]):
            if any(variable in varying for variable in node.inputs):
                varying.update(node.outputs)
                kept.append(node)
        needed = [*(variable for node in kept for variable in node.inputs), graph]
        edge = list(dict.fromkeys(variable for variable in needed if variable not in varying))
        self._evaluate([variable for variable in edge if isinstance(variable.type, TensorType) and variable not in self._values])
        for variable in edge:
            if variable in self._values and variable not in self._leaf_of:
                self._make_leaf(rv, variable)
        self._graphs[rv.name] = graph
        self._nodes[rv.name] = kept

    def _evaluate(self, variables: list[Any]) -> None:
        known = {variable: variable.data for variable in variables if isinstance(variable, Constant)}
        known.update({v: v.get_value() for v in variables if isinstance(v, SharedVariable)})
        rest = [variable for variable in variables if variable not in known]
        if rest:
            found = pytensor.function([], rest, mode=AS_IT_IS)()
            known.update(zip(rest, found))
        self._values.update({variable: np.asarray(value) for variable, value in known.items()})

    def _make_leaf(self, rv: Any, variable: Any) -> None:
        values = self._values[variable]
        axes = [axis for axis, length in enumerate(values.shape) if length == self.n]
        if not axes:
            return
        if len(axes) > 1:
            raise CoreletError(
                f"the log-likelihood of {rv.name} reads an array of shape {values.shape}, with an entry for each pair of rows: it is not a "
                "sum over rows, so no rows can stand for all; fit this model without corelet"
            )
        counted = values.size == self.n and values.dtype.kind in "iu"
        if counted and np.array_equal(values.ravel(), np.arange(self.n)):
            self._identity.add(variable)
        for known, leaf in self._leaf_of.items():
            same = self._values[known]
            if same.dtype == values.dtype and same.shape == values.shape and np.array_equal(same, values, equal_nan=values.dtype.kind == "f"):
                self._leaf_of[variable] = leaf
                return
        leaf = Leaf(np.require(values, requirements="W"), axes[0], f"corelet_{len(self.leaves)}")
        self._leaf_of[variable] = leaf
        self.leaves.append(leaf)

    def of(self, leaves: Mapping[str, Any], given: Mapping[Any, Any]) -> dict[str, Any]:
        """The graphs, by observed variable, on these variables in place of leaves (by name) and of free variables."""
        return {name: self._of(name, leaves, given) for name in self._graphs}

    def total(self, leaves: Mapping[str, Any], given: Mapping[Any, Any], instead: Mapping[Any, Any] = {}) -> Any:
        """Their sum: one number for each row. `instead` are other variables in place of some inside of the graphs."""
        graphs = [self._of(name, leaves, given, instead) for name in self._graphs]
        total = graphs[0]
        for other in graphs[1:]:
            total = total + other
        return total

    @property
    def free(self) -> dict[Any, Any]:
        """The variable that stands for each free variable inside of the graphs."""
        return self._free

    @property
    def graphs(self) -> list[Any]:
        """The log-likelihood of each observed variable."""
        return list(self._graphs.values())

    @property
    def nodes(self) -> list[Any]:
        """What in them depends on free variables, each after what it depends on."""
        return [node for nodes in self._nodes.values() for node in nodes]

    @property
    def leaf_variables(self) -> set[Any]:
        """Data of rows inside of the graphs."""
        return set(self._leaf_of)

    def leaf_of(self, variable: Any) -> Optional[Leaf]:
        """The data of rows that a variable inside of the graphs holds."""
        return self._leaf_of.get(variable)

    def has_their_number(self, node: Any) -> bool:
        """Whether an operation makes arrays as long as there are rows, or may."""
        if any(self.n in getattr(output.type, "shape", ()) for output in node.outputs):
            return True
        return not isinstance(node.op, Elemwise) and any(self._length(old, old, None) is not old for old in node.inputs)

    def within(self, variables: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
        """Variables inside of the graphs that depend on no row, as functions of the free ones."""
        needed = set(ancestors(list(variables)))
        made: dict[Any, Any] = {self._free[rv]: variable for rv, variable in given.items()}
        made.update((variable, pt.constant(values)) for variable, values in self._values.items() if variable not in self._leaf_of)
        for node in self.nodes:
            if node.outputs[0] in needed:
                self._make(node, made, pt.constant(self.n))
        return [made[variable] for variable in variables]

    def _of(self, name: str, leaves: Mapping[str, Any], given: Mapping[Any, Any], instead: Mapping[Any, Any] = {}) -> Any:
        made: dict[Any, Any] = {self._free[rv]: variable for rv, variable in given.items()}
        made.update(instead)
        for variable, values in self._values.items():
            leaf = self._leaf_of.get(variable)
            made[variable] = pt.constant(values) if leaf is None else leaves[leaf.name]
        first = self.leaves[0]
        length = leaves[first.name].shape[first.axis]
        try:
            for node in self._nodes[name]:
                if not any(output in instead for output in node.outputs):
                    self._make(node, made, length)
        except Exception as error:
            raise refusal(name, error) from error
        graph = made[self._graphs[name]]
        return graph.sum(axis=tuple(range(1, graph.ndim)))

    def _make(self, node: Any, made: dict[Any, Any], length: Any) -> None:
        inputs = [made.get(variable, variable) for variable in node.inputs]
        if isinstance(node.op, SpecifyShape):
            made[node.outputs[0]] = inputs[0]
            return
        if isinstance(node.op, CheckParameterValue):
            made[node.outputs[0]] = self._checked(node, made)
            return
        if isinstance(node.op, OpFromGraph) and any(new.type != old.type for new, old in zip(inputs, node.inputs)):
            # Its inner graph may be of this number of rows.
            inner = dict(zip(node.op.inner_inputs, inputs))
            for within in toposort(node.op.inner_outputs):
                self._make(within, inner, length)
            made.update(zip(node.outputs, (inner.get(variable, variable) for variable in node.op.inner_outputs)))
            return
        if not isinstance(node.op, Elemwise):
            inputs = [self._length(old, new, length) for old, new in zip(node.inputs, inputs)]
            if "Subtensor" in type(node.op).__name__:
                inputs = [_counted(new, length) if old in self._identity else new for old, new in zip(node.inputs, inputs)]
        made.update(zip(node.outputs, node.op.make_node(*inputs).outputs))

    def _checked(self, node: Any, made: dict[Any, Any]) -> Any:
        """PyMC raises where the parameters of any row are out of their range; here such a row has log-likelihood −∞, and others theirs."""
        value = made.get(node.inputs[0], node.inputs[0])
        for condition in node.inputs[1:]:
            for part in _parts(condition, made):
                if part not in made and bool(pt.as_tensor(part).eval(mode=AS_IT_IS)):
                    continue  # Of data alone, and it holds.
                held = pt.as_tensor(made.get(part, part))
                by_row = part.ndim > 0 and value.ndim > 0 and part.type.shape[0] in (None, self.n)
                if not by_row:
                    held = held.all()
                elif held.ndim > value.ndim:
                    held = held.all(axis=tuple(range(value.ndim, held.ndim)))
                value = pt.switch(held, value, -np.inf)
        return value

    def _length(self, old: Any, new: Any, length: Any) -> Any:
        """Where a shape is written out, the number of rows becomes that of the leaves. (A number that happens to be the same is found
        out when some rows are compared with all.)"""
        values = self._values.get(old, np.asarray(old.data) if isinstance(old, Constant) and isinstance(old.type, TensorType) else None)
        if values is None or values.ndim > 1 or values.dtype.kind not in "iu" or values.size > 8 or not (values == self.n).any():
            return new
        if values.ndim == 0 and length is not None:
            return length.astype(str(values.dtype)) if values.dtype.itemsize == 8 else length
        if length is None:
            return None
        return pt.stack([length if x == self.n else pt.constant(int(x), dtype="int64") for x in values])


def _counted(variable: Any, length: Any) -> Any:
    """The numbers of the rows that there are, in the shape of this variable: an index of all rows in their order."""
    rows = pt.arange(length, dtype="int64")
    pattern = ["x" if size == 1 else 0 for size in variable.type.shape]
    return rows if pattern == [0] else rows.dimshuffle(*pattern)


def _parts(condition: Any, made: Mapping[Any, Any]) -> list[Any]:
    """The conditions that must all hold for this one to hold, as they were before they were reduced to one; those of data alone, whose
    outcome is known, as they are."""
    node = condition.owner
    if node is None or not any(variable in made for variable in node.inputs):
        return [condition]
    if isinstance(node.op, (ScalarFromTensor, MakeVector)):
        return [part for entry in node.inputs for part in _parts(entry, made)]
    if isinstance(node.op, All):
        inner = node.inputs[0]
        is_vector = inner.owner is not None and isinstance(inner.owner.op, MakeVector)
        return _parts(inner, made) if is_vector else [inner]
    return [condition]


def _folded(variable: Any) -> Any:
    """With what small constants make as constants: a bound at infinity is none to PyMC only if it is a constant."""
    made: dict[Any, Any] = {}
    for node in toposort([variable]):
        inputs = [made.get(old, old) for old in node.inputs]
        known = all(isinstance(old, Constant) for old in inputs) and all(isinstance(x.type, TensorType) for x in [*inputs, *node.outputs])
        if not known and all(new is old for new, old in zip(inputs, node.inputs)):
            continue
        outputs = node.clone_with_new_inputs(inputs, strict=False).outputs
        if known and all(None not in out.type.shape and np.prod(out.type.shape) <= LONG for out in outputs):
            outputs = [pt.constant(out.eval(mode=AS_IT_IS)) for out in outputs]
        made.update(zip(node.outputs, outputs))
    return made.get(variable, variable)


def _is_random(graph: Any) -> bool:
    return any(isinstance(variable.type, RandomType) for node in toposort([graph]) for variable in node.inputs)


def refusal(name: str, error: BaseException) -> CoreletError:
    """The one line for a log-likelihood that cannot be taken apart."""
    what = str(error).strip().partition("\n")[0][:160]
    return CoreletError(f"the log-likelihood of {name} cannot be computed for some rows alone ({type(error).__name__}: {what}); {INSIDE}")


def not_of_all_rows(model: Any, n: int, error: BaseException) -> CoreletError:
    """The one line for a model that has no log-likelihood of the data that it holds now."""
    what = str(error).strip().partition("\n")[0][:160]
    lengths = _data_lengths(model)
    if len(set(lengths.values())) > 1:
        held = ", ".join(f"{name} {length}" for name, length in lengths.items())
        beside = f"; its data have these lengths: {held}; give those of rows one length by one call of pm.set_data"
    else:
        beside = "; data and observed values must have an entry for each row"
    return CoreletError(f"the log-likelihood of the {n} rows cannot be computed ({type(error).__name__}: {what}){beside}")


def _data_lengths(model: Any) -> dict[str, int]:
    """Of each pm.Data."""
    shapes = {data.name: data.get_value().shape for data in model.data_vars if isinstance(data, SharedVariable)}
    return {name: shape[0] for name, shape in shapes.items() if shape}


def unchecked(graphs: Sequence[Any]) -> list[Any]:
    """Without checks of parameters, which raise an error where a distribution has no value."""
    made: dict[Any, Any] = {}
    for node in toposort(list(graphs)):
        inputs = [made.get(variable, variable) for variable in node.inputs]
        if isinstance(node.op, CheckParameterValue):
            made[node.outputs[0]] = inputs[0]
        elif any(new is not old for new, old in zip(inputs, node.inputs)):
            made.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs))
    return [made.get(graph, graph) for graph in graphs]


def with_own_data(graphs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
    """Graphs with other variables in place of some, and with the data that they hold now: short arrays as constants, long ones as
    shared variables with names of their own. (Constants go into the code that compilers make, and they take long over long ones.)"""
    replaced: dict[Any, Any] = dict(given)
    for node in toposort(list(graphs), blockers=list(given)):
        for variable in node.inputs:
            values = _array(variable)
            if variable in replaced or values is None:
                continue
            if values.size > LONG:
                name = f"corelet_data_{next(_numbers)}"
                replaced[variable] = pytensor.shared(values, name=name, shape=variable.type.shape)
            elif isinstance(variable, SharedVariable):
                replaced[variable] = pt.constant(values)
    for node in toposort(list(graphs), blockers=list(given)):
        inputs = [replaced.get(variable, variable) for variable in node.inputs]
        changed = any(new is not old for new, old in zip(inputs, node.inputs))
        if changed and not any(output in given for output in node.outputs):
            replaced.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs))
    return [replaced.get(graph, graph) for graph in graphs]


def _array(variable: Any) -> Optional[NDArray[Any]]:
    if not isinstance(variable.type, TensorType):
        return None
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    return np.asarray(variable.get_value()) if isinstance(variable, SharedVariable) else None
