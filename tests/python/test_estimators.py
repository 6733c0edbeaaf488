"""`corelet.CoresetClassifier` and `corelet.CoresetRegressor` among scikit-learn's estimators."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import corelet


@parametrize_with_checks([corelet.CoresetClassifier(k=30), corelet.CoresetRegressor(k=30)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_fit_is_that_of_all_rows(logistic):
    X, y = logistic
    labels = np.where(y > 0, "yes", "no")
    small = corelet.CoresetClassifier(LogisticRegression(max_iter=1000), k=80).fit(X, labels)
    full = LogisticRegression(max_iter=1000).fit(X, labels)
    assert len(small.rows_) <= 80 and small.coreset_ is not None
    assert small.classes_.tolist() == ["no", "yes"]
    assert small.predict_proba(X) == pytest.approx(full.predict_proba(X), abs=0.02)
    assert small.score(X, labels) == pytest.approx(full.score(X, labels), abs=0.01)


def test_counts_and_numbers(logistic):
    X, _ = logistic
    rng = np.random.default_rng(2)
    mean = 0.3 * X[:, 0] + 0.05 * X[:, 1]
    numbers = mean + rng.normal(size=len(X))
    linear = corelet.CoresetRegressor(k=80).fit(X, numbers)
    assert linear.estimator_.coef_ == pytest.approx(LinearRegression().fit(X, numbers).coef_, abs=0.02)
    counts = rng.poisson(np.exp(mean)).astype(float)
    poisson = corelet.CoresetRegressor(PoissonRegressor(alpha=0, max_iter=1000), k=80, model="poisson").fit(X, counts)
    full = PoissonRegressor(alpha=0, max_iter=1000).fit(X, counts)
    assert poisson.estimator_.coef_ == pytest.approx(full.coef_, abs=0.02)


def test_pipelines_and_grid_searches(logistic):
    X, y = logistic
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), corelet.CoresetClassifier(LogisticRegression(), k=30)),
        {"coresetclassifier__k": [10, 60], "coresetclassifier__estimator__C": [0.1, 1.0]},
        cv=2,
    ).fit(X, y)
    assert 0.5 < grid.best_score_ < 1.0
    assert len(grid.best_estimator_[-1].rows_) <= 60


def test_all_rows_where_there_are_no_more(logistic):
    X, y = logistic
    few = corelet.CoresetClassifier(k=500).fit(X[:100], y[:100])
    assert few.coreset_ is None and np.array_equal(few.weights_, np.ones(100))
    assert np.array_equal(few.predict(X), LogisticRegression().fit(X[:100], y[:100]).predict(X))


def test_what_an_estimator_has_is_handed_on(logistic):
    X, y = logistic
    trees = corelet.CoresetClassifier(HistGradientBoostingClassifier(max_iter=5), k=50).fit(X, y)
    assert trees.predict_proba(X).shape == (len(X), 2)
    assert trees.decision_function(X).shape == (len(X),)
    with pytest.raises(TypeError, match="KNeighborsClassifier takes no sample_weight"):
        corelet.CoresetClassifier(KNeighborsClassifier(), k=50).fit(X, y)


@pytest.fixture(scope="module")
def kinds():
    """Features and three classes by name."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(4000, 3))
    scores = X @ np.array([[0.0, 1.0, -0.5], [0.0, -0.5, 0.3], [0.0, 0.0, 0.8]]) + [0.8, 0.0, 0.2]
    return X, np.array(["birch", "ash", "cedar"])[np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)]


def test_several_classes_are_those_of_all_rows(kinds):
    X, y = kinds
    small = corelet.CoresetClassifier(LogisticRegression(), k=150).fit(X, y)
    full = LogisticRegression().fit(X, y)
    assert small.coreset_.summary["model"] == "softmax" and len(small.rows_) <= 150
    assert small.classes_.tolist() == full.classes_.tolist() == small.estimator_.classes_.tolist()
    assert small.predict_proba(X) == pytest.approx(full.predict_proba(X), abs=0.03)
    assert small.decision_function(X).shape == (len(X), 3)
    assert small.score(X, y) == pytest.approx(full.score(X, y), abs=0.01)
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), corelet.CoresetClassifier(LogisticRegression())),
        {"coresetclassifier__k": [60, 120], "coresetclassifier__estimator__C": [0.1, 1.0]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, y)
    assert np.isfinite(grid.best_score_) and grid.predict_proba(X[:5]).shape == (5, 3)


def test_weights_of_rows_of_several_classes(kinds):
    X, y = kinds
    times = np.random.default_rng(9).integers(0, 4, size=len(X))
    times[y == "cedar"] = 0  # A row of weight 0 is not there, nor is its class.
    two = corelet.CoresetClassifier(k=100).fit(X, y, sample_weight=times)
    assert two.classes_.tolist() == ["ash", "birch"] and two.coreset_.summary["model"] == "logistic"
    times = np.random.default_rng(9).integers(0, 4, size=len(X))
    small = corelet.CoresetClassifier(k=150).fit(X, y, sample_weight=times)
    full = LogisticRegression().fit(X, y, sample_weight=times)
    assert (times[small.rows_] > 0).all()
    assert small.predict_proba(X) == pytest.approx(full.predict_proba(X), abs=0.03)


def test_classes_that_cannot_be(kinds):
    X, y = kinds
    with pytest.raises(ValueError, match="y has one class"):
        corelet.CoresetClassifier(k=50).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="logistic' is for two classes, and y has 3"):
        corelet.CoresetClassifier(k=50, model="logistic").fit(X, y)
    with pytest.raises(ValueError, match="more than 20"):
        corelet.CoresetClassifier(k=50).fit(X, np.arange(len(X)) % 30)
    with pytest.raises(ValueError, match=r"none of the .* chosen rows has class .*: a larger k is needed"):
        corelet.CoresetClassifier(k=2).fit(X, y)
    levels = np.digitize(X[:, 0], [-1.0, 0.5])
    assert corelet.CoresetClassifier(k=60, model="ordinal").fit(X, levels).coreset_.summary["model"] == "ordinal"
