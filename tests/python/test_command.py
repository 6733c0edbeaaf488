"""The command's files, read by other software, and its figures, computed again by NumPy."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

ROOT = Path(__file__).resolve().parents[2]
CORELET = Path(os.environ.get("CORELET_COMMAND", ROOT / "target" / "release" / "corelet"))


def corelet(*arguments, cwd):
    done = subprocess.run([CORELET, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    corelet("demo", "--out", folder / "out", cwd=folder)
    return folder / "out"


def laplace(features, target, weights):
    """Mode and precision of a logistic posterior with a N(0, I) prior, by Newton's method in NumPy."""
    theta = np.zeros(features.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(target * (features @ theta)))
        gradient = features.T @ (weights * target * p) - theta
        precision = (features.T * (weights * p * (1 - p))) @ features + np.eye(len(theta))
        step = np.linalg.solve(precision, gradient)
        theta = theta + step
        if gradient @ step < 1e-24:
            break
    return theta, precision


def kl_gaussian(mean0, precision0, mean1, precision1):
    factor = np.linalg.cholesky(np.linalg.inv(precision0))
    change = np.linalg.eigvalsh(factor.T @ (precision1 - precision0) @ factor)
    shift = mean1 - mean0
    return 0.5 * (np.sum(change - np.log1p(change)) + shift @ precision1 @ shift)


def test_the_kl_of_a_coreset_is_what_numpy_says(demo, tmp_path):
    """A coreset small enough to be visibly wrong: forward and reverse KL and the distance of the modes agree."""
    summary, core = tmp_path / "summary.json", tmp_path / "core.parquet"
    corelet(
        *("build", demo / "data.csv", "--model", "logistic", "--target", "y", "-k", "8"),
        *("--standardise", "none", "--prior", "paper", "-o", core, "--json", summary),
        cwd=tmp_path,
    )
    said = json.loads(summary.read_text())
    table = pyarrow.csv.read_csv(demo / "data.csv").to_pydict()
    target = np.where(np.array(table.pop("y"), dtype=float) > 0, 1.0, -1.0)
    features = np.column_stack([*(np.array(column, dtype=float) for column in table.values()), np.ones(len(target))])
    chosen = pyarrow.parquet.read_table(core)
    rows, weights = chosen["row"].to_numpy(), chosen["weight"].to_numpy()
    full = laplace(features, target, np.ones(len(target)))
    core_fit = laplace(features[rows], target[rows], weights)
    assert said["points"] == len(rows) <= 8
    assert said["kl_forward"] == pytest.approx(kl_gaussian(*full, *core_fit), rel=1e-5)
    assert said["kl_reverse"] == pytest.approx(kl_gaussian(*core_fit, *full), rel=1e-5)
    assert said["map_distance"] == pytest.approx(np.linalg.norm(full[0] - core_fit[0]), rel=1e-5)


def test_the_rows_of_a_coreset_are_rows_of_the_data(demo):
    chosen = pyarrow.parquet.read_table(demo / "core.parquet").to_pydict()
    data = pyarrow.csv.read_csv(demo / "data.csv").to_pydict()
    assert len(chosen["row"]) == len(set(chosen["row"])) > 0
    assert all(weight > 0 and np.isfinite(weight) for weight in chosen["weight"])
    for name, column in data.items():
        assert [column[row] for row in chosen["row"]] == pytest.approx(chosen[name])


def test_the_same_seed_writes_the_same_bytes(demo, tmp_path):
    files = []
    for threads in (1, 2):
        out = tmp_path / f"core{threads}.csv"
        corelet(
            *("build", demo / "data.csv", "--model", "logistic", "--target", "y", "-k", "20"),
            *("--threads", threads, "-o", out),
            cwd=tmp_path,
        )
        files.append(out.read_bytes())
    assert files[0] == files[1]
