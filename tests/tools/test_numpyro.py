"""NumPyro: a small regression, fitted as it is."""

import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

import corelet.numpyro  # noqa: E402
from corelet._fit import plan_of  # noqa: E402
from corelet.adapters.numpyro_rows import Rows  # noqa: E402
from corelet.frames.units import Units  # noqa: E402

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
    assert review.fits.misfits == [] and abs(review.fits.dispersion - 1) < 0.1 and review.fits.pit.sum() == len(y)
    folds = corelet.numpyro.k_fold(model, draws, (x, y), folds=2, k=60, draws=500, tune=300, chains=2)
    assert abs(folds.elpd - review.loo.elpd) < 5 and {fold.grade for fold in folds.folds} <= {"A", "B"}


@pytest.mark.parametrize(("kind", "said"), [("poisson", ""), ("overdispersed", "vary more"), ("bernoulli", ""), ("classes", None)])
def test_outcomes_are_drawn_by_the_model_itself(kind, said):
    rng = np.random.default_rng(7)
    x = rng.normal(size=10_000)
    mean = np.exp(0.2 + 0.5 * x)
    y = {
        "poisson": rng.poisson(mean),
        "overdispersed": rng.poisson(rng.gamma(0.7, mean / 0.7)),
        "bernoulli": (rng.random(len(x)) < 1 / (1 + 1 / mean)).astype(int),
        "classes": rng.integers(0, 2, len(x)),
    }[kind]

    def model(x, y):
        eta = numpyro.sample("a", dist.Normal(0, 1)) + numpyro.sample("b", dist.Normal(0, 1)) * x
        if kind == "bernoulli":
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
        elif kind == "classes":
            numpyro.sample("y", dist.Categorical(logits=jax.numpy.stack([0 * eta, eta], axis=1)), obs=y)
        else:
            numpyro.sample("y", dist.Poisson(jax.numpy.exp(eta)), obs=y)

    draws = {"a": 0.2 + 0.01 * rng.normal(size=(4, 50)), "b": 0.5 + 0.01 * rng.normal(size=(4, 50))}
    fits = corelet.numpyro.review(model, draws, args=(x, y), most=200).fits
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

    def model(x, shop, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        levels = numpyro.sample("levels", dist.Normal(1.5, spread).expand([30]).to_event(1))
        numpyro.sample("y", dist.Poisson(jax.numpy.exp(levels[shop] + slope * x)), obs=y)

    fit = corelet.numpyro.fit(model, args=(x, shop, y), k=60, rest="gaussian")
    assert fit.verdict.variance < 0.05 and fit.coreset.rest is not None, fit
    found = fit.idata.posterior["levels"].values.reshape(-1, 30).mean(axis=0)
    assert np.corrcoef(found, level)[0, 1] > 0.98 and "diverging" in fit.idata.sample_stats


@pytest.mark.parametrize("settings", [dict(draws=0), dict(draws=-3), dict(tune=-1), dict(chains=0)])
def test_lengths_that_cannot_be_are_said(line, settings):
    (name,) = settings
    with pytest.raises(corelet.CoreletError, match=f"^{name} "):
        corelet.numpyro.fit(model, line, k=20, **settings)


def test_reparameterised_sites_are_in_the_draws():
    from numpyro.handlers import reparam
    from numpyro.infer.reparam import LocScaleReparam

    rng = np.random.default_rng(6)
    x, group = rng.normal(size=2000), rng.integers(0, 5, 2000)
    y = rng.poisson(np.exp(0.3 + 0.2 * x + 0.3 * rng.normal(size=5)[group]))

    def grouped(x, group, y):
        spread, slope = numpyro.sample("spread", dist.HalfNormal(1.0)), numpyro.sample("slope", dist.Normal())
        with numpyro.plate("groups", 5):
            level = numpyro.sample("level", dist.Normal(0.0, spread))
        numpyro.deterministic("ratio", jax.numpy.exp(slope))
        mu = numpyro.deterministic("mu", level[group] + slope * x)
        numpyro.sample("y", dist.Poisson(jax.numpy.exp(mu)), obs=y)

    fit = corelet.numpyro.fit(reparam(grouped, config={"level": LocScaleReparam(0)}), (x, group, y), k=60)
    assert fit.verdict.grade in "AB", fit
    posterior = fit.idata.posterior
    assert {"level", "level_decentered", "ratio"} <= set(posterior.data_vars) and "mu" not in posterior
    assert np.allclose(posterior["level"].values, posterior["level_decentered"].values * posterior["spread"].values[..., None], rtol=1e-5)
    assert posterior["level"].dims[-1] == "groups" and "n_steps" in fit.idata.sample_stats
    assert any(note.startswith("mu: one value for each row") for note in fit.notes)


def test_gradients_of_beta_functions_are_those_of_finite_differences():
    """Compiled under `vmap`, JAX 0.10 has wrong ones, with which the score test would refuse honest draws."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=400)
    y = rng.binomial(10, rng.beta(2.0, 1.5, size=400))

    def model(x, y):
        share = jax.nn.sigmoid(numpyro.sample("a", dist.Normal(0.0, 0.5)) + numpyro.sample("b", dist.Normal(0.0, 0.5)) * x)
        size = 4.0 * numpyro.sample("size", dist.LogNormal(0.0, 0.5))
        numpyro.sample("y", dist.BetaBinomial(share * size, (1 - share) * size, 10), obs=y)

    table = Rows(model, (x, y), {})
    tool = corelet.numpyro.Sampler(table, corelet.numpyro.Steps(4, 1, 1), plan_of(Units(400, None), 2, None, 400, None, 1, 0, None), 0, {})
    points = rng.normal(size=(1200, tool.dimension)) * 0.05
    rows, weights = np.arange(0, 400, 5), rng.gamma(2.0, size=80)
    found, gradients = tool.scores(rows, weights, tool.constrained(points), 1200)
    assert np.allclose(found, points, atol=1e-6)
    step = 1e-3
    for j in range(tool.dimension):
        ends = [points + sign * step * np.eye(tool.dimension)[j] for sign in (1, -1)]
        up, down = (tool.log_prior(at)[0] + tool.slopes(at, rows, weights)[0] for at in ends)
        assert np.allclose(gradients[:, j], (up - down) / (2 * step), rtol=1e-3, atol=0.1)
    prior, slopes = tool.log_prior(points)
    together = slopes + tool.slopes(points, rows, weights)[1]
    assert np.allclose(gradients, together, rtol=1e-6, atol=1e-4) and np.isfinite(prior).all()


def test_deviations_as_products_by_one_gaussian_of_the_products():
    rng = np.random.default_rng(6)
    x, shop = rng.normal(size=4000), rng.integers(0, 20, 4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.3 + rng.normal(0.0, 0.4, size=20)[shop] - 0.5 * x)))).astype(int)

    def written(as_products):
        def model(x, shop, y):
            slope, middle = numpyro.sample("slope", dist.Normal(0, 1)), numpyro.sample("middle", dist.Normal(0, 1))
            spread = numpyro.sample("spread", dist.HalfNormal(1))
            with numpyro.plate("shops", 20):
                z = numpyro.sample("z", dist.Normal(0, 1 if as_products else spread))
            levels = numpyro.deterministic("levels", spread * z if as_products else z)
            numpyro.sample("y", dist.Bernoulli(logits=middle + levels[shop] + slope * x), obs=y)

        return model

    fit = corelet.numpyro.fit(written(True), (x, shop, y), k=60)
    assert fit.verdict.grade == "A" and len(fit.coreset) == 0 and len(fit.coreset.rest.names) == 22, fit
    mcmc = MCMC(NUTS(written(False)), num_warmup=300, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, shop, y)
    known = mcmc.get_samples(group_by_chain=True)
    for name in ("slope", "middle", "spread", "levels"):
        full, ours = np.asarray(known[name]), fit.idata.posterior[name].values
        shift = np.abs(ours.mean(axis=(0, 1)) - full.mean(axis=(0, 1))) / full.std(axis=(0, 1))
        assert shift.max() < 0.3, f"{name}: {shift.max()}"


def test_evidence_of_a_conjugate_model_and_checks_by_a_column():
    from math import lgamma, log

    rng = np.random.default_rng(4)
    y = rng.poisson(1.5, 200)
    total = int(y.sum())
    # λ ~ Gamma(3, 2), and a posteriori Gamma(3 + Σy, 2 + n); on the scale of log λ, where the bridge is, with its Jacobian.
    draws = {"rate": rng.gamma(3.0 + total, 1 / 202.0, size=(4, 500))}
    truth = 3 * log(2) - lgamma(3) + lgamma(3 + total) - (3 + total) * log(202) - sum(lgamma(k + 1) for k in y.tolist())
    def model(y, season):
        rate = numpyro.sample("rate", dist.Gamma(3.0, 2.0))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    found = corelet.numpyro.review(model, draws, args=(y, np.tile([0, 1], 100)), evidence=True, by="season")
    assert abs(found.evidence.log - truth) < min(4 * found.evidence.se, 0.02), (found.evidence, truth)
    assert list(found.by) == ["0", "1"] and found.by["1"].n == 100 and found.by["1"].misfits == []
    assert found.by["0"].mean[0] == pytest.approx(y[::2].mean())
    assert found.loo.outcomes is not None
    with pytest.raises(corelet.CoreletError, match="is no argument of the model with one value for each row; it has y, season"):
        corelet.numpyro.review(model, draws, args=(y, np.tile([0, 1], 100)), by="month")
    def model(y, season):
        rate = numpyro.sample("rate", dist.ImproperUniform(dist.constraints.positive, (), ()))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    with pytest.raises(corelet.CoreletError, match="the prior of rate is improper"):
        corelet.numpyro.review(model, draws, args=(y, np.tile([0, 1], 100)), evidence=True, outcomes=0)


@pytest.mark.long
def test_rows_that_arrive_are_added_to_a_fit(agrees):
    rng = np.random.default_rng(9)
    x = rng.normal(size=4000)
    y = rng.poisson(np.exp(0.4 + 0.3 * x))

    def counts(x, y, sd=1.0):
        slope, middle = numpyro.sample("slope", dist.Normal(0, sd)), numpyro.sample("middle", dist.Normal(0, 2))
        numpyro.sample("y", dist.Poisson(jax.numpy.exp(middle + slope * x)), obs=y)

    def rows(first, end):
        return x[first:end], y[first:end]

    fit = corelet.numpyro.fit(counts, rows(0, 2000), k=60, rest="none")
    first = fit.verdict.variance_upper
    fit = corelet.numpyro.update(fit, counts, rows(2000, 3000))
    fit = corelet.numpyro.update(fit, counts, rows(3000, 4000))
    assert fit.verdict.grade in "AB" and fit.coreset.summary["n"] == 4000 and fit.coreset.rows.max() < 4000
    assert fit.verdict.variance_upper > 0.5 * first and any("2 blocks" in line for line in fit.verdict.lines)
    mcmc = MCMC(NUTS(counts), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, y)
    agrees(fit, {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()})
    with pytest.raises(corelet.CoreletError, match="its prior is another"):
        corelet.numpyro.update(fit, counts, rows(3000, 4000), kwargs={"sd": 3.0})
    with pytest.raises(corelet.CoreletError, match="rows would count twice"):
        corelet.numpyro.update(fit, counts, rows(0, 3000))


def test_fewer_rows_than_a_pilot_takes_are_enough():
    rng = np.random.default_rng(4)
    x = rng.normal(size=400)
    y = 1.0 + 0.5 * x + rng.normal(size=400)

    def line(x, y):
        middle, slope = numpyro.sample("middle", dist.Normal(0, 5)), numpyro.sample("slope", dist.Normal(0, 5))
        numpyro.sample("y", dist.Normal(middle + slope * x, 1.0), obs=y)

    fit = corelet.numpyro.fit(line, args=(x, y), k=30)
    columns = np.column_stack([np.ones(400), x])
    means, sds = np.linalg.lstsq(columns, y, rcond=None)[0], np.sqrt(np.linalg.inv(columns.T @ columns).diagonal())
    for name, mean, sd in zip(("middle", "slope"), means, sds):
        draws = np.asarray(fit.idata["posterior"][name])
        assert abs(draws.mean() - mean) < 0.15 * sd and 0.9 < draws.std() / sd < 1.1
    assert fit.verdict.grade == "A"
