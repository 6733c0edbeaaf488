"""PyMC: a small regression with two random intercepts, fitted as it is."""

import re

import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import corelet.pymc  # noqa: E402
from corelet.adapters.pymc_chains import Nutpie  # noqa: E402
from corelet.results.arviz import dataset_of  # noqa: E402


def test_counts_by_group(agrees):
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=3000), rng.integers(0, 4, 3000)
    y = rng.poisson(np.exp(1.0 + 0.4 * x + np.array([-0.5, 0.0, 0.2, 0.6])[group]))
    with pm.Model(coords={"group": list("abcd")}) as model:
        slope = pm.Normal("slope", 0, 1)
        middle = pm.Normal("middle", 1, 1, dims="group")
        pm.Deterministic("ratio", pm.math.exp(slope))
        pm.Poisson("y", mu=pm.math.exp(middle[group] + slope * x), observed=y)
        # Another study, which says as much of the slope as all rows do.
        pm.Normal("study", slope, 0.01, observed=0.42)
    fit = corelet.pymc.fit(model, k=60)
    assert "study: observed, but not of the 3000 rows, so kept whole beside the coreset" in fit.notes
    with model:
        full = pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("slope", "middle", "ratio")})
    assert fit.idata.posterior["middle"].dims == ("chain", "draw", "group")
    assert list(fit.idata.posterior["group"].values) == list("abcd")
    with pytest.raises(corelet.CoreletError, match="no variable was integrated out"):
        fit.random_effects()


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(2)
    x = rng.normal(size=2000)
    y = rng.poisson(np.exp(1.0 + 0.4 * x))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        middle = pm.Normal("middle", 1, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Potential("known", -0.5 * ((scale - 1) / 0.1) ** 2)
        pm.Poisson("y", mu=pm.math.exp(middle + slope * x), observed=y)
        full = pm.sample(draws=1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    return model, full


def test_draws_of_the_model_are_certified_and_others_are_not(counts):
    model, full = counts
    certificate = corelet.pymc.certify(model, full)
    assert certificate.grade in "AB" and certificate.names == ["slope", "middle", "scale_log__"], certificate
    draws = {name: full.posterior[name].values for name in ("slope", "middle", "scale")}
    narrow = {name: values.mean() + 0.5 * (values - values.mean()) for name, values in draws.items()}
    certificate = corelet.pymc.certify(model, narrow)
    assert certificate.grade == "C" and (abs(certificate.scale[:2] - 0.5) < 0.1).all()
    with pytest.raises(corelet.CoreletError, match="the draws have no variable scale"):
        corelet.pymc.certify(model, {name: draws[name] for name in ("slope", "middle")})
    with pytest.raises(corelet.CoreletError, match="on the scale of the model"):
        corelet.pymc.certify(model, {**draws, "scale": np.log(draws["scale"])})


def test_leave_one_out_is_that_of_arviz(counts):
    import arviz as az

    model, full = counts
    review = corelet.pymc.review(model, full, most=2000)
    with model:
        known = az.loo(pm.compute_log_likelihood(full, progressbar=False), pointwise=True)
    elpd = float(known.elpd if hasattr(known, "elpd") else known.elpd_loo)
    assert abs(review.loo.elpd - elpd) < 0.05 and review.fits.misfits == []
    assert corelet.pymc.review(model, full, most=200, outcomes=0).fits is None
    assert abs(review.influence["slope"].jackknife_se / review.influence["slope"].sd - 1) < 0.2
    # Rows are exchangeable here, so that folds say what leave-one-out does.
    folds = corelet.pymc.k_fold(model, full, folds=2, k=60, draws=500, tune=300, chains=2)
    assert abs(folds.elpd - elpd) < 5 and {fold.grade for fold in folds.folds} <= {"A", "B"}
    assert folds.outcomes is not None and folds.fold_i.sum() == 1000


def outcomes(kind, x, rng):
    """A model with one coefficient near 0.5, and outcomes that it would draw or would not."""
    mean = np.exp(0.2 + 0.5 * x)
    with pm.Model() as model:
        eta = pm.Normal("a") + pm.Normal("b") * x
        if kind == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(mean))
        elif kind == "overdispersed":
            pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(rng.gamma(0.7, mean / 0.7)))
        elif kind == "zeros":
            pm.ZeroInflatedPoisson("y", psi=0.7, mu=pm.math.exp(eta), observed=rng.binomial(1, 0.7, len(x)) * rng.poisson(mean))
        elif kind == "censored":
            pm.Censored("y", pm.Normal.dist(eta, 1.0), lower=-1.0, upper=None, observed=np.maximum(np.log(mean) + rng.normal(size=len(x)), -1.0))
        elif kind == "bernoulli":
            pm.Bernoulli("y", logit_p=eta, observed=(rng.random(len(x)) < 1 / (1 + 1 / mean)).astype(int))
        elif kind == "classes":
            pm.Categorical("y", logit_p=pm.math.stack([0 * eta, eta], axis=1), observed=rng.integers(0, 2, len(x)))
    return model


