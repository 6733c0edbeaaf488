"""A latent site with one value for each group is found in a NumPyro model, and integrated out; what is none is left as it is."""

import re

import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.handlers import reparam  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402
from numpyro.infer.reparam import LocScaleReparam  # noqa: E402
from scipy import integrate, stats  # noqa: E402

import corelet.numpyro  # noqa: E402
from corelet._fit import plan_of  # noqa: E402
from corelet.adapters import integrated, numpyro_marginal  # noqa: E402
from corelet.adapters.chains import Steps  # noqa: E402
from corelet.adapters.integrated import fit_integrated  # noqa: E402
from corelet.adapters.numpyro_latent import best_latent, latent_of  # noqa: E402
from corelet.adapters.numpyro_model import Sampler  # noqa: E402
from corelet.adapters.numpyro_rows import Rows  # noqa: E402
from corelet.adapters.quadrature import rule, wide  # noqa: E402
from corelet.frames.units import Units  # noqa: E402

numpyro.enable_x64()

GROUPS = 30
GROUP, OTHER = np.arange(300) % GROUPS, np.arange(300) // 10
X = np.random.default_rng(0).normal(size=300)
Y = (X > 0.3).astype(int)


def tool_of(model, *args, steps=(500, 300, 2)):
    table = Rows(model, args, {})
    tool = Sampler(table, Steps(*steps), plan_of(Units(table.n), 5, None, 1000, None, 1, 0, None), 0, {})
    tool.check(16, 0)
    return tool


def marginal_of(tool, name):
    return numpyro_marginal.integrated(tool, latent_of(tool.rows, name), name, [])


def fitted(found, rows, k, asked):
    """As `corelet.numpyro.fit` has it, without compiling again."""
    plan = plan_of(Units(rows), k, None, 1000, None, 2, 0, None, True)
    return fit_integrated(found, plan, None, False, "auto", asked)


def written(predictor):
    """A model of two classes whose predictor is made of a scale, a slope and a latent site `u`."""

    def model(x, group, other, y):
        scale, slope = numpyro.sample("scale", dist.HalfNormal(1)), numpyro.sample("slope", dist.Normal())
        numpyro.sample("y", dist.Bernoulli(logits=predictor(scale, slope, x, group, other)), obs=y)

    return Rows(model, (X, GROUP, OTHER, Y), {})


def centred(scale):
    with numpyro.plate("groups", GROUPS):
        return numpyro.sample("u", dist.Normal(0, scale))


def apart(scale):
    return numpyro.sample("u", dist.Normal(0, 1).expand([GROUPS]).to_event(1)) * scale


def decentred(scale):
    with reparam(config={"u": LocScaleReparam(0)}):
        return centred(scale)


def above(scale):
    three = numpyro.sample("above", dist.Normal().expand([3]))
    return three[np.arange(GROUPS) % 3] + scale * numpyro.sample("u", dist.Normal().expand([GROUPS]))


FOUND = {
    "a plate": (lambda scale, slope, x, g, h: slope * x + centred(scale)[g], "u"),
    "to_event": (lambda scale, slope, x, g, h: slope * x + apart(scale)[g], "u"),
    "reparametrised": (lambda scale, slope, x, g, h: slope * x + decentred(scale)[g], "u_decentered"),
    "a slope, from the end": (lambda scale, slope, x, g, h: slope + x * centred(scale)[g - GROUPS], "u"),
    "by take": (lambda scale, slope, x, g, h: slope * x + jnp.take(centred(scale), g), "u"),
    "long tails": (lambda scale, slope, x, g, h: slope * x + numpyro.sample("u", dist.StudentT(4, 0, scale).expand([GROUPS]))[g], "u"),
    "positive": (lambda scale, slope, x, g, h: slope * x + jnp.log(numpyro.sample("u", dist.Gamma(2, scale).expand([GROUPS])))[g], "u"),
    "twice": (lambda scale, slope, x, g, h: (lambda u: u[g] + x * u[g] ** 2)(centred(scale)), "u"),
    "a trend": (lambda scale, slope, x, g, h: numpyro.sample("u", dist.Normal(slope * jnp.linspace(-1, 1, GROUPS), scale))[g], "u"),
    "levels above": (lambda scale, slope, x, g, h: above(scale)[g], "u"),
    "its column elsewhere": (lambda scale, slope, x, g, h: slope * x * (g < 3) + 0.1 * g + centred(scale)[g], "u"),
    "another vector": (
        lambda scale, slope, x, g, h: centred(scale)[g] + numpyro.sample("w", dist.Normal().expand([GROUPS]))[h] + slope * x,
        "u",
    ),
}


