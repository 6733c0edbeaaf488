"""A user's functions as a model: a sampler, log-likelihoods, and, where they are given, a gradient and the log density of the prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from ..results.draws import BARE, Draws
from ..frames.units import Which
from .bridge import Layout, checked
from .differences import COMPARED, COMPARED_ROWS, wrong_derivatives
from .gaussian import Numbers


class Functions:
    """A user's two functions as a sampler."""

    def __init__(
        self,
        sample: Callable[..., Any],
        log_likelihood: Callable[[Any, Any], Any],
        gradient: Optional[Callable[..., Any]],
    ) -> None:
        if not (callable(sample) and callable(log_likelihood) and (gradient is None or callable(gradient))):
            raise TypeError("sample, log_likelihood and gradient must be functions")
        self._sample = sample
        self._log_likelihood = log_likelihood
        self._gradient = gradient
        self._compared = False

    @property
    def last_steps(self) -> int:
        return 0

    @property
    def at_once(self) -> int:
        return 1

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        return Draws.of(self._sample(rows, weights, None if start is None else start.flat()))

    def log_likelihood(self, theta: Any, rows: Which) -> Any:
        return self._log_likelihood(theta, rows)

    def scores(
        self, rows: NDArray[np.int64], weights: NDArray[np.float64], draws: Draws, most: int
    ) -> Optional[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Some of these draws, and the gradient there."""
        if self._gradient is None:
            return None
        some = draws.thin(most)
        if not self._compared:
            self._compare_weighted(some, rows, weights)
            self._compared = True
        return self.gradient_at(some.flat(), some.count, rows, weights)

    def _compare_weighted(self, draws: Draws, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Refuses a gradient of another log-likelihood than the one that rows are chosen and judged by."""
        layout = Layout.of(draws)
        points = layout.table(draws).reshape(draws.count, -1)
        at = points[np.arange(COMPARED) * len(points) // COMPARED]

        def density(points: Numbers) -> tuple[Numbers, Numbers]:
            theta, count = layout.draws(points[None]).flat(), len(points)
            with np.errstate(all="ignore"):
                values = checked(self._log_likelihood(theta, rows), count, rows) @ weights
                # Twice the weights less once: what the prior adds is in both.
                twice, once = (self.gradient_at(theta, count, rows, times * weights)[1] for times in (2.0, 1.0))
            return values, twice - once

        self._refuse(wrong_derivatives(density, at, points.std(axis=0)), layout, "log-likelihood")

    @staticmethod
    def _refuse(wrong: Optional[list[int]], layout: Layout, what: str) -> None:
        if wrong is None:
            return
        by = f" by {layout.entries()[wrong[0]]}" if wrong else ""
        function = "log_prior" if what == "prior" else "log_likelihood"
        raise _lib.CoreletError(
            f"gradient is not that of the {what}: its derivative{by} is not what differences of {function} say, at some of the draws"
        )

    def gradient_at(
        self, theta: Any, count: int, rows: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """So many values of θ as a table, and the gradient there."""
        assert self._gradient is not None
        answer = self._gradient(theta, rows, weights)
        given = answer if isinstance(answer, Mapping) else {BARE: answer}
        points = theta if isinstance(theta, Mapping) else {BARE: theta}
        if {name: np.shape(values) for name, values in given.items()} != {name: x.shape for name, x in points.items()}:
            raise _lib.CoreletError("gradient must return what has the shape of theta: an array, or one for each variable")
        return tuple(  # type: ignore[return-value]
            np.concatenate([np.asarray(part[name], np.float64).reshape(count, -1) for name in points], axis=1)
            for part in (points, given)
        )


class Densities(Functions):
    """The same where the density is known on ℝᵖ: differentiable, so that a Gaussian may stand in place of all rows."""

    def __init__(
        self,
        functions: Functions,
        log_prior: Callable[[Any], Any],
        n: int,
        pilot: int,
        given: Optional[Draws],
        seed: int,
    ) -> None:
        """From draws of a pilot of so many rows, or `given`, whose form is that of θ and where the search for modes begins."""
        super().__init__(functions._sample, functions._log_likelihood, functions._gradient)
        if not callable(log_prior):
            raise TypeError("log_prior must be a function")
        self._prior, self.n = log_prior, n
        self._pilot: Optional[Draws] = None
        if given is None:
            rows = np.sort(np.random.default_rng([seed, n]).choice(n, pilot, replace=False))
            given = self._pilot = super().sample(rows, np.ones(pilot), None, 0, False)
        self._layout = Layout.of(given)
        self._starts = self.unconstrained(given)
        self._compare()

    def sample(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        start: Optional[Draws],
        draws: int,
        final: bool,
    ) -> Draws:
        # One pilot is as good as another: that which is here already serves as the first.
        if start is None and self._pilot is not None:
            found, self._pilot = self._pilot, None
            return found
        return super().sample(rows, weights, start, draws, final)

    @property
    def dimension(self) -> int:
        """p."""
        return int(self._starts.shape[1])

    @property
    def parameters(self) -> int:
        """The same."""
        return self.dimension

    @property
    def length(self) -> tuple[int, int, int, float]:
        """Draws, warm-up and number of the final chains, and the acceptance rate that they adapt to."""
        return 1000, 500, 4, 0.8

    def coordinates(self) -> list[str]:
        """The name of each number of θ."""
        return self._layout.entries()

    def places(self, count: int) -> Numbers:
        """Draws of the pilot, evenly spaced."""
        at = np.arange(count) * len(self._starts) // count
        return self._starts[at]

    def unconstrained(self, draws: Draws) -> Numbers:
        """Draws × numbers."""
        table = Layout.of(draws).table(draws)
        return table.reshape(-1, table.shape[-1])

    def constrained(self, points: Numbers, stats: Optional[Mapping[str, Numbers]] = None) -> Draws:
        """Chains × draws × numbers as draws."""
        return self._layout.draws(points if points.ndim == 3 else points[None])

    def slopes(
        self, at: Numbers, rows: Optional[NDArray[np.int64]], weights: Optional[Numbers] = None
    ) -> tuple[Numbers, Numbers]:
        """The log-likelihood of these rows, each times its weight, and its gradient; of all rows where none are named."""
        theta = self._theta(at)
        which = np.arange(self.n) if rows is None else rows
        factors = np.ones(len(which)) if weights is None else weights
        values, gradients = np.zeros(len(at)), np.zeros(at.shape)
        prior = self._prior_gradient(at)
        size = _lib.block_size(self.n, len(at))
        for begin in range(0, len(which), size):
            some, own = which[begin : begin + size], factors[begin : begin + size]
            with np.errstate(all="ignore"):
                values += checked(self._log_likelihood(theta, some), len(at), some) @ own
                gradients += self._whole_gradient(at, some, own) - prior
        return values, gradients

    def log_prior(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """The log density of the prior and its gradient."""
        values = np.asarray(self._prior(self._theta(at)), np.float64)
        if values.shape != (len(at),):
            raise _lib.CoreletError(f"log_prior returned an array of shape {values.shape} for {len(at)} draws; it must be ({len(at)},)")
        return values, self._prior_gradient(at)

    def _prior_gradient(self, at: Numbers) -> Numbers:
        return self._whole_gradient(at, np.zeros(1, np.int64), np.zeros(1))

    def _whole_gradient(self, at: Numbers, rows: NDArray[np.int64], weights: Numbers) -> Numbers:
        found = self.gradient_at(self._theta(at), len(at), rows, weights)
        return found[1]

    def _theta(self, at: Numbers) -> Any:
        return self._layout.draws(at[None]).flat()

    def _compare(self) -> None:
        """Refuses functions that do not belong together."""
        at, sds = self.places(COMPARED), self._starts.std(axis=0)
        rows = np.linspace(0, self.n - 1, min(self.n, COMPARED_ROWS)).astype(np.int64)
        self._refuse(wrong_derivatives(self.log_prior, at, sds), self._layout, "prior")
        self._refuse(wrong_derivatives(lambda points: self.slopes(points, rows), at, sds), self._layout, "log-likelihood")
        self._compared = True
