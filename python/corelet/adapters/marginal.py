"""A model with a latent variable integrated out, as the engine sees it: its rows are groups, and their log-likelihoods are integrals."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from ..frames.units import Which
from ..results.draws import Draws
from .beside import MOST_AT_ONCE, cores, in_order
from .gaussian import Numbers
from .laplace import Gaussian, climbed, of_draws
from .quadrature import Loops, rule, wide

BLOCK = 8192
"""Rows at a time, so that what is computed of them stays in the cache of a core."""
LADDER = (3, 5, 7, 9, 11, 15, 21, 29, 41, 61)
"""Nodes, in the order in which they are tried: those of the built-in mixed models."""
FIRST = 7
"""Nodes before their number is chosen."""
AIMED = 0.03
"""By how much the rule that is taken may move the posterior, in its standard deviations: as in the built-in mixed models."""
COMPARED, COMPARED_DRAWS = 1000, 24
"""Groups and draws at which rules are compared with the wide one."""
SOME = 600
"""Groups on which the first climb is, where there are more."""
PILOT_GROUPS = 200
"""Groups of the pilot, where the posterior has no mode to begin at."""
PILOT_DRAWS = 400
ROUND_CHAINS, ROUND_WARMUP = 2, 300
CLIMBS = 8.0
"""Steps of Newton's method to be expected, each with two gradients of all groups for each parameter."""
GRADIENTS = 1500.0
"""Of all groups, in the rounds of a fit: two looks of some 500, what comes before them and the last verdict."""
RIVAL = 10.0
"""Nats below the best mode from which another is negligible, as in the engine's own search."""
AWAY = 12.0
"""Standard deviations from the mode at which further climbs to modes begin."""
OVER_THE_PRIOR = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
"""Others begin so many standard deviations of the prior from its mode: rows of few values far apart have narrow modes."""


class Model(Protocol):
    """What the adapter of a tool has: the parameters that are left, and functions of rows and groups."""

    labels: NDArray[Any]
    """What the groups are called, those without rows too."""

    @property
    def name(self) -> str:
        """That of what is integrated out."""

    @property
    def loops(self) -> Loops:
        """Compiled."""

    @property
    def dimension(self) -> int:
        """How many unconstrained numbers are left."""

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the final chains, and the acceptance rate that they adapt to."""

    def data(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """What the functions read of these rows."""

    def others(self, groups: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """What they read of these groups."""

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Of the parameters that are left, and its gradient at lines of unconstrained numbers."""

    def places(self, count: int) -> Numbers:
        """Points from which a search may begin."""

    def coordinates(self) -> list[str]:
        """The names of the unconstrained numbers."""

    def unconstrained(self, draws: Draws) -> Numbers:
        """Draws as lines of unconstrained numbers."""

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        """Chains × draws × unconstrained numbers as draws."""

    def only_left(self, draws: Draws) -> Draws:
        """Given draws without what is integrated out."""

    def inference_data(self, draws: Draws, attributes: Mapping[str, str]) -> Any:
        """For ArviZ."""


@dataclass(frozen=True)
class Part:
    """Some groups one after the other, with what the loops read of them."""

    groups: NDArray[np.int64]
    given: tuple[Any, ...]


