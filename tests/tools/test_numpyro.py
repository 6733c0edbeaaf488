"""NumPyro: a small regression, fitted as it is."""

import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

import corelet.numpyro  # noqa: E402

numpyro.enable_x64()


def model(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(intercept + slope * x, sigma), obs=y)


def test_a_line(agrees, line):
    x, y = line
    fit = corelet.numpyro.fit(model, (x, y), k=60)
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, y)
    agrees(fit, {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()})


def test_draws_are_certified_and_reviewed(line):
    x, y = line
    mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=1000, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, y)
    draws = {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()}
    certificate = corelet.numpyro.certify(model, draws, args=(x, y))
    assert certificate.grade in "AB" and certificate.names == ["intercept", "slope", "sigma"], certificate
    shifted = {**draws, "slope": draws["slope"] + 0.7 * draws["slope"].std()}
    certificate = corelet.numpyro.certify(model, shifted, args=(x, y))
    assert certificate.grade == "C" and abs(certificate.shift[1] - 0.7) < 4 * certificate.shift_error[1]
    with pytest.raises(corelet.CoreletError, match="the draws have no site sigma"):
        corelet.numpyro.certify(model, {"intercept": draws["intercept"], "slope": draws["slope"]}, args=(x, y))

    review = corelet.numpyro.review(model, draws, args=(x, y), most=2000)
    eta = draws["intercept"][..., None] + draws["slope"][..., None] * x
    values = -0.5 * ((y - eta) / draws["sigma"][..., None]) ** 2 - np.log(draws["sigma"][..., None]) - 0.5 * np.log(2 * np.pi)
    flat = values.reshape(-1, len(y))
    waic = np.log(np.mean(np.exp(flat), axis=0)).sum() - flat.var(axis=0).sum()
    assert abs(review.waic.elpd - waic) < 0.05 and abs(review.loo.elpd - waic) < 1.0


def test_many_intercepts_by_one_gaussian():
    rng = np.random.default_rng(3)
    x, shop = rng.normal(size=6000), rng.integers(0, 30, 6000)
    level = rng.normal(0.0, 0.4, size=30)
    y = rng.poisson(np.exp(1.5 + 0.3 * x + level[shop]))

    def model(x, shop, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        levels = numpyro.sample("levels", dist.Normal(1.5, spread).expand([30]).to_event(1))
        numpyro.sample("y", dist.Poisson(jax.numpy.exp(levels[shop] + slope * x)), obs=y)

    fit = corelet.numpyro.fit(model, args=(x, shop, y), k=60, rest="gaussian")
    assert fit.verdict.variance < 0.05 and fit.coreset.rest is not None, fit
    found = fit.idata.posterior["levels"].values.reshape(-1, 30).mean(axis=0)
    assert np.corrcoef(found, level)[0, 1] > 0.98 and "diverging" in fit.idata.sample_stats
