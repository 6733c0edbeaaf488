"""`corelet.certify`: given draws, tested against the posterior of all rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count, build, given, native
from ._progress import ProgressOption, reporter
from ._types import Execution
from ._warn import warn
from .adapters.gaussian import names_of
from .frames.formula import resolved
from .results.arviz import dataset_of
from .results.certificate import Certificate, certificate_from
from .results.draws import BARE, Draws


def looked_at(draws: Draws) -> int:
    """The largest number of draws at which all rows are evaluated. With few draws a missing tail would go unnoticed."""
    return _lib.draws_looked_at(sum(int(np.prod(values.shape[2:])) for values in draws.values.values()))


def certify(
    draws: Any,
    X: Any = None,
    y: Any = None,
    *,
    model: Optional[str] = None,
    log_density: Any = None,
    scale: str = "original",
    gradient: Optional[Callable[[Any], Any]] = None,
    log_posterior: Optional[Callable[[Any], Any]] = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Certificate:
    """Certify whether given draws (of ADVI, Pathfinder, a Laplace fit, INLA, an earlier fit) are draws of the posterior of all rows.

    The test evaluates the gradient of the log posterior over all rows at 1000 of the draws, or at 100 per parameter up to 4000. Draws of
    the posterior satisfy Stein's identities: the mean gradient is zero, and its products with the draws have known means. Deviations from
    these give the shift and the scale of each parameter. If the log density of the draws is known, importance weights are judged too.

    Parameters
    ----------
    draws
        A `Fit`, an InferenceData or DataTree, a mapping of names to chains × draws, or an array of chains × draws × parameters in the
        order of the model's parameters (coefficients, then the intercept, then dispersions). A single chain may be draws × parameters. An
        A needs two mixed chains or `log_density`.
    X, y, model, keywords
        The data and the model, as for `corelet.fit`: a file or a data frame with `target=`, `prior_sd`, `priors`, …. The draws
        are judged under these priors. A `Fit` provides its own model, priors and standardisation; for other draws the default model is
        `logistic`.
    log_density
        The log density of the approximation (ADVI, Pathfinder, Laplace) at each draw, up to a constant, on the scale of the draws: chains ×
        draws, or draws.
    scale
        The scale of the coefficients: `original` for features in the units of the data, or `standardised`. A `Fit` has both.
    gradient, log_posterior
        Instead of X, for any model: `gradient(theta)` returns the gradient of the log posterior of all rows at each draw, in the shape
        of `theta`. `theta` are draws with chains merged, of unbounded parameters. `log_posterior(theta)` returns the value, which
        `log_density` requires. For PyMC and NumPyro see `corelet.pymc.certify` and `corelet.numpyro.certify`.
    threads, progress
        As for `corelet.build`. Ctrl-C interrupts.

    Returns
    -------
    Certificate
        `grade`, and for each parameter `shift` and `scale` with their errors.

    Examples
    --------
    Draws of a small logistic regression, and the same draws with one coefficient shifted:

    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> fit = corelet.fit(X, y, k=60)
    >>> corelet.certify(fit, X, y).grade
    'A'
    >>> off = fit.draws["original"].copy()
    >>> off[:, :, 0] += 0.05
    >>> certificate = corelet.certify(off, X, y)
    >>> certificate.grade, bool(certificate.shift[0] > 1)
    ('C', True)
    """
    if gradient is not None:
        if X is not None:
            raise _lib.CoreletError("give either the data (X, y) or gradient, not both")
        return _by_functions(Draws.of(draws), gradient, log_posterior, log_density)
    if X is None:
        raise _lib.CoreletError("give the data, X and y, or the gradient of the log posterior")
    unknown = set(keywords) - set(signature(build).parameters)
    if unknown:
        raise TypeError(f"certify() has no keyword '{min(unknown)}'; it takes those of build() and its own")
    table = named(draws, scale)
    looked = table.draws.thin(looked_at(table.draws))
    X, y, asked, _ = resolved(X, y, dict(k=None, rest="none", **settings_of(draws, model, keywords)))
    native_keywords = native({name: value for name, value in asked.items() if name != "format"})
    with reporter(progress) as report, given(X, y, asked, native_keywords) as data:
        execution = Execution(report, _count("threads", threads))
        fields = _lib.certify(data, native_keywords, table.fields(densities(log_density, table.draws)), execution)
    warn(*fields["warnings"])
    return certificate_from(fields, looked)


OF_FIT = ("model", "link", "sigma", "degrees", "prior_sd", "priors", "positive", "levels", "standardise", "intercept")
"""The settings of a model that a fit provides."""


def settings_of(draws: Any, model: Optional[str], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `build`, completed by those of the fit that made the draws."""
    coreset = getattr(draws, "coreset", None)
    known = dict(getattr(coreset, "options", None) or {})
    if coreset is not None and "model" not in known:
        known["model"] = coreset.summary.get("model")
    asked = {name: known[name] for name in OF_FIT if known.get(name) is not None}
    asked["model"] = model or asked.get("model") or "logistic"
    changed = [name for name, value in dict(keywords, model=asked["model"]).items() if name in OF_DESIGN and value != known.get(name)]
    asked.update(keywords)
    if not changed and coreset is not None:
        asked["like"] = design_of(coreset.metadata)
    return asked


