"""`corelet.pymc.fit`: a PyMC or bambi model, unchanged, fitted with a coreset."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np
from threadpoolctl import threadpool_limits

from ._build import _count
from ._certify import claimed
from ._fit import Fit, FitProgressOption, announce, plan_of
from ._lib import CoreletError
from ._review import Also, reviewed, weights_of
from ._k_fold_model import folded
from ._seeds import seeded
from ._update_model import Union, known, updated
from .adapters.evidence import Evidence, of_model
from .adapters.outcomes import checked, levels_by
from .adapters.pymc_fit import Asked
from .adapters.pymc_model import Sampler
from .adapters.pymc_outcomes import column_of, improper, outcomes_in, outcomes_of
from .frames.units import Units
from .results.certificate import Certificate
from .results.draws import Draws
from .results.review import KFold, Review

__all__ = ["certify", "fit", "k_fold", "review", "update"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@seeded
def fit(
    model: Any,
    *,
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    pilot: Any = 1000,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    sampler: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
    progress: FitProgressOption = None,
    rest: str = "auto",
    marginalise: str = "auto",
    force: bool = False,
) -> Fit:
    """Fit a PyMC or bambi model with a coreset of its rows: pilot, rounds, final chains and the verdict.

    The model is not changed. Its priors, potentials and deterministic variables are kept, and a weight multiplies the log-likelihood of each
    row of the observed variables. A check always verifies, for some rows, that their log-likelihood by themselves equals their
    log-likelihood within the whole model.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) per row, or a `bambi.Model`.
    k, max_k, pilot, groups, max_rounds, seed, progress, force
        As in `corelet.fit_model`. By default k is 300 rows, or 50 groups if a latent variable is integrated out. `pilot` may be an
        InferenceData of ADVI, Pathfinder or an earlier fit.
    draws, tune, chains
        Draws, warm-up and number of the final chains.
    sampler
        `nutpie`, which compiles the model once, or `pymc`; by default nutpie if it is installed.
    options
        Passed on to `nutpie.sample` or `pymc.sample`, for instance `{"target_accept": 0.95}`.
    rest
        `auto`: if the model has more parameters than k rows can carry, one Gaussian factor replaces all rows (`fit.coreset.rest`; the
        priors are unchanged). Rows are added only if its verdict is not an A. `gaussian`: always this factor. `none`: rows only.
    marginalise
        `auto`: a latent variable with one value for each of at least 500 groups, of at most 100 rows on average, is integrated out by
        adaptive Gauss–Hermite quadrature. Each row must depend only on the value of its own group, and the values must be independent
        given the other parameters. Then whole groups are chosen, Corelet's own NUTS samples the other parameters, and
        `fit.random_effects()` returns the values. A vector with fewer values is integrated out only in place of sampling all
        rows, if that is expected to be faster. Not with `groups` or `sampler`. The name of a variable: integrate out that variable,
        whatever the number of groups. `none`: sample all variables.

    Examples
    --------
    ::

        with pm.Model() as model:
            slope = pm.Normal("slope", 0, 5)
            sigma = pm.HalfNormal("sigma", 2)
            nu = pm.Gamma("nu", 2, 0.1)
            pm.StudentT("y", nu=nu, mu=slope * x, sigma=sigma, observed=y)
        fit = corelet.pymc.fit(model, k=300)
        fit.verdict, fit.idata
    """
    began = time.perf_counter()
    given = None if isinstance(pilot, (int, np.integer)) else pilot
    with _at_work():
        tool = Sampler(model, draws, tune, chains, seed, sampler, dict(options or {}))
        units = Units(tool.n, groups)
        rows = 1000 if given is not None else _count("pilot", pilot)
        plan = plan_of(units, 300 if k is None else k, max_k, rows, None, max_rounds, seed, None, force)
        plan.began = began
        announce(progress, plan, units, tool.parameters)
        tool.check_slicing(seed)
        if groups is not None and marginalise not in ("auto", "none"):
            raise CoreletError(f"groups and marginalise='{marginalise}' do not go together: the groups are those of the variable")
        most = None if max_k is None else _count("max_k", max_k)
        asked = Asked(tool, units, plan, None if k is None else plan.k, most, given, progress, rest, marginalise)
        return asked.fit(groups is None, sampler)


def certify(model: Any, draws: Any, *, log_density: Any = None, seed: int = 0) -> Certificate:
    """Certify whether given draws of a PyMC or bambi model are draws of the posterior of all its rows.

    The test evaluates the gradient of the log posterior of all rows at a sample of the draws; see `corelet.certify`.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) per row, or a `bambi.Model`.
    draws
        Draws of the free variables, on their own scale: an InferenceData or DataTree (of `pm.fit(…).sample()`, Pathfinder, an earlier fit), or
        a mapping of names to chains × draws × ….
    log_density
        The log density of the approximation at each draw, on the unconstrained scale that PyMC's ADVI and Pathfinder use.
    seed
        The random seed for the rows with which the model is checked.

    Examples
    --------
    ::

        with model:
            approximation = pm.fit(method="advi")
        corelet.pymc.certify(model, approximation.sample(1000))
    """
    given = Draws.of(draws)
    with _at_work():
        tool = Sampler(model, 4, 1, 1, seed, "pymc", {})
        tool._loglik.compile()
        tool.check_slicing(seed)
        some = given.only(tool.free.names)
        some.check_shapes(dict(zip(tool.free.names, tool.free.shapes)))
        return claimed(some, tool.unconstrained(some), tool.coordinates(), tool.n, tool.log_posterior, log_density)


def review(
    model: Any,
    draws: Any,
    *,
    log_weights: Any = None,
    groups: Any = None,
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = True,
    by: Any = None,
    evidence: bool = False,
    seed: int = 0,
) -> Review:
    """Review a PyMC or bambi model: leave-one-out predictive densities, predictive checks, and the influence of each row.

    This takes one pass over all rows, without a matrix of draws by rows; see `corelet.review`.

    Parameters
    ----------
    model
        A `pymc.Model` whose observed variables have one entry (or one line) per row, or a `bambi.Model`.
    draws
        Draws of the free variables, on their own scale: a `Fit`, an InferenceData or DataTree, or a mapping of names to chains × draws × ….
    log_weights, groups, most, pointwise
        As in `corelet.review_model`.
    outcomes
        Number of draws at which an outcome of every row is simulated for the predictive checks; 0 for none. This needs a single observed
        variable whose outcomes are numbers, counts or two classes.
    by
        One value per row, or the name of a column of a bambi model's data or of a `pm.Data`. The outcomes are also checked by its levels or ranges: `Review.by`.
    evidence
        Whether to estimate the log evidence by bridge sampling: another pass over all rows, at up to `most` points. Potentials and
        densities of your own count as they are, without a normalising constant.
    seed
        The random seed for the rows with which the model is checked, and for simulated outcomes.
    """
    given = Draws.of(draws)
    with _at_work():
        tool = Sampler(model, 4, 1, 1, seed, "pymc", {})
        tool._loglik.compile()
        tool.check_slicing(seed)
        some = given.only(tool.free.names)
        some.check_shapes(dict(zip(tool.free.names, tool.free.shapes)))
        weights = weights_of(draws, log_weights, some)
        levels = levels_by(by, tool.n, lambda name: column_of(tool, model, name))
        simulator = outcomes_of(tool.model, tool.free, tool.n, seed) if outcomes else None
        drawn = checked(simulator, tool.log_likelihood, some, weights, outcomes, seed, levels)

        def bridged(draws: Draws) -> Evidence:
            return of_model(tool, tool.n, draws, improper(tool.free), seed)

        also = Also(drawn, levels, outcomes_in(tool.model), bridged if evidence else None)
        return reviewed(tool, some, Units(tool.n, groups), weights, most, pointwise, also)


@seeded
def k_fold(
    model: Any,
    fitted: Any,
    *,
    folds: int = 10,
    k: int = 300,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    sampler: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
) -> KFold:
    """K-fold cross-validation of a PyMC or bambi model: see `corelet.k_fold_model`.

    Parameters
    ----------
    model
        As for `corelet.pymc.fit`.
    fitted
        Draws of the posterior of all rows: a `Fit`, an InferenceData or DataTree, or a mapping of names to chains × draws × ….
    folds, groups
        As for `corelet.k_fold_model`.
    k, draws, tune, chains, seed, sampler, options
        Settings of the coreset of each fold, as for `corelet.pymc.fit`.
    """
    found = getattr(fitted, "_draws", None)
    given = found if isinstance(found, Draws) else Draws.of(fitted)
    with _at_work():
        tool = Sampler(model, draws, tune, chains, seed, sampler, dict(options or {}))
        tool.check_slicing(seed)
        tool.compile()
        units = Units(tool.n, groups)
        plan = plan_of(units, k, None, 1000, None, 10, seed, None)
        some = given.only(tool.free.names)
        some.check_shapes(dict(zip(tool.free.names, tool.free.shapes)))
        return folded(tool, some, units, plan, _count("folds", folds), outcomes_in(tool.model))


@seeded
def update(
    fit: Fit,
    model: Any,
    *,
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    sampler: Optional[str] = None,
    options: Optional[Mapping[str, Any]] = None,
    allow_repeats: bool = False,
    progress: FitProgressOption = None,
) -> Fit:
    """Add the rows of a model to a fit of the same model on other rows, or to an update of one: see `corelet.update_model`.

    Parameters
    ----------
    fit
        What `corelet.pymc.fit` or `update` returned, by rows alone (`rest="none"`, `marginalise="none"`, without `groups`).
    model
        The same model, written by the same code, with the new rows alone as its data: with the levels and the scales that the earlier rows had.
        A check verifies that the rows of the fit's coreset have the log-likelihood in it that they had, and that the prior is the same.
    draws, tune, chains, sampler, options
        Of the final chains, as for `corelet.pymc.fit`.
    k, max_k, max_rounds, seed, allow_repeats, progress
        As for `corelet.update_model`.

    Examples
    --------
    ::

        fit = corelet.pymc.fit(model_of(september), rest="none")
        fit = corelet.pymc.update(fit, model_of(october))
    """
    earlier = known(fit, Sampler)
    with _at_work():
        tool = Sampler(model, draws, tune, chains, seed, sampler, dict(options or {}))
        tool.check_slicing(seed)
        rows = np.arange(tool.n)
        union = Union(tool, earlier, rows, tool.append(earlier.tool, earlier.rows))
        tool.compile()
        return updated(fit, union, (k, max_k, max_rounds, seed, None), allow_repeats, progress, tool.inference_data)


@contextmanager
def _at_work() -> Iterator[None]:
    """Silences pytensor's warnings about compilers that are not used, and limits each matrix product to one thread: several blocks of
    rows are processed at a time already, and both kinds of threads would wait for each other."""
    with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="blas"):
        warnings.filterwarnings("ignore", category=UserWarning, module="pytensor")
        yield
