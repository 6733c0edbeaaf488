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
from numpy.typing import NDArray

from .results import arviz as _arviz
from .adapters.gaussian import MOST_EFFECTS, names_of
from .adapters.beside import MOST_AT_ONCE, cores, in_order
from ._build import _count
from ._certify import claimed, entries
from .adapters.compiled import MUCH, Compiled
from ._review import reviewed, weights_of
from .results.certificate import Certificate
from .results.review import KFold, Review
from .results.draws import Draws
from ._fit import Fit, FitProgressOption, Plan, SamplerFailed, lengths_of, plan_of, run_rounds
from ._k_fold_model import folded
from ._lib import CoreletError, block_size, gaussian_first
from ._seeds import seeded
from .adapters.numpyro_chains import Chains, padded_weights, sample_stats
from .adapters.numpyro_check import check, tolerance
from .adapters.numpyro_outcomes import outcomes_of
from .adapters.numpyro_effects import Effects
from .adapters.numpyro_rows import Rows, dimensions
from .adapters.outcomes import checked
from .adapters.slicing import checked_rows, compare
from .frames.units import Units, Which

FELT = 0.02
"""An error of the log-density, in nats, that makes NUTS take smaller steps."""
FEW = 7
"""Rows that are given to a model where they do not matter."""
CHECKED = 16
"""Draws at which a model is asked, where they matter only for whether it can be."""
STARTS = 400
"""Draws of a round from which chains of the next one start."""
AT_ONCE = 16
"""Points at which a gradient is compiled, beside one."""
SLOPE_ROWS, FEW_AT_ONCE = 20_000, 2_000
"""Rows of a block of gradients, and of the small ones for a coreset's rows."""
LONGER = 4
"""Up to so many times as long as a round's need be, its chains are as long as the last ones: that costs less than compiling."""


