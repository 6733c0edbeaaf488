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
    with pytest.raises(ValueError, match="Only binary classification"):
        corelet.CoresetClassifier(k=50).fit(X, np.arange(len(X)) % 3)
