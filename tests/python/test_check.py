"""The verdict cannot be talked into an A: draws that are none, matrices that are others, data that are not the same."""

import numpy as np
import pytest

import corelet
from either import from_groups

N = 1500
SD = 0.026


class Mean:
    """The mean of heavy-tailed data: one parameter, whose posterior is nearly N(m, SD²)."""

    def __init__(self, seed=2, n=N):
        self.rng = np.random.default_rng(seed)
        self.x = self.rng.standard_t(4, size=n)
        grid = np.linspace(-0.3, 0.3, 2001)
        total = self.loglik(grid[:, None]).sum(axis=1)
        self.weights = np.exp(total - total.max())
        self.grid = grid

    def loglik(self, theta, rows=slice(None)):
        return -2.5 * np.log1p((self.x[rows] - np.reshape(theta, (-1, 1))) ** 2 / 4)

    def draw(self, *shape):
        """Exact draws of the posterior of all rows."""
        return self.rng.choice(self.grid, p=self.weights / self.weights.sum(), size=shape)


@pytest.fixture(scope="module")
def mean():
    return Mean()


@pytest.fixture(scope="module")
def coreset(mean):
    return corelet.build_from_loglik(mean.loglik(mean.draw(1000)), k=12)


def idata_of(mean, theta, loglik=True, **more):
    groups = {"posterior": {"m": theta}, **more}
    if loglik:
        groups["log_likelihood"] = {"x": mean.loglik(theta.ravel()).reshape(*theta.shape, -1)}
    return from_groups(**groups)


def test_chains_give_an_a(mean, coreset):
    theta = mean.draw(4, 500)
    verdict = corelet.check(coreset, loglik=idata_of(mean, theta))
    assert verdict.grade == "A" and not verdict.reasons
    assert verdict.r_hat < 1.02 and verdict.ess_bulk > 1000 and verdict.ess_tail > 1000
    by_function = corelet.check(
        coreset, loglik=lambda theta, rows: mean.loglik(theta["m"], rows), idata=idata_of(mean, theta, loglik=False)
    )
    assert by_function.grade == "A" and by_function.variance == pytest.approx(verdict.variance, rel=1e-9)
    array = corelet.check(coreset, loglik=mean.loglik(theta.ravel()).reshape(4, 500, -1))
    assert array.grade == "B" and array.reasons == ["on_trust"]  # Without the parameters the sampler cannot be tested.
    shown = repr(verdict)
    assert "Pareto" not in shown and "log evidence   of all rows = that of the weighted rows" in shown


def test_draws_stuck_near_one_point_are_found_out(mean, coreset):
    for scale in (1e-6, 0.05, 0.3):
        stuck = mean.draw(4, 500) * scale + (1 - scale) * float(np.average(mean.grid, weights=mean.weights))
        verdict = corelet.check(coreset, loglik=idata_of(mean, stuck))
        assert verdict.grade == "C" and "narrow" in verdict.reasons, scale
        assert "hardly varies" in repr(verdict)
        bare = corelet.check(coreset, loglik=mean.loglik(stuck.ravel()))
        assert bare.grade == "C"
    halved = mean.draw(4, 500) * 0.6
    assert corelet.check(coreset, loglik=idata_of(mean, halved)).grade != "A"


def test_draws_that_are_too_wide_get_no_a(mean, coreset):
    wide = mean.draw(4, 500) * 5
    verdict = corelet.check(coreset, loglik=idata_of(mean, wide))
    assert verdict.grade != "A" and "wide" in verdict.reasons


def test_chains_apart_and_chains_that_crawl(mean, coreset):
    theta = mean.draw(2, 500)
    verdict = corelet.check(coreset, loglik=idata_of(mean, theta + np.array([[0.0], [0.1]])))
    assert verdict.grade == "C" and "not_mixed" in verdict.reasons and "the draws are at fault" in verdict.headline
    crawling = np.repeat(mean.draw(4, 10), 50, axis=1)
    verdict = corelet.check(coreset, loglik=idata_of(mean, crawling))
    assert verdict.grade == "C" and {"not_mixed", "few_draws"} & set(verdict.reasons)


def test_another_parameter_that_has_not_mixed_is_seen(mean, coreset):
    theta = mean.draw(2, 500)
    other = mean.rng.normal(size=(2, 500)) + np.array([[0.0], [5.0]])
    idata = from_groups(
        posterior={"m": theta, "other": other},
        log_likelihood={"x": mean.loglik(theta.ravel()).reshape(2, 500, -1)},
    )
    assert "not_mixed" in corelet.check(coreset, loglik=idata).reasons


def test_divergences_take_the_grade(mean, coreset):
    theta = mean.draw(4, 500)
    idata = idata_of(mean, theta, sample_stats={"diverging": mean.rng.random((4, 500)) < 0.05})
    verdict = corelet.check(coreset, loglik=idata)
    assert verdict.grade == "C" and verdict.reasons == ["diverged"]


def test_other_data_are_refused(mean, coreset):
    theta = mean.draw(4, 500)
    matrix = mean.loglik(theta.ravel()).reshape(4, 500, -1)
    with pytest.raises(corelet.CoreletError, match="not of the data that the coreset was built on"):
        corelet.check(coreset, loglik=mean.rng.permuted(matrix, axis=2)[:, :, ::-1])
    with pytest.raises(corelet.CoreletError, match="not of the data that the coreset was built on"):
        other = Mean(seed=77)
        corelet.check(coreset, loglik=other.loglik(theta.ravel()))
    with pytest.raises(corelet.CoreletError, match="not of the data"):
        corelet.check(coreset, loglik=mean.loglik(mean.draw(N)).T)
    with pytest.raises(corelet.CoreletError, match="it is transposed"):
        corelet.check(coreset, loglik=mean.loglik(mean.draw(700)).T)
    with pytest.raises(corelet.CoreletError, match="the posterior has 4 chains of 500 draws, the log-likelihood 4 of 250"):
        idata = idata_of(mean, theta, loglik=False)
        corelet.check(coreset, loglik=matrix[:, :250], idata=idata)
    with pytest.raises(corelet.CoreletError, match="needs the draws of the weighted fit"):
        corelet.check(coreset, loglik=lambda theta, rows: matrix)


def test_a_v_far_below_what_was_held_out_is_doubted(mean):
    rough = corelet.build_from_loglik(mean.loglik(mean.draw(1000) * 40), k=3)
    theta = mean.draw(4, 500)
    verdict = corelet.check(rough, loglik=idata_of(mean, theta))
    assert "disagrees" in verdict.reasons and verdict.grade != "A"


def test_a_prior_that_dominates_takes_the_a_away(mean):
    """Draws of a posterior that is mostly prior: the data hardly say anything, so no coreset was tested."""
    theta = mean.draw(4, 500) * 0.55
    cs = corelet.build_from_loglik(mean.loglik(theta.ravel()), k=12)
    verdict = corelet.check(cs, loglik=idata_of(mean, theta))
    assert verdict.grade in "BC" and {"prior_dominates", "narrow"} & set(verdict.reasons)