@pytest.mark.parametrize(
    ("kind", "said"),
    [("poisson", ""), ("overdispersed", "vary more"), ("zeros", ""), ("censored", ""), ("bernoulli", ""), ("classes", None)],
)
def test_outcomes_are_drawn_by_the_model_itself(kind, said):
    rng = np.random.default_rng(7)
    # More rows than are drawn at a time.
    x = rng.normal(size=10_000)
    draws = {"a": 0.2 + 0.01 * rng.normal(size=(4, 50)), "b": 0.5 + 0.01 * rng.normal(size=(4, 50))}
    fits = corelet.pymc.review(outcomes(kind, x, rng), draws, most=200).fits
    if said is None:
        assert fits is None
    else:
        assert fits.n == len(x) and (said in fits.misfits[0] if said else fits.misfits == []), fits
        assert abs(fits.mean[0] - fits.mean[1]) < 5 * fits.mean[2]


def test_many_intercepts_by_one_gaussian():
    rng = np.random.default_rng(3)
    x, shop = rng.normal(size=6000), rng.integers(0, 30, 6000)
    level = rng.normal(0.0, 0.4, size=30)
    y = rng.poisson(np.exp(1.5 + 0.3 * x + level[shop]))
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        spread = pm.HalfNormal("spread", 1)
        levels = pm.Normal("levels", 1.5, spread, shape=30)
        pm.Poisson("y", mu=pm.math.exp(levels[shop] + slope * x), observed=y)
    fit = corelet.pymc.fit(model, k=60, rest="gaussian")
    assert fit.verdict.variance < 0.05 and fit.coreset.rest is not None, fit
    assert len(fit.coreset.rest.names) == 32 and fit.idata.sample_stats.sizes["draw"] == 1000
    # ArviZ marks the draws of divergences by it.
    assert fit.idata.sample_stats["diverging"].dtype == bool
    posterior = fit.idata.posterior
    fitted = np.exp(posterior["levels"].values[..., shop[:200]] + posterior["slope"].values[..., None] * x[:200])
    assert abs(fitted.mean() / y[:200].mean() - 1) < 0.15
    found = posterior["levels"].values.reshape(-1, 30).mean(axis=0)
    assert np.corrcoef(found, level)[0, 1] > 0.98 and abs(posterior["slope"].values.mean() - 0.3) < 0.03


def test_deviations_as_products_by_one_gaussian_of_the_products():
    """Levels as sd * z: the Gaussian is one of the levels, and the posterior that of the same model with levels of their own."""
    rng = np.random.default_rng(6)
    x, shop = rng.normal(size=4000), rng.integers(0, 20, 4000)
    level = rng.normal(0.0, 0.4, size=20)
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.3 + level[shop] - 0.5 * x)))).astype(int)

    def written(as_products):
        with pm.Model() as model:
            slope, middle, spread = pm.Normal("slope", 0, 1), pm.Normal("middle", 0, 1), pm.HalfNormal("spread", 1)
            levels = spread * pm.Normal("z", 0, 1, shape=20) if as_products else pm.Normal("levels", 0, spread, shape=20)
            pm.Deterministic("shown", levels)
            pm.Bernoulli("y", logit_p=middle + levels[shop] + slope * x, observed=y)
        return model

    fit = corelet.pymc.fit(written(True), k=60)
    assert fit.verdict.grade == "A" and len(fit.coreset) == 0 and fit.verdict.variance < 0.1, fit
    assert fit.coreset.rest.names == ["slope", "middle", *(f"effect(spread, z)[{at}]" for at in range(20))]
    every = corelet.pymc.Sampler(written(False), 500, 500, 4, 1, None, {})
    every.check_slicing(0)
    full = every.sample(np.arange(4000), np.ones(4000), None, 1000, True).values
    posterior = {name: fit.idata.posterior[name].values for name in ("slope", "middle", "spread", "shown")}
    for name, known in (("slope", full["slope"]), ("middle", full["middle"]), ("spread", full["spread"]), ("shown", full["levels"])):
        shift = np.abs(posterior[name].mean(axis=(0, 1)) - known.mean(axis=(0, 1))) / known.std(axis=(0, 1))
        assert shift.max() < 0.3, f"{name}: {shift.max()}"


