"""NUTS of NumPyro on rows that change, compiled once: chains side by side, which can be gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro.handlers import seed as seeded
from numpyro.infer import NUTS
from numpyro.infer.util import constrain_fn, unconstrain_fn


class Chains:
    """Chains of a model whose arguments are arrays of one shape; others are compiled anew.

    `numpyro.infer.MCMC` compiles at every run, and that takes longer than a run on some hundred rows. Here the arguments,
    the state and the number of steps to skip are all handed to the compiled function.
    """

    def __init__(self, model: Callable[..., Any], names: list[str], tune: int, length: int, kernel: Mapping[str, Any]) -> None:
        self.model = model
        self.names = names
        self.tune = tune
        self.length = length
        self.kernel = NUTS(model, **kernel)
        self._begun = jax.jit(jax.vmap(self._begin, in_axes=(0, 0, None)))
        self._run = jax.jit(jax.vmap(self._steps, in_axes=(0, None, None)))

    def run(
        self, key: Any, data: tuple[Any, ...], start: Optional[dict[str, Any]], chains: int, draws: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """At least so many draws of each chain after warm-up, chains × draws × …, and how many of them diverged.

        `start` has a draw for each chain; without it they start where NUTS finds a place.
        """
        state = self._begun(jax.random.split(key, chains), start, data)
        if not np.isfinite(np.asarray(state.potential_energy)).all():
            raise RuntimeError("NUTS finds no place to start from: the log-density is not finite")
        parts: list[dict[str, Any]] = []
        diverged, skip = 0, self.tune
        while len(parts) * self.length < draws:
            state, kept, divergences = self._run(state, data, skip)
            parts.append(kept)
            diverged += int(divergences.sum())
            skip = 0
        return {name: np.concatenate([np.asarray(part[name]) for part in parts], axis=1) for name in self.names}, diverged

    def _begin(self, key: Any, start: Optional[dict[str, Any]], data: tuple[Any, ...]) -> Any:
        """The state of one chain before its first step."""
        free = None if start is None else unconstrain_fn(seeded(self.model, 0), data, {}, start)
        return self.kernel.init(key, self.tune, free, model_args=data, model_kwargs={})

    def _steps(self, state: Any, data: tuple[Any, ...], skip: Any) -> tuple[Any, dict[str, Any], Any]:
        """`skip` steps and then as many as are kept. One loop for both, since its body is what takes long to compile."""

        def step(at: Any, carried: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            state, kept, diverged = carried
            state = self.kernel.sample(state, data, {})
            kept = jax.tree_util.tree_map(lambda all, one: all.at[jnp.maximum(at - skip, 0)].set(one), kept, state.z)
            return state, kept, diverged + (state.diverging & (at >= skip))

        room = jax.tree_util.tree_map(lambda z: jnp.zeros((self.length, *z.shape), z.dtype), state.z)
        state, free, diverged = jax.lax.fori_loop(0, skip + self.length, step, (state, room, jnp.int32(0)))
        values = jax.vmap(lambda z: constrain_fn(seeded(self.model, 0), data, {}, z))(free)
        return state, {name: values[name] for name in self.names}, diverged
