"""`corelet.fit`: a built-in model, from data to a certified posterior in one call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, Optional, Union

import numpy as np

from . import _lib
from ._build import _count, build, given, native
from ._check import evidence
from .results.coreset import Coreset, Quality, coreset_from
from .results.draws import Draws
from ._fit import Fit, FitProgressOption, Round, reporting
from ._mixed import MixedFit, fit_groups
from .frames.formula import resolved
from ._seeds import seeded
from ._types import Execution
from ._warn import warn
from .results.verdict import Verdict, chain_settings, judged_by, verdict_from


@seeded
def fit(
    X: Any,
    y: Any = None,
    *,
    model: str = "logistic",
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    rest: str = "auto",
    full: bool = False,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: FitProgressOption = None,
    random: Any = None,
    sd_prior: Optional[str] = None,
    lkj: Optional[float] = None,
    nodes: Optional[int] = None,
    **keywords: Any,
) -> Union[Fit, MixedFit]:
    """Fit a built-in model with a coreset: build it, sample it by NUTS, and certify the draws on all rows; repeat with more rows if needed.

    Parameters
    ----------
    X, y
        The data, as for `corelet.build`: arrays, a data frame, or the path of a file with `target=` naming a column.
    model
        `logistic`, `softmax` (several classes), `ordinal` (ordered levels), `poisson`, `negative-binomial`, `linear`,
        `student`, `gamma`, `binomial`, `weibull`, `exponential`, or `gaussian` (the mean of Gaussian data, without a target).
    k, max_k
        Largest number of rows, by default 300 or all rows if there are fewer (50 groups with `random`), and the limit up to which it
        doubles while the verdict is a C, by default 4 k.
    rest
        `gaussian`: a Gaussian factor represents the quadratic part of the log-likelihood, and rows represent the remainder. `none`: rows
        alone. `auto`: the Gaussian factor if that is more accurate than rows alone. The factor is `coreset.rest`; do not use the rows
        without it.
    full
        Sample the posterior of all rows instead of a coreset's: for comparison, or if there are few rows.
    draws, tune, chains, target_accept, max_depth
        Settings of NUTS.
    seed, threads
        The random seed, also accepted as `random_state` or `random_seed`; the number of threads, by default all cores.
    progress
        A callable that receives a `corelet.FitProgress` from time to time; True for lines on standard error, False for none; by
        default lines in a terminal or notebook. Ctrl-C returns the best fit so far with its verdict.
    random
        Random effects. They are integrated out, and whole groups are chosen. `"customer"`, the column of groups, is an intercept
        for each group; `"1 + price | customer"` adds slopes, and `||` makes the effects independent. A formula writes
        `(1 + price | customer)`. An array gives the group of each row. Crossed factors are `"(1 | customer) + (1 | product)"` and nested
        factors `"1 | school/class"`: the factor with the most groups is integrated out, and the effects of the others are parameters, at
        most 300. The result is a `MixedFit`.
    sd_prior, lkj, nodes
        The prior of the standard deviations of random effects, `"half_normal(2.5)"`, `"half_student_t(3, 2.5)"` or `"exponential(1)"`; η of
        the LKJ prior of a correlation; the number of quadrature nodes, by default chosen from the estimated bias.
    keywords
        All other keywords are those of `corelet.build`: `target`, `features`, `exposure`, `groups`, `positive`, `levels`, `prior_sd`, ….

    Returns
    -------
    Fit or MixedFit
        `verdict`, `idata`, `rounds`, and `coreset`, or with `random` the chosen groups and `random_effects()`.

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
    settings = chain_settings(draws, tune, chains, target_accept, max_depth, seed)
    began = time.perf_counter()
    known = {*signature(build).parameters, *signature(fit).parameters, "random_state", "random_seed"}
    unknown = set(keywords) - known
    if unknown:
        near = get_close_matches(min(unknown), known, 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise TypeError(f"fit() has no keyword '{min(unknown)}'{hint}; it takes those of build() and its own")
    given_random = random if random is None or isinstance(random, str) else ""
    asked_for = dict(model=model, k=None if full else k, seed=seed, rest="none" if full else rest, random=given_random, **keywords)
    X, y, asked, design = resolved(X, y, asked_for)
    effects = asked.pop("random")
    execution = Execution(reporting(progress, began), _count("threads", threads))
    own = dict(sd_prior=sd_prior, lkj=lkj, nodes=_count("nodes", nodes))
    if effects is not None:
        if full:
            raise _lib.CoreletError("full is for models without random effects; with k at least the number of groups all are sampled")
        return fit_groups(X, y, {**asked, **own}, random if effects == "" else effects, max_k, settings, execution, began, design)
    named = [name for name, value in own.items() if value is not None]
    if named:
        raise _lib.CoreletError(f"{named[0]} needs random, the random effects that it is for")
    if full:
        result = _all_rows(X, y, asked, settings, execution, began)
    else:
        most = None if max_k is None else _count("max_k", max_k)
        # Where nothing is said the library takes 300, or all rows where there are fewer.
        asked["k"] = k = min(300, most) if k is None and most is not None else k
        if most is not None and most < _count("k", k):
            raise _lib.CoreletError(f"max_k = {most} is less than k = {k}")
        result = _rounds(X, y, asked, most, settings, execution, began)
    result.coreset.design = design
    return result


def _rounds(
    X: Any,
    y: Any,
    asked: dict[str, Any],
    max_k: Optional[int],
    settings: Mapping[str, object],
    execution: Execution,
    began: float,
) -> Fit:
    """Builds coresets of k points and more, until one is certified or no more points are allowed."""
    keywords = native({name: value for name, value in asked.items() if name != "format"})
    with given(X, y, asked, keywords) as data:
        found = _lib.fit(data, keywords, max_k, settings, execution)
    coreset = coreset_from(found["coreset"], {**keywords, "groups": keywords["groups"] if isinstance(asked.get("groups"), str) else None})
    verdict = judged_by(coreset, found["verdict"])
    warn(*coreset.warnings)
    rounds = [Round(**fields) for fields in found["rounds"]]
    return _fit(verdict, coreset, rounds, found["notes"], began)


def _all_rows(
    X: Any, y: Any, asked: dict[str, Any], settings: Mapping[str, object], execution: Execution, began: float
) -> Fit:
    """Runs NUTS on all rows. Only the chains need to be judged."""
    keywords = native({name: value for name, value in asked.items() if name != "format"})
    with given(X, y, asked, keywords) as data:
        fields = _lib.check(data, keywords, None, settings, execution)
    warn(*fields["warnings"])
    rows, weights, draws = fields["rows"], fields["weights"], fields["draws"]
    n, dropped = int(fields["n"]), int(fields["dropped"])
    posterior = Draws.of({"standardised": draws["posterior"]["standardised"]})
    posterior = replace(posterior, diverged=int(draws["sample_stats"]["diverging"].sum()))
    log_posterior = draws["sample_stats"]["lp"].ravel()
    chains = posterior.shape[0]
    judged = evidence(np.zeros(posterior.count), log_posterior, points=n, n=n, chains=chains, draws=posterior)
    verdict = replace(verdict_from(judged, fields["names"]), draws=draws)
    quality = Quality(nats=0.0, heldout_draws=0, residual_nats=0.0, verdict=verdict)
    summary = dict(
        n=n, rows_dropped=dropped, model=asked["model"], method="all-rows", status="completed", path=[], residual=0.0
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
    return _fit(verdict, coreset, [], [], began)


def _fit(verdict: Verdict, coreset: Coreset, rounds: list[Round], notes: list[str], began: float) -> Fit:
    return Fit(
        verdict=verdict,
        coreset=coreset,
        rounds=rounds,
        draws=verdict.draws["posterior"],
        seconds=time.perf_counter() - began,
        notes=[*notes, *coreset.warnings],
        _draws=Draws.of(verdict.draws["posterior"]),
        _convert=lambda *_: verdict.idata,
    )
