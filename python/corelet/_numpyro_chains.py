"""NUTS of NumPyro on rows that change, compiled once: one chain, of which several run side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro.handlers import seed as seeded
from numpyro.infer.hmc import hmc
from numpyro.infer.util import constrain_fn, initialize_model, potential_energy, unconstrain_fn

TRIES = 100
"""How often chains are started anew where the log-density is not finite, as NUTS of NumPyro does."""
RADIUS = 2.0
"""Chains start within so much of 0 in every unconstrained parameter, as NUTS of NumPyro does."""


class Chains:
    """Chains of a model whose arguments are arrays of one shape; others are compiled anew.

    `numpyro.infer.MCMC` compiles at every run, and that takes longer than a run on some hundred rows. Here the arguments,
    the state and the number of steps to skip are all handed to the compiled function; and `numpyro.infer.NUTS` looks for a
    place to start from in a loop that is compiled as well, while here a chain that got a bad one starts anew. What is
    compiled is one chain, in half the time that chains as one array would take; threads run several of it.
    """

    def __init__(
        self, model: Callable[..., Any], latent: dict[str, Any], tune: int, length: int, kernel: Mapping[str, Any]
    ) -> None:
        """`latent` are the shapes of the parameters, by name."""
        self.model = seeded(model, 0)
        self.latent = latent
        self.tune = tune
        self.length = length
        options = dict(kernel)
        self.strategy = options.pop("init_strategy", None)
        dense = options.pop("dense_mass", False)
        options["dense_mass"] = ([tuple(sorted(latent))] if dense else []) if isinstance(dense, bool) else dense
        self.options = options
        energy = jax.jit(lambda free, data: potential_energy(self.model, data, {}, free))
        generate = lambda *data: lambda free: energy(free, data)  # noqa: E731
        self._init, self._step = hmc(potential_fn_gen=generate, kinetic_fn=options.pop("kinetic_fn", None))
        self._run: Any = None
        self._compiled_for: Any = None
        self._blank: Any = None
        self._free: Optional[dict[str, NDArray[Any]]] = None

    def run(
        self, seed: int, data: tuple[Any, ...], start: Optional[Mapping[str, Any]], chains: int, draws: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """At least so many draws of each chain after warm-up, chains × draws × …, and how many of them diverged.

        They start from draws of the run before; where there is none, from draws `start`, or from somewhere.
        """
        rngs = [np.random.default_rng([seed, chain]) for chain in range(chains)]
        drawn: dict[int, Any] = {}
        for _ in range(TRIES):
            waiting = [chain for chain in range(chains) if chain not in drawn]
            # Not in the threads: the handlers of NumPyro are one stack for all of them, and each would compile for itself.
            begins = [(_key(rngs[chain]), self._somewhere(rngs[chain], data, start)) for chain in waiting]
            self._compile(begins[0], data)
            with ThreadPoolExecutor(chains) as pool:
                found = pool.map(lambda begin: self._chain(begin, data, draws), begins)
                drawn.update({chain: parts for chain, parts in zip(waiting, found) if parts is not None})
            if len(drawn) == chains:
                break
        else:
            raise RuntimeError("NUTS finds no place to start from: the log-density is not finite")
        parts = [drawn[chain] for chain in range(chains)]
        free, values = (
            {name: np.stack([np.concatenate([part[at][name] for part in chain]) for chain in parts]) for name in self.latent}
            for at in range(2)
        )
        self._free = {name: array.reshape(-1, *array.shape[2:]) for name, array in free.items()}
        return values, sum(int(part[2]) for chain in parts for part in chain)

    def _compile(self, begin: tuple[Any, Any], data: tuple[Any, ...]) -> None:
        """For so many rows, unless that was done."""
        if self._compiled_for == np.shape(data[0]):
            return
        shapes = jax.eval_shape(self._begin, *begin, data)
        self._blank = jax.tree_util.tree_map(lambda x: np.zeros(x.shape, x.dtype), shapes)
        self._run = jax.jit(self._steps).lower(begin, self._blank, np.bool_(True), data, np.int32(0)).compile()
        self._compiled_for = np.shape(data[0])

    def _chain(self, begin: tuple[Any, Any], data: tuple[Any, ...], draws: int) -> Optional[list[Any]]:
        """Parts of a chain after warm-up: unconstrained and constrained draws and how many diverged. None from a bad place."""
        state, good, *part = self._run(begin, self._blank, np.bool_(True), data, np.int32(self.tune))
        if not good:
            return None
        parts = [part]
        while len(parts) * self.length < draws:
            state, _, *part = self._run(begin, state, np.bool_(False), data, np.int32(0))
            parts.append(part)
        return parts

    def _somewhere(
        self, rng: np.random.Generator, data: tuple[Any, ...], start: Optional[Mapping[str, Any]]
    ) -> dict[str, NDArray[Any]]:
        """Unconstrained values to start from."""
        if start is not None:
            if self._free is None:
                free = jax.vmap(lambda draw: unconstrain_fn(self.model, data, {}, draw))(dict(start))
                self._free = {name: np.asarray(values) for name, values in free.items()}
            chosen = rng.integers(len(next(iter(self._free.values()))))
            return {name: values[chosen] for name, values in self._free.items()}
        if self.strategy is not None:
            found = initialize_model(_key(rng), self.model, init_strategy=self.strategy, model_args=data).param_info.z
            return {name: np.asarray(values) for name, values in found.items()}
        shapes = jax.eval_shape(lambda draw: unconstrain_fn(self.model, data, {}, draw), self.latent)
        return {name: rng.uniform(-RADIUS, RADIUS, x.shape).astype(x.dtype) for name, x in shapes.items()}

    def _begin(self, key: Any, free: dict[str, Any], data: tuple[Any, ...]) -> Any:
        """The state of one chain before its first step."""
        return self._init(free, self.tune, rng_key=key, model_args=data, model_kwargs={}, **self.options)

    def _steps(self, begin: tuple[Any, Any], state: Any, fresh: Any, data: tuple[Any, ...], skip: Any) -> tuple[Any, ...]:
        """`skip` steps and then as many as are kept, from a new beginning where it is `fresh`; none where that is no good.

        One loop for all of them, since its body is what takes long to compile.
        """
        state = jax.tree_util.tree_map(lambda new, old: jnp.where(fresh, new, old), self._begin(*begin, data), state)
        numbers = jax.tree_util.tree_leaves((state.potential_energy, state.z_grad))
        good = jnp.all(jnp.array([jnp.isfinite(x).all() for x in numbers]))

        def step(at: Any, carried: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            state, kept, diverged = carried
            state = self._step(state, data, {})
            kept = jax.tree_util.tree_map(lambda all, one: all.at[jnp.maximum(at - skip, 0)].set(one), kept, state.z)
            return state, kept, diverged + (state.diverging & (at >= skip))

        room = jax.tree_util.tree_map(lambda z: jnp.zeros((self.length, *z.shape), z.dtype), state.z)
        steps = jnp.where(good, skip + self.length, 0)
        state, free, diverged = jax.lax.fori_loop(0, steps, step, (state, room, jnp.int32(0)))
        values = jax.vmap(lambda z: constrain_fn(self.model, data, {}, z))(free)
        return state, good, free, {name: values[name] for name in self.latent}, diverged


def _key(rng: np.random.Generator) -> Any:
    return jax.random.PRNGKey(int(rng.integers(1 << 31)))
