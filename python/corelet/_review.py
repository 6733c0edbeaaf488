"""`corelet.review`: leave-one-out, predictive checks and influence, in one pass and without a matrix of draws by rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count, build, given, native
from ._certify import named, settings_of
from ._progress import ProgressOption, reporter
from ._types import Execution
from ._warn import warn
from .adapters.bridge import Bridge
from .adapters.evidence import Evidence, of_functions
from .adapters.gaussian import names_of
from .adapters.outcomes import Levels, Simulated, checked, levels_by
from .frames.formula import resolved
from .frames.units import Units, Which
from .results.draws import BARE, Draws
from .results.review import Review, review_from


def review(
    draws: Any,
    X: Any,
    y: Any = None,
    *,
    model: Optional[str] = None,
    log_weights: Any = None,
    scale: str = "original",
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = True,
    by: Optional[str] = None,
    evidence: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Review:
    """Leave-one-out predictive densities, predictive checks, and the influence of each row, from one pass over all rows.

    No matrix of draws × rows is held in memory, so the number of rows is not limited.

    Parameters
    ----------
    draws
        As for `corelet.certify`: a `Fit`, an InferenceData, a mapping of names to chains × draws, or an array.
    X, y, model, keywords
        The data and the model, as for `corelet.fit`; a `Fit` provides its own model and priors. `groups` are the clusters of the jackknife.
    log_weights
        The log importance weight of each draw, from a verdict, if the draws are those of a coreset and not of the posterior of all rows.
        For a `Fit` with grade A or B they are used automatically if needed.
    scale
        The scale of the coefficients: `original` for features in the units of the data, or `standardised`. A `Fit` has both.
    most
        Number of draws, evenly spaced, at which the log-likelihood of every row is evaluated.
    outcomes
        Number of draws at which an outcome of every row is simulated for the predictive checks; 0 for none.
    pointwise
        Whether to keep three numbers per row, which ArviZ's objects and the comparison of models need.
    by
        A column. Outcomes are also checked by its levels, or by ranges if it is numeric: `Review.by`.
    evidence
        Whether to estimate the log evidence (marginal likelihood) by bridge sampling, in another pass over all rows.
    seed, threads, progress
        As for `corelet.build`. Ctrl-C interrupts.

    Returns
    -------
    Review
        `loo`, `waic`, `influence` by parameter, and `fits`.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = rng.negative_binomial(1, 1 / (1 + np.exp(0.5 * X[:, 0])))
    >>> fits = {name: corelet.fit(X, y, model=name, k=80) for name in ("poisson", "negative-binomial")}
    >>> reviews = {name: corelet.review(fit, X, y) for name, fit in fits.items()}
    >>> reviews["poisson"].fits.misfits[0][:31], reviews["negative-binomial"].fits.misfits
    ('outcomes vary more than the mod', [])
    >>> corelet.compare(reviews).names[0]
    'negative-binomial'
    """
    unknown = set(keywords) - set(signature(build).parameters)
    if unknown:
        raise TypeError(f"review() has no keyword '{min(unknown)}'; it takes those of build() and its own")
    table = named(draws, scale)
    weights = weights_of(draws, log_weights, table.draws)
    X, y, asked, _ = resolved(X, y, dict(k=None, rest="none", **settings_of(draws, model, keywords)))
    native_keywords = native({name: value for name, value in asked.items() if name != "format"})
    settings = (_count("most", most), _count("outcomes", outcomes), bool(pointwise), _count("seed", seed), by, bool(evidence))
    with reporter(progress) as report, given(X, y, asked, native_keywords) as data:
        execution = Execution(report, _count("threads", threads))
        fields = _lib.review(data, native_keywords, table.fields(log_weights=weights), settings, execution)
    warn(*fields["warnings"])
    return review_from(fields)


def review_model(
    draws: Any,
    log_likelihood: Callable[[Any, Any], Any],
    *,
    n: int,
    y: Any = None,
    simulate: Optional[Callable[[Any, Any], Any]] = None,
    log_weights: Any = None,
    groups: Any = None,
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = True,
    by: Any = None,
    evidence: bool = False,
    log_prior: Optional[Callable[[Any], Any]] = None,
    seed: int = 0,
    threads: Optional[int] = None,
) -> Review:
    """`corelet.review` for any model: leave-one-out predictive densities, and the influence of each row on each parameter.

    Parameters
    ----------
    draws
        Draws of the posterior, in the form of a pilot of `corelet.fit_model`.
    log_likelihood
        `log_likelihood(theta, rows)` returns a matrix, draws by rows; as for `corelet.fit_model`.
    n
        Number of rows.
    y, simulate
        The outcome of each row, and `simulate(theta, rows)`, which simulates an outcome of these rows at each draw: draws by rows. With
        both, `fits` compares the outcomes with the model's predictions. Two classes are booleans, counts are integers.
    groups
        One label per row: the clusters of the jackknife.
    by
        One value per row (numbers, text, booleans). The outcomes are also checked by its levels or ranges: `Review.by`.
    evidence, log_prior
        Whether to estimate the log evidence by bridge sampling. This needs `log_prior(theta)`: the log density of the prior at each draw, as
        for `corelet.fit_model`, with all its constants. The parameters of the draws must then be unbounded.
    log_weights, most, outcomes, pointwise, seed, threads
        As for `corelet.review`.
    """
    if not callable(log_likelihood):
        raise TypeError("log_likelihood must be a function")
    found = Draws.of(draws)
    weights = weights_of(draws, log_weights, found)
    if (y is None) != (simulate is None):
        raise _lib.CoreletError("y and simulate are given together: what was observed, and what the model draws in its place")
    simulator = None if simulate is None else Simulated(simulate, y, n)
    if evidence and log_prior is None:
        raise _lib.CoreletError("evidence needs log_prior, the log density of the prior at each draw")
    n, seed, levels = _count("n", n), _count("seed", seed), levels_by(by, n)
    drawn = checked(simulator, log_likelihood, found, weights, _count("outcomes", outcomes), seed, levels)

    def bridged(some: Draws) -> Evidence:
        assert log_prior is not None
        return of_functions(log_likelihood, log_prior, n, some, seed)

    also = Also(drawn, levels, getattr(simulator, "observed", None), bridged if evidence else None)
    return reviewed(_Function(log_likelihood), found, Units(n, groups), weights, most, pointwise, also, threads)


@dataclass(frozen=True)
class Also:
    """What there is to review besides log-likelihoods."""

    outcomes: Optional[Any]
    """Checks of outcomes that the model drew."""
    levels: Optional[Levels]
    """The column by which they were made too."""
    observed: Optional[NDArray[np.float64]]
    """The outcome of each row."""
    evidence: Optional[Callable[[Draws], Evidence]]
    """What the log evidence needs of draws, where it is wanted."""


class _Function:
    """A function as what the engine asks."""

    at_once, last_steps = 1, 0

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        """Draws by rows."""
        return self._function(theta, rows)


def reviewed(
    tool: Any,
    draws: Draws,
    units: Units,
    log_weights: Optional[NDArray[np.float64]],
    most: int,
    pointwise: bool,
    also: Also,
    threads: Optional[int] = None,
) -> Review:
    """What the rows of a tool's model say of draws of its parameters."""
    draws.check_chains()
    if draws.count < 100:
        raise _lib.CoreletError(f"{draws.count} draws are too few for a review: at least 100 are needed")
    some = draws.thin(max(100, _count("most", most)))
    if log_weights is not None:
        weights = Draws({BARE: log_weights.reshape(*draws.shape, 1)}).thin(max(100, most))
        log_weights = np.ascontiguousarray(weights.values[BARE].ravel())
    bridge = Bridge(tool, units)
    table, chained, _ = bridge.given(some)
    names = [name for key, array in some.values.items() for name in names_of(key or "theta", array.shape[2:])]
    given_review = dict(
        theta=table,
        names=names,
        chained=chained,
        log_weights=log_weights,
        groups=units.codes,
        pointwise=pointwise,
        outcomes=also.outcomes,
        levels=[] if also.levels is None else also.levels.labels,
        observed=None if also.observed is None or not pointwise else np.ascontiguousarray(also.observed),
        evidence=None if also.evidence is None else also.evidence(some),
    )
    return review_from(_lib.review_target(bridge, given_review, Execution(None, _count("threads", threads))))


def weights_of(source: Any, log_weights: Any, draws: Draws) -> Optional[NDArray[np.float64]]:
    """The log weights that turn these draws into draws of the posterior of all rows; None if they already are."""
    if getattr(getattr(source, "verdict", None), "grade", None) == "C":
        warn("the fit is not certified (C): what is said of its draws holds for the posterior of all rows only if they happen to be of it")
    if log_weights is None:
        verdict = getattr(source, "verdict", None)
        known = getattr(verdict, "log_weights", None)
        if known is None or verdict is None or verdict.resampled or len(known) != draws.count:
            return None
        log_weights = known
    array = np.asarray(log_weights, dtype=np.float64).ravel()
    if len(array) != draws.count:
        raise _lib.CoreletError(f"there are {len(array)} log weights for {draws.count} draws")
    if np.isnan(array).any() or not np.isfinite(array.max()):
        raise _lib.CoreletError("log weights must be numbers, and one of them finite")
    return np.ascontiguousarray(array)
