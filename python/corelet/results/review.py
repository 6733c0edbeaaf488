"""What all rows say of draws of a posterior: leave-one-out, influence, and whether outcomes are as predicted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import arviz as _arviz
from .._lib import CoreletError
from .._warn import warn

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loo:
    """The expected log predictive density of rows that were left out, by Pareto-smoothed importance sampling; or that of WAIC."""

    kind: str
    """`loo` or `waic`."""
    elpd: float
    """Summed over rows, in nats."""
    se: float
    """Its standard error over rows."""
    p: float
    """The effective number of parameters."""
    n: int
    """Rows."""
    n_draws: int
    """Draws it rests on."""
    good_k: float
    """The largest k̂ that can be relied on with so many draws."""
    rows_by_k: tuple[int, int, int] = (0, 0, 0)
    """Rows whose k̂ is below that, below 1, and above."""
    worst: list[tuple[int, float]] = field(default_factory=list)
    """The rows with the largest k̂ above the limit."""
    elpd_i: Optional[Floats] = field(default=None, repr=False)
    """Of each row, unless `pointwise=False` was said."""
    pareto_k: Optional[Floats] = field(default=None, repr=False)
    """k̂ of each row; 0 where the weights differ by less than a tenth, so that there is no tail to fit."""
    doubtful: bool = False
    """Whether some row is not reliable: by its k̂, or for WAIC by a posterior variance above 0.4."""
    outcomes: Optional[str] = field(default=None, repr=False)
    """What tells the outcomes of the rows, in their order, from others; where they are known."""

    def __repr__(self) -> str:
        text = f"elpd_{self.kind} {self.elpd:.1f} ± {self.se:.1f}, p_{self.kind} {self.p:.2f}, {self.n} rows, {self.n_draws} draws"
        bad = sum(self.rows_by_k[1:])
        return f"{text}; Pareto k above {self.good_k:.2f} for {bad} rows" if bad else text

    def to_arviz(self) -> Any:
        """ArviZ's own object, which `arviz.compare` takes; of the installed version."""
        arviz = _arviz.load()
        if self.elpd_i is None:
            raise CoreletError("ArviZ's object has a number for each row: review with pointwise=True")
        if _arviz.before_version_1():
            return self._elpd_data_before_1()
        import xarray
        from arviz_stats import utils

        if self.kind == "waic":
            raise CoreletError(f"ArviZ {arviz.__version__} has no WAIC; take loo")
        of = getattr(utils, "ELPDDataLOO", None)
        known = dict(
            elpd=self.elpd,
            se=self.se,
            p=self.p,
            n_samples=self.n_draws,
            n_data_points=self.n,
            scale="log",
            warning=self.doubtful,
            good_k=self.good_k,
            elpd_i=xarray.DataArray(self.elpd_i, dims=["obs"], name="elpd_i"),
            pareto_k=xarray.DataArray(self.pareto_k, dims=["obs"], name="pareto_k"),
        )
        return of(**known) if of is not None else utils.ELPDData(kind="loo", **known)

    def _elpd_data_before_1(self) -> Any:
        import xarray
        from arviz.stats.stats_utils import ELPDData

        each = xarray.DataArray(self.elpd_i, dims=["obs"], name=f"{self.kind}_i")
        values: dict[str, Any] = {
            f"elpd_{self.kind}": self.elpd,
            "se": self.se,
            f"p_{self.kind}": self.p,
            "n_samples": self.n_draws,
            "n_data_points": self.n,
            "warning": self.doubtful,
            f"{self.kind}_i": each,
        }
        if self.kind == "loo":
            values["pareto_k"] = xarray.DataArray(self.pareto_k, dims=["obs"], name="pareto_k")
        values["scale"] = "log"
        if self.kind == "loo":
            values["good_k"] = self.good_k
        return ELPDData(data=list(values.values()), index=list(values))


@dataclass(frozen=True, eq=False)
class Influence:
    """Which rows move the posterior mean of one quantity, to first order in their weights."""

    name: str
    """The quantity."""
    mean: float
    """Its posterior mean."""
    sd: float
    """Its posterior standard deviation."""
    jackknife_se: float
    """Its standard error over data sets by the infinitesimal jackknife, whether the model is right or not."""
    rows_to_turn: Optional[int]
    """The fewest rows whose removal turns its sign; None where a thousand do not."""
    rows: NDArray[np.int64] = field(repr=False)
    """The rows whose removal moves it most towards zero and beyond, the first the most: at most a thousand."""
    changes: Floats = field(repr=False)
    """By how much each does."""
    rows_along: NDArray[np.int64] = field(repr=False)
    """Those whose removal moves it most the other way."""
    changes_along: Floats = field(repr=False)
    """By how much each does."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Whether outcomes are as the model predicts them."""

    misfits: list[str]
    """What is far off, in words; empty where nothing is."""
    n: int
    """Rows."""
    mean: Optional[tuple[float, float, float]]
    """The mean outcome, that which the model expects, and the standard deviation of the mean of outcomes drawn from it."""
    dispersion: Optional[float]
    """Pearson's Σ (y − μ)²/σ² a row: 1 where the variance is that of the model."""
    zeros: Optional[tuple[int, float, float]]
    """Of counts: zeros that there are, that the model expects, and the standard deviation of that."""
    outside: Optional[tuple[int, int, float]]
    """Rows below and above all outcomes drawn for each, and how many of either are expected."""
    pit: NDArray[np.int64]
    """Rows by the place of the outcome among those drawn for it, in 20 bins: level where the model is right."""
    calibration: list[tuple[int, float, float, float]]
    """Of classes, by bins of predicted probability: rows, the mean prediction, the share observed, and its standard error."""


