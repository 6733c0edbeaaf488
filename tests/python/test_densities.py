"""`fit_model` with a gradient and a prior: one Gaussian in place of all rows; and advice where a coreset does not pay."""

import time

import numpy as np
import pytest

import corelet


class Intercepts:
    """Gaussian rows in groups, with noise of sd 1 and N(0, 1) intercepts: the posterior is known."""

    def __init__(self, n=6000, groups=30, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n, self.groups = n, groups
        self.x, self.group = self.rng.normal(size=n), self.rng.integers(0, groups, n)
        self.y = 0.5 * self.x + self.rng.normal(size=groups)[self.group] + self.rng.normal(size=n)
        self.design = np.zeros((n, groups + 1))
        self.design[:, 0], self.design[np.arange(n), 1 + self.group] = self.x, 1.0

    def posterior(self, rows, weights):
        X = self.design[rows]
        covariance = np.linalg.inv(np.eye(self.groups + 1) + (X * weights[:, None]).T @ X)
        return covariance @ (X.T @ (weights * self.y[rows])), covariance

    def sample(self, rows, weights, start):
        mean, covariance = self.posterior(rows, weights)
        draws = self.rng.multivariate_normal(mean, covariance, size=(2, 400))
        return {"slope": draws[..., 0], "level": draws[..., 1:]}

    @staticmethod
    def flat(theta):
        return np.column_stack([theta["slope"], theta["level"]])

    def log_likelihood(self, theta, rows):
        return -0.5 * (self.y[rows] - self.flat(theta) @ self.design[rows].T) ** 2

    def log_prior(self, theta):
        return -0.5 * (self.flat(theta) ** 2).sum(axis=1)

    def gradient(self, theta, rows, weights):
        at = self.flat(theta)
        found = (weights * (self.y[rows] - at @ self.design[rows].T)) @ self.design[rows] - at
        return {"slope": found[:, 0], "level": found[:, 1:]}

    def fit(self, **keywords):
        given = dict(gradient=self.gradient, log_prior=self.log_prior, k=40) | keywords
        return corelet.fit_model(self.sample, self.log_likelihood, n=self.n, **given)


def test_a_gaussian_stands_in_place_of_all_rows():
    model = Intercepts()
    fit = model.fit()
    rest = fit.coreset.rest
    assert rest is not None and len(fit.coreset) == 0 and fit.verdict.variance < 1e-6, fit
    assert rest.names[:2] == ["slope", "level[0]"] and len(rest.names) == 31
    mean, covariance = model.posterior(slice(None), np.ones(model.n))
    draws = np.concatenate([fit.draws["slope"][..., None], fit.draws["level"]], axis=2).reshape(-1, 31)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - mean) / sd).max() < 0.1
    assert np.abs(draws.std(axis=0) / sd - 1).max() < 0.1
    assert np.allclose(rest.curvature, -model.design.T @ model.design, rtol=1e-6, atol=1e-4)
    assert rest.scale == "unconstrained"
    with pytest.raises(corelet.CoreletError, match="has no original scale"):
        rest.original
    # Its rows alone, of which there is none, are not what the fit was judged on.
    for given in ({}, {"loglik": model.log_likelihood, "idata": fit.idata}):
        with pytest.raises(corelet.CoreletError, match="has a Gaussian part"):
            corelet.check(fit.coreset, **given)


def test_few_parameters_or_no_prior_take_rows():
    model = Intercepts(groups=3)
    assert model.fit().coreset.rest is None
    assert model.fit(rest="gaussian").coreset.rest is not None
    assert Intercepts().fit(log_prior=None, k=60, max_k=60, max_rounds=2).coreset.rest is None
    with pytest.raises(corelet.CoreletError, match="takes gradient and log_prior"):
        model.fit(rest="gaussian", log_prior=None)


def test_draws_of_an_old_fit_are_where_it_begins():
    model = Intercepts()
    old = model.sample(np.arange(500), np.ones(500), None)
    fit = model.fit(pilot=old)
    assert fit.verdict.variance < 1e-6 and fit.coreset.rest is not None


def test_functions_that_do_not_belong_together():
    model = Intercepts()

    def other(theta, rows, weights):
        found = model.gradient(theta, rows, weights)
        found["level"][:, 7] += 0.2 * (weights[None] * (model.group[rows] == 7)).sum(axis=1)
        return found

    with pytest.raises(corelet.CoreletError, match=r"gradient is not that of the log-likelihood: .* by level\[7\]"):
        model.fit(gradient=other)
    with pytest.raises(corelet.CoreletError, match="gradient is not that of the prior"):
        model.fit(log_prior=lambda theta: 3 * model.log_prior(theta))
    with pytest.raises(corelet.CoreletError, match=r"log_prior returned an array of shape \(\) for"):
        model.fit(log_prior=lambda theta: 0.0)