@pytest.mark.parametrize("form", FOUND)
def test_what_is_one_value_for_each_group_is_found(form):
    predictor, name = FOUND[form]
    table = written(predictor)
    latent = latent_of(table, name)
    assert latent.levels == GROUPS and np.array_equal(latent.codes, GROUP) and latent.name == "u"
    assert best_latent(table, 2).site == name


def density(value, scale):
    return -0.5 * ((value - value.mean()) / scale) ** 2 - jnp.log(scale)


class Mingled(dist.Distribution):
    """Its density of one value sums over all of them, which its shape does not show."""

    arg_constraints = {"scale": dist.constraints.positive}
    support = dist.constraints.real

    def __init__(self, scale, **settings):
        self.scale = scale
        super().__init__((GROUPS,), (), **settings)

    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, sample_shape + (GROUPS,))

    def log_prob(self, value):
        return density(value, self.scale)


def factor(scale, slope, x, g, h):
    u = centred(scale)
    numpyro.factor("sum", -(u.sum() ** 2))
    return slope * x + u[g]


def rare(scale, slope, x, g, h):
    """A prior that depends on it where no check by numbers would look."""
    u = centred(scale)
    return numpyro.sample("child", dist.Normal(jnp.where(u[0] > 1e3, 1.0, 0.0), 1)) + slope * x + u[g]


def bound(scale, slope, x, g, h):
    """So does a support."""
    u = centred(scale)
    return numpyro.sample("child", dist.ImproperUniform(dist.constraints.greater_than(u[0]), (), ())) + slope * x + u[g]


def walk(scale, slope, x, g, h):
    return numpyro.sample("u", dist.GaussianRandomWalk(scale, num_steps=GROUPS))[g] + slope * x


def pairs(scale, slope, x, g, h):
    return numpyro.sample("u", dist.MultivariateNormal(jnp.zeros(GROUPS), jnp.eye(GROUPS) + 0.5))[g] + slope * x


LIARS = {
    "its mean too": (lambda scale, slope, x, g, h: (lambda u: slope * x + u[g] + u.mean())(centred(scale)), "otherwise than by an index"),
    "less its mean": (lambda scale, slope, x, g, h: (lambda u: slope * x + (u - u.mean())[g])(centred(scale)), "otherwise than by an index"),
    "one of them for all": (lambda scale, slope, x, g, h: (lambda u: u[g] + u[0] + slope * x)(centred(scale)), "otherwise than by an index"),
    "the next one too": (lambda scale, slope, x, g, h: (lambda u: u[g] + jnp.roll(u, 1)[g] + slope * x)(centred(scale)), "otherwise than by"),
    "a matrix product": (lambda scale, slope, x, g, h: jax.nn.one_hot(g, GROUPS) @ centred(scale) + slope * x, "otherwise than by an index"),
    "sums of them": (lambda scale, slope, x, g, h: jnp.cumsum(centred(scale))[g] + slope * x, "otherwise than by an index"),
    "two of them": (lambda scale, slope, x, g, h: (lambda u: u[g] - u[h] + slope * x)(centred(scale)), "several values"),
    "two at a time": (lambda scale, slope, x, g, h: centred(scale)[jnp.stack([g, h], axis=1)].sum(axis=1) + slope * x, "otherwise than by"),
    "which one": (
        lambda scale, slope, x, g, h: centred(scale)[jnp.where(slope > 1e3, h, g)] + slope * x,
        "depends on the parameters",
    ),
    "a table": (
        lambda scale, slope, x, g, h: numpyro.sample("u", dist.Normal(0, scale).expand([GROUPS, 2]))[g, h % 2] + slope * x,
        r"has shape (30, 2)",
    ),
    "beyond the last": (lambda scale, slope, x, g, h: centred(scale)[g + 1] + slope * x, "row 29 has group number 30, but u has 30 values"),
    "a walk": (walk, "not independent"),
    "correlated": (pairs, "not independent"),
    "mingled": (lambda scale, slope, x, g, h: numpyro.sample("u", Mingled(scale))[g] + slope * x, "depends on its other values"),
    "a factor": (factor, "sum depends on u"),
    "a prior": (rare, "child depends on u"),
    "a support": (bound, "child depends on u"),
    "a loop": (
        lambda scale, slope, x, g, h: jax.lax.scan(lambda carry, one: (carry, one + carry), slope, centred(scale))[1][g] + slope * x,
        "otherwise than by an index: by scan",
    ),
    "nobody": (lambda scale, slope, x, g, h: slope * x + 0 * centred(scale).shape[0], "no row sees u"),
}


