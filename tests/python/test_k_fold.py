"""`corelet.k_fold` and `corelet review --k-fold`, against posteriors of the other folds in closed form."""

from __future__ import annotations

import json

import numpy as np
import pytest

import corelet

SIGMA, PRIOR = 0.7, 1.0
ASKED = dict(model="linear", sigma=SIGMA, prior_sd=PRIOR, intercept=False, standardise="none")


def data(n: int, seed: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 0.5 * X[:, 0] - 0.2 * X[:, 1] + SIGMA * rng.normal(size=n)


def exact(X, y, folds):
    """log p(yᵢ | rows of other folds): the posterior is Gaussian."""
    each = np.empty(len(y))
    for fold in np.unique(folds):
        out = folds == fold
        covariance = np.linalg.inv(X[~out].T @ X[~out] / SIGMA**2 + np.eye(X.shape[1]) / PRIOR**2)
        mean = covariance @ X[~out].T @ y[~out] / SIGMA**2
        variance = SIGMA**2 + np.einsum("ij,jk,ik->i", X[out], covariance, X[out])
        each[out] = -0.5 * ((y[out] - X[out] @ mean) ** 2 / variance + np.log(2 * np.pi * variance))
    return each


def test_folds_are_predicted_as_by_the_posterior_of_the_others():
    X, y = data(500)
    found = corelet.k_fold(X, y, folds=5, k=60, seed=2, **ASKED)
    truth = exact(X, y, found.fold_i)
    assert np.bincount(found.fold_i).tolist() == [100] * 5 and {fold.grade for fold in found.folds} == {"A"}
    np.testing.assert_allclose(found.elpd_i, truth, atol=0.03)
    assert abs(found.elpd - truth.sum()) < 0.3 and found.elpd == pytest.approx(found.elpd_i.sum())
    assert found.se == pytest.approx(np.sqrt(len(y)) * truth.std(), rel=0.02)
    assert "5-fold" in repr(found) and "5 A" in repr(found)


class Linear:
    """The same model as functions: exact draws of weighted rows, log-likelihoods, and their gradient."""

    def __init__(self, X, y):
        self.X, self.y, self.rng = X, y, np.random.default_rng(7)

    def sample(self, rows, weights, start):
        X = self.X[rows]
        covariance = np.linalg.inv((X * weights[:, None]).T @ X / SIGMA**2 + np.eye(X.shape[1]) / PRIOR**2)
        mean = covariance @ (X * weights[:, None]).T @ self.y[rows] / SIGMA**2
        return self.rng.multivariate_normal(mean, covariance, size=(4, 500))

    def log_likelihood(self, theta, rows):
        residual = self.y[rows] - theta @ self.X[rows].T
        return -0.5 * (residual / SIGMA) ** 2 - 0.5 * np.log(2 * np.pi * SIGMA**2)

    def gradient(self, theta, rows, weights):
        residual = (self.y[rows] - theta @ self.X[rows].T) * weights
        return residual @ self.X[rows] / SIGMA**2 - theta / PRIOR**2


def test_folds_of_any_model():
    X, y = data(900)
    model = Linear(X, y)
    draws = model.sample(np.arange(len(y)), np.ones(len(y)), None)
    asked = dict(n=len(y), y=y, folds=3, k=80, gradient=model.gradient)
    found = corelet.k_fold_model(draws, model.sample, model.log_likelihood, **asked)
    truth = exact(X, y, found.fold_i)
    assert {fold.grade for fold in found.folds} == {"A"} and [fold.n for fold in found.folds] == [300] * 3
    np.testing.assert_allclose(found.elpd_i, truth, atol=0.05)
    assert abs(found.elpd - truth.sum()) < 0.5 and "3-fold" in repr(found) and "3 A" in repr(found)
    less = Linear(X[:, :1], y)
    draws = less.sample(np.arange(len(y)), np.ones(len(y)), None)
    one = corelet.k_fold_model(draws, less.sample, less.log_likelihood, **{**asked, "gradient": less.gradient})
    assert corelet.compare({"one": one, "both": found}).names == ["both", "one"]
    groups = np.arange(len(y)) // 3
    grouped = corelet.k_fold_model(draws, less.sample, less.log_likelihood, groups=groups, **{**asked, "gradient": less.gradient})
    assert all(len(set(grouped.fold_i[groups == group])) == 1 for group in range(300))
    with pytest.raises(corelet.CoreletError, match="4 folds cannot be made: there must be between 2 and 3, as many as there are groups"):
        corelet.k_fold_model(draws, less.sample, less.log_likelihood, groups=np.arange(len(y)) % 3, n=len(y), folds=4)
    with pytest.raises(corelet.CoreletError, match="y has shape"):
        corelet.k_fold_model(draws, less.sample, less.log_likelihood, n=len(y), y=y[:-1], folds=3)


def test_models_are_compared_by_the_same_folds():
    X, y = data(500)
    both, one = (corelet.k_fold(Z, y, folds=5, k=60, **ASKED) for Z in (X, np.ascontiguousarray(X[:, :1])))
    np.testing.assert_array_equal(both.fold_i, one.fold_i)
    compared = corelet.compare({"one": one, "both": both})
    less = exact(X[:, :1], y, one.fold_i) - exact(X, y, both.fold_i)
    assert compared.names == ["both", "one"] and abs(compared.difference[1] - less.sum()) < 0.3
    assert compared.se[1] == pytest.approx(np.sqrt(len(y)) * less.std(), rel=0.05)
    with pytest.raises(corelet.CoreletError, match="different folds"):
        corelet.compare({"both": both, "one": corelet.k_fold(X, y, folds=5, k=60, seed=9, **ASKED)})
    review = corelet.review(corelet.fit(X, y, k=60, **ASKED), X, y, **ASKED)
    with pytest.raises(corelet.CoreletError, match="both is of k_fold, loo is of loo"):
        corelet.compare({"both": both, "loo": review})


def test_rows_of_a_group_are_in_one_fold():
    X, y = data(300)
    groups = np.arange(300) // 3
    found = corelet.k_fold(X, y, folds=4, k=50, groups=groups, **ASKED)
    assert (found.fold_i.reshape(-1, 3) == found.fold_i[::3, None]).all()


@pytest.mark.parametrize(
    "asked, text", [(dict(folds=1), "1 folds cannot be made"), (dict(folds=301), "between 2 and 300"), (dict(k=0), "k|points")]
)
def test_folds_that_cannot_be_are_refused(asked, text):
    X, y = data(300)
    with pytest.raises(corelet.CoreletError, match=text) as refused:
        corelet.k_fold(X, y, **{"folds": 4, **asked}, **ASKED)
    assert "\n" not in str(refused.value)
    with pytest.raises(TypeError, match="no keyword 'nothing'"):
        corelet.k_fold(X, y, nothing=1)


def test_the_command_says_the_same(command, tmp_path):
    X, y = data(300)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    draws = corelet.fit(X, y, k=60, **ASKED).draws["original"].reshape(-1, 2)
    np.savetxt(tmp_path / "draws.csv", draws, delimiter=",", header="x1,x2", comments="")
    model = ("--model", "linear", "--sigma", SIGMA, "--prior-sd", PRIOR, "--no-intercept", "--standardise", "none")
    review = ("review", "draws.csv", "data.npz", *model, "--k-fold", 5, "-k", 60, "-o", "rows.csv", "--json", "r.json")
    done = command(*review, cwd=tmp_path)
    assert done.returncode == 0 and "  5-fold         elpd" in done.stdout, done.stdout + done.stderr
    found = corelet.k_fold(X, y, folds=5, k=60, **ASKED)
    table = np.genfromtxt(tmp_path / "rows.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(table["fold"], found.fold_i)
    np.testing.assert_allclose(table["elpd_k_fold"], found.elpd_i)
    summary = json.loads((tmp_path / "r.json").read_text())["k_fold"]
    assert summary["elpd"] == pytest.approx(found.elpd) and [fold["grade"] for fold in summary["folds"]] == ["A"] * 5
