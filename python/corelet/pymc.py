"""`corelet.pymc.fit`: a PyMC or bambi model as it is, fitted by a coreset."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Optional

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray

from ._beside import MOST_AT_ONCE, cores
from ._build import _count
from ._draws import Draws
from ._fit import Fit, FitProgressOption, plan_of, run_rounds
from ._lib import CoreletError, block_size
from ._nutpie import compiled_for_nutpie
from ._pymc_graph import AS_IT_IS, Leaf, number_of_rows, plain_logp, row_logp, shape_of, starting_points
from ._slicing import checked_rows, compare
from ._units import Units, Which

PILOT_CHAINS, ROUND_CHAINS, ROUND_TUNE = 4, 2, 300
"""Many short chains at first, to see whether they agree; few later."""


def fit(
    model: Any,
    *,
    k: int = 300,
    max_k: Optional[int] = None,
    pilot: Any = 1000,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    sampler: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
    progress: FitProgressOption = None,
) -> Fit:
    """Fit a PyMC or bambi model by a coreset of its rows: pilot, rounds, the last chains and the verdict.

    Nothing of the model is changed: its priors, its potentials and its deterministic variables are kept, and each row of
    the observed variables gets a weight on its log-likelihood. That the log-likelihood of some rows alone is that of the
    whole model at these rows is always checked.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) for each row, or a `bambi.Model`.
    k, max_k, pilot, groups, max_rounds, seed, progress
        As in `corelet.fit_model`. `pilot` may be an InferenceData of ADVI, Pathfinder or an old fit.
    draws, tune, chains
        Of the last chains.
    sampler
        `nutpie`, which compiles the model once, or `pymc`; nutpie where it is installed.
    options
        Handed on to `nutpie.sample` or `pymc.sample`, for instance `{"target_accept": 0.95}`.

    Examples
    --------
    ::

        with pm.Model() as model:
            slope = pm.Normal("slope", 0, 5)
            sigma = pm.HalfNormal("sigma", 2)
            nu = pm.Gamma("nu", 2, 0.1)
            pm.StudentT("y", nu=nu, mu=slope * x, sigma=sigma, observed=y)
        fit = corelet.pymc.fit(model, k=300)
        fit.verdict, fit.idata
    """
    began = time.perf_counter()
    given = None if isinstance(pilot, (int, np.integer)) else pilot
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="pytensor")
        tool = Sampler(model, draws, tune, chains, seed, sampler, dict(options or {}))
        units = Units(tool.n, groups)
        rows = 1000 if given is not None else _count("pilot", pilot)
        plan = plan_of(units, k, max_k, rows, None, max_rounds, seed, None)
        plan.began = began
        looked_at = plan.draws_at(plan.k, tool.parameters)
        tool.compile(looked_at)
        tool.check_slicing(looked_at, seed)
        start = None if given is None else tool.only_free(Draws.of(given))
        return run_rounds(tool, plan, units, start, progress, tool.inference_data)


class Sampler:
    """The model with weights, for rounds."""

    def __init__(
        self,
        model: Any,
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        sampler: Optional[str],
        options: dict[str, Any],
    ) -> None:
        self.bambi = _bambi_backend(model)
        self.model = model if self.bambi is None else self.bambi.model
        if not isinstance(self.model, pm.Model):
            raise TypeError(f"model is of type {type(model).__name__}; it must be a pymc.Model or a bambi.Model")
        self.n = number_of_rows(self.model)
        self.last = (draws, tune, chains)
        self.seed = seed
        self.options = options
        self.calls = 0
        self.full_length: list[tuple[Draws, Any]] = []
        """Chains as long as the last ones, each with the sampler's statistics."""
        self.names = [rv.name for rv in self.model.free_RVs]
        name = sampler or ("nutpie" if find_spec("nutpie") else "pymc")
        if name not in ("nutpie", "pymc"):
            raise CoreletError(f"sampler is '{name}', but it must be one of nutpie, pymc")
        self._runner: Callable[[_WeightedModel], Callable[..., Any]] = _Nutpie if name == "nutpie" else _PyMC
        self._run: Optional[Callable[..., Any]] = None
        self._loglik = LogLikelihoods(self.model, self.n)

    def compile(self, draws: int) -> None:
        """Begins to compile everything, for passes at so many draws; XLA beside pytensor's work on the weighted model."""
        self._loglik.compile(draws)
        self._run = self._runner(_WeightedModel(self.model, self.n))

    @property
    def last_steps(self) -> int:
        draws, tune, chains = self.last
        return chains * (draws + tune)

    @property
    def at_once(self) -> int:
        return self._loglik.at_once

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        assert self._run is not None
        self.calls += 1
        if final:
            count, tune, chains = self.last
        else:
            chains = PILOT_CHAINS if start is None else ROUND_CHAINS
            count, tune = -(-2 * draws // chains), ROUND_TUNE
        seed = int(np.random.SeedSequence([self.seed, self.calls]).generate_state(1)[0])
        trace = self._run(rows, weights, start, count, tune, chains, seed, self.options)
        found = self.only_free(Draws.of(trace))
        if final and "sample_stats" in trace.groups():
            self.full_length.append((found, trace.sample_stats))
        return found

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        return self._loglik(theta, rows)

    def only_free(self, draws: Draws) -> Draws:
        """Without deterministic variables, in the order of the model."""
        missing = [name for name in self.names if name not in draws.values]
        if missing:
            raise CoreletError(f"the draws have no variable {missing[0]}, which the model has")
        return Draws({name: draws.values[name] for name in self.names}, draws.chained, draws.diverged)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(int(np.prod(shape_of(rv))) for rv in self.model.free_RVs)

    def check_slicing(self, draws: int, seed: int) -> None:
        """Some rows alone must have the log-likelihood that they have among all. So many draws are what is asked for later."""
        theta = _points(self.model, seed)
        inputs = {rv: rv.type(rv.name) for rv in self.model.free_RVs}
        graph = plain_logp(self.model, inputs)
        whole = pytensor.function(list(inputs.values()), graph, mode=AS_IT_IS, on_unused_input="ignore")
        wanted = np.stack([whole(*(theta[rv.name][s] for rv in self.model.free_RVs)) for s in range(2)])
        rows = checked_rows(wanted, seed)
        repeated = {name: np.resize(values, (draws, *values.shape[1:])) for name, values in theta.items()}
        found = self._loglik(repeated, rows, padded=block_size(self.n, draws) < self.n)
        compare(found[:2], wanted[:, rows], tolerance=1e-5)

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        """The draws with the names, dimensions and coordinates of the model, and its deterministic variables."""
        import arviz
        import xarray

        dims = {name: list(axes) for name, axes in self.model.named_vars_to_dims.items() if name in draws.values}
        used = {axis for axes in dims.values() for axis in axes}
        coords = {axis: list(values) for axis, values in self.model.coords.items() if axis in used and values is not None}
        attrs = {"inference_library": "corelet", **attributes}
        idata = arviz.from_dict(posterior=draws.values, coords=coords, dims=dims, posterior_attrs=attrs)
        small = [variable.name for variable in self.model.deterministics if self.n not in shape_of(variable)]
        if small:
            with self.model:
                more = pm.compute_deterministics(idata.posterior, var_names=small, progressbar=False)
            idata.posterior = xarray.merge([idata.posterior, more]).assign_attrs(attrs)
        stats = self._stats_of(draws)
        if stats:
            joined = xarray.concat(stats, dim="draw").assign_coords(draw=idata.posterior["draw"])
            idata.add_groups(sample_stats=joined)
        if self.bambi is not None:
            idata = self.bambi._clean_results(idata, True, False)
        return idata


    def _stats_of(self, draws: Draws) -> list[Any]:
        """The sampler's statistics of draws that are chains of full length or several of them on end; none of others."""
        whole = draws.values[self.names[0]]
        stats: list[Any] = []
        left = draws.shape[1]
        for chains, its in reversed(self.full_length):
            values = chains.values[self.names[0]]
            if np.array_equal(values, whole[:, max(left - values.shape[1], 0) : left]):
                stats.insert(0, its)
                left -= values.shape[1]
        return stats if left == 0 else []


def _bambi_backend(model: Any) -> Any:
    """The PyMC side of a bambi model, or None."""
    if type(model).__module__.partition(".")[0] != "bambi":
        return None
    if not model.built:
        model.build()
    return model.backend


def _points(model: Any, seed: int) -> dict[str, NDArray[Any]]:
    """Two points of the parameter space, near the middle of the prior."""
    at = starting_points(model, transformed=False)
    points = [at(seed + step) for step in range(2)]
    return {rv.name: np.stack([point[rv.name] for point in points]) for rv in model.free_RVs}


class LogLikelihoods:
    """Draws by rows: compiled once, by JAX where it is installed, and asked for blocks of one size."""

    def __init__(self, model: Any, n: int) -> None:
        inputs = {rv: rv.type(rv.name) for rv in model.free_RVs}
        self.n = n
        self.parameters = {rv.name: (shape_of(rv), np.dtype(rv.dtype)) for rv in model.free_RVs}
        rows = row_logp(model, n, shared=False, given=inputs)
        self.leaves: list[Leaf] = rows.leaves
        variables = [*inputs.values(), *(leaf.variable for leaf in rows.leaves)]
        by_jax = _jax_function(variables, rows.graph)
        self._at: Callable[..., Any] = by_jax or _pytensor_function(variables, rows.graph)
        self.at_once = min(cores(), MOST_AT_ONCE) if by_jax else 1

    def compile(self, draws: int) -> None:
        """Begins to, for blocks at so many draws, in another thread."""
        if isinstance(self._at, _ByJax):
            theta = [np.zeros((draws, *shape), dtype) for shape, dtype in self.parameters.values()]
            block = slice(0, block_size(self.n, draws))
            self._at.compiled(theta, [np.ascontiguousarray(leaf.take(block)) for leaf in self.leaves])

    def __call__(
        self, theta: Mapping[str, NDArray[Any]], rows: Which, padded: bool = True
    ) -> NDArray[np.float64]:
        parameters = [np.asarray(theta[name], dtype) for name, (_, dtype) in self.parameters.items()]
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        size = max(count, block_size(self.n, len(parameters[0]))) if padded else count
        data = [_padded(leaf.take(rows), leaf.axis, size) for leaf in self.leaves]
        return np.asarray(self._at(parameters, data))[:, :count]


def _padded(values: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    """With the last entry repeated, so that one compiled function serves all blocks."""
    missing = size - values.shape[axis]
    if missing == 0:
        return np.ascontiguousarray(values)
    return np.pad(values, [(0, missing if at == axis else 0) for at in range(values.ndim)], mode="edge")


def _jax_function(variables: list[Any], graph: Any) -> Optional[_ByJax]:
    if not find_spec("jax"):
        return None
    from pymc.sampling.jax import get_jaxified_graph

    try:
        return _ByJax(get_jaxified_graph(inputs=variables, outputs=[graph]))
    except (NotImplementedError, ValueError):  # An operation that JAX has not; a graph that asks a random variable for its shape.
        return None


class _ByJax:
    """A function of one draw and of data, for many draws; compiled for each shape of them in another thread."""

    def __init__(self, one: Callable[..., Any]) -> None:
        self._one = one
        self._compiled: dict[tuple[tuple[int, ...], ...], Any] = {}
        self._tracing = threading.Lock()

    def compiled(self, theta: list[NDArray[Any]], data: list[NDArray[Any]]) -> Any:
        """For arrays of these shapes; its first call waits until it is."""
        import jax

        from ._compiled import MUCH, Compiled

        shapes = tuple(array.shape for array in [*theta, *data])
        with self._tracing:
            if shapes not in self._compiled:
                all_draws = jax.vmap(lambda at, data: self._one(*at, *data)[0], in_axes=(0, None))
                self._compiled[shapes] = Compiled(all_draws, (theta, data), MUCH)
            return self._compiled[shapes]

    def __call__(self, theta: list[NDArray[Any]], data: list[NDArray[Any]]) -> Any:
        return self.compiled(theta, data)(theta, data)


def _pytensor_function(variables: list[Any], graph: Any) -> Callable[..., Any]:
    one = pytensor.function(variables, graph, on_unused_input="ignore")

    def all_draws(theta: list[NDArray[Any]], data: list[NDArray[Any]]) -> NDArray[np.float64]:
        return np.stack([one(*(values[s] for values in theta), *data) for s in range(len(theta[0]))])

    return all_draws


def _copied(model: Any) -> Any:
    """A copy of a model with its initial values, which PyMC will not copy: numbers go with it, expressions stay behind."""
    given = dict(model.rvs_to_initial_values)
    model.rvs_to_initial_values.update(dict.fromkeys(given))
    try:
        copy = model.copy()
    finally:
        model.rvs_to_initial_values.update(given)
    for rv, value in given.items():
        if value is not None and not isinstance(value, (str, pytensor.graph.basic.Variable)):
            copy.rvs_to_initial_values[copy[rv.name]] = value
    return copy


class _WeightedModel:
    """A copy of the model in which each row's log-likelihood has a weight, of whatever rows it is given."""

    def __init__(self, model: Any, n: int) -> None:
        copy = _copied(model)
        rows = row_logp(copy, n, shared=True, given={})
        self.leaves = rows.leaves
        self.weights = pytensor.shared(np.ones(1), name="corelet_weights", shape=(None,))
        for variable in [*copy.observed_RVs, *copy.deterministics]:
            copy.named_vars.pop(variable.name)
            copy.named_vars_to_dims.pop(variable.name, None)
        for rv in list(copy.observed_RVs):
            value = copy.rvs_to_values.pop(rv)
            copy.values_to_rvs.pop(value, None)
            copy.rvs_to_transforms.pop(rv, None)
            copy.rvs_to_initial_values.pop(rv, None)
        copy.observed_RVs.clear()
        copy.deterministics.clear()
        used = {axis for axes in copy.named_vars_to_dims.values() for axis in axes}
        for axis in [axis for axis in copy.coords if axis not in used]:
            copy._coords.pop(axis)
            copy._dim_lengths.pop(axis)
        with copy:
            pm.Potential("corelet_log_likelihood", (self.weights * rows.graph).sum())
        self.model = copy

    def data(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """What its shared variables must hold."""
        return {"corelet_weights": weights, **{leaf.variable.name: leaf.take(rows) for leaf in self.leaves}}

    def set(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Makes it the model of these rows."""
        self.weights.set_value(np.asarray(weights, dtype=np.float64))
        for leaf in self.leaves:
            leaf.variable.set_value(leaf.take(rows))


class _Nutpie:
    """Compiled once; rows and weights go in as data."""

    def __init__(self, weighted: _WeightedModel) -> None:
        self.weighted = weighted
        self.compiled = compiled_for_nutpie(weighted.model)
        self.unconstrained: Optional[NDArray[np.float64]] = None

    def __call__(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        options: dict[str, Any],
    ) -> Any:
        from dataclasses import replace

        import nutpie

        compiled = self.compiled.with_data(**self.weighted.data(rows, weights))
        points = self.unconstrained
        if start is not None and points is not None:
            compiled = replace(compiled, initial_point_func=lambda seed: points[seed % len(points)].copy())
        settings = dict(progress_bar=False, save_warmup=False, store_unconstrained=True, blocking=False)
        under_way = nutpie.sample(compiled, draws=draws, tune=tune, chains=chains, seed=seed, **settings, **options)
        try:
            trace = under_way.wait()
        except BaseException:  # Ctrl-C would otherwise return fewer draws, and the rounds would go on.
            under_way.cancel()
            raise
        flat = trace.sample_stats["unconstrained_draw"].values
        self.unconstrained = np.ascontiguousarray(flat.reshape(-1, flat.shape[-1]))
        return trace


class _PyMC:
    """`pymc.sample`, which compiles at each call."""

    def __init__(self, weighted: _WeightedModel) -> None:
        self.weighted = weighted

    def __call__(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        options: dict[str, Any],
    ) -> Any:
        self.weighted.set(rows, weights)
        initial: Any = None
        if start is not None:
            flat, rng = start.flat(), np.random.default_rng(seed)
            assert isinstance(flat, dict)
            initial = [{name: values[s] for name, values in flat.items()} for s in rng.integers(start.count, size=chains)]
        settings = dict(progressbar=False, compute_convergence_checks=False, random_seed=seed, initvals=initial)
        with self.weighted.model:
            trace = pm.sample(draws=draws, tune=tune, chains=chains, **{**settings, **options})
        if trace.posterior.sizes["draw"] < draws:  # PyMC makes of Ctrl-C a shorter trace.
            raise KeyboardInterrupt
        return trace
