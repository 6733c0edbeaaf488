"""A PyMC model as the engine asks it: draws given weighted rows, log-likelihoods, and the density with its gradient."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Optional

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray

from .._lib import CoreletError
from ..frames.units import Which
from ..results.arviz import dataset_of, inference_data
from ..results.draws import Draws
from .bambi import backend_of, cleaned
from .beside import MOST_AT_ONCE, cores
from .chains import SamplerFailed, Statistics, Steps, first_line, lengths_of
from .gaussian import MOST_EFFECTS, names_of
from .pymc_chains import Runner, runner
from .pymc_density import Parameters, Scores, WeightedModel, flat_draws
from .pymc_effects import Effects
from .pymc_graph import AS_IT_IS, INSIDE, Leaf, RowLogp, check_model, not_of_all_rows, observed_of, refusal, shape_of, unchecked, with_own_data
from .pymc_loglik import AllRows, LogLikelihoods, Prior
from .slicing import checked_rows, without_a_value

PILOT_CHAINS, ROUND_CHAINS, ROUND_TUNE = 4, 2, 300
"""Many short chains at first, to see whether they agree; few later."""
STARTS, FIRST_STARTS = 64, 16
"""Points that chains may start from: draws, and places near PyMC's initial point, whose density is looked at."""

FEW = 500
"""Rows whose log-likelihoods NumPy computes sooner than numba compiles them."""
GRADIENTS_TAKE = 0.75
"""How long a verdict takes to compile its gradients and to ask for them, as a share of what compiling the sampler took: measured of a Student-t
regression, to tell a user what is left."""


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
        self.bambi = backend_of(model)
        self.model = model if self.bambi is None else self.bambi.model
        if not isinstance(self.model, pm.Model):
            raise TypeError(f"model is of type {type(model).__name__}; it must be a pymc.Model or a bambi.Model")
        if sampler not in (None, "nutpie", "pymc"):
            raise CoreletError(f"sampler is '{sampler}', but it must be one of nutpie, pymc")
        self.n = check_model(self.model)
        self.last = lengths_of(draws, tune, chains)
        self.seed = seed
        self.sampler = sampler
        self.options = options
        self.calls = 0
        self.notes: list[str] = []
        """What should not be overlooked."""
        self.statistics = Statistics()
        """Of chains as long as the last ones."""
        self.rows = RowLogp(self.model, self.n)
        self.free = Parameters(self.model)
        self._loglik = LogLikelihoods(self.free, self.rows)
        self._uncompiled: Optional[LogLikelihoods] = None
        self._alone = threading.Lock()
        """For what threads may not do at the same time: compiling, and functions of NumPy, which keep what they compute in one place."""
        self._by_rows: Optional[Runner] = None
        self._compile_took = 0.0
        self._prior: Optional[Callable[..., Any]] = None
        self._known: Optional[_Known] = None
        self._scores: Optional[Scores] = None
        self._all_rows: Optional[AllRows] = None
        self.before_all_rows: Optional[Callable[[float], None]] = None
        """Called before all rows are sampled, which takes so many seconds, where there may be a faster way."""
        self.effects: Optional[Effects] = None
        """What the rows see of the free variables, where that is other than these and was looked for."""
        self.observed, beside = observed_of(self.model)
        if beside:
            names = ", ".join(rv.name for rv in beside)
            self.notes.append(f"{names}: observed, but not of the {self.n} rows, so kept whole beside the coreset")
        per_row = [variable.name for variable in self.model.deterministics if self.n in shape_of(variable)]
        if per_row and self.bambi is None:
            how = f"pymc.compute_deterministics(posterior, var_names={per_row}, model=model)"
            self.notes.append(f"{', '.join(per_row)}: one value for each row, so not in idata; {how} computes it")

    def append(self, other: Sampler, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Takes rows of another model of the same kind after its own, before anything is compiled: their numbers here."""
        mine, others = self.rows.leaves, other.rows.leaves
        if [_kind(leaf) for leaf in mine] != [_kind(leaf) for leaf in others]:
            raise CoreletError(
                "this is not the model of the fit: it reads other data, or of other shapes. The new rows need the model, the levels and the "
                "scales that the earlier ones had"
            )
        for at, (leaf, known) in enumerate(zip(mine, others)):
            mine[at] = replace(leaf, values=np.concatenate([leaf.values, known.take(rows)], axis=leaf.axis))
        first, self.n = self.n, self.n + len(rows)
        return np.arange(first, self.n)

    def compile(self) -> None:
        """The log-likelihood, and the weighted model for its sampler; once."""
        self._compile_log_likelihood()
        if self._by_rows is None:
            began = time.perf_counter()
            self._by_rows = runner(WeightedModel(self.free, self.rows), self.sampler, self.notes)
            self._compile_took = time.perf_counter() - began

    @property
    def seconds_to_compile(self) -> float:
        """About how long the gradients of the verdict will take, where they are not compiled yet."""
        return GRADIENTS_TAKE * self._compile_took if self._all_rows is None and self.effects is None else 0.0

    def _compile_log_likelihood(self) -> None:
        with self._alone:
            if self._loglik.compiled:
                return
            self._loglik.compile()
            if self._loglik.compiler != "numba":
                self.notes.append("numba cannot compile the log-likelihood of this model, so NumPy computes it, which is slower")
            self._check_log_likelihood()

    @property
    def last_steps(self) -> int:
        return self.last.total

    @property
    def at_once(self) -> int:
        return self._loglik.at_once if self._loglik.compiler else min(cores(), MOST_AT_ONCE)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.free.count

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        self.compile()
        assert self._by_rows is not None
        seed = self._next_seed()
        data = self._by_rows.model.data(rows, weights)
        chains = PILOT_CHAINS if start is None else ROUND_CHAINS
        steps = self.last if final else Steps(-(-2 * draws // chains), ROUND_TUNE, chains)
        run, starts = self._by_rows, self._starts(rows, weights, start, seed)
        try:
            trace = run(data, starts, steps, seed, self.options)
        except Exception as error:
            beside = f", with options={self.options}" if self.options else ""
            what = f"{run.name} cannot sample the weighted model{beside} ({first_line(error)})"
            # Options that the sampler does not know would fail again on any other rows.
            raise (CoreletError if isinstance(error, (AttributeError, TypeError)) else SamplerFailed)(what) from error
        found = Draws.of(trace).only(self.free.names)
        stats = dataset_of(trace, "sample_stats")
        if final and stats is not None:
            stats = stats.transpose("chain", "draw", ...)
            self.statistics.keep(found, {str(name): stats[name].values for name in stats.data_vars})
        return found

    def _next_seed(self) -> int:
        self.calls += 1
        return int(np.random.SeedSequence([self.seed, self.calls]).generate_state(1)[0])

    def _starts(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], start: Optional[Draws], seed: int
    ) -> NDArray[np.float64]:
        """Unconstrained points for chains to start from, one a line: draws, or places near PyMC's initial point."""
        if start is not None:
            points = self.free.unconstrained(flat_draws(start.thin(STARTS)))
            points = points[np.isfinite(points).all(axis=1)]
            if len(points):
                return points
        points = self.free.starts(FIRST_STARTS, seed)
        density, gradient = self._density(rows, weights, points)
        good = np.isfinite(density) & np.isfinite(gradient).all(axis=1)
        if not good.any():
            theta = {name: values[0] for name, values in self.free.constrain(points[None]).items()}
            raise without_a_value(self._by_numpy(theta, rows), rows) or CoreletError(
                "the log-posterior is not finite at any of "
                f"{FIRST_STARTS} points around PyMC's initial point; give variables an initval, or scale the data"
            )
        return points[good]

    def _density(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], at: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._scores is None:
            self._scores = Scores(self.free, self.rows)
        return self._scores(rows, weights, at)

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """At no more than `most` of these draws: unconstrained values, and the gradient of the weighted log-posterior there, draws ×
        values. By PyMC's own graphs, and by nothing that the sampler compiled. Draws at the edge of a range are left out."""
        points = self.free.unconstrained(flat_draws(draws.thin(most)))
        points = points[np.isfinite(points).all(axis=1)]
        return points, self._density(rows, weights, points)[1]

    def log_prior(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Priors, potentials and Jacobians at lines of unconstrained values, with gradients. Compiled at the first call, and then compared
        with PyMC's own graph evaluated by NumPy, which serves where numba cannot compile them."""
        if self._prior is None:
            if self._scores is None:
                self._scores = Scores(self.free, self.rows)
            by_numpy = self._scores.log_prior
            points = self.free.starts(3, self.seed)
            try:
                self._prior = Prior(self.free)
                same = all(np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True) for a, b in zip(self._prior(points), by_numpy(points)))
            except Exception:  # Numba raises errors of many kinds for an operation that it has not.
                same = False
            if not same:
                self._prior = by_numpy
        assert self._prior is not None
        found: tuple[NDArray[np.float64], NDArray[np.float64]] = self._prior(at)
        return found

    def gradient_of_all_rows(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log-likelihood of all rows at lines of unconstrained values, and its gradient, lines × values. Compiled at the first call."""
        return self.slopes(at, None)

    def slopes(
        self, at: NDArray[np.float64], rows: Optional[NDArray[np.int64]], weights: Optional[NDArray[np.float64]] = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same of these rows, each times its weight; of all where none are named."""
        if self.effects is not None:
            values, by_effects = self.effects.slopes(self.effects.at(at), rows, weights)
            return values, self.effects.pull_back(at, by_effects)
        if self._all_rows is None:
            try:
                flat = self.free.variables()
                self._all_rows = AllRows(self.rows, flat, dict(zip(self.free.free, self.free.constrained(flat))))
            except Exception as error:  # Numba raises errors of many kinds for an operation that it has not.
                what = f"numba cannot compile the gradient of this log-likelihood ({first_line(error)})"
                raise CoreletError(what) from error
            if self._known is not None:
                observed, _, points, chosen, among = self._known
                self._compare(observed, self._all_rows(points, chosen)[0], among.sum(axis=1))
        return self._all_rows(at, rows, weights)

    def find_effects(self) -> None:
        """Looks for what the rows see of the free variables. The log-likelihoods of some rows must be those of the model's own graph."""
        try:
            found = Effects(self.free, self.rows)
            if not 0 < found.count <= MOST_EFFECTS:
                return
            if self._known is not None:
                observed, _, points, chosen, among = self._known
                self._compare(observed, found.slopes(found.at(points), chosen)[0], among.sum(axis=1))
        except CoreletError:
            raise
        except Exception:  # What numba or pytensor has no operation for; the free variables themselves serve as well.
            return
        self.effects = found

    @property
    def dimension(self) -> int:
        """How many unconstrained values there are."""
        return self.free.dimension

    def coordinates(self) -> list[str]:
        """Their names."""
        return [name for value, shape in zip(self.free.value_names, self.free.value_shapes) for name in names_of(value, shape)]

    def places(self, count: int) -> NDArray[np.float64]:
        """Points around PyMC's initial point, one a line, at which the prior is finite; that point itself is the first."""
        points = np.concatenate([self.free.starts(1, self.seed, 0.0), self.free.starts(4 * count, self.seed)])
        density, gradient = self.log_prior(points)
        return points[np.isfinite(density) & np.isfinite(gradient).all(axis=1)][:count]

    def unconstrained(self, draws: Draws) -> NDArray[np.float64]:
        """Draws as lines of unconstrained values; not finite where a draw is at the edge of its range."""
        return self.free.unconstrained(flat_draws(draws))

    def constrained(self, points: NDArray[np.float64], stats: Optional[Mapping[str, NDArray[np.float64]]] = None) -> Draws:
        """Chains × draws × unconstrained values as draws, with the sampler's statistics."""
        found = Draws(self.free.constrain(points), True)
        if stats:
            self.statistics.keep(found, stats)
        return found

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the final chains, and the acceptance rate that they adapt to."""
        return (*self.last, float(self.options.get("target_accept", 0.8)))

    def log_posterior(self, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The log posterior of all rows at lines of unconstrained values, and its gradient."""
        try:
            totals, gradients = self.gradient_of_all_rows(at)
        except Exception:  # Where numba has no code for it, as it raises errors of many kinds.
            return self._density(np.arange(self.n), np.ones(self.n), at)
        prior, slopes = self.log_prior(at)
        return totals + prior, gradients + slopes

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        if isinstance(rows, np.ndarray) and len(rows) <= FEW and not self._loglik.compiled:
            return self._by_numpy(theta, rows)
        self._compile_log_likelihood()
        return self._loglik(theta, rows)

    def _by_numpy(self, theta: Any, rows: Which) -> Any:
        """Of a few rows, for which it would not pay to compile."""
        with self._alone:
            if self._uncompiled is None:
                self._uncompiled = LogLikelihoods(self.free, self.rows)
                self._uncompiled.compile(numba=False)
            return self._uncompiled(theta, rows)

    def check_slicing(self, seed: int) -> None:
        """Some rows alone must have the log-likelihood that they have among all, by the model's own graph; of each observed variable."""
        values = self.free.variables()
        constrained = self.free.constrained(values)
        plain = with_own_data(self.model.logp(vars=self.observed, sum=False), dict(zip(self.free.values, values)))
        among_all = [graph.sum(axis=tuple(range(1, graph.ndim))) for graph in plain]
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in self.rows.leaves}
        alone = self.rows.of(leaves, dict(zip(self.model.free_RVs, constrained)))
        settings: dict[str, Any] = dict(mode=AS_IT_IS, on_unused_input="ignore")
        points = [self.free.split(point) for point in self.free.starts(2, seed)]
        try:
            whole = pytensor.function(values, [*constrained, *unchecked(among_all)], **settings)
            with np.errstate(all="ignore"):
                found = [whole(*point) for point in points]
        except Exception as error:
            raise not_of_all_rows(self.model, self.n, error) from error
        theta = [answer[: len(constrained)] for answer in found]
        wanted = [np.stack(parts) for parts in zip(*(answer[len(constrained) :] for answer in found))]
        chosen = checked_rows(np.add.reduce(wanted), seed)
        data = [leaf.take(chosen) for leaf in self.rows.leaves]
        for (name, graph), expected in zip(alone.items(), wanted):
            try:
                some = pytensor.function([*values, *leaves.values()], unchecked([graph]), **settings)
                answers = np.stack([some(*point, *data)[0] for point in points])
            except Exception as error:
                raise refusal(name, error) from error
            self._compare(name, answers, expected[:, chosen])
        names = [rv.name for rv in self.model.free_RVs]
        stacked = {name: np.stack([point[at] for point in theta]) for at, name in enumerate(names)}
        among = np.add.reduce(wanted)[:, chosen]
        observed = " and ".join(rv.name for rv in self.observed)
        self._known = _Known(observed, stacked, np.stack([np.concatenate([np.ravel(x) for x in point]) for point in points]), chosen, among)
        if self._loglik.compiler:
            self._check_log_likelihood()

    def _check_log_likelihood(self) -> None:
        """What is compiled, against the model's own graph."""
        if self._known is not None:
            observed, theta, _, rows, among = self._known
            self._compare(observed, self._loglik(theta, rows), among)

    def _compare(self, name: str, alone: NDArray[Any], among_all: Any) -> None:
        out_of_range = np.isneginf(alone) if alone.shape == among_all.shape else False
        expected = np.where(out_of_range, -np.inf, among_all)
        if alone.shape != expected.shape or not np.allclose(alone, expected, rtol=1e-6, atol=1e-6, equal_nan=True):
            raise CoreletError(
                f"the log-likelihood of a row of {name} depends on the other rows, so rows cannot be taken out of the model; {INSIDE}"
            )

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        """The draws with the names, dimensions and coordinates of the model, and its deterministic variables."""
        shown = {name: list(axes) for name, axes in self.model.named_vars_to_dims.items()}
        used = {axis for name in draws.values for axis in shown.get(name, [])}
        coords = {axis: list(values) for axis, values in self.model.coords.items() if axis in used and values is not None}
        dims = {name: shown[name] for name in draws.values if name in shown}
        small = [variable.name for variable in self.model.deterministics if self.n not in shape_of(variable)]
        groups: dict[str, Any] = {"posterior": dict(draws.values)}
        if small:
            bare = dataset_of(inference_data(groups, coords=coords, dims=dims), "posterior")
            with self.model:
                more = pm.compute_deterministics(bare, var_names=small, progressbar=False)
            groups["posterior"].update({name: more[name].values for name in small})
            dims.update({name: shown[name] for name in small if name in shown})
            axes = {axis for name in small for axis in shown.get(name, [])} - set(coords)
            coords.update({axis: list(values) for axis, values in self.model.coords.items() if axis in axes and values is not None})
        stats = self.statistics.of(draws)
        if stats:
            groups["sample_stats"] = stats
        groups["observed_data"] = {rv.name: _plain(self.model.rvs_to_values[rv]) for rv in self.model.observed_RVs}
        dims.update({rv.name: shown[rv.name] for rv in self.model.observed_RVs if rv.name in shown})
        idata = inference_data(groups, coords=coords, dims=dims, attributes=attributes)
        return idata if self.bambi is None else cleaned(idata, self.bambi)


def _plain(value: Any) -> NDArray[Any]:
    """The data that an observed variable holds."""
    return np.asarray(value.eval(mode=AS_IT_IS))


class _Known(NamedTuple):
    """Log-likelihoods of some rows by the model's own graph, among all rows."""

    observed: str
    theta: dict[str, NDArray[Any]]
    """Where, as draws of the free variables."""
    points: NDArray[np.float64]
    """The same, unconstrained."""
    rows: NDArray[np.int64]
    values: NDArray[np.float64]


def _kind(leaf: Leaf) -> tuple[Any, ...]:
    """What data of rows are, whatever the rows."""
    return leaf.values.dtype, leaf.axis, tuple(length for axis, length in enumerate(leaf.values.shape) if axis != leaf.axis)
