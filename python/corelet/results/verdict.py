"""`Coreset.sample` and `corelet.check`: draws of the coreset's posterior, and whether they can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import arviz as _arviz
from . import html

from .. import _lib
from .._build import _count, arrays_in, data_parts, paths_of
from ..frames.columns import cells_of, length, same_cells
from .coreset import Coreset, weighted_rows
from .._check import check_loglik
from .predict import pointwise
from .._progress import ProgressOption, reporter
from .._seeds import seeded
from ..frames.spool import spooled
from .._types import Execution, Part
from .._warn import warn


GROUPS = (
    "posterior",
    "sample_stats",
    "warmup_posterior",
    "warmup_sample_stats",
    "log_likelihood",
    "posterior_predictive",
    "observed_data",
)


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether the posterior of a coreset matches that of all rows, from its draws θ and Δ(θ) = L(θ) − L_w(θ)."""

    grade: str
    """A: trusted. B: trusted after reweighting. C: not certified."""
    headline: str
    """The grade in words."""
    reasons: list[str]
    """The reasons why it is not an A, and for a C also why it is not a B."""
    variance: float
    """V = Var Δ, in nats²; to leading order both divergences are ½V."""
    variance_upper: float
    """The upper end of the one-sided 95 % interval of V."""
    kl_symmetrised: float
    """The sum of both divergences, from reweighted draws."""
    log_evidence_ratio: float
    """log Z − log Z_w: add this to the log evidence (marginal likelihood) of the weighted rows, as a tool reports it, to get that of all
    rows. Its size says nothing about the quality of the coreset, because it contains any constant of the log-likelihood."""
    ess: float
    """Effective sample size after reweighting."""
    ess_share: float
    """Importance-sampling efficiency of the weights e^Δ, between 0 and 1."""
    pareto_k: float
    """Pareto k̂, the tail index of the importance weights. With grade A no weights are needed, and k̂ is not meaningful."""
    pareto_threshold: float
    """The limit below which the importance weights are reliable."""
    n_draws: int
    """Number of draws that the verdict rests on."""
    log_weights: NDArray[np.float64]
    """Pareto-smoothed log importance weights, which turn these draws into draws of the posterior of all rows; their exponentials add
    up to 1."""
    lines: list[str] = field(default_factory=list)
    draws: dict[str, Any] = field(default_factory=dict)
    resampled: bool = False
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
    names: list[str] = field(default_factory=list)
    r_hat: float = float("nan")
    """The largest split R̂ of a parameter or of the log-likelihoods, if chains were given."""
    ess_bulk: float = float("nan")
    """The smallest bulk effective sample size of these."""
    ess_tail: float = float("nan")
    """The smallest tail effective sample size of these."""
    score_shift: float = float("nan")
    """The largest error of a mean of the draws in any direction, in standard deviations beyond sampling error, according to the gradient of
    the weighted posterior, if the gradient is known."""
    score_scale: tuple[float, float] = (float("nan"), float("nan"))
    """The smallest and the largest ratio of a variance of the draws to that of the weighted posterior, by the same test."""
    largest_shift: Optional[tuple[str, float, float]] = None
    """The parameter whose mean changes most, to first order, from the coreset to all rows: its name, the change in standard deviations, and
    its standard error. No direction changes by more than √V. For resampled draws, it is the change made by resampling."""
    largest_ratio: Optional[tuple[str, float, float]] = None
    """The parameter whose standard deviation changes most: its name, the change as a factor, and its standard error."""

    @property
    def certified(self) -> bool:
        """Whether the grade is A or B."""
        return self.grade != "C"

    @property
    def idata(self) -> Any:
        """The draws for ArviZ, a `DataTree`, or an `InferenceData` before ArviZ 1; for grade B resampled by their weights. A verdict of
        `check` with `loglik` has none."""
        if not self.draws:
            raise _lib.CoreletError("this verdict judged your own draws, and has none to return")
        groups = dict(self.draws)
        if self.kept:
            groups.update(pointwise(self.kept["sampling"], self.kept["rows"], groups["posterior"]))
        attributes = {"verdict": self.grade, "resampled": str(self.resampled)}
        return inference_data(groups, self.names, attributes, self.kept.get("rows"))

    def resampled_by_weights(self) -> Verdict:
        """This verdict, for draws that were resampled."""
        return replace(self, resampled=True)

    def __repr__(self) -> str:
        return "\n".join([self.headline, *self.lines])

    def _repr_html_(self) -> str:
        return html.badge(self.grade, self.headline) + html.folded("What it rests on", self.lines)


