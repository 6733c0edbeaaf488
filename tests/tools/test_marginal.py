"""A latent variable with one value for each group is found in a model, and integrated out; what is none is left as it is."""

import re

import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import pytensor.tensor as pt  # noqa: E402
from scipy import integrate, stats  # noqa: E402

import corelet.pymc  # noqa: E402
from corelet._fit import plan_of  # noqa: E402
from corelet.adapters import integrated, marginal, pymc_marginal  # noqa: E402
from corelet.adapters.chains import Steps  # noqa: E402
from corelet.adapters.integrated import fit_integrated  # noqa: E402
from corelet.adapters.pymc_latent import best_latent, latent_of  # noqa: E402
from corelet.adapters.quadrature import rule, wide  # noqa: E402
from corelet.frames.units import Units  # noqa: E402

GROUPS = 30
GROUP, OTHER = np.arange(300) % GROUPS, np.arange(300) // 10
X = np.random.default_rng(0).normal(size=300)


def tool_of(model):
    tool = corelet.pymc.Sampler(model, 500, 300, 2, 0, None, {})
    tool.check_slicing(0)
    return tool


def fitted(found, rows, k, asked):
    """As `corelet.pymc.fit` has it, without compiling again."""
    plan = plan_of(Units(rows), k, None, 1000, None, 2, 0, None, True)
    return fit_integrated(found, plan, None, False, "auto", asked)


def written(predictor):
    """A model of two classes whose predictor is made of a scale, a slope and a latent variable `u`."""
    with pm.Model() as model:
        scale, slope = pm.HalfNormal("scale", 1), pm.Normal("slope")
        pm.Bernoulli("y", logit_p=predictor(scale, slope), observed=(X > 0.3).astype(int))
    return model


def centred(scale, **more):
    return pm.Normal("u", 0, scale, shape=GROUPS, **more)


def potential(scale, slope):
    u = centred(scale)
    pm.Potential("sum", -(u.sum() ** 2))
    return slope * X + u[GROUP]


def parent(scale, slope):
    u = centred(scale)
    return pm.Normal("child", u.sum(), 1) + slope * X + u[GROUP]


@pytest.mark.parametrize(
    "predictor",
    [
        lambda scale, slope: slope * X + centred(scale)[GROUP],
        lambda scale, slope: slope * X + (pm.Normal("u", shape=GROUPS) * scale)[GROUP],
        lambda scale, slope: slope + X * centred(scale)[GROUP - GROUPS],
        lambda scale, slope: slope * X + pm.StudentT("u", nu=4, mu=0, sigma=scale, shape=GROUPS)[GROUP],
        lambda scale, slope: slope * X + (lambda u: u[GROUP] + X * u[GROUP] ** 2)(centred(scale)),
        lambda scale, slope: pm.Normal("u", slope * np.linspace(-1, 1, GROUPS), scale, shape=GROUPS)[GROUP],
        lambda scale, slope: (pm.Normal("above", shape=3)[np.arange(GROUPS) % 3] + scale * pm.Normal("u", shape=GROUPS))[GROUP],
    ],
)
def test_what_is_one_value_for_each_group_is_found(predictor):
    model = written(predictor)
    tool = tool_of(model)
    latent = latent_of(model, tool.rows, model["u"])
    assert latent.levels == GROUPS and np.array_equal(latent.codes, GROUP)
    assert best_latent(model, tool.rows).variable is model["u"]