class Marginal:
    """Groups by their numbers among those that have rows."""

    def __init__(self, model: Model, codes: NDArray[np.int64], seed: int) -> None:
        self.model = model
        self.seed = seed
        self.levels, self.codes = np.unique(codes, return_inverse=True)
        """The groups that have rows, and each row's number among these."""
        self.order = np.argsort(self.codes, kind="stable")
        self.ends = np.concatenate([[0], np.cumsum(np.bincount(self.codes))])
        self.nodes = FIRST
        self.modes = np.zeros(len(self.levels))
        """Where climbs to the modes of the integrands begin."""
        self.calls = 0
        self.last_check = (FIRST, 0, 0, np.inf)
        """What `checked` found."""
        self.effects = None
        self._parts = self._in_parts(np.arange(len(self.levels)))
        self._direct: tuple[Any, Numbers] = (None, np.empty(0))
        """Integrals by the wide rule, and where they are."""
        self._placed: tuple[Any, Numbers] = (None, np.empty(0))
        self._alone = threading.Lock()

    # What the engine asks.

    @property
    def n(self) -> int:
        """How many groups there are."""
        return len(self.levels)

    @property
    def dimension(self) -> int:
        return self.model.dimension

    @property
    def parameters(self) -> int:
        return self.model.dimension

    @property
    def length(self) -> tuple[int, int, int, float]:
        return self.model.length

    @property
    def last_steps(self) -> int:
        draws, warmup, chains, _ = self.model.length
        return chains * (draws + warmup)

    @property
    def at_once(self) -> int:
        return min(cores(), MOST_AT_ONCE)

    @property
    def members(self) -> NDArray[np.int64]:
        """The group of each row."""
        return self.codes

    def coordinates(self) -> list[str]:
        return self.model.coordinates()

    def places(self, count: int) -> Numbers:
        return self.model.places(count)

    def unconstrained(self, draws: Draws) -> Numbers:
        return self.model.unconstrained(draws)

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        return self.model.constrained(points, stats)

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        return self.model.log_prior(at)

    def log_likelihood(self, theta: Any, groups: Which) -> Numbers:
        """Draws by groups."""
        with self._alone:
            if self._placed[0] is not theta:
                points = self.model.unconstrained(Draws({name: values[None] for name, values in theta.items()}, False))
                self.begin_at(np.nanmean(points, axis=0))
                self._placed = (theta, points)
            points = self._placed[1]
        which = np.arange(groups.start, groups.stop) if isinstance(groups, slice) else groups
        return self.integrals(points, which, rule(self.nodes))

    def integrals(self, points: Numbers, groups: NDArray[np.int64], by: tuple[Numbers, Numbers]) -> Numbers:
        """ℓ_g at lines of unconstrained numbers, lines × groups, by a rule."""
        found = np.empty((len(points), len(groups)))
        at = np.ascontiguousarray(points)
        start = 0
        for part in self._in_parts(groups):
            own = np.empty((len(points), len(part.groups)))
            self.model.loops.integrals(own, at, self.modes[part.groups], *part.given, *by)
            found[:, start : start + len(part.groups)] = own
            start += len(part.groups)
        return found

    def slopes(
        self, at: Numbers, groups: Optional[NDArray[np.int64]], weights: Optional[Numbers] = None
    ) -> tuple[Numbers, Numbers]:
        """Σ w_gℓ_g of these groups, of all where none are named, and its gradient."""
        points = np.ascontiguousarray(at)
        parts = self._parts if groups is None else self._in_parts(groups)
        factors = np.ones(self.n if groups is None else len(groups)) if weights is None else np.asarray(weights, np.float64)
        ends = np.cumsum([len(part.groups) for part in parts])

        def one(which: int) -> tuple[Numbers, Numbers]:
            part, values, gradients = parts[which], np.zeros(len(points)), np.zeros(points.shape)
            own = np.ascontiguousarray(factors[ends[which] - len(part.groups) : ends[which]])
            self._slopes(part, points, own, values, gradients)
            return values, gradients

        values, gradients = np.zeros(len(points)), np.zeros(points.shape)
        for more, slopes in in_order(one, range(len(parts)), self.at_once if len(parts) > 1 else 1):
            values += more
            gradients += slopes
        return values, gradients

    def _slopes(self, part: Part, points: Numbers, weights: Numbers, values: Numbers, gradients: Numbers) -> None:
        begin = self.modes[part.groups]
        self.model.loops.slopes(values, gradients, points, begin, *part.given, *rule(self.nodes), weights)

    def scores(
        self, groups: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> tuple[Numbers, Numbers]:
        """At no more than `most` of these draws: unconstrained numbers, and the gradient of the weighted log posterior there."""
        points = self.model.unconstrained(draws.thin(most))
        points = points[np.isfinite(points).all(axis=1)]
        return points, self.slopes(points, groups, weights)[1] + self.model.log_prior(points)[1]

    def sample(
        self, groups: NDArray[np.int64], weights: NDArray[np.float64], start: Optional[Draws], draws: int, final: bool
    ) -> Draws:
        """Chains on the weighted integrals, by corelet's own NUTS."""
        if start is not None:
            found = self.model.unconstrained(start)
            begin = of_draws(found[np.isfinite(found).all(axis=1)])
        else:
            begin = Gaussian(self.model.places(1)[0], np.eye(self.dimension))
        return self._chains(groups, weights, begin, draws, final)

    def _chains(self, groups: NDArray[np.int64], weights: Numbers, begin: Gaussian, draws: int, final: bool) -> Draws:
        self.begin_at(begin.mean)
        self.calls += 1
        seed = int(np.random.SeedSequence([self.seed, self.calls]).generate_state(1)[0])
        count, warmup, chains, accept = self.model.length
        if not final:
            warmup, chains = ROUND_WARMUP, ROUND_CHAINS
            count = -(-2 * draws // chains)
        parts = self._in_parts(groups)
        ends = np.cumsum([len(part.groups) for part in parts])

        def density(point: Numbers) -> tuple[float, Numbers]:
            at = point[None]
            values, gradients = np.zeros(1), np.zeros((1, len(point)))
            for part, end in zip(parts, ends):
                self._slopes(part, at, weights[end - len(part.groups) : end], values, gradients)
            prior, slope = self.model.log_prior(at)
            return float(values[0] + prior[0]), gradients[0] + slope[0]

        theta, stats = _lib.sample_function(density, begin.mean, begin.precision, (chains, warmup, count, accept), seed)
        return self.model.constrained(theta, stats)

    def seconds(self) -> float:
        """About what a fit takes, from one timed gradient of all groups."""
        at = self.model.places(1)
        self.begin_at(at[0])
        self.slopes(at, None)  # Compiled here.
        clock, processor = time.perf_counter(), time.process_time()
        self.slopes(at, None)
        # Of the processor, where others keep it busy.
        each = min(time.perf_counter() - clock, time.process_time() - processor)
        return each * (2 * CLIMBS * self.dimension + GRADIENTS)

    # Where the posterior is, and by how many nodes.

    def pilot(self) -> Draws:
        """Draws to begin with: of a Gaussian at the mode of the posterior of all groups, where it has one, else of that of some groups. The
        number of nodes is chosen there."""
        found = self._mode()
        if found is not None:
            points = found.draws(PILOT_DRAWS, self.seed)
            draws = self.model.constrained(points[None])
            draws = Draws(draws.values, False)
        else:
            rng = np.random.default_rng([self.seed, 1])
            some = np.sort(rng.choice(self.n, min(self.n, PILOT_GROUPS), replace=False))
            draws = self.sample(some, np.ones(len(some)), None, PILOT_DRAWS, False)
            points = self.model.unconstrained(draws)
            points = points[np.isfinite(points).all(axis=1)]
        self.begin_at(points.mean(axis=0))
        self.choose(points)
        return draws

    def _mode(self) -> Optional[Gaussian]:
        begin = self.model.places(1)[0]
        if self.n > 2 * SOME:
            some = np.linspace(0, self.n - 1, SOME).astype(np.int64)
            first = climbed(lambda at: self._posterior(at, some), begin)
            if first is None:
                return None
            begin = first.mean
        self.begin_at(begin)
        return climbed(lambda at: self._posterior(at, None), begin)

    def _posterior(self, at: Numbers, some: Optional[NDArray[np.int64]]) -> tuple[Numbers, Numbers]:
        weights = None if some is None else np.full(len(some), self.n / len(some))
        values, gradients = self.slopes(at, some, weights)
        prior, slopes = self.model.log_prior(at)
        return values + prior, gradients + slopes

    def choose(self, points: Numbers) -> None:
        """The coarsest rule that is fine enough at these draws."""
        best = np.inf
        for nodes in LADDER:
            off, _ = self.bias(points, nodes)
            if off < best:
                best, self.nodes = off, nodes
            if off < AIMED:
                return

    def bias(self, points: Numbers, nodes: int) -> tuple[float, int]:
        """By how much so many nodes move the posterior of which these are draws, in its standard deviations: the standard deviation over the
        draws of Σ_g (ℓ_g by the rule − ℓ_g by the wide one), two standard errors above what some groups say. For a slope b and a Gaussian
        posterior with covariance Σ that is √(bᵀΣb), the shift in the worst direction. And on how many groups."""
        rng = np.random.default_rng([self.seed, 2])
        count = min(self.n, COMPARED)
        groups = np.sort(rng.choice(self.n, count, replace=False))
        some = points[np.linspace(0, len(points) - 1, min(len(points), COMPARED_DRAWS)).astype(np.int64)]
        off = self.integrals(some, groups, rule(nodes)) - self._wide(some, groups)
        off -= off.mean(axis=0)
        total = off.sum(axis=1) * (self.n / count)
        spread = off.var(axis=1) * self.n**2 / count * (1 - count / self.n)
        found = float(np.sqrt(np.mean(total**2)) + 2 * np.sqrt(np.mean(spread)))
        return (found if np.isfinite(found) else np.inf), count

    def _wide(self, points: Numbers, groups: NDArray[np.int64]) -> Numbers:
        key = (points.tobytes(), groups.tobytes())
        if self._direct[0] != key:
            self._direct = (key, self.integrals(points, groups, wide()))
        return self._direct[1]

    def rivals(self, point: Numbers) -> int:
        """How many groups have a second mode of their integrand here that is at least e⁻¹⁰ as high as the best: by the heights along the wide
        rule, and by climbs that begin far from the mode on either side and all over the prior."""
        return sum(self._rivals(part, point) for part in self._parts)

    def _rivals(self, part: Part, point: Numbers) -> int:
        z, _ = wide()
        begin = self.modes[part.groups]
        modes, scales, heights = self._climbed(part, point, begin, z)
        middle, spread, _ = self._climbed(self._bare(part), point, np.zeros(len(begin)), np.empty(0))
        places = [modes + away * scales for away in (-AWAY, AWAY)] + [middle + away * spread for away in OVER_THE_PRIOR]
        ends = [self._climbed(part, point, place, np.zeros(1)) for place in places]
        best = np.maximum.reduce([heights.max(axis=1), *(top[:, 0] for *_, top in ends)])
        inner = heights[:, 1:-1]
        peaks = (inner > heights[:, :-2]) & (inner >= heights[:, 2:]) & (inner > best[:, None] - RIVAL)
        several = peaks.sum(axis=1) > 1
        for end, _, top in ends:
            several |= (np.abs(end - modes) > 0.5 * scales) & (top[:, 0] > best - RIVAL)
        return int(several.sum())

    def _climbed(self, part: Part, point: Numbers, begin: Numbers, z: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Modes, scales and heights at m + s·z; nothing is high where it is not a number."""
        count = len(part.groups)
        modes, scales, heights = np.empty(count), np.empty(count), np.empty((count, len(z)))
        at = np.ascontiguousarray(point, dtype=np.float64)
        self.model.loops.integrands(heights, modes, scales, at, begin, *part.given, z)
        return modes, scales, np.where(np.isfinite(heights), heights, -np.inf)

    def _bare(self, part: Part) -> Part:
        """The same groups without their rows, of which the prior is left."""
        return self._part(part.groups, np.empty(0, np.int64), np.zeros(len(part.groups), np.int64))

    def _part(self, groups: NDArray[np.int64], rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> Part:
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Part(groups, self.model.loops.given(starts, self.model.data(rows), self.model.others(self.levels[groups])))

    def checked(self, table: Draws) -> tuple[int, int, int, float]:
        """Nodes, points of the wide rule, groups on which both were compared, and by how much the nodes move the posterior of these draws."""
        points = self.model.unconstrained(table)
        points = points[np.isfinite(points).all(axis=1)]
        middle = points.mean(axis=0)
        self.begin_at(middle)
        off, groups = self.bias(points, self.nodes)
        self.last_check = (self.nodes, len(wide()[0]), groups, np.inf if self.rivals(middle) else off)
        return self.last_check

    def moments(self, points: Numbers) -> Numbers:
        """Mean, standard deviation, skewness and excess of the effect of each group, over the posterior of the other parameters: groups × 4."""
        self.begin_at(points.mean(axis=0))
        found = []
        for part in self._parts:
            sums = np.zeros((len(part.groups), 5))
            begin = self.modes[part.groups]
            self.model.loops.effects(
                sums, np.ascontiguousarray(points), begin, *part.given, *rule(self.nodes)
            )
            found.append(sums)
        every = np.concatenate(found)
        centre, (m1, m2, m3, m4) = every[:, 0], every[:, 1:].T / len(points)
        variance = np.maximum(m2 - m1**2, 0.0)
        sd = np.sqrt(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            third = (m3 - 3 * m1 * m2 + 2 * m1**3) / sd**3
            fourth = (m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4) / variance**2 - 3
        return np.column_stack([centre + m1, sd, np.nan_to_num(third), np.nan_to_num(fourth)])

    def begin_at(self, point: Numbers) -> None:
        """Climbs to the modes of all groups here, where later ones begin."""
        if not np.isfinite(point).all():
            return
        modes = self.modes.copy()
        for part in self._parts:
            own, _, _ = self._climbed(part, point, self.modes[part.groups], np.empty(0))
            modes[part.groups] = np.where(np.isfinite(own), own, 0.0)
        self.modes = modes

    def _in_parts(self, groups: NDArray[np.int64]) -> list[Part]:
        sizes = self.ends[groups + 1] - self.ends[groups]
        parts, start = [], 0
        reach = np.cumsum(sizes)
        while start < len(groups):
            before = reach[start] - sizes[start]
            stop = max(int(np.searchsorted(reach, before + BLOCK, side="right")), start + 1)
            some, own = groups[start:stop], sizes[start:stop]
            rows = np.concatenate([self.order[self.ends[g] : self.ends[g + 1]] for g in some])
            parts.append(self._part(np.asarray(some), rows, own))
            start = stop
        return parts
