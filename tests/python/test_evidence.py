"""The log evidence of models of users, against closed forms and a grid; what takes it away."""

from math import lgamma, log, pi

import numpy as np
import pytest

import corelet

N = 400
rng = np.random.default_rng(12)
X = np.column_stack([rng.normal(size=(N, 2)), np.ones(N)])
Y = X @ [0.5, -0.3, 0.2] + 0.8 * rng.normal(size=N)


def conjugate(X, prior_sd):
    """Draws of the posterior of a linear model with noise 0.8, in four chains, and log N(y; 0, 0.64 I + prior_sd² XXᵀ)."""
    covariance = np.linalg.inv(X.T @ X / 0.64 + np.eye(X.shape[1]) / prior_sd**2)
    draws = np.random.default_rng(3).multivariate_normal(covariance @ X.T @ Y / 0.64, covariance, size=(4, 500))
    marginal = 0.64 * np.eye(N) + prior_sd**2 * X @ X.T
    return draws, -0.5 * (N * log(2 * pi) + np.linalg.slogdet(marginal)[1] + Y @ np.linalg.solve(marginal, Y))


def reviewed(X, prior_sd, draws, **keywords):
    def log_likelihood(theta, rows):
        return -0.5 * ((Y[rows] - theta @ X[rows].T) / 0.8) ** 2 - log(0.8) - 0.5 * log(2 * pi)

    def log_prior(theta):
        return (-0.5 * (theta / prior_sd) ** 2 - log(prior_sd) - 0.5 * log(2 * pi)).sum(axis=1)

    asked = dict(n=N, y=Y, simulate=lambda theta, rows: theta @ X[rows].T, outcomes=0, evidence=True, log_prior=log_prior)
    return corelet.review_model(draws, log_likelihood, **{**asked, **keywords})


def test_evidence_of_functions_has_its_closed_form_and_models_are_compared_by_it():
    found, truth = {}, {}
    for name, columns in (("all", [0, 1, 2]), ("less", [0, 2])):
        draws, truth[name] = conjugate(X[:, columns], 2.0)
        found[name] = reviewed(X[:, columns], 2.0, draws)
        evidence = found[name].evidence
        # The error is that of 500 draws beside a Gaussian of 500 others: not more than 0.05 here, whatever it is said to be.
        assert abs(evidence.log - truth[name]) < min(4 * evidence.se, 0.05), (evidence, truth)
    (_, (less, se)) = corelet.compare(found).log_evidence
    assert abs(less - (truth["less"] - truth["all"])) < 4 * se
    again = reviewed(X, 2.0, conjugate(X, 2.0)[0])
    assert again.evidence == found["all"].evidence
    # By name as by number.
    draws, _ = conjugate(X[:, [0]], 2.0)
    named = corelet.review_model(
        {"b": draws[..., 0]},
        lambda theta, rows: -0.5 * ((Y[rows] - np.outer(theta["b"], X[rows, 0])) / 0.8) ** 2 - log(0.8) - 0.5 * log(2 * pi),
        n=N,
        evidence=True,
        log_prior=lambda theta: -0.5 * (theta["b"] / 2.0) ** 2 - log(2.0) - 0.5 * log(2 * pi),
    )
    assert abs(named.evidence.log - conjugate(X[:, [0]], 2.0)[1]) < 0.05


def test_evidence_of_a_skewed_posterior_is_that_of_a_grid():
    # Few counts: log λ, whose posterior is skewed.
    y = np.array([0, 1, 0, 2])

    def log_likelihood(theta, rows):
        return y[rows] * theta - np.exp(theta) - np.array([lgamma(k + 1.0) for k in y[rows]])

    grid = np.linspace(-12, 6, 40_001)[:, None]

    def log_prior(theta):
        return -0.5 * (theta[:, 0] / 1.5) ** 2 - log(1.5) - 0.5 * log(2 * pi)

    density = np.exp(log_likelihood(grid, slice(0, 4)).sum(axis=1) + log_prior(grid))
    cumulative = np.cumsum(density) / density.sum()
    draws = grid[np.searchsorted(cumulative, rng.random((4, 1000))), 0][..., None]
    found = corelet.review_model(draws, log_likelihood, n=4, most=4000, evidence=True, log_prior=log_prior)
    truth = log(density.sum() * (grid[1, 0] - grid[0, 0]))
    assert abs(found.evidence.log - truth) < 4 * found.evidence.se and found.evidence.se < 0.02


def test_weights_make_the_draws_those_of_the_posterior():
    draws, truth = conjugate(X, 2.0)
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    shifted = mean + 0.8 * sd + 1.2 * (draws - mean)
    precision = np.linalg.inv(np.cov(draws.reshape(-1, 3).T))

    def log_normal(x):
        return -0.5 * np.einsum("csi,ij,csj->cs", x, precision, x)

    weights = log_normal(shifted - mean) - log_normal((shifted - mean - 0.8 * sd) / 1.2)
    found = reviewed(X, 2.0, shifted, log_weights=weights, most=2000)
    assert abs(found.evidence.log - truth) < 5 * found.evidence.se


@pytest.mark.parametrize(
    "keywords, text",
    [
        (dict(log_prior=None), "evidence needs log_prior"),
        (dict(log_prior=lambda theta: np.zeros(3)), "log_prior returned an array of shape"),
        (dict(log_prior=lambda theta: np.full(len(theta), np.nan)), "log_prior is not finite at draw 0"),
    ],
)
def test_what_no_evidence_can_be_had_of_is_refused(keywords, text):
    with pytest.raises(corelet.CoreletError, match=text):
        reviewed(X, 2.0, conjugate(X, 2.0)[0], **keywords)


@pytest.mark.parametrize("shift, scale", [(0.0, 0.6), (1.0, 1.0), (0.0, 1.6)])
def test_evidence_by_draws_of_another_posterior_is_not_relied_on(shift, scale):
    draws = conjugate(X, 2.0)[0]
    right = reviewed(X, 2.0, draws)
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    wrong = reviewed(X, 2.0, mean + shift * sd + scale * (draws - mean))
    assert wrong.evidence.doubtful and "certify the draws" in repr(wrong)
    assert not right.evidence.doubtful and "certify" not in repr(right)
    with pytest.warns(UserWarning, match="the log evidence of b is not reliable"):
        corelet.compare({"a": right, "b": wrong})


def test_draws_that_do_not_move_have_no_evidence_and_a_line_says_so():
    draws = conjugate(X, 2.0)[0]
    draws[..., 1] = 0.3
    found = reviewed(X, 2.0, draws)
    assert found.evidence is None and "not to be had" in repr(found)


def test_reviews_of_models_of_other_rows_are_not_compared():
    draws = conjugate(X, 2.0)[0]
    with pytest.raises(corelet.CoreletError, match="the outcomes of b are not those of a"):
        corelet.compare({"a": reviewed(X, 2.0, draws), "b": reviewed(X, 2.0, draws, y=Y[::-1].copy())})
