"""Formulas in `corelet.build`, `fit` and `check`."""

import numpy as np
import pandas as pd
import pytest

import corelet


@pytest.fixture(scope="module")
def flights():
    rng = np.random.default_rng(5)
    n = 3000
    frame = pd.DataFrame(
        {
            "hour": rng.uniform(5, 23, n),
            "carrier": rng.choice(["AA", "DL", "UA"], n),
            "origin": rng.choice(["EWR", "JFK"], n),
        }
    )
    eta = 0.8 * np.sin(frame.hour / 4) + 0.7 * (frame.carrier == "UA") * (frame.origin == "JFK") - 0.3
    return frame.assign(late=np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"), delay=eta + rng.normal(size=n))


def test_interactions_and_splines(flights):
    coreset = corelet.build("late ~ carrier*origin + bs(hour, df=5)", flights, k=150, positive="yes")
    assert "carrier[T.UA]:origin[T.JFK]" in coreset.names and "bs(hour, df=5)[1]" in coreset.names
    assert coreset.names[-1] == "(intercept)" and len(coreset.names) == 5 + 5 + 1
    matrix = coreset.design.features(flights)
    plain = corelet.build(matrix, flights.late, k=150, positive="yes")
    assert np.array_equal(plain.rows, coreset.rows) and np.array_equal(plain.weights, coreset.weights)
    assert corelet.check(coreset, flights, draws=600, warmup=200, chains=2).grade == "A"


def test_new_rows_are_coded_as_the_old(flights):
    coreset = corelet.build("delay ~ carrier + scale(hour)", flights, model="linear", k=60)
    few = coreset.design.features(flights.iloc[:3])
    assert np.allclose(few, coreset.design.features(flights).iloc[:3])
    with pytest.raises(corelet.CoreletError, match="do not suit the formula"):
        coreset.design.features(pd.DataFrame({"carrier": ["XX"], "hour": [6.0]}))
    with pytest.raises(corelet.CoreletError, match="hour"):
        coreset.design.features(pd.DataFrame({"carrier": ["AA"]}))


def test_without_an_intercept_and_with_an_expression(flights):
    coreset = corelet.build("np.exp(delay) ~ hour - 1", flights, model="linear", k=10)
    assert coreset.names[0] == "hour" and "(intercept)" not in coreset.names


def test_the_posterior_in_one_call(flights):
    fit = corelet.fit("delay ~ carrier + hour", flights, model="linear", k=80, chains=2, draws=300, tune=200)
    assert fit.verdict.grade == "A" and fit.coreset.design.formula == "delay ~ carrier + hour"


def test_missing_values_are_counted_as_elsewhere(flights):
    gaps = flights.copy()
    gaps.loc[[7, 11], "hour"] = np.nan
    with pytest.raises(corelet.CoreletError, match="2 of 3000 rows have missing values"):
        corelet.build("late ~ hour", gaps, k=20, positive="yes")
    coreset = corelet.build("late ~ hour", gaps, k=20, positive="yes", drop_missing=True)
    assert coreset.summary["rows_dropped"] == 2 and coreset.summary["n"] == len(flights) - 2


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("~ hour", "must be 'target ~ terms'"),
        ("late ~ ", "must be 'target ~ terms'"),
        ("late ~ nothing", "cannot be used"),
        ("late ~ 1", "has no term"),
        ("nowhere ~ hour", "'nowhere' is no column"),
    ],
)
def test_bad_formulas(flights, formula, words):
    with pytest.raises(corelet.CoreletError, match=words):
        corelet.build(formula, flights, k=20)


def test_a_formula_needs_a_frame():
    with pytest.raises(corelet.CoreletError, match="needs a data frame"):
        corelet.build("y ~ x", np.zeros((3, 2)), k=1)
    with pytest.raises(corelet.CoreletError, match="by '- 1' in it"):
        corelet.build("y ~ x", pd.DataFrame({"y": [0, 1], "x": [1.0, 2.0]}), k=1, intercept=False)


def test_what_stands_beside_a_formula(flights):
    rng = np.random.default_rng(6)
    counted = flights.assign(days=rng.uniform(0.5, 2, len(flights)))
    counted["trips"] = rng.poisson(counted.days * np.exp(0.1 * counted.hour - 1))
    coreset = corelet.build("trips ~ hour", counted, model="poisson", exposure="days", k=40)
    plain = corelet.build(counted[["hour", "days", "trips"]], target="trips", model="poisson", exposure="days", k=40)
    assert np.array_equal(coreset.rows, plain.rows) and coreset.names == plain.names
    assert corelet.check(coreset, counted, draws=300, warmup=200, chains=2).grade == "A"
    assert len(coreset.predict(counted.iloc[:5])) == 5
    with pytest.raises(corelet.CoreletError, match="'weeks' is no column"):
        corelet.build("trips ~ hour", counted, model="poisson", exposure="weeks", k=40)
    with pytest.raises(corelet.CoreletError, match="features cannot be given beside a formula"):
        corelet.build("trips ~ hour", counted, features=["hour"], k=40)


def test_a_path_with_a_tilde_is_a_path(flights, tmp_path):
    path = tmp_path / "fl~1.csv"
    flights[["hour", "delay"]].to_csv(path, index=False)
    assert len(corelet.build(str(path), target="delay", model="linear", k=20)) <= 20
