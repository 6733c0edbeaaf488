"""Is a gradient that of the function that it is said to be of? Differences of the function at a few draws tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from .gaussian import Numbers

COMPARED = 3
"""Draws at which gradients are compared with differences."""
COMPARED_ROWS = 500
"""Rows whose log-likelihood is."""
STEP = 1e-2
"""Of the differences, in standard deviations of the draws: large enough for single precision."""
SHARE, NATS = 0.03, 3e-3
"""By which share of it, and by how many nats a standard deviation, a gradient may miss a difference."""

Density = Callable[[Numbers], tuple[Numbers, Numbers]]
"""The value at each point, and the gradient there."""


def wrong_derivatives(density: Density, at: Numbers, sds: Numbers) -> Optional[list[int]]:
    """The coordinates whose derivatives are wrong at these points, if one sum of all of them is; none where that is right."""
    dimension = at.shape[1]
    signs = np.where(np.arange(dimension) % 2, 1.0, -1.0) * np.random.default_rng(0).choice([-1.0, 1.0], dimension)
    if _agrees(density, at, sds * signs / np.sqrt(dimension)).all():
        return None
    axes = np.diag(sds)
    return [j for j in range(dimension) if not _agrees(density, at, axes[j]).all()]


def _agrees(density: Density, at: Numbers, along: Numbers) -> NDArray[np.bool_]:
    said = density(at)[1] @ along
    found = (density(at + STEP * along)[0] - density(at - STEP * along)[0]) / (2 * STEP)
    return ~(np.abs(said - found) > SHARE * np.maximum(np.abs(said), np.abs(found)) + NATS)
