"""The effects of a NumPyro model: what its likelihood sees of the latent sites, where that is made of several of them.

The log-likelihood is traced, and its operations are split in two: those that make arrays of several sites and of no row (`sd * z`, a horseshoe's
coefficients), and those that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from numpy.typing import NDArray

from .gaussian import names_of
from .numpyro_rows import Rows

VIEWS = ("reshape", "squeeze", "transpose", "slice", "dynamic_slice", "gather", "expand_dims")
"""Operations that show entries of an array as they are."""


Layout = Sequence[tuple[str, slice, Any]]
"""Where each site stands among the unconstrained numbers, and what its values are like."""


class Effects:
    """The numbers that the rows see of a point: of the sites that they see themselves, unconstrained, and of arrays that others make."""

    def __init__(self, rows: Rows, layout: Layout) -> None:
        self._rows = rows
        self._layout = layout
        self._free = {name: jax.ShapeDtypeStruct(like.shape, like.dtype) for name, _, like in layout}
        lengths = {length for like in self._free.values() for length in like.shape}
        # So many rows that no array of the model is as long by chance.
        few = next(size for size in count(min(rows.n, 37)) if size not in lengths)
        found = self._split([jax.ShapeDtypeStruct((few, *values.shape[1:]), jnp.result_type(values)) for values in rows.values], few)
        self.names: list[str] = []
        if found is None:
            return
        self._head, self._sites = found.head, found.sites
        shapes = [*(self._free[name].shape for name in found.sites), *found.shapes]
        sizes = [int(np.prod(shape)) for shape in shapes]
        ends = np.cumsum(sizes).tolist()
        self._pieces = [(slice(end - size, end), shape) for size, end, shape in zip(sizes, ends, shapes)]
        labels = [*found.sites, *(f"effect({', '.join(makers)})" for makers in found.makers)]
        self.names = [name for label, shape in zip(labels, shapes) for name in names_of(label, shape)]

    @property
    def count(self) -> int:
        """How many there are; 0 where the rows see the sites themselves only."""
        return len(self.names)

    def _split(self, data: Sequence[Any], size: int) -> Optional[Split]:
        def rows(free: Mapping[str, Any], data: Sequence[Any]) -> Any:
            return self._rows.log_likelihood(self._rows.constrained(free, data), data)

        return split(rows, self._free, data, size)

    def of(self, point: Any) -> Any:
        """Those of one point."""
        sites = {name: point[piece].reshape(like.shape) for name, piece, like in self._layout}
        parts = [*(sites[name] for name in self._sites), *self._head(*sites.values())]
        return jnp.concatenate([part.ravel() for part in parts])

    def total(self, line: Any, data: Sequence[Any]) -> Any:
        """Σ wᵢ ℓᵢ at a line of effects, of weights and rows."""
        weights, *rows = data
        found = self._split([jax.ShapeDtypeStruct(values.shape, values.dtype) for values in rows], len(weights))
        assert found is not None
        values = found.tail(*(line[piece].reshape(shape) for piece, shape in self._pieces), *rows)
        return jnp.where(weights > 0, weights * values, 0.0).sum()

    # Of many points, one by one.

    def each(self, points: Any) -> Any:
        """Lines of effects."""
        return jax.lax.map(self.of, points)

    def each_back(self, points: Any, slopes: Any) -> Any:
        """Slopes by effects as slopes by the unconstrained numbers of the points."""
        return jax.lax.map(lambda both: jax.vjp(self.of, both[0])[1](both[1])[0], (points, slopes))

    def each_slope(self, lines: Any, data: Any) -> Any:
        """The log-likelihood and its gradient by effects."""
        return jax.lax.map(lambda line: jax.value_and_grad(self.total)(line, data), lines)


class Split(NamedTuple):
    """A log-likelihood as a function of its effects: these sites themselves, and arrays that several sites make."""

    sites: list[str]
    makers: list[list[str]]
    """The sites of which each array is made."""
    shapes: list[tuple[int, ...]]
    head: Callable[..., Sequence[Any]]
    """The arrays, of the values of all sites."""
    tail: Callable[..., Any]
    """The log-likelihood, of the sites and arrays, and of data."""


def split(function: Callable[..., Any], free: Mapping[str, Any], data: Sequence[Any], rows: int) -> Split | None:
    """Splits `function(free, data)`, of so many rows; none where the rows see the sites themselves only."""
    names = list(free)
    closed = jax.make_jaxpr(lambda values, data: function(dict(zip(names, values)), data))([free[name] for name in names], list(data))
    jaxpr = closed.jaxpr
    site_of = dict(zip(jaxpr.invars[: len(names)], names))
    live = needed(jaxpr.eqns, jaxpr.outvars, ())
    arrays, sites, origin = _seen(live, site_of, set(jaxpr.invars[len(names) :]), rows)
    if not arrays:
        return None
    own = [variable for variable, name in site_of.items() if name in sites]
    before = needed(live, arrays, ())
    given = [*own, *arrays, *jaxpr.invars[len(names) :]]
    after = needed(live, jaxpr.outvars, given)
    reached = {x for eqn in after for x in eqn.invars if not isinstance(x, Literal)}
    if any(variable in reached and variable not in own for variable in site_of):
        return None
    head = part(closed, list(site_of), arrays, before)
    tail = part(closed, given, jaxpr.outvars, after)
    makers = [[name for name in names if name in origin[array]] for array in arrays]
    return Split([name for name in names if name in sites], makers, [array.aval.shape for array in arrays], head, lambda *args: tail(*args)[0])


def part(closed: ClosedJaxpr, inputs: Sequence[Any], outputs: Sequence[Any], eqns: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """Some operations of a traced function, as one of these inputs."""
    plain = closed.jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    some = closed.jaxpr.replace(invars=list(inputs), outvars=list(outputs), eqns=list(eqns), debug_info=plain)
    return jaxpr_as_fun(ClosedJaxpr(some, closed.consts))  # type: ignore[no-any-return]


def needed(eqns: Sequence[Any], outputs: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The operations that these outputs take, where some variables are given."""
    wanted = {variable for variable in outputs if not isinstance(variable, Literal)} - set(given)
    kept = []
    for eqn in reversed(eqns):
        if any(output in wanted for output in eqn.outvars):
            kept.append(eqn)
            wanted.update(x for x in eqn.invars if not isinstance(x, Literal) and x not in given)
    return kept[::-1]


