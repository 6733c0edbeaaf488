"""A latent intercept for each of many groups in PyMC: processor seconds of one call beside nutpie on all rows. `python benches/latent_groups.py
[ROWS GROUPS] [full]`; with `full` nutpie samples all parameters too, which takes long."""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
import pymc as pm

import corelet.pymc

warnings.filterwarnings("ignore")


def model_of(rows: int, groups: int) -> pm.Model:
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, groups, rows), rng.normal(size=rows)
    level = 0.8 * rng.normal(size=groups)
    y = (rng.random(rows) < 1 / (1 + np.exp(0.5 - 0.7 * x - level[group]))).astype(int)
    with pm.Model() as model:
        middle, slope, spread = pm.Normal("middle", 0, 1.5), pm.Normal("slope"), pm.HalfNormal("spread", 1)
        z = pm.Normal("z", shape=groups)
        pm.Bernoulli("y", logit_p=middle + slope * x + (spread * z)[group], observed=y)
    return model


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def shown(what: str, posterior: object, began: tuple[float, float]) -> None:
    print(f"{what}: {processor() - began[0]:.1f} s of the processor, {time.perf_counter() - began[1]:.1f} s by the clock")
    for name in ("middle", "slope", "spread"):
        values = posterior[name].values  # type: ignore[index]
        print(f"  {name} {values.mean():.4f} ± {values.std():.4f}", flush=True)


def main(given: list[str]) -> None:
    numbers = [int(text) for text in given if text.isdigit()] or [100_000, 5_000]
    model = model_of(numbers[0], numbers[1])
    began = processor(), time.perf_counter()
    fit = corelet.pymc.fit(model, progress=True)
    print(fit, flush=True)
    shown("one call", fit.idata.posterior, began)
    began = processor(), time.perf_counter()
    effects = fit.random_effects()
    print(f"effects of {len(effects['mean'])} groups: {processor() - began[0]:.1f} s of the processor")
    if "full" in given:
        import nutpie

        began = processor(), time.perf_counter()
        trace = nutpie.sample(nutpie.compile_pymc_model(model), draws=1000, tune=500, chains=4, seed=1, progress_bar=False)
        shown("nutpie, all rows", trace.posterior, began)


if __name__ == "__main__":
    main(sys.argv[1:])
