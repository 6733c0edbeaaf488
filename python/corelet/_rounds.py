"""Rounds: from a pilot to a coreset whose own posterior certifies it, for any sampler and any log-likelihood.

A coreset built at draws of some posterior agrees with all rows there, to first and second order and beyond. Sampled, it
leads nearer to the posterior of all rows, where the next one is built: a round is a Newton step on whole posteriors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._coreset import Coreset, Sketch, coreset_from
from ._draws import Draws
from ._gather import Gathered, LogLikelihood, Units, Which, expanded, gather
from ._judge import Mixing, judge
from ._types import Execution
from ._verdict import Verdict, verdict_from

TRUSTED_VARIANCE, TRUSTED_SHARE = 0.1, 0.9
"""Grade A: the upper bound of V stays below, the weights keep more."""
MOVED_SHIFT, MOVED_SCALE = 0.5, 1.5
"""Posteriors that differ by more, in a mean by its standard deviation or in a standard deviation, are in different places."""
APART = 1.2
"""Chains of a pilot with a larger R̂ are in different places."""
LARGER_PILOT = 5
"""How many times as many rows the next pilot has, where one was too small."""
LONGER = 3
"""How often the last chains are run on, as long again, where nothing is wrong but that they mix slowly."""
AT_ONCE_VARIANCE = 0.5 * TRUSTED_VARIANCE
"""With the upper bound of V below this, far from what an A allows, chains of full length that certified a round are the last ones."""
STEP_COSTS = 50
"""What a step of a chain takes, in log-likelihoods of each of its rows: some ten gradients."""
VERDICT_DRAWS = 2000
"""Draws that the last verdict looks at, at most, where fewer did not give an A."""


class Sampler(Protocol):
    """What rounds ask of a model: draws of its posterior given weighted rows, and log-likelihoods."""

    @property
    def last_steps(self) -> int:
        """Steps of the last chains, warm-up and all; 0 where these are no longer than others."""

    @property
    def at_once(self) -> int:
        """How many threads may ask for log-likelihoods at a time."""

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        """Chains, from draws `start` where there are any; at least about `draws` in all, unless `final`."""

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        """Draws by rows."""


class FitProgress(NamedTuple):
    """Where a fit stands."""

    stage: str
    """What it does now."""
    round: int
    """Which round; 0 is the pilot."""
    k: int
    """Most points at present."""
    variance: Optional[float]
    """V of the last round's coreset, in nats²; an A needs less than 0.1."""
    shift: Optional[float]
    """By how much the last round moved the means, at most, in posterior standard deviations."""
    seconds: float
    """Seconds since the start."""
    remaining: Optional[float]
    """Seconds that it will still take, by what the rounds so far took."""


@dataclass(frozen=True, eq=False)
class Round:
    """One coreset, sampled and judged by its own draws."""

    k: int
    """Most points that were allowed."""
    points: int
    """Points chosen."""
    draws: int
    """Draws that it was judged by."""
    variance: float
    """V = Var(L − L_w) over draws of its own posterior, in nats²."""
    variance_upper: float
    """The upper end of V's one-sided 95 % interval."""
    shift: float
    """By how much the means moved from the draws that it was built on, at most, in posterior standard deviations."""
    scale: float
    """By what factor a standard deviation changed, at most."""
    r_hat: float
    """The largest R̂."""
    seconds: dict[str, float]
    """Seconds of `build`, `sample` and `look`, the pass over all rows."""
    next: str = ""
    """What was done then, and why."""
    full_length: bool = False
    """Whether its chains were as long as the last ones."""
    verdict: Optional[Verdict] = field(default=None, repr=False)
    coreset: Optional[Coreset] = field(default=None, repr=False)
    posterior: Optional[Draws] = field(default=None, repr=False)

    @property
    def is_last(self) -> bool:
        """Whether nothing would be learnt from other chains and another pass. Were V near the limit, that this round was the
        first to pass could be chance."""
        return self.full_length and self.certified and self.variance_upper < AT_ONCE_VARIANCE

    @property
    def certified(self) -> bool:
        """Whether V alone would give it an A."""
        assert self.verdict is not None
        return self.variance_upper < TRUSTED_VARIANCE and self.verdict.ess_share > TRUSTED_SHARE

    @property
    def moved(self) -> bool:
        """Whether its posterior is elsewhere than the draws it was built on."""
        return self.shift > MOVED_SHIFT or self.scale > MOVED_SCALE


