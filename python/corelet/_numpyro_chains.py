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

from ._compiled import LITTLE, MUCH, SOME, Compiled

TRIES = 100
"""How often chains are started anew where the log-density is not finite, as NUTS of NumPyro does."""
RADIUS = 2.0
"""Chains start within so much of 0 in every unconstrained parameter, as NUTS of NumPyro does."""
FEW_ROWS, FEW_PARAMETERS = 5_000, 20
"""Up to so many, a chain is too short for XLA's harder work to pay: of more parameters, it takes more gradients."""


class Chains:
    """Chains of a model whose arguments are arrays of one shape; others are compiled anew.

    `numpyro.infer.MCMC` compiles at every run, and that takes longer than a run on some hundred rows. Here the arguments,
    the state and the number of steps to skip are all handed to the compiled function; and `numpyro.infer.NUTS` looks for a
    place to start from in a loop that is compiled as well, while here a chain that got a bad one starts anew. What is
    compiled is one chain, in half the time that chains as one array would take, with all parameters as one vector, which
    makes a smaller program than a variable for each; threads run several of it.
    """

    def __init__(
        self, model: Callable[..., Any], latent: dict[str, Any], tune: int, length: int, kernel: Mapping[str, Any]
    ) -> None:
        """`latent` are the shapes of the parameters, by name; a compiled run keeps `length` draws."""
        self.model = with_key(model)
        self.latent = latent
        self.tune = tune
        self.length = length
        self.options = dict(kernel)
        self.strategy = self.options.pop("init_strategy", None)
        energy = lambda *data: lambda z: potential_energy(self.model, data, {}, self._sites(z))  # noqa: E731
        self._init, self._step = hmc(potential_fn_gen=energy, kinetic_fn=self.options.pop("kinetic_fn", None))
        self._places: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self._compiled_for: Any = None
        self._begin: Any = None
        self._run: Any = None
        self._free: Optional[NDArray[Any]] = None

    def compile(self, data: tuple[Any, ...]) -> None:
        """For as many rows as these, in other threads, unless that was done."""
        if self._compiled_for == np.shape(data[0]):
            return
        shapes = jax.eval_shape(lambda draw: unconstrain_fn(self.model, data, {}, draw), self.latent)
        ends = np.cumsum([int(np.prod(shapes[name].shape)) for name in sorted(shapes)]).tolist()
        self._places = {
            name: (slice(start, end), shapes[name].shape) for name, start, end in zip(sorted(shapes), [0, *ends], ends)
        }
        vector = np.zeros(ends[-1], jnp.result_type(float))
        self._begin = Compiled(self._beginning, (np.uint32(0), vector, data), LITTLE)
        effort = SOME if len(data[0]) <= FEW_ROWS and len(vector) <= FEW_PARAMETERS else MUCH
        self._run = Compiled(self._steps, (self._begin.out[0], data, np.int32(0)), effort)
        self._compiled_for = np.shape(data[0])

    def run(
        self, seed: int, data: tuple[Any, ...], start: Optional[Mapping[str, Any]], chains: int, draws: int
    ) -> tuple[dict[str, NDArray[Any]], int]:
        """At least so many draws of each chain after warm-up, chains × draws × …, and how many of them diverged.

        They start from draws of the run before; where there is none, from draws `start`, or from somewhere.
        """
        self.compile(data)
        rngs = [np.random.default_rng([seed, chain]) for chain in range(chains)]
        drawn: dict[int, Any] = {}
        for _ in range(TRIES):
            waiting = [chain for chain in range(chains) if chain not in drawn]
            begins = [(_seed(rngs[chain]), self._somewhere(rngs[chain], data, start)) for chain in waiting]
            with ThreadPoolExecutor(chains) as pool:
                found = pool.map(lambda begin: self._chain(begin, data, draws), begins)
                drawn.update({chain: parts for chain, parts in zip(waiting, found) if parts is not None})
            if len(drawn) == chains:
                break
        else:
            raise RuntimeError("NUTS finds no place to start from: the log-density is not finite")
        parts = [drawn[chain] for chain in range(chains)]
        self._free = np.concatenate([part[0] for chain in parts for part in chain])
        values = {
            name: np.stack([np.concatenate([part[1][name] for part in chain]) for chain in parts]) for name in self.latent
        }
        return values, sum(int(part[2]) for chain in parts for part in chain)

    def _chain(self, begin: tuple[Any, Any], data: tuple[Any, ...], draws: int) -> Optional[list[Any]]:
        """Parts of a chain after warm-up: unconstrained and constrained draws and how many diverged. None from a bad place."""
        state, good = self._begin(*begin, data)
        if not good:
            return None
        parts: list[Any] = []
        while len(parts) * self.length < draws:
            state, *part = self._run(state, data, np.int32(0 if parts else self.tune))
            parts.append(jax.device_get(part))
        return parts

    def _somewhere(
        self, rng: np.random.Generator, data: tuple[Any, ...], start: Optional[Mapping[str, Any]]
    ) -> NDArray[Any]:
        """Unconstrained values to start from."""
        if start is not None:
            if self._free is None:
                free = jax.jit(jax.vmap(lambda draw: self._vector(unconstrain_fn(self.model, data, {}, draw))))
                self._free = np.asarray(free(dict(start)))
            chosen: NDArray[Any] = self._free[rng.integers(len(self._free))]
            return chosen
        if self.strategy is not None:
            key = jax.random.PRNGKey(_seed(rng))
            found = initialize_model(key, self.model, init_strategy=self.strategy, model_args=data).param_info.z
            return np.asarray(self._vector(found))
        size = max(where.stop for where, _ in self._places.values())
        anywhere: NDArray[Any] = rng.uniform(-RADIUS, RADIUS, size).astype(jnp.result_type(float))
        return anywhere

    # What is compiled.

    def _beginning(self, seed: Any, vector: Any, data: tuple[Any, ...]) -> tuple[Any, Any]:
        """The state of one chain before its first step, and whether it is good to start from."""
        state = self._initial(vector, jax.random.PRNGKey(seed), data)
        numbers = jax.tree_util.tree_leaves((state.potential_energy, state.z_grad))
        return state, jnp.all(jnp.array([jnp.isfinite(x).all() for x in numbers]))

    def _initial(self, vector: Any, key: Any, data: tuple[Any, ...]) -> Any:
        options, z = dict(self.options), vector
        if any(isinstance(options.get(name), (list, dict)) for name in ("dense_mass", "inverse_mass_matrix")):
            # A mass matrix of blocks has names of sites.
            dense, z = options.get("dense_mass", False), self._sites(vector)
            options["dense_mass"] = dense if isinstance(dense, list) else [tuple(sorted(z))] if dense else []
        return self._init(z, self.tune, rng_key=key, model_args=data, model_kwargs={}, **options)

    def _steps(self, state: Any, data: tuple[Any, ...], skip: Any) -> tuple[Any, ...]:
        """`skip` steps and then as many as are kept, in one loop, since its body is what takes long to compile."""
        if self.options.get("find_heuristic_step_size"):
            # Its search uses the log-density that NUTS was last begun with. Nothing else is left of this beginning.
            self._initial(self._vector(state.z), state.rng_key, data)

        def step(at: Any, carried: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            state, kept, diverged = carried
            state = self._step(state, data, {})
            kept = kept.at[jnp.maximum(at - skip, 0)].set(self._vector(state.z))
            return state, kept, diverged + (state.diverging & (at >= skip))

        room = jnp.zeros((self.length, *jnp.shape(self._vector(state.z))), jnp.result_type(float))
        state, free, diverged = jax.lax.fori_loop(0, skip + self.length, step, (state, room, jnp.int32(0)))
        values = jax.vmap(lambda z: constrain_fn(self.model, data, {}, self._sites(z)))(free)
        return state, free, {name: values[name] for name in self.latent}, diverged

    def _sites(self, z: Any) -> dict[str, Any]:
        """A vector of all unconstrained values, by site."""
        if isinstance(z, dict):
            return z
        return {name: z[where].reshape(shape) for name, (where, shape) in self._places.items()}

    def _vector(self, z: Any) -> Any:
        """All of them as one vector."""
        return jnp.concatenate([jnp.ravel(z[name]) for name in self._places]) if isinstance(z, dict) else z


def with_key(model: Callable[..., Any]) -> Callable[..., Any]:
    """A model that needs no key from elsewhere. Its own is made where it is traced: before that, it would be compiled."""
    return lambda *args, **kwargs: seeded(model, 0)(*args, **kwargs)


def _seed(rng: np.random.Generator) -> np.uint32:
    return np.uint32(rng.integers(1 << 31))
