"""`corelet.fit_model`: any model and any sampler, from a pilot to a certified posterior of a coreset."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _arviz, _lib
from ._build import _count
from ._coreset import Coreset
from ._draws import BARE, Draws
from ._gather import Units, Which
from ._progress import _watched
from ._rounds import FitProgress, Plan, Round, Rounds, Sampler
from ._verdict import Verdict

FitProgressOption = Union[bool, Callable[[FitProgress], object], None]


@dataclass(frozen=True, eq=False)
class Fit:
    """The posterior of a coreset, with the verdict on it and how it came about."""

    verdict: Verdict
    """A: trusted. B: trusted after reweighting, which `draws` and `idata` already are. C: not certified."""
    coreset: Coreset
    """Rows and weights."""
    rounds: list[Round]
    """What each round did, and why the next."""
    draws: Any
    """Draws of the posterior: what the sampler returned in the same form, chains by draws."""
    seconds: float
    """Seconds of everything."""
    notes: list[str] = field(default_factory=list)
    """What should not be overlooked."""
    _draws: Optional[Draws] = field(default=None, repr=False)
    _convert: Optional[Callable[[Draws, Mapping[str, str]], Any]] = field(default=None, repr=False)

    @property
    def idata(self) -> Any:
        """The draws for ArviZ: a `DataTree`, or an `InferenceData` before ArviZ 1."""
        assert self._draws is not None
        attributes = {"verdict": self.verdict.grade, "resampled": str(self.verdict.resampled)}
        return (self._convert or inference_data_of)(self._draws, attributes)

    def __repr__(self) -> str:
        table = [f"  {'round':>5} {'points':>7} {'V':>9} {'shift':>7} {'R-hat':>6} {'seconds':>8}  then"]
        for at, this in enumerate(self.rounds, 1):
            seconds = sum(this.seconds.values())
            shift, r_hat = _figure(this.shift, ".2g"), _figure(this.r_hat, ".3f")
            table.append(
                f"  {at:>5} {this.points:>7} {this.variance:>9.2g} {shift:>7} {r_hat:>6} {seconds:>8.1f}  {this.next}"
            )
        notes = [f"  note           {note}" for note in self.notes]
        shown = table if self.rounds else []
        return "\n".join([repr(self.verdict), *notes, *shown, f"  {self.seconds:.1f} seconds in all"])

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def _figure(x: float, form: str) -> str:
    """A number, or a dash where there is none."""
    return "-" if np.isnan(x) else format(x, form)


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
) -> Fit:
    """Fit any model by a coreset: a pilot, rounds until one is certified, the last chains, and the verdict on them.

    The posterior of a few plain rows is the pilot. A coreset is built where its draws are, sampled, and looked at on all
    rows; where it has moved away, the next one is built at its own draws; where it has not and is still off, it gets more
    points. Nothing of size draws × n is held: each look is one pass in blocks, for the log-likelihood of all rows at each
    draw and a pool of candidates.

    Parameters
    ----------
    sample
        `sample(rows, weights, start)` returns draws of the posterior in which the log-likelihood of each of these rows is
        multiplied by its weight and the prior is as it is: an array of chains × draws × parameters, a mapping of names to
        arrays of chains × draws × …, or an InferenceData or DataTree. `start` is None for the pilot, later the draws of the last
        round without their chains, to start from; it may be ignored. At least two chains, or there can be no A; about
        2 k draws in all.
    log_likelihood
        `log_likelihood(theta, rows)` returns a matrix, draws by rows. `theta` are draws as `sample` returned them,
        without their chains: an array of draws × parameters, or a mapping of names to draws × …. `rows` index the data,
        a slice or an array.
    n
        Number of rows.
    k, max_k
        Points of the coreset, and how many it may grow to where k are not enough; 4 k.
    pilot
        Rows of the pilot, or draws that somebody has already (of ADVI, Pathfinder, an old fit), in the form in which
        `sample` returns them.
    groups
        One label for each row: whole groups (all visits of a patient) are chosen instead of rows, k of them.
    draws
        Draws that each look at all rows uses; by default as many as k and the number of parameters ask for.
    max_rounds, seed, threads
        The most rounds; of everything random here (the sampler has its own); number of threads of the builds.
    progress
        A callable that gets a `corelet.FitProgress` now and then; True for lines on the standard error stream, False for
        none; by default lines where a person is watching. Ctrl-C returns the best so far with its verdict.

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
    plan = plan_of(units, k, max_k, rows, draws, max_rounds, seed, threads)
    return run_rounds(_Functions(sample, log_likelihood), plan, units, given, progress)


