"""`corelet.fit`: a model that Corelet knows, from data to a certified posterior in one call."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any, Optional

import numpy as np

from . import _lib
from ._build import BESIDE, _count, arrays_in, build, native
from ._coreset import Coreset, Quality
from ._draws import Draws
from ._fit import Fit, FitProgressOption, _reporter
from ._formula import resolved
from ._judge import judge
from ._rounds import FitProgress, Round
from ._spool import repeatable
from ._types import Execution
from ._verdict import Verdict, chain_settings, check, drawn, verdict_from

DRAWS_AT_FAULT = {"not_mixed", "few_draws", "diverged", "not_finite", "narrow"}
"""Reasons that more points would do nothing about."""


def fit(
    X: Any,
    y: Any = None,
    *,
    model: str = "logistic",
    k: int = 300,
    max_k: Optional[int] = None,
    full: bool = False,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: FitProgressOption = None,
    **keywords: Any,
) -> Fit:
    """Fit a model that Corelet knows by a coreset: build, sample by NUTS, and look at all rows; more points where it needs them.

    Parameters
    ----------
    X, y
        The data, as `corelet.build` takes them: arrays, a data frame or the path of a file with `target=` naming a column.
    model
        `logistic`, `softmax` (several classes), `ordinal` (ordered levels), `poisson`, `negative-binomial`, `linear`,
        `student`, `gamma`, `binomial`, `weibull`, `exponential`, or `gaussian` (the mean of Gaussian data, without a target).
    k, max_k
        Most points, and how far they may be doubled where these are not enough; 4 k.
    full
        The posterior of all rows in place of a coreset's, to compare with, or where there are few of them.
    draws, tune, chains, target_accept, max_depth
        Of NUTS.
    seed, threads
        Of everything random; number of threads, all cores by default.
    progress
        A callable that gets a `corelet.FitProgress` now and then; True for lines on the standard error stream, False for
        none; by default lines where a person is watching. Ctrl-C returns the best so far with its verdict.
    keywords
        All others are those of `corelet.build`: `target`, `features`, `exposure`, `groups`, `positive`, `levels`, `prior_sd`, ….

    Returns
    -------
    Fit
        `verdict`, `idata`, `coreset`, `rounds`.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = rng.poisson(np.exp(0.3 * X[:, 0]))
    >>> fit = corelet.fit(X, y, model="poisson", k=60, chains=2)
    >>> fit.verdict.grade, len(fit.coreset) <= 60, fit.draws["original"].shape
    ('A', True, (2, 1000, 4))
    """
    settings = dict(
        draws=draws, warmup=tune, chains=chains, target_accept=target_accept, max_depth=max_depth, seed=seed
    )
    X, y, asked, design = resolved(X, y, dict(model=model, seed=seed, **keywords))
    alone = y is None and not arrays_in({name: asked.get(name) for name in BESIDE})
    with warnings.catch_warnings(record=True) as caught, repeatable(X, alone, asked.get("scratch")) as X:
        warnings.simplefilter("always")
        known = Known(X, y, asked, settings, threads, FitReport(progress))
        result = known.all_rows() if full else known.rounds_from(k, 4 * k if max_k is None else max_k)
    result.coreset.design = design
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        warnings.warn(text, stacklevel=2)
    return result


class FitReport:
    """Tells where the fit stands."""

    def __init__(self, progress: FitProgressOption) -> None:
        self.report = _reporter(progress)
        self.clock = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.clock

    def tell(self, stage: str, k: int, rounds: list[Round]) -> None:
        """Says what is done now."""
        if self.report is None:
            return
        last = rounds[-1] if rounds else None
        variance, shift = (None, None) if last is None else (last.variance, last.shift)
        remaining = None if last is None else sum(last.seconds.values())
        self.report(FitProgress(stage, len(rounds) + 1, k, variance, shift, self.seconds, remaining))


class Known:
    """Data and one of the built-in models, to be fitted."""

    def __init__(
        self,
        X: Any,
        y: Any,
        asked: dict[str, Any],
        settings: dict[str, Any],
        threads: Optional[int],
        report: FitReport,
    ) -> None:
        self.X, self.y = X, y
        self.asked = asked
        self.settings = settings
        self.threads = threads
        self.report = report

    def rounds_from(self, k: int, max_k: int) -> Fit:
        """Coresets of k points and more, until one is certified or no more points are allowed."""
        k, max_k = _count("k", k), _count("max_k", max_k)
        if max_k < k:
            raise _lib.CoreletError(f"max_k = {max_k} is less than k = {k}")
        rounds: list[Round] = []
        notes: list[str] = []
        try:
            while True:
                this = self._round(k, rounds)
                step, words = next_step(this, k, max_k)
                rounds.append(replace(this, next=words))
                if step == "stop":
                    break
                k = min(2 * k, max_k, _units(this))
        except KeyboardInterrupt:
            if not rounds:
                raise
            notes.append("interrupted: the best so far")
        best = min(rounds, key=lambda this: (_grade(this), this.variance_upper))
        assert best.verdict is not None and best.coreset is not None
        return self._fit(best.verdict, best.coreset, rounds, notes)

    def _round(self, k: int, rounds: list[Round]) -> Round:
        """A coreset of at most k points, sampled and judged."""
        self.report.tell("building", k, rounds)
        start = time.perf_counter()
        coreset = build(self.X, self.y, k=k, threads=self.threads, progress=False, **self.asked)
        built = time.perf_counter()
        self.report.tell("sampling, and a look at all rows", k, rounds)
        settings = dict(self.settings, threads=self.threads, progress=False, format=self.asked.get("format"))
        beside: dict[str, Any] = {name: self.asked.get(name) for name in BESIDE if name != "groups"}
        verdict = check(coreset, self.X, self.y, **beside, **settings)
        new = _posterior(verdict)
        shift, scale = (np.nan, np.nan) if not rounds else new.moved_from(rounds[-1].posterior or new)
        return Round(
            k=k,
            points=len(coreset.unit_ids),
            draws=verdict.n_draws,
            variance=verdict.variance,
            variance_upper=verdict.variance_upper,
            shift=shift,
            scale=scale,
            r_hat=verdict.r_hat,
            seconds={"build": built - start, "sample": time.perf_counter() - built},
            verdict=verdict,
            coreset=coreset,
            posterior=new,
        )

    def all_rows(self) -> Fit:
        """NUTS on all rows. There is nothing to judge but the chains."""
        options = native({name: value for name, value in self.asked.items() if name != "format"})
        given = (self.X, self.y, {name: self.asked.get(name) for name in BESIDE})
        execution = Execution(threads=_count("threads", self.threads))
        self.report.tell("sampling all rows", 0, [])
        settings = chain_settings(**self.settings)
        fields = drawn(given, self.asked.get("format"), options, None, settings, execution)
        for warning in fields["warnings"]:
            warnings.warn(warning, stacklevel=2)
        rows, weights, draws = fields["rows"], fields["weights"], fields["draws"]
        n, dropped = int(fields["n"]), int(fields["dropped"])
        posterior = Draws.of(draws["posterior"])
        posterior = replace(posterior, diverged=int(draws["sample_stats"]["diverging"].sum()))
        log_posterior = draws["sample_stats"]["lp"].ravel()
        judged = judge(
            np.zeros(posterior.count), log_posterior, points=n, n=n, chains=posterior.shape[0], draws=posterior
        )
        verdict = replace(verdict_from(judged, fields["names"]), draws=draws)
        quality = Quality(nats=0.0, heldout_draws=0, residual_nats=0.0, verdict=verdict)
        summary = dict(
            n=n, rows_dropped=dropped, model=self.asked["model"], method="all-rows", status="completed", path=[], residual=0.0
        )
        coreset = Coreset(
            rows=rows,
            weights=weights,
            quality=quality,
            summary=summary,
            warnings=list(fields["warnings"]),
            lines=[f"all {n} rows, each with weight 1" if (weights == 1).all() else f"all {n} rows, with their weights"],
            names=fields["names"],
        )
        return self._fit(verdict, coreset, [], [])

    def _fit(self, verdict: Verdict, coreset: Coreset, rounds: list[Round], notes: list[str]) -> Fit:
        return Fit(
            verdict=verdict,
            coreset=coreset,
            rounds=rounds,
            draws=verdict.draws["posterior"],
            seconds=self.report.seconds,
            notes=[*notes, *coreset.warnings],
            _draws=_posterior(verdict),
            _convert=lambda *_: verdict.idata,
        )


def next_step(this: Round, k: int, max_k: int) -> tuple[str, str]:
    """What to do after this round, and why: `stop` or `more`."""
    assert this.verdict is not None
    most = min(2 * k, max_k, _units(this))
    if this.verdict.grade == "A":
        return "stop", "certified"
    if DRAWS_AT_FAULT & set(this.verdict.reasons):
        return "stop", "the chains are at fault, which more points would not mend"
    if not {"variance", "share"} & set(this.verdict.reasons):
        return "stop", "more points would not mend it"
    if k < most:
        return "more", f"V is still large: {most} points"
    return "stop", f"V is still large with {k} points, the most allowed (max_k)"


def _units(this: Round) -> int:
    """Rows, or groups, that there are to choose from."""
    assert this.coreset is not None
    return int(this.coreset.summary["groups"] or this.coreset.summary["n"])


def _grade(this: Round) -> str:
    assert this.verdict is not None
    return this.verdict.grade


def _posterior(verdict: Verdict) -> Draws:
    return Draws.of(verdict.draws["posterior"])
