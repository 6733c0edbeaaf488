"""Weights, offsets and equal rows taken as one, from Python; fits against scipy."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import poisson

import corelet

rng = np.random.default_rng(11)
N = 3000
X = rng.normal(size=(N, 3))
TIMES = rng.integers(1, 4, N).astype(float)
OFFSET = rng.uniform(-1, 1, N)
COUNTS = rng.poisson(np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1] + 0.2 + OFFSET)).astype(float)
LABELS = rng.random(N) < 1 / (1 + np.exp(-X[:, 0] - OFFSET))
CHAINS = dict(draws=400, tune=300, chains=2)


def posterior(features, target, weights, offset):
    """Mode and precision of a weighted Poisson posterior with a log link, an offset and a N(0, I) prior, by scipy."""
    features = np.column_stack([features, np.ones(len(features))])

    def loss(theta):
        eta = features @ theta + offset
        return -weights @ (target * eta - np.exp(eta)) + 0.5 * theta @ theta

    def gradient(theta):
        return -features.T @ (weights * (target - np.exp(features @ theta + offset))) + theta

    mode = minimize(loss, np.zeros(features.shape[1]), jac=gradient, method="BFGS", options={"gtol": 1e-6}).x
    rate = weights * np.exp(features @ mode + offset)
    return mode, (features.T * rate) @ features + np.eye(len(mode))


def kl(one, two):
    (mean0, precision0), (mean1, precision1) = one, two
    change = np.linalg.eigvals(np.linalg.solve(precision0, precision1)).real
    shift = mean1 - mean0
    return 0.5 * (np.sum(change - 1 - np.log(change)) + shift @ precision1 @ shift)


@pytest.fixture(scope="module")
def counted():
    return corelet.build(X, COUNTS, model="poisson", k=80, weights=TIMES, offset=OFFSET, standardise="none")


def test_the_coreset_has_the_posterior_that_scipy_finds(counted):
    """One column of weights: that of each row's own log-likelihood."""
    rows = counted.rows
    everything = posterior(X, COUNTS, TIMES, OFFSET)
    chosen = posterior(X[rows], COUNTS[rows], counted.weights, OFFSET[rows])
    assert kl(everything, chosen) < 1e-3
    assert kl(everything, chosen) == pytest.approx(counted.quality.kl_forward, rel=1e-2, abs=1e-7)
    assert counted.weights.sum() == pytest.approx(TIMES.sum(), rel=0.2)
    assert counted.names == ["x1", "x2", "x3", "(intercept)"]


def test_draws_of_all_rows_are_around_the_mode_that_scipy_finds():
    fit = corelet.fit(
        X, COUNTS, model="poisson", full=True, weights=TIMES, offset=OFFSET, standardise="none", progress=False, **CHAINS
    )
    mode, precision = posterior(X, COUNTS, TIMES, OFFSET)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert (np.abs(fit.draws["original"].mean(axis=(0, 1)) - mode) < 0.3 * sd).all()
    assert (fit.coreset.weights == TIMES).all()


