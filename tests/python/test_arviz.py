"""Draws that ArviZ opens, and what ArviZ and NumPy say of them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

az = pytest.importorskip("arviz")

ROOT = Path(__file__).resolve().parents[2]
CORELET = Path(os.environ.get("CORELET_COMMAND", ROOT / "target" / "release" / "corelet"))


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    """A certified fit of generated data: its folder and its summary."""
    folder = tmp_path_factory.mktemp("fit")
    rng = np.random.default_rng(1)
    income, age = rng.normal(50, 20, 800), rng.normal(40, 10, 800)
    eta = 0.05 * (income - 50) - 0.1 * (age - 40) + 0.3
    bought = np.where(rng.random(800) < 1 / (1 + np.exp(-eta)), "yes", "no")
    lines = ["income,age,bought", *(f"{i},{a},{b}" for i, a, b in zip(income, age, bought))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    command = "fit data.csv --target bought --positive yes -k 40 -o draws.parquet --arviz draws.json --json fit.json"
    done = subprocess.run([CORELET, *command.split()], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A - trusted")
    return folder, json.loads((folder / "fit.json").read_text())


def test_arviz_opens_the_draws(fit):
    folder, said = fit
    data = az.from_json(folder / "draws.json")
    assert {"posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"} <= set(data._groups_all)
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 1000, "parameter": 3}
    assert list(data.posterior.parameter.values) == ["income", "age", "(intercept)"]
    assert data.warmup_posterior.sizes["draw"] == 500
    assert int(data.sample_stats.diverging.sum()) == said["sampling"]["divergences"] == 0
    assert data.attrs["verdict"] == "A"
    summary = az.summary(data, var_names=["original"], round_to="none")
    for parameter in said["parameters"]:
        row = summary.loc[f"original[{parameter['name']}]"]
        assert row["mean"] == pytest.approx(parameter["mean"])
        assert row["sd"] == pytest.approx(parameter["sd"], rel=1e-3)
    standardised = az.summary(data, var_names=["standardised"], round_to="none")
    for parameter in said["parameters"]:
        row = standardised.loc[f"standardised[{parameter['name']}]"]
        for key in ("r_hat", "ess_bulk", "ess_tail"):
            assert row[key] == pytest.approx(parameter[key], rel=1e-6), key


def test_both_scales_predict_the_same(fit):
    folder, _ = fit
    draws = pyarrow.parquet.read_table(folder / "draws.parquet")
    names = ["income", "age", "(intercept)"]
    assert draws.column_names == ["chain", "draw", "weight", *names, *(f"standardised.{name}" for name in names)]
    assert draws.num_rows == 4000 and set(draws["weight"].to_numpy()) == {1.0}
    data = pyarrow.csv.read_csv(folder / "data.csv")
    raw = np.column_stack([data["income"].to_numpy(), data["age"].to_numpy(), np.ones(data.num_rows)])
    scaled = raw.copy()
    scaled[:, :2] = (raw[:, :2] - raw[:, :2].mean(0)) / raw[:, :2].std(0, ddof=1)
    original = np.column_stack([draws[name].to_numpy() for name in names])
    standardised = np.column_stack([draws[f"standardised.{name}"].to_numpy() for name in names])
    np.testing.assert_allclose(original @ raw[:50].T, standardised @ scaled[:50].T, atol=1e-9)