def test_censored_rows_and_a_deterministic_variable_of_each_row():
    rng = np.random.default_rng(4)
    x = rng.normal(size=2500)
    y = np.clip(0.5 + 0.8 * x + rng.normal(size=2500), -1.0, 2.0)
    with pm.Model() as model:
        mu = pm.Deterministic("mu", pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x)
        latent = pm.Normal.dist(mu, pm.HalfNormal("sigma", 2))
        pm.Censored("y_observed", latent, lower=-1.0, upper=2.0, observed=y)
    fit = corelet.pymc.fit(model, k=60, draws=500, tune=400, chains=2)
    assert fit.verdict.grade in "AB", fit
    posterior = fit.idata.posterior
    assert set(posterior.data_vars) == {"a", "b", "sigma"} and "diverging" in fit.idata.sample_stats
    assert abs(posterior["b"].values.mean() - 0.8) < 0.1 and abs(posterior["sigma"].values.mean() - 1.0) < 0.1
    said = "mu: one value for each row, so not in idata; pymc.compute_deterministics(posterior, var_names=['mu'], model=model) computes it"
    assert said in fit.notes, fit.notes
    some = dataset_of(fit.idata, "posterior").isel(draw=slice(0, 3))
    assert pm.compute_deterministics(some, var_names=["mu"], model=model, progressbar=False)["mu"].shape == (2, 3, 2500)


