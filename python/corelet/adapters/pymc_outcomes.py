"""Outcomes of some rows of a PyMC model, drawn at draws of its posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from .._lib import CoreletError
from ..frames.units import Which
from .outcomes import BINARY, COUNTS, NUMBERS
from .pymc_density import MERGED, Parameters
from .pymc_graph import RowLogp, _folded, observed_of, with_own_data

CLASSES = ("categorical", "ordered", "multinomial", "dirichlet")
"""Names that begin so are of outcomes that are classes, whose numbers mean nothing."""


class _RowDraws(RowLogp):
    """The graph of a random outcome in place of that of its log density: the same rows can be taken of it."""

    def _elementwise(self, model: Any, rv: Any) -> Any:
        others = {other: model.rvs_to_values[other] for other in model.observed_RVs if other is not rv}
        return _folded(with_own_data([rv], {**self._free, **others})[0])

    def _add(self, rv: Any, graph: Any) -> None:
        super()._add(rv, graph)
        if not self.leaves:
            # Without predictors there are as many outcomes as rows all the same: their places say how many.
            places = pt.constant(np.arange(self.n, dtype=np.float64))
            self._values[places] = np.arange(self.n, dtype=np.float64)
            self._make_leaf(rv, places)


class PyMCOutcomes:
    """What was observed, and what the model draws in its place."""

    def __init__(self, model: Any, parameters: Parameters, n: int, seed: int) -> None:
        (rv,), _ = observed_of(model)
        self.observed = np.asarray(model.rvs_to_values[rv].eval(), np.float64)
        self.kind = _kind(rv, self.observed)
        rows = _RowDraws(model, n)
        flat = pt.vector("corelet_theta", dtype="float64")
        given, start = {}, 0
        for free, shape in zip(parameters.free, parameters.shapes):
            size = int(np.prod(shape))
            given[free] = flat[start : start + size].reshape(shape).astype(free.dtype)
            start += size
        leaves = {leaf.name: leaf.type(leaf.name) for leaf in rows.leaves}
        graph = rows.total(leaves, given)
        self._names, self._leaves = parameters.names, rows.leaves
        self._draw = pm.compile([flat, *leaves.values()], [graph], random_seed=seed, mode=MERGED, on_unused_input="ignore")

    def simulate(self, theta: Mapping[str, NDArray[Any]], rows: Which) -> NDArray[np.float64]:
        """Draws by rows."""
        columns = [np.asarray(theta[name], np.float64).reshape(len(theta[name]), -1) for name in self._names]
        data = [leaf.take(rows) for leaf in self._leaves]
        with np.errstate(all="ignore"):
            return np.stack([np.asarray(self._draw(line, *data)[0], np.float64) for line in np.concatenate(columns, axis=1)])


IMPROPER = ("flat", "halfflat", "icar")
"""Names of priors that do not integrate to 1."""


def improper(parameters: Parameters) -> Optional[str]:
    """The first variable whose prior is no distribution."""
    return next((str(rv.name) for rv in parameters.free if _name(rv) in IMPROPER), None)


def outcomes_in(model: Any) -> Optional[NDArray[np.float64]]:
    """The outcome of each row, where it is one number."""
    of_rows, _ = observed_of(model)
    if len(of_rows) != 1 or of_rows[0].ndim != 1:
        return None
    return np.asarray(model.rvs_to_values[of_rows[0]].eval(), np.float64)


def column_of(tool: Any, model: Any, name: str) -> Any:
    """A column of a bambi model's data, or data of a PyMC model (pm.Data) with one value for each row."""
    table = getattr(model, "data", None) if tool.bambi is not None else None
    if table is not None and name in table:
        return table[name]
    held = {data.name: data.get_value() for data in tool.model.data_vars if hasattr(data, "get_value")}
    fitting = {key: values for key, values in held.items() if np.shape(values) == (tool.n,)}
    if name in fitting:
        return fitting[name]
    known = [str(column) for column in table] if table is not None else list(fitting)
    what = f"it has {', '.join(known)}" if known else "it has none; give the values themselves"
    raise CoreletError(f"by='{name}' is no data of the model with one value for each row; {what}")


def outcomes_of(model: Any, parameters: Parameters, n: int, seed: int) -> Optional[PyMCOutcomes]:
    """None where outcomes are of several variables, are classes, or cannot be drawn for some rows alone."""
    of_rows, _ = observed_of(model)
    if len(of_rows) != 1 or of_rows[0].ndim != 1:
        return None
    rv = of_rows[0]
    if _name(rv).startswith(CLASSES):
        return None
    try:
        return PyMCOutcomes(model, parameters, n, seed)
    except (CoreletError, NotImplementedError):
        return None


def _name(rv: Any) -> str:
    """That of its distribution."""
    op = rv.owner.op
    named = getattr(op, "_print_name", None) or (getattr(op, "name", None) or type(op).__name__,)
    return str(named[0]).lower()


def _kind(rv: Any, observed: NDArray[np.float64]) -> str:
    if _name(rv).startswith("bernoulli") and np.isin(observed, (0.0, 1.0)).all():
        return BINARY
    return COUNTS if rv.dtype.startswith(("int", "uint")) else NUMBERS
