"""`corelet.CoresetSelector` among scikit-learn's estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import corelet


MODELS = ("gamma", "gaussian", "linear", "logistic", "negative-binomial", "poisson", "softmax", "student")


@parametrize_with_checks([corelet.CoresetSelector(model=model) for model in MODELS])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_weighted_fit_is_the_full_fit(logistic):
    X, y = logistic
    labels = np.where(y > 0, "yes", "no")
    selector = clone(corelet.CoresetSelector(k=80)).fit(X, labels)
    expected = corelet.build(X, y, k=80)
    assert np.array_equal(selector.rows_, expected.rows) and np.array_equal(selector.weights_, expected.weights)
    assert selector.classes_.tolist() == ["no", "yes"]
    full = LogisticRegression(max_iter=1000).fit(X, labels)
    weighted = LogisticRegression(max_iter=1000).fit(X, labels, sample_weight=selector.sample_weight_)
    assert weighted.coef_ == pytest.approx(full.coef_, rel=0.05, abs=0.02)
    rows, chosen, weights = selector.select(X, labels)
    assert np.array_equal(rows, X[selector.rows_]) and np.array_equal(chosen, labels[selector.rows_])
    assert np.array_equal(weights, selector.weights_)


def test_three_classes_are_for_softmax(logistic):
    X, _ = logistic
    labels = np.array(["ash", "birch", "cedar"])[np.arange(len(X)) % 3]
    with pytest.raises(ValueError, match="Only binary classification.*softmax"):
        corelet.CoresetSelector(k=10).fit(X, labels)
    selector = corelet.CoresetSelector(k=40, model="softmax").fit(X, labels)
    assert selector.classes_.tolist() == ["ash", "birch", "cedar"]
    assert np.array_equal(selector.rows_, corelet.build(X, labels, model="softmax", k=40).rows)


def test_tables_stay_tables(logistic):
    X, y = logistic
    selector = corelet.CoresetSelector(k=40).fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) + 100).astype({"a": "float32"})
    others = pl.DataFrame({"a": X[:, 0]}), pa.table({"a": X[:, 0]})
    chosen, labels, polars, arrow, weights = selector.select(frame, pd.Series(y, name="y"), *others)
    assert chosen.equals(frame.iloc[selector.rows_]) and labels.name == "y" and (labels.index == selector.rows_).all()
    assert polars["a"].to_list() == arrow["a"].to_pylist() == X[selector.rows_, 0].tolist()
    assert np.array_equal(weights, selector.weights_)


def test_one_and_two_are_labels_as_in_build(logistic):
    X, y = logistic
    selector = corelet.CoresetSelector(k=40).fit(X, y + 1)
    with pytest.warns(UserWarning, match="2 is taken as success"):
        built = corelet.build(X, y + 1, k=40)
    assert selector.classes_.tolist() == [1, 2] and np.array_equal(selector.rows_, built.rows)
    assert np.array_equal(selector.weights_, corelet.build(X, y, k=40).weights)