def draws_of(coreset: Coreset, settings: Mapping[str, object], execution: Execution) -> dict[str, Any]:
    """Runs NUTS on the weighted rows: `posterior`, `sample_stats` and the same for the warm-up, as arrays."""
    if not coreset.sampling:
        raise _lib.CoreletError(
            "this coreset was built from log-likelihoods, so corelet has no model to sample; fit the weighted model in "
            "the tool in which it is written"
        )
    return _lib.sample_coreset(coreset.sampling, coreset.weights, settings, execution)


def verdict_from(fields: dict[str, Any], names: Optional[list[str]] = None) -> Verdict:
    """From what the native part returns."""
    fields["reasons"] = json.loads(fields["reasons"])
    return Verdict(**fields, names=names or [])


def sample(coreset: Coreset, settings: Mapping[str, object], threads: Optional[int], progress: ProgressOption) -> Any:
    """See `Coreset.sample`; the settings are those of `chain_settings`."""
    _arviz.load()  # If ArviZ is missing, fail before the chains run.
    with reporter(progress) as report:
        fields = draws_of(coreset, settings, Execution(report, _count("threads", threads)))
    fields.update(pointwise(coreset.sampling, coreset.rows, fields["posterior"], int(str(settings["seed"]))))
    return inference_data(fields, coreset.names, {"model": str(coreset.summary["model"])}, coreset.rows)


@seeded
def check(
    coreset: Coreset,
    X: Any = None,
    y: Any = None,
    *,
    exposure: Any = None,
    trials: Any = None,
    event: Any = None,
    weights: Any = None,
    offset: Any = None,
    loglik: Any = None,
    idata: Any = None,
    var_name: Optional[str] = None,
    format: Optional[str] = None,
    draws: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    tune: Optional[int] = None,
    random_seed: Optional[int] = None,
) -> Verdict:
    """Certify a coreset's posterior with draws from it and one pass over all rows.

    Parameters
    ----------
    coreset
        The result of `corelet.build` or `corelet.build_from_loglik`. Its `quality.verdict` is set to the verdict.
    X, y, exposure, trials, event, weights, offset, format
        The data that it was built on, as they were given to `corelet.build`, or the same rows in another form: a path instead of a
        table, or a table instead of a path. NUTS samples the coreset's posterior, and the log-likelihood of all rows at these draws
        is compared with the weighted one.
    loglik, idata, var_name
        For any other model: the log-likelihoods of all rows at draws of *the weighted fit*. Best pass its draws (InferenceData or
        DataTree) as `idata`. Either they have a `log_likelihood` group of all rows, or `loglik` is a function `fn(theta, rows)`, which is
        called in blocks with the variables of the posterior (a mapping of names to draws × …) and a slice of rows. Then the chains of
        every parameter are judged too. An array of chains by draws by rows is judged by the chains of its log-likelihoods alone. A matrix
        of draws by rows has no chains, and gets at most a B.
    draws, warmup, chains, target_accept, max_depth, seed, threads, progress
        Settings of NUTS, as for `corelet sample`. `tune` and `random_seed` are other names for `warmup` and `seed`.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> cs = corelet.build(X, y, k=60)
    >>> verdict = corelet.check(cs, X, y)
    >>> verdict.grade, verdict.certified, cs.quality.verdict is verdict
    ('A', True, True)
    """
    if loglik is not None or idata is not None:
        if X is not None:
            raise _lib.CoreletError("give either the data (X, y) or loglik, not both")
        fields = check_loglik(coreset, loglik, idata, var_name)
    else:
        if X is None or not coreset.options:
            if coreset.rest is not None and not coreset.options:
                check_loglik(coreset, None, None, None)
            raise _lib.CoreletError(
                "a coreset of log-likelihoods is checked by loglik, those of all data at draws of the weighted fit"
                if not coreset.options
                else "give the data that the coreset was built on, X and y"
            )
        settings = chain_settings(draws, warmup, chains, target_accept, max_depth, seed, tune, random_seed)
        with reporter(progress) as report:
            execution = Execution(report, _count("threads", threads))
            beside = dict(exposure=exposure, trials=trials, event=event, weights=weights, offset=offset)
            fields = drawn((X, y, beside), format, coreset.options, coreset, settings, execution)
    return judged_by(coreset, fields)


