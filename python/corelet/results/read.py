"""`corelet.read_draws`: the file that `corelet fit --arviz` and `corelet sample --arviz` write, for whichever ArviZ is installed."""

from __future__ import annotations

import json
import os
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from .._lib import CoreletError
from .verdict import GROUPS, inference_data


def read_draws(path: Union[str, os.PathLike[str]]) -> Any:
    """Open the draws that the command wrote with `--arviz FILE`, in the form that `Coreset.sample` returns.

    Returns an xarray `DataTree`, or an `InferenceData` before ArviZ 1: `posterior` with `original` and `standardised`, `sample_stats`, and
    both for the warm-up. The attributes of the posterior are `model`, `verdict` (the grade) and
    `resampled_by_importance_weights`, which is true for grade B.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            names = [str(name) for name in content["coords"]["parameter"]]
            groups = {
                group: {name: _array(values) for name, values in content[group].items()} for group in GROUPS if group in content
            }
            groups["posterior"]["original"], groups["posterior"]["standardised"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CoreletError(f"{os.fspath(path)} is not a file that corelet wrote with --arviz") from None
    return inference_data(groups, names, {str(key): str(value) for key, value in content.get("attrs", {}).items()})


def _array(values: Any) -> NDArray[Any]:
    """Chains by draws by …; numbers that are not finite are null in JSON."""
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype == object else array
