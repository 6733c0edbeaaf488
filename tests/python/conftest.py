"""Data and the command, shared by the tests."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("CORELET_COMMAND", ROOT / "target" / "release" / "corelet"))


@pytest.fixture(scope="session")
def command():
    """Runs the `corelet` command."""

    def run(*arguments, cwd):
        done = subprocess.run([COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300)
        return done

    return run


@pytest.fixture(scope="session")
def logistic():
    """Features and 0/1 labels of a logistic regression."""
    rng = np.random.default_rng(20261115)
    X = rng.normal(size=(2000, 4)) * [1.0, 3.0, 0.2, 1.0] + [0.0, 5.0, 0.0, -1.0]
    p = 1 / (1 + np.exp(-(X @ [1.0, -0.3, 2.0, 0.5]) - 1.0))
    return X, (rng.random(2000) < p).astype(float)
