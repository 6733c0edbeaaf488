"""Log-likelihoods of groups with a latent variable integrated out by adaptive Gauss–Hermite nodes: loops compiled by numba.

ℓ_g(φ) = log ∫ exp F_g(u) du with F_g(u) = Σ_{i∈g} ℓ_i(φ, u) + log p(u | φ), by nodes m + s·z about the mode m of F_g with s = (−F_g″(m))^{−1/2}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

STEPS = 100
"""Steps of Newton's method to the modes of a block of groups, at most; halvings count."""
ARRIVED = 0.1
"""A step that is shorter, in standard deviations of the integrand, is the last: it ends within about its square of the mode, and nodes about a
place as near as that are as good. (What is left of it is in the comparison of rules.)"""
FARTHEST = 5.0
"""The longest step, in the same."""


def rule(nodes: int) -> tuple[Numbers, Numbers]:
    """Places z and logarithms of weights that integrate exp(F(z)) over the line: those of Gauss–Hermite, times the inverse of their density."""
    z, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return z, np.log(weights) + 0.5 * z * z


def wide(points: int = 121, reach: float = 60.0) -> tuple[Numbers, Numbers]:
    """The trapezoid rule in t with z = sinh t: fine about the mode, and out to so many standard deviations from it. It shares nothing with the
    other rule but the mode and the scale."""
    t = np.linspace(-np.arcsinh(reach), np.arcsinh(reach), points)
    return np.sinh(t), np.log(np.cosh(t)) + np.log(t[1] - t[0])


@dataclass(frozen=True)
class Functions:
    """What is known of rows and groups, compiled; φ is a line of unconstrained numbers, `v` has a value for each row, `u` one for each group."""

    rows: Any
    """(φ, v, *data) → the log-likelihood of each row, its first and second derivative by v."""
    values: Any
    """(φ, v, *data) → the log-likelihood of each row."""
    prior: Any
    """(φ, u, *data of groups) → the log density of each u, and its two derivatives."""
    slopes: Any
    """(φ, v, a, *data) → the gradient of Σ aᵢℓᵢ by φ."""
    prior_slopes: Any
    """(φ, u, a, *data of groups) → that of Σ a_g log p(u_g | φ)."""
    effect: Any
    """(φ, u, *data of groups) → what the rows see of u."""


class Loops(Protocol):
    """Sums over many lines φ, without the lock of the interpreter. `held` is what `given` makes of groups."""

    @property
    def given(self) -> Callable[..., tuple[Any, ...]]:
        """(starts of groups, data of their rows, data of groups): groups as the others take them."""

    @property
    def integrals(self) -> Callable[..., None]:
        """(out, φ, modes to begin at, *held, *rule): ℓ_g, lines × groups."""

    @property
    def slopes(self) -> Callable[..., None]:
        """(values, gradients, φ, modes, *held, *rule, weights): Σ w_gℓ_g and its gradient."""

    @property
    def integrands(self) -> Callable[..., None]:
        """(out, modes, scales, φ, modes, *held, places): F_g at places m + s·z of one line φ, groups × places."""

    @property
    def effects(self) -> Callable[..., None]:
        """(out, φ, modes, *held, *rule): sums over lines and nodes of shares times powers 1 to 4 of the effect less out[:, 0]."""


@dataclass(frozen=True)
class NumbaLoops:
    """Compiled by numba."""

    integrals: Callable[..., None]
    slopes: Callable[..., None]
    integrands: Callable[..., None]
    values: Any
    """As in `Functions`."""
    prior: Any
    """The same."""
    effects: Callable[..., None]

    def given(self, starts: NDArray[np.int64], data: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, ...]:
        """As they are."""
        return starts, data, others


