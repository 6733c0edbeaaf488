"""A PyMC model with weights on its rows: as another model for samplers, and as a density with its gradient to check them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import toposort
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.elemwise import Elemwise

from ..results.draws import Draws
from .._lib import CoreletError
from .pymc_graph import AS_IT_IS, RowLogp, observed_of, shape_of, with_own_data

MERGED = Mode("py", RewriteDatabaseQuery(include=["merge"]))
"""Evaluates a graph by NumPy, an operation at a time, and each expression once."""
JITTER = 1.0
"""Chains start within so much of PyMC's initial point, in each unconstrained variable, as those of PyMC and nutpie do."""


class Parameters:
    """The free variables of a model, on their own scale and on the unconstrained one where samplers live."""

    def __init__(self, model: Any, without: Sequence[Any] = ()) -> None:
        """All of them but those `without` which the model is looked at."""
        self.model = model
        self.free = [rv for rv in model.free_RVs if rv not in without]
        self.names = [rv.name for rv in self.free]
        self.shapes = [shape_of(rv) for rv in self.free]
        self.values = [model.rvs_to_values[rv] for rv in self.free]
        self._start = model.initial_point()
        self.value_names = [value.name for value in self.values]
        for rv, name in zip(self.free, self.value_names):
            if not np.isfinite(self._start[name]).all():
                raise CoreletError(
                    f"chains cannot start: PyMC's initial point of {rv.name} is not finite; give {rv.name} a proper prior, or an initval"
                )
        self.value_shapes = [np.shape(self._start[name]) for name in self.value_names]
        sizes = [int(np.prod(shape)) for shape in self.value_shapes]
        ends = np.cumsum(sizes).tolist()
        self.pieces = [slice(end - size, end) for end, size in zip(ends, sizes)]
        self.dimension = int(ends[-1])
        """How many unconstrained numbers there are."""
        self._forward: Any = None
        self._backward: Any = None

    @property
    def count(self) -> int:
        """How many numbers there are on their own scale."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def log_prior(self, values: list[Any]) -> Any:
        """The log-density of these unconstrained values without the rows: priors, potentials, Jacobians and what else was observed, of all
        data."""
        _, beside = observed_of(self.model)
        density = self.model.logp(vars=[*self.free, *self.model.potentials, *beside])
        return with_own_data([density], dict(zip(self.values, values)))[0]

    def constrained(self, values: list[Any]) -> list[Any]:
        """The free variables, of unconstrained values."""
        return with_own_data(self.model.replace_rvs_by_values(self.free), dict(zip(self.values, values)))

    def some_constrained(self, values: Mapping[int, Any]) -> dict[Any, Any]:
        """The free variables with these numbers, of their unconstrained values."""
        some = [self.free[at] for at in values]
        given = {self.values[at]: value for at, value in values.items()}
        return dict(zip(some, with_own_data(self.model.replace_rvs_by_values(some), given)))

    def variables(self) -> list[Any]:
        """One for each unconstrained value."""
        kinds = zip(self.values, self.value_shapes)
        return [pt.TensorType(value.dtype, shape)(value.name) for value, shape in kinds]

    def starts(self, count: int, seed: int, jitter: float = JITTER) -> NDArray[np.float64]:
        """Unconstrained points near PyMC's initial point, one a line."""
        point = self.model.initial_point(random_seed=seed)
        middle = np.concatenate([np.ravel(point[name]).astype(np.float64) for name in self.value_names])
        spread: NDArray[np.float64] = np.random.default_rng(seed).uniform(-jitter, jitter, size=(count, self.dimension))
        return middle + spread

    def unconstrained(self, theta: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """Draws without their chains as lines of unconstrained numbers; not finite where a draw is at the edge of its range."""
        if self._forward is None:
            given = {rv: pt.TensorType(rv.dtype, shape)(rv.name) for rv, shape in zip(self.free, self.shapes)}
            transforms = [self.model.rvs_to_transforms[rv] for rv in self.free]
            graphs = [rv if it is None else it.forward(rv, *rv.owner.inputs) for rv, it in zip(self.free, transforms)]
            graphs = with_own_data(graphs, given)
            self._forward = pytensor.function(list(given.values()), graphs, mode=AS_IT_IS, on_unused_input="ignore")
        arrays = [np.asarray(theta[rv.name], rv.dtype) for rv in self.free]
        lines = []
        with np.errstate(all="ignore"):
            for s in range(len(arrays[0])):
                lines.append(np.concatenate([np.ravel(part) for part in self._forward(*(array[s] for array in arrays))]))
        return np.array(lines, dtype=np.float64).reshape(len(lines), self.dimension)

    def constrain(self, points: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Chains × draws × unconstrained numbers as the free variables, chains × draws × …."""
        if self._backward is None:
            values = self.variables()
            self._backward = pytensor.function(values, self.constrained(values), mode=AS_IT_IS, on_unused_input="ignore")
        leading = points.shape[:2]
        lines = points.reshape(-1, self.dimension)
        found = [np.empty((len(lines), *shape), rv.dtype) for rv, shape in zip(self.free, self.shapes)]
        for s, line in enumerate(lines):
            for array, value in zip(found, self._backward(*self.split(line))):
                array[s] = value
        return {name: array.reshape(*leading, *array.shape[1:]) for name, array in zip(self.names, found)}

    def split(self, flat: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """A line of unconstrained numbers as the values of the variables."""
        return [flat[piece].reshape(shape) for piece, shape in zip(self.pieces, self.value_shapes)]


class WeightedModel:
    """A model of the same free variables in which each row's log-likelihood has a weight, of whatever rows it is given.

    Its variables are flat on the unconstrained scale, and one potential is the whole log-density, so that any sampler of PyMC models
    takes it. The variables of the user's model are deterministic in it.
    """

    def __init__(self, parameters: Parameters, rows: RowLogp) -> None:
        self.parameters = parameters
        self.leaves = rows.leaves
        self.weights = pytensor.shared(np.ones(1), name="corelet_weights", shape=(None,))
        self.shared = {leaf.name: leaf.shared() for leaf in rows.leaves}
        self.starts = pytensor.shared(np.zeros((1, parameters.dimension)), name="corelet_starts", shape=(None, parameters.dimension))
        self.names = [f"corelet_value_{at}" for at in range(len(parameters.free))]
        """Of its free variables. (PyMC takes a name like `sigma_log__` for a transformed variable's.)"""
        with pm.Model() as self.model:
            # A start is drawn anew for each chain, the same line for all variables.
            line: Any = pm.DiscreteUniform.dist(0, self.starts.shape[0] - 1)
            flat = []
            for name, shape, piece in zip(self.names, parameters.value_shapes, parameters.pieces):
                start = self.starts[line, piece].reshape(shape)
                flat.append(pm.Flat(name, shape=shape, initval=start))
            constrained = parameters.constrained(flat)
            log_likelihood = rows.total(self.shared, dict(zip(parameters.free, constrained)))
            pm.Potential("corelet_log_density", parameters.log_prior(flat) + (self.weights * log_likelihood).sum())
            for name, expression in zip(parameters.names, constrained):
                pm.Deterministic(name, expression)

    def data(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """What its shared variables must hold."""
        return {"corelet_weights": weights, **{leaf.name: leaf.take(rows) for leaf in self.leaves}}

    def set(self, data: Mapping[str, NDArray[Any]]) -> None:
        """Makes it the model of these rows."""
        for name, values in data.items():
            (self.weights if name == "corelet_weights" else self.shared[name]).set_value(values)

    def split(self, line: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """A start as values of its free variables."""
        return self.parameters.split(line)


class Scores:
    """The log-density of weighted rows and its gradient by PyMC's own graphs, evaluated by NumPy: nothing that a sampler compiled."""

    def __init__(self, parameters: Parameters, rows: RowLogp) -> None:
        self.parameters = parameters
        self.leaves = rows.leaves
        values = parameters.variables()
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in rows.leaves}
        weights = pt.vector("corelet_weights")
        log_likelihood = rows.total(leaves, dict(zip(parameters.free, parameters.constrained(values))))
        self._prior = _with_gradient(values, [], parameters.log_prior(values))
        self._weighted = _with_gradient(values, [weights, *leaves.values()], (weights * log_likelihood).sum())

    def __call__(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], at: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log-densities and gradients at lines of unconstrained numbers."""
        data = [np.asarray(weights, np.float64), *(np.ascontiguousarray(leaf.take(rows)) for leaf in self.leaves)]
        prior, prior_gradient = self.log_prior(at)
        rest, gradient = self._evaluate(self._weighted, at, data)
        return prior + rest, prior_gradient + gradient

    def log_prior(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same of priors, potentials and Jacobians alone."""
        return self._evaluate(self._prior, at, [])

    def _evaluate(
        self, function: Any, at: NDArray[np.float64], data: list[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        densities, gradients = np.empty(len(at)), np.empty(at.shape)
        with np.errstate(all="ignore"):
            for s, line in enumerate(at):
                density, *parts = function(*self.parameters.split(line), *data)
                densities[s] = density
                gradients[s] = np.concatenate([np.ravel(part) for part in parts])
        return densities, gradients


def _with_gradient(values: list[Any], data: list[Any], density: Any) -> Any:
    density = stable(density)
    gradients = pytensor.grad(density, values, disconnected_inputs="ignore")
    # Rewritten, what a branch that is not taken would make of 0 times infinity goes; shapes first, or it takes long.
    graphs = rewrite_graph([density, *gradients], include=("ShapeOpt", "canonicalize", "stabilize"))
    return by_numpy([*values, *data], graphs)


def stable(graph: Any) -> Any:
    """Written so that it loses no digits, as nutpie and PyMC do before they derive it; −∞ where parameters are out of their range."""
    return rewrite_graph(graph, include=("canonicalize", "stabilize", "local_check_parameter_to_ninf_switch"))


def by_numpy(inputs: list[Any], graphs: list[Any]) -> Any:
    """A function that NumPy evaluates, an operation at a time, so that nothing is compiled; by numba where the graph has loops for each
    number in it (the derivative of an incomplete beta function), which Python would take minutes over."""
    ready = _in_pairs(graphs)
    loops = any(isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, ScalarLoop) for node in toposort(ready))
    with pytensor.config.change_flags(numba__fastmath=False):
        function = pytensor.function(inputs, ready, mode="NUMBA" if loops else MERGED, on_unused_input="ignore")
    function.trust_input = True
    return function


def _in_pairs(graphs: list[Any]) -> list[Any]:
    """Sums and products of more than two terms as those of pairs: for the others NumPy has no function, and pytensor loops in Python."""
    made: dict[Any, Any] = {}
    for node in toposort(graphs):
        inputs = [made.get(variable, variable) for variable in node.inputs]
        scalar = type(node.op.scalar_op).__name__ if isinstance(node.op, Elemwise) else ""
        if scalar in ("Add", "Mul") and len(inputs) > 2:
            made[node.outputs[0]] = reduce(pt.add if scalar == "Add" else pt.mul, inputs)
        elif any(new is not old for new, old in zip(inputs, node.inputs)):
            made.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs))
    return [made.get(graph, graph) for graph in graphs]


def flat_draws(draws: Draws) -> dict[str, NDArray[Any]]:
    """Draws without their chains."""
    flat = draws.flat()
    assert isinstance(flat, dict)
    return flat
