"""`corelet.numpyro.fit`: a NumPyro model as it is, fitted by a coreset."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpy.typing import NDArray
from numpyro.handlers import substitute, trace
from numpyro.infer.util import constrain_fn, unconstrain_fn

from ._beside import MOST_AT_ONCE, cores
from ._build import _count
from ._compiled import LITTLE, MUCH, Compiled
from ._draws import Draws
from ._fit import Fit, FitProgressOption, Plan, plan_of, run_rounds
from ._lib import CoreletError, block_size
from ._numpyro_chains import TRIES, Chains, with_key
from ._slicing import checked_rows, compare
from ._units import Units, Which

FELT = 0.02
"""An error of the log-density, in nats, that makes NUTS take smaller steps."""


def fit(
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    k: int = 300,
    max_k: Optional[int] = None,
    pilot: Any = 1000,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 300,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    kernel: Optional[Mapping[str, Any]] = None,
    progress: FitProgressOption = None,
) -> Fit:
    """Fit a NumPyro model by a coreset of its rows: pilot, rounds, the last chains and the verdict.

    Nothing of the model is changed. Rows are the first axis of every array argument that is as long as the observed sites,
    and each row's log-likelihood gets a weight. That the log-likelihood of some rows alone is what it is among all is
    always checked. The model is compiled for one number of rows; those that are missing have weight 0.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments. An integer argument that is the number of rows follows the rows.
    k, max_k, pilot, groups, max_rounds, seed, progress
        As in `corelet.fit_model`. `pilot` may be a mapping of sites to chains × draws × ….
    draws, tune, chains
        Of the last chains, and the warm-up of every round's.
    kernel
        Handed on to `numpyro.infer.NUTS`, for instance `{"target_accept_prob": 0.95}`.

    Examples
    --------
    ::

        def model(x, y):
            slope = numpyro.sample("slope", dist.Normal(0, 5))
            sigma = numpyro.sample("sigma", dist.HalfNormal(2))
            nu = numpyro.sample("nu", dist.Gamma(2, 0.1))
            numpyro.sample("y", dist.StudentT(nu, slope * x, sigma), obs=y)

        fit = corelet.numpyro.fit(model, args=(x, y), k=300)
        fit.verdict, fit.idata
    """
    began = time.perf_counter()
    given = None if isinstance(pilot, (int, np.integer)) else Draws.of(pilot)
    rows = 1000 if given is not None else _count("pilot", pilot)
    table = Rows(model, tuple(args), dict(kwargs or {}))
    units = Units(table.n, groups)
    plan = plan_of(units, k, max_k, rows, None, max_rounds, seed, None)
    plan.began = began
    warn_of_precision(table.n)
    size = 0 if groups is not None else max(plan.k, 0 if given is not None else plan.pilot)
    tool = Sampler(table, Steps(draws, tune, chains), plan, size, dict(kernel or {}))
    table.check_slicing(plan.draws_at(plan.k, table.parameters), seed)
    start = None if given is None else tool.only_latent(given)
    return run_rounds(tool, plan, units, start, progress)


def warn_of_precision(n: int) -> None:
    """Says so where a log-likelihood of n rows, about as many nats, is rounded to steps that NUTS would feel."""
    rounded = n * float(jnp.finfo(jnp.result_type(float)).eps)
    if rounded > FELT:
        warnings.warn(
            f"in single precision the log-likelihood of {n} rows is known to some {rounded:.1g} nats only, and NUTS takes tiny "
            "steps; call numpyro.enable_x64() first",
            stacklevel=3,
        )


class Rows:
    """A model as a function of rows: which arguments have them, and the log-likelihood of each."""

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.model = model
        sites = _sites(model, args, kwargs)
        samples = {name: site for name, site in sites.items() if site["type"] == "sample"}
        self.observed = [name for name, site in samples.items() if site["is_observed"] and not _is_factor(site)]
        self.latent = {name: _like(site["value"]) for name, site in samples.items() if not site["is_observed"]}
        self.n = _number_of_rows(sites, self.observed, list(self.latent))
        self._leaves, self._tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=lambda leaf: leaf is None)
        self._at = [at for at, leaf in enumerate(self._leaves) if np.ndim(leaf) and np.shape(leaf)[0] == self.n]
        self.values = [self._leaves[at] for at in self._at]
        if not self.values:
            raise CoreletError(f"no argument of the model has {self.n} rows; hand the data over in args")
        self._compiled: dict[tuple[int, int], Compiled] = {}
        self._tracing = threading.Lock()

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(int(np.prod(like.shape)) for like in self.latent.values())

    def call(self, data: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these rows in place of all."""
        length = np.shape(data[0])[0]
        leaves = [length if isinstance(leaf, int) and leaf == self.n else leaf for leaf in self._leaves]
        for at, values in zip(self._at, data):
            leaves[at] = values
        args, kwargs = jax.tree_util.tree_unflatten(self._tree, leaves)
        return args, kwargs

    def take(self, rows: Which, size: int) -> list[Any]:
        """These rows of each argument, the last of them repeated up to this size."""
        return [_padded(np.asarray(values[rows]), size) for values in map(np.asarray, self.values)]

    def weighted(self, weights: Any, *data: Any) -> Any:
        """The model of these rows, each log-likelihood with its weight."""
        args, kwargs = self.call(data)
        with _Weights(weights, self.observed):
            return self.model(*args, **kwargs)

    def _one(self, theta: Mapping[str, Any], data: Sequence[Any]) -> Any:
        """The log-likelihood of each row at one draw."""
        args, kwargs = self.call(data)
        sites = trace(substitute(with_key(self.model), data=theta)).get_trace(*args, **kwargs)
        total: Any = 0.0
        for name in self.observed:
            site = sites[name]
            value = site["fn"].log_prob(site["value"])
            value = value if site["scale"] is None else site["scale"] * value
            total = total + value.reshape(value.shape[0], -1).sum(axis=1)
        return total

    def log_likelihood(self, theta: Mapping[str, Any], rows: Which, padded: bool = True) -> NDArray[Any]:
        """Draws by rows, by a function compiled for so many draws and rows."""
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        parameters = {name: np.asarray(theta[name], like.dtype) for name, like in self.latent.items()}
        draws = len(next(iter(parameters.values())))
        size = max(count, block_size(self.n, draws)) if padded else count
        data = self.take(rows, size)
        with self._tracing:  # Handlers of NumPyro are one stack for all threads.
            if (draws, size) not in self._compiled:
                self._compiled[draws, size] = Compiled(jax.vmap(self._one, in_axes=(0, None)), (parameters, data), MUCH)
        return np.asarray(self._compiled[draws, size](parameters, data), dtype=np.float64)[:, :count]

    def check_slicing(self, draws: int, seed: int) -> None:
        """Some rows alone must have the log-likelihood that they have among all. So many draws are what is asked for later."""
        theta, whole = self._at_two_points(seed)
        rows = checked_rows(whole, seed)
        repeated = {name: np.resize(values, (draws, *values.shape[1:])) for name, values in theta.items()}
        found = self.log_likelihood(repeated, rows, padded=block_size(self.n, draws) < self.n)
        compare(found[: len(whole)], whole[:, rows], tolerance=1e-3)

    def _at_two_points(self, seed: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """Two points of the parameter space, and the log-likelihoods of all rows there."""
        model, rng = with_key(self.model), np.random.default_rng(seed)
        shapes = jax.eval_shape(lambda draw, data: unconstrain_fn(model, *self.call(data), draw), self.latent, self.values)

        def two() -> dict[str, NDArray[Any]]:
            return {name: rng.uniform(-1, 1, (2, *x.shape)).astype(x.dtype) for name, x in shapes.items()}

        def at(free: Any, data: Any) -> Any:
            values = constrain_fn(model, *self.call(data), free)
            theta = {name: values[name] for name in self.latent}
            return theta, self._one(theta, data)

        compiled = Compiled(jax.vmap(at, in_axes=(0, None)), (two(), self.values), LITTLE)
        for _ in range(TRIES):
            theta, whole = compiled(two(), self.values)
            if np.isfinite(whole).any():
                break
        return {name: np.asarray(values) for name, values in theta.items()}, np.asarray(whole, dtype=np.float64)


def _sites(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The sites of a model, with shapes in place of what would be random: nothing is drawn, and nothing compiled."""
    found: dict[str, Any] = {}
    jax.eval_shape(lambda: found.update(trace(with_key(model)).get_trace(*args, **kwargs)))
    return found


def _like(value: Any) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))


class _Weights(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Multiplies the log-likelihood of each row of the observed sites by its weight."""

    def __init__(self, weights: Any, observed: list[str]) -> None:
        self.weights = weights
        self.observed = observed
        super().__init__()

    def process_message(self, message: dict[str, Any]) -> None:
        if message["type"] != "sample" or message["name"] not in self.observed:
            return
        trailing = len(_shape_of_rows(message)) - 1
        weights = jnp.reshape(self.weights, (-1,) + (1,) * trailing)
        message["scale"] = weights if message.get("scale") is None else weights * message["scale"]


def _is_factor(site: Mapping[str, Any]) -> bool:
    return type(site["fn"]).__name__ == "Unit"


def _shape_of_rows(site: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of its log-likelihoods. (A distribution of scalars has values of many rows without saying so.)"""
    whole = np.shape(site["value"])
    return np.broadcast_shapes(site["fn"].batch_shape, whole[: len(whole) - len(site["fn"].event_shape)])


def _number_of_rows(sites: Mapping[str, Any], observed: list[str], latent: list[str]) -> int:
    """The common length of the observed sites; refuses models that have no rows of their own."""
    if not observed:
        raise CoreletError(
            "this model has no observed site; write its likelihood as one (obs=), since numpyro.factor does not tell which "
            "part of it belongs to which row"
        )
    if not latent:
        raise CoreletError("this model has no latent site, so there is nothing to fit")
    lengths = {}
    for name in observed:
        site = sites[name]
        if f"{name}_unobserved" in sites or name.endswith("_observed"):
            raise CoreletError(f"{name} has missing values that the model imputes (obs_mask); leave these rows out")
        shape = _shape_of_rows(site)
        if not shape:
            raise CoreletError(
                f"the log-likelihood of {name} is not a sum over its rows (.to_event over rows, a time series, …), so no rows "
                "can stand for all"
            )
        lengths[name] = shape[0]
    if len(set(lengths.values())) != 1:
        raise CoreletError(
            f"the observed sites have different lengths ({lengths}), so there are no rows that a coreset could choose"
        )
    n = next(iter(lengths.values()))
    for name in latent:
        if n in np.shape(sites[name]["value"]):
            raise CoreletError(
                f"{name} has one latent value for each of the {n} rows, so a row has a part of the posterior of its own; "
                "integrate it out, or give it one value for each group"
            )
        if sites[name]["fn"].support.is_discrete:
            raise CoreletError(f"{name} is a discrete latent site; integrate it out (dist.MixtureSameFamily, for instance)")
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise CoreletError(f"the plate {name} takes a subsample; leave subsample_size out, a coreset does that")
    return n


def _padded(values: NDArray[Any], size: int) -> NDArray[Any]:
    missing = size - len(values)
    if missing <= 0:
        return values
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])


class Steps(NamedTuple):
    """Of the last chains."""

    draws: int
    tune: int
    chains: int


class Sampler:
    """NUTS on weighted rows, compiled once as long as these are no more than `size`."""

    def __init__(self, rows: Rows, last: Steps, plan: Plan, size: int, kernel: dict[str, Any]) -> None:
        self.rows = rows
        self.last = last
        self.size = size
        self.seed = plan.seed
        self.calls = 0
        self._chains = Chains(rows.weighted, rows.latent, last.tune, self._length(plan.draws_at(plan.k, 0)), kernel)
        if size:
            self._chains.compile(self._data(np.arange(size), np.ones(size)))

    @property
    def last_steps(self) -> int:
        return self.last.chains * (self.last.draws + self.last.tune)

    @property
    def at_once(self) -> int:
        return min(cores(), MOST_AT_ONCE)

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        self.calls += 1
        self.size = max(self.size, len(rows))
        seed = int(np.random.SeedSequence([self.seed, self.calls]).generate_state(1)[0])
        wanted = self.last.draws if final else self._length(draws)
        flat: Any = None if start is None else start.flat()
        values, diverged = self._chains.run(seed, self._data(rows, weights), flat, self.last.chains, wanted)
        return Draws({name: array[:, :wanted] for name, array in values.items()}, True, diverged)

    def _length(self, draws: int) -> int:
        """Of each chain, twice as many as are wanted of all."""
        return max(100, -(-2 * draws // self.last.chains))

    def _data(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[Any, ...]:
        """Weights and rows, padded with rows of weight 0."""
        padded = np.concatenate([weights, np.zeros(self.size - len(rows))]).astype(jnp.result_type(float))
        return (padded, *self.rows.take(rows, self.size))

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        return self.rows.log_likelihood(theta, rows)

    def only_latent(self, draws: Draws) -> Draws:
        """Without deterministic sites, in the order of the model."""
        missing = [name for name in self.rows.latent if name not in draws.values]
        if missing:
            raise CoreletError(f"the draws have no site {missing[0]}, which the model has")
        return Draws({name: draws.values[name] for name in self.rows.latent}, draws.chained, draws.diverged)
