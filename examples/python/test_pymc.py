"""PyMC: models as people write them, fitted by `corelet.pymc.fit`, and what it refuses.

No weights, no branch and no potential by hand: the model goes in as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from common import Array, compare, draws_of, hierarchical_data, mixture_data, robust_data
from pymc.distributions import transforms

import corelet
import corelet.pymc

SAMPLER: dict[str, Any] = dict(draws=600, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)


def robust(x: Array, y: Array) -> pm.Model:
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=intercept + slope * x, sigma=sigma, observed=y)
    return model


def hierarchical(x: Array, shop: Any, day: Any, y: Any) -> pm.Model:
    """Counts with random intercepts of two factors, and a deterministic variable."""
    with pm.Model(coords={"shop": range(8), "day": range(7)}) as model:
        intercept = pm.Normal("intercept", 0, 2)
        slope = pm.Normal("slope", 0, 1)
        sd = pm.HalfNormal("sd", 1, shape=2)
        shops = pm.Normal("shops", 0, sd[0], dims="shop")
        days = pm.Normal("days", 0, sd[1], dims="day")
        pm.Deterministic("spread", sd.sum())
        pm.Poisson("y", mu=pm.math.exp(intercept + slope * x + shops[shop] + days[day]), observed=y)
    return model


def full(model: pm.Model) -> Any:
    with model:
        return pm.sample(**SAMPLER)


def test_robust_regression() -> None:
    x, y = robust_data(20_000)
    model = robust(x, y)
    fit = corelet.pymc.fit(model, k=60)
    print(fit)
    assert fit.verdict.grade == "A" and len(fit.coreset) <= 60
    assert compare("PyMC, Student-t regression", draws_of(full(model)), draws_of(fit.idata)) < 0.3


def test_statistics_of_the_sampler_are_those_of_the_draws() -> None:
    x, y = robust_data(5_000)
    idata = corelet.pymc.fit(robust(x, y), k=60).idata
    assert idata.sample_stats["diverging"].shape == idata.posterior["slope"].shape
    names = ["intercept", "slope", "sigma", "nu"]
    draws = np.stack([idata.posterior[name].values.ravel() for name in names])
    centred = draws - draws.mean(axis=1, keepdims=True)
    far = (centred * np.linalg.solve(np.cov(draws), centred)).sum(axis=0)
    assert np.corrcoef(idata.sample_stats["logp"].values.ravel(), far)[0, 1] < -0.8


def test_a_process_that_compiles_and_one_that_finds_it_on_disk_draw_the_same(tmp_path: Path) -> None:
    program = (
        "import corelet.pymc; from common import robust_data; from test_pymc import robust; "
        "fit = corelet.pymc.fit(robust(*robust_data(2000)), k=40, draws=200, chains=2); print(fit.draws['nu'].tobytes().hex())"
    )
    environment = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={tmp_path}", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    run = [subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True) for _ in range(2)]
    assert run[0].stdout == run[1].stdout and len(run[0].stdout) > 6400


def test_hierarchical_counts() -> None:
    data = hierarchical_data(10_000)
    model = hierarchical(*data)
    fit = corelet.pymc.fit(model, k=200)
    print(fit)
    assert fit.verdict.grade == "A"
    assert fit.idata.posterior["shops"].dims == ("chain", "draw", "shop") and "spread" in fit.idata.posterior
    assert compare("PyMC, hierarchical counts", draws_of(full(model)), draws_of(fit.idata)) < 0.35


def test_potentials_and_several_observed_variables_are_kept() -> None:
    x, y = robust_data(4000)
    with pm.Model() as model:
        data: Any = pm.Data("x", x)
        slope = pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Potential("near_one", -0.5 * ((slope - 1.0) / 0.02) ** 2)
        pm.Normal("y", slope * data, sigma, observed=y)
        pm.Normal("z", slope * data[:, None] + np.zeros(2), 3 * sigma, observed=np.column_stack([y, y]))
    fit = corelet.pymc.fit(model, k=60, sampler="pymc", draws=500)
    assert fit.verdict.certified
    assert compare("PyMC, a potential", draws_of(full(model)), draws_of(fit.idata)) < 0.35


def test_a_mixture_with_an_order() -> None:
    x, y = mixture_data(5000)
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(2))
        middle = pm.Normal("middle", 0, 3, shape=2, transform=transforms.ordered, initval=[-1, 1])
        sigma = pm.HalfNormal("sigma", 2)
        pm.NormalMixture("y", share, mu=middle, sigma=sigma, observed=y)
    fit = corelet.pymc.fit(model, k=100)
    print(fit)
    assert fit.verdict.grade == "A"


def test_a_deterministic_variable_of_all_rows_is_said_to_be_left_out() -> None:
    x, y = robust_data(2000)
    with pm.Model() as model:
        mu = pm.Deterministic("mu", pm.Normal("slope", 0, 5) * x)
        pm.Normal("y", mu, observed=y)
    fit = corelet.pymc.fit(model, k=20, draws=200, chains=2)
    assert "mu" not in fit.idata.posterior and any("mu" in note for note in fit.notes)


def test_a_model_that_nutpie_cannot_compile_is_sampled_by_pymc(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an operation that numba does not have: the log-likelihoods by NumPy and the chains by PyMC, and it is said."""
    import nutpie

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("no implementation of this operation")

    monkeypatch.setattr(nutpie, "compile_pymc_model", fails)
    x, y = robust_data(2000)
    options = dict(cores=1)
    fit = corelet.pymc.fit(robust(x, y), k=40, draws=300, chains=2, options=options)
    assert fit.verdict.certified and any("nutpie cannot compile" in note for note in fit.notes)
    with pytest.raises(corelet.CoreletError, match="use sampler='pymc'"):
        corelet.pymc.fit(robust(x, y), k=40, sampler="nutpie")
