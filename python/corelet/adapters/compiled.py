"""Functions that XLA compiles in threads, beside other work, and no harder than their use is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import jax

from .beside import beside

MUCH: Mapping[str, Any] = {}
"""For long arrays, called often: as XLA would."""
SOME: Mapping[str, Any] = {"xla_cpu_use_fusion_emitters": False}
"""For short arrays in loops: without emitters that take longer to compile and make faster only what is long."""
LITTLE: Mapping[str, Any] = {**SOME, "xla_backend_optimization_level": 0}
"""For what is called a few times."""


class Compiled:
    """A function of arrays of the shapes of these examples. It is traced here, for handlers of NumPyro are one stack for all
    threads, and compiled in another thread; the first call waits for that."""

    def __init__(self, function: Callable[..., Any], examples: tuple[Any, ...], effort: Mapping[str, Any]) -> None:
        lowered = jax.jit(function).lower(*examples)
        self.out = lowered.out_info
        self._made: Future[Any] = beside(_compile, lowered, effort)

    def __call__(self, *args: Any) -> Any:
        return self._made.result()(*args)


def _compile(lowered: Any, effort: Mapping[str, Any]) -> Any:
    try:
        return lowered.compile(compiler_options=dict(effort))
    except jax.errors.JaxRuntimeError:  # Another version of XLA may not know these options.
        return lowered.compile()
