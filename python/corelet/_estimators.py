"""`corelet.CoresetClassifier` and `corelet.CoresetRegressor`: any scikit-learn estimator, fitted on the weighted rows of a coreset."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data

from ._build import build
from .results.coreset import Coreset


def _estimator_has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self._wanted()), name))


class _OnCoreset(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Chooses weighted rows, fits the estimator on them, and delegates everything else to it."""

    def __init__(
        self,
        estimator: Any = None,
        k: Optional[int] = 200,
        *,
        model: Optional[str] = None,
        standardise: str = "scale",
        prior_sd: Optional[float] = None,
        priors: Any = None,
        max_kl: Optional[float] = None,
        seed: int = 0,
        random_state: Any = None,
        threads: Optional[int] = None,
    ) -> None:
        self.estimator = estimator
        self.k = k
        self.model = model
        self.standardise = standardise
        self.prior_sd = prior_sd
        self.priors = priors
        self.max_kl = max_kl
        self.seed = seed
        self.random_state = random_state
        self.threads = threads

    def _wanted(self) -> Any:
        raise NotImplementedError

    def _fit(self, features: Any, target: Any, sample_weight: Any) -> None:
        estimator = clone(self._wanted())
        if not has_fit_parameter(estimator, "sample_weight"):
            raise TypeError(f"{type(estimator).__name__} takes no sample_weight, so it cannot be fitted on weighted rows")
        if sample_weight is None:
            rows, weights = self._choose(features, target, None)
        else:
            own = _check_sample_weight(sample_weight, features, dtype=np.float64)
            if (own < 0).any():
                raise ValueError("Negative values in data passed to `sample_weight`")
            there = np.flatnonzero(own)  # A row of weight 0 does not count.
            rows, weights = self._choose(features[there], target[there], own[there])
            rows = there[rows]
        self.rows_: NDArray[np.int64] = rows
        self.weights_: NDArray[np.float64] = weights
        self._check_chosen(target[rows])
        self.estimator_ = estimator.fit(features[rows], target[rows], sample_weight=weights)

    def _coded(self, target: Any) -> tuple[str, Any]:
        """The default model, and the target in its coding."""
        raise NotImplementedError

    def _check_chosen(self, target: Any) -> None:
        """Raises an error if the estimator cannot be fitted on the chosen rows."""

    def _choose(self, features: Any, target: Any, own: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        self.coreset_: Optional[Coreset] = None
        n = len(features)
        model, coded = self._coded(target)
        if self.k is not None and self.k >= n:
            return np.arange(n), np.ones(n) if own is None else own  # All rows stand for themselves.
        keywords = self.get_params(deep=False)
        del keywords["estimator"], keywords["random_state" if self.random_state is None else "seed"]
        self.coreset_ = build(features, coded, weights=own, progress=False, **{**keywords, "model": model})
        return self.coreset_.rows, self.coreset_.weights

    def predict(self, X: Any) -> Any:
        """The predictions of the fitted estimator."""
        features = self._features(X)
        return self.estimator_.predict(features)

    def _features(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])


class CoresetClassifier(ClassifierMixin, _OnCoreset):  # type: ignore[misc]
    """A classifier, fitted on the k weighted rows of a coreset of a logistic regression: with two classes, or with several (softmax).

    The rows are chosen so that the weighted log-likelihood of a logistic regression matches that of all rows around its posterior.
    For other kinds of estimators there is no such guarantee.

    Parameters
    ----------
    estimator
        Any estimator with `fit(X, y, sample_weight=)`; by default a `LogisticRegression`.
    k
        Number of rows to choose. If the data have no more rows, all are used with weight 1.
    model, standardise, prior_sd, priors, max_kl, seed, random_state, threads
        As in `corelet.build`; `random_state` is another name for `seed`. The default model is `logistic` for two classes and `softmax` for
        up to 20; `ordinal` takes classes that are ordered numbers.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    rows_, weights_ : arrays of shape (n_points,)
        The rows on which it was fitted, and their weights.
    coreset_ : Coreset or None
        The coreset; None if all rows were used.
    classes_ : array of shape (n_classes,)
        The labels, sorted.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 3))
    >>> y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X[:, 0])), "yes", "no")
    >>> small = corelet.CoresetClassifier(LogisticRegression(), k=60).fit(X, y)
    >>> full = LogisticRegression().fit(X, y)
    >>> bool((small.predict(X) == full.predict(X)).mean() > 0.97)
    True
    """

    def _wanted(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoresetClassifier:
        """Choose rows of X and fit the estimator on them; a row of weight f counts f times."""
        features, target = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C", ensure_min_samples=2)
        check_classification_targets(target)
        self._fit(features, target, sample_weight)
        return self

    def _coded(self, target: Any) -> tuple[str, Any]:
        self.classes_, numbers = np.unique(target, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_.tolist()}: a classifier needs two at least")
        model = self.model or ("logistic" if len(self.classes_) == 2 else "softmax")
        if model == "logistic" and len(self.classes_) > 2:
            raise ValueError(f"model='logistic' is for two classes, and y has {len(self.classes_)}: softmax is for several")
        if model == "ordinal":
            return model, target
        return model, numbers == 1 if model == "logistic" else numbers.astype(np.float64)

    def _check_chosen(self, target: Any) -> None:
        left_out = np.setdiff1d(self.classes_, target)
        if len(left_out):
            raise ValueError(f"none of the {len(target)} chosen rows has class {left_out.tolist()}: a larger k is needed")

    @_estimator_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The class probabilities of the fitted estimator."""
        features = self._features(X)
        return self.estimator_.predict_proba(features)

    @_estimator_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """The decision function of the fitted estimator."""
        features = self._features(X)
        return self.estimator_.decision_function(features)


class CoresetRegressor(RegressorMixin, _OnCoreset):  # type: ignore[misc]
    """A regressor, fitted on the k weighted rows of a coreset of a linear regression (or of another `model` with a numeric target).

    Parameters and attributes are those of `CoresetClassifier`; the default estimator is a `LinearRegression`.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 3))
    >>> y = X @ [1.0, 2.0, -1.0] + rng.normal(size=3000)
    >>> small = corelet.CoresetRegressor(k=60).fit(X, y)
    >>> bool(np.abs(small.estimator_.coef_ - [1.0, 2.0, -1.0]).max() < 0.1)
    True
    """

    def _wanted(self) -> Any:
        return LinearRegression() if self.estimator is None else self.estimator

    def _coded(self, target: Any) -> tuple[str, Any]:
        return self.model or "linear", target

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoresetRegressor:
        """Choose rows of X and fit the estimator on them; a row of weight f counts f times."""
        checks = {"dtype": [np.float64, np.float32], "order": "C", "ensure_min_samples": 2}
        features, target = validate_data(self, X, y, y_numeric=True, **checks)
        self._fit(features, target, sample_weight)
        return self
