"""A NumPyro model as the engine asks it: draws given weighted rows, log-likelihoods, and the density with its gradient."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .._lib import CoreletError, block_size
from ..frames.units import Which
from ..results.arviz import inference_data
from ..results.draws import Draws
from .beside import MOST_AT_ONCE, cores, in_order
from .chains import SamplerFailed, Statistics, Steps
from .compiled import MUCH, Compiled
from .gaussian import MOST_EFFECTS, names_of
from .numpyro_chains import Chains, padded_weights, sample_stats
from .numpyro_check import Checked, check, tolerance
from .numpyro_effects import Effects
from .numpyro_rows import Rows, dimensions
from .slicing import checked_rows, compare, without_a_value

if TYPE_CHECKING:
    from .._fit import Plan

FEW = 7
"""Rows that are given to a model where they do not matter."""
STARTS = 400
"""Draws of a round from which chains of the next one start."""
AT_ONCE = 16
"""Points at which a gradient is compiled, beside one."""
SLOPE_ROWS, FEW_AT_ONCE = 20_000, 2_000
"""Rows of a block of gradients, and of the small ones for a coreset's rows."""
LONGER = 4
"""Up to so many times as long as a round's need be, its chains are as long as the last ones: that costs less than compiling."""


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


class Sampler:
    """The model with weights, for rounds."""

    def __init__(self, rows: Rows, last: Steps, plan: Plan, size: int, kernel: dict[str, Any]) -> None:
        """Chains are compiled for `size` rows; fewer are padded with rows of weight 0, and more are compiled anew."""
        self.rows = rows
        self.last = last
        self.size = size
        self._plan = plan
        self.seed = plan.seed
        self.calls = 0
        self._chains = Chains(rows, last.tune, kernel)
        self._statistics = Statistics()
        """Of every run of the chains."""
        self.known: Optional[Checked] = None
        """Some points, and what was found there."""
        self._of_all_rows: list[str] = []
        self._without_a_value: Optional[CoreletError] = None
        """What to say of rows if chains cannot start."""
        self.few = rows.take(slice(0, min(rows.n, FEW)), 0)
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
            some = min(size, rows.n)
            self._chains.compile(self._data(np.arange(some), np.ones(some)), self._length(plan.draws_at(plan.k, 0)))

    def like(self, rows: Rows) -> Sampler:
        """The same of another model, whose sites are among this one's."""
        found = Sampler(rows, self.last, self._plan, 0, self._kernel)
        found._of_all_rows = [name for name in self._of_all_rows if name in rows.sites]
        return found

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.rows.parameters

    @property
    def last_steps(self) -> int:
        return self.last.total

    @property
    def at_once(self) -> int:
        return min(cores(), MOST_AT_ONCE)

    def check(self, draws: int, seed: int) -> None:
        """Refuses a model of which a coreset would be wrong. So many draws are what log-likelihoods are asked at later."""
        checked = self.known = check(self.rows, seed)
        self._without_a_value = without_a_value(checked.rows, np.arange(self.rows.n))
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
        except CoreletError as error:
            raise self._without_a_value or error from None
        except RuntimeError as error:  # JAX's are of this kind, too.
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise SamplerFailed(f"NumPyro cannot sample the weighted model: {first}") from error
        found = Draws(values, True, int(fields["diverging"].sum()))
        self._statistics.keep(found, sample_stats(fields))
        return found

    def _length(self, draws: int) -> int:
        """Of each chain, twice as many draws as are wanted of all; as long as the last chains where that is not much longer,
        since one compiled chain then serves all."""
        wanted = max(100, -(-2 * draws // self.last.chains))
        return self.last.draws if wanted <= self.last.draws <= LONGER * wanted else wanted

    def _data(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> tuple[Any, ...]:
        """Weights and rows, padded with rows of weight 0."""
        return (padded_weights(weights, self.size), *self.rows.take(rows, self.size))

    # Densities.

    def log_likelihood(self, theta: Mapping[str, NDArray[Any]], rows: Which, padded: bool = True) -> NDArray[Any]:
        """Draws by rows, by a function compiled for so many draws and rows."""
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        parameters = self._typed(theta)
        draws = len(next(iter(parameters.values())))
        size = max(count, block_size(self.rows.n, draws)) if padded else count
        data = self.rows.take(rows, size)
        compiled = self.once(("rows", draws, size), jax.vmap(self.rows.log_likelihood, in_axes=(0, None)), (parameters, data))
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
        found = self.once(("score", count, size), gradient, (free, data))(free, data)
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
            found, slopes = self.once((*key, width, size), function, (some, data))(some, data)
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
        total = jax.value_and_grad(lambda point: self._total(self.apart(point), data))
        return jax.lax.map(total, points)

    def _each_prior(self, points: Any) -> Any:
        return jax.lax.map(jax.value_and_grad(lambda point: self.rows.log_prior(self.apart(point), self.few)), points)

    def apart(self, point: Any) -> dict[str, Any]:
        """Unconstrained numbers as values of the latent sites."""
        return {name: point[piece].reshape(like.shape) for name, piece, like in self.layout()}

    def layout(self) -> list[tuple[str, slice, Any]]:
        """Where each latent site stands among the unconstrained numbers, and what its values are like."""
        if self._pieces is None:
            shapes = jax.eval_shape(self.rows.unconstrained, self.rows.latent, self.few)
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
            compiled = self._quick.get((key, width)) or self.once((key, width), function, some)
            answers.append(self._quick.setdefault((key, width), compiled)(*some))
        return tuple(np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])[:count] for parts in zip(*answers))

    def find_effects(self) -> None:
        """Looks for what the rows see of the sites."""
        try:
            found = Effects(self.rows, self.layout())
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
        values = self.once(("constrained", count), at, (free, self.few))(free, self.few)
        shaped = {name: np.asarray(values[name]).reshape(*points.shape[:2], *np.shape(values[name])[1:]) for name in self.rows.latent}
        found = Draws(shaped, True)
        if stats:
            self._statistics.keep(found, stats)
        return found

    @property
    def dimension(self) -> int:
        """How many unconstrained numbers there are."""
        return int(self.layout()[-1][1].stop)

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the last chains, and the acceptance rate that they adapt to."""
        return self.last.draws, self.last.tune, self.last.chains, float(self._kernel.get("target_accept_prob", 0.8))

    def coordinates(self) -> list[str]:
        """The name of each unconstrained number."""
        return [name for site, _, like in self.layout() for name in names_of(site, like.shape)]

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
        found = self.once(("unconstrained", draws.count), at, (theta, self.few))(theta, self.few)
        return {name: np.asarray(values) for name, values in found.items()}

    def _typed(self, theta: Any) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(theta[name], like.dtype) for name, like in self.rows.latent.items()}

    def _table(self, free: Mapping[str, Any]) -> NDArray[np.float64]:
        columns = [np.asarray(free[name], dtype=np.float64) for name in self.rows.latent]
        return np.concatenate([values.reshape(len(values), -1) for values in columns], axis=1)

    def _by_site(self, u: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        if u.ndim != 2 or u.shape[1] != self.dimension:
            raise CoreletError(f"unconstrained values have shape {u.shape}; they must be draws × {self.dimension}")
        return {name: np.asarray(u[:, piece], like.dtype).reshape(len(u), *like.shape) for name, piece, like in self.layout()}

    def once(self, key: tuple[Any, ...], function: Callable[..., Any], examples: tuple[Any, ...]) -> Compiled:
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
        stats = self._statistics.of(draws)
        if stats:
            groups["sample_stats"] = stats
        dims = {name: names for name, names in dimensions(self.rows.sites).items() if name in groups["posterior"]}
        return inference_data(groups, dims=dims, attributes=attributes)

    def _deterministic(self, draws: Draws) -> dict[str, NDArray[Any]]:
        """Deterministic sites, on all rows where they depend on them; those with a value for each row are left out."""
        names = [
            name
            for name, site in self.rows.sites.items()
            if site["type"] == "deterministic" and name not in self.rows.long and np.size(site["value"])
        ]
        theta, found = self._typed(draws.flat()), {}
        for which, data in ((set(names) - set(self._of_all_rows), self.few), (set(self._of_all_rows), self.rows.values)):
            if not which:
                continue

            def at(theta: Any, data: Any) -> dict[str, Any]:
                values = self.rows.parts(theta, data).deterministic
                return {name: values[name] for name in which}  # noqa: B023

            def every(theta: Any, data: Any) -> Any:
                return jax.lax.map(lambda one: at(one, data), theta)  # noqa: B023

            values = self.once(("sites", draws.count, *sorted(which)), every, (theta, data))(theta, data)
            found.update({name: np.asarray(array).reshape(*draws.shape, *array.shape[1:]) for name, array in values.items()})
        return {name: found[name] for name in names}
