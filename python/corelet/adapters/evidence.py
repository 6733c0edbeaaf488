"""The log posterior of a model of any tool with all its constants, at points where it is a density on ℝᵖ: what a bridge needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from ..results.draws import Draws
from .bridge import checked
from .gaussian import Numbers

Evidence = tuple[Numbers, Callable[[Numbers], Numbers], int]
"""Chains × draws × numbers on ℝᵖ, the log posterior at lines of such numbers, and a seed."""


def of_model(tool: Any, n: int, draws: Draws, improper: Optional[str], seed: int) -> Evidence:
    """Of a model with priors of its own. `improper`: a variable whose prior is no distribution."""
    if improper is not None:
        raise _lib.CoreletError(
            f"the prior of {improper} is improper, so the model has no log evidence: give {improper} a proper prior, or review without evidence"
        )

    def log_posterior(at: Numbers) -> Numbers:
        prior: Numbers = tool.log_prior(at)[0]
        return prior + _total(tool.log_likelihood, tool.constrained(at[None]).flat(), len(at), n)

    points = np.ascontiguousarray(tool.unconstrained(draws), dtype=np.float64)
    if not np.isfinite(points).all():
        draw = int(np.argmin(np.isfinite(points).all(axis=1)))
        raise _lib.CoreletError(f"draw {draw} is at the edge of what a parameter may be, where it has no place on the unconstrained scale")
    return points.reshape(*draws.shape, -1), log_posterior, seed


def of_functions(
    log_likelihood: Callable[[Any, Any], Any], log_prior: Callable[[Any], Any], n: int, draws: Draws, seed: int
) -> Evidence:
    """Of a user's functions, whose draws are on ℝᵖ as they are."""
    if not callable(log_prior):
        raise TypeError("log_prior must be a function")
    values = draws.values
    shapes = {name: array.shape[2:] for name, array in values.items()}
    points = np.concatenate([array.reshape(*draws.shape, -1) for array in values.values()], axis=2, dtype=np.float64)

    def log_posterior(at: Numbers) -> Numbers:
        parts, start = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            parts[name] = at[None, :, start : start + size].reshape(1, len(at), *shape)
            start += size
        theta = Draws(parts).flat()
        with np.errstate(all="ignore"):
            prior = np.asarray(log_prior(theta), dtype=np.float64)
        if prior.shape != (len(at),):
            raise _lib.CoreletError(f"log_prior returned an array of shape {prior.shape} for {len(at)} draws; it must be ({len(at)},)")
        # Draws come first; those of a Gaussian beside them may be where the prior is zero.
        known = prior[: len(at) // 2]
        if not np.isfinite(known).all():
            raise _lib.CoreletError(f"log_prior is not finite at draw {int(np.argmin(np.isfinite(known)))} of those that are bridged")
        return prior + _total(log_likelihood, theta, len(at), n)

    return np.ascontiguousarray(points), log_posterior, seed


def _total(log_likelihood: Callable[[Any, Any], Any], theta: Any, draws: int, n: int) -> NDArray[np.float64]:
    """Over all rows, a block at a time."""
    total, size = np.zeros(draws), _lib.block_size(n, draws)
    with np.errstate(all="ignore"):
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            total += checked(log_likelihood(theta, rows), draws, rows).sum(axis=1)
    return total
