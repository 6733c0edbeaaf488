"""PyMC: a small regression with two random intercepts, fitted as it is."""

import numpy as np
import pytest

pm = pytest.importorskip("pymc")

import corelet.pymc  # noqa: E402


def test_counts_by_group(agrees):
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=3000), rng.integers(0, 4, 3000)
    y = rng.poisson(np.exp(1.0 + 0.4 * x + np.array([-0.5, 0.0, 0.2, 0.6])[group]))
    with pm.Model(coords={"group": list("abcd")}) as model:
        slope = pm.Normal("slope", 0, 1)
        middle = pm.Normal("middle", 1, 1, dims="group")
        pm.Deterministic("ratio", pm.math.exp(slope))
        pm.Poisson("y", mu=pm.math.exp(middle[group] + slope * x), observed=y)
    fit = corelet.pymc.fit(model, k=60)
    with model:
        full = pm.sample(draws=500, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    agrees(fit, {name: full.posterior[name].values for name in ("slope", "middle", "ratio")})
    assert fit.idata.posterior["middle"].dims == ("chain", "draw", "group")
    assert list(fit.idata.posterior["group"].values) == list("abcd")


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
    assert abs(review.loo.elpd - elpd) < 0.05 and review.fits is None
    assert abs(review.influence["slope"].jackknife_se / review.influence["slope"].sd - 1) < 0.2


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
    posterior = fit.idata.posterior
    fitted = np.exp(posterior["levels"].values[..., shop[:200]] + posterior["slope"].values[..., None] * x[:200])
    assert abs(fitted.mean() / y[:200].mean() - 1) < 0.15
    found = posterior["levels"].values.reshape(-1, 30).mean(axis=0)
    assert np.corrcoef(found, level)[0, 1] > 0.98 and abs(posterior["slope"].values.mean() - 0.3) < 0.03
