"""Rows that arrive, for models of users: updates against the exact posterior of all rows, and what takes the certificate away."""

import pickle

import numpy as np
import pytest

import corelet

N, STEP = 6000, 3000
rng = np.random.default_rng(31)
X = rng.normal(size=(N + 4 * STEP, 2)) * [0.5, 0.5]
SLOPES = np.array([0.6, -0.4])
Y = rng.poisson(np.exp(0.3 + X @ SLOPES))
TRUTH = 2.0
"""The prior of each coefficient is N(0, 2²)."""


class Poisson:
    """Counts with an intercept and two slopes, sampled by independent draws of a Gaussian that importance weights correct."""

    def __init__(self, X=X, Y=Y, prior_sd=TRUTH, ignores=False):
        self.X, self.Y = np.column_stack([np.ones(len(X)), X]), Y
        self.prior_sd, self.ignores = prior_sd, ignores

    def log_likelihood(self, theta, rows):
        eta = theta @ self.X[rows].T
        return self.Y[rows] * eta - np.exp(eta)

    def gradient(self, theta, rows, weights):
        left = (self.Y[rows] - np.exp(theta @ self.X[rows].T)) * weights
        return left @ self.X[rows] - theta / self.prior_sd**2

    def laplace(self, rows, weights):
        X, y, mode = self.X[rows], self.Y[rows], np.zeros(3)
        for _ in range(40):
            mean = weights * np.exp(X @ mode)
            hessian = X.T @ (mean[:, None] * X) + np.eye(3) / self.prior_sd**2
            mode = mode + np.linalg.solve(hessian, X.T @ (weights * y - mean) - mode / self.prior_sd**2)
        return mode, np.linalg.inv(hessian)

    def sample(self, rows, weights, start):
        weights = np.ones(len(rows)) if self.ignores else weights
        chances = np.random.default_rng(7)
        mode, covariance = self.laplace(rows, weights)
        z = chances.normal(size=(40_000, 3))
        theta = mode + z @ np.linalg.cholesky(covariance).T
        log_p = self.log_likelihood(theta, rows) @ weights - 0.5 * (theta**2).sum(axis=1) / self.prior_sd**2
        ratios = log_p + 0.5 * (z**2).sum(axis=1)
        ends = np.cumsum(np.exp(ratios - ratios.max()))
        at = np.searchsorted(ends, chances.random(4000) * ends[-1])
        return theta[at].reshape(4, 1000, 3)


def fitted(n=N, k=60, model=None, **keywords):
    of = model or Poisson()
    return corelet.fit_model(of.sample, of.log_likelihood, n=n, k=k, gradient=of.gradient, progress=False, **keywords)


def updated(fit, n=STEP, model=None, **keywords):
    of = model or Poisson()
    return corelet.update_model(fit, of.sample, of.log_likelihood, n=n, gradient=of.gradient, progress=False, **keywords)


@pytest.fixture(scope="module")
def first():
    fit = fitted()
    assert fit.verdict.grade == "A"
    return fit


def test_updates_have_the_posterior_of_all_rows_and_their_bounds_add_up(first):
    fit, bounds = first, [first.verdict.variance_upper]
    for step in range(1, 5):
        fit = updated(fit)
        bounds.append(fit.verdict.variance_upper)
        assert fit.verdict.grade == "A" and fit.coreset.summary["n"] == N + step * STEP, fit.verdict
        assert any(f"{step} block" in line for line in fit.verdict.lines), fit.verdict.lines
        assert (np.diff(fit.coreset.rows) > 0).all() and fit.coreset.rows.max() < N + step * STEP
    everything = np.arange(len(X))
    truth = Poisson().sample(everything, np.ones(len(X)), None).reshape(-1, 3)
    mean, sd = truth.mean(axis=0), truth.std(axis=0)
    draws = fit.draws.reshape(-1, 3)
    assert (abs(draws.mean(axis=0) - mean) < 0.2 * sd).all() and (abs(draws.std(axis=0) / sd - 1) < 0.1).all()
    # What is open about earlier rows stays open: no bound is below what the blocks before it left, but for narrower posteriors.
    assert all(after > 0.5 * before for before, after in zip(bounds, bounds[1:])), bounds
    # And it holds: by V on all rows, which nobody has looked at since.
    of = Poisson()
    looked = draws[::10]
    gap = of.log_likelihood(looked, everything).sum(axis=1) - of.log_likelihood(looked, fit.coreset.rows) @ fit.coreset.weights
    assert gap.var() < fit.verdict.variance_upper


def test_earlier_rows_beside_the_coreset_are_not_needed(first):
    # Rows of before are other numbers now, but for those that were chosen.
    gone = np.setdiff1d(np.arange(N), first.coreset.rows)
    less = Poisson(X.copy(), Y.copy())
    less.X[gone] = np.nan
    fit = updated(first, model=less)
    assert fit.verdict.grade == "A"
    np.testing.assert_allclose(fit.draws, updated(first).draws)


def test_rows_that_are_in_already_are_refused(first):
    twice = Poisson(np.concatenate([X[:N], X[1000:4000]]), np.concatenate([Y[:N], Y[1000:4000]]))
    with pytest.raises(corelet.CoreletError, match="are among the new ones, so rows would count twice"):
        updated(first, model=twice)
    # Rows of a block that has been added are known whether the coreset has any of them or not.
    more = updated(first)
    last = Poisson(np.concatenate([X[: N + STEP], X[N : N + STEP]]), np.concatenate([Y[: N + STEP], Y[N : N + STEP]]))
    with pytest.raises(corelet.CoreletError, match="would count twice"):
        updated(more, model=last)
    assert updated(first, model=twice, allow_repeats=True).coreset.summary["n"] == N + STEP


def test_another_regime_is_told(first):
    turned = Y.copy()
    turned[N:] = rng.poisson(np.exp(0.3 - X[N:] @ SLOPES))
    fit = updated(first, model=Poisson(Y=turned))
    assert fit.verdict.grade == "C" and "drifted" in fit.verdict.reasons


def test_a_sampler_that_ignores_the_weights_is_not_believed(first):
    assert updated(first, model=Poisson(ignores=True)).verdict.grade == "C"


def test_what_cannot_be_updated_is_refused(first):
    with pytest.raises(corelet.CoreletError, match="there is no new row"):
        updated(first, n=0)
    other = Poisson(2.0 * X)
    with pytest.raises(corelet.CoreletError, match="this is not the model of the fit: row"):
        updated(first, model=other)
    known = corelet.fit(X[:500], Y[:500], model="poisson", k=50)
    with pytest.raises(corelet.CoreletError, match="update it by the tool that made it"):
        updated(known)
    with pytest.raises(corelet.CoreletError, match="is not certified"):
        updated(fitted(k=4, max_k=4, max_rounds=1, model=Poisson(ignores=True)))
    with pytest.raises(corelet.CoreletError, match="came in groups"):
        updated(fitted(groups=np.arange(N) % 300, k=40))
    with pytest.raises(corelet.CoreletError, match="update it by the tool that made it"):
        updated(pickle.loads(pickle.dumps(first)))
    with pytest.raises(TypeError, match="fit is of type ndarray"):
        updated(first.draws)
