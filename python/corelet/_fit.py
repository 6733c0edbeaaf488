"""`corelet.fit_model`: any model and any sampler, from a pilot to a certified posterior of a coreset."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .results import arviz as _arviz

from . import _lib
from ._build import _count
from .results import html
from .results.coreset import Coreset, Sketch, coreset_from
from .results.draws import BARE, Draws
from .results.estimates import SHOWN, Estimates, plotted
from .results.predict import Prediction
from .adapters.bridge import Bridge, Sampler
from .adapters.chains import SamplerFailed
from .adapters.functions import Densities, Functions
from ._progress import _watched
from ._seeds import seeded
from ._types import Execution
from ._warn import warn
from .frames.units import Units, Which
from .results.verdict import Verdict, verdict_from


class FitProgress(NamedTuple):
    """The progress of a fit."""

    stage: str
    """The current step."""
    round: int
    """The number of the round; 0 for the pilot, and for a fit that samples all rows at once."""
    k: int
    """The current largest number of points."""
    variance: Optional[float]
    """V of the last round's coreset, in nats²; an A needs less than 0.1."""
    shift: Optional[float]
    """The largest shift of a mean in the last round, in posterior standard deviations."""
    seconds: float
    """Seconds since the start."""
    remaining: Optional[float]
    """Estimated remaining seconds: from the forecast at first, then from the time of the rounds so far; None if unknown."""
    forecast: Optional[str] = None
    """In the stage `compiling`: parameters, rows and k. In the stage `forecast`: also the expected time of a round and of a fit of all
    rows."""


FitProgressOption = Union[bool, Callable[[FitProgress], object], None]


