"""A PyMC model with a latent variable integrated out: its graphs as functions of one value for each group, and the draws that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors

from .._lib import CoreletError
from ..results.arviz import inference_data
from ..results.draws import Draws
from .bambi import cleaned
from .gaussian import Numbers, names_of
from .integrated import COMPARED, has_few_rows, pays
from .marginal import Marginal
from .pymc_density import Parameters, flat_draws, stable
from .pymc_graph import AS_IT_IS, shape_of, with_own_data
from .pymc_latent import GroupLogp, Latent, best_latent, latent_of
from .pymc_loglik import Prior, function_of, in_pieces
from .quadrature import Functions, loops


class Faster(Exception):
    """Integrating a latent variable out is expected to be faster than sampling all rows, which nothing smaller stands for."""

    def __init__(self, marginal: Marginal, seconds: float) -> None:
        super().__init__(f"{marginal.model.name} can be integrated out in about {seconds:.0f} s")
        self.marginal = marginal


class PyMCMarginal:
    """The other parameters, and compiled functions of rows and groups."""

    def __init__(self, tool: Any, latent: Latent) -> None:
        self.tool = tool
        self.latent = latent
        self.free = Parameters(tool.model, [latent.variable])
        self.labels = _labels(tool.model, latent)
        self._prior: Optional[Prior] = None
        self._compile()
        self._check()

    @property
    def name(self) -> str:
        return self.latent.name

    def _compile(self) -> None:
        rows, latent = self.tool.rows, self.latent
        density = GroupLogp(self.tool.model, latent)
        self._leaves, self._group_leaves = rows.leaves, density.leaves
        point, pieces = in_pieces(self.free.value_shapes)
        given = dict(zip(self.free.free, self.free.constrained(pieces)))
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in self._leaves}
        others = {leaf.name: leaf.type(leaf.name) for leaf in self._group_leaves}
        v, u, a = pt.vector("corelet_v"), pt.vector("corelet_u"), pt.vector("corelet_a")
        group = leaves[rows.leaf_of(latent.gathers[0].owner.inputs[1]).name]
        seen = latent.effect(self._own(v), latent.seen, group, given, rows)
        each = rows.total(leaves, given, {gather: seen for gather in latent.gathers}).astype("float64")
        if latent.plain in ancestors([each]):
            raise CoreletError(f"the rows see {latent.variable.name} otherwise than by an index")
        own = density.total(others, {**given, latent.variable: self._own(u)}).astype("float64") + self._jacobian(u)
        effect = latent.effect(self._own(u), latent.named, others["corelet_groups"], given, rows).astype("float64")
        each, own = stable(each), stable(own)
        by_rows, by_groups = [*leaves.values()], [*others.values()]

        def compiled(inputs: list[Any], graphs: list[Any]) -> Any:
            return function_of(inputs, graphs).vm.jit_fn

        self.loops = loops(
            Functions(
                rows=compiled([point, v, *by_rows], _jets(each, v)),
                values=compiled([point, v, *by_rows], [each]),
                prior=compiled([point, u, *by_groups], _jets(own, u)),
                slopes=compiled([point, v, a, *by_rows], [_slope((a * each).sum(), point)]),
                prior_slopes=compiled([point, u, a, *by_groups], [_slope((a * own).sum(), point)]),
                effect=compiled([point, u, *by_groups], [effect + 0.0 * u]),
            )
        )

    def _own(self, unconstrained: Any) -> Any:
        """The latent variable of its unconstrained values."""
        variable = self.latent.variable
        transform = self.tool.model.rvs_to_transforms[variable]
        return unconstrained if transform is None else transform.backward(unconstrained, *variable.owner.inputs)

    def _jacobian(self, unconstrained: Any) -> Any:
        variable = self.latent.variable
        transform = self.tool.model.rvs_to_transforms[variable]
        return 0.0 * unconstrained if transform is None else transform.log_jac_det(unconstrained, *variable.owner.inputs)

    def _check(self) -> None:
        """Against the model's own graphs: the log-likelihood of some rows with the values of their groups, and the whole log density."""
        tool, whole = self.tool, self.tool.free
        _, _, points, chosen, among = tool._known
        at = [rv is self.latent.variable for rv in whole.free].index(True)
        total = with_own_data([tool.model.logp()], {})[0]
        density = pytensor.function(tool.model.value_vars, [total], mode=AS_IT_IS, on_unused_input="ignore")
        groups = np.arange(self.latent.levels)
        few = np.arange(0, self.latent.levels, max(self.latent.levels // COMPARED, 2))
        for line, expected in zip(points, among):
            pieces = whole.split(line)
            point = np.concatenate([np.ravel(piece) for j, piece in enumerate(pieces) if j != at]).astype(np.float64)
            value = np.ascontiguousarray(np.ravel(pieces[at]), dtype=np.float64)
            some = self.values(point, value[self.latent.codes[chosen]], chosen)
            every = np.arange(tool.n)
            priors = self.priors(point, value, groups)
            both = self.values(point, value[self.latent.codes], every).sum() + priors.sum() + self.log_prior(point[None])[0][0]
            name = self.latent.variable.name
            if not np.allclose(self.priors(point, value[few], few), priors[few], rtol=1e-6, atol=1e-6):
                raise CoreletError(f"the prior of a value of {name} depends on its other values")
            own = float(density(*pieces)[0])
            if not (np.allclose(some, expected, rtol=1e-6, atol=1e-6) and np.isclose(both, own, rtol=1e-6, atol=1e-6)):
                raise CoreletError(f"the log density with {name} taken group by group is not that of the model")

    def values(self, point: Numbers, v: Numbers, rows: NDArray[np.int64]) -> Numbers:
        """The log-likelihood of these rows where the latent variable has these values."""
        return np.asarray(self.loops.values(point, np.ascontiguousarray(v), *self.data(rows))[0])

    def priors(self, point: Numbers, u: Numbers, groups: NDArray[np.int64]) -> Numbers:
        """The log density of these values of these groups."""
        return np.asarray(self.loops.prior(point, u, *self.others(groups))[0])

    @property
    def dimension(self) -> int:
        return self.free.dimension

    @property
    def length(self) -> tuple[int, int, int, float]:
        found: tuple[int, int, int, float] = self.tool.length
        return found

    def data(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return tuple(np.ascontiguousarray(leaf.take(rows)) for leaf in self._leaves)

    def others(self, groups: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return tuple(np.ascontiguousarray(leaf.take(groups)) for leaf in self._group_leaves)

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        if self._prior is None:
            self._prior = Prior(self.free)
        return self._prior(np.ascontiguousarray(at))

    def places(self, count: int) -> Numbers:
        points = np.concatenate([self.free.starts(1, 0, 0.0), self.free.starts(4 * count, 0)])
        density, gradient = self.log_prior(points)
        return points[np.isfinite(density) & np.isfinite(gradient).all(axis=1)][:count]

    def coordinates(self) -> list[str]:
        return [name for value, shape in zip(self.free.value_names, self.free.value_shapes) for name in names_of(value, shape)]

    def unconstrained(self, draws: Draws) -> Numbers:
        return self.free.unconstrained(flat_draws(draws))

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        found = Draws(self.free.constrain(points), True)
        if stats:
            self.tool.statistics.keep(found, stats)
            found = Draws(found.values, True, int(stats["diverging"].sum()))
        return found

    def only_left(self, draws: Draws) -> Draws:
        """Given draws without the latent variable and what is made of others, in the order of the model."""
        return draws.only(self.free.names)

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        """The draws with the names, dimensions and coordinates of the model, and those of its deterministic variables that the latent one is
        no part of."""

        model = self.tool.model
        values = dict(draws.values)
        values.update(self._made(draws))
        dims = {name: list(model.named_vars_to_dims[name]) for name in values if name in model.named_vars_to_dims}
        used = {axis for axes in dims.values() for axis in axes}
        coords = {axis: list(labels) for axis, labels in model.coords.items() if axis in used and labels is not None}
        groups: dict[str, Any] = {"posterior": values}
        stats = self.tool.statistics.of(draws)
        if stats:
            groups["sample_stats"] = stats
        idata = inference_data(groups, coords=coords, dims=dims, attributes=attributes)
        return idata if self.tool.bambi is None else cleaned(idata, self.tool.bambi)

    def _made(self, draws: Draws) -> dict[str, NDArray[Any]]:
        model, n = self.tool.model, self.tool.n
        hidden = model.rvs_to_values[self.latent.variable]
        small = [it for it in model.deterministics if n not in shape_of(it)]
        graphs = dict(zip(small, model.replace_rvs_by_values(small))) if small else {}
        left = {it.name: graph for it, graph in graphs.items() if hidden not in ancestors([graph])}
        if not left:
            return {}
        values = self.free.variables()
        whole = with_own_data(list(left.values()), dict(zip(self.free.values, values)))
        function = pytensor.function(values, whole, mode=AS_IT_IS, on_unused_input="ignore")
        lines = [function(*self.free.split(line)) for line in self.unconstrained(draws)]
        leading = draws.shape
        return {name: np.stack(part).reshape(*leading, *np.shape(part[0])) for name, part in zip(left, zip(*lines))}


def _jets(graph: Any, by: Any) -> list[Any]:
    """A graph whose entries each depend on one entry of a variable, and its two derivatives by that."""
    first = pytensor.grad(graph.sum(), by, disconnected_inputs="ignore")
    second = pytensor.grad(first.sum(), by, disconnected_inputs="ignore")
    return [graph + 0.0 * by, first, second]


def _slope(graph: Any, point: Any) -> Any:
    return pytensor.grad(graph, point, disconnected_inputs="ignore")


def _labels(model: Any, latent: Latent) -> NDArray[Any]:
    for name in (latent.name, latent.variable.name):
        axes = model.named_vars_to_dims.get(name)
        labels = model.coords.get(axes[0]) if axes else None
        if labels is not None and len(labels) == latent.levels:
            return np.asarray(labels)
    return np.arange(latent.levels)


def integrated(tool: Any, asked: str, sampler: Optional[str]) -> Optional[Marginal]:
    """The model with a latent variable integrated out, where one is found and that is asked for: by its name, or where `auto` says that it
    pays. What was done is noted."""
    if asked == "none":
        return None
    if asked != "auto":
        return _named(tool, asked)
    if sampler is not None:
        return None
    latent = best_latent(tool.model, tool.rows)
    if latent is None or not _pays(tool, latent):
        return None
    try:
        return Marginal(PyMCMarginal(tool, latent), latent.codes, tool.seed)
    except Exception as error:  # Numba raises errors of many kinds for an operation that it has not.
        tool.notes.append(f"{latent.name} was not integrated out: {_words(error)}")
        return None


class Alternative:
    """A latent variable that is integrated out in place of sampling all rows, though it has fewer values than `auto` asks for, where that
    is expected to be faster."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool
        self._known: Optional[tuple[Marginal, float]] = None
        latent = best_latent(tool.model, tool.rows)
        self._latent = latent if latent is not None and has_few_rows(latent.codes) else None

    def __call__(self, seconds: float) -> None:
        """Raises `Faster` where sampling all rows takes so many seconds and that takes fewer."""
        if self._latent is not None and self._known is None:
            try:
                marginal = Marginal(PyMCMarginal(self._tool, self._latent), self._latent.codes, self._tool.seed)
                self._known = (marginal, marginal.seconds())
            except Exception as error:  # Numba raises errors of many kinds for an operation that it has not.
                self._tool.notes.append(f"{self._latent.name} was not integrated out: {_words(error)}")
                self._latent = None
        if self._known is not None and self._known[1] < seconds:
            raise Faster(*self._known)


def _named(tool: Any, name: str) -> Marginal:
    variables = {rv.name: rv for rv in tool.model.free_RVs}
    if name not in variables:
        known = ", ".join(variables)
        raise CoreletError(f"marginalise is '{name}', but it must be auto, none or a free variable of the model: {known}")
    try:
        latent = latent_of(tool.model, tool.rows, variables[name])
        return Marginal(PyMCMarginal(tool, latent), latent.codes, tool.seed)
    except Exception as error:  # The same.
        raise CoreletError(f"{name} cannot be integrated out: {_words(error)}; marginalise='none' samples it") from error


def _words(error: Exception) -> str:
    if isinstance(error, CoreletError):
        return str(error)
    what = str(error).strip().partition("\n")[0][:160]
    return f"its graph cannot be compiled ({type(error).__name__}: {what})"


def _pays(tool: Any, latent: Latent) -> bool:
    return pays(latent.codes, sum(int(np.prod(shape_of(rv))) for rv in tool.model.free_RVs if rv is not latent.variable))
