"""A Gaussian where chains begin: at the mode of a density whose gradient is known, or of draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import numpy as np

from .gaussian import Numbers

STEP = 1e-4
"""Of the differences of the gradient."""
STEPS = 40
"""Steps of Newton's method, at most."""
ARRIVED = 0.02
"""A step that is shorter, in posterior standard deviations, is the last."""
FARTHEST = 2.0
"""The longest step along any coordinate: unconstrained numbers are logarithms or of that order where the model is."""


@dataclass(frozen=True)
class Gaussian:
    """Mean and precision."""

    mean: Numbers
    precision: Numbers

    def draws(self, count: int, seed: int) -> Numbers:
        """Lines of numbers."""
        values = np.random.default_rng([seed, 3]).normal(size=(count, len(self.mean)))
        # P = LLᵀ, and L⁻ᵀz has covariance P⁻¹.
        return self.mean + np.linalg.solve(np.linalg.cholesky(self.precision).T, values.T).T


def of_draws(points: Numbers) -> Gaussian:
    """Of their moments."""
    covariance = np.atleast_2d(np.cov(points, rowvar=False))
    sds = np.sqrt(np.maximum(np.diag(covariance), 1e-20))
    correlation = covariance / np.outer(sds, sds)
    values, vectors = np.linalg.eigh(correlation)
    inverse = (vectors / np.maximum(values, 1e-6)) @ vectors.T
    precision = inverse / np.outer(sds, sds)
    return Gaussian(points.mean(axis=0), 0.5 * (precision + precision.T))


def climbed(density: Callable[[Numbers], tuple[Numbers, Numbers]], begin: Numbers) -> Optional[Gaussian]:
    """The mode and the curvature there by Newton's method; none where there is no mode near. `density` takes lines of points."""
    at = np.array(begin, dtype=np.float64)
    value, slope = (part[0] for part in density(at[None]))
    for _ in range(STEPS):
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return None
        precision = _precision(density, at)
        if not np.isfinite(precision).all():
            return None
        values, vectors = np.linalg.eigh(precision)
        # Where it bends upwards, a step as long as it would be with the same bend downwards.
        step = vectors @ ((vectors.T @ slope) / np.maximum(np.abs(values), 1e-8))
        length = float(np.sqrt(abs(step @ precision @ step)))
        step *= min(1.0, FARTHEST / max(np.abs(step).max(), 1e-300))
        if values.min() > 0 and length < ARRIVED:
            return Gaussian(at + step, precision)
        for _ in range(30):
            tried, gradient = (part[0] for part in density((at + step)[None]))
            if np.isfinite(tried) and np.isfinite(gradient).all() and tried >= value:
                break
            step *= 0.5
        else:
            return Gaussian(at, precision) if values.min() > 0 and length < 1.0 else None
        at, value, slope = at + step, tried, gradient
    return None


def _precision(density: Callable[[Numbers], tuple[Numbers, Numbers]], at: Numbers) -> Numbers:
    apart = STEP * np.eye(len(at))
    slopes = density(np.concatenate([at + apart, at - apart]))[1]
    hessian = (slopes[: len(at)] - slopes[len(at) :]) / (2 * STEP)
    return -0.5 * (hessian + hessian.T)
