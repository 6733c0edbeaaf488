"""A fit of whole groups whose latent variable is integrated out: its plan, its notes and, afterwards, the effects of all groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .._fit import Fit, FitProgressOption, Plan, run_rounds
from .._lib import CoreletError
from ..frames.units import Units
from ..results.draws import Draws
from .gaussian import Numbers
from .marginal import Marginal

GROUPS = 50
"""Groups of the coreset, unless somebody asks for more or there are parameters for more."""
MOST_GROUPS = 300
"""As many as rows of other models."""
EFFECT_DRAWS = 200
"""Draws of the other parameters over which effects are averaged: their moments are then known to a fifteenth of what the parameters add."""

FEWEST_LEVELS = 500
"""Levels from which `auto` integrates: up to some hundreds a chain of all parameters, or a Gaussian in place of all rows, is soon there."""
MOST_ROWS_A_LEVEL = 100
"""Rows a level, on average, up to which it does: beyond, a Gaussian for each value is exact enough, and cheaper than whole groups."""
MOST_BESIDE = 60
"""Parameters beside it up to which it does: a climb to the mode of the posterior takes two gradients of all rows for each."""
MOST_LEFT = 300
"""Parameters that may be left beside the latent variable, as many as the levels of further factors in the built-in mixed models."""
COMPARED = 50
"""Values of the latent variable whose prior is computed apart from the others, to see that it is the same."""


def pays(codes: NDArray[np.int64], beside: int) -> bool:
    """Whether `auto` integrates a value for each of these rows' groups out, with so many other parameters."""
    return len(np.unique(codes)) >= FEWEST_LEVELS and has_few_rows(codes) and beside <= MOST_BESIDE


def has_few_rows(codes: NDArray[np.int64]) -> bool:
    """Whether these rows' groups have so few rows each that integrals cost less than what a Gaussian needs."""
    return len(codes) <= MOST_ROWS_A_LEVEL * len(np.unique(codes))


def groups_of(k: Optional[int], parameters: int, groups: int) -> int:
    """How many groups a coreset begins with: so many that they can have slope and curvature of all."""
    wanted = max(GROUPS, min(parameters * (parameters + 3) // 2, MOST_GROUPS)) if k is None else k
    return max(min(wanted, groups // 2), 1) if k is None else wanted


def fit_integrated(
    marginal: Marginal,
    plan: Plan,
    given: Optional[Draws],
    progress: FitProgressOption,
    rest: str,
    asked: str,
) -> Optional[Fit]:
    """The rounds over groups; none where `auto` finds that the integrals are not to be trusted."""
    start = marginal.pilot() if given is None else given
    points = marginal.unconstrained(start)
    points = points[np.isfinite(points).all(axis=1)]
    if given is not None:
        marginal.begin_at(points.mean(axis=0))
        marginal.choose(points)
    name = marginal.model.name
    several = marginal.rivals(points.mean(axis=0))
    if several and asked == "auto":
        return None
    fit = run_rounds(marginal, plan, Units(marginal.n, np.arange(marginal.n)), start, progress, marginal.model.inference_data, rest=rest)
    nodes, _, groups, bias = marginal.last_check
    notes = [
        f"{name}, with a value for each of {marginal.n} groups, was integrated out by {nodes} nodes a group (compared with direct integration "
        f"on {groups} groups, they move the posterior by at most {bias:.1g} sd); weights are of whole groups, and random_effects() has its values"
    ]
    if several:
        notes.append(f"{several} groups have several modes of {name}: the nodes stand about one of them")
    if fit.coreset.group_ids is not None:
        fit.coreset.groups = marginal.model.labels[marginal.levels[fit.coreset.group_ids]]
    return replace(fit, notes=[*notes, *fit.notes], _effects=Effects(marginal, fit))


class Effects:
    """What a fit knows of the effects of its groups."""

    def __init__(self, marginal: Marginal, fit: Fit) -> None:
        self._marginal = marginal
        assert fit._draws is not None
        self._draws = fit._draws

    def table(self, quantiles: Sequence[float]) -> dict[str, NDArray[Any]]:
        """An entry for every group that has rows."""
        for q in quantiles:
            if not 0 < q < 1:
                raise CoreletError(f"a quantile is {q}, but it must be between 0 and 1")
        marginal = self._marginal
        points = marginal.unconstrained(self._draws.thin(EFFECT_DRAWS))
        mean, sd, skewness, excess = marginal.moments(points[np.isfinite(points).all(axis=1)]).T
        labels = marginal.model.labels[marginal.levels]
        found = {
            "group": labels,
            "effect": np.full(len(labels), marginal.model.name),
            "rows": np.diff(marginal.ends),
            "mean": mean,
            "sd": sd,
        }
        for q in quantiles:
            found[f"q{round(100 * q, 4):g}"] = mean + sd * _bent(q, skewness, excess)
        return found


def _bent(probability: float, skewness: Numbers, excess: Numbers) -> Numbers:
    """A quantile of what has mean 0, variance 1 and these cumulants (Cornish and Fisher 1938), as for the built-in mixed models; where the
    expansion is no increasing function any more, it is not followed."""
    z = NormalDist().inv_cdf(probability)
    g, k = np.clip(skewness, -0.8, 0.8), np.clip(excess, -0.5, 1.5)
    bent: Numbers = z + (z**2 - 1) * g / 6 + (z**3 - 3 * z) * k / 24 - (2 * z**3 - 5 * z) * g**2 / 36
    return bent
