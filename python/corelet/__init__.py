"""Bayesian inference on large data with coresets: k << n weighted rows whose posterior closely approximates that of all n rows.

>>> import numpy as np, corelet
>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(5000, 4))
>>> y = rng.random(5000) < 1 / (1 + np.exp(-X[:, 0]))
>>> cs = corelet.build(X, y, k=55)
>>> len(cs.rows) == len(cs.weights) <= 55
True

The weights multiply log-likelihoods. To use a coreset elsewhere, fit the model to these rows, multiply the log-likelihood of each row
by its weight, and leave the prior unchanged.
"""

from typing import TYPE_CHECKING

from ._build import build
from ._certify import certify
from ._k_fold import k_fold
from ._k_fold_model import k_fold_model
from ._review import review, review_model
from .results.certificate import Certificate
from .results.review import Compared, Evidence, Fold, Influence, KFold, Loo, Review, compare
from .results.coreset import Coreset, Quality
from ._fit import Fit, FitProgress, Round, fit_model
from ._update_model import update_model
from ._known import fit
from ._mixed import MixedFit
from ._lib import CoreletError, __version__
from ._loglik import build_from_loglik
from ._nnls import PathPoint, Solution, sparse_nnls
from .results.predict import Prediction
from ._progress import Progress
from .results.read import read_draws
from .results.verdict import Verdict, check

if TYPE_CHECKING:
    from ._estimators import CoresetClassifier, CoresetRegressor
    from ._selector import CoresetSelector

__all__ = [
    "Certificate",
    "Compared",
    "CoreletError",
    "Coreset",
    "CoresetClassifier",
    "CoresetRegressor",
    "CoresetSelector",
    "Evidence",
    "Fit",
    "FitProgress",
    "Fold",
    "Influence",
    "KFold",
    "Loo",
    "MixedFit",
    "PathPoint",
    "Prediction",
    "Progress",
    "Quality",
    "Review",
    "Round",
    "Solution",
    "Verdict",
    "__version__",
    "build",
    "build_from_loglik",
    "certify",
    "check",
    "compare",
    "fit",
    "fit_model",
    "k_fold",
    "k_fold_model",
    "read_draws",
    "review",
    "review_model",
    "sparse_nnls",
    "update_model",
]

_MODULES = ("dask", "numpyro", "pymc", "spark")
"""Adapters, each of which needs an optional package."""


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, *_MODULES])


def __getattr__(name: str) -> object:
    """Imports whatever needs an optional package at its first use."""
    if name == "CoresetSelector":
        from ._selector import CoresetSelector

        return CoresetSelector
    if name in ("CoresetClassifier", "CoresetRegressor"):
        from . import _estimators

        return getattr(_estimators, name)
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"corelet.{name}")
    raise AttributeError(f"module 'corelet' has no attribute '{name}'")
