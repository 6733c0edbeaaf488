"""A latent site of a NumPyro model with one value for each group of rows, which can be integrated out group by group.

Log densities are traced, and their operations followed from the site on: as long as each makes one entry of one entry, all of it can be computed
for whatever groups are wanted, until an index gives every row the entry of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.extend.core import ClosedJaxpr, Literal
from numpy.typing import NDArray
from numpyro.distributions import biject_to
from numpyro.handlers import block, substitute

from .._lib import CoreletError
from .integrated import MOST_LEFT
from .numpyro_effects import needed, part
from .numpyro_rows import FEWER_ROWS, Rows

ENTRYWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv"
    " erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow rem round rsqrt select_n"
    " sign sin sinh sqrt square sub tan tanh xor".split()
)
"""Operations of JAX of which each entry is made of the entries at the same place."""
CALLS = frozenset("pjit jit closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr".split())
"""Operations that call a function once, and where they may have it."""
CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclass(frozen=True, eq=False)
class Seen:
    """An array with an entry for each group, made of the site's entry by entry."""

    value: Any
    """All entries, or where a walk is of some groups, theirs."""
    path: frozenset[int]
    """It and those that it is made of."""


@dataclass(frozen=True)
class Mixed:
    """What several of them are in."""

    by: str
    """The operation."""


