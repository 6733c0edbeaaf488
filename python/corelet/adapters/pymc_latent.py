"""A latent variable of a PyMC model with one value for each group of rows, which can be integrated out group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pytensor.compile.ops import ViewOp
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise

from .._lib import CoreletError
from .integrated import MOST_LEFT
from .pymc_graph import Leaf, RowLogp, _folded, observed_of, shape_of, with_own_data

GATHERS = ("AdvancedSubtensor", "AdvancedSubtensor1")
"""Operations that take entries by an array of indices, by name, since pytensor has had the last in some versions only."""
PLAIN = ("LogTransform", "LogExpM1", "LogOddsTransform")
"""Transformations of one number at a time that depend on no parameter."""


@dataclass(frozen=True)
class Latent:
    """One value for each group: a row meets that of its own group alone, and given the other parameters they are independent."""

    variable: Any
    """The free variable."""
    plain: Any
    """What stands for it inside of the graphs."""
    gathers: list[Any]
    """Where the graphs take the value of each row's group."""
    seen: Any
    """What they take it of: the variable itself, or what is made of it value by value."""
    codes: NDArray[np.int64]
    """The group of each row."""
    levels: int
    """How many values there are, of groups without rows too."""

    @property
    def named(self) -> Any:
        """The last variable with a name between the free one and the rows."""
        at = self.seen
        while at is not self.plain and at.name is None:
            at = next(x for x in at.owner.inputs if _is_of(x, self.plain))
        return at

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.named.name)

    def effect(self, of: Any, within: Any, at: Any, given: Mapping[Any, Any], rows: RowLogp) -> Any:
        """`within`, a variable between the free one and the rows, of some groups: where the free one has the values `of`, and `at` are the
        numbers of their groups."""
        others: dict[Any, None] = {}
        self._others(within, others)
        made = rows.within(list(others), given) if others else []
        return _at_groups(within, self.plain, of, at, dict(zip(others, made)))

    def _others(self, variable: Any, found: dict[Any, None]) -> None:
        if variable is self.plain:
            return
        for x in variable.owner.inputs:
            if _is_of(x, self.plain):
                self._others(x, found)
            else:
                found[x] = None


def _is_of(variable: Any, plain: Any) -> bool:
    return plain in ancestors([variable])


def _at_groups(variable: Any, plain: Any, of: Any, at: Any, known: Mapping[Any, Any]) -> Any:
    if variable is plain:
        return of
    node = variable.owner
    if isinstance(node.op, ViewOp):
        return _at_groups(node.inputs[0], plain, of, at, known)
    inputs = []
    for x in node.inputs:
        if x in known:
            other = known[x]
            inputs.append(other if other.ndim == 0 or other.type.broadcastable[0] else other[at])
        else:
            inputs.append(_at_groups(x, plain, of, at, known))
    return node.op.make_node(*inputs).outputs[0]


def latent_of(model: Any, rows: RowLogp, variable: Any) -> Latent:
    """The variable as a latent one. Refuses what is none, with the reason."""
    name = variable.name
    if variable.ndim != 1:
        raise CoreletError(f"{name} has {variable.ndim} dimensions, and not one value for each group")
    levels = shape_of(variable)[0]
    support = getattr(variable.owner.op, "ndim_supp", None)
    if support != 0:
        raise CoreletError(f"the values of {name} are not independent given the other parameters: they have a joint prior")
    transform = model.rvs_to_transforms[variable]
    if transform is not None and type(transform).__name__ not in PLAIN:
        raise CoreletError(f"the values of {name} are transformed by {type(transform).__name__}")
    plain = rows.free[variable]
    varying, gathers = {plain}, []
    for node in rows.nodes:
        met = [x for x in node.inputs if x in varying]
        if not met:
            continue
        if type(node.op).__name__ in GATHERS:
            gathers.append(node)
        elif isinstance(node.op, (Elemwise, ViewOp)) and node.outputs[0].ndim == 1 and all(_long(x) for x in met):
            varying.add(node.outputs[0])
        else:
            raise CoreletError(f"the rows see {name} otherwise than by an index: by {node.op}")
    if not gathers:
        raise CoreletError(f"no row sees {name}")
    codes = _codes(rows, gathers, varying, name, levels)
    if len({node.inputs[0] for node in gathers}) > 1:
        raise CoreletError(f"the rows see {name} in several ways")
    _check_priors(model, variable)
    if sum(int(np.prod(shape_of(rv))) for rv in model.free_RVs if rv is not variable) > MOST_LEFT:
        raise CoreletError(f"there are more than {MOST_LEFT} parameters beside {name}")
    return Latent(variable, plain, [node.outputs[0] for node in gathers], gathers[0].inputs[0], codes, levels)


def _long(variable: Any) -> bool:
    return variable.ndim == 1 and not variable.type.broadcastable[0]


def _codes(rows: RowLogp, gathers: Sequence[Any], varying: set[Any], name: str, levels: int) -> NDArray[np.int64]:
    found: Optional[NDArray[np.int64]] = None
    for node in gathers:
        at = node.inputs[1:]
        leaf = rows.leaf_of(at[0]) if len(at) == 1 and node.inputs[0] in varying else None
        if leaf is None or leaf.values.shape != (rows.n,) or leaf.values.dtype.kind not in "iu" or node.outputs[0].ndim != 1:
            raise CoreletError(f"{name} is not indexed by one column of group numbers alone")
        codes = leaf.values.astype(np.int64)
        codes = np.where(codes < 0, codes + levels, codes)
        if found is not None and not np.array_equal(found, codes):
            raise CoreletError(f"a row meets several values of {name}")
        found = codes
    assert found is not None
    return found


def _check_priors(model: Any, variable: Any) -> None:
    """No prior but its own may depend on it, no potential, and nothing observed beside the rows."""
    value = model.rvs_to_values[variable]
    for other in [*model.free_RVs, *model.potentials, *observed_of(model)[1]]:
        if other is not variable and value in ancestors([model.logp(vars=[other], sum=True)]):
            raise CoreletError(f"{other.name} depends on {variable.name}")


class GroupLogp(RowLogp):
    """The log density of each value of a latent variable given the other parameters, of whatever groups its leaves hold."""

    def __init__(self, model: Any, latent: Latent) -> None:
        self.n = latent.levels
        self.leaves: list[Leaf] = []
        self._free = {rv: rv.type(rv.name) for rv in model.free_RVs}
        self._graphs: dict[str, Any] = {}
        self._nodes: dict[str, list[Any]] = {}
        self._values: dict[Any, NDArray[Any]] = {}
        self._leaf_of: dict[Any, Leaf] = {}
        self._identity: set[Any] = set()
        # The numbers of the groups, by whose length others are known.
        self.leaves.append(Leaf(np.arange(self.n), 0, "corelet_groups"))
        own = self._free[latent.variable]
        others = {rv: plain for rv, plain in self._free.items() if rv is not latent.variable}
        conditional = _folded(with_own_data([latent.variable], others)[0])
        self._add(latent.variable, pm.logp(conditional, own, warn_rvs=False))


def best_latent(model: Any, rows: RowLogp) -> Optional[Latent]:
    """Of all that qualify, the one with the most levels."""
    found = []
    for variable in model.free_RVs:
        try:
            found.append(latent_of(model, rows, variable))
        except CoreletError:
            continue
    return max(found, key=lambda latent: latent.levels, default=None)