LIARS = {
    "its mean too": (lambda scale, slope: (lambda u: slope * X + u[GROUP] + u.mean())(centred(scale)), "otherwise than by an index"),
    "centred": (lambda scale, slope: (lambda u: slope * X + (u - u.mean())[GROUP])(centred(scale)), "otherwise than by an index"),
    "one of them for all": (lambda scale, slope: (lambda u: u[GROUP] + u[0] + slope * X)(centred(scale)), "otherwise than by an index"),
    "a matrix product": (lambda scale, slope: pt.dot(np.eye(GROUPS)[GROUP], centred(scale)) + slope * X, "otherwise than by an index"),
    "sums of them": (lambda scale, slope: pt.cumsum(centred(scale))[GROUP] + slope * X, "otherwise than by an index"),
    "two of them": (lambda scale, slope: (lambda u: u[GROUP] - u[OTHER] + slope * X)(centred(scale)), "a row meets several values"),
    "a table": (lambda scale, slope: pm.Normal("u", 0, scale, shape=(GROUPS, 2))[GROUP, OTHER % 2] + slope * X, "2 dimensions"),
    "a walk": (
        lambda scale, slope: pm.GaussianRandomWalk("u", sigma=scale, init_dist=pm.Normal.dist(), shape=GROUPS)[GROUP] + slope * X,
        "not independent",
    ),
    "correlated": (lambda scale, slope: pm.MvNormal("u", np.zeros(GROUPS), np.eye(GROUPS) + 0.5)[GROUP] + slope * X, "not independent"),
    "a potential": (potential, "sum depends on u"),
    "a prior": (parent, "child depends on u"),
}


@pytest.mark.parametrize("liar", LIARS)
def test_what_is_none_is_refused_by_name_and_left_alone_otherwise(liar, monkeypatch):
    predictor, said = LIARS[liar]
    tool = tool_of(written(predictor))
    with pytest.raises(corelet.CoreletError, match=f"u cannot be integrated out: .*{re.escape(said)}.*; marginalise='none' samples it"):
        pymc_marginal.integrated(tool, "u", None)
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", 2)
    assert pymc_marginal.integrated(tool, "auto", None) is None


def test_a_prior_that_only_looks_independent_is_refused():
    """Its density of one value sums over all of them, which its shape does not show."""

    def density(value, scale):
        return -0.5 * ((value - value.mean()) / scale) ** 2 - pt.log(scale)

    model = written(lambda scale, slope: slope * X + pm.CustomDist("u", scale, logp=density, shape=GROUPS)[GROUP])
    with pytest.raises(corelet.CoreletError, match="u cannot be integrated out"):
        pymc_marginal.integrated(tool_of(model), "u", None)


def test_only_what_pays_is_integrated_by_itself(monkeypatch):
    tool = tool_of(written(lambda scale, slope: slope * X + centred(scale)[GROUP]))
    assert pymc_marginal.integrated(tool, "auto", None) is None
    with pytest.raises(corelet.CoreletError, match="marginalise is 'v', but it must be auto, none or a free variable of the model"):
        pymc_marginal.integrated(tool, "v", None)
    with pytest.raises(corelet.CoreletError, match="groups and marginalise='u' do not go together"):
        corelet.pymc.fit(tool.model, groups=GROUP, marginalise="u", k=5)
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", GROUPS)
    latent = best_latent(tool.model, tool.rows)
    assert pymc_marginal._pays(tool, latent)
    assert pymc_marginal.integrated(tool, "auto", "pymc") is None and pymc_marginal.integrated(tool, "none", None) is None
    monkeypatch.setattr(integrated, "MOST_ROWS_A_LEVEL", 9)
    assert not pymc_marginal._pays(tool, latent)


@pytest.fixture(scope="module")
def counts():
    """Counts with a positive latent factor, whose prior mean is a function of its group's own feature; one group has no row."""
    rng = np.random.default_rng(1)
    sizes = [1, 2, 3, 5, 8, 40, 0]
    group = rng.permutation(np.repeat(np.arange(7), sizes))
    x, z = rng.normal(size=len(group)), np.linspace(-1, 1, 7)
    y = rng.poisson(np.exp(0.5 + 0.3 * x) * np.where(group == 5, 0.2, 2.0))
    with pm.Model() as model:
        shape, slope, by = pm.HalfNormal("shape", 2), pm.Normal("slope"), pm.Normal("by")
        factor = pm.Gamma("factor", shape, shape * pm.math.exp(by * z), shape=7)
        pm.Poisson("y", factor[group] * pm.math.exp(slope * x), observed=y)
    return pymc_marginal.integrated(tool_of(model), "factor", None), (group, x, z, y)