def plan_of(
    units: Units,
    k: int,
    max_k: Optional[int],
    pilot: int,
    draws: Optional[int],
    max_rounds: int,
    seed: int,
    threads: Optional[int],
) -> Plan:
    """The numbers of a fit, checked."""
    k = _count("k", k)
    most = 4 * k if max_k is None else _count("max_k", max_k)
    if not 1 <= k < units.count:
        what = "rows" if units.labels is None else "groups"
        raise _lib.CoreletError(f"k = {k} points cannot stand for {units.count} {what}")
    if most < k:
        raise _lib.CoreletError(f"max_k = {most} is less than k = {k}")
    if pilot < 2 or max_rounds < 1:
        raise _lib.CoreletError("pilot must be at least 2 rows, and max_rounds at least 1")
    if draws is not None and draws < 100:
        raise _lib.CoreletError(f"draws = {draws} are too few for a verdict: at least 100 are needed")
    return Plan(
        k=k,
        max_k=min(most, units.count),
        pilot=min(pilot, units.n),
        max_rounds=_count("max_rounds", max_rounds),
        draws=_count("draws", draws),
        seed=_count("seed", seed),
        threads=_count("threads", threads),
    )


def run_rounds(
    sampler: Sampler,
    plan: Plan,
    units: Units,
    pilot: Optional[Draws],
    progress: FitProgressOption,
    convert: Optional[Callable[[Draws, Mapping[str, str]], Any]] = None,
) -> Fit:
    """Runs a plan, and words its result."""
    rounds = Rounds(sampler, units, plan, _reporter(progress))
    best = rounds.run(pilot)
    verdict, coreset, posterior = best.verdict, best.coreset, best.posterior
    assert verdict is not None and coreset is not None and posterior is not None
    if verdict.grade == "B" and {"variance", "share"} & set(verdict.reasons):
        posterior = _resampled(posterior.thin(verdict.n_draws), verdict.log_weights, plan.seed)
        verdict = verdict.resampled_by_weights()
    shown = posterior.values[BARE] if BARE in posterior.values else posterior.values
    return Fit(
        verdict=verdict,
        coreset=coreset,
        rounds=rounds.rounds,
        draws=shown,
        seconds=time.perf_counter() - plan.began,
        notes=rounds.notes,
        _draws=posterior,
        _convert=convert,
    )


class _Functions:
    """A user's two functions as a sampler."""

    def __init__(self, sample: Callable[..., Any], log_likelihood: Callable[[Any, Any], Any]) -> None:
        if not (callable(sample) and callable(log_likelihood)):
            raise TypeError("sample and log_likelihood must be functions")
        self._sample = sample
        self._log_likelihood = log_likelihood

    @property
    def last_steps(self) -> int:
        return 0

    @property
    def at_once(self) -> int:
        return 1

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        return Draws.of(self._sample(rows, weights, None if start is None else start.flat()))

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        return self._log_likelihood(theta, rows)


def _resampled(draws: Draws, log_weights: NDArray[np.float64], seed: int) -> Draws:
    """As many draws, each as often as its weight says, by systematic resampling."""
    count = len(log_weights)
    levels = (np.arange(count) + np.random.default_rng([seed, 3]).random()) / count
    chosen = np.searchsorted(np.cumsum(np.exp(log_weights)), levels).clip(max=count - 1)
    return draws.take(np.random.default_rng([seed, 4]).permutation(chosen))


def inference_data_of(draws: Draws, attributes: Mapping[str, str]) -> Any:
    """Draws for ArviZ; an array without names is `theta`."""
    posterior = {name or "theta": values for name, values in draws.values.items()}
    return _arviz.inference_data({"posterior": posterior}, attributes=attributes)


def _reporter(progress: FitProgressOption) -> Optional[Callable[[FitProgress], object]]:
    if callable(progress):
        return progress
    if progress is False or (progress is None and not _watched()):
        return None
    return _line


def _line(step: FitProgress) -> None:
    """One line on the standard error stream."""
    known = "" if step.variance is None else f", last V {step.variance:.2g} nats², moved {step.shift:.2g} sd"
    left = "" if step.remaining is None else f", about {step.remaining:.0f} s more"
    where = "pilot" if step.round == 0 else f"round {step.round}, {step.k} points: {step.stage}"
    print(f"corelet {step.seconds:6.1f} s  {where}{known}{left}", file=sys.stderr)
