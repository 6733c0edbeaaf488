"""The check that a coreset of a NumPyro model can be right: rows have alone the log-likelihood that they have among all, and
nothing else of the model depends on which rows it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .compiled import LITTLE, Compiled
from .._lib import CoreletError
from .numpyro_rows import Rows, is_factor
from .slicing import CHECKED_ROWS, checked_rows, compare

POINTS = 3
"""Points of the parameter space that are compared at."""
SIZES = (CHECKED_ROWS, 23)
"""How many rows are compared with all, at most; two random sets of each size."""
TRIES = 100
"""How many random points are tried where no row has a finite log-likelihood, as NUTS of NumPyro does."""
RADIUS = 1.0
"""Points are within so much of 0 in every unconstrained parameter."""


class Checked(NamedTuple):
    """What was found on the way."""

    theta: dict[str, NDArray[Any]]
    """Points, by latent site."""
    rows: NDArray[np.float64]
    """The log-likelihoods of all rows there, points × rows."""
    of_all_rows: list[str]
    """Deterministic sites whose value depends on the rows, though their shape does not."""


def tolerance() -> float:
    """What rounding may change a log density by, in parts of it."""
    return 1e-6 if np.finfo(jnp.result_type(float)).eps < 1e-10 else 1e-3


def check(rows: Rows, seed: int) -> Checked:
    """Refuses a model whose rows cannot be taken out of it, or whose prior or factors depend on the rows."""
    rng = np.random.default_rng(seed)
    free, theta, whole = _at_points(rows, rng)
    values = np.asarray(whole.rows, dtype=np.float64)
    chosen = checked_rows(values, seed)
    different: set[str] = set()

    def of(theta: Any, data: Any) -> Any:
        return rows.parts(theta, data), rows.unconstrained(theta, data)

    sizes = sorted({min(SIZES[0], len(chosen)), min(SIZES[1], max(1, len(chosen) // 2))})
    several = jax.vmap(of, in_axes=(0, None))
    compiled = {size: Compiled(several, (theta, rows.take(chosen[:size], size)), LITTLE) for size in sizes}
    for size in sizes:
        for among in (chosen, np.arange(rows.n)):
            picked = rng.choice(among, size, replace=False)
            found, back = compiled[size](theta, rows.take(picked, size))
            _compare_others(rows, found.others, whole.others, size)
            _compare_supports(rows, back, free, size)
            compare(np.asarray(found.rows), values[:, picked], tolerance())
            different |= {
                name
                for name in whole.deterministic
                if name not in rows.long and not _close(found.deterministic[name], whole.deterministic[name])
            }
    of_all_rows = [name for name in whole.deterministic if name in different]
    return Checked({name: np.asarray(array) for name, array in theta.items()}, values, of_all_rows)


def _at_points(rows: Rows, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Unconstrained and constrained values at some points, and the parts of the density given all rows."""
    shapes = jax.eval_shape(rows.unconstrained, rows.latent, rows.values)

    def some() -> dict[str, NDArray[Any]]:
        return {name: rng.uniform(-RADIUS, RADIUS, (POINTS, *x.shape)).astype(x.dtype) for name, x in shapes.items()}

    def at(free: Any, data: Any) -> Any:
        theta = rows.constrained(free, data)
        return theta, rows.parts(theta, data)

    def one_by_one(free: Any, data: Any) -> Any:  # Side by side they would take as many times the memory.
        return jax.lax.map(lambda one: at(one, data), free)

    compiled = Compiled(one_by_one, (some(), rows.values), LITTLE)
    for _ in range(TRIES):
        free = some()
        theta, whole = compiled(free, rows.values)
        if np.isfinite(whole.rows).any():
            break
    return free, theta, whole


def _close(some: Any, whole: Any) -> bool:
    some, whole = np.asarray(some), np.asarray(whole)
    return some.shape == whole.shape and np.allclose(some, whole, rtol=tolerance(), atol=tolerance(), equal_nan=True)


def _compare_others(rows: Rows, found: dict[str, Any], whole: dict[str, Any], size: int) -> None:
    """Priors and factors must be the same given some rows as given all."""
    for name in [*whole, *(name for name in found if name not in whole)]:
        if name in found and name in whole and _close(found[name], whole[name]):
            continue
        if name in rows.sites and is_factor(rows.sites[name]):
            raise CoreletError(
                f"the factor {name} depends on the rows or on their number (given {size} rows it is not what it is given all "
                f"{rows.n}), so a coreset would change it; give it one value for each row (numpyro.factor without the .sum()), or "
                "write it into the distribution of an observed site (obs=)"
            )
        what = "the log-likelihood" if name in rows.whole else "the prior"
        raise CoreletError(
            f"{what} of {name} depends on the rows or on their number (given {size} rows it is not what it is given all "
            f"{rows.n}), so a coreset would change it; compute what it needs before the model, and pass that as an argument of its own"
        )


def _compare_supports(rows: Rows, found: dict[str, Any], free: dict[str, Any], size: int) -> None:
    """So must be the transforms to unconstrained values: a flat prior has the same density within any bounds."""
    for name in rows.latent:
        if not np.allclose(found[name], free[name], rtol=1e-2, atol=1e-2, equal_nan=True):
            raise CoreletError(
                f"the support of {name} depends on the rows or on their number (given {size} rows it is not what it is given all "
                f"{rows.n}), so a coreset would change it; compute its bounds before the model, and pass them as arguments"
            )
