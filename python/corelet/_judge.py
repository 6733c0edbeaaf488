"""What stands between draws of a weighted fit and a grade: the draws themselves are judged before the coreset is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._draws import Draws

R_HAT_LIMIT = 1.05
"""Chains with a larger R̂ have not mixed."""
FEWEST_DRAWS = 100.0
"""Effective draws, bulk and tail, that every parameter and log-likelihood must have."""
MOST_DIVERGED = 0.01
"""The share of divergent draws beyond which part of the posterior may be missing."""
NARROW, PRIOR_DOMINATES, WIDE = 0.05, 0.25, 10.0
"""Var L_w is p/2 for a Gaussian posterior of p parameters that the data determine; these multiples of it are too far off."""
DISAGREES = 1e-2
"""V may be so much smaller than the variance that was held out in the build, and no more, unless both are tiny."""


@dataclass(frozen=True)
class Mixing:
    """The worst of split R̂ and of bulk and tail effective sample size, over some quantities."""

    r_hat: float = 1.0
    ess_bulk: float = np.inf
    ess_tail: float = np.inf

    @classmethod
    def of(cls, quantities: NDArray[np.float64]) -> Mixing:
        """Of quantities × chains × draws. One chain is judged by its halves."""
        if quantities.size == 0:
            return cls()
        if quantities.shape[1] == 1:
            half = quantities.shape[2] // 2
            quantities = np.stack([quantities[:, 0, :half], quantities[:, 0, -half:]], axis=1)
        r_hat, bulk, tail = _lib.diagnose(np.ascontiguousarray(quantities)).T
        return cls(float(_worst(r_hat.max())), float(bulk.min()), float(tail.min()))

    def and_of(self, other: Mixing) -> Mixing:
        """The worse of both."""
        return Mixing(
            max(self.r_hat, other.r_hat), min(self.ess_bulk, other.ess_bulk), min(self.ess_tail, other.ess_tail)
        )

    @property
    def mixed(self) -> bool:
        """Whether the chains agree."""
        return self.r_hat <= R_HAT_LIMIT

    @property
    def enough(self) -> bool:
        """Whether the chains are worth enough draws."""
        return min(self.ess_bulk, self.ess_tail) >= FEWEST_DRAWS


def _worst(r_hat: float) -> float:
    """No R̂ at all is no good one."""
    return float("inf") if np.isnan(r_hat) else r_hat


def judge(
    errors: NDArray[np.float64],
    weighted: NDArray[np.float64],
    *,
    points: int,
    n: int,
    chains: int,
    draws: Optional[Draws] = None,
    chained: bool = True,
    held_out: Optional[float] = None,
    found: Iterable[str] = (),
) -> dict[str, Any]:
    """The fields of a `Verdict`.

    Parameters
    ----------
    errors, weighted
        Δ = L − L_w and L_w at each of S draws, chains one after the other.
    draws
        All draws of the parameters, where they are known.
    chained
        Whether it is known which chain a draw is of.
    held_out
        The variance of Δ over draws held out in the build, where these were of the posterior.
    found
        What else is known to be wrong.
    """
    reasons = list(found)
    finite = np.isfinite(errors) & np.isfinite(weighted)
    if not finite.all():
        reasons.append("not_finite")
        errors, weighted, chains = errors[finite], weighted[finite], 1
    mixing = Mixing.of(_varying(np.stack([weighted, errors]).reshape(2, chains, -1)))
    if draws is not None:
        mixing = mixing.and_of(Mixing.of(draws.parameters()))
        if draws.diverged > MOST_DIVERGED * draws.count:
            reasons.append("diverged")
    if not chained:
        reasons.append("no_chains")
    if not mixing.mixed:
        reasons.append("not_mixed")
    elif not mixing.enough:
        reasons.append("few_draws")
    reasons += _spread(weighted, draws)
    variance = float(errors.var())
    if held_out is not None and variance < DISAGREES * held_out and held_out > 1e-3:
        reasons.append("disagrees")
    known = chains if chained and np.ptp(errors) > 0 else None  # No error at all has no chains that could mix.
    fields = _lib.check_errors(np.ascontiguousarray(errors), known, json.dumps(reasons), points, n)
    fields["lines"].insert(
        1,
        f"  chains         R-hat {mixing.r_hat:.3f}, worth {mixing.ess_bulk:.0f} draws (bulk) and {mixing.ess_tail:.0f} (tail)",
    )
    fields.update(r_hat=mixing.r_hat, ess_bulk=mixing.ess_bulk, ess_tail=mixing.ess_tail)
    return fields


def _varying(quantities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without what is the same everywhere to rounding: an error of nothing cannot mix."""
    flat = quantities.reshape(len(quantities), -1)
    varies: NDArray[np.bool_] = np.ptp(flat, axis=1) > 1e-9 * (1.0 + np.abs(flat).max(axis=1))
    return quantities[varies]


def _spread(weighted: NDArray[np.float64], draws: Optional[Draws]) -> list[str]:
    """Whether L_w varies as it does under draws of a posterior with so many parameters."""
    variance = float(weighted.var())
    table = np.empty((0, len(weighted))) if draws is None else draws.parameters().reshape(-1, draws.count)
    parameters = _independent(table) if len(table) else 1.0
    if variance < NARROW * 0.5 * parameters:
        return ["narrow"]
    if variance < PRIOR_DOMINATES * 0.5 * parameters:
        return ["prior_dominates"]
    if len(table) and variance > WIDE * 0.5 * len(table):
        return ["wide"]
    return []


def _independent(table: NDArray[np.float64]) -> float:
    """How many of these parameters × draws are their own: (Σλ)²/Σλ² over the eigenvalues of their correlations."""
    centred = table - table.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True))
    smaller = scaled @ scaled.T if len(scaled) <= scaled.shape[1] else scaled.T @ scaled
    return float(np.trace(smaller) ** 2 / (smaller**2).sum())