def test_integrals_are_those_of_direct_integration(counts):
    found, (group, x, z, y) = counts
    points = np.array([[0.3, 0.2, 0.4], [1.0, -0.1, -0.5]])
    found.begin_at(points[0])
    near, direct = (found.integrals(points, np.arange(6), by) for by in (rule(41), wide()))
    for s, (log_shape, slope, by) in enumerate(points):
        shape = np.exp(log_shape)
        for g in range(6):
            own = group == g
            rate = np.exp(slope * x[own])

            def height(u, own=own, rate=rate, g=g, shape=shape, by=by):
                prior = stats.gamma.logpdf(u, shape, scale=1 / (shape * np.exp(by * z[g])))
                return np.exp(stats.poisson.logpmf(y[own], u * rate).sum() + prior + 50)

            wanted = np.log(integrate.quad(height, 0, 60, points=[0.05, 0.2, 0.5, 1, 2, 4, 10], limit=500)[0]) - 50
            assert abs(direct[s, g] - wanted) < 1e-6 and abs(near[s, g] - wanted) < 1e-4, (s, g, direct[s, g], near[s, g], wanted)


def test_gradients_are_differences(counts):
    found, _ = counts
    found.nodes = 41
    point, weights, groups = np.array([[0.3, 0.2, 0.4]]), np.array([1.0, 3.0, 0.5]), np.array([0, 2, 5])
    value, gradient = found.slopes(point, groups, weights)
    assert np.isclose(value[0], weights @ found.integrals(point, groups, rule(41))[0])
    for j in range(3):
        step = 1e-4 * np.eye(3)[j]
        ends = [found.slopes(point + sign * step, groups, weights)[0][0] for sign in (1, -1)]
        assert np.isclose(gradient[0, j], (ends[0] - ends[1]) / 2e-4, atol=2e-3), j


def test_two_modes_of_a_group_are_seen(monkeypatch):
    """Rows of each group in two clusters far apart, under noise with long tails: left alone, and no A where it is asked for."""
    rng = np.random.default_rng(2)
    group, x = np.arange(240) % 40, rng.normal(size=240)
    apart = 0.1 * rng.normal(size=240) + np.where(np.arange(240) < 120, -4.0, 4.0)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        u = pm.Normal("u", 0, 5, shape=40)
        pm.Normal("y", slope * x, 1, observed=x + rng.normal(size=240))
        pm.StudentT("apart", nu=2, mu=u[group], sigma=0.1, observed=apart)
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", 40)
    found = pymc_marginal.integrated(tool_of(model), "auto", None)
    found.begin_at(np.zeros(1))
    assert found.rivals(np.zeros(1)) == 40
    assert fitted(found, 240, 15, "auto") is None
    fit = fitted(found, 240, 15, "u")
    assert fit.verdict.grade == "C" and "integrals" in fit.verdict.reasons, fit
    assert any("40 groups have several modes of u" in note for note in fit.notes)


@pytest.fixture(scope="module")
def shops():
    rng = np.random.default_rng(3)
    shop = rng.permutation(np.arange(1200) % 120)
    x, level = rng.normal(size=1200), 0.8 * rng.normal(size=120)
    y = (rng.random(1200) < 1 / (1 + np.exp(0.5 - 0.7 * x - level[shop]))).astype(int)
    with pm.Model(coords={"shop": [f"s{at}" for at in range(120)]}) as model:
        middle, slope, spread = pm.Normal("middle", 0, 1.5), pm.Normal("slope"), pm.HalfNormal("spread", 1)
        pm.Deterministic("odds", pm.math.exp(slope))
        levels = pm.Deterministic("levels", spread * pm.Normal("z", dims="shop"), dims="shop")
        pm.Bernoulli("y", logit_p=middle + slope * x + levels[shop], observed=y)
    return model, pymc_marginal.integrated(tool_of(model), "z", None)