class Walk:
    """The operations of a traced function, one after the other; `at` are the groups that are wanted, none for all of them."""

    def __init__(self, levels: int, at: Any = None) -> None:
        self.levels = levels
        self.at = at
        self.met: list[tuple[Any, Seen]] = []
        """The indices by which rows take their entries, and of what."""
        self._serial = count()

    def seen(self, value: Any, path: frozenset[int] = frozenset()) -> Seen:
        """A new array of entries."""
        return Seen(value, path | {next(self._serial)})

    def run(self, closed: ClosedJaxpr, given: Sequence[Any]) -> list[Any]:
        """What the function returns for these arguments."""
        jaxpr = closed.jaxpr
        known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *given]))

        def value(x: Any) -> Any:
            return x.val if isinstance(x, Literal) else known[x]

        for eqn in needed(jaxpr.eqns, jaxpr.outvars, ()):
            known.update(zip(eqn.outvars, self._one(closed, eqn, [value(x) for x in eqn.invars])))
        return [value(x) for x in jaxpr.outvars]

    def _one(self, closed: ClosedJaxpr, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        mixed = next((x for x in inputs if isinstance(x, Mixed)), None)
        seen = [x for x in inputs if isinstance(x, Seen)]
        if mixed is not None:
            return [mixed] * len(eqn.outvars)
        if not seen:
            return _alone(closed, eqn, inputs)
        inner = next((eqn.params[key] for key in CALLED if isinstance(eqn.params.get(key), ClosedJaxpr)), None)
        if name in CALLS and inner is not None and len(inner.jaxpr.invars) == len(inputs):
            return self.run(inner, inputs)
        if name == "gather" and isinstance(inputs[0], Seen) and not isinstance(inputs[1], Seen) and _is_index(eqn):
            self.met.append((inputs[1], inputs[0]))
            if self.at is None:
                return [eqn.primitive.bind(inputs[0].value, inputs[1], **eqn.params)]
            return [inputs[0].value.reshape(eqn.outvars[0].aval.shape)]
        if name not in ENTRYWISE or any(x.aval.shape not in ((), (1,), (self.levels,)) for x in eqn.invars):
            return [Mixed(name)] * len(eqn.outvars)
        path = frozenset[int]().union(*(x.path for x in seen))
        return [self.seen(eqn.primitive.bind(*(self._entries(x) for x in inputs), **eqn.params), path)]

    def _entries(self, x: Any) -> Any:
        if isinstance(x, Seen):
            return x.value
        return x if self.at is None or np.size(x) == 1 else x[self.at]


def _alone(closed: ClosedJaxpr, eqn: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """An operation as it is."""
    given = {x: value for x, value in zip(eqn.invars, inputs) if not isinstance(x, Literal)}
    wanted = [x for x in eqn.outvars if type(x).__name__ != "DropVar"]
    bare = ClosedJaxpr(closed.jaxpr.replace(constvars=()), ())
    found = dict(zip(wanted, part(bare, list(given), wanted, [eqn])(*given.values())))
    return [found.get(x) for x in eqn.outvars]


def _is_index(eqn: Any) -> bool:
    """Whether it takes one entry of a vector for each index, with one index for each row."""
    how = eqn.params["dimension_numbers"]
    plain = how.offset_dims == () and tuple(how.collapsed_slice_dims) == (0,) and tuple(how.start_index_map) == (0,)
    shape = eqn.outvars[0].aval.shape
    return plain and tuple(eqn.params["slice_sizes"]) == (1,) and len(shape) > 0 and int(np.prod(shape)) == shape[0]


@dataclass(frozen=True)
class Latent:
    """One value for each group: a row meets that of its own group alone, and given the other parameters they are independent."""

    rows: Rows
    site: str
    name: str
    """That of the last deterministic site between it and the rows, or its own."""
    codes: NDArray[np.int64]
    """The group of each row."""
    levels: int
    """How many values there are, of groups without rows too."""
    hidden: tuple[str, ...]
    """Deterministic sites that it is part of."""
    _traced: dict[tuple[str, int], ClosedJaxpr] = field(default_factory=dict)

    @property
    def beside(self) -> int:
        """Parameters beside it."""
        return self.rows.parameters - self.levels

    def left(self, value: Any) -> Rows:
        """The model without it: its site has this value and is hidden, with all that is made of it."""
        model, site = self.rows.model, self.site

        def without(*args: Any, **kwargs: Any) -> None:
            with block(hide=[site, *self.hidden]), substitute(data={site: value}):
                model(*args, **kwargs)

        return self.rows.of(without)

    # Of some groups, in place of all; `free` has the unconstrained values of the other sites.

    def log_likelihood(self, free: Mapping[str, Any], v: Any, codes: Any, data: Sequence[Any]) -> Any:
        """Of each row, where its group's unconstrained value is v."""
        return self._at("rows", _log_likelihood, free, v, codes, data)

    def log_density(self, free: Mapping[str, Any], u: Any, groups: Any, data: Sequence[Any]) -> Any:
        """Of these unconstrained values of these groups, with the Jacobian."""
        return self._at("density", _density_of(self.site), free, u, groups, data).value

    def effect(self, free: Mapping[str, Any], u: Any, groups: Any, data: Sequence[Any]) -> Any:
        """What the rows see of them, or the last of it that has a name."""
        return self._at("effect", _value_of(self.name), free, u, groups, data).value

    def _at(
        self, key: str, function: Callable[..., Any], free: Mapping[str, Any], values: Any, groups: Any, data: Sequence[Any]
    ) -> Any:
        traced = self._traced.get((key, len(data[0])))
        if traced is None:
            shapes = {**free, self.site: jax.ShapeDtypeStruct((self.levels,), values.dtype)}
            shapes = {name: jax.ShapeDtypeStruct(np.shape(like), like.dtype) for name, like in shapes.items()}
            rows = [jax.ShapeDtypeStruct(np.shape(like), like.dtype) for like in data]
            traced = jax.make_jaxpr(lambda free, data: function(self.rows, free, data))(shapes, rows)
            self._traced[key, len(data[0])] = traced
        walk = Walk(self.levels, groups)
        return walk.run(traced, _given(walk, self.site, {**free, self.site: values}, data))[0]


def _log_likelihood(rows: Rows, free: Mapping[str, Any], data: Sequence[Any]) -> Any:
    return rows.log_likelihood(rows.constrained(free, data), data)


def _value_of(name: str) -> Callable[..., Any]:
    def value(rows: Rows, free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        theta = rows.constrained(free, data)
        return theta[name] if name in theta else rows.parts(theta, data).deterministic[name]

    return value


def _density_of(name: str) -> Callable[..., Any]:
    def density(rows: Rows, free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        theta = rows.constrained(free, data)
        single = _single(rows.sites_at(theta, data)[name]["fn"])
        jacobian = biject_to(single.support).log_abs_det_jacobian(free[name], theta[name])
        return single.log_prob(theta[name]) + jacobian

    return density


def _single(fn: Any) -> Any:
    """The distribution of single numbers that was said to be one of a vector."""
    while isinstance(fn, dist.Independent):
        fn = fn.base_dist
    return fn


def latent_of(rows: Rows, name: str) -> Latent:
    """The site as a latent one. Refuses what is none, with the reason."""
    shape = rows.latent[name].shape
    if len(shape) != 1 or shape[0] < 2:
        raise CoreletError(f"{name} has shape {shape}, and not one value for each group")
    levels = int(shape[0])
    few = [jax.ShapeDtypeStruct((min(FEWER_ROWS, rows.n), *values.shape[1:]), jnp.result_type(values)) for values in rows.values]
    free = jax.eval_shape(rows.unconstrained, rows.latent, few)
    _check_own(rows, name, free, few, levels)
    _check_others(rows, name, free, few)

    def seen(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        parts = rows.parts(rows.constrained(free, data), data)
        return parts.rows, parts.deterministic

    # Its deterministic sites too, to find the last name on the way to the rows.
    closed, shapes = jax.make_jaxpr(seen, return_shape=True)(free, few)
    labels = list(shapes[1])
    if any(not hasattr(like, "shape") for like in shapes[1].values()):
        raise CoreletError("a deterministic site is no array")
    hidden = [label for label, of in zip(sorted(labels), _depends(closed, _at_name(free, name))[1:]) if of]
    indices, path, named = _walked(closed, name, free, few, levels)
    label = _last(dict(zip(sorted(labels), named)), path, name)
    codes = _codes(rows, name, free, levels, len(indices))
    if rows.parameters - levels > MOST_LEFT:
        raise CoreletError(f"there are more than {MOST_LEFT} parameters beside {name}")
    return Latent(rows, name, label, codes, levels, tuple(hidden))


def _check_own(rows: Rows, name: str, free: Mapping[str, Any], few: Sequence[Any], levels: int) -> None:
    site = rows.sites[name]
    single = _single(site["fn"])
    if single.event_shape != () or single.batch_shape != (levels,) or free[name].shape != (levels,):
        raise CoreletError(f"the values of {name} are not independent given the other parameters: they have a joint prior")
    if site["scale"] is not None:
        raise CoreletError(f"the log density of {name} is scaled")
    closed = jax.make_jaxpr(lambda free, data: _density_of(name)(rows, free, data))(free, few)

    def own(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        walk = Walk(levels)
        found = walk.run(closed, _given(walk, name, free, data))[0]
        if not isinstance(found, Seen) or walk.met:
            by = f": {found.by}" if isinstance(found, Mixed) else ""
            raise CoreletError(f"the prior of a value of {name} depends on its other values{by}")
        return found.value

    jax.eval_shape(own, free, few)


def _check_others(rows: Rows, name: str, free: Mapping[str, Any], few: Sequence[Any]) -> None:
    """No other prior, support or factor may depend on it."""

    def others(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        theta = rows.constrained(free, data)
        found = rows.parts(theta, data).others
        return {site: (found[site], theta.get(site, 0.0)) for site in found if site != name}

    closed, shapes = jax.make_jaxpr(others, return_shape=True)(free, few)
    depends = _depends(closed, _at_name(free, name))
    for at, site in enumerate(sorted(shapes)):
        if depends[2 * at] or depends[2 * at + 1]:
            raise CoreletError(f"{site} depends on {name}")


def _walked(
    closed: ClosedJaxpr, name: str, free: Mapping[str, Any], few: Sequence[Any], levels: int
) -> tuple[list[Any], frozenset[int], list[Any]]:
    """The indices by which rows see the site, as shapes; the arrays between; and what is made of deterministic sites on the way."""
    kept: dict[str, Any] = {}

    def seen(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        walk = Walk(levels)
        first, *others = walk.run(closed, _given(walk, name, free, data))
        kept.update(first=first, others=others, met=walk.met)
        return [index for index, _ in walk.met]

    indices = jax.eval_shape(seen, free, few)
    # Nothing of it is a number yet; what the walk found is its shape alone.
    if isinstance(kept["first"], (Mixed, Seen)):
        by = kept["first"].by if isinstance(kept["first"], Mixed) else "as it is"
        raise CoreletError(f"the rows see {name} otherwise than by an index: by {by}")
    if not indices:
        raise CoreletError(f"no row sees {name}")
    if len({of for _, of in kept["met"]}) > 1:
        raise CoreletError(f"the rows see {name} in several ways")
    return indices, kept["met"][0][1].path, kept["others"]


def _last(named: Mapping[str, Any], path: frozenset[int], name: str) -> str:
    on = {label: found.path for label, found in named.items() if isinstance(found, Seen) and found.path <= path}
    return max(on, key=lambda label: len(on[label]), default=name)


def _codes(rows: Rows, name: str, free: Mapping[str, Any], levels: int, several: int) -> NDArray[np.int64]:
    """The group of each row: the indices themselves, which no parameter may be part of."""

    def indices(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        closed = jax.make_jaxpr(lambda free, data: _log_likelihood(rows, free, data))(free, data)
        walk = Walk(levels)
        walk.run(closed, _given(walk, name, free, data))
        return [index.reshape(-1) for index, _ in walk.met]

    whole = [jax.ShapeDtypeStruct(values.shape, jnp.result_type(values)) for values in rows.values]
    closed = jax.make_jaxpr(indices)(free, whole)
    if any(_depends(closed, range(len(free)))):
        raise CoreletError(f"which value of {name} a row sees depends on the parameters")
    zeros = {site: jnp.zeros(like.shape, like.dtype) for site, like in free.items()}
    found = [np.asarray(index).astype(np.int64) for index in jax.jit(indices)(zeros, rows.values)]
    if any(index.shape != (rows.n,) for index in found):
        raise CoreletError(f"{name} is not indexed by one column of group numbers alone")
    if any(not np.array_equal(found[0], index) for index in found):
        raise CoreletError(f"a row meets several values of {name}")
    codes = found[0]
    wrong = np.flatnonzero((codes < 0) | (codes >= levels))
    if len(wrong):
        raise CoreletError(f"row {wrong[0]} has group number {codes[wrong[0]]}, but {name} has {levels} values, from 0 on")
    return codes


def _given(walk: Walk, name: str, free: Mapping[str, Any], data: Sequence[Any]) -> list[Any]:
    """Arguments as a traced function has them: JAX sorts the keys of a mapping."""
    return [*(walk.seen(free[site]) if site == name else free[site] for site in sorted(free)), *data]


def _at_name(free: Mapping[str, Any], name: str) -> range:
    at = sorted(free).index(name)
    return range(at, at + 1)


def _depends(closed: ClosedJaxpr, which: range) -> list[bool]:
    """Which results of a traced function depend on these arguments, as far as operations show."""
    jaxpr = closed.jaxpr
    reached = {jaxpr.invars[at] for at in which}
    for eqn in jaxpr.eqns:
        if any(x in reached for x in eqn.invars if not isinstance(x, Literal)):
            reached.update(eqn.outvars)
    return [not isinstance(x, Literal) and x in reached for x in jaxpr.outvars]


def best_latent(rows: Rows, least: int) -> Optional[Latent]:
    """Of all that qualify and have so many values, the one with the most."""
    vectors = {name: like.shape[0] for name, like in rows.latent.items() if len(like.shape) == 1 and like.shape[0] >= least}
    for name in sorted(vectors, key=lambda name: -vectors[name]):
        try:
            return latent_of(rows, name)
        except CoreletError:
            continue
    return None