@seeded
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
    rest: str = "auto",
    force: bool = False,
) -> Fit:
    """Fit a NumPyro model by a coreset of its rows: pilot, rounds, final chains and the verdict.

    The model is not changed. Rows are the first axis of every array argument that is as long as the observed sites, and each
    row's log-likelihood gets a weight. Two checks are always made: some rows by themselves have the same log-likelihood as among
    all rows, and priors and factors do not depend on which rows the model is given. The model is compiled for one number of rows;
    unused places have weight 0.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments. An integer argument that equals the number of rows stays as it is, unless the model
        then cannot be evaluated on fewer rows: it is then the size of a plate, and follows them.
    k, max_k, pilot, groups, max_rounds, seed, progress, force
        As in `corelet.fit_model`. `pilot` may be a mapping of sites to chains × draws × ….
    draws, tune, chains
        Draws and number of the final chains, and the warm-up of the chains of every round.
    kernel
        Passed on to `numpyro.infer.NUTS`, for instance `{"target_accept_prob": 0.95}`.
    rest
        `auto`: where the model has more parameters than k rows can carry, one Gaussian factor stands in place of all rows
        (`fit.coreset.rest`; the priors stay as they are), and rows only where the verdict on it is not an A. `gaussian`: that
        factor in any case. `none`: rows only.

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
    plan = plan_of(units, k, max_k, rows, None, max_rounds, seed, None, force)
    plan.began = began
    warn_of_precision(table.n)
    by_gaussian = gaussian_first(rest, table.dimension, plan.k)
    size = 0 if groups is not None or by_gaussian else max(plan.k, 0 if given is not None else plan.pilot)
    tool = Sampler(table, Steps(*lengths_of(draws, tune, chains)), plan, size, dict(kernel or {}))
    try:
        tool.check(plan.draws_at(plan.k, table.parameters), seed)
    except jax.errors.JaxRuntimeError as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise CoreletError(f"JAX cannot compute the log-likelihoods of the {table.n} rows of this model: {first}") from None
    if by_gaussian:
        tool.find_effects()
    start = None if given is None else tool.only_latent(given)
    found = run_rounds(tool, plan, units, start, progress, tool.inference_data, rest=rest)
    found.notes.extend(tool.notes())
    return found


def certify(
    model: Callable[..., Any],
    draws: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    log_density: Any = None,
    seed: int = 0,
) -> Certificate:
    """Certify whether given draws of a NumPyro model are draws of the posterior of all its rows.

    The gradient of the log posterior of all rows is evaluated at no more than 1000 of the draws; see `corelet.certify`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    draws
        Draws of the latent sites, on their own scale: a mapping of names to chains × draws × …, as `get_samples(group_by_chain=True)` gives
        it, an InferenceData or a DataTree.
    log_density
        The log density of the approximation (an autoguide) at each draw, on the unconstrained scale.
    seed
        The random seed for the rows by which the model is checked.

    Examples
    --------
    ::

        posterior = guide.sample_posterior(key, state.params, sample_shape=(1, 1000))
        corelet.numpyro.certify(model, posterior, args=(x, y))
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    plan = plan_of(Units(table.n, None), 2, None, 1000, None, 1, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, Steps(1, 1, 1), plan, 0, {})
    tool.check(CHECKED, seed)
    some = tool.only_latent(Draws.of(draws))
    for name, like in table.latent.items():
        found = some.values[name].shape[2:]
        if found != np.shape(like):
            raise CoreletError(f"the draws of {name} have shape {found}, the model has {np.shape(like)}")
    shapes = jax.eval_shape(table.unconstrained, table.latent, tool._few)
    names = [entry for name in table.latent for entry in entries(name, shapes[name].shape)]

    def log_posterior(at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        (totals, gradients), (prior, slopes) = tool.gradient_of_all_rows(at), tool.log_prior(at)
        return totals + prior, gradients + slopes

    return claimed(some, tool.unconstrained(some), names, table.n, log_posterior, log_density)


def review(
    model: Callable[..., Any],
    draws: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    log_weights: Any = None,
    groups: Any = None,
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = True,
    seed: int = 0,
) -> Review:
    """Say how well each row of a NumPyro model is predicted when it is left out, whether the model fits, and which rows drive which site.

    From one pass over all rows, without a matrix of draws by rows; see `corelet.review`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    draws
        Draws of the latent sites, on their own scale: a `Fit`, a mapping of names to chains × draws × …, an InferenceData or a DataTree.
    log_weights, groups, most, pointwise
        As in `corelet.review_model`.
    outcomes
        Draws at which an outcome of every row is drawn by the model, to compare with; 0 for none. Of one observed site whose outcomes are
        numbers, counts or two classes.
    seed
        The random seed for the rows by which the model is checked, and for simulated outcomes.
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    plan = plan_of(Units(table.n, None), 2, None, 1000, None, 1, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, Steps(1, 1, 1), plan, 0, {})
    found = getattr(draws, "_draws", None)
    some = tool.only_latent(found if isinstance(found, Draws) else Draws.of(draws))
    # What is compiled for so many draws serves the pass too.
    tool.check(max(CHECKED, some.thin(max(100, most)).count), seed)
    weights = weights_of(draws, log_weights, some)
    drawn = checked(outcomes_of(table, seed) if outcomes else None, tool.log_likelihood, some, weights, outcomes, seed)
    return reviewed(tool, some, Units(table.n, groups), weights, most, pointwise, outcomes=drawn)


@seeded
def k_fold(
    model: Any,
    fitted: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    folds: int = 10,
    k: int = 300,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    kernel: Optional[Mapping[str, Any]] = None,
) -> KFold:
    """Say how well the rows of each of K folds of a NumPyro model are predicted by the others: see `corelet.k_fold_model`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    fitted
        Draws of the posterior of all rows: a `Fit`, a mapping of names to chains × draws × …, an InferenceData or a DataTree.
    folds, groups
        As for `corelet.k_fold_model`.
    k, draws, tune, chains, seed, kernel
        Of the coreset of each fold, as for `corelet.numpyro.fit`.
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    units = Units(table.n, groups)
    plan = plan_of(units, k, None, 1000, None, 10, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, Steps(*lengths_of(draws, tune, chains)), plan, plan.k, dict(kernel or {}))
    tool.check(plan.draws_at(plan.k, table.parameters), seed)
    found = getattr(fitted, "_draws", None)
    some = tool.only_latent(found if isinstance(found, Draws) else Draws.of(fitted))
    observed = getattr(outcomes_of(table, seed), "observed", None)
    return folded(tool, some, units, plan, _count("folds", folds), observed)


class ByEffects:
    """A model as a function of its effects, compiled."""

    def __init__(self, tool: Sampler, effects: Effects) -> None:
        self._tool = tool
        self._effects = effects
        self.names = effects.names
        self.count = effects.count

    def at(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The effects at points, a line for each."""
        return self._tool.over_points("effects", lambda points: (self._effects.each(points),), points)[0]

    def pull_back(self, points: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Slopes by the effects as slopes by the unconstrained numbers at these points."""
        return self._tool.over_points("back", lambda *both: (self._effects.each_back(*both),), points, slopes)[0]

    def slopes(
        self, at: NDArray[np.float64], rows: Optional[NDArray[np.int64]], weights: Optional[NDArray[np.float64]] = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of rows at lines of effects, and its gradient by these."""
        return self._tool.over_blocks(("by effects",), self._effects.each_slope, at, rows, weights)


def warn_of_precision(n: int) -> None:
    """Says so where a log-likelihood of n rows, about as many nats, is rounded to steps that NUTS would feel."""
    rounded = n * float(np.finfo(jnp.result_type(float)).eps)
    if rounded > FELT:
        warnings.warn(
            f"in single precision the log-likelihood of {n} rows is known to some {rounded:.1g} nats only, and NUTS takes tiny "
            "steps; call numpyro.enable_x64() first",
            stacklevel=4,
        )


class Steps(NamedTuple):
    """Of the last chains."""

    draws: int
    tune: int
    chains: int


class Sampler:
    """The model with weights, for rounds."""

    def __init__(self, rows: Rows, last: Steps, plan: Plan, size: int, kernel: dict[str, Any]) -> None:
        """Chains are compiled for `size` rows; fewer are padded with rows of weight 0, and more are compiled anew."""
        self.rows = rows
        self.last = last
        self.size = size
        self.seed = plan.seed
        self.calls = 0
        self._chains = Chains(rows, last.tune, kernel)
        self._stats: list[dict[str, NDArray[Any]]] = []
        """Of every run of the chains."""
        self._known: dict[int, tuple[int, int, int]] = {}
        """Run, chain and number of each draw, by its fingerprint."""
        self._of_all_rows: list[str] = []
        self._few = rows.take(slice(0, min(rows.n, FEW)), 0)
        """Rows for what does not depend on them."""
        self._compiled: dict[tuple[Any, ...], Compiled] = {}
        self._blocks: dict[tuple[int, int], Any] = {}
        self._kernel = kernel
        self._quick: dict[tuple[str, int], Compiled] = {}
        self.effects: Optional[ByEffects] = None
        """What the rows see of the sites, where that is other than these and was looked for."""
        self._pieces: Optional[list[tuple[str, slice, Any]]] = None
        self._tracing = threading.Lock()
        if size:
            self._chains.compile(self._data(np.arange(size), np.ones(size)), self._length(plan.draws_at(plan.k, 0)))

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.rows.parameters

    @property
    def last_steps(self) -> int:
        return self.last.chains * (self.last.draws + self.last.tune)

    @property
    def at_once(self) -> int:
        return min(cores(), MOST_AT_ONCE)

    def check(self, draws: int, seed: int) -> None:
        """Refuses a model of which a coreset would be wrong. So many draws are what log-likelihoods are asked at later."""
        checked = check(self.rows, seed)
        self._of_all_rows = checked.of_all_rows
        rows = checked_rows(checked.rows, seed)
        repeated = {name: np.resize(values, (draws, *values.shape[1:])) for name, values in checked.theta.items()}
        found = self.log_likelihood(repeated, rows, padded=block_size(self.rows.n, draws) < self.rows.n)
        compare(found[: len(checked.rows)], checked.rows[:, rows], tolerance())

    # Draws.

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
        length = self.last.draws if final else self._length(draws)
        free = None if start is None else self._unconstrained(start.thin(STARTS))
        try:
            values, fields = self._chains.run(seed, self._data(rows, weights), free, self.last.chains, length)
        except RuntimeError as error:  # JAX's are of this kind, too.
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise SamplerFailed(f"NumPyro cannot sample the weighted model: {first}") from error
        found = Draws(values, True, int(fields["diverging"].sum()))
        self._known.update({mark: (len(self._stats), *place) for place, mark in _fingerprints(found).items()})
        self._stats.append(sample_stats(fields))
        return found

    def _length(self, draws: int) -> int:
        """Of each chain, twice as many draws as are wanted of all; as long as the last chains where that is not much longer,
        since one compiled chain then serves all."""
        wanted = max(100, -(-2 * draws // self.last.chains))
        return self.last.draws if wanted <= self.last.draws <= LONGER * wanted else wanted

    def _data(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[Any, ...]:
        """Weights and rows, padded with rows of weight 0."""
        return (padded_weights(weights, self.size), *self.rows.take(rows, self.size))

    def only_latent(self, draws: Draws) -> Draws:
        """Without deterministic sites, in the order of the model."""
        missing = [name for name in self.rows.latent if name not in draws.values]
        if missing:
            raise CoreletError(f"the draws have no site {missing[0]}, which the model has")
        return Draws({name: draws.values[name] for name in self.rows.latent}, draws.chained, draws.diverged)

    # Densities.

    def log_likelihood(self, theta: Mapping[str, NDArray[Any]], rows: Which, padded: bool = True) -> NDArray[Any]:
        """Draws by rows, by a function compiled for so many draws and rows."""
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        parameters = self._typed(theta)
        draws = len(next(iter(parameters.values())))
        size = max(count, block_size(self.rows.n, draws)) if padded else count
        data = self.rows.take(rows, size)
        compiled = self._once(("rows", draws, size), jax.vmap(self.rows.log_likelihood, in_axes=(0, None)), (parameters, data))
        return np.asarray(compiled(parameters, data), dtype=np.float64)[:, :count]

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """At most so many of the draws, evenly spaced: their unconstrained values, draws × numbers, and the gradient there of the
        log density of the weighted rows' posterior, with Jacobians. It shares no code with the chains but the model."""
        free = self._unconstrained(draws.thin(most))
        size = max(self.size, len(rows))
        data = (padded_weights(weights, size), *self.rows.take(rows, size))

        def density(free: Any, data: Any) -> Any:
            return self._total(free, data) + self.rows.log_prior(free, data[1:])

        def gradient(free: Any, data: Any) -> Any:
            # Draw by draw: compiled gradients of betaln are wrong in JAX 0.10 where vmap goes over its arguments.
            return jax.lax.map(lambda one: jax.grad(density)(one, data), free)

        count = len(next(iter(free.values())))
        found = self._once(("score", count, size), gradient, (free, data))(free, data)
        return self._table(free), self._table(found)

    def gradient_of_all_rows(self, u: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of all rows at unconstrained values, draws × numbers, and its gradient by these."""
        return self.slopes(u, None)

    def slopes(
        self, at: NDArray[np.float64], rows: Optional[NDArray[np.int64]], weights: Optional[NDArray[np.float64]] = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same of these rows, each times its weight; of all where none are named."""
        if self.effects is not None:
            values, by_effects = self.effects.slopes(self.effects.at(at), rows, weights)
            return values, self.effects.pull_back(at, by_effects)
        return self.over_blocks(("slopes",), self._each_slope, at, rows, weights)

    def over_blocks(
        self,
        key: tuple[Any, ...],
        function: Callable[..., Any],
        at: NDArray[np.float64],
        rows: Optional[NDArray[np.int64]],
        weights: Optional[NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of a function of points and of rows with weights, and their gradients. Compiled for one point and for many."""
        count = self.rows.n if rows is None else len(rows)
        size = min(self.rows.n, max(SLOPE_ROWS, self.size)) if count > FEW_AT_ONCE else FEW_AT_ONCE
        factors = np.ones(count) if weights is None else weights
        width = 1 if len(at) == 1 else AT_ONCE
        points = np.concatenate([at, np.repeat(at[-1:], -len(at) % width, axis=0)])

        def look(place: tuple[int, int]) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
            begin, first = place
            end = min(begin + size, count)
            data = (padded_weights(factors[begin:end], size), *self._some(rows, begin, end, size))
            some = points[first : first + width]
            found, slopes = self._once((*key, width, size), function, (some, data))(some, data)
            return first, np.asarray(found, dtype=np.float64), np.asarray(slopes, dtype=np.float64)

        totals, gradients = np.zeros(len(points)), np.zeros(points.shape)
        places = [(begin, first) for begin in range(0, count, size) for first in range(0, len(points), width)]
        for first, some, more in in_order(look, places, self.at_once):
            totals[first : first + width] += some
            gradients[first : first + width] += more
        return totals[: len(at)], gradients[: len(at)]

    def _some(self, rows: Optional[NDArray[np.int64]], begin: int, end: int, size: int) -> tuple[Any, ...]:
        """Rows `begin` to `end` of these, or of all, padded; those of all are kept as JAX's arrays from one point to the next."""
        if rows is not None:
            return tuple(self.rows.take(rows[begin:end], size))
        if (begin, size) not in self._blocks:
            self._blocks[begin, size] = jax.device_put(self.rows.take(slice(begin, end), size))
        return tuple(self._blocks[begin, size])

    def _each_slope(self, points: Any, data: Any) -> Any:
        """Point by point: what is computed of a block of rows stays in the cache of a core."""
        total = jax.value_and_grad(lambda point: self._total(self._apart(point), data))
        return jax.lax.map(total, points)

    def _each_prior(self, points: Any) -> Any:
        return jax.lax.map(jax.value_and_grad(lambda point: self.rows.log_prior(self._apart(point), self._few)), points)

    def _apart(self, point: Any) -> dict[str, Any]:
        """Unconstrained numbers as values of the latent sites."""
        return {name: point[piece].reshape(like.shape) for name, piece, like in self._layout()}

    def _layout(self) -> list[tuple[str, slice, Any]]:
        """Where each latent site stands among the unconstrained numbers, and what its values are like."""
        if self._pieces is None:
            shapes = jax.eval_shape(self.rows.unconstrained, self.rows.latent, self._few)
            likes = [shapes[name] for name in self.rows.latent]
            sizes = [int(np.prod(like.shape)) for like in likes]
            ends = np.cumsum(sizes).tolist()
            places = (slice(end - size, end) for end, size in zip(ends, sizes))
            self._pieces = list(zip(self.rows.latent, places, likes))
        return self._pieces

    def log_prior(self, u: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log density of the prior, with factors and Jacobians, at unconstrained values, and its gradient."""
        totals, gradients = self.over_points("prior", self._each_prior, u)
        return totals, gradients

    def over_points(self, key: str, function: Callable[..., Any], *at: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """What a function returns for many points, compiled for one and for many."""
        count = len(at[0])
        width = 1 if count == 1 else AT_ONCE
        padded = [np.concatenate([part, np.repeat(part[-1:], -count % width, axis=0)]) for part in at]
        answers = []
        for first in range(0, len(padded[0]), width):
            some = tuple(part[first : first + width] for part in padded)
            compiled = self._quick.get((key, width)) or self._once((key, width), function, some)
            answers.append(self._quick.setdefault((key, width), compiled)(*some))
        return tuple(np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])[:count] for parts in zip(*answers))

    def find_effects(self) -> None:
        """Looks for what the rows see of the sites."""
        try:
            found = Effects(self.rows, self._layout())
        except Exception:  # What cannot be traced apart; the sites themselves serve as well.
            return
        if 0 < found.count <= MOST_EFFECTS:
            self.effects = ByEffects(self, found)

    def constrained(self, points: NDArray[np.float64], stats: Optional[Mapping[str, NDArray[np.float64]]] = None) -> Draws:
        """Draws, from unconstrained values, chains × draws × numbers, with the sampler's statistics; from draws × numbers as one chain."""
        points = points if points.ndim == 3 else points[None]
        free = self._by_site(points.reshape(-1, points.shape[-1]))
        count = points.shape[0] * points.shape[1]
        at = jax.vmap(self.rows.constrained, in_axes=(0, None))
        values = self._once(("constrained", count), at, (free, self._few))(free, self._few)
        shaped = {name: np.asarray(values[name]).reshape(*points.shape[:2], *np.shape(values[name])[1:]) for name in self.rows.latent}
        found = Draws(shaped, True)
        if stats:
            self._known.update({mark: (len(self._stats), *place) for place, mark in _fingerprints(found).items()})
            self._stats.append(dict(stats))
        return found

    @property
    def dimension(self) -> int:
        """How many unconstrained numbers there are."""
        return int(self._layout()[-1][1].stop)

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the last chains, and the acceptance rate that they adapt to."""
        return self.last.draws, self.last.tune, self.last.chains, float(self._kernel.get("target_accept_prob", 0.8))

    def coordinates(self) -> list[str]:
        """The name of each unconstrained number."""
        return [name for site, _, like in self._layout() for name in names_of(site, like.shape)]

    def places(self, count: int) -> NDArray[np.float64]:
        """Unconstrained points within 2 of the middle, as NumPyro's chains start, at which the prior is finite; the middle is the first."""
        rng = np.random.default_rng(self.seed)
        points = np.concatenate([np.zeros((1, self.dimension)), rng.uniform(-2.0, 2.0, (4 * count, self.dimension))])
        density, gradient = self.log_prior(points)
        return points[np.isfinite(density) & np.isfinite(gradient).all(axis=1)][:count]

    def unconstrained(self, draws: Draws) -> NDArray[np.float64]:
        """Draws × numbers on the whole real line, by latent site in the order of the model."""
        return self._table(self._unconstrained(draws))

    def _total(self, free: Any, data: Any) -> Any:
        """Σ wᵢ ℓᵢ at unconstrained values."""
        weights, *rows = data
        values = self.rows.log_likelihood(self.rows.constrained(free, rows), rows)
        return jnp.where(weights > 0, weights * values, 0.0).sum()

    def _unconstrained(self, draws: Draws) -> dict[str, NDArray[Any]]:
        theta = self._typed(draws.flat())
        at = jax.vmap(self.rows.unconstrained, in_axes=(0, None))
        found = self._once(("unconstrained", draws.count), at, (theta, self._few))(theta, self._few)
        return {name: np.asarray(values) for name, values in found.items()}

    def _typed(self, theta: Any) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(theta[name], like.dtype) for name, like in self.rows.latent.items()}

    def _table(self, free: Mapping[str, Any]) -> NDArray[np.float64]:
        columns = [np.asarray(free[name], dtype=np.float64) for name in self.rows.latent]
        return np.concatenate([values.reshape(len(values), -1) for values in columns], axis=1)

    def _by_site(self, u: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        if u.ndim != 2 or u.shape[1] != self.dimension:
            raise CoreletError(f"unconstrained values have shape {u.shape}; they must be draws × {self.dimension}")
        return {name: np.asarray(u[:, piece], like.dtype).reshape(len(u), *like.shape) for name, piece, like in self._layout()}

    def _once(self, key: tuple[Any, ...], function: Callable[..., Any], examples: tuple[Any, ...]) -> Compiled:
        """A function compiled for these shapes, once."""
        with self._tracing:  # Handlers of NumPyro are one stack for all threads.
            if key not in self._compiled:
                self._compiled[key] = Compiled(function, examples, MUCH)
            return self._compiled[key]

    # Results.

    def notes(self) -> list[str]:
        """What a user should know of the model's sites."""
        found = []
        if self.rows.long:
            names, how = ", ".join(self.rows.long), "numpyro.infer.Predictive(model, fit.draws, batch_ndims=2)"
            found.append(f"{names}: one value for each row, so not in idata; {how} computes it")
        if self.rows.whole:
            found.append(f"{', '.join(self.rows.whole)}: observed, but not of the {self.rows.n} rows, so kept whole beside the coreset")
        return found

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        """The draws with the model's deterministic sites and dimensions, and the sampler's statistics."""
        groups: dict[str, dict[str, Any]] = {"posterior": {**draws.values, **self._deterministic(draws)}}
        stats = self._stats_of(draws)
        if stats:
            groups["sample_stats"] = stats
        dims = {name: names for name, names in dimensions(self.rows.sites).items() if name in groups["posterior"]}
        return _arviz.inference_data(groups, dims=dims, attributes=attributes)

    def _deterministic(self, draws: Draws) -> dict[str, NDArray[Any]]:
        """Deterministic sites, on all rows where they depend on them; those with a value for each row are left out."""
        names = [
            name
            for name, site in self.rows.sites.items()
            if site["type"] == "deterministic" and name not in self.rows.long and np.size(site["value"])
        ]
        theta, found = self._typed(draws.flat()), {}
        for which, data in ((set(names) - set(self._of_all_rows), self._few), (set(self._of_all_rows), self.rows.values)):
            if not which:
                continue

            def at(theta: Any, data: Any) -> dict[str, Any]:
                values = self.rows.parts(theta, data).deterministic
                return {name: values[name] for name in which}  # noqa: B023

            def every(theta: Any, data: Any) -> Any:
                return jax.lax.map(lambda one: at(one, data), theta)  # noqa: B023

            values = self._once(("sites", draws.count, *sorted(which)), every, (theta, data))(theta, data)
            found.update({name: np.asarray(array).reshape(*draws.shape, *array.shape[1:]) for name, array in values.items()})
        return {name: found[name] for name in names}

    def _stats_of(self, draws: Draws) -> dict[str, NDArray[Any]]:
        """The sampler's statistics of these draws, where they are chains of it."""
        if not draws.chained:
            return {}
        places = [self._known[mark] for mark in _fingerprints(draws).values() if mark in self._known]
        if len(places) < draws.count:
            return {}
        return {
            name: np.array([self._stats[run][name][chain, draw] for run, chain, draw in places]).reshape(draws.shape)
            for name in self._stats[0]
        }


def _fingerprints(draws: Draws) -> dict[tuple[int, int], int]:
    """A number that tells each draw from others, by chain and number."""
    chains, length = draws.shape
    table = np.concatenate([np.float64(array).reshape(chains, length, -1) for array in draws.values.values()], axis=2)
    return {(chain, draw): hash(table[chain, draw].tobytes()) for chain in range(chains) for draw in range(length)}
