"""Log-likelihoods of groups with a latent variable integrated out by adaptive Gauss–Hermite nodes: the loops of `quadrature`, compiled by XLA.

Blocks of groups are padded to sizes of which there are few, since each is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .quadrature import ARRIVED, FARTHEST, STEPS, Numbers

AT_ONCE = 16
"""Lines that are compiled for, beside one."""
FEWEST_ROWS, FEWEST_GROUPS = 256, 32
"""The smallest sizes."""


@dataclass(frozen=True)
class Functions:
    """What is known of rows and groups; φ is a line of unconstrained numbers, `v` has a value for each row, `u` one for each group."""

    rows: Callable[..., Any]
    """(φ, v, data) → the log-likelihood of each row."""
    prior: Callable[..., Any]
    """(φ, u, data of groups) → the log density of each u."""
    effect: Callable[..., Any]
    """(φ, u, data of groups) → what the rows see of u."""


class Block(NamedTuple):
    """Rows of some groups one after the other, padded: the last row is repeated in a group beyond all, the last group with no rows."""

    reads: Any
    """The group whose value a row reads."""
    sums: Any
    """That to which its log-likelihood is added."""
    data: tuple[Any, ...]
    others: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and groups."""
        return len(self.reads), len(self.others[0])


class Held(NamedTuple):
    """A block, and how many groups are in it."""

    groups: int
    block: Block


