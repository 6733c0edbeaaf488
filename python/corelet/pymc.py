"""`corelet.pymc.fit`: a PyMC or bambi model as it is, fitted by a coreset."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .results.arviz import dataset_of, inference_data
from .adapters.beside import MOST_AT_ONCE, cores
from .adapters.bambi import backend_of, cleaned
from ._build import _count
from ._certify import claimed, entries
from ._review import reviewed, weights_of
from .results.certificate import Certificate
from .results.review import Review
from .results.draws import Draws
from ._fit import Fit, FitProgressOption, SamplerFailed, lengths_of, plan_of, run_rounds
from ._lib import CoreletError, gaussian_first
from ._seeds import seeded
from .adapters.gaussian import MOST_EFFECTS, names_of
from .adapters.integrated import fit_integrated, groups_of
from .adapters.outcomes import checked
from .adapters.pymc_density import Parameters, Scores, WeightedModel, flat_draws
from .adapters.pymc_effects import Effects
from .adapters.pymc_graph import AS_IT_IS, INSIDE, RowLogp, check_model, refusal, shape_of, unchecked, with_own_data
from .adapters.pymc_marginal import integrated
from .adapters.pymc_loglik import AllRows, LogLikelihoods, Prior
from .adapters.pymc_outcomes import outcomes_of
from .adapters.slicing import checked_rows
from .frames.units import Units, Which

PILOT_CHAINS, ROUND_CHAINS, ROUND_TUNE = 4, 2, 300
"""Many short chains at first, to see whether they agree; few later."""
STARTS, FIRST_STARTS = 64, 16
"""Points that chains may start from: draws, and places near PyMC's initial point, whose density is looked at."""

FEW = 500
"""Rows whose log-likelihoods NumPy computes sooner than numba compiles them."""


