"""What the examples share: data, and the comparison of two fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Draws = Mapping[str, Array]


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


def hierarchical_data(n: int, seed: int = 3) -> tuple[Array, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A feature, two factors of 8 and 7 levels, and counts."""
    rng = np.random.default_rng(seed)
    x, shop, day = rng.normal(size=n), rng.integers(0, 8, n), rng.integers(0, 7, n)
    rate = 0.5 + 0.3 * x + 0.4 * rng.normal(size=8)[shop] + 0.2 * rng.normal(size=7)[day]
    return x, shop, day, rng.poisson(np.exp(rate))


def draws_of(idata: Any) -> dict[str, Array]:
    """The variables of an InferenceData or a DataTree, chains one after the other."""
    group = idata["posterior"]
    dataset = group.to_dataset() if hasattr(group, "to_dataset") else group
    posterior = dataset.stack(sample=("chain", "draw")).transpose("sample", ...)
    return {str(name): np.asarray(posterior[name]) for name in posterior.data_vars}


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
