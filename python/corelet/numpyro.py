"""`corelet.numpyro.fit`: a NumPyro model, unchanged, fitted with a coreset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ._build import _count
from ._certify import claimed
from ._fit import Fit, FitProgressOption, announce, plan_of, run_rounds
from ._lib import CoreletError, gaussian_first
from ._review import Also, reviewed, weights_of
from ._k_fold_model import folded
from ._seeds import seeded
from ._update_model import Union, known, updated
from ._warn import warn
from .adapters.chains import Steps, lengths_of
from .adapters.evidence import Evidence, of_model
from .adapters.integrated import fit_integrated, groups_of
from .adapters.numpyro_marginal import NumPyroMarginal, integrated, sought
from .adapters.numpyro_model import Sampler
from .adapters.numpyro_outcomes import column_of, improper, observed_of, outcomes_of
from .adapters.numpyro_rows import Rows
from .adapters.outcomes import checked, levels_by
from .frames.units import Units
from .results.certificate import Certificate
from .results.draws import Draws
from .results.review import KFold, Review

__all__ = ["certify", "fit", "k_fold", "review", "update"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


FELT = 0.02
"""An error of the log density, in nats, that makes NUTS take smaller steps."""
CHECKED = 16
"""Number of draws at which a model is evaluated to see whether it can be."""


@seeded
def fit(
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    pilot: Any = 1000,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 300,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    kernel: Optional[Mapping[str, Any]] = None,
    progress: FitProgressOption = None,
    rest: str = "auto",
    marginalise: str = "auto",
    force: bool = False,
) -> Fit:
    """Fit a NumPyro model with a coreset of its rows: pilot, rounds, final chains and the verdict.

    The model is not changed. Rows are the first axis of every array argument that is as long as the observed sites, and a weight
    multiplies the log-likelihood of each row. Two checks are always made: some rows by themselves have the same log-likelihood as among
    all rows, and priors and factors do not depend on which rows the model is given. The model is compiled for one number of rows;
    unused places have weight 0.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments. An integer argument that equals the number of rows is not changed, unless the model
        cannot be evaluated on fewer rows without the change. Then it is the size of a plate, and is set to the number of rows.
    k, max_k, pilot, groups, max_rounds, seed, progress, force
        As in `corelet.fit_model`; k is 300 rows, or 50 groups where a latent site is integrated out. `pilot` may be a mapping of sites to
        chains × draws × ….
    draws, tune, chains
        Draws and number of the final chains, and the warm-up of the chains of every round.
    kernel
        Passed on to `numpyro.infer.NUTS`, for instance `{"target_accept_prob": 0.95}`.
    rest
        `auto`: if the model has more parameters than k rows can carry, one Gaussian factor replaces all rows (`fit.coreset.rest`; the
        priors are unchanged). Rows are added only if its verdict is not an A. `gaussian`: always this factor. `none`: rows only.
    marginalise
        `auto`: a latent site with one value for each of at least 500 groups, of at most 100 rows on average, is integrated out by adaptive
        Gauss–Hermite quadrature. Each row must depend only on the value of its own group, and the values must be independent given
        the other parameters. Then whole groups are chosen, Corelet's own NUTS samples the other parameters, and
        `fit.random_effects()` returns the values. Not with `groups`, with settings in `kernel` other than `target_accept_prob`, or in
        single precision. The name of a site: integrate out that site, whatever the number of groups. `none`: sample all sites.

    Examples
    --------
    ::

        def model(x, y):
            slope = numpyro.sample("slope", dist.Normal(0, 5))
            sigma = numpyro.sample("sigma", dist.HalfNormal(2))
            nu = numpyro.sample("nu", dist.Gamma(2, 0.1))
            numpyro.sample("y", dist.StudentT(nu, slope * x, sigma), obs=y)

        fit = corelet.numpyro.fit(model, args=(x, y), k=300)
        fit.verdict, fit.idata
    """
    began = time.perf_counter()
    given = None if isinstance(pilot, (int, np.integer)) else Draws.of(pilot)
    rows = 1000 if given is not None else _count("pilot", pilot)
    table = Rows(model, tuple(args), dict(kwargs or {}))
    units = Units(table.n, groups)
    settings = (max_k, rows, None, max_rounds, seed, None, force)
    plan = plan_of(units, 300 if k is None else k, *settings)
    plan.began = began
    announce(progress, plan, units, table.parameters)
    warn_of_precision(table.n)
    if groups is not None and marginalise not in ("auto", "none"):
        raise CoreletError(f"groups and marginalise='{marginalise}' do not go together: the groups are those of the site")
    notes: list[str] = []
    latent = None if groups is not None else sought(table, marginalise, kernel or {}, notes)
    if latent is not None:
        tool = Sampler(table, lengths_of(draws, tune, chains), plan, 0, dict(kernel or {}))
        _check(tool, CHECKED, seed)
        marginal = integrated(tool, latent, marginalise, notes)
        if marginal is not None:
            few = plan_of(units, groups_of(k, marginal.dimension, marginal.n), *settings)
            few.began = began
            begin = None if given is None else marginal.model.only_left(given)
            fitted = fit_integrated(marginal, few, begin, progress, rest, marginalise)
            if fitted is not None:
                assert isinstance(marginal.model, NumPyroMarginal)
                fitted.notes.extend(marginal.model.left.notes())
                return fitted
            notes.append(f"{marginal.model.name} was not integrated out: given its rows, it has several modes in some groups")
    by_gaussian = gaussian_first(rest, table.dimension, plan.k)
    size = 0 if groups is not None or by_gaussian else max(plan.k, 0 if given is not None else plan.pilot)
    tool = Sampler(table, lengths_of(draws, tune, chains), plan, size, dict(kernel or {}))
    _check(tool, plan.draws_at(plan.k, table.parameters), seed)
    if by_gaussian:
        tool.find_effects()
    start = None if given is None else given.only(table.latent, "site")
    found = run_rounds(tool, plan, units, start, progress, tool.inference_data, rest=rest)
    found.notes.extend([*notes, *tool.notes()])
    return found


def _check(tool: Sampler, draws: int, seed: int) -> None:
    try:
        tool.check(draws, seed)
    except jax.errors.JaxRuntimeError as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise CoreletError(f"JAX cannot compute the log-likelihoods of the {tool.rows.n} rows of this model: {first}") from None


def certify(
    model: Callable[..., Any],
    draws: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    log_density: Any = None,
    seed: int = 0,
) -> Certificate:
    """Certify whether given draws of a NumPyro model are draws of the posterior of all its rows.

    The test evaluates the gradient of the log posterior of all rows at a sample of the draws; see `corelet.certify`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    draws
        Draws of the latent sites, on their own scale: a mapping of names to chains × draws × …, as `get_samples(group_by_chain=True)`
        returns it, an InferenceData or a DataTree.
    log_density
        The log density of the approximation (an autoguide) at each draw, on the unconstrained scale.
    seed
        The random seed for the rows with which the model is checked.

    Examples
    --------
    ::

        posterior = guide.sample_posterior(key, state.params, sample_shape=(1, 1000))
        corelet.numpyro.certify(model, posterior, args=(x, y))
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    plan = plan_of(Units(table.n, None), 2, None, 1000, None, 1, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, Steps(1, 1, 1), plan, 0, {})
    tool.check(CHECKED, seed)
    some = Draws.of(draws).only(table.latent, "site")
    some.check_shapes({name: np.shape(like) for name, like in table.latent.items()})

    def log_posterior(at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        (totals, gradients), (prior, slopes) = tool.gradient_of_all_rows(at), tool.log_prior(at)
        return totals + prior, gradients + slopes

    return claimed(some, tool.unconstrained(some), tool.coordinates(), table.n, log_posterior, log_density)


def review(
    model: Callable[..., Any],
    draws: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
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
    """Review a NumPyro model: leave-one-out predictive densities, predictive checks, and the influence of each row.

    This takes one pass over all rows, without a matrix of draws by rows; see `corelet.review`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    draws
        Draws of the latent sites, on their own scale: a `Fit`, a mapping of names to chains × draws × …, an InferenceData or a DataTree.
    log_weights, groups, most, pointwise
        As in `corelet.review_model`.
    outcomes
        Number of draws at which an outcome of every row is simulated for the predictive checks; 0 for none. This needs a single observed
        site whose outcomes are numbers, counts or two classes.
    by
        One value per row, or the name of an argument of the model. The outcomes are also checked by its levels or ranges: `Review.by`.
    evidence
        Whether to estimate the log evidence by bridge sampling: another pass over all rows, at up to `most` points. Factors and
        densities of your own count as they are, without a normalising constant.
    seed
        The random seed for the rows with which the model is checked, and for simulated outcomes.
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    plan = plan_of(Units(table.n, None), 2, None, 1000, None, 1, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, Steps(1, 1, 1), plan, 0, {})
    some = Draws.of(draws).only(table.latent, "site")
    some.check_shapes({name: np.shape(like) for name, like in table.latent.items()})
    # What is compiled for this number of draws is reused in the pass.
    tool.check(max(CHECKED, some.thin(max(100, most)).count), seed)
    weights = weights_of(draws, log_weights, some)
    levels = levels_by(by, table.n, lambda name: column_of(table, args, kwargs or {}, name))
    drawn = checked(outcomes_of(table, seed) if outcomes else None, tool.log_likelihood, some, weights, outcomes, seed, levels)

    def bridged(draws: Draws) -> Evidence:
        return of_model(tool, table.n, draws, improper(table), seed)

    also = Also(drawn, levels, observed_of(table), bridged if evidence else None)
    return reviewed(tool, some, Units(table.n, groups), weights, most, pointwise, also)


@seeded
def k_fold(
    model: Any,
    fitted: Any,
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    folds: int = 10,
    k: int = 300,
    groups: Any = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    kernel: Optional[Mapping[str, Any]] = None,
) -> KFold:
    """K-fold cross-validation of a NumPyro model: see `corelet.k_fold_model`.

    Parameters
    ----------
    model, args, kwargs
        The model and its arguments, as for `corelet.numpyro.fit`.
    fitted
        Draws of the posterior of all rows: a `Fit`, a mapping of names to chains × draws × …, an InferenceData or a DataTree.
    folds, groups
        As for `corelet.k_fold_model`.
    k, draws, tune, chains, seed, kernel
        Settings of the coreset of each fold, as for `corelet.numpyro.fit`.
    """
    table = Rows(model, tuple(args), dict(kwargs or {}))
    units = Units(table.n, groups)
    plan = plan_of(units, k, None, 1000, None, 10, seed, None)
    warn_of_precision(table.n)
    tool = Sampler(table, lengths_of(draws, tune, chains), plan, plan.k, dict(kernel or {}))
    tool.check(plan.draws_at(plan.k, table.parameters), seed)
    found = getattr(fitted, "_draws", None)
    some = (found if isinstance(found, Draws) else Draws.of(fitted)).only(table.latent, "site")
    some.check_shapes({name: np.shape(like) for name, like in table.latent.items()})
    return folded(tool, some, units, plan, _count("folds", folds), observed_of(table))


@seeded
def update(
    fit: Fit,
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    k: Optional[int] = None,
    max_k: Optional[int] = None,
    draws: int = 1000,
    tune: int = 300,
    chains: int = 4,
    max_rounds: int = 10,
    seed: int = 0,
    kernel: Optional[Mapping[str, Any]] = None,
    allow_repeats: bool = False,
    progress: FitProgressOption = None,
) -> Fit:
    """Add rows to a fit of a NumPyro model, or to an update of one: see `corelet.update_model`.

    Parameters
    ----------
    fit
        What `corelet.numpyro.fit` or `update` returned, by rows alone (`rest="none"`, without `groups`).
    model, args, kwargs
        The same model with the new rows alone as its arguments: with the levels and the scales that the earlier rows had. A check verifies that
        the rows of the fit's coreset have the log-likelihood in it that they had, and that the prior is the same.
    draws, tune, chains, kernel
        Of the final chains, as for `corelet.numpyro.fit`.
    k, max_k, max_rounds, seed, allow_repeats, progress
        As for `corelet.update_model`.

    Examples
    --------
    ::

        fit = corelet.numpyro.fit(model, args=(x, y), rest="none")
        fit = corelet.numpyro.update(fit, model, args=(new_x, new_y))
    """
    earlier = known(fit, Sampler)
    table = Rows(model, tuple(args), dict(kwargs or {}))
    plan = plan_of(Units(table.n, None), 2, None, 1000, None, 1, seed, None)
    warn_of_precision(earlier.total + table.n)
    tool = Sampler(table, lengths_of(draws, tune, chains), plan, 0, dict(kernel or {}))
    tool.check(CHECKED, seed)
    rows = np.arange(table.n)
    union = Union(tool, earlier, rows, table.append(earlier.tool.rows, earlier.rows))
    found = updated(fit, union, (k, max_k, max_rounds, seed, None), allow_repeats, progress, tool.inference_data)
    found.notes.extend(tool.notes())
    return found


def warn_of_precision(n: int) -> None:
    """Warns if a log-likelihood of n rows, about n nats, has a rounding error that would slow NUTS down."""
    rounded = n * float(np.finfo(jnp.result_type(float)).eps)
    if rounded > FELT:
        warn(
            f"in single precision the log-likelihood of {n} rows is accurate only to about {rounded:.1g} nats, and NUTS takes tiny "
            "steps; call numpyro.enable_x64() first",
        )