class XlaLoops:
    """The loops over these functions, as `quadrature.Loops` has them."""

    def __init__(self, functions: Functions, once: Callable[..., Any], filler: tuple[NDArray[Any], ...]) -> None:
        """`once` compiles a function by its key; `filler` is the data of one row, for blocks without any."""
        self._functions = functions
        self._once = once
        self._filler = filler

    def given(self, starts: NDArray[np.int64], data: tuple[NDArray[Any], ...], others: tuple[NDArray[Any], ...]) -> tuple[Held]:
        """Groups as the loops take them."""
        groups, rows = len(starts) - 1, int(starts[-1])
        size, places = _size(rows, FEWEST_ROWS), _size(groups, FEWEST_GROUPS)
        group = np.repeat(np.arange(groups), np.diff(starts))
        reads = _padded(group if rows else np.zeros(1, np.int64), size)
        sums = np.concatenate([group, np.full(size - rows, places)])
        held = tuple(_padded(some if rows else one, size) for some, one in zip(data, self._filler))
        whole = tuple(_padded(some, places) for some in others)
        return (Held(groups, jax.device_put(Block(reads, sums, held, whole))),)

    def integrals(self, out: Numbers, phis: Numbers, begin: Numbers, held: Held, z: Numbers, weights: Numbers) -> None:
        """ℓ_g, lines × groups."""

        def one(phi: Any, begin: Any, block: Block, z: Any, weights: Any) -> Any:
            _, _, _, values = self._weighed(phi, begin, block, z, weights)
            return values

        out[:] = self._lines("integrals", one, phis, held, begin, z, weights)[:, : held.groups]

    def slopes(
        self, totals: Numbers, gradients: Numbers, phis: Numbers, begin: Numbers, held: Held, z: Numbers, weights: Numbers, each: Numbers
    ) -> None:
        """Adds Σ w_gℓ_g and its gradient, by Fisher's identity: the mean of the gradient of F_g over its nodes, each with its share."""

        def one(phi: Any, begin: Any, block: Block, z: Any, weights: Any, each: Any) -> Any:
            modes, scales, shares, values = self._weighed(phi, begin, block, z, weights)

            def add(gradient: Any, node: tuple[Any, Any]) -> tuple[Any, None]:
                place, share = node
                # Where a node says nothing it may be where nothing is finite.
                u = jnp.where(share > 0, modes + scales * place, modes)
                b = each * share

                def total(phi: Any) -> Any:
                    by_rows, by_groups = self._both(phi, u, block)
                    return (jnp.append(b, 0.0)[block.sums] * by_rows).sum() + (b * by_groups).sum()

                return gradient + jax.grad(total)(phi), None

            gradient, _ = jax.lax.scan(add, jnp.zeros_like(phi), (z, shares))
            # A weight of 0 on what is not finite: padding.
            return (jnp.where(each != 0, each * values, 0.0).sum(), gradient)

        found, more = self._lines("slopes", one, phis, held, begin, z, weights, self._at_groups(each, held, 0.0))
        totals += found
        gradients += more

    def integrands(self, out: Numbers, modes: Numbers, scales: Numbers, phi: Numbers, begin: Numbers, held: Held, z: Numbers) -> None:
        """F_g at places m + s·z of one line φ, groups × places; and the modes and scales."""

        def one(phi: Any, begin: Any, block: Block, z: Any) -> Any:
            modes, scales = self._climbed(phi, begin, block)
            return modes, scales, self._heights(phi, modes, scales, block, z)

        found, spread, heights = (part[0] for part in self._lines("integrands", one, phi[None], held, begin, z))
        modes[:], scales[:] = found[: held.groups], spread[: held.groups]
        out[:] = heights[:, : held.groups].T

    def effects(self, out: Numbers, phis: Numbers, begin: Numbers, held: Held, z: Numbers, weights: Numbers) -> None:
        """Sums over lines and nodes of shares times powers 1 to 4 of the effect less out[:, 0], which is that at the modes of the first line."""

        def middle(phi: Any, begin: Any, block: Block) -> Any:
            return self._functions.effect(phi, self._climbed(phi, begin, block)[0], block.others)

        def one(phi: Any, begin: Any, block: Block, z: Any, weights: Any, centre: Any) -> Any:
            modes, scales, shares, _ = self._weighed(phi, begin, block, z, weights)

            def add(sums: Any, node: tuple[Any, Any]) -> tuple[Any, None]:
                place, share = node
                off = self._functions.effect(phi, modes + scales * place, block.others) - centre
                return sums + share * off ** jnp.arange(1.0, 5.0)[:, None], None

            return jax.lax.scan(add, jnp.zeros((4, len(modes))), (z, shares))[0]

        centre = self._lines("middle", middle, phis[:1], held, begin)[0]
        out[:, 0] = centre[: held.groups]
        sums = self._lines("effects", one, phis, held, begin, z, weights, centre).sum(axis=0)
        out[:, 1:] += sums[:, : held.groups].T

    def values(self, phi: Numbers, v: Numbers, data: tuple[Any, ...]) -> Numbers:
        """The log-likelihood of each row."""
        function = self._once(("rows at", len(v)), self._functions.rows, (phi, v, data))
        return np.asarray(function(phi, v, data), dtype=np.float64)

    def prior(self, phi: Numbers, u: Numbers, others: tuple[Any, ...]) -> Numbers:
        """The log density of each u."""
        function = self._once(("groups at", len(u)), self._functions.prior, (phi, u, others))
        return np.asarray(function(phi, u, others), dtype=np.float64)

    # Of one line φ.

    def _both(self, phi: Any, u: Any, block: Block) -> tuple[Any, Any]:
        return self._functions.rows(phi, u[block.reads], block.data), self._functions.prior(phi, u, block.others)

    def _jets(self, phi: Any, u: Any, block: Block) -> Any:
        """F_g and its two derivatives."""
        rows = _jets(lambda v: self._functions.rows(phi, v, block.data), u[block.reads])
        own = _jets(lambda u: self._functions.prior(phi, u, block.others), u)
        return _by_group(jnp.stack(rows, axis=1), block) + jnp.stack(own, axis=1)

    def _heights(self, phi: Any, modes: Any, scales: Any, block: Block, z: Any) -> Any:
        def at(place: Any) -> Any:
            rows, own = self._both(phi, modes + scales * place, block)
            return _by_group(rows, block) + own

        return jax.lax.map(at, z)

    def _weighed(self, phi: Any, begin: Any, block: Block, z: Any, weights: Any) -> tuple[Any, Any, Any, Any]:
        """Modes, scales, each node's share of its integral, nodes × groups, and the logarithms of the integrals."""
        modes, scales = self._climbed(phi, begin, block)
        found = self._heights(phi, modes, scales, block, z) + weights[:, None]
        found = jnp.where(jnp.isnan(found), -jnp.inf, found)  # Infinities that cancel, far out.
        most = found.max(axis=0)
        shares = jnp.exp(found - most)
        total = shares.sum(axis=0)
        return modes, scales, shares / total, most + jnp.log(total) + jnp.log(scales)

    def _climbed(self, phi: Any, begin: Any, block: Block) -> tuple[Any, Any]:
        """Modes and scales by Newton's method, each group by itself, with steps that are halved where they lead down."""

        def going(state: Any) -> Any:
            return (state[0] < STEPS) & ~state[-1].all()

        def step(state: Any) -> Any:
            count, modes, trial, height, scales, step, done = state
            value, slope, bend = self._jets(phi, trial, block).T
            worse = ~(value >= height - 1e-9 * jnp.abs(height)) & jnp.isfinite(height)
            halved = 0.5 * step
            stuck = jnp.abs(halved) < 1e-12 * (1.0 + jnp.abs(modes))
            curved = bend < 0.0
            scale = jnp.where(curved, 1.0 / jnp.sqrt(jnp.where(curved, -bend, 1.0)), scales)
            move = jnp.where(curved, -slope / jnp.where(curved, bend, 1.0), jnp.sign(slope) * scale)
            arrived = curved & (jnp.abs(move) < ARRIVED * scale)
            ended = arrived | ~jnp.isfinite(move)
            move = jnp.clip(move, -FARTHEST * scale, FARTHEST * scale)
            better = ~worse & ~done
            modes = jnp.where(better, trial + jnp.where(arrived, move, 0.0), modes)
            height = jnp.where(better, value, height)
            scales = jnp.where(better, scale, scales)
            step = jnp.where(better, move, jnp.where(done, step, halved))
            done = done | jnp.where(worse, stuck, ended)
            return count + 1, modes, jnp.where(done, modes, modes + step), height, scales, step, done

        flat = jnp.zeros_like(begin)
        first = (0, begin, begin, flat - jnp.inf, flat + 1.0, flat, jnp.zeros(begin.shape, bool))
        _, modes, _, _, scales, _, _ = jax.lax.while_loop(going, step, first)
        return modes, scales

    # Of several.

    def _lines(self, key: str, one: Callable[..., Any], phis: Numbers, held: Held, begin: Numbers, *rest: Any) -> Any:
        """What a function of one line returns for each, line after line."""
        width = 1 if len(phis) == 1 else AT_ONCE
        points = np.concatenate([phis, np.repeat(phis[-1:], -len(phis) % width, axis=0)])
        known = (self._at_groups(begin, held), held.block, *rest)

        def each(phis: Any, *known: Any) -> Any:
            # One by one: compiled gradients of betaln are wrong in JAX 0.10 where vmap goes over its arguments.
            return jax.lax.map(lambda phi: one(phi, *known), phis)

        shapes = tuple(np.shape(part) for part in rest)
        compiled = self._once((key, width, *held.block.shape, shapes), each, (points[:width], *known))
        parts = [compiled(points[at : at + width], *known) for at in range(0, len(points), width)]
        return jax.tree_util.tree_map(lambda *some: np.concatenate([np.asarray(part) for part in some])[: len(phis)], *parts)

    def _at_groups(self, values: Numbers, held: Held, beyond: float | None = None) -> Numbers:
        """A number for each group, padded: by the last one, or by `beyond`."""
        found = _padded(np.asarray(values, np.float64), held.block.shape[1])
        if beyond is not None:
            found[held.groups :] = beyond
        return found


def _jets(function: Callable[[Any], Any], at: Any) -> tuple[Any, Any, Any]:
    """Of a function whose entries each depend on one entry: it and its two derivatives."""
    slope = jax.grad(lambda at: function(at).sum())
    first, second = jax.jvp(slope, (at,), (jnp.ones_like(at),))
    return function(at), first, second


def _by_group(each: Any, block: Block) -> Any:
    groups = len(block.others[0])
    return jax.ops.segment_sum(each, block.sums, num_segments=groups + 1, indices_are_sorted=True)[:groups]


def _size(count: int, least: int) -> int:
    return least if count <= least else 1 << (count - 1).bit_length()


def _padded(values: NDArray[Any], size: int) -> NDArray[Any]:
    return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])
