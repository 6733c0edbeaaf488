"""What bambi does to the draws of its PyMC model before it shows them, done here for draws of a coreset."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from ..results.arviz import dataset_of


def backend_of(model: Any) -> Any:
    """The PyMC side of a bambi model, built where it was not; None for any other object."""
    if type(model).__module__.partition(".")[0] != "bambi":
        return None
    if not model.built:
        model.build()
    return model.backend


def cleaned(idata: Any, backend: Any) -> Any:
    """Draws as bambi's `fit` returns them: no offsets of non-centred effects, group-specific dimensions last, and the intercept of
    the predictors as they are, where the model has them centred."""
    posterior = dataset_of(idata, "posterior")
    posterior = posterior.drop_vars([name for name in posterior.data_vars if str(name).endswith("_offset")])
    known = [axis for axis in backend.model.coords if axis in posterior.dims]
    last = [axis for axis in known if axis.endswith("__factor_dim")]
    order = ["chain", "draw", *(axis for axis in known if axis not in last), *last]
    posterior = posterior.drop_dims([axis for axis in posterior.dims if axis not in order]).transpose(*order)
    if backend.spec.center_predictors:
        for component in backend.distributional_components.values():
            posterior = _uncentred(posterior, component)
    idata["posterior"] = posterior.assign_attrs(modeling_interface="bambi", modeling_interface_version=version("bambi"))
    return idata


def _uncentred(posterior: Any, component: Any) -> Any:
    terms = component.component
    if not (terms.intercept_term and terms.common_terms):
        return posterior
    name = _shown(terms.intercept_term)
    axes = posterior[name].dims
    stacked = posterior.stack(samples=axes)
    slopes = np.vstack([np.atleast_2d(stacked[_shown(term)].values) for term in terms.common_terms.values()])
    middle = np.dot(component.design_matrix_without_intercept.mean(0), slopes).reshape(posterior[name].shape)
    return posterior.assign({name: posterior[name] - middle})


def _shown(term: Any) -> str:
    """The name under which a term is in the draws."""
    return str(term.alias or term.name)