OF_DESIGN = ("model", "positive", "levels", "standardise", "intercept")
"""The settings that determine how rows are encoded, besides the choice of features."""


def design_of(metadata: Mapping[str, str]) -> Optional[dict[str, Any]]:
    """The encoding and scale of a coreset's rows, for encoding other rows in the same way; None if the metadata do not contain it."""
    names = ("encoding", "levels", "standardisation")
    if "corelet.encoding" not in metadata:
        return None
    return {name: json.loads(metadata[f"corelet.{name}"]) for name in names}


@dataclass(frozen=True)
class Named:
    """Draws as columns with names, or in the order of the model's parameters."""

    draws: Draws
    names: Optional[list[str]]
    original: bool

    def fields(
        self, log_density: Optional[NDArray[np.float64]] = None, log_weights: Optional[NDArray[np.float64]] = None
    ) -> dict[str, Any]:
        """As the native part takes them."""
        count = self.draws.count
        columns = [array.reshape(count, -1) for array in self.draws.values.values()]
        return dict(
            theta=np.ascontiguousarray(np.concatenate(columns, axis=1, dtype=np.float64)),
            names=self.names,
            chains=self.draws.shape[0],
            original=self.original,
            diverged=self.draws.diverged,
            log_density=log_density,
            log_weights=log_weights,
        )


def named(draws: Any, scale: str = "original") -> Named:
    """Draws of a built-in model, from any form in which users may have them."""
    if scale not in ("original", "standardised"):
        raise _lib.CoreletError(f"scale is '{scale}', but it must be one of original, standardised")
    found = Draws.of(draws)
    values = found.values
    if {"original", "standardised"} <= values.keys() and values["original"].ndim == 3:
        # Draws made by corelet. The standardised scale may be that of other rows, as after an update; the original scale is the same.
        return Named(Draws({BARE: values["original"]}, found.chained, found.diverged), _parameters(draws), True)
    found.check_chains()
    original = scale == "original"
    if BARE in values:
        return Named(found, None, original)
    wide = [name for name, array in values.items() if array.ndim > 2]
    if len(values) == 1 and wide:
        return Named(Draws({BARE: values[wide[0]]}, found.chained, found.diverged), None, original)
    if wide:
        raise _lib.CoreletError(
            f"variable '{wide[0]}' has several numbers, which have no names: give a mapping with one entry for each parameter, or an "
            "array of chains × draws × parameters"
        )
    return Named(found, list(values), original)


def _parameters(draws: Any) -> Optional[list[str]]:
    """The names of the parameters of draws made by corelet, if available."""
    if hasattr(draws, "posterior"):
        coordinates = dataset_of(draws, "posterior")["original"].coords
        return [str(name) for name in coordinates["parameter"].values] if "parameter" in coordinates else None
    names = getattr(getattr(draws, "coreset", None), "names", None)
    return list(names) if names else None