def test_a_gradient_that_is_not_finite_names_row_and_variable():
    model = Intercepts()

    def broken(theta, rows, weights):
        found = model.gradient(theta, rows, weights)
        found["level"][:, 4] += np.where((rows == 4321) & (weights > 0), np.nan, 0.0).sum()
        return found

    with pytest.raises(corelet.CoreletError, match=r"row 4321 .*by level\[4\] is not finite"):
        model.fit(gradient=broken, rest="gaussian")


def test_a_funnel_is_no_a():
    """Eight group means with an unknown spread and little data, centred. The likelihood is Gaussian and the prior exact, so that V is 0; but
    chains do not reach the neck: a grid says that the standard deviation of the log spread is 1.87, they say 1.3 to 1.5."""
    rng = np.random.default_rng(4)
    n, group = 400, rng.integers(0, 8, 400)
    y = 0.1 * rng.normal(size=8)[group] + 8 * rng.normal(size=n)

    def log_likelihood(theta, rows):
        return -0.5 * ((y[rows] - theta[:, 1:][:, group[rows]]) / 8) ** 2

    def log_prior(theta):
        v, x = theta[:, 0], theta[:, 1:]
        return -0.5 * (v / 3) ** 2 - 0.5 * (x**2).sum(axis=1) * np.exp(-v) - 4 * v

    def gradient(theta, rows, weights):
        v, x = theta[:, :1], theta[:, 1:]
        own = weights * (y[rows] - x[:, group[rows]]) / 64
        by_group = np.stack([own[:, group[rows] == g].sum(axis=1) for g in range(8)], axis=1)
        return np.column_stack([-v / 9 + 0.5 * (x**2).sum(axis=1, keepdims=True) * np.exp(-v) - 4, by_group - x * np.exp(-v)])

    def sample(rows, weights, start):
        v = rng.normal(size=(2, 300, 1)) - 2
        return np.concatenate([v, np.exp(v / 2) * rng.normal(size=(2, 300, 8))], axis=2)

    fit = corelet.fit_model(sample, log_likelihood, n=n, gradient=gradient, log_prior=log_prior, k=40, rest="gaussian")
    assert fit.verdict.variance < 1e-6 and fit.draws[..., 0].std() < 1.7
    assert fit.verdict.grade == "C" and "slow_energy" in fit.verdict.reasons, fit


class Enough(Exception):
    """Nothing more is to be seen."""


class Slow:
    """Log-likelihoods that take a while, beside a sampler that does not."""

    n = 200_000

    def __init__(self, seconds):
        self.seconds = seconds
        self.rng = np.random.default_rng(1)

    def sample(self, rows, weights, start):
        return self.rng.normal(size=(2, 250, 3))

    def log_likelihood(self, theta, rows):
        time.sleep(self.seconds)
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        return -theta[:, :1] ** 2 + np.zeros((1, count))

    def fit(self, **keywords):
        heard = []

        def progress(step):
            heard.append(step)
            if step.stage == "a pass over all rows":
                raise Enough

        try:
            corelet.fit_model(self.sample, self.log_likelihood, n=self.n, k=60, progress=progress, **keywords)
        except Enough:
            return heard


def test_a_long_fit_that_does_not_pay_is_refused_with_numbers():
    with pytest.raises(corelet.CoreletError, match=r"does not pay here: with 3 parameters and 200 000 rows this fit would take about .*force=True"):
        Slow(0.2).fit()
    with pytest.warns(UserWarning, match="a coreset does not pay here"):
        heard = Slow(0.2).fit(force=True)
    forecast = [step for step in heard if step.stage == "forecast"]
    assert len(forecast) == 1 and "3 parameters, 200 000 rows: k = 60 points, at most 240; about" in forecast[0].forecast
    assert forecast[0].remaining > 30 and all(step.forecast is None for step in heard if step not in forecast)


def test_one_that_is_not_long_is_begun_with_a_warning():
    # What all rows take is known from the one pilot, which others on the machine may slow down.
    with pytest.warns(UserWarning, match="a coreset does not pay here"):
        assert {Slow(0.05).fit()[-1].stage for _ in range(3)} == {"a pass over all rows"}