def _seen(
    eqns: Sequence[Any], site_of: Mapping[Any, str], data: set[Any], rows: int
) -> tuple[list[Any], set[str], dict[Any, frozenset[str]]]:
    """The arrays that several sites make and rows see, the sites that rows see, and of which sites everything is made."""
    origin: dict[Any, frozenset[str]] = {variable: frozenset([name]) for variable, name in site_of.items()}
    made_by = {output: eqn for eqn in eqns for output in eqn.outvars}
    of_rows, edge = set(data), dict[Any, None]()
    for eqn in eqns:
        inputs = [x for x in eqn.invars if not isinstance(x, Literal)]
        whole = frozenset[str]().union(*(origin.get(x, frozenset()) for x in inputs))
        origin.update((output, whole) for output in eqn.outvars)
        if any(x in of_rows for x in inputs) or any(rows in np.shape(output.aval) for output in eqn.outvars):
            of_rows.update(eqn.outvars)
            edge.update((x, None) for x in inputs if origin.get(x))
    arrays, sites = set[Any](), set[str]()
    waiting = [variable for variable in edge if variable not in of_rows]
    while waiting:
        variable = waiting.pop()
        if len(origin[variable]) == 1:
            sites.update(origin[variable])
            continue
        eqn = made_by[variable]
        before = [x for x in eqn.invars if not isinstance(x, Literal) and origin.get(x)]
        one = len(before) == 1 and (eqn.primitive.name in VIEWS or before[0].aval.size <= variable.aval.size)
        # Of exp(x) the likelihood is nearer to quadratic in x; a condition is no effect.
        if one or not jnp.issubdtype(variable.aval.dtype, jnp.floating):
            waiting.extend(before)
        else:
            arrays.add(variable)
    return [output for eqn in eqns for output in eqn.outvars if output in arrays], sites, origin