@pytest.mark.parametrize("liar", LIARS)
def test_what_is_none_is_refused_by_name_and_left_alone_otherwise(liar, monkeypatch):
    predictor, said = LIARS[liar]
    table = written(predictor)
    with pytest.raises(corelet.CoreletError, match=f"u cannot be integrated out: .*{re.escape(said)}.*; marginalise='none' samples it"):
        numpyro_marginal.sought(table, "u", {}, [])
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", 2)
    assert numpyro_marginal.sought(table, "auto", {}, []) is None


def test_only_what_pays_is_integrated_by_itself(monkeypatch):
    table, notes = written(FOUND["a plate"][0]), []
    assert numpyro_marginal.sought(table, "auto", {}, notes) is None
    with pytest.raises(corelet.CoreletError, match="marginalise is 'v', but it must be auto, none or a latent site of the model: scale, slope, u"):
        numpyro_marginal.sought(table, "v", {}, notes)
    with pytest.raises(corelet.CoreletError, match="groups and marginalise='u' do not go together"):
        corelet.numpyro.fit(table.model, (X, GROUP, OTHER, Y), groups=GROUP, marginalise="u", k=5)
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", GROUPS)
    assert numpyro_marginal.sought(table, "auto", {"target_accept_prob": 0.9}, notes).site == "u"
    assert numpyro_marginal.sought(table, "auto", {"dense_mass": True}, notes) is None
    assert numpyro_marginal.sought(table, "none", {}, notes) is None and notes == []
    monkeypatch.setattr(numpyro_marginal, "_precise", lambda: False)
    assert numpyro_marginal.sought(table, "auto", {}, notes) is None and "call numpyro.enable_x64() first" in notes[0]
    with pytest.raises(corelet.CoreletError, match="u cannot be integrated out in single precision; call numpyro.enable_x64"):
        numpyro_marginal.sought(table, "u", {}, notes)
    monkeypatch.setattr(integrated, "MOST_ROWS_A_LEVEL", 9)
    assert numpyro_marginal.sought(table, "auto", {}, []) is None


@pytest.fixture(scope="module")
def counts():
    """Counts with a positive latent factor, whose prior mean is a function of its group's own feature; one group has no row."""
    rng = np.random.default_rng(1)
    sizes = [1, 2, 3, 5, 8, 40, 0]
    group = rng.permutation(np.repeat(np.arange(7), sizes))
    x, z = rng.normal(size=len(group)), np.linspace(-1, 1, 7)
    y = rng.poisson(np.exp(0.5 + 0.3 * x) * np.where(group == 5, 0.2, 2.0))

    def model(x, group, y):
        shape, slope = numpyro.sample("shape", dist.HalfNormal(2)), numpyro.sample("slope", dist.Normal())
        by = numpyro.sample("by", dist.Normal())
        factor = numpyro.sample("factor", dist.Gamma(shape, shape * jnp.exp(by * z)))
        numpyro.deterministic("rate", factor[group] * jnp.exp(slope * x))
        numpyro.sample("y", dist.Poisson(factor[group] * jnp.exp(slope * x)), obs=y)

    tool = tool_of(model, x, group, y)
    return marginal_of(tool, "factor"), (group, x, z, y)


def test_integrals_are_those_of_direct_integration(counts):
    found, (group, x, z, y) = counts
    assert found.coordinates() == ["by", "shape", "slope"] or sorted(found.coordinates()) == ["by", "shape", "slope"]
    order = [found.coordinates().index(name) for name in ("shape", "slope", "by")]
    points = np.empty((2, 3))
    points[:, order] = [[0.3, 0.2, 0.4], [1.0, -0.1, -0.5]]
    found.begin_at(points[0])
    near, direct = (found.integrals(points, np.arange(6), by) for by in (rule(41), wide()))
    for s, (log_shape, slope, by) in enumerate(points[:, order]):
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


