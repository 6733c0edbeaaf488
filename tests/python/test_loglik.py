"""`corelet.build_from_loglik`: a matrix, a function and an InferenceData, and whatever can be wrong with them."""

import sys

import numpy as np
import pytest

import corelet
from either import from_groups


@pytest.fixture(scope="module")
def student():
    """A Student-t regression: draws near its posterior, its data, and its log-likelihood."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=1500)
    y = 1.0 + 2.0 * x + rng.standard_t(4, size=1500)
    theta = np.array([1.0, 2.0]) + 0.04 * rng.normal(size=(1000, 2))

    def log_likelihood(theta, rows):
        error = y[rows] - theta[:, :1] - theta[:, 1:] * x[rows]
        return -2.5 * np.log1p(error**2 / 4)

    return theta, len(x), log_likelihood


def true_nats(cs, theta, n, log_likelihood, seed=1):
    """½ Var of the error of the log-likelihood over draws that nobody has seen."""
    fresh = theta.mean(axis=0) + 0.04 * np.random.default_rng(seed).normal(size=(4000, 2))
    errors = log_likelihood(fresh, slice(0, n)).sum(axis=1)
    errors -= log_likelihood(fresh, cs.rows) @ cs.weights
    return 0.5 * errors.var()


def test_the_estimate_on_held_out_draws_is_honest(student):
    theta, n, log_likelihood = student
    matrix = log_likelihood(theta, slice(0, n))
    for k in (3, 8):
        cs = corelet.build_from_loglik(matrix, k=k)
        errors = matrix[800:].sum(axis=1) - matrix[800:][:, cs.rows] @ cs.weights
        assert cs.quality.nats == pytest.approx(0.5 * errors.var(), rel=1e-6)
        # Below a millionth of a nat, 200 draws tell the order of magnitude.
        assert cs.quality.nats == pytest.approx(true_nats(cs, theta, n, log_likelihood), rel=0.5, abs=1e-6)
        assert (cs.quality.heldout_draws, len(cs), cs.method) == (200, k, "pursuit")
    assert "200 draws that were held out" in repr(cs)


def test_a_function_is_called_once_for_every_datum_and_chooses_the_same(student):
    theta, n, log_likelihood = student
    calls = []

    def counted(draws, rows):
        assert draws is theta
        calls.append(np.arange(n)[rows])
        return log_likelihood(draws, rows)

    expected = corelet.build_from_loglik(log_likelihood(theta, slice(0, n)), k=8)
    cs = corelet.build_from_loglik(counted, k=8, theta=theta, n=n)
    assert np.array_equal(cs.rows, expected.rows)
    assert cs.weights == pytest.approx(expected.weights, rel=1e-6)
    assert cs.quality.nats == pytest.approx(expected.quality.nats, rel=1e-6)
    # Once for the sums, and once more for the pool, which is everything where there is so little.
    assert np.array_equal(np.concatenate(calls), np.tile(np.arange(n), 2))


def test_of_many_data_a_function_is_asked_for_a_pool():
    rng = np.random.default_rng(3)
    n = 40_000
    x = rng.normal(size=n)
    y = 1.0 + 2.0 * x + rng.standard_t(4, size=n)
    theta = np.array([1.0, 2.0]) + 0.008 * rng.normal(size=(400, 2))
    asked = []

    def log_likelihood(theta, rows):
        error = y[rows] - theta[:, :1] - theta[:, 1:] * x[rows]
        asked.append(error.shape)
        return -2.5 * np.log1p(error**2 / 4)

    cs = corelet.build_from_loglik(log_likelihood, k=20, theta=theta, n=n)
    assert sum(count for _, count in asked) == n + 3000 and max(count for _, count in asked) * 400 <= 2**21
    matrix = corelet.build_from_loglik(log_likelihood(theta, slice(0, n)), k=20)
    assert cs.quality.nats < max(1e-3, 5 * matrix.quality.nats)
    errors = log_likelihood(theta[320:], slice(0, n)).sum(axis=1) - log_likelihood(theta[320:], cs.rows) @ cs.weights
    assert cs.quality.nats == pytest.approx(0.5 * errors.var(), rel=1e-6)
    giga = corelet.build_from_loglik(log_likelihood, k=20, theta=theta[:100], n=2000, method="giga")
    assert giga.method == "giga"


@pytest.mark.parametrize("shuffled", [False, True])
def test_groups_are_chosen_whole(student, shuffled):
    theta, n, log_likelihood = student
    groups = np.repeat([f"g{i:03}" for i in range(300)], 5)
    if shuffled:
        groups = np.random.default_rng(0).permutation(groups)
    matrix = log_likelihood(theta, slice(0, n))
    cs = corelet.build_from_loglik(matrix, k=8, groups=groups)
    assert len(cs.groups) == len(cs.group_weights) == 8 and len(cs) == 40
    assert np.array_equal(cs.rows, np.flatnonzero(np.isin(groups, cs.groups)))
    errors = matrix[800:].sum(axis=1) - matrix[800:][:, cs.rows] @ cs.weights
    assert cs.quality.nats == pytest.approx(0.5 * errors.var(), rel=1e-6) and cs.quality.nats < 0.01
    function = corelet.build_from_loglik(log_likelihood, k=8, theta=theta, n=n, groups=groups)
    assert np.array_equal(function.rows, cs.rows) and function.weights == pytest.approx(cs.weights, rel=1e-6)
    assert cs.sample_weight.shape == (n,)
    with pytest.raises(corelet.CoreletError, match="one entry for each of the 1500 rows"):
        corelet.build_from_loglik(matrix, k=8, groups=groups[:10])
    with pytest.raises(corelet.CoreletError, match="the group of row 3 is missing"):
        corelet.build_from_loglik(matrix, k=8, groups=np.where(np.arange(n) == 3, np.nan, 1.0))


def test_a_pilot_is_called_a_pilot(student):
    theta, n, log_likelihood = student
    cs = corelet.build_from_loglik(log_likelihood(theta, slice(0, n)), k=8, pilot=True)
    assert cs.quality.judgement.startswith("judged on a pilot") and "judged on a pilot" in repr(cs.quality)
    assert "judged on a pilot" in repr(cs) and "posterior, like moving" not in repr(cs)


def test_an_inference_data_holds_out_the_end_of_each_chain(student):
    theta, n, log_likelihood = student
    matrix = log_likelihood(theta, slice(0, n))
    idata = from_groups(posterior={"theta": theta.reshape(4, 250, 2)}, log_likelihood={"y": matrix.reshape(4, 250, n)})
    cs = corelet.build_from_loglik(idata, k=8)
    chains = matrix.reshape(4, 250, n)
    reordered = np.concatenate([chains[:, :200].reshape(800, n), chains[:, 200:].reshape(200, n)])
    expected = corelet.build_from_loglik(reordered, k=8)
    assert np.array_equal(cs.rows, expected.rows) and np.array_equal(cs.weights, expected.weights)
    assert cs.quality == expected.quality
    grid = from_groups(posterior={"theta": theta.reshape(4, 250, 2)}, log_likelihood={"y": matrix.reshape(4, 250, 3, n // 3), "z": matrix.reshape(4, 250, n)})
    assert np.array_equal(corelet.build_from_loglik(grid, k=8, var_name="y").rows, cs.rows)
    with pytest.raises(corelet.CoreletError, match=r"2 variables; name one with var_name: \['y', 'z'\]"):
        corelet.build_from_loglik(grid, k=8)
    with pytest.raises(corelet.CoreletError, match="no variable 'q'"):
        corelet.build_from_loglik(grid, k=8, var_name="q")
    with pytest.raises(corelet.CoreletError, match="no log_likelihood group"):
        corelet.build_from_loglik(from_groups(posterior={"theta": theta.reshape(4, 250, 2)}), k=8)


def test_single_precision_and_lists(student):
    theta, n, log_likelihood = student
    matrix = log_likelihood(theta, slice(0, n)).astype(np.float32)
    cs = corelet.build_from_loglik(matrix, k=5)
    assert np.array_equal(cs.rows, corelet.build_from_loglik(matrix.astype(float), k=5).rows)
    assert len(corelet.build_from_loglik(matrix[:20, :30].tolist(), k=2)) <= 2
    function = corelet.build_from_loglik(lambda t, rows: log_likelihood(t, rows).tolist(), k=2, theta=theta[:50], n=40)
    assert len(function) <= 2


class Mine(Exception):
    pass


def test_what_a_function_raises_comes_out_as_it_was(student):
    theta, n, log_likelihood = student
    calls = [0]

    def failing(draws, rows):
        calls[0] += 1
        if calls[0] == 2:
            raise Mine("on the second call")
        return log_likelihood(draws, rows)

    before = sys.getrefcount(theta)
    with pytest.raises(Mine, match="on the second call") as caught:
        corelet.build_from_loglik(failing, k=8, theta=theta, n=n)
    assert caught.traceback[-1].name == "failing"
    del caught
    assert sys.getrefcount(theta) == before

    def interrupted(draws, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corelet.build_from_loglik(interrupted, k=8, theta=theta, n=n)


def test_progress_of_a_function(student):
    theta, n, log_likelihood = student
    steps = []
    corelet.build_from_loglik(log_likelihood, k=8, theta=theta, n=n, progress=steps.append)
    assert steps and steps[-1].points == 8
    with pytest.raises(Mine):

        def fail(step):
            raise Mine

        corelet.build_from_loglik(log_likelihood, k=8, theta=theta, n=n, progress=fail)
    with pytest.warns(UserWarning, match="had not converged"):
        assert corelet.build_from_loglik(log_likelihood, k=40, theta=theta, n=n, method="giga", progress=lambda s: False).status == "stopped"


def bad_functions():
    return {
        "shape": (lambda t, r: np.zeros((3, 4)), r"shape \(3, 4\) for rows 0 to 1048; it must be \(1000, 1048\), draws by rows"),
        "transposed": (lambda t, r: np.zeros((r.stop - r.start, 1000)), "draws by rows"),
        "scalar": (lambda t, r: 1.0, r"shape \(\)"),
        "nothing": (lambda t, r: None, r"shape \(\)"),
        "text": (lambda t, r: "hello", "not an array of numbers"),
        "nan": (lambda t, r: np.where(np.arange(1000)[:, None] == 5, np.nan, np.zeros((1000, r.stop - r.start))), r"row 0 at draw 5 is not finite \(nan\)"),
        "infinite": (lambda t, r: np.where(np.arange(r.start, r.stop) == 7, -np.inf, np.zeros((1000, 1))), r"row 7 at draw 0 is not finite \(-inf\)"),
    }


@pytest.mark.parametrize("name", bad_functions())
def test_bad_functions_are_refused(name, student):
    function, text = bad_functions()[name]
    with pytest.raises(corelet.CoreletError, match=text):
        corelet.build_from_loglik(function, k=8, theta=student[0], n=student[1])


@pytest.mark.parametrize(
    ("ll", "keywords", "text"),
    [
        (np.zeros(5), {}, r"ll has shape \(5,\)"),
        (np.full((10, 5), np.nan), {}, "row 0 at draw 0 is not finite"),
        (np.where(np.arange(10)[:, None] == 9, np.inf, np.zeros((10, 5))), {}, "row 0 at draw 9 is not finite"),
        (np.zeros((10, 5), object), {}, "dtype object"),
        (np.zeros((1, 5)), {}, "1 draws are too few"),
        (np.zeros((10, 5)), {"k": 6}, "k = 6 points cannot be chosen from 5 rows"),
        (np.zeros((10, 5)), {"theta": 1}, "theta and n are for a function"),
        (np.zeros((10, 5)), {"held_out": 1.0}, "held_out is 1.0"),
        (np.zeros((10, 5)), {"var_name": "y"}, "var_name is for an InferenceData"),
        (lambda t, r: t, {}, "a function needs the draws"),
        (lambda t, r: t, {"theta": 3, "n": 5}, "whose draws cannot be counted"),
        (np.zeros((10, 0)), {}, "cannot be chosen from 0 rows"),
    ],
)
def test_bad_input(ll, keywords, text):
    with pytest.raises(corelet.CoreletError, match=text):
        corelet.build_from_loglik(ll, **{"k": 2, **keywords})


def test_nothing_is_held_out_where_nothing_is_asked_for(student):
    theta, n, log_likelihood = student
    cs = corelet.build_from_loglik(log_likelihood, k=4, theta=theta, n=n, held_out=0)
    assert cs.quality.nats is None and cs.quality.judgement == "not judged"
