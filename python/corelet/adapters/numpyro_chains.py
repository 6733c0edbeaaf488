"""NUTS of NumPyro on weighted rows: `numpyro.infer.MCMC` of one chain, compiled once for all rounds and run in threads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro.infer import MCMC, NUTS, init_to_uniform
from numpyro.infer.util import initialize_model

from .compiled import LITTLE, MUCH, SOME, Compiled
from .._lib import CoreletError
from .numpyro_rows import Rows

TRIES = 100
"""How often a chain starts from another place where the log density was not finite."""
FEW_ROWS, FEW_PARAMETERS = 5_000, 20
"""Up to so many, a chain is too short for XLA's harder work to pay: of more parameters, it takes more gradients."""
FIELDS = ("potential_energy", "energy", "num_steps", "accept_prob", "adapt_state.step_size")
"""What is kept of each step beside the draw and whether it diverged."""


class Chains:
    """Chains of `length` draws after `tune` steps of warm-up. What is compiled is one chain, with the rows and their weights as
    arguments: `MCMC.run` traces and compiles at every call, and on some hundred rows that takes longer than the chain."""

    def __init__(self, rows: Rows, tune: int, kernel: Mapping[str, Any]) -> None:
        self.rows = rows
        self.tune = tune
        self.options = dict(kernel)
        self.strategy = self.options.pop("init_strategy", init_to_uniform)
        self._compiled: dict[tuple[int, int], tuple[Compiled, Compiled]] = {}
        try:
            NUTS(rows.weighted, **self.options)
        except TypeError as error:
            raise CoreletError(f"kernel has an option that numpyro.infer.NUTS does not take: {error}") from None

    def compile(self, data: tuple[Any, ...], length: int) -> tuple[Compiled, Compiled]:
        """The search for a start and the chain, for as many rows as these; in other threads, unless that was done."""
        found = self._compiled.get((len(data[0]), length))
        if found is None:
            begin = Compiled(self._begin, (_key(0), data), LITTLE)
            effort = SOME if len(data[0]) <= FEW_ROWS and self.rows.parameters <= FEW_PARAMETERS else MUCH
            chain = Compiled(partial(self._chain, length), (_key(0), begin.out.z, data), effort)
            found = begin, chain
            self._compiled[len(data[0]), length] = found
        return found

    def run(
        self, seed: int, data: tuple[Any, ...], start: Optional[Mapping[str, NDArray[Any]]], chains: int, length: int
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Draws after warm-up, by latent site, chains × draws × …, and statistics of the sampler, chains × draws. Chains
        begin at some of the unconstrained draws `start`, or where `init_strategy` says."""
        begin, chain = self.compile(data, length)
        rngs = [np.random.default_rng([seed, chain]) for chain in range(chains)]
        drawn: dict[int, Any] = {}

        def one(at: int) -> Any:
            rng = rngs[at]
            if start is None:
                found = begin(_key(_seed(rng)), data)
                free = found.z if np.isfinite(found.potential_energy) else None
            else:
                chosen = rng.integers(len(next(iter(start.values()))))
                free = {name: values[chosen] for name, values in start.items()}
                free = free if all(np.isfinite(values).all() for values in free.values()) else None
            if free is None:
                return None
            values, stats = jax.device_get(chain(_key(_seed(rng)), free, data))
            return (values, stats) if np.isfinite(stats["potential_energy"]).all() else None

        for _ in range(TRIES):
            waiting = [at for at in range(chains) if at not in drawn]
            with ThreadPoolExecutor(chains) as pool:
                drawn.update({at: found for at, found in zip(waiting, pool.map(one, waiting)) if found is not None})
            if len(drawn) == chains:
                break
        else:
            why = "NUTS finds no place to start from: the log density is not finite; give kernel= an init_strategy"
            raise CoreletError(why) if start is None else RuntimeError(why)
        values = {name: np.stack([drawn[at][0][name] for at in range(chains)]) for name in self.rows.latent}
        stats = {name: np.stack([drawn[at][1][name] for at in range(chains)]) for name in drawn[0][1]}
        return values, stats

    # What is compiled.

    def _begin(self, key: Any, data: tuple[Any, ...]) -> Any:
        """A place to start from, with the energy there."""
        return initialize_model(key, self.rows.weighted, init_strategy=self.strategy, model_args=data).param_info

    def _chain(self, length: int, key: Any, free: dict[str, Any], data: tuple[Any, ...]) -> tuple[Any, Any]:
        kernel = NUTS(self.rows.weighted, **self.options)
        mcmc = MCMC(kernel, num_warmup=self.tune, num_samples=length, num_chains=1, progress_bar=False)
        mcmc.run(key, *data, init_params=free, extra_fields=FIELDS)
        return mcmc.get_samples(), mcmc.get_extra_fields()


def sample_stats(fields: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Fields of NumPyro under the names that ArviZ gives them."""
    names = {"adapt_state.step_size": "step_size", "num_steps": "n_steps", "accept_prob": "acceptance_rate"}
    found = {names.get(name, name): values for name, values in fields.items() if name != "potential_energy"}
    steps = np.maximum(fields["num_steps"], 1)
    return {**found, "lp": -fields["potential_energy"], "tree_depth": np.log2(steps).astype(np.int64) + 1}


def _key(seed: Any) -> Any:
    return np.asarray(jax.random.PRNGKey(seed))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))


def padded_weights(weights: NDArray[np.float64], size: int) -> NDArray[Any]:
    """Weights, with 0 for the rows that are missing."""
    return np.concatenate([weights, np.zeros(size - len(weights))]).astype(jnp.result_type(float))