@pytest.mark.slow
def test_the_posterior_is_that_of_all_parameters(shops):
    fit = fitted(shops[1], 1200, 40, "z")
    assert fit.verdict.grade == "A" and "levels, with a value for each of 120 groups, was integrated out by" in fit.notes[0]
    points = shops[1].unconstrained(fit._draws)
    assert shops[1].bias(points, 1)[0] > 0.1 and shops[1].bias(points, shops[1].nodes)[0] < 0.05
    every = tool_of(shops[0])
    every.last = Steps(2000, 500, 2)
    draws = every.sample(np.arange(1200), np.ones(1200), None, 4000, True).values
    full = {name: draws[name] for name in ("middle", "slope", "spread")}
    posterior = fit.idata.posterior
    assert set(posterior.data_vars) == {"middle", "slope", "spread", "odds"}
    for name, known in full.items():
        own = posterior[name].values
        assert abs(own.mean() - known.mean()) < 0.12 * known.std() and abs(own.std() / known.std() - 1) < 0.1, name
    effects = fit.random_effects()
    assert list(effects) == ["group", "effect", "rows", "mean", "sd", "q5", "q50", "q95"]
    assert list(effects["group"][:2]) == ["s0", "s1"] and set(effects["effect"]) == {"levels"} and (effects["rows"] == 10).all()
    levels = (draws["spread"][..., None] * draws["z"]).reshape(-1, 120)
    assert (abs(effects["mean"] - levels.mean(axis=0)) < 0.15 * levels.std(axis=0)).all()
    assert (abs(effects["sd"] / levels.std(axis=0) - 1) < 0.12).all()
    assert (abs(effects["q95"] - np.quantile(levels, 0.95, axis=0)) < 0.25 * levels.std(axis=0)).all()
    assert set(fit.coreset.groups) <= set(effects["group"]) and len(fit.coreset.rows) == 10 * len(fit.coreset.groups)


@pytest.fixture(scope="module")
def answers():
    """Persons who answer questions, with products of ability and discrimination: far from Gaussian, with few rows for each."""
    rng = np.random.default_rng(5)
    person, item = np.repeat(np.arange(150), 12), np.tile(np.arange(12), 150)
    able, hard, sharp = rng.normal(size=150), rng.normal(size=12), np.exp(0.3 * rng.normal(size=12))
    y = (rng.random(1800) < 1 / (1 + np.exp(-sharp[item] * (able[person] - hard[item])))).astype(int)
    with pm.Model() as model:
        able = pm.Normal("able", 0, 1, shape=150)
        hard, sharp = pm.Normal("hard", 0, 2, shape=12), pm.LogNormal("sharp", 0, 0.5, shape=12)
        pm.Bernoulli("y", logit_p=sharp[item] * (able[person] - hard[item]), observed=y)
    return model


def test_a_latent_vector_is_an_alternative_to_all_rows_where_that_is_faster(answers, monkeypatch):
    tool = tool_of(answers)
    assert pymc_marginal.integrated(tool, "auto", None) is None
    pymc_marginal.Alternative(tool)(1e6)  # Too many parameters are left.
    monkeypatch.setattr(pymc_marginal, "MOST_IN_PLACE", 24)
    ask = pymc_marginal.Alternative(tool)
    ask(1e-6)
    with pytest.raises(pymc_marginal.Faster, match="able can be integrated out") as raised:
        ask(1e6)
    assert raised.value.marginal.n == 150
    monkeypatch.setattr(integrated, "MOST_ROWS_A_LEVEL", 9)
    pymc_marginal.Alternative(tool)(1e6)


@pytest.mark.long
def test_it_is_integrated_in_place_of_sampling_all_rows(answers, monkeypatch):
    monkeypatch.setattr(marginal.Marginal, "seconds", lambda self: 0.0)
    monkeypatch.setattr(pymc_marginal, "MOST_IN_PLACE", 24)
    fit = corelet.pymc.fit(answers, draws=1000, tune=500, chains=4, k=60)
    assert fit.notes[0].startswith("no Gaussian stands for all rows") and set(fit.draws) == {"hard", "sharp"}, fit
    assert fit.verdict.grade in "AB", fit
    monkeypatch.undo()
    full = corelet.pymc.fit(answers, draws=1000, tune=500, chains=4, marginalise="none", force=True)
    assert full.verdict.grade == "A" and len(full.coreset) == 1800, full
    for name in ("hard", "sharp"):
        own, known = (draws[name].reshape(-1, 12) for draws in (fit.draws, full.draws))
        assert (np.abs(own.mean(axis=0) - known.mean(axis=0)) < 0.2 * known.std(axis=0)).all(), name
        assert (np.abs(own.std(axis=0) / known.std(axis=0) - 1) < 0.15).all(), name
