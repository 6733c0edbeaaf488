"""`corelet.CoresetSelector`: the build as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ._build import build
from .results.coreset import Coreset


class CoresetSelector(BaseEstimator):  # type: ignore[misc]
    """Chooses weighted rows of a training set; the keywords are those of `corelet.build`.

    Attributes
    ----------
    sample_weight_ : array of shape (n_samples,)
        The weight of each row, 0 for rows that were not chosen; pass it to estimators as `sample_weight`.
    rows_, weights_ : arrays of shape (n_points,)
        The chosen rows, ascending, and their weights.
    coreset_ : Coreset
        The coreset.
    classes_ : array of shape (n_classes,)
        Logistic and softmax: the labels, sorted; of two labels, the second counts as success.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 3))
    >>> y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X[:, 0])), "yes", "no")
    >>> selector = corelet.CoresetSelector(k=60).fit(X, y)
    >>> rows, weights = selector.rows_, selector.weights_
    >>> small = LogisticRegression().fit(X[rows], y[rows], sample_weight=weights)
    >>> full = LogisticRegression().fit(X, y)
    >>> bool(np.abs(small.coef_ - full.coef_).max() < 0.05)
    True
    """

    def __init__(
        self,
        k: Optional[int] = None,
        *,
        model: str = "logistic",
        intercept: bool = True,
        standardise: str = "scale",
        link: Optional[str] = None,
        sigma: Optional[float] = None,
        degrees: Union[float, str, None] = None,
        prior_sd: Optional[float] = None,
        priors: Any = None,
        max_kl: Optional[float] = None,
        method: str = "pursuit",
        embedding: str = "auto",
        polish: bool = False,
        seed: int = 0,
        random_state: Any = None,
        threads: Optional[int] = None,
    ) -> None:
        self.k = k
        self.model = model
        self.intercept = intercept
        self.standardise = standardise
        self.link = link
        self.sigma = sigma
        self.degrees = degrees
        self.prior_sd = prior_sd
        self.priors = priors
        self.max_kl = max_kl
        self.method = method
        self.embedding = embedding
        self.polish = polish
        self.seed = seed
        self.random_state = random_state
        self.threads = threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.model != "gaussian"
        tags.target_tags.positive_only = self.model in ("gamma", "negative-binomial", "poisson")
        if self._has_labels():
            tags.classifier_tags = ClassifierTags(multi_class=self.model == "softmax")
        return tags

    def fit(self, X: Any, y: Any = None) -> CoresetSelector:
        """Chooses rows of X. `y` is the target; the mean of a Gaussian has none."""
        checks = {"dtype": [np.float64, np.float32], "order": "C", "ensure_min_samples": 2}
        if self.model == "gaussian":
            features, target = validate_data(self, X, **checks), None
        else:
            features, target = validate_data(self, X, y, y_numeric=not self._has_labels(), **checks)
            target = self._labels(target) if self._has_labels() else target
        keywords = self.get_params()
        del keywords["random_state" if self.random_state is None else "seed"]
        self.coreset_: Coreset = build(features, target, progress=False, **keywords)
        self.rows_: NDArray[np.int64] = self.coreset_.rows
        self.weights_: NDArray[np.float64] = self.coreset_.weights
        self.sample_weight_: NDArray[np.float64] = self.coreset_.sample_weight
        return self

    def select(self, *arrays: Any) -> tuple[Any, ...]:
        """The chosen rows of each array or data frame, in its own type, followed by the weights."""
        check_is_fitted(self)
        return (*(_rows_of(array, self.rows_) for array in arrays), self.weights_)

    def _has_labels(self) -> bool:
        return self.model in ("logistic", "softmax")

    def _labels(self, target: Any) -> Any:
        check_classification_targets(target)
        self.classes_, numbers = np.unique(target, return_inverse=True)
        several = self.model == "softmax" and len(self.classes_) > 1
        if len(self.classes_) != 2 and not several:
            plural = "" if len(self.classes_) == 1 else "es; model='softmax' is for several"
            raise ValueError(f"Only binary classification is supported: y has {len(self.classes_)} class{plural}")
        return numbers.astype(np.float64) if self.model == "softmax" else numbers == 1


def _rows_of(array: Any, rows: NDArray[np.int64]) -> Any:
    """These rows of an array, or of a table of pandas, polars or Arrow, with its names and types."""
    library = type(array).__module__.partition(".")[0]
    if library == "pandas":
        return array.iloc[rows]
    if library == "pyarrow":
        return array.take(rows)
    return array[rows] if library == "polars" else np.asarray(array)[rows]