@dataclass(frozen=True)
class Evidence:
    """The log evidence (marginal likelihood) of a model, in nats."""

    log: float
    """log ∫ p(y | θ) p(θ) dθ."""
    se: float
    """Its standard error."""
    n_draws: int
    """Draws of the posterior that it rests on."""
    doubtful: bool = False
    """Whether the draws are not of the posterior that the density is of: bridges that must agree do not."""


@dataclass(frozen=True, eq=False)
class Review:
    """Leave-one-out predictive densities, predictive checks and influence, for draws of a posterior."""

    loo: Loo
    """Leave-one-out."""
    waic: Loo
    """The same by WAIC."""
    influence: dict[str, Influence]
    """By parameter, on the scale of the data."""
    fits: Optional[Fits]
    """Whether outcomes are as predicted; None where the model's outcomes are not known here."""
    clusters: Optional[int]
    """Groups that rows were taken together in, for the jackknife."""
    lines: list[str] = field(repr=False)
    by: dict[str, Fits] = field(default_factory=dict)
    """The same as `fits` for the rows of each level of a column, where one was named."""
    evidence: Optional[Evidence] = None
    """Where it was asked for and draws and their Gaussian overlap enough."""

    def __repr__(self) -> str:
        return "\n".join([f"{self.loo.n} rows, reviewed at {self.loo.n_draws} draws", *self.lines])

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def review_from(fields: Mapping[str, Any]) -> Review:
    """From what the native part returns."""
    elpd, khat, waic = fields["pointwise"] or (None, None, None)
    outcomes = None if fields.get("outcomes") is None else _fingerprint(fields["outcomes"])
    shared = dict(n=fields["n"], n_draws=fields["n_draws"], good_k=fields["good_k"], outcomes=outcomes)
    if khat is not None:
        khat = np.where(np.isneginf(khat), 0.0, khat)
    good, bad, useless = fields["by_k"]
    by_k = (good, bad, useless)
    influence = {}
    for entry in fields["influence"]:
        (rows, changes), (along, changes_along) = entry["against"], entry["along"]
        kept = {name: entry[name] for name in ("name", "mean", "sd", "jackknife_se", "rows_to_turn")}
        influence[entry["name"]] = Influence(
            **kept, rows=rows, changes=changes, rows_along=along, changes_along=changes_along
        )
    checks = fields.get("checks")
    (elpd_loo, se, p), (elpd_waic, waic_se, p_waic) = fields["loo"], fields["waic"]
    return Review(
        loo=Loo(
            kind="loo",
            elpd=elpd_loo,
            se=se,
            p=p,
            **shared,
            rows_by_k=by_k,
            worst=fields["worst"],
            elpd_i=elpd,
            pareto_k=khat,
            doubtful=sum(by_k[1:]) > 0,
        ),
        waic=Loo(
            kind="waic", elpd=elpd_waic, se=waic_se, p=p_waic, **shared, elpd_i=waic, doubtful=fields["waic_doubtful"] > 0
        ),
        influence=influence,
        fits=None if checks is None else _fits(checks),
        clusters=fields["clusters"],
        lines=list(fields["lines"]),
        by={label: _fits(level) for label, level in fields["by"]},
        evidence=None if fields["evidence"] is None else Evidence(*fields["evidence"]),
    )


def _fits(checks: Mapping[str, Any]) -> Fits:
    return Fits(**{**checks, "pit": np.asarray(checks["pit"], dtype=np.int64)})


@dataclass(frozen=True)
class Fold:
    """One fold, and the coreset of all rows but its own that predicts them."""

    n: int
    """Its rows."""
    points: int
    """Weighted rows of the coreset."""
    grade: str
    """Of the coreset, by a pass over all rows: `A`, `B` or `C`."""
    variance: float
    """Its V, in nats²."""
    elpd: float
    """Σ log p(yᵢ | the rows of other folds)."""


