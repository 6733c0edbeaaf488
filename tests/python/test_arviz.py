"""Draws that ArviZ opens, and what ArviZ and NumPy say of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import arviz as az
import matplotlib
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import corelet
from either import KIND, as_tree, from_groups, groups_of, plot_trace

matplotlib.use("Agg")

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


@pytest.fixture(scope="module")
def table():
    """A generalised linear model that a few hundred rows tell all of."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 2))
    return X, rng.poisson(np.exp(0.5 + 0.4 * X[:, 0]))


@pytest.fixture(scope="module")
def mean():
    """A model of one's own: data, its log-likelihoods, and a sampler that returns what ArviZ works with."""
    rng = np.random.default_rng(6)
    data = rng.normal(3.0, 1.0, size=4000)

    def log_likelihood(theta, rows):
        return -0.5 * (data[rows] - theta["m"][:, None]) ** 2

    def sample(rows, weights, start):
        precision = 1.0 + weights.sum()
        draws = rng.normal(weights @ data[rows] / precision, precision**-0.5, size=(2, 500))
        return from_groups(posterior={"m": draws}, sample_stats={"diverging": np.zeros((2, 500), dtype=bool)})

    return data, log_likelihood, sample


def test_one_line_opens_the_draws_of_the_command(fit):
    folder, said = fit
    data = corelet.read_draws(folder / "draws.json")
    assert isinstance(data, KIND)
    assert {"posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"} <= groups_of(data)
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 1000, "parameter": 3}
    assert list(data.posterior["parameter"].values) == ["income", "age", "(intercept)"]
    assert data.warmup_posterior.sizes["draw"] == 500
    assert data.sample_stats["diverging"].dtype == bool
    assert int(data.sample_stats["diverging"].sum()) == said["sampling"]["divergences"] == 0
    assert data.posterior.attrs["verdict"] == "A"
    summary = az.summary(data, var_names=["original"], round_to="none")
    for parameter in said["parameters"]:
        row = summary.loc[f"original[{parameter['name']}]"]
        assert row["mean"] == pytest.approx(parameter["mean"])
        assert row["sd"] == pytest.approx(parameter["sd"], rel=1e-3)
    standardised = az.summary(data, var_names=["standardised"], round_to="none")
    # Of the 5 % and 95 % quantiles, as ours is; the summary of ArviZ 1 has that of others.
    tail = az.ess(data, var_names=["standardised"], method="tail", prob=(0.05, 0.95))["standardised"]
    for parameter in said["parameters"]:
        row = standardised.loc[f"standardised[{parameter['name']}]"]
        for key in ("r_hat", "ess_bulk"):
            assert row[key] == pytest.approx(parameter[key], rel=1e-6), key
        assert float(tail.sel(parameter=parameter["name"])) == pytest.approx(parameter["ess_tail"], rel=1e-6)


