"""`corelet.sparse_nnls`: against SciPy's NNLS and brute force."""

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

import corelet


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    return rng.normal(size=(20, 12)), rng.normal(size=20)


def test_all_columns_is_nnls(problem):
    Phi, y = problem
    expected, residual = nnls(Phi, y)
    solution = corelet.sparse_nnls(Phi, y, k=12)
    assert solution.dense(12) == pytest.approx(expected, abs=1e-10)
    assert solution.residual == pytest.approx(residual)
    assert solution.target_norm == pytest.approx(np.linalg.norm(y))


def test_few_columns_are_the_best_ones(problem):
    Phi, y = problem
    best = min(nnls(Phi[:, list(support)], y)[1] for support in itertools.combinations(range(12), 3))
    solution = corelet.sparse_nnls(Phi, y, k=3)
    assert solution.residual == pytest.approx(best)
    assert np.linalg.norm(y - Phi @ solution.dense(12)) == pytest.approx(solution.residual)


def test_the_path_has_every_size(problem):
    Phi, y = problem
    path = corelet.sparse_nnls(Phi, y, k=4).path
    assert [len(point.ids) for point in path] == [1, 2, 3, 4]
    for point in path:
        assert np.linalg.norm(y - Phi[:, point.ids] @ point.weights) == pytest.approx(point.residual)
    residuals = [point.residual for point in path]
    assert residuals == sorted(residuals, reverse=True)


def test_every_layout_gives_the_same(problem):
    Phi, y = problem
    expected = corelet.sparse_nnls(Phi, y, k=3)
    for other in (np.asfortranarray(Phi), np.repeat(Phi, 2, axis=1)[:, ::2], Phi.tolist()):
        assert np.array_equal(corelet.sparse_nnls(other, y, k=3).weights, expected.weights)
    assert corelet.sparse_nnls(Phi, k=3).target_norm == pytest.approx(np.linalg.norm(Phi.sum(axis=1)))


@pytest.mark.parametrize("method", ["uniform", "importance-nnls", "frank-wolfe", "giga", "iht", "a-iht", "a-iht-2", "omp"])
def test_every_method_keeps_its_promise(problem, method):
    Phi, _ = problem
    solution = corelet.sparse_nnls(np.abs(Phi), k=4, method=method, seed=2)
    assert 0 < len(solution.ids) <= 4 and (solution.weights > 0).all() and solution.status in repr(solution)
    assert np.linalg.norm(np.abs(Phi).sum(axis=1) - np.abs(Phi) @ solution.dense(12)) == pytest.approx(solution.residual)


def test_the_total_can_be_held(problem):
    solution = corelet.sparse_nnls(np.abs(problem[0]), k=5, method="a-iht", total=12.0)
    assert solution.weights.sum() == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "text"),
    [
        ((np.ones(3),), {}, ValueError, r"Phi has shape \(3,\)"),
        ((np.ones((3, 4)), np.ones(4)), {"k": 2}, ValueError, "the target has 4 entries, the columns of the dictionary have 3"),
        ((np.full((3, 4), np.nan),), {"k": 2}, ValueError, "coordinate 0 of column 0 is NaN"),
        ((np.ones((3, 4)), [1, np.inf, 0]), {"k": 2}, ValueError, "entry 1 of the target is inf"),
        ((np.ones((3, 4)),), {"k": 5}, ValueError, "k must be between 1 and 4"),
        ((np.ones((3, 0)),), {"k": 1}, ValueError, "the dictionary is empty"),
        ((np.ones((3, 4), object),), {"k": 1}, ValueError, "dtype object"),
        ((np.ones((3, 4)),), {"k": "a"}, TypeError, "k is 'a'"),
        ((np.ones((3, 4)),), {"k": 1, "total": 3.0}, ValueError, "pursuit cannot hold the total"),
        ((np.ones((3, 4)),), {"k": 1, "max_passes": -1.0}, ValueError, "limits.passes = -1"),
    ],
)
def test_bad_input(arguments, keywords, kind, text):
    with pytest.raises(kind, match=text):
        corelet.sparse_nnls(*arguments, **keywords)