def judged_by(coreset: Coreset, fields: dict[str, Any]) -> Verdict:
    """The verdict from the native part, also stored in the coreset."""
    issued = fields.pop("warnings", [])
    blocks = fields.pop("blocks", None)
    if blocks is not None:
        # The certificate of these draws, for `update`.
        coreset.metadata["corelet.blocks"] = blocks
    verdict = verdict_from(fields, coreset.names)
    if coreset.sampling:
        verdict = replace(verdict, kept={"sampling": coreset.sampling, "rows": coreset.rows})
    coreset.quality = replace(coreset.quality, verdict=verdict)
    warn(*issued)
    return verdict


def drawn(
    given: tuple[Any, Any, Mapping[str, Any]],
    format: Optional[str],
    options: Mapping[str, object],
    coreset: Optional[Coreset],
    settings: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]:
    """The native part's judgement of draws from the posterior of a coreset of the given data (X, y, other arrays), or of all rows."""
    keywords = dict(options)
    if coreset is not None and coreset.design is not None and given[1] is None:
        given = (coreset.design.table(given[0]), coreset.design.target_of(given[0]), given[2])
    chosen = None if coreset is None else weighted_rows(coreset)
    paths = paths_of(*given)
    if paths is not None:
        return _lib.check((paths, format), keywords, chosen, settings, execution)
    alone = given[1] is None and not arrays_in(given[2])
    folder: Any = keywords.get("scratch")
    with spooled(given[0] if alone else None, folder) as handle:
        if handle is not None:
            return _lib.check(handle, keywords, chosen, settings, execution)
    parts = data_parts(*given, keywords)
    if coreset is not None:
        _check_rows(parts, coreset)
    return _lib.check(("data", parts), keywords, chosen, settings, execution)


def _check_rows(parts: list[Part], coreset: Coreset) -> None:
    """Verifies that the chosen rows have not changed since they were chosen."""
    if len(coreset) == 0 or coreset.rows[-1] >= length(parts):
        return  # The native part raises the error.
    for name, values in cells_of(parts, coreset.rows):
        kept = coreset.columns.get(name)
        if kept is None:
            continue
        differs = ~same_cells(values, np.asarray(kept))
        if differs.any():
            at = int(np.argmax(differs))
            raise _lib.CoreletError(
                f"these are not the data that the coreset was built on, or their rows are in another order: column '{name}' "
                f"of row {coreset.rows[at]} is {values[at]} here, and was {kept[at]} there"
            )


def chain_settings(
    draws: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    tune: Optional[int] = None,
    random_seed: Optional[int] = None,
) -> Mapping[str, object]:
    """The settings of NUTS; `tune` and `random_seed` are what other tools call `warmup` and `seed`."""
    return dict(
        draws=_count("draws", draws),
        warmup=_count("warmup", warmup if tune is None else tune),
        chains=_count("chains", chains),
        target_accept=float(target_accept),
        max_depth=_count("max_depth", max_depth),
        seed=_count("seed", seed if random_seed is None else random_seed),
    )


def inference_data(
    fields: Mapping[str, Any], names: list[str], attributes: Mapping[str, str], rows: Optional[NDArray[np.int64]] = None
) -> Any:
    """Draws for ArviZ: `original` and `standardised`, each chain × draw × parameter; the warm-up in its own group; and for the
    rows of the coreset `y`, chain × draw × row."""
    dims = {"original": ["parameter"], "standardised": ["parameter"], "y": ["row"]}
    coords: dict[str, ArrayLike] = {"parameter": names} if rows is None else {"parameter": names, "row": rows}
    groups = {
        group: fields[group]
        for group in GROUPS
        if group in fields
    }
    groups["posterior"] = {**groups["posterior"], **natural(groups["posterior"]["original"], names)}
    return _arviz.inference_data(groups, coords=coords, dims=dims, attributes=attributes)


def natural(original: NDArray[np.float64], names: list[str]) -> dict[str, NDArray[np.float64]]:
    """Parameters that belong to no feature, on their natural scale: `sigma` for `log_sigma`, …, and the `cutpoints` of ordered levels."""
    gaps = [at for at, name in enumerate(names) if name.startswith("log_gap_")]
    if not gaps:
        logs = [(at, name) for at, name in enumerate(names) if name in ("log_sigma", "log_nu", "log_size", "log_shape")]
        return {name[4:]: np.exp(original[..., at]) for at, name in logs}
    # The cutpoint in the middle is 0 but for the intercept.
    steps = np.concatenate([np.zeros((*original.shape[:-1], 1)), np.cumsum(np.exp(original[..., gaps]), axis=-1)], axis=-1)
    middle = (len(gaps) + 2) // 2 - 1
    shift = original[..., names.index("(intercept)")] if "(intercept)" in names else np.zeros(original.shape[:-1])
    return {"cutpoints": steps - steps[..., [middle]] - shift[..., None]}
