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
import pytensor.tensor as pt
import pytest
from common import Array, compare, draws_of, hierarchical_data, mixture_data, robust_data
from pymc.distributions import transforms
from pytensor.configdefaults import config

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


@pytest.mark.parametrize("limit", [0.05, 0.0])
def test_statistics_of_the_sampler_are_those_of_the_draws(monkeypatch: pytest.MonkeyPatch, limit: float) -> None:
    """Whether a round of full length was the last, or chains on the same rows came after it."""
    monkeypatch.setattr("corelet._rounds.AT_ONCE_VARIANCE", limit)
    x, y = robust_data(5_000)
    idata = corelet.pymc.fit(robust(x, y), k=60).idata
    assert idata.sample_stats["diverging"].shape == idata.posterior["slope"].shape
    names = ["intercept", "slope", "sigma", "nu"]
    draws = np.stack([idata.posterior[name].values.ravel() for name in names])
    centred = draws - draws.mean(axis=1, keepdims=True)
    far = (centred * np.linalg.solve(np.cov(draws), centred)).sum(axis=0)
    assert np.corrcoef(idata.sample_stats["logp"].values.ravel(), far)[0, 1] < -0.8


def test_draws_are_those_of_a_model_that_nutpie_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from corelet import _nutpie

    model = robust(*robust_data(2000))
    compile_model, quick = _nutpie.compiled_for_nutpie, []

    def watched(weighted: Any) -> Any:
        quick.append(compile_model(weighted))
        return quick[-1]

    monkeypatch.setattr(corelet.pymc, "compiled_for_nutpie", watched)
    ours = corelet.pymc.fit(model, k=40, draws=200, chains=2)
    monkeypatch.setattr(_nutpie, "KNOWN_FIELDS", frozenset())
    with config.change_flags(numba__fastmath=False):  # With sums in any order they would round otherwise, and chains part ways.
        theirs = corelet.pymc.fit(model, k=40, draws=200, chains=2)
    assert isinstance(quick[0], _nutpie._Compiled) and not isinstance(quick[1], _nutpie._Compiled)
    for name in ("intercept", "slope", "sigma", "nu"):
        assert np.allclose(ours.draws[name], theirs.draws[name])


def test_the_density_that_nutpie_calls_is_that_of_the_rows_and_says_when_it_raises() -> None:
    import ctypes

    from pytensor.raise_op import assert_op

    from corelet._nutpie import _Compiled

    def scaled(y: Array) -> pm.Model:
        with pm.Model() as model:
            scale = pm.Normal("scale", 1, 1)
            checked = assert_op(scale, scale > -1.0)
            pm.Normal("y", pm.HalfNormal("middle"), sigma=checked, observed=y)
        return model

    y = robust_data(300)[1]
    weighted = corelet.pymc._WeightedModel(scaled(y), 300)
    weighted.set(np.arange(2), np.ones(2))
    compiled = _Compiled(weighted.model)
    rows = np.arange(100)
    given = compiled.with_data(**weighted.data(rows, np.ones(100)))
    density = given.compiled_logp_func.ctypes

    def at(point: list[float]) -> tuple[int, float, Array]:
        arrays = [np.array(point), np.zeros(2), np.zeros(1)]
        code = density(2, *(ctypes.cast(x.ctypes.data, density.argtypes[1]) for x in arrays), given.user_data.ctypes.data)
        return code, float(arrays[2][0]), arrays[1]

    plain = scaled(y[:100])
    code, value, gradient = at([1.5, 0.2])
    point = {"scale": np.array(1.5), "middle_log__": np.array(0.2)}
    assert code == 0 and np.isclose(value, plain.compile_logp()(point)) and np.allclose(gradient, plain.compile_dlogp()(point))
    assert at([-0.5, 0.2])[0] == 4 and at([-1.5, 0.2])[0] == 1


def test_what_numba_compiles_of_special_functions_can_be_kept_on_disk() -> None:
    from pymc.pytensorf import compile as compile_graph

    from corelet._nutpie import NUMBA, _mode

    tensors: Any = pt
    x, at = tensors.vector("x"), np.array([0.3, 0.7])
    graph = tensors.psi(x) + tensors.erfcx(x) + tensors.betainc(x, 2.0 * x, x)
    functions: list[Any] = [compile_graph([x], graph, mode=mode) for mode in (NUMBA, _mode())]
    plain, ours = functions
    assert np.array_equal(ours(at), plain(at))
    kept = [type(function.vm.jit_fn._cache).__name__ != "NullCache" for function in functions]
    assert kept == [False, True]


def test_a_process_that_compiles_and_one_that_finds_it_on_disk_draw_the_same(tmp_path: Path) -> None:
    program = (
        "import corelet.pymc; from common import robust_data; from test_pymc import robust; "
        "fit = corelet.pymc.fit(robust(*robust_data(2000)), k=40, draws=200, chains=2); print(fit.draws['nu'].tobytes().hex())"
    )
    environment = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={tmp_path}", "PYTHONPATH": str(Path(__file__).parent)}
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


def refused() -> dict[str, tuple[Any, str]]:
    x, y = robust_data(300)

    def lengths() -> None:
        m = pm.Normal("m")
        pm.Normal("y", m, observed=y)
        pm.Normal("z", m, observed=y[:200])

    def latent() -> None:
        z = pm.Normal("z", shape=300)
        pm.Normal("y", z, observed=y)

    def imputed() -> None:
        pm.Normal("y", pm.Normal("m"), observed=np.ma.masked_greater(y, 3.0))

    def series() -> None:
        pm.AR("y", rho=pm.Normal("rho", 0, 1, shape=1), sigma=1.0, init_dist=pm.Normal.dist(), observed=y)

    def centred() -> None:
        data: Any = pm.Data("x", x)
        pm.Normal("y", pm.Normal("b") * (data - data.mean()), observed=y)

    def summed() -> None:
        pm.Normal("y", pm.Normal("b") * pt.cumsum(pt.as_tensor(pm.Data("x", x))), observed=y)  # type: ignore[no-untyped-call]

    def counted() -> None:
        data: Any = pm.Data("x", x)
        pm.Normal("y", pm.Normal("m"), sigma=0.9 + 0.1 * data.shape[0] / 300, observed=y)

    def known() -> None:
        pm.Normal("y", 1.0, observed=y)

    def potential() -> None:
        pm.Potential("y", -0.5 * ((y - pm.Normal("m")) ** 2).sum())

    return {
        "lengths": (lengths, "different lengths"),
        "latent": (latent, "z has one latent value for each of the 300 rows"),
        "imputed": (imputed, "missing values that the model imputes"),
        "series": (series, "not a sum over its rows|depends on the other rows"),
        "centred": (centred, "depends on the other rows"),
        "summed": (summed, "depends on the other rows"),
        "counted": (counted, "depends on the other rows"),
        "known": (known, "no free variable"),
        "potential": (potential, "no observed variable"),
    }


@pytest.mark.parametrize("name", refused())
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_rows_is_refused(name: str) -> None:
    build, text = refused()[name]
    with pm.Model() as model:
        build()
    with pytest.raises(corelet.CoreletError, match=text):
        corelet.pymc.fit(model, k=20)