@seeded
def fit(
    model: Any,
    *,
    k: Optional[int] = None,
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
    rest: str = "auto",
    marginalise: str = "auto",
    force: bool = False,
) -> Fit:
    """Fit a PyMC or bambi model by a coreset of its rows: pilot, rounds, final chains and the verdict.

    The model is not changed: its priors, potentials and deterministic variables are kept, and each row of the observed variables
    gets a weight on its log-likelihood. A check always verifies that the log-likelihood of some rows by themselves equals theirs in
    the whole model.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) for each row, or a `bambi.Model`.
    k, max_k, pilot, groups, max_rounds, seed, progress, force
        As in `corelet.fit_model`; k is 300 rows, or 50 groups where a latent variable is integrated out. `pilot` may be an InferenceData of ADVI, Pathfinder or an old fit.
    draws, tune, chains
        Draws, warm-up and number of the final chains.
    sampler
        `nutpie`, which compiles the model once, or `pymc`; nutpie where it is installed.
    options
        Passed on to `nutpie.sample` or `pymc.sample`, for instance `{"target_accept": 0.95}`.
    rest
        `auto`: where the model has more parameters than k rows can carry, one Gaussian factor stands in place of all rows
        (`fit.coreset.rest`; the priors stay as they are), and rows only where the verdict on it is not an A. `gaussian`: that
        factor in any case. `none`: rows only.
    marginalise
        `auto`: a latent variable with one value for each of 500 groups or more, of 100 rows at most on average, is integrated out by
        adaptive Gauss–Hermite nodes where each row meets its own group's value alone and these are independent given the other parameters;
        whole groups are then chosen, Corelet's own NUTS samples the other parameters, and `fit.random_effects()` has the values. Not with
        `groups` or `sampler`. A variable's name: that one, however many groups there are. `none`: all are sampled.

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
    with _at_work():
        tool = Sampler(model, draws, tune, chains, seed, sampler, dict(options or {}))
        units = Units(tool.n, groups)
        rows = 1000 if given is not None else _count("pilot", pilot)
        settings = (max_k, rows, None, max_rounds, seed, None, force)
        plan = plan_of(units, 300 if k is None else k, *settings)
        plan.began = began
        tool.check_slicing(seed)
        if groups is not None and marginalise not in ("auto", "none"):
            raise CoreletError(f"groups and marginalise='{marginalise}' do not go together: the groups are those of the variable")
        marginal = None if groups is not None else integrated(tool, marginalise, sampler)
        if marginal is not None:
            few = plan_of(units, groups_of(k, marginal.dimension, marginal.n), *settings)
            few.began = began
            begin = None if given is None else marginal.model.only_left(Draws.of(given))
            fitted = fit_integrated(marginal, few, begin, progress, rest, marginalise)
            if fitted is not None:
                fitted.notes.extend(tool.notes)
                return fitted
            tool.notes.append(f"{marginal.model.name} was not integrated out: given its rows, it has several modes in some groups")
        if gaussian_first(rest, tool.dimension, plan.k):
            tool.find_effects()
        else:
            tool.compile()
        start = None if given is None else tool.only_free(Draws.of(given))
        found = run_rounds(tool, plan, units, start, progress, tool.inference_data, rest=rest)
    found.notes.extend(tool.notes)
    return found


def certify(model: Any, draws: Any, *, log_density: Any = None, seed: int = 0) -> Certificate:
    """Certify whether given draws of a PyMC or bambi model are draws of the posterior of all its rows.

    The gradient of the log posterior of all rows is evaluated at no more than 1000 of the draws; see `corelet.certify`.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) for each row, or a `bambi.Model`.
    draws
        Draws of the free variables, on their own scale: an InferenceData or DataTree (of `pm.fit(…).sample()`, Pathfinder, an old fit), or a
        mapping of names to chains × draws × ….
    log_density
        The log density of the approximation at each draw, on the unconstrained scale on which PyMC's ADVI and Pathfinder live.
    seed
        The random seed for the rows by which the model is checked.

    Examples
    --------
    ::

        with model:
            approximation = pm.fit(method="advi")
        corelet.pymc.certify(model, approximation.sample(1000))
    """
    given = Draws.of(draws)
    with _at_work():
        tool = Sampler(model, 4, 1, 1, seed, "pymc", {})
        tool._loglik.compile()
        tool.check_slicing(seed)
        some = tool.only_free(given)
        for name, shape in zip(tool.free.names, tool.free.shapes):
            found = some.values[name].shape[2:]
            if found != tuple(shape):
                raise CoreletError(f"the draws of {name} have shape {found}, the model has {tuple(shape)}")
        sizes = zip(tool.free.value_names, tool.free.value_shapes)
        names = [entry for name, shape in sizes for entry in entries(name, shape)]
        table = tool.free.unconstrained(flat_draws(some))
        return claimed(some, table, names, tool.n, tool.log_posterior, log_density)


def review(
    model: Any,
    draws: Any,
    *,
    log_weights: Any = None,
    groups: Any = None,
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = True,
    seed: int = 0,
) -> Review:
    """Say how well each row of a PyMC or bambi model is predicted when it is left out, whether the model fits, and which rows drive which
    variable.

    From one pass over all rows, without a matrix of draws by rows; see `corelet.review`.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) for each row, or a `bambi.Model`.
    draws
        Draws of the free variables, on their own scale: a `Fit`, an InferenceData or DataTree, or a mapping of names to chains × draws × ….
    log_weights, groups, most, pointwise
        As in `corelet.review_model`.
    outcomes
        Draws at which an outcome of every row is drawn by the model, to compare with; 0 for none. Of one observed variable whose outcomes
        are numbers, counts or two classes.
    seed
        The random seed for the rows by which the model is checked, and for simulated outcomes.
    """
    found = getattr(draws, "_draws", None)
    given = found if isinstance(found, Draws) else Draws.of(draws)
    with _at_work():
        tool = Sampler(model, 4, 1, 1, seed, "pymc", {})
        tool._loglik.compile()
        tool.check_slicing(seed)
        some = tool.only_free(given)
        weights = weights_of(draws, log_weights, some)
        simulator = outcomes_of(tool.model, tool.free, tool.n, seed) if outcomes else None
        drawn = checked(simulator, tool.log_likelihood, some, weights, outcomes, seed)
        return reviewed(tool, some, Units(tool.n, groups), weights, most, pointwise, outcomes=drawn)


@contextmanager
def _at_work() -> Iterator[None]:
    """Without warnings of pytensor about compilers that are not used, and with one thread for each product of matrices: several blocks of
    rows are worked on at a time already, and threads of both kinds would wait for each other."""
    with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="blas"):
        warnings.filterwarnings("ignore", category=UserWarning, module="pytensor")
        yield


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
        self.full_length: list[tuple[Draws, Any]] = []
        """Chains as long as the last ones, each with the sampler's statistics."""
        self.rows = RowLogp(self.model, self.n)
        self.free = Parameters(self.model)
        self._loglik = LogLikelihoods(self.free, self.rows)
        self._uncompiled: Optional[LogLikelihoods] = None
        self._alone = threading.Lock()
        """For what threads may not do at the same time: compiling, and functions of NumPy, which keep what they compute in one place."""
        self._by_rows: Optional[_Runner] = None
        self._prior: Optional[Callable[..., Any]] = None
        self._known: Optional[_Known] = None
        self._scores: Optional[Scores] = None
        self._all_rows: Optional[AllRows] = None
        self.effects: Optional[Effects] = None
        """What the rows see of the free variables, where that is other than these and was looked for."""
        per_row = [variable.name for variable in self.model.deterministics if self.n in shape_of(variable)]
        if per_row and self.bambi is None:
            self.notes.append(f"left out of idata, since it has a value for each of the {self.n} rows: {', '.join(per_row)}")

    def compile(self) -> None:
        """The log-likelihood, and the weighted model for its sampler; once."""
        self._compile_log_likelihood()
        if self._by_rows is None:
            self._by_rows = self._runner(WeightedModel(self.free, self.rows))

    def _compile_log_likelihood(self) -> None:
        with self._alone:
            if self._loglik.compiled:
                return
            self._loglik.compile()
            if self._loglik.compiler != "numba":
                self.notes.append("numba cannot compile the log-likelihood of this model, so NumPy computes it, which is slower")
            self._check_log_likelihood()

    def _runner(self, model: Any) -> _Runner:
        """What samples this model."""
        if self.sampler == "pymc" or (self.sampler is None and not find_spec("nutpie")):
            return _PyMC(model)
        try:
            return _Nutpie(model)
        except Exception as error:  # Numba raises errors of many kinds for an operation that it has not.
            what = f"nutpie cannot compile this model ({type(error).__name__}: {_first_line(error)})"
            if self.sampler == "nutpie":
                raise CoreletError(f"{what}; use sampler='pymc'") from error
            self.notes.append(f"{what}, so PyMC samples it, which is slower")
            return _PyMC(model)

    @property
    def last_steps(self) -> int:
        draws, tune, chains = self.last
        return chains * (draws + tune)

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
        return self._chains(self._by_rows, data, self._starts(rows, weights, start, seed), (draws, chains, final), seed)

    def _next_seed(self) -> int:
        self.calls += 1
        return int(np.random.SeedSequence([self.seed, self.calls]).generate_state(1)[0])

    def _chains(
        self, run: _Runner, data: dict[str, Any], starts: NDArray[np.float64], length: tuple[int, int, bool], seed: int
    ) -> Draws:
        draws, chains, final = length
        count, tune = -(-2 * draws // chains), ROUND_TUNE
        if final:
            count, tune, chains = self.last
        try:
            trace = run(data, starts, count, tune, chains, seed, self.options)
        except Exception as error:
            beside = f", with options={self.options}" if self.options else ""
            what = f"{run.name} cannot sample the weighted model{beside} ({type(error).__name__}: {_first_line(error)})"
            # Options that the sampler does not know would fail again on any other rows.
            raise (CoreletError if isinstance(error, (AttributeError, TypeError)) else SamplerFailed)(what) from error
        found = self.only_free(Draws.of(trace))
        stats = dataset_of(trace, "sample_stats")
        if final and stats is not None:
            self.full_length.append((found, stats))
        return found

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
            raise CoreletError(
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
                what = f"numba cannot compile the gradient of this log-likelihood ({type(error).__name__}: {_first_line(error)})"
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
        import xarray

        found = Draws(self.free.constrain(points), True)
        if stats:
            shown = {name: (("chain", "draw"), values) for name, values in stats.items()}
            self.full_length.append((found, xarray.Dataset(shown)))
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

    def only_free(self, draws: Draws) -> Draws:
        """Without deterministic variables, in the order of the model."""
        missing = [name for name in self.free.names if name not in draws.values]
        if missing:
            raise CoreletError(f"the draws have no variable {missing[0]}, which the model has")
        return Draws({name: draws.values[name] for name in self.free.names}, draws.chained, draws.diverged)

    def check_slicing(self, seed: int) -> None:
        """Some rows alone must have the log-likelihood that they have among all, by the model's own graph; of each observed variable."""
        values = self.free.variables()
        constrained = self.free.constrained(values)
        plain = with_own_data(self.model.logp(vars=self.model.observed_RVs, sum=False), dict(zip(self.free.values, values)))
        among_all = [graph.sum(axis=tuple(range(1, graph.ndim))) for graph in plain]
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in self.rows.leaves}
        alone = self.rows.of(leaves, dict(zip(self.model.free_RVs, constrained)))
        settings: dict[str, Any] = dict(mode=AS_IT_IS, on_unused_input="ignore")
        whole = pytensor.function(values, [*constrained, *unchecked(among_all)], **settings)
        points = [self.free.split(point) for point in self.free.starts(2, seed)]
        with np.errstate(all="ignore"):
            found = [whole(*point) for point in points]
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
        observed = " and ".join(rv.name for rv in self.model.observed_RVs)
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
        import xarray

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
        stats = self._stats_of(draws)
        if stats:
            joined = xarray.concat(stats, dim="draw")
            groups["sample_stats"] = {str(name): joined[name].values for name in joined.data_vars}
        groups["observed_data"] = {rv.name: _plain(self.model.rvs_to_values[rv]) for rv in self.model.observed_RVs}
        dims.update({rv.name: shown[rv.name] for rv in self.model.observed_RVs if rv.name in shown})
        idata = inference_data(groups, coords=coords, dims=dims, attributes=attributes)
        return idata if self.bambi is None else cleaned(idata, self.bambi)

    def _stats_of(self, draws: Draws) -> list[Any]:
        """The sampler's statistics of draws that are chains of full length or several of them on end; none of others."""
        first = self.free.names[0]
        whole = draws.values[first]
        stats: list[Any] = []
        left = draws.shape[1]
        for chains, its in reversed(self.full_length):
            values = chains.values[first]
            if np.array_equal(values, whole[:, max(left - values.shape[1], 0) : left]):
                stats.insert(0, its)
                left -= values.shape[1]
        return stats if left == 0 else []


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:160]


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