def parts(kind):
    """A model that has no rows which could be taken out of it."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=300)
    y = x + rng.normal(size=300)
    with pm.Model() as model:
        eta = pm.Normal("a") + pm.Normal("b") * x
        if kind == "mask":
            pm.Normal("y", eta[x < 1], observed=y[x < 1])
        elif kind == "slice":
            pm.Normal("y", eta[:-1], observed=y[1:])
        elif kind == "roll":
            pm.Normal("y", pm.math.concatenate([eta[-1:], eta[:-1]]), observed=y)
        elif kind == "missing":
            pm.Normal("y", eta, observed=np.ma.masked_greater(y, 1.5))
        elif kind == "discrete":
            pm.Normal("y", eta + pm.Bernoulli("which", 0.5), observed=y)
        elif kind == "minibatch":
            some_x, some_y = pm.Minibatch(x, y, batch_size=50)
            pm.Normal("y", pm.Normal("slope") * some_x, observed=some_y, total_size=300)
        elif kind == "lengths":
            data = pm.Data("x", x)
            pm.Normal("y", pm.Normal("slope") * data, observed=pm.Data("seen", y))
            pm.set_data({"x": x[:100]})
        else:
            pm.Normal("y", eta, observed=y)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mask", "y cannot be computed for some rows alone"),
        ("slice", "y cannot be computed for some rows alone"),
        ("roll", "a row of y depends on the other rows"),
        ("missing", "y has missing values that the model imputes"),
        ("discrete", "which is a discrete variable"),
        ("minibatch", "pm.Minibatch"),
        ("lengths", "its data have these lengths: x 100, seen 300"),
    ],
)
def test_refused_in_one_line(kind, words):
    with pytest.raises(corelet.CoreletError, match=words) as caught:
        corelet.pymc.fit(parts(kind), k=20)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["x", "y"])
def test_a_row_without_a_value_is_named(column):
    rng = np.random.default_rng(8)
    x = rng.normal(size=300)
    y = rng.poisson(np.exp(x))
    # A missing predictor, and a count that is none.
    if column == "x":
        x[7] = np.nan
    else:
        y[7] = -3
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + pm.Normal("b") * x), observed=y)
    tool = corelet.pymc.Sampler(model, 500, 500, 4, 0, None, {})
    with pytest.raises(corelet.CoreletError, match="chains cannot start: the log-likelihood of row 7 .*it is -inf"):
        tool._starts(np.arange(300), np.ones(300), None, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(draws=0), "draws = 0 cannot be used: it must be at least 4"),
        (dict(draws=-3), "draws is -3, but it must not be negative"),
        (dict(tune=-1), "tune is -1"),
        (dict(chains=0), "chains = 0 cannot be used: it must be at least 1"),
        (dict(sampler="nutpie", options={"nonsense": 3}), "nutpie cannot sample the weighted model, with options=.*nonsense"),
    ],
)
def test_settings_that_cannot_be_are_said(settings, words):
    with pytest.raises(corelet.CoreletError, match=words) as caught:
        corelet.pymc.fit(parts("plain"), k=20, **settings)
    assert "\n" not in str(caught.value)


def test_a_sampler_that_fails_once_is_said_and_one_that_always_does_is_an_error(monkeypatch):
    sample, calls = Nutpie.__call__, []

    def failing(always):
        def call(self, *args):
            calls.append(1)
            if len(calls) > 1 and (always or len(calls) == 2):
                raise RuntimeError("bad initial energy\nat some point")
            return sample(self, *args)

        return call

    monkeypatch.setattr(Nutpie, "__call__", failing(False))
    steps = []
    fit = corelet.pymc.fit(parts("plain"), k=20, draws=500, chains=2, progress=steps.append)
    assert steps[0].forecast == "2 parameters, 300 rows: k = 20 points, at most 80; compiling the model", steps[0]
    first, again = (at for at, step in enumerate(steps) if step.stage == "pilot")
    # Another pilot, and all that was still to come.
    assert steps[first].remaining is None and steps[again].remaining > steps[again - 1].remaining
    assert max(step.round for step in steps) == len(fit.rounds)
    said = "round 1: the sampler failed on the weighted rows .*nutpie cannot sample the weighted model.*bad initial energy"
    assert any(re.match(said, note) and "\n" not in note for note in fit.notes), fit.notes
    calls.clear()
    monkeypatch.setattr(Nutpie, "__call__", failing(True))
    with pytest.raises(corelet.CoreletError, match="nutpie cannot sample the weighted model .RuntimeError: bad initial energy") as caught:
        corelet.pymc.fit(parts("plain"), k=20, draws=500, chains=2)
    assert "\n" not in str(caught.value)


def test_evidence_of_a_conjugate_model_and_checks_by_a_column():
    from math import lgamma, log

    rng = np.random.default_rng(4)
    y = rng.poisson(1.5, 200)
    total = int(y.sum())
    # λ ~ Gamma(3, 2), and a posteriori Gamma(3 + Σy, 2 + n); on the scale of log λ, where the bridge is, with its Jacobian.
    draws = {"rate": rng.gamma(3.0 + total, 1 / 202.0, size=(4, 500))}
    truth = 3 * log(2) - lgamma(3) + lgamma(3 + total) - (3 + total) * log(202) - sum(lgamma(k + 1) for k in y.tolist())
    with pm.Model() as model:
        season = pm.Data("season", [0, 1] * 100)
        rate = pm.Gamma("rate", alpha=3.0, beta=2.0)
        pm.Deterministic("later", rate + season.sum())
        pm.Poisson("y", mu=rate, observed=y)
    found = corelet.pymc.review(model, draws, evidence=True, by="season")
    assert abs(found.evidence.log - truth) < min(4 * found.evidence.se, 0.02), (found.evidence, truth)
    assert list(found.by) == ["0", "1"] and found.by["1"].n == 100 and found.by["1"].misfits == []
    assert found.by["0"].mean[0] == pytest.approx(y[::2].mean())
    assert found.loo.outcomes is not None
    with pytest.raises(corelet.CoreletError, match="is no data of the model with one value for each row; it has season"):
        corelet.pymc.review(model, draws, by="month")
    with pm.Model() as model:
        rate = pm.HalfFlat("rate")
        pm.Poisson("y", mu=rate, observed=y)
    with pytest.raises(corelet.CoreletError, match="the prior of rate is improper"):
        corelet.pymc.review(model, draws, evidence=True, outcomes=0)


@pytest.mark.long
def test_rows_that_arrive_are_added_to_a_fit(agrees):
    rng = np.random.default_rng(9)
    x = rng.normal(size=4000)
    y = rng.poisson(np.exp(0.4 + 0.3 * x))

    def model_of(rows, sd=1.0):
        with pm.Model() as model:
            slope, middle = pm.Normal("slope", 0, sd), pm.Normal("middle", 0, 2)
            pm.Poisson("y", mu=pm.math.exp(middle + slope * x[rows]), observed=y[rows])
        return model

    fit = corelet.pymc.fit(model_of(slice(0, 2000)), k=60, rest="none")
    first = fit.verdict.variance_upper
    fit = corelet.pymc.update(fit, model_of(slice(2000, 3000)))
    fit = corelet.pymc.update(fit, model_of(slice(3000, 4000)))
    assert fit.verdict.grade in "AB" and fit.coreset.summary["n"] == 4000 and fit.coreset.rows.max() < 4000
    assert fit.verdict.variance_upper > 0.5 * first and any("2 blocks" in line for line in fit.verdict.lines)
    with model_of(slice(0, 4000)):
        full = pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("slope", "middle")})
    with pytest.raises(corelet.CoreletError, match="its prior is another"):
        corelet.pymc.update(fit, model_of(slice(3000, 4000), sd=3.0))
    with pytest.raises(corelet.CoreletError, match="rows would count twice"):
        corelet.pymc.update(fit, model_of(slice(0, 3000)))
