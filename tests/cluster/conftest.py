"""Data, and what kills are counted by."""

import numpy as np
import pandas as pd
import pytest

SIZES = [0, 3000, 1, 150, 0, 849]


@pytest.fixture(scope="session")
def frame():
    """Numbers, text of which one level is in one partition alone, and a target."""
    rng = np.random.default_rng(3)
    n = sum(SIZES)
    word = rng.choice(["left", "right"], n)
    word[3005:3009] = "rare"
    a, b = 50 + 3 * rng.normal(size=n), rng.normal(size=n)
    eta = (a - 50) / 3 - 0.5 * b + 0.4 * (word == "right")
    return pd.DataFrame({"a": a, "b": b, "word": word, "late": rng.random(n) < 1 / (1 + np.exp(-eta))})


@pytest.fixture(scope="session")
def parts(frame):
    """The frame in pieces of wildly different sizes, some empty."""
    ends = np.cumsum(SIZES)
    return [frame.iloc[end - size : end] for size, end in zip(SIZES, ends)]