def densities(log_density: Any, draws: Draws) -> Optional[NDArray[np.float64]]:
    """The log density at each draw, chains one after the other."""
    if log_density is None:
        return None
    array = np.asarray(log_density, dtype=np.float64)
    if array.shape not in (draws.shape, (draws.count,)):
        chains, length = draws.shape
        raise _lib.CoreletError(f"log_density has shape {array.shape}; it must be one number for each draw, {chains} × {length}")
    if not np.isfinite(array).all():
        raise _lib.CoreletError(f"log_density of draw {int(np.argmin(np.isfinite(array.ravel())))} is not finite")
    return np.ascontiguousarray(array.reshape(-1))


def claimed(
    draws: Draws,
    table: NDArray[np.float64],
    names: list[str],
    n: int,
    density: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
    log_density: Any,
) -> Certificate:
    """The certificate of draws whose unconstrained numbers are `table`, by the log posterior of all rows and its gradient."""
    at = Draws({BARE: table.reshape(*draws.shape, -1)}, draws.chained)
    most = looked_at(at)
    looked = np.ascontiguousarray(at.thin(most).flat(), dtype=np.float64)
    edge = ~np.isfinite(table).all(axis=1)
    if edge.any():
        raise _lib.CoreletError(
            f"draw {int(np.argmax(edge))} is at the edge of what a parameter may be, or beyond: are the draws on the scale of the model, "
            "and not on the unconstrained one?"
        )
    values, gradients = density(looked)
    given_density = densities(log_density, draws)
    if given_density is not None:
        thinned = Draws({BARE: given_density.reshape(*draws.shape, 1)}).thin(most)
        given_density = np.ascontiguousarray(thinned.values[BARE].ravel())
    fields = _lib.certify_claim(
        dict(
            theta=np.ascontiguousarray(table, dtype=np.float64),
            looked=looked,
            # Draws whose chains are unknown count as one chain.
            chains=draws.shape[0] if draws.chained else 1,
            gradient=np.ascontiguousarray(gradients, dtype=np.float64),
            log_posterior=np.ascontiguousarray(values, dtype=np.float64),
            log_density=given_density,
            diverged=draws.diverged,
            names=names,
            n=n,
        )
    )
    return certificate_from(fields, draws.thin(most))


def _by_functions(
    draws: Draws, gradient: Callable[[Any], Any], log_posterior: Optional[Callable[[Any], Any]], log_density: Any
) -> Certificate:
    if log_density is not None and log_posterior is None:
        raise _lib.CoreletError("log_density needs log_posterior beside it: weights are the ratio of both")
    some = draws.thin(looked_at(draws))
    theta = some.flat()

    def density(_: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        answer = gradient(theta)
        points = theta if isinstance(theta, Mapping) else {BARE: theta}
        given = answer if isinstance(answer, Mapping) else {BARE: answer}
        shapes = {name: np.shape(values) for name, values in points.items()}
        if {name: np.shape(values) for name, values in given.items()} != shapes:
            raise _lib.CoreletError("gradient must return what has the shape of theta: an array, or one for each variable")
        gradients = np.concatenate([np.asarray(given[name], np.float64).reshape(some.count, -1) for name in points], axis=1)
        values = np.zeros(some.count) if log_posterior is None else np.asarray(log_posterior(theta), np.float64)
        if values.shape != (some.count,):
            raise _lib.CoreletError(f"log_posterior returned shape {values.shape}; it must be one number for each of {some.count} draws")
        return values, gradients

    columns = [array.reshape(draws.count, -1) for array in draws.values.values()]
    names = [name for key, array in draws.values.items() for name in names_of(key or "theta", array.shape[2:])]
    table = np.concatenate(columns, axis=1, dtype=np.float64)
    return claimed(draws, table, names, 0, density, log_density)