@pytest.mark.long
def test_two_modes_of_a_group_are_seen(monkeypatch):
    """Rows of each group in two clusters far apart, under noise with long tails: left alone, and no A where it is asked for."""
    rng = np.random.default_rng(2)
    group, x = np.arange(240) % 40, rng.normal(size=240)
    apart = 0.1 * rng.normal(size=240) + np.where(np.arange(240) < 120, -4.0, 4.0)

    def model(x, group, apart, y):
        slope = numpyro.sample("slope", dist.Normal())
        u = numpyro.sample("u", dist.Normal(0, 5).expand([40]))
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
        numpyro.sample("apart", dist.StudentT(2, u[group], 0.1), obs=apart)

    found = marginal_of(tool_of(model, x, group, apart, x + rng.normal(size=240)), "u")
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

    def model(x, shop, y):
        middle, slope = numpyro.sample("middle", dist.Normal(0, 1.5)), numpyro.sample("slope", dist.Normal())
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        numpyro.deterministic("odds", jnp.exp(slope))
        with numpyro.plate("shops", 120), reparam(config={"levels": LocScaleReparam(0)}):
            levels = numpyro.sample("levels", dist.Normal(0, spread))
        numpyro.deterministic("largest", levels.max())
        numpyro.deterministic("each", levels[shop])
        numpyro.sample("y", dist.Bernoulli(logits=middle + slope * x + levels[shop]), obs=y)

    return model, (x, shop, y)


@pytest.mark.slow
def test_the_posterior_is_that_of_all_parameters(shops, monkeypatch):
    model, args = shops
    monkeypatch.setattr(integrated, "FEWEST_LEVELS", 100)
    fit = corelet.numpyro.fit(model, args, k=40)
    assert fit.verdict.grade == "A" and "levels, with a value for each of 120 groups, was integrated out by" in fit.notes[0], fit
    assert not any(note.startswith("each:") for note in fit.notes)
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=2000, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), *args)
    full = {name: np.asarray(values) for name, values in mcmc.get_samples().items()}
    posterior = fit.idata.posterior
    assert set(posterior.data_vars) == {"middle", "slope", "spread", "odds"}
    for name in ("middle", "slope", "spread"):
        own, known = posterior[name].values, full[name]
        assert abs(own.mean() - known.mean()) < 0.12 * known.std() and abs(own.std() / known.std() - 1) < 0.1, name
    effects, levels = fit.random_effects(), full["levels"]
    assert list(effects) == ["group", "effect", "rows", "mean", "sd", "q5", "q50", "q95"]
    assert list(effects["group"][:2]) == [0, 1] and set(effects["effect"]) == {"levels"} and (effects["rows"] == 10).all()
    assert (abs(effects["mean"] - levels.mean(axis=0)) < 0.15 * levels.std(axis=0)).all()
    assert (abs(effects["sd"] / levels.std(axis=0) - 1) < 0.12).all()
    assert (abs(effects["q95"] - np.quantile(levels, 0.95, axis=0)) < 0.25 * levels.std(axis=0)).all()
    assert set(fit.coreset.groups) <= set(effects["group"]) and len(fit.coreset.rows) == 10 * len(fit.coreset.groups)


def test_the_loops_are_those_of_the_other_adapter(shops):
    """The same model in PyMC, by loops that numba compiles."""
    pm = pytest.importorskip("pymc")
    import corelet.pymc
    from corelet.adapters import pymc_marginal

    model, (x, shop, y) = shops
    ours = marginal_of(tool_of(model, x, shop, y), "levels_decentered")
    with pm.Model() as theirs:
        middle, slope, spread = pm.Normal("middle", 0, 1.5), pm.Normal("slope"), pm.HalfNormal("spread", 1)
        levels = pm.Deterministic("levels", spread * pm.Normal("z", shape=120))
        pm.Bernoulli("y", logit_p=middle + slope * x + levels[shop], observed=y)
    tool = corelet.pymc.Sampler(theirs, 500, 300, 2, 0, None, {})
    tool.check_slicing(0)
    other = pymc_marginal.integrated(tool, "z", None)
    assert ours.coordinates() == ["middle", "slope", "spread"]
    points = np.array([[-0.5, 0.7, -0.2], [0.1, 0.2, 0.5]])
    weights = np.linspace(0.1, 3, 120)
    for marginal in (ours, other):
        marginal.nodes = 9
        marginal.begin_at(points[0])
    for mine, his in zip(ours.slopes(points, None, weights), other.slopes(points, None, weights)):
        assert np.allclose(mine, his, rtol=1e-7), (mine, his)
    assert np.allclose(ours.modes, other.modes, atol=1e-7)
    assert np.allclose(ours.moments(points), other.moments(points), atol=1e-7)
    assert np.allclose(ours.log_prior(points)[0] - ours.log_prior(points)[0][0], other.log_prior(points)[0] - other.log_prior(points)[0][0])
