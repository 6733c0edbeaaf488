"""What the examples share: data, and the comparison of two fits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Draws = Mapping[str, Array]


def logistic_data(n: int = 2000, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Three features and 0/1 labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    chance = 1 / (1 + np.exp(-(0.5 + X @ [1.0, -2.0, 0.5])))
    return X, (rng.random(n) < chance).astype(np.int64)


def robust_data(n: int = 2000, seed: int = 1) -> tuple[Array, Array]:
    """A line with heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, 1.0 + 2.0 * x + 0.5 * rng.standard_t(3, size=n)


def mixture_data(n: int = 2000, seed: int = 2) -> tuple[Array, Array]:
    """Two lines, mixed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    first = rng.random(n) < 0.3
    return x, np.where(first, -2.0 + 1.5 * x, 2.0 - 0.5 * x) + 0.6 * rng.normal(size=n)


def compare(name: str, full: Draws, core: Draws) -> float:
    """Prints each parameter under both posteriors and returns the largest shift, in posterior standard deviations."""
    print(f"\n{name}")
    largest = 0.0
    for parameter, draws in full.items():
        draws, other = draws.reshape(len(draws), -1), core[parameter].reshape(len(core[parameter]), -1)
        for j in range(draws.shape[1]):
            mean, sd = draws[:, j].mean(), draws[:, j].std()
            shift = (other[:, j].mean() - mean) / sd
            largest = max(largest, abs(float(shift)))
            label = f"{parameter}[{j}]" if draws.shape[1] > 1 else parameter
            print(f"  {label:12} {mean:8.3f} ± {sd:.3f}   coreset {other[:, j].mean():8.3f} ± {other[:, j].std():.3f}")
    print(f"  largest shift {largest:.2f} sd")
    return largest