def test_a_file_of_something_else_is_refused(tmp_path):
    for text in ("not JSON", "[1, 2]", "{}", '{"coords": {"parameter": ["a"]}, "posterior": {"b": [[1.0]]}}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(corelet.CoreletError, match=r"other.json is not a file that corelet wrote with --arviz"):
            corelet.read_draws(tmp_path / "other.json")


def test_arviz_works_on_what_a_known_model_returns(table):
    X, y = table
    made = corelet.fit(X, y, model="poisson", k=60, draws=300, tune=300, chains=2)
    for idata in (made.idata, made.verdict.idata, made.coreset.sample(draws=300, warmup=300, chains=2)):
        assert isinstance(idata, KIND)
        assert {"posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data"} <= groups_of(idata)
        summary = az.summary(idata, var_names=["original"], round_to="none")
        assert summary.loc["original[x1]", "mean"] == pytest.approx(0.4, abs=0.06)
        assert (summary["r_hat"].astype(float) < 1.05).all()
        assert np.isfinite(az.loo(idata).se)
        plot_trace(idata, ["original"])
    new = X[:50]
    by_arrays = made.coreset.predict(new, idata=made.draws)
    for idata in (made.idata, made.verdict.draws, None):
        assert np.array_equal(made.coreset.predict(new, idata=idata).mean, by_arrays.mean)
    assert made.coreset.score(new, y[:50], idata=made.idata).mean == made.coreset.score(new, y[:50]).mean
    with pytest.raises(corelet.CoreletError, match="no variable 'standardised'"):
        made.coreset.predict(new, idata=from_groups(posterior={"m": np.zeros((2, 10))}))


def test_arviz_works_on_what_a_model_of_ones_own_returns(mean):
    data, log_likelihood, sample = mean
    made = corelet.fit_model(sample, log_likelihood, n=len(data), k=12)
    assert made.verdict.grade == "A" and isinstance(made.idata, KIND)
    assert made.idata.posterior.attrs["verdict"] == "A"
    summary = az.summary(made.idata, round_to="none")
    assert summary.loc["m", "mean"] == pytest.approx(data.mean(), abs=0.3 / len(data) ** 0.5)
    plot_trace(made.idata, ["m"])
    again = corelet.fit_model(sample, log_likelihood, n=len(data), k=12, pilot=made.idata)
    assert again.verdict.grade == "A"
    assert corelet.check(made.coreset, loglik=log_likelihood, idata=made.idata).grade == "A"


def test_both_kinds_of_object_are_taken(mean):
    data, log_likelihood, _ = mean
    rng = np.random.default_rng(7)
    draws = rng.normal(data.mean(), len(data) ** -0.5, size=(2, 1000))
    values = log_likelihood({"m": draws.ravel()}, slice(0, len(data))).reshape(2, 1000, len(data))
    groups = {"posterior": {"m": draws}, "log_likelihood": {"x": values}}
    stuck = {"sample_stats": {"diverging": np.ones((2, 1000), dtype=bool)}}
    coresets = [corelet.build_from_loglik(make(**groups), k=12) for make in (from_groups, as_tree)]
    assert np.array_equal(coresets[0].rows, coresets[1].rows)
    for make in (from_groups, as_tree):
        assert corelet.check(coresets[0], loglik=make(**groups)).grade == "A"
        assert "diverged" in corelet.check(coresets[0], loglik=make(**groups, **stuck)).reasons
        with pytest.raises(corelet.CoreletError, match="has no log_likelihood group"):
            corelet.check(coresets[0], loglik=make(posterior={"m": draws}))
    with pytest.raises(corelet.CoreletError, match=r"no posterior group, only \['prior'\]"):
        corelet.check(coresets[0], loglik=log_likelihood, idata=as_tree(prior={"m": draws}))


WITHOUT_ARVIZ = """
import sys
sys.modules["arviz"] = None
import numpy as np, corelet
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 2))
y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
coreset = corelet.build(X, y, k=40)
assert coreset.predict(X[:5]).mean.shape == (5,) and np.isfinite(coreset.score(X[:5], y[:5]).mean)
verdict = corelet.check(coreset, X, y)
assert verdict.draws["posterior"]["original"].shape == (4, 1000, 3)
fit = corelet.fit(X, y, k=40)
assert fit.draws["original"].shape == (4, 1000, 3) and fit.coreset.predict(X[:5], idata=fit.draws).mean.shape == (5,)
own = corelet.fit_model(
    lambda rows, weights, start: rng.normal(weights @ X[rows, 0] / (1 + weights.sum()), (1 + weights.sum()) ** -0.5, size=(2, 500, 1)),
    lambda theta, rows: -0.5 * (X[rows, 0] - theta) ** 2, n=2000, k=10,
)
assert own.draws.shape[-1] == 1
for ask in (coreset.sample, lambda: verdict.idata, lambda: fit.idata, lambda: own.idata):
    try:
        ask()
    except ImportError as error:
        assert "pip install arviz" in str(error)
    else:
        raise AssertionError("ArviZ was found")
"""


def test_draws_and_predictions_do_not_need_arviz(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_ARVIZ], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


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
