"""Several classes and ordered levels: coresets, verdicts and names, against scikit-learn and scipy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import corelet

N = 4000
rng = np.random.default_rng(5)
X = rng.normal(size=(N, 3))
SLOPES = np.array([[0.0, 0.0, 0.0], [1.0, -0.5, 0.0], [-0.5, 0.3, 0.8]])
KINDS = np.array(["ash", "birch", "cedar"])[np.argmax(X @ SLOPES.T + [0.8, 0, 0.2] + rng.gumbel(size=(N, 3)), axis=1)]
LATENT = X @ [0.8, -0.4, 0.2] + rng.logistic(size=N)
GRADES = np.array(["poor", "fair", "good", "best"])[np.digitize(LATENT, [-1.0, 0.4, 1.5])]
ORDER = ["poor", "fair", "good", "best"]


def test_softmax_is_that_of_scikit_learn():
    fit = corelet.fit(X, KINDS, model="softmax", k=150, prior_sd=30.0, standardise="none", chains=2, progress=False)
    assert fit.verdict.grade == "A"
    classes = fit.coreset.summary["classes"]
    assert sorted(classes) == ["ash", "birch", "cedar"] and classes[0] == max(classes, key=list(KINDS).count)
    assert fit.coreset.names == [f"{name}:{x}" for name in classes[1:] for x in ("x1", "x2", "x3", "(intercept)")]
    plain = LogisticRegression(C=900.0).fit(X, KINDS)
    coefficients = dict(zip(plain.classes_, np.column_stack([plain.coef_, plain.intercept_])))
    want = np.concatenate([coefficients[name] - coefficients[classes[0]] for name in classes[1:]])
    draws = np.asarray(fit.draws["original"]).reshape(-1, 8)
    assert np.abs(draws.mean(axis=0) - want).max() < 0.25 * draws.std(axis=0).max()


def test_few_points_of_several_classes_are_no_a():
    for model, y in (("softmax", KINDS), ("ordinal", pd.Series(pd.Categorical(GRADES, ORDER, ordered=True)))):
        coreset = corelet.build(X, y, model=model, k=4)
        assert corelet.check(coreset, X, y, draws=300, warmup=300, chains=2).grade != "A"


def log_likelihood(theta):
    """Of the cumulative logit with its cutpoints as parameters."""
    cuts = np.concatenate([[-np.inf], theta[3:], [np.inf]])
    y, eta = np.searchsorted([-1.0, 0.4, 1.5], LATENT, side="right"), X @ theta[:3]
    return np.log(expit(cuts[y + 1] - eta) - expit(cuts[y] - eta)).sum()


def test_ordinal_is_that_of_scipy():
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(grade=pd.Categorical(GRADES, ORDER, ordered=True))
    fit = corelet.fit(table, target="grade", model="ordinal", k=150, prior_sd=30.0, chains=2, progress=False)
    assert fit.verdict.grade == "A" and fit.coreset.summary["classes"] == ORDER
    assert fit.coreset.names == ["a", "b", "c", "(intercept)", "log_gap_1", "log_gap_2"]
    want = minimize(lambda theta: -log_likelihood(theta), [0, 0, 0, -1, 0, 1.0]).x
    draws = np.asarray(fit.draws["original"]).reshape(-1, 6)
    middle = -draws[:, 3]
    cuts = np.column_stack([middle - np.exp(draws[:, 4]), middle, middle + np.exp(draws[:, 5])])
    found = np.concatenate([draws[:, :3].mean(axis=0), cuts.mean(axis=0)])
    assert np.abs(found - want).max() < 0.02
    assert fit.idata.posterior["cutpoints"].values.reshape(-1, 3) == pytest.approx(cuts)


def test_levels_have_an_order():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(grade=GRADES)
    said = corelet.build(frame, target="grade", model="ordinal", levels=ORDER, k=50)
    number = corelet.build(X, np.searchsorted([-1.0, 0.4, 1.5], LATENT, side="right"), model="ordinal", k=50)
    enum = corelet.build(pl.DataFrame(X, schema=["a", "b", "c"]), pl.Series(GRADES, dtype=pl.Enum(ORDER)), model="ordinal", k=50)
    formula = corelet.build("grade ~ a + b + c", frame.assign(grade=pd.Categorical(GRADES, ORDER, ordered=True)), model="ordinal", k=50)
    assert said.summary["classes"] == enum.summary["classes"] == formula.summary["classes"] == ORDER
    assert said.rows.tolist() == number.rows.tolist() == enum.rows.tolist() == formula.rows.tolist()
    assert said.weights.tolist() == number.weights.tolist() == enum.weights.tolist()
    with pytest.raises(corelet.CoreletError, match="say the order of the levels 'best', 'fair', 'good', 'poor'.*levels"):
        corelet.build(frame, target="grade", model="ordinal")
    with pytest.raises(corelet.CoreletError, match="levels is for model ordinal"):
        corelet.build(X, KINDS, model="softmax", levels=["ash"])