@dataclass(frozen=True)
class Round:
    """One round: a coreset, sampled and judged by its own draws."""

    k: int
    """The largest number of points allowed."""
    points: int
    """The number of points chosen."""
    draws: int
    """The number of draws that judged it."""
    variance: float
    """V = Var(L − L_w) over draws of the coreset's own posterior, in nats²."""
    variance_upper: float
    """The upper end of the one-sided 95 % interval of V."""
    shift: float
    """The largest shift of a mean since the previous round's draws, in posterior standard deviations."""
    scale: float
    """The largest change of a standard deviation since then, as a factor."""
    r_hat: float
    """The largest R̂."""
    seconds: dict[str, float]
    """Seconds of `build`, `sample`, `look` (the pass over all rows), `judge`, and of the `final chains` and their `verdict`."""
    full_length: bool
    """Whether the chains were as long as the final chains."""
    next: str
    """The step that followed, and why."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of a fit: the verdict, the draws, the coreset and the rounds."""

    verdict: Verdict
    """A: trusted. B: trusted after reweighting; `draws` and `idata` are already reweighted. C: not certified."""
    coreset: Coreset
    """Rows and weights."""
    rounds: list[Round]
    """Each round, and the reason for the next."""
    draws: Any
    """Draws of the posterior, chains by draws, in the form in which the sampler returned them."""
    seconds: float
    """Total seconds."""
    notes: list[str] = field(default_factory=list)
    """Remarks that you should read."""
    _draws: Optional[Draws] = field(default=None, repr=False)
    _convert: Optional[Callable[[Draws, Mapping[str, str]], Any]] = field(default=None, repr=False)
    _effects: Any = field(default=None, repr=False)
    """The values of a latent variable that was integrated out."""
    _tool: Any = field(default=None, repr=False)
    """What answers for the rows."""
    _tool_rows: Optional[NDArray[np.int64]] = field(default=None, repr=False)
    """Its numbers of the coreset's rows, where they are others."""
    _blocks: Optional[str] = field(default=None, repr=False)
    """What certifies the rows, of an update."""
    _marks: Optional[tuple[Draws, NDArray[np.float64]]] = field(default=None, repr=False)
    """Draws, and numbers of some rows of each block there, by which they are known again; of an update."""

    def __getstate__(self) -> dict[str, Any]:
        # Functions of a user stay in the process that has them.
        return {**self.__dict__, "_tool": None}

    @property
    def idata(self) -> Any:
        """The draws for ArviZ: a `DataTree`, or an `InferenceData` before ArviZ 1."""
        assert self._draws is not None
        attributes = {"verdict": self.verdict.grade, "resampled": str(self.verdict.resampled)}
        return (self._convert or inference_data_of)(self._draws, attributes)

    @property
    def _estimates(self) -> Estimates:
        assert self._draws is not None
        return Estimates.of(self._draws, self.coreset.names)

    def summary(self) -> Any:
        """The estimates as a pandas data frame with one row per parameter: `mean`, `sd`, `q5` and `q95` (the 90 % interval), `r_hat`,
        `ess_bulk`, `ess_tail`. Coefficients are on the scale of the data."""
        return self._estimates.to_frame()

    def predict(self, new: Any, **keywords: Any) -> Prediction:
        """Predict new rows with these draws. The keywords are those of `Coreset.predict`. This is for built-in models; predict others in the
        tool in which they are written, from `idata`."""
        keywords.setdefault("idata", self.draws)
        return self.coreset.predict(new, **keywords)

    def update(self, new: Any, y: Any = None, **keywords: Any) -> Fit:
        """The fit of these rows and of new rows. The keywords are those of `Coreset.update`. This is for built-in models."""
        began = time.perf_counter()
        coreset = self.coreset.update(new, y, **keywords)
        verdict = coreset.quality.verdict
        assert verdict is not None
        return Fit(
            verdict=verdict,
            coreset=coreset,
            rounds=[],
            draws=verdict.draws["posterior"],
            seconds=time.perf_counter() - began,
            notes=list(coreset.warnings),
            _draws=Draws.of(verdict.draws["posterior"]),
            _convert=lambda *_: verdict.idata,
        )

    def random_effects(self, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> dict[str, Any]:
        """The values of a latent variable that was integrated out, averaged over the posterior of the other parameters: columns `group`,
        `effect`, `rows`, `mean`, `sd` and `q5`, …, with an entry for every group. Pass the result to `pandas.DataFrame`."""
        if self._effects is None:
            raise _lib.CoreletError("no variable was integrated out; what was sampled is in draws and idata")
        table: dict[str, Any] = self._effects.table([float(q) for q in quantiles])
        return table

    def plot(self, names: Optional[Sequence[str]] = None, axes: Any = None) -> Any:
        """Plot marginal posteriors with means and 90 % intervals of these parameters, or of the first twelve, with matplotlib. Returns the
        axes."""
        estimates = self._estimates
        if names is None:
            return plotted(estimates.first(SHOWN), axes)
        unknown = [name for name in names if name not in estimates.names]
        if unknown:
            raise _lib.CoreletError(f"there is no parameter '{unknown[0]}'; there are {', '.join(map(repr, estimates.names))}")
        at = [estimates.names.index(name) for name in names]
        return plotted(Estimates(list(names), estimates.values[..., at], estimates.chained), axes)

    def __repr__(self) -> str:
        shown = [f"  {line}" for line in ["estimates", *(f"  {line}" for line in self._estimates.lines())]]
        return "\n".join([repr(self.verdict), *shown, *self._told()])

    def _told(self) -> list[str]:
        """Notes, rounds and seconds."""
        table = [f"  {'round':>5} {'points':>7} {'V':>9} {'shift':>7} {'R-hat':>6} {'seconds':>8}  then"]
        for at, this in enumerate(self.rounds, 1):
            seconds = sum(this.seconds.values())
            shift, r_hat = _figure(this.shift, ".2g"), _figure(this.r_hat, ".3f")
            table.append(
                f"  {at:>5} {this.points:>7} {this.variance:>9.2g} {shift:>7} {r_hat:>6} {seconds:>8.1f}  {this.next}"
            )
        notes = [f"  note           {note}" for note in self.notes]
        shown = table if self.rounds else []
        return [*notes, *shown, f"  {self.seconds:.1f} seconds in all"]

    def _repr_html_(self) -> str:
        head = html.badge(self.verdict.grade, self.verdict.headline)
        return head + self._estimates.to_html() + html.folded("How it came about", [*self.verdict.lines, *self._told()])


def _figure(x: float, form: str) -> str:
    """A number, or a dash if there is none."""
    return "-" if np.isnan(x) else format(x, form)


@seeded
def fit_model(
    sample: Callable[[NDArray[np.int64], NDArray[np.float64], Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    *,
    n: int,
    k: int = 300,
    max_k: Optional[int] = None,
    pilot: Any = 1000,
    groups: Any = None,
    draws: Optional[int] = None,
    max_rounds: int = 10,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: FitProgressOption = None,
    gradient: Optional[Callable[[Any, NDArray[np.int64], NDArray[np.float64]], Any]] = None,
    log_prior: Optional[Callable[[Any], Any]] = None,
    rest: str = "auto",
    force: bool = False,
) -> Fit:
    """Fit any model with a coreset: a pilot run, rounds until a coreset is certified, the final chains, and the verdict on them.

    The pilot is the posterior of a small random sample of rows. A coreset is built from its draws, sampled, and evaluated on all
    rows. If its posterior lies elsewhere, the next coreset is built from its own draws. If not, and the verdict is not good enough,
    the next coreset has more rows. Each evaluation is one pass in blocks. It gives the log-likelihood of all rows at each draw, and those
    of a pool of candidate rows. No matrix of draws × n is held in memory.

    Parameters
    ----------
    sample
        `sample(rows, weights, start)` returns draws of the posterior in which the log-likelihood of each of these rows is
        multiplied by its weight and the prior is unchanged: an array of chains × draws × parameters, a mapping of names to
        arrays of chains × draws × …, or an InferenceData or DataTree. `start` is None for the pilot. Later it contains the draws of
        the last round, with chains merged, as starting points; you may ignore it. Return at least two chains, since one chain never
        gets an A, and about 2 k draws in total.
    log_likelihood
        `log_likelihood(theta, rows)` returns a matrix, draws by rows. `theta` are draws in the form that `sample` returned,
        with chains merged: an array of draws × parameters, or a mapping of names to draws × …. `rows` index the data; they are
        a slice or an array.
    n
        Number of rows.
    k, max_k
        Number of rows of the coreset, and the number to which it may grow if k is not enough (by default 4 k).
    pilot
        The number of rows of the pilot, or existing draws (of ADVI, Pathfinder, an earlier fit), in the form in which `sample` returns
        them.
    groups
        One label per row: k whole groups (all visits of a patient) are chosen instead of rows.
    draws
        Number of draws at which each pass evaluates all rows; the default follows from k and the number of parameters.
    force
        A fit that would take more than half a minute, and more than twice as long as a fit of all rows with the same sampler, is
        refused with the forecast; `force=True` runs it anyway. A shorter fit that does not pay off is run with a warning.
    max_rounds, seed, threads
        The largest number of rounds; the random seed of everything but the sampler, also accepted as `random_state` or
        `random_seed`; the number of threads.
    progress
        A callable that receives a `corelet.FitProgress` from time to time; True for lines on standard error, False for none; by
        default lines in a terminal or notebook. Ctrl-C returns the best fit so far with its verdict.
    gradient
        `gradient(theta, rows, weights)` returns the gradient of the log density that `sample` draws from (weighted
        log-likelihood and prior) at each draw, in the shape of `theta`. The density must vanish at the boundary of the parameter space
        (take the logarithm of positive parameters). The gradient allows a test of the draws (Stein's identities, in every direction).
        Without it only the likelihood is known: if the prior matters, the sampler is trusted without a test and the grade is at most a B.
    log_prior
        `log_prior(theta)` returns the log density of the prior at each draw, on the scale of `theta`, including the Jacobians of any
        transforms. With it and `gradient`, which at weight 0 is the gradient of the prior, a Gaussian factor may replace all rows.
        Both functions are first checked against finite differences.
    rest
        `auto`: if you pass `gradient` and `log_prior`, and the model has more parameters than k rows can carry, one Gaussian factor
        replaces all rows (`fit.coreset.rest`). Rows are added only if its verdict is not an A. Corelet's own NUTS samples it, and
        `sample` is used only for the pilot. `gaussian`: always this factor. `none`: rows alone.

    Returns
    -------
    Fit
        `verdict`, `idata`, `coreset`, `rounds`.

    Examples
    --------
    The mean of Gaussian data, whose weighted posterior is known, with 2 chains of independent draws:

    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(3.0, 1.0, size=20_000)
    >>> def sample(rows, weights, start):
    ...     precision = 1.0 + weights.sum()
    ...     return rng.normal(weights @ x[rows] / precision, precision**-0.5, size=(2, 500, 1))
    >>> def log_likelihood(theta, rows):
    ...     return -0.5 * (x[rows] - theta) ** 2
    >>> fit = corelet.fit_model(sample, log_likelihood, n=len(x), k=10)
    >>> fit.verdict.grade, len(fit.coreset) <= 10, bool(abs(fit.draws.mean() - x.mean()) < 0.01)
    ('A', True, True)
    """
    given = None if isinstance(pilot, (int, np.integer)) else Draws.of(pilot)
    rows = 1000 if given is not None else _count("pilot", pilot)
    units = Units(_count("n", n), groups)
    plan = plan_of(units, k, max_k, rows, draws, max_rounds, seed, threads, force)
    functions = Functions(sample, log_likelihood, gradient)
    if rest == "none" or (rest == "auto" and log_prior is None):
        return run_rounds(functions, plan, units, given, progress)
    if gradient is None or log_prior is None:
        raise _lib.CoreletError("a Gaussian in place of the rows takes gradient and log_prior; rest='none' does without them")
    densities = Densities(functions, log_prior, units.n, min(plan.pilot, units.n), given, plan.seed)
    return run_rounds(densities, plan, units, given, progress, rest=rest)


@dataclass
class Plan:
    """The settings of a fit."""

    k: int
    max_k: int
    pilot: int = 1000
    max_rounds: int = 10
    draws: Optional[int] = None
    seed: int = 0
    threads: Optional[int] = None
    force: bool = False
    """Whether to continue even if the fit takes long and does not pay off."""
    began: float = field(default_factory=time.perf_counter)
    """When the fit started, by the clock; earlier than this object if a model is compiled first."""

    def draws_at(self, k: int, parameters: int) -> int:
        """The number of draws at which a pass evaluates all rows."""
        return _lib.draws_of_pass(self.draws, k, parameters)


def plan_of(
    units: Units,
    k: int,
    max_k: Optional[int],
    pilot: int,
    draws: Optional[int],
    max_rounds: int,
    seed: int,
    threads: Optional[int],
    force: bool = False,
) -> Plan:
    """The settings of a fit; the engine refuses impossible values."""
    k = _count("k", k)
    return Plan(
        k=k,
        max_k=4 * k if max_k is None else _count("max_k", max_k),
        pilot=pilot,
        max_rounds=_count("max_rounds", max_rounds),
        draws=_count("draws", draws),
        seed=_count("seed", seed),
        threads=_count("threads", threads),
        force=force,
    )


def run_rounds(
    sampler: Sampler,
    plan: Plan,
    units: Units,
    pilot: Optional[Draws],
    progress: FitProgressOption,
    convert: Optional[Callable[[Draws, Mapping[str, str]], Any]] = None,
    notes: Sequence[str] = (),
    rest: str = "none",
) -> Fit:
    """Runs a plan in the engine, and turns its result into a `Fit`."""
    bridge = Bridge(sampler, units, int(getattr(sampler, "parameters", 0)))
    given = None if pilot is None else bridge.given(pilot)
    numbers = (plan.k, plan.max_k, plan.pilot, plan.max_rounds, plan.draws, plan.seed, plan.force)
    report = reporting(progress, plan.began, lambda: float(getattr(sampler, "seconds_to_compile", 0.0)))
    try:
        found = _lib.fit_target(bridge, units.codes, numbers, rest, given, Execution(report, plan.threads))
    except SamplerFailed as error:
        raise _lib.CoreletError(str(error)) from error.__cause__
    verdict = verdict_from(found["verdict"])
    if found["resampled"]:
        verdict = verdict.resampled_by_weights()
    posterior = bridge.draws(found["theta"], found["chained"])
    coreset = _coreset(found, units, verdict)
    return Fit(
        verdict=verdict,
        coreset=coreset,
        rounds=[Round(**fields) for fields in found["rounds"]],
        draws=posterior.values[BARE] if BARE in posterior.values else posterior.values,
        seconds=time.perf_counter() - plan.began,
        notes=[*notes, *found["notes"]],
        _draws=posterior,
        _convert=convert,
        _tool=sampler,
    )


def _coreset(found: Mapping[str, Any], units: Units, verdict: Verdict) -> Coreset:
    coreset = coreset_from(found["coreset"])
    coreset.quality = replace(coreset.quality, verdict=verdict, judged_on="own")
    if units.labels is not None:
        coreset.groups = units.labels[found["units"]]
        coreset.group_ids, coreset.group_weights = found["units"], found["unit_weights"]
    if found["fingerprint"] is not None:
        coreset.sketch = Sketch(*found["fingerprint"])
    return coreset


def inference_data_of(draws: Draws, attributes: Mapping[str, str]) -> Any:
    """Draws for ArviZ; an array without names is `theta`."""
    posterior = {name or "theta": values for name, values in draws.values.items()}
    return _arviz.inference_data({"posterior": posterior}, attributes=attributes)


def announce(progress: FitProgressOption, plan: Plan, units: Units, parameters: int) -> None:
    """Reports the settings before a model is compiled, which may take long."""
    report = _reporter(progress)
    if report is not None:
        most = f", at most {plan.max_k}" if plan.max_k > plan.k else ""
        words = f"{parameters} parameters, {units.count} {units.what}: k = {plan.k} points{most}; compiling the model"
        report(FitProgress("compiling", 0, plan.k, None, None, time.perf_counter() - plan.began, None, words))


def reporting(progress: FitProgressOption, began: float, besides: Callable[[], float] = lambda: 0.0) -> Callable[..., object]:
    """The function that the engine calls: the user's callback, a line on standard error, or nothing. It also warns of a fit that does not
    pay off. `besides` are seconds that the engine does not know about."""
    report = _reporter(progress)

    def told(*step: Any) -> object:
        if not isinstance(step[0], str):  # Steps of the solver and of chains, within a stage.
            return None
        stage, at, k, variance, shift, remaining, forecast = step
        words, advice = forecast or (None, None)
        if advice is not None:
            warn(advice)
        if report is None:
            return None
        if remaining is not None:
            remaining += besides()
        return report(FitProgress(stage, at, k, variance, shift, time.perf_counter() - began, remaining, words))

    return told


def _reporter(progress: FitProgressOption) -> Optional[Callable[[FitProgress], object]]:
    if callable(progress):
        return progress
    if progress is False or (progress is None and not _watched()):
        return None
    return _line


def _line(step: FitProgress) -> None:
    """One line on the standard error stream."""
    if step.forecast is not None:
        print(f"corelet {step.seconds:6.1f} s  {step.forecast}", file=sys.stderr)
        return
    known = "" if step.variance is None else f", last V {step.variance:.2g} nats², moved {step.shift:.2g} sd"
    left = "" if step.remaining is None else f", about {step.remaining:.0f} s more"
    where = step.stage if step.round == 0 else f"round {step.round}, {step.k} points: {step.stage}"
    print(f"corelet {step.seconds:6.1f} s  {where}{known}{left}", file=sys.stderr)