@dataclass(frozen=True, eq=False)
class KFold:
    """The expected log predictive density of rows by the rows of other folds."""

    elpd: float
    """Summed over rows, in nats."""
    se: float
    """Its standard error over rows."""
    folds: list[Fold]
    elpd_i: Floats = field(repr=False)
    """Of each row."""
    fold_i: NDArray[np.int64] = field(repr=False)
    """The fold of each row."""
    outcomes: Optional[str] = field(repr=False)
    """What tells the outcomes of the rows, in their order, from others; where they are known."""
    lines: list[str] = field(repr=False)

    def __repr__(self) -> str:
        return "\n".join(line.strip() for line in self.lines)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def k_fold_from(fields: Mapping[str, Any]) -> KFold:
    """From what the native part returns."""
    folds = [Fold(*fold) for fold in fields["folds"]]
    known = None if fields["outcomes"] is None else _fingerprint(fields["outcomes"])
    return KFold(fields["elpd"], fields["se"], folds, fields["elpd_i"], fields["fold_i"], known, list(fields["lines"]))


def _fingerprint(values: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Compared:
    """Models by their elpd, the best first, with the difference of each from the best."""

    names: list[str]
    elpd: list[float]
    """Of each."""
    difference: list[float]
    """Less that of the best: 0, then negative."""
    se: list[float]
    """The standard error of the difference, by row."""
    log_evidence: Optional[list[tuple[float, float]]] = None
    """The log evidence of each less that of the first, and its standard error; None unless all were reviewed with `evidence=True`. It is
    that of the models with the priors that they have."""

    def __repr__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"{'':{width}}  {'elpd':>12}  {'difference':>12}  {'se':>8}"]
        for name, elpd, difference, se in zip(self.names, self.elpd, self.difference, self.se):
            lines.append(f"{name:{width}}  {elpd:>12.1f}  {difference:>12.1f}  {se:>8.1f}")
        if self.log_evidence is not None:
            lines.append(f"{'':{width}}  {'log evidence':>12}  {'se':>8}")
            lines += [f"{name:{width}}  {less:>12.2f}  {se:>8.2f}" for name, (less, se) in zip(self.names, self.log_evidence)]
        return "\n".join(lines)


def _same_kind(found: Mapping[str, Union[Loo, KFold]]) -> None:
    """Leave-one-out beside leave-one-out, and folds beside the same folds."""
    kinds = {name: "k_fold" if isinstance(loo, KFold) else loo.kind for name, loo in found.items()}
    if len(set(kinds.values())) > 1:
        raise CoreletError(f"these are not comparable: {', '.join(f'{name} is of {kind}' for name, kind in kinds.items())}")
    folds = [loo.fold_i for loo in found.values() if isinstance(loo, KFold)]
    if any(not np.array_equal(folds[0], other) for other in folds[1:]):
        raise CoreletError("the models have other folds: give all the same folds, seed and groups")


def _same_outcomes(known: Mapping[str, str]) -> None:
    """Refuses densities of other rows, or of rows in another order."""
    first = next(iter(known), "")
    others = [name for name, outcomes in known.items() if outcomes != known[first]]
    if others:
        raise CoreletError(
            f"the outcomes of {others[0]} are not those of {first}: other rows, rows in another order, or an outcome that was transformed, "
            "whose density is of another scale"
        )


def compare(models: Mapping[str, Union[Review, Loo, KFold]]) -> Compared:
    """Set models of the same rows side by side by predictive densities of rows left out, with standard errors of the differences.

    Parameters
    ----------
    models
        Names and what `review` returned for each, or `k_fold` for all, of the same rows in the same order. `arviz.compare` takes
        `review.loo.to_arviz()`.
    """
    found = {str(name): model.loo if isinstance(model, Review) else model for name, model in models.items()}
    if len(found) < 2:
        raise CoreletError("give two models or more, by name")
    each: dict[str, Floats] = {}
    for name, loo in found.items():
        if not isinstance(loo, (Loo, KFold)):
            raise TypeError(f"{name} is of type {type(loo).__name__}; it must be what review or k_fold returned")
        if loo.elpd_i is None:
            raise CoreletError(f"{name} has no number for each row: review with pointwise=True")
        each[name] = loo.elpd_i
    rows = {name: len(values) for name, values in each.items()}
    if len(set(rows.values())) > 1:
        raise CoreletError(f"the models are not of the same rows: {', '.join(f'{name} has {n}' for name, n in rows.items())}")
    _same_kind(found)
    _same_outcomes({name: loo.outcomes for name, loo in found.items() if loo.outcomes is not None})
    order = sorted(found, key=lambda name: -found[name].elpd)
    best = each[order[0]]
    differences = [each[name] - best for name in order]
    se = [math.sqrt(len(best)) * float(np.std(part)) for part in differences]
    known = {str(name): model.evidence for name, model in models.items() if isinstance(model, Review) and model.evidence}
    less = None
    if len(known) == len(order):
        first = known[order[0]]
        others = [known[name] for name in order[1:]]
        for name, evidence in known.items():
            if evidence.doubtful:
                warn(f"the log evidence of {name} is not reliable: its draws are not of the posterior that its density is of; certify them")
        less = [(0.0, 0.0), *((one.log - first.log, math.hypot(one.se, first.se)) for one in others)]
    return Compared(order, [found[name].elpd for name in order], [float(part.sum()) for part in differences], se, less)