class _Runner(Protocol):
    """What samples a model whose shared variables are data."""

    @property
    def name(self) -> str:
        """Of the package that draws."""

    @property
    def model(self) -> Any:
        """A `WeightedModel` or a `GaussianModel`."""

    def __call__(
        self,
        data: dict[str, Any],
        starts: NDArray[np.float64],
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        options: dict[str, Any],
    ) -> Any:
        """Chains from some of these starts."""


class _Nutpie:
    """Compiled once; the data go in at each call."""

    name = "nutpie"

    def __init__(self, model: Any) -> None:
        import nutpie

        self.model = model
        names = model.parameters.names
        # With sums in any order, code from the cache on disk rounds otherwise than the same code just compiled, and chains part ways.
        with pytensor.config.change_flags(numba__fastmath=False):
            self.compiled = nutpie.compile_pymc_model(model.model, var_names=names, jitter_rvs=set())

    def __call__(
        self,
        data: dict[str, Any],
        starts: NDArray[np.float64],
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        options: dict[str, Any],
    ) -> Any:
        import nutpie

        self.model.starts.set_value(starts)
        compiled = self.compiled.with_data(**data)
        settings = dict(progress_bar=False, save_warmup=False, blocking=False)
        under_way = nutpie.sample(compiled, draws=draws, tune=tune, chains=chains, seed=seed, **settings, **options)
        try:
            return under_way.wait()
        except BaseException:  # Ctrl-C would otherwise return fewer draws, and the rounds would go on.
            under_way.cancel()
            raise


class _PyMC:
    """`pymc.sample`, which compiles at each call."""

    name = "PyMC"

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(
        self,
        data: dict[str, Any],
        starts: NDArray[np.float64],
        draws: int,
        tune: int,
        chains: int,
        seed: int,
        options: dict[str, Any],
    ) -> Any:
        self.model.set(data)
        chosen = starts[np.random.default_rng(seed).integers(len(starts), size=chains)]
        initial = [dict(zip(self.model.names, self.model.split(line))) for line in chosen]
        settings = dict(progressbar=False, compute_convergence_checks=False, random_seed=seed, initvals=initial)
        with self.model.model:
            trace = pm.sample(draws=draws, tune=tune, chains=chains, **{**settings, **options})
        if trace.posterior.sizes["draw"] < draws:  # PyMC makes of Ctrl-C a shorter trace.
            raise KeyboardInterrupt
        return trace
