"""The results of a review: leave-one-out, influence, predictive checks, and the comparison of models."""

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
    """The expected log predictive density of left-out rows, by Pareto-smoothed importance sampling; or the estimate of WAIC."""

    kind: str
    """`loo` or `waic`."""
    elpd: float
    """Summed over rows, in nats."""
    se: float
    """Its standard error over rows."""
    p: float
    """The effective number of parameters."""
    n: int
    """Number of rows."""
    n_draws: int
    """Number of draws that it rests on."""
    good_k: float
    """The largest k̂ that is reliable with this number of draws."""
    rows_by_k: tuple[int, int, int] = (0, 0, 0)
    """Number of rows with k̂ below `good_k`, from there to 1, and above 1."""
    worst: list[tuple[int, float]] = field(default_factory=list)
    """The rows with the largest k̂ above the limit."""
    elpd_i: Optional[Floats] = field(default=None, repr=False)
    """elpd of each row; None with `pointwise=False`."""
    pareto_k: Optional[Floats] = field(default=None, repr=False)
    """k̂ of each row; 0 if the weights differ by less than a tenth, so that there is no tail to fit."""
    doubtful: bool = False
    """Whether the estimate of some row is unreliable: by its k̂, or for WAIC by a posterior variance above 0.4."""
    outcomes: Optional[str] = field(default=None, repr=False)
    """The fingerprint of the outcomes of the rows in their order, if known."""

    def __repr__(self) -> str:
        text = f"elpd_{self.kind} {self.elpd:.1f} ± {self.se:.1f}, p_{self.kind} {self.p:.2f}, {self.n} rows, {self.n_draws} draws"
        bad = sum(self.rows_by_k[1:])
        return f"{text}; Pareto k above {self.good_k:.2f} for {bad} rows" if bad else text

    def to_arviz(self) -> Any:
        """The object of the installed ArviZ, which `arviz.compare` accepts."""
        arviz = _arviz.load()
        if self.elpd_i is None:
            raise CoreletError("ArviZ's object has one number per row: review with pointwise=True")
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
    """The rows that move the posterior mean of one quantity most, to first order in their weights."""

    name: str
    """The quantity."""
    mean: float
    """Its posterior mean."""
    sd: float
    """Its posterior standard deviation."""
    jackknife_se: float
    """Its standard error over data sets by the infinitesimal jackknife, which is valid even if the model is wrong."""
    rows_to_turn: Optional[int]
    """The smallest number of rows whose removal changes its sign; None if a thousand do not."""
    rows: NDArray[np.int64] = field(repr=False)
    """The rows, at most a thousand, whose removal moves it most towards zero and beyond, in descending order."""
    changes: Floats = field(repr=False)
    """The change that each of them makes."""
    rows_along: NDArray[np.int64] = field(repr=False)
    """The rows whose removal moves it most in the opposite direction."""
    changes_along: Floats = field(repr=False)
    """The change that each of them makes."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Predictive checks: whether outcomes agree with the model's predictions."""

    misfits: list[str]
    """Large deviations, in words; empty if there are none."""
    n: int
    """Number of rows."""
    mean: Optional[tuple[float, float, float]]
    """The mean outcome, its expectation under the model, and the standard deviation of the mean of simulated outcomes."""
    dispersion: Optional[float]
    """Pearson's Σ (y − μ)²/σ² per row: 1 if the variance is that of the model."""
    zeros: Optional[tuple[int, float, float]]
    """For counts: the observed number of zeros, the number that the model expects, and its standard deviation."""
    outside: Optional[tuple[int, int, float]]
    """Numbers of rows below and above all of their simulated outcomes, and the expected number of either."""
    pit: NDArray[np.int64]
    """Numbers of rows by the predictive quantile (PIT) of the outcome, in 20 bins: uniform if the model is right."""
    calibration: list[tuple[int, float, float, float]]
    """For classes, by bins of predicted probability: rows, the mean prediction, the observed share, and its standard error."""


@dataclass(frozen=True)
class Evidence:
    """The log evidence (marginal likelihood) of a model, in nats."""

    log: float
    """log ∫ p(y | θ) p(θ) dθ."""
    se: float
    """Its standard error."""
    n_draws: int
    """Number of posterior draws that it rests on."""
    doubtful: bool = False
    """Whether the draws are not from the posterior of this density: two bridges that must agree do not."""