def test_columns_arrays_and_the_command_agree_to_the_bit(command, counted, tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": COUNTS, "f": TIMES, "o": OFFSET})
    keywords = dict(model="poisson", target="y", k=40)
    by_name = corelet.build(frame, weights="f", offset="o", **keywords)
    by_array = corelet.build(frame[["a", "b", "y"]], weights=TIMES, offset=OFFSET, **keywords)
    assert (by_name.rows == by_array.rows).all() and (by_name.weights == by_array.weights).all()
    frame.to_csv(tmp_path / "data.csv", index=False)
    done = command(
        *("build", "data.csv", "--model", "poisson", "--target", "y", "-k", "40", "--weights", "f", "--offset", "o"),
        *("-o", "core.csv"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    core = pd.read_csv(tmp_path / "core.csv")
    assert (core["row"] == by_name.rows).all() and (core["weight"] == by_name.weights).all()
    by_name.to_parquet(tmp_path / "core.parquet")
    judged = command(
        *("evaluate", "data.csv", "--model", "poisson", "--target", "y", "--weights", "f", "--offset", "o"),
        *("--coreset", "core.parquet", "--json", "judged.json"),
        cwd=tmp_path,
    )
    assert judged.returncode == 0 and "other observations" not in judged.stderr, judged.stderr
    read = pd.read_json(tmp_path / "judged.json", typ="series")
    assert read["kl_forward"] == pytest.approx(by_name.quality.kl_forward, rel=1e-6)


def test_it_is_checked_and_sampled(counted):
    verdict = corelet.check(counted, X, COUNTS, weights=TIMES, offset=OFFSET, progress=False, **CHAINS)
    assert verdict.grade == "A"
    with pytest.raises(corelet.CoreletError, match="weights"):
        corelet.check(counted, X, COUNTS, offset=OFFSET, progress=False, **CHAINS)
    # Draws of the coreset alone are the same draws: its weights have those of the rows in them.
    alone = counted.sample(progress=False, **CHAINS).posterior["original"].values.mean(axis=(0, 1))
    there = verdict.draws["posterior"]["original"].mean(axis=(0, 1))
    assert np.abs(alone - there).max() < 0.02
    few = corelet.build(X, COUNTS, model="poisson", k=4, weights=TIMES, offset=OFFSET)
    assert corelet.check(few, X, COUNTS, weights=TIMES, offset=OFFSET, progress=False, **CHAINS).grade != "A"


def test_counts_are_repeated_rows():
    """The same names, standardisation and priors, and so the same posterior."""
    often = np.repeat(np.arange(N), TIMES.astype(int))
    kind = np.where(X[:, 2] > 0.5, "up", np.where(X[:, 1] > 0, "left", "right"))
    frame = pd.DataFrame({"a": 5 + 2 * X[:, 0], "kind": kind, "size": X[:, 0] + rng.normal(size=N), "f": TIMES})
    keywords = dict(target="size", model="linear", priors="auto", k=60)
    weighted = corelet.build(frame, weights="f", **keywords)
    repeated = corelet.build(frame.iloc[often], exclude=["f"], **keywords)
    assert weighted.names == repeated.names
    for key, parts in (("corelet.standardisation", ("means", "scale")), ("corelet.model", ("spreads",))):
        one, two = (json.loads(coreset.metadata[key]) for coreset in (weighted, repeated))
        assert all(one[part] == pytest.approx(two[part], rel=1e-9) for part in parts)
    one, two = (json.loads(coreset.metadata["corelet.model"])["said"] for coreset in (weighted, repeated))
    scales = [[float(group["prior"].split(",")[1].strip(" )")) for group in said] for said in (one, two)]
    assert scales[0] == pytest.approx(scales[1], rel=1e-9)
    mean = [coreset.sample(progress=False, **CHAINS).posterior["original"].values.mean(axis=(0, 1)) for coreset in (weighted, repeated)]
    assert mean[0] == pytest.approx(mean[1], abs=0.02)


def test_fit_and_formulas_know_them():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "late": LABELS, "f": TIMES, "o": OFFSET})
    fit = corelet.fit("late ~ a * b", frame, k=80, weights="f", offset="o", progress=False, **CHAINS)
    assert fit.verdict.grade == "A" and fit.coreset.names == ["a", "b", "a:b", "(intercept)"]
    arrays = corelet.fit("late ~ a * b", frame[["a", "b", "late"]], k=80, weights=TIMES, offset=OFFSET, progress=False, **CHAINS)
    assert (arrays.coreset.rows == fit.coreset.rows).all() and (arrays.coreset.weights == fit.coreset.weights).all()
    idata = fit.coreset.sample(progress=False, **CHAINS)
    mean = fit.coreset.predict(frame.head(), idata=idata).mean
    assert mean == pytest.approx(fit.coreset.predict(frame.head(), idata=idata, offset=OFFSET[:5]).mean)
    with pytest.raises(corelet.CoreletError, match="'o' is no column"):
        fit.coreset.predict(frame[["a", "b"]].head(), idata=idata)
    with pytest.raises(corelet.CoreletError, match="3 "):
        fit.coreset.predict(frame.head(), idata=idata, offset=OFFSET[:3])
    higher = fit.coreset.predict(frame.head(), idata=idata, offset=OFFSET[:5] + 1).mean
    assert (higher > mean).all()


def test_trials_events_and_exposures_are_arrays_too():
    trials = rng.integers(1, 9, N)
    wins = rng.binomial(trials, 1 / (1 + np.exp(-X[:, 0])))
    seen = rng.random(N) < 0.7
    times = np.exp(0.3 * X[:, 0]) * rng.standard_exponential(N)
    hours = rng.uniform(0.5, 2, N)
    for model, target, name, values in [
        ("binomial", wins, "trials", trials),
        ("weibull", times, "event", seen),
        ("poisson", COUNTS, "exposure", hours),
    ]:
        table = {"a": X[:, 0], "b": X[:, 1], "beside": values}
        named = corelet.build(table, target, model=model, k=50, **{name: "beside"})
        arrays = corelet.build(X[:, :2], target, model=model, k=50, **{name: values})
        assert (named.rows == arrays.rows).all() and (named.weights == arrays.weights).all()
        assert corelet.check(arrays, X[:, :2], target, progress=False, **{name: values}, **CHAINS).grade == "A"
        idata = arrays.sample(progress=False, **CHAINS)
        scored = arrays.score(X[:90, :2], target[:90], idata=idata, **{name: values[:90]})
        there = {column: cells[:90] for column, cells in table.items()}
        assert scored.each == pytest.approx(named.score(there, target[:90], idata=idata).each)


def test_scores_take_what_the_coreset_was_built_with(counted):
    idata = counted.sample(progress=False, **CHAINS)
    scored = counted.score(X[:80], COUNTS[:80], offset=OFFSET[:80], idata=idata)
    theta = idata.posterior["original"].values.reshape(-1, 4)
    eta = theta @ np.column_stack([X[:80], np.ones(80)]).T + OFFSET[:80]
    density = np.exp(poisson.logpmf(COUNTS[:80], np.exp(eta))).mean(axis=0)
    assert scored.each == pytest.approx(np.log(density), rel=1e-4)
    with pytest.raises(corelet.CoreletError, match="there is no column 'offset'"):
        counted.score(X[:80], COUNTS[:80], idata=idata)
    with pytest.raises(corelet.CoreletError, match="offset has 3 numbers"):
        counted.score(X[:80], COUNTS[:80], offset=OFFSET[:3], idata=idata)
    with pytest.raises(corelet.CoreletError, match="exposure is given, but the coreset was built without"):
        counted.score(X[:80], COUNTS[:80], offset=OFFSET[:80], exposure=OFFSET[:80], idata=idata)


def test_few_distinct_rows_are_exact():
    levels = pd.DataFrame({"a": X[:, 0] > 0, "b": np.digitize(X[:, 1], [-1, 0, 1]), "late": LABELS})
    coreset = corelet.build(levels, target="late", k=50, collapse=True)
    assert coreset.summary["n"] == N and coreset.summary["distinct"] == len(coreset) == 16
    assert coreset.method == "collapse" and coreset.quality.kl_forward < 1e-12
    assert coreset.weights.sum() == N and len(coreset.sample_weight) == N
    verdict = corelet.check(coreset, levels, progress=False, **CHAINS)
    assert verdict.headline.startswith("A - exact")
    fit = corelet.fit(levels, target="late", collapse=True, weights=TIMES, progress=False, **CHAINS)
    assert fit.verdict.headline.startswith("A - exact") and fit.coreset.weights.sum() == TIMES.sum()


def test_bad_weights_are_refused():
    def refused(match, **keywords):
        with pytest.raises(corelet.CoreletError, match=match):
            corelet.build(X, LABELS, k=20, **keywords)

    refused("row 7: 0", weights=np.where(np.arange(N) == 7, 0.0, TIMES))
    refused("row 9", weights=np.where(np.arange(N) == 9, np.inf, TIMES))
    refused("1 in 'weights'", weights=np.where(np.arange(N) == 9, np.nan, TIMES))
    refused("row 3", offset=np.where(np.arange(N) == 3, -np.inf, OFFSET))
    refused("weights has 5 values, X has 3000 rows", weights=TIMES[:5])
    with pytest.raises(corelet.CoreletError, match="weights is for model"):
        corelet.build(X, model="gaussian", weights=TIMES)
    with pytest.raises(corelet.CoreletError, match="name its columns"):
        corelet.build("data.csv", target="y", weights=TIMES)


def test_survey_weights_that_sum_to_one_are_warned_of():
    with pytest.warns(UserWarning, match="divided by their mean"):
        corelet.build(X, LABELS, k=20, weights=rng.uniform(0.5, 1.5, N) / N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corelet.build(X, LABELS, k=60, weights=rng.uniform(0.5, 1.5, N))


def test_estimators_take_sample_weight():
    from sklearn.linear_model import LinearRegression, LogisticRegression

    small = corelet.CoresetClassifier(LogisticRegression(C=1e6), k=80).fit(X, LABELS, sample_weight=TIMES)
    full = LogisticRegression(C=1e6).fit(X, LABELS, sample_weight=TIMES)
    plain = LogisticRegression(C=1e6).fit(X, LABELS)
    assert np.abs(small.estimator_.coef_ - full.coef_).max() < 0.3 * np.abs(plain.coef_ - full.coef_).max()
    some = TIMES * (rng.random(N) < 0.5)
    target = X @ [1.0, 2.0, -1.0] + rng.normal(size=N)
    small = corelet.CoresetRegressor(k=60).fit(X, target, sample_weight=some)
    full = LinearRegression().fit(X, target, sample_weight=some)
    assert np.abs(small.estimator_.coef_ - full.coef_).max() < 1e-2 and (some[small.rows_] > 0).all()
    with pytest.raises(ValueError, match="Negative"):
        corelet.CoresetRegressor().fit(X, target, sample_weight=-TIMES)
