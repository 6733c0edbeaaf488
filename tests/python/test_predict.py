"""`Coreset.predict`, against closed forms and the draws themselves."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import corelet

rng = np.random.default_rng(3)
N = 3000
FRAME = pd.DataFrame({"x": rng.normal(3, 2, N), "kind": rng.choice(["a", "b", "z"], N), "t": rng.uniform(0.5, 2, N)})
ETA = 0.2 * FRAME.x + 0.6 * (FRAME.kind == "b") - 0.8


def targets(model):
    mean = np.exp(ETA)
    return {
        "logistic": rng.random(N) < 1 / (1 + np.exp(-ETA)),
        "poisson": rng.poisson(mean * FRAME.t),
        "negative-binomial": rng.poisson(rng.gamma(3.0, mean * FRAME.t / 3)),
        "linear": ETA + 0.5 * rng.normal(size=N),
        "student": ETA + 0.5 * rng.standard_t(4, N),
        "gamma": rng.gamma(4.0, mean / 4),
        "weibull": mean * rng.standard_exponential(N) ** (1 / 1.5),
        "exponential": mean * rng.standard_exponential(N),
    }[model]


@pytest.fixture(scope="module", params=["logistic", "poisson", "negative-binomial", "linear", "student", "gamma", "weibull", "exponential"])
def built(request):
    model = request.param
    exposed = model in ("poisson", "negative-binomial")
    table = FRAME[["x", "kind"]].assign(y=targets(model), **({"t": FRAME.t} if exposed else {}))
    coreset = corelet.build(table, target="y", model=model, k=80, exposure="t" if exposed else None)
    return coreset, coreset.sample(draws=400, warmup=300, chains=2)


def test_the_mean_is_where_the_data_are(built):
    coreset, idata = built
    model, new = coreset.summary["model"], FRAME.iloc[:200]
    predicted = coreset.predict(new, idata=idata)
    scale = FRAME.t[:200] if model in ("poisson", "negative-binomial") else 1.0
    truth = {
        "logistic": 1 / (1 + np.exp(-ETA[:200])),
        "linear": ETA[:200],
        "student": ETA[:200],
        "weibull": np.exp(ETA[:200]) * math.gamma(1 + 1 / 1.5),
    }.get(model, np.exp(ETA[:200]) * scale)
    assert (np.abs(predicted.mean - truth) < 5 * predicted.sd + 1e-6).all()
    assert (np.diff(predicted.quantiles, axis=1) > 0).all() and predicted.quantiles.shape == (200, 3)
    theta = np.asarray(idata.posterior["original"]).reshape(-1, len(coreset.names))
    by_hand = theta[:, 0] * new.x[0] + sum(
        theta[:, coreset.names.index(f"kind={level}")] * (new.kind[0] == level) for level in "abz" if f"kind={level}" in coreset.names
    ) + theta[:, coreset.names.index("(intercept)")]
    if model in ("linear", "student"):
        assert predicted.mean[0] == pytest.approx(by_hand.mean(), rel=1e-9)


def test_outcomes_spread_as_the_data_do(built):
    coreset, idata = built
    outcome = coreset.predict(FRAME.iloc[:300], idata=idata, kind="outcome", quantiles=[0.1, 0.9], seed=1)
    again = coreset.predict(pl.from_pandas(FRAME.iloc[:300]), idata=idata, kind="outcome", quantiles=[0.1, 0.9], seed=1)
    assert np.array_equal(outcome.mean, again.mean) and outcome.kind == "outcome"
    mean = coreset.predict(FRAME.iloc[:300], idata=idata)
    assert np.median(np.abs(outcome.mean - mean.mean) / outcome.sd) < 0.1
    observed = targets(coreset.summary["model"])[:300].astype(float)
    inside = np.mean((observed >= outcome.quantiles[:, 0]) & (observed <= outcome.quantiles[:, 1]))
    assert inside > 0.7


def test_rows_that_do_not_suit():
    coreset = corelet.build(FRAME.assign(y=targets("logistic")), target="y", k=40)
    for change, words in [
        (FRAME.drop(columns="x"), "no column 'x'"),
        (FRAME.assign(kind="q"), "row 0 is 'q'; known are a, b, z"),
        (FRAME.assign(x=np.where(np.arange(N) == 7, np.nan, FRAME.x)), "row 7 is missing"),
        (FRAME.assign(x="one"), "'x' of the new rows is not numeric"),
    ]:
        with pytest.raises(corelet.CoreletError, match=words):
            coreset.predict(change)
    with pytest.raises(corelet.CoreletError, match="one of mean, outcome"):
        coreset.predict(FRAME, kind="median")
    everything = corelet.fit(FRAME.iloc[:200, :1], targets("linear")[:200], model="linear", full=True, draws=60, tune=40, chains=2)
    with pytest.raises(corelet.CoreletError, match="build a coreset of them"):
        everything.coreset.predict(FRAME)
    with pytest.raises(corelet.CoreletError, match="between 0 and 1"):
        coreset.predict(FRAME, quantiles=[5])
    assert len(coreset.predict(FRAME.iloc[:0])) == 0


def test_formulas_and_draws_of_the_verdict():
    table = FRAME.assign(y=targets("linear"))
    coreset = corelet.build("y ~ kind + poly(x, 2)", table, model="linear", k=60)
    corelet.check(coreset, table, draws=300, warmup=200, chains=2)
    predicted = coreset.predict(table.iloc[:50])
    assert (np.abs(predicted.mean - ETA[:50]) < 6 * predicted.sd).all()
    assert coreset.predict(table.iloc[:50]).mean == pytest.approx(predicted.mean)


def test_probabilities_of_trials():
    trials = rng.integers(1, 20, N)
    truth = 1 / (1 + np.exp(-ETA))
    table = FRAME[["x", "kind"]].assign(trials=trials, y=rng.binomial(trials, truth))
    coreset = corelet.build(table, target="y", trials="trials", model="binomial", k=60)
    assert corelet.check(coreset, table, draws=400, warmup=300, chains=2).grade == "A"
    predicted = coreset.predict(table.iloc[:200])
    assert (np.abs(predicted.mean - truth[:200]) < 5 * predicted.sd).all()


def test_censored_times():
    times, limit = targets("weibull"), 2.0
    table = FRAME[["x", "kind"]].assign(y=np.minimum(times, limit), seen=times <= limit)
    coreset = corelet.build(table, target="y", event="seen", model="weibull", k=80)
    assert corelet.check(coreset, table, draws=400, warmup=300, chains=2).grade == "A"
    predicted = coreset.predict(table.iloc[:200])
    truth = np.exp(ETA[:200]) * math.gamma(1 + 1 / 1.5)
    assert (np.abs(predicted.mean - truth) < 5 * predicted.sd).all()
