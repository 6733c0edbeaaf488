"""NUTS on a PyMC model of weighted rows: by nutpie, which compiles it once, or by PyMC."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Optional, Protocol

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray

from .._lib import CoreletError
from .chains import Steps, first_line


class Runner(Protocol):
    """What samples a model whose shared variables are data."""

    @property
    def name(self) -> str:
        """Of the package that draws."""

    @property
    def model(self) -> Any:
        """A `WeightedModel`."""

    def __call__(self, data: dict[str, Any], starts: NDArray[np.float64], steps: Steps, seed: int, options: dict[str, Any]) -> Any:
        """Chains from some of these starts."""


def runner(model: Any, sampler: Optional[str], notes: list[str]) -> Runner:
    """What samples this model: as is asked for, or nutpie where it is installed and can; where it cannot, a note says so."""
    if sampler == "pymc" or (sampler is None and not find_spec("nutpie")):
        return PyMC(model)
    try:
        return Nutpie(model)
    except Exception as error:  # Numba raises errors of many kinds for an operation that it has not.
        what = f"nutpie cannot compile this model ({first_line(error)})"
        if sampler == "nutpie":
            raise CoreletError(f"{what}; use sampler='pymc'") from error
        notes.append(f"{what}, so PyMC samples it, which is slower")
        return PyMC(model)


class Nutpie:
    """Compiled once; the data go in at each call."""

    name = "nutpie"

    def __init__(self, model: Any) -> None:
        import nutpie

        self.model = model
        names = model.parameters.names
        # With sums in any order, code from the cache on disk rounds otherwise than the same code just compiled, and chains part ways.
        with pytensor.config.change_flags(numba__fastmath=False):
            self.compiled = nutpie.compile_pymc_model(model.model, var_names=names, jitter_rvs=set())

    def __call__(self, data: dict[str, Any], starts: NDArray[np.float64], steps: Steps, seed: int, options: dict[str, Any]) -> Any:
        import nutpie

        self.model.starts.set_value(starts)
        compiled = self.compiled.with_data(**data)
        settings = dict(progress_bar=False, save_warmup=False, blocking=False)
        under_way = nutpie.sample(compiled, **steps._asdict(), seed=seed, **settings, **options)
        try:
            return under_way.wait()
        except BaseException:  # Ctrl-C would otherwise return fewer draws, and the rounds would go on.
            under_way.cancel()
            raise


class PyMC:
    """`pymc.sample`, which compiles at each call."""

    name = "PyMC"

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, data: dict[str, Any], starts: NDArray[np.float64], steps: Steps, seed: int, options: dict[str, Any]) -> Any:
        self.model.set(data)
        chosen = starts[np.random.default_rng(seed).integers(len(starts), size=steps.chains)]
        initial = [dict(zip(self.model.names, self.model.split(line))) for line in chosen]
        settings = dict(progressbar=False, compute_convergence_checks=False, random_seed=seed, initvals=initial)
        with self.model.model:
            trace = pm.sample(**steps._asdict(), **{**settings, **options})
        if trace.posterior.sizes["draw"] < steps.draws:  # PyMC makes of Ctrl-C a shorter trace.
            raise KeyboardInterrupt
        return trace
