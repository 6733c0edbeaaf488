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
        "softmax": np.array(["p", "q", "r"])[np.argmax(np.column_stack([0 * ETA, ETA, -ETA]) + rng.gumbel(size=(N, 3)), axis=1)],
        "ordinal": np.digitize(ETA + rng.logistic(size=N), [-1.0, 0.2, 1.0]),
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
        assert predicted.mean[0] == pytest.approx(by_hand.mean(), abs=1e-5)


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
        (FRAME.assign(kind="q"), "'kind', row 0: 'q' is an unseen level; the coreset's data had 'a', 'b', 'z'"),
        (FRAME.assign(x=np.where(np.arange(N) == 7, np.nan, FRAME.x)), r"1 of 3000 rows have missing values \(1 in 'x'\)"),
        (FRAME.assign(x="one"), "'x' was numbers in the coreset's data"),
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


@pytest.mark.parametrize("model", ["softmax", "ordinal"])
def test_classes_have_probabilities(model):
    table = FRAME[["x", "kind"]].assign(y=targets(model))
    coreset = corelet.build(table, target="y", model=model, k=100)
    idata = coreset.sample(draws=400, warmup=300, chains=2)
    new = FRAME.iloc[:200]
    predicted = coreset.predict(new, idata=idata)
    classes = list(predicted.classes)
    assert classes == coreset.summary["classes"] and predicted.mean.shape == (200, len(classes))
    assert predicted.quantiles.shape == (200, len(classes), 3) and predicted.mean.sum(axis=1) == pytest.approx(1)
    eta = ETA[:200].to_numpy()
    if model == "softmax":
        truth = dict(zip("pqr", np.exp([0 * eta, eta, -eta]) / np.exp([0 * eta, eta, -eta]).sum(axis=0)))
    else:
        cuts = np.array([-np.inf, -1.0, 0.2, 1.0, np.inf])
        truth = dict(zip("0123", np.diff(1 / (1 + np.exp(-(cuts[:, None] - eta))), axis=0)))
    for at, label in enumerate(classes):
        assert (np.abs(predicted.mean[:, at] - truth[label]) < 5 * predicted.sd[:, at] + 1e-3).all()
    outcome = coreset.predict(new, idata=idata, kind="outcome")
    assert np.abs(outcome.mean - predicted.mean).max() < 0.1
    # The density of the observed classes is the mean over draws of their probabilities.
    observed = [classes.index(str(y)) for y in table.y[:200]]
    scored = coreset.score(table.iloc[:200], idata=idata)
    assert scored.each == pytest.approx(np.log(predicted.mean[np.arange(200), observed]))
    assert scored.total == pytest.approx(scored.each.sum()) and scored.mean_se > 0


def test_scores_are_log_densities():
    table = FRAME[["x", "kind"]].assign(y=targets("linear"))
    coreset = corelet.build(table, target="y", model="linear", k=80)
    idata = coreset.sample(draws=300, warmup=300, chains=2)
    theta = np.asarray(idata.posterior["original"]).reshape(-1, len(coreset.names))
    design = np.column_stack([{"x": table.x, "(intercept)": np.ones(N)}.get(n, table.kind == n[5:]) for n in coreset.names[:-1]])
    mean, sd = design[:100].astype(float) @ theta[:, :-1].T, np.exp(theta[:, -1])
    density = np.exp(-0.5 * ((table.y[:100].to_numpy()[:, None] - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    scored = coreset.score(table.iloc[:100], idata=idata)
    assert scored.each == pytest.approx(np.log(density.mean(axis=1)), rel=1e-4)
    beside = coreset.score(table.iloc[:100].drop(columns="y"), table.y[:100], idata=idata)
    assert beside.each == pytest.approx(scored.each)
    with pytest.raises(corelet.CoreletError, match="given twice"):
        coreset.score(table, table.y)
    formula = corelet.build("y ~ kind + x", table, model="linear", k=80)
    assert formula.score(table).mean == pytest.approx(coreset.score(table).mean, abs=1e-2)


def test_unknown_tails_are_estimated():
    table = FRAME[["x", "kind"]].assign(y=targets("student"))
    coreset = corelet.build(table, target="y", model="student", degrees="estimated", k=100)
    assert coreset.names[-2:] == ["log_sigma", "log_nu"]
    verdict = corelet.check(coreset, table, draws=500, warmup=500, chains=2)
    nu = np.exp(np.asarray(verdict.draws["posterior"]["original"])[..., -1])
    assert verdict.grade == "A" and 2.5 < nu.mean() < 7
    assert verdict.idata.posterior["nu"].values == pytest.approx(nu)
    outcome = coreset.predict(table.iloc[:300], kind="outcome", quantiles=[0.1, 0.9])
    inside = np.mean((table.y[:300] >= outcome.quantiles[:, 0]) & (table.y[:300] <= outcome.quantiles[:, 1]))
    assert 0.7 < inside < 0.9
    with pytest.raises(corelet.CoreletError, match="degrees is 'unknown'.*expected a number above 0, or 'estimated'"):
        corelet.build(table, target="y", model="student", degrees="unknown")


def test_the_groups_of_rows_in_the_inference_data():
    table = FRAME[["x", "kind", "t"]].assign(y=targets("poisson"))
    coreset = corelet.build(table, target="y", model="poisson", exposure="t", k=60)
    verdict = corelet.check(coreset, table, draws=200, warmup=200, chains=2)
    for idata in (coreset.sample(draws=200, warmup=200, chains=2), verdict.idata):
        assert idata.log_likelihood["y"].shape == idata.posterior_predictive["y"].shape == (2, 200, len(coreset))
        assert idata.observed_data["y"].values.tolist() == table.y.to_numpy()[coreset.rows].tolist()
        assert idata.observed_data["row"].values.tolist() == coreset.rows.tolist()
    theta = np.asarray(verdict.draws["posterior"]["original"])
    rows = table.iloc[coreset.rows]
    design = np.column_stack([{"x": rows.x, "(intercept)": np.ones(len(rows))}.get(n, rows.kind == n[5:]) for n in coreset.names])
    rate = rows.t.to_numpy() * np.exp(theta @ design.astype(float).T)
    y = rows.y.to_numpy()
    want = y * np.log(rate) - rate - np.array([math.lgamma(count + 1) for count in y])
    assert verdict.idata.log_likelihood["y"].values == pytest.approx(want, rel=1e-4, abs=1e-4)
    assert verdict.idata.posterior_predictive["y"].values.mean() == pytest.approx(rate.mean(), rel=0.05)