@dataclass(frozen=True, eq=False)
class Review:
    """Leave-one-out predictive densities, predictive checks and influence, for draws of a posterior."""

    loo: Loo
    """Leave-one-out."""
    waic: Loo
    """The same by WAIC."""
    influence: dict[str, Influence]
    """The influence of rows on each parameter, on the scale of the data."""
    fits: Optional[Fits]
    """Predictive checks; None if the model's outcomes are unknown."""
    clusters: Optional[int]
    """Number of clusters of rows that the jackknife used."""
    lines: list[str] = field(repr=False)
    by: dict[str, Fits] = field(default_factory=dict)
    """Predictive checks for the rows of each level of a column, if one was named."""
    evidence: Optional[Evidence] = None
    """The log evidence, if requested, and if the draws overlap enough with their Gaussian approximation."""

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
    """One fold, and the coreset of all other rows that predicts it."""

    n: int
    """Number of rows in the fold."""
    points: int
    """Number of weighted rows of the coreset."""
    grade: str
    """The grade of the coreset, from a pass over all rows: `A`, `B` or `C`."""
    variance: float
    """V of the coreset, in nats²."""
    elpd: float
    """Σ log p(yᵢ | the rows of other folds)."""


@dataclass(frozen=True, eq=False)
class KFold:
    """The expected log predictive density of rows, predicted from the rows of other folds."""

    elpd: float
    """Summed over rows, in nats."""
    se: float
    """Its standard error over rows."""
    folds: list[Fold]
    elpd_i: Floats = field(repr=False)
    """elpd of each row."""
    fold_i: NDArray[np.int64] = field(repr=False)
    """The fold of each row."""
    outcomes: Optional[str] = field(repr=False)
    """The fingerprint of the outcomes of the rows in their order, if known."""
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
    """Models in the order of their elpd, the best first, with the difference of each from the best."""

    names: list[str]
    elpd: list[float]
    """elpd of each model."""
    difference: list[float]
    """The difference from the best: 0, then negative numbers."""
    se: list[float]
    """The standard error of the difference, over rows."""
    log_evidence: Optional[list[tuple[float, float]]] = None
    """The log evidence of each model minus that of the first, and its standard error; None unless all were reviewed with `evidence=True`.
    It depends on the priors of the models."""

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
    """Refuses to compare leave-one-out with K-fold, or different folds."""
    kinds = {name: "k_fold" if isinstance(loo, KFold) else loo.kind for name, loo in found.items()}
    if len(set(kinds.values())) > 1:
        raise CoreletError(f"these are not comparable: {', '.join(f'{name} is of {kind}' for name, kind in kinds.items())}")
    folds = [loo.fold_i for loo in found.values() if isinstance(loo, KFold)]
    if any(not np.array_equal(folds[0], other) for other in folds[1:]):
        raise CoreletError("the models have different folds: use the same folds, seed and groups for all of them")


def _same_outcomes(known: Mapping[str, str]) -> None:
    """Refuses densities of other rows, or of rows in another order."""
    first = next(iter(known), "")
    others = [name for name, outcomes in known.items() if outcomes != known[first]]
    if others:
        raise CoreletError(
            f"the outcomes of {others[0]} are not those of {first}: other rows, rows in another order, or a transformed outcome, "
            "whose density is on another scale"
        )


def compare(models: Mapping[str, Union[Review, Loo, KFold]]) -> Compared:
    """Compare models of the same rows by their expected log predictive densities, with standard errors of the differences.

    Parameters
    ----------
    models
        A mapping of names to the results of `review`, or of `k_fold`, for the same rows in the same order. `arviz.compare` accepts
        `review.loo.to_arviz()`.
    """
    found = {str(name): model.loo if isinstance(model, Review) else model for name, model in models.items()}
    if len(found) < 2:
        raise CoreletError("give two models or more, by name")
    each: dict[str, Floats] = {}
    for name, loo in found.items():
        if not isinstance(loo, (Loo, KFold)):
            raise TypeError(f"{name} is of type {type(loo).__name__}; it must be a result of review or k_fold")
        if loo.elpd_i is None:
            raise CoreletError(f"{name} has no numbers per row: review with pointwise=True")
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
