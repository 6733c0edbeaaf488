"""`corelet.CoresetSelector` among scikit-learn's estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import corelet


@parametrize_with_checks([corelet.CoresetSelector(model=model) for model in ("gaussian", "linear", "logistic", "poisson")])
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


def test_three_classes_are_refused(logistic):
    X, _ = logistic
    with pytest.raises(ValueError, match="Only binary classification"):
        corelet.CoresetSelector(k=10).fit(X, np.arange(len(X)) % 3)