@dataclass
class Plan:
    """What a fit is asked for."""

    k: int
    max_k: int
    pilot: int = 1000
    max_rounds: int = 10
    draws: Optional[int] = None
    pool: Optional[int] = None
    seed: int = 0
    threads: Optional[int] = None
    began: float = field(default_factory=time.perf_counter)
    """When, by the clock; before it, where a model is compiled first."""

    def draws_at(self, k: int, parameters: int) -> int:
        """Draws that a round with k points and so many parameters needs."""
        return self.draws or max(400, 5 * k // 3, 12 * parameters)

    def pool_at(self, k: int) -> int:
        """Candidates from which k points are chosen."""
        return self.pool or max(3000, 20 * k)


def next_step(rounds: list[Round], k: int, max_k: int, restarts_left: int) -> tuple[str, str]:
    """What to do after the last of these rounds with k points, and why: `final`, `again`, `more`, `restart` or `stop`."""
    last = rounds[-1]
    before = rounds[-2].variance if len(rounds) > 1 else np.inf
    if last.certified:
        return "final", "certified" if last.is_last else "certified: the last chains"
    if restarts_left and (not np.isfinite(last.variance) or last.variance > max(100.0, 0.5 * before)):
        return "restart", "it strayed: the pilot had too few rows, so a larger one"
    if last.moved and last.variance < 0.5 * before:
        return "again", "its posterior moved away from the draws it was built on: another round there"
    if k < max_k:
        return "more", f"its posterior stayed, and V is still large: {min(2 * k, max_k)} points"
    if last.variance < 0.5 * before:
        return "again", "V still falls: another round"
    return "stop", f"V no longer falls with {max_k} points, the most allowed (max_k)"


class Rounds:
    """A fit under way."""

    def __init__(
        self, sampler: Sampler, units: Units, plan: Plan, report: Optional[Callable[[FitProgress], object]]
    ) -> None:
        self.sampler = sampler
        self.units = units
        self.plan = plan
        self.report = report
        self.log_likelihood = LogLikelihood(sampler.log_likelihood, units, sampler.at_once)
        self.rounds: list[Round] = []
        self.k = plan.k
        self.pilot_rows = plan.pilot
        self.pilot_apart = False
        self.restarts_left = 2
        self.notes: list[str] = []

    # The way through.

    def run(self, pilot: Optional[Draws]) -> Round:
        """Rounds until one is certified, or nothing helps; Ctrl-C ends with the best so far. The best round."""
        try:
            if pilot is not None:
                self.restarts_left = 0
            draws = pilot if pilot is not None else self._pilot()
            return self._from(draws)
        except KeyboardInterrupt:
            if not self.rounds:
                raise
            self.notes.append("interrupted: the best so far")
            return self._best()

    def _from(self, draws: Draws) -> Round:
        seen = self._look(draws, None)
        while True:
            try:
                coreset, built = self._timed("building", lambda: self._build(seen))
                new, sampled = self._timed("sampling", lambda: self._sample(coreset, draws, self._at_once()))
            except (ArithmeticError, RuntimeError, ValueError) as error:
                # The sampler managed the pilot, so that it is the weights which it cannot manage.
                if not self.restarts_left or isinstance(error, _lib.CoreletError):
                    raise
                draws, seen = self._restart()
                continue
            seen, looked = self._timed("looking at all rows", lambda: self._look(new, coreset))
            this = self._judged(coreset, new, draws, seen, {"build": built, "sample": sampled, "look": looked})
            step, words = next_step([*self.rounds, this], self.k, self.plan.max_k, self.restarts_left)
            if len(self.rounds) + 1 >= self.plan.max_rounds and step not in ("final", "stop"):
                step, words = "stop", f"no more than {self.plan.max_rounds} rounds (max_rounds)"
            self.rounds.append(replace(this, next=words))
            if step == "stop":
                return self._finish(self._best())
            if step == "final":
                last = self._finish(self.rounds[-1])
                assert last.verdict is not None
                if "variance" not in last.verdict.reasons or len(self.rounds) >= self.plan.max_rounds:
                    return last
                self.rounds[-1] = replace(last, next="the last chains took the certificate back: another round")
                new = last.posterior or new
                seen = self._look(new, coreset)
            if step == "restart":
                draws, seen = self._restart()
                continue
            if step == "more":
                self.k = min(2 * self.k, self.plan.max_k)
                seen = self._look(new, coreset)
            draws = new

    def _restart(self) -> tuple[Draws, Gathered]:
        self.restarts_left -= 1
        self.pilot_rows *= LARGER_PILOT
        if self.pilot_rows >= self.units.n // 2:
            self.restarts_left = 0
        draws = self._pilot()
        return draws, self._look(draws, None)

    def _best(self) -> Round:
        return min(self.rounds, key=lambda round: (round.variance_upper, -round.points))

    # The steps.

    def _pilot(self) -> Draws:
        """Draws given some rows of weight 1; where chains end up in different places, given more rows."""
        rng = np.random.default_rng([self.plan.seed, 1, self.pilot_rows])
        share = min(1.0, self.pilot_rows / self.units.n)
        chosen = rng.choice(self.units.count, size=max(1, round(share * self.units.count)), replace=False)
        rows, weights = self.units.expand(np.sort(chosen).astype(np.int64), np.ones(len(chosen)))
        self._tell("pilot")
        draws = self.sampler.sample(rows, weights, None, self._draws_wanted(None), False)
        self.pilot_apart = draws.chained and Mixing.of(draws.parameters()).r_hat > APART
        if self.pilot_apart and self.restarts_left and self.pilot_rows * LARGER_PILOT < self.units.n // 2:
            self.restarts_left -= 1
            self.pilot_rows *= LARGER_PILOT
            return self._pilot()
        return draws

    def _look(self, draws: Draws, coreset: Optional[Coreset]) -> Gathered:
        """The pass over all rows at these draws."""
        some = draws.thin(self._draws_wanted(draws))
        keep = None if coreset is None else coreset.unit_ids
        size, seed = self.plan.pool_at(self.k), _mixed(self.plan.seed, len(self.rounds))
        return gather(self.log_likelihood, some.flat(), some.count, size=size, keep=keep, seed=seed, strict=False)

    def _build(self, seen: Gathered) -> Coreset:
        finite = np.isfinite(seen.totals)
        if finite.sum() < 0.5 * len(finite) or finite.sum() < 20:
            self._explain(seen)
        totals, columns = seen.totals[finite], np.ascontiguousarray(seen.columns[:, finite])
        k = min(self.k, len(seen.pool))
        keywords: dict[str, object] = dict(k=k, method="pursuit", reference=False, polish=False, seed=self.plan.seed)
        pool = dict(data=seen.pool, columns=columns, totals=totals, n=self.units.count)
        coreset = coreset_from(_lib.build_pool(pool, 0, keywords, Execution(threads=self.plan.threads)))
        if self.units.labels is None:
            coreset.sketch = Sketch.of(seen.pool, columns)
        return expanded(coreset, self.units)

    def _explain(self, seen: Gathered) -> None:
        """Raises the error that names a row and a draw."""
        bad = ~np.isfinite(seen.columns)
        if bad.any():
            at, draw = (int(i) for i in np.argwhere(bad)[0])
            row, value = int(seen.pool[at]), seen.columns[at, draw]
            raise _lib.CoreletError(f"the log-likelihood of row {row} at draw {draw} is not finite ({value}), as at most others")
        raise _lib.CoreletError("the log-likelihood of all rows is not finite at most draws")

    def _sample(self, coreset: Coreset, start: Draws, final: bool) -> Draws:
        draws = self.sampler.sample(coreset.rows, coreset.weights, start, self._draws_wanted(start), final)
        if not draws.same_kind(start):
            raise _lib.CoreletError("the draws of the weighted fit are not of the variables that the pilot has")
        return draws

    def _judged(
        self, coreset: Coreset, new: Draws, old: Draws, seen: Gathered, seconds: dict[str, float]
    ) -> Round:
        verdict = self._verdict(coreset, new, seen)
        record(coreset, verdict)
        shift, scale = new.moved_from(old)
        return Round(
            k=self.k,
            points=len(coreset.unit_ids),
            draws=verdict.n_draws,
            variance=verdict.variance,
            variance_upper=verdict.variance_upper,
            shift=shift,
            scale=scale,
            r_hat=verdict.r_hat,
            seconds=seconds,
            full_length=self._at_once(),
            verdict=verdict,
            coreset=coreset,
            posterior=new,
        )

    def _verdict(self, coreset: Coreset, draws: Draws, seen: Gathered) -> Verdict:
        units, weights = coreset.unit_ids, coreset.unit_weights
        chains = draws.shape[0]
        return verdict_from(
            judge(
                seen.errors(units, weights),
                seen.weighted(units, weights),
                points=len(coreset),
                n=self.units.n,
                chains=chains,
                draws=draws,
                chained=draws.chained,
                found=["pilot_not_mixed"] if self.pilot_apart else [],
            )
        )

    def _finish(self, best: Round) -> Round:
        """The last chains of this round's coreset, and the verdict by them."""
        coreset, draws, verdict = best.coreset, best.posterior, best.verdict
        assert coreset is not None and draws is not None and verdict is not None
        sampled, looked = 0.0, 0.0
        if not best.is_last:
            start = draws
            draws, sampled = self._timed("the last chains", lambda: self._sample(coreset, start, final=True))
            verdict, looked = self._last_verdict(coreset, draws)
        for _ in range(LONGER):
            if not _slow(verdict):
                break
            before = draws
            more, seconds = self._timed("more of the last chains", lambda: self._sample(coreset, before, final=True))
            draws, sampled = before.and_more(more), sampled + seconds
            verdict, seconds = self._last_verdict(coreset, draws)
            looked += seconds
        record(coreset, verdict)
        return replace(
            best,
            draws=verdict.n_draws,
            variance=verdict.variance,
            variance_upper=verdict.variance_upper,
            r_hat=verdict.r_hat,
            verdict=verdict,
            posterior=draws,
            seconds={**best.seconds, "last chains": sampled, "verdict": looked},
        )

    def _last_verdict(self, coreset: Coreset, draws: Draws) -> tuple[Verdict, float]:
        """By as many draws as a round needs, and by more where these did not do. Seconds beside it."""
        most, looked = self._draws_wanted(draws), 0.0
        while True:
            at = most
            seen, seconds = self._timed("the verdict", lambda: self._totals(coreset, draws.thin(at)))
            looked += seconds
            verdict = self._verdict(coreset, draws, seen)
            if not {"variance", "share"} & set(verdict.reasons) or most >= min(VERDICT_DRAWS, draws.count):
                return verdict, looked
            most = VERDICT_DRAWS

    def _totals(self, coreset: Coreset, some: Draws) -> Gathered:
        keep = coreset.unit_ids
        return gather(self.log_likelihood, some.flat(), some.count, size=0, keep=keep, strict=False)

    # What it tells.

    def _at_once(self) -> bool:
        """Whether a round had better have chains of full length, since they cost less than another pass over all rows."""
        return self.sampler.last_steps * self.k * STEP_COSTS <= self.units.n * self._draws_wanted(None)

    def _draws_wanted(self, draws: Optional[Draws]) -> int:
        parameters = 0 if draws is None else len(draws.parameters())
        return self.plan.draws_at(self.k, parameters)

    def _timed(self, stage: str, work: Callable[[], Any]) -> tuple[Any, float]:
        self._tell(stage)
        start = time.perf_counter()
        return work(), time.perf_counter() - start

    def _tell(self, stage: str) -> None:
        if self.report is None:
            return
        last = self.rounds[-1] if self.rounds else None
        variance, shift = (None, None) if last is None else (last.variance, last.shift)
        at = 0 if stage == "pilot" else len(self.rounds) + 1
        elapsed = time.perf_counter() - self.plan.began
        self.report(FitProgress(stage, at, self.k, variance, shift, elapsed, self._remaining()))

    def _remaining(self) -> Optional[float]:
        """A round more, and one that only samples and looks; two where V is far off."""
        if not self.rounds:
            return None
        last = self.rounds[-1]
        whole, final = sum(last.seconds.values()), last.seconds["sample"] + last.seconds["look"]
        rounds = 0 if last.certified else 1 if last.variance < 10 else 2
        return rounds * whole + final


def _slow(verdict: Verdict) -> bool:
    """Whether its chains need only go on: they mix slowly, but are not apart, and V is no matter."""
    reasons = set(verdict.reasons)
    slow = reasons & {"few_draws", "not_mixed"} and reasons <= {"few_draws", "not_mixed", "effective_draws", "pareto_k"}
    return bool(slow) and verdict.r_hat < APART


def _mixed(seed: int, index: int) -> int:
    return int(np.random.SeedSequence([seed, 2, index]).generate_state(1)[0])


def record(coreset: Coreset, verdict: Verdict) -> None:
    """Notes in the coreset what draws of its own posterior say."""
    nats = 0.5 * verdict.variance
    coreset.quality = replace(
        coreset.quality, nats=nats, heldout_draws=verdict.n_draws, verdict=verdict, judged_on="own"
    )
    coreset.say_divergence(f"{nats:.2g} nats on {verdict.n_draws} draws of its own posterior")