def loops(functions: Functions) -> NumbaLoops:
    """The loops over these functions."""
    import numba

    rows, values, prior = functions.rows, functions.values, functions.prior
    row_slopes, prior_slopes, effect = functions.slopes, functions.prior_slopes, functions.effect
    njit = numba.njit(nogil=True)

    @njit  # type: ignore[untyped-decorator]
    def spread(out: Any, u: Any, starts: Any) -> None:
        for g in range(u.shape[0]):
            for i in range(starts[g], starts[g + 1]):
                out[i] = u[g]

    @njit  # type: ignore[untyped-decorator]
    def added(each: Any, own: Any, starts: Any, g: Any) -> Any:
        total = own[g]
        for i in range(starts[g], starts[g + 1]):
            total += each[i]
        return total

    @njit  # type: ignore[untyped-decorator]
    def climb(phi: Any, modes: Any, scales: Any, starts: Any, data: Any, others: Any) -> None:
        """Newton's method, each group by itself, with steps that are halved where they lead down. `modes` are the begin and the end."""
        count = modes.shape[0]
        trial, v = modes.copy(), np.empty(starts[count])
        height, step = np.full(count, -np.inf), np.zeros(count)
        done = np.zeros(count, np.bool_)
        scales[:] = 1.0
        for _ in range(STEPS):
            spread(v, trial, starts)
            each, first, second = rows(phi, v, *data)
            own, own_first, own_second = prior(phi, trial, *others)
            left = False
            for g in range(count):
                if done[g]:
                    continue
                value = added(each, own, starts, g)
                if not (value >= height[g] - 1e-9 * abs(height[g])) and np.isfinite(height[g]):
                    step[g] *= 0.5
                    if abs(step[g]) < 1e-12 * (1.0 + abs(modes[g])):
                        done[g] = True
                    trial[g] = modes[g] if done[g] else modes[g] + step[g]
                    left = left or not done[g]
                    continue
                slope = added(first, own_first, starts, g)
                bend = added(second, own_second, starts, g)
                modes[g], height[g] = trial[g], value
                if bend < 0.0:
                    scales[g] = 1.0 / np.sqrt(-bend)
                    step[g] = -slope / bend
                    if abs(step[g]) < ARRIVED * scales[g]:
                        modes[g] += step[g]
                        done[g] = True
                else:
                    step[g] = np.sign(slope) * scales[g]
                far = FARTHEST * scales[g]
                step[g] = min(max(step[g], -far), far)
                if not np.isfinite(step[g]):
                    done[g] = True
                trial[g] = modes[g] if done[g] else modes[g] + step[g]
                left = left or not done[g]
            if not left:
                break

    @njit  # type: ignore[untyped-decorator]
    def heights(out: Any, phi: Any, modes: Any, scales: Any, starts: Any, data: Any, others: Any, z: Any) -> None:
        """F_g at m + s·z."""
        count = modes.shape[0]
        v, u = np.empty(starts[count]), np.empty(count)
        for q in range(z.shape[0]):
            for g in range(count):
                u[g] = modes[g] + scales[g] * z[q]
            spread(v, u, starts)
            each = values(phi, v, *data)[0]
            own = prior(phi, u, *others)[0]
            for g in range(count):
                out[g, q] = added(each, own, starts, g)

    @njit  # type: ignore[untyped-decorator]
    def sums(found: Any, out: Any, scales: Any, weights: Any) -> None:
        """Logarithms of the integrals, and each node's share of its own in place of F."""
        for g in range(found.shape[0]):
            most = -np.inf
            for q in range(found.shape[1]):
                found[g, q] += weights[q]
                if np.isnan(found[g, q]):  # Infinities that cancel, far out.
                    found[g, q] = -np.inf
                most = max(most, found[g, q])
            total = 0.0
            for q in range(found.shape[1]):
                found[g, q] = np.exp(found[g, q] - most)
                total += found[g, q]
            for q in range(found.shape[1]):
                found[g, q] /= total
            out[g] = most + np.log(total) + np.log(scales[g])

    @njit  # type: ignore[untyped-decorator]
    def integrals(out: Any, phis: Any, begin: Any, starts: Any, data: Any, others: Any, z: Any, weights: Any) -> None:
        count = begin.shape[0]
        scales, found = np.empty(count), np.empty((count, z.shape[0]))
        for s in range(phis.shape[0]):
            # From the same place for every line, so that a value is a function of the line alone.
            modes = begin.copy()
            climb(phis[s], modes, scales, starts, data, others)
            heights(found, phis[s], modes, scales, starts, data, others, z)
            sums(found, out[s], scales, weights)

    @njit  # type: ignore[untyped-decorator]
    def slopes(
        totals: Any, gradients: Any, phis: Any, begin: Any, starts: Any, data: Any, others: Any, z: Any, weights: Any, each: Any
    ) -> None:
        """By Fisher's identity: the mean of the gradient of F_g over its nodes, each with its share."""
        count = begin.shape[0]
        scales, found, own = np.empty(count), np.empty((count, z.shape[0])), np.empty(count)
        v, a, u, b = np.empty(starts[count]), np.empty(starts[count]), np.empty(count), np.empty(count)
        for s in range(phis.shape[0]):
            modes = begin.copy()
            climb(phis[s], modes, scales, starts, data, others)
            heights(found, phis[s], modes, scales, starts, data, others, z)
            sums(found, own, scales, weights)
            for g in range(count):
                totals[s] += each[g] * own[g]
            for q in range(z.shape[0]):
                for g in range(count):
                    u[g], b[g] = modes[g] + scales[g] * z[q], each[g] * found[g, q]
                spread(v, u, starts)
                spread(a, b, starts)
                by_rows = row_slopes(phis[s], v, a, *data)[0]
                by_prior = prior_slopes(phis[s], u, b, *others)[0]
                for j in range(by_rows.shape[0]):
                    gradients[s, j] += by_rows[j] + by_prior[j]

    @njit  # type: ignore[untyped-decorator]
    def integrands(out: Any, modes: Any, scales: Any, phi: Any, begin: Any, starts: Any, data: Any, others: Any, z: Any) -> None:
        modes[:] = begin
        climb(phi, modes, scales, starts, data, others)
        heights(out, phi, modes, scales, starts, data, others, z)

    @njit  # type: ignore[untyped-decorator]
    def effects(out: Any, phis: Any, begin: Any, starts: Any, data: Any, others: Any, z: Any, weights: Any) -> None:
        count = begin.shape[0]
        scales, found, own, u = np.empty(count), np.empty((count, z.shape[0])), np.empty(count), np.empty(count)
        for s in range(phis.shape[0]):
            modes = begin.copy()
            climb(phis[s], modes, scales, starts, data, others)
            heights(found, phis[s], modes, scales, starts, data, others, z)
            sums(found, own, scales, weights)
            if s == 0:
                out[:, 0] = effect(phis[s], modes, *others)[0]
            for q in range(z.shape[0]):
                for g in range(count):
                    u[g] = modes[g] + scales[g] * z[q]
                seen = effect(phis[s], u, *others)[0]
                for g in range(count):
                    off = seen[g] - out[g, 0]
                    power = found[g, q]
                    for m in range(1, 5):
                        power *= off
                        out[g, m] += power

    return NumbaLoops(integrals, slopes, integrands, values, prior, effects)
