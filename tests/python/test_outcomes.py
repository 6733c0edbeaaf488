"""Outcomes that a model of any tool draws, against those that were observed: models that fit, and models that do not."""

from __future__ import annotations

from math import lgamma

import numpy as np
import pytest

import corelet

N = 12_000
rng = np.random.default_rng(8)
X = rng.normal(size=N)
MEAN = np.exp(0.3 + 0.4 * X)
LOG_FACTORIALS = np.array([lgamma(k + 1.0) for k in range(2000)])


def near(*values, sd=0.01):
    """Draws about the truth, as of a posterior of many rows."""
    return np.array(values) + sd * np.random.default_rng(1).normal(size=(4, 100, len(values)))


def poisson(theta, rows):
    return np.exp(theta[:, :1] + theta[:, 1:] * X[rows])


def reviewed(counts, **keywords):
    def log_likelihood(theta, rows):
        mean = poisson(theta, rows)
        return counts[rows] * np.log(mean) - mean - LOG_FACTORIALS[np.asarray(counts[rows], int)]

    def simulate(theta, rows):
        mean = poisson(theta, rows)
        return np.random.default_rng(int(np.arange(N)[rows][0])).poisson(mean)

    asked = dict(n=N, y=counts, simulate=simulate)
    return corelet.review_model(near(0.3, 0.4), log_likelihood, **{**asked, **keywords})


def test_a_model_that_fits_has_nothing_far_off():
    fits = reviewed(rng.poisson(MEAN)).fits
    assert fits.misfits == [] and abs(fits.dispersion - 1) < 0.1 and fits.n == N
    assert abs(fits.mean[0] - fits.mean[1]) < 4 * fits.mean[2] and abs(fits.zeros[0] - fits.zeros[1]) < 5 * fits.zeros[2]
    assert fits.pit.sum() == N and abs(fits.pit / fits.pit.mean() - 1).max() < 0.2


def test_counts_that_vary_more_and_zeros_that_are_too_many_are_said():
    vary = reviewed(rng.poisson(rng.gamma(0.7, MEAN / 0.7))).fits
    assert "vary more" in vary.misfits[0] and vary.dispersion > 2
    # The variance of a negative-binomial count is μ + μ²/α.
    weights = 1 / (MEAN + MEAN.mean())
    assert abs(vary.dispersion / (1 + (weights * MEAN**2 / 0.7).sum() / (weights * MEAN).sum()) - 1) < 0.1
    y = np.where(rng.random(N) < 0.4, 0, rng.poisson(MEAN / 0.6))
    inflated = reviewed(y)
    assert any(f"{(y == 0).sum():,}".replace(",", " ") + " zeros" in line for line in inflated.fits.misfits), inflated.fits.misfits
    assert any("zeros" in line for line in repr(inflated).splitlines())


def test_numbers_with_heavier_tails_are_said():
    def log_likelihood(theta, rows):
        return -0.5 * (y[rows] - theta[:, :1]) ** 2

    def simulate(theta, rows):
        count = len(np.arange(N)[rows])
        return theta[:, :1] + np.random.default_rng(count).normal(size=(len(theta), count))

    for y, said in ((rng.normal(size=N), []), (rng.standard_t(2, size=N), ["vary more", "tails are heavier"])):
        fits = corelet.review_model(near(0.0), log_likelihood, n=N, y=y, simulate=simulate).fits
        assert fits.zeros is None and len(fits.misfits) >= len(said)
        assert all(any(part in line for line in fits.misfits) for part in said), fits.misfits
        assert said or fits.misfits == []


def test_two_classes_are_calibrated_by_their_likelihoods():
    p = 1 / (1 + np.exp(-X))
    y = rng.random(N) < p

    def log_likelihood(theta, rows):
        eta = theta[:, :1] * X[rows]
        return np.where(y[rows], eta, 0.0) - np.logaddexp(0, eta)

    for slope, right in ((1.0, True), (2.5, False)):
        found = corelet.review_model(near(slope), log_likelihood, n=N, y=y, simulate=lambda theta, rows: 1 / 0)
        assert (found.fits.misfits == []) == right, found.fits.misfits
        assert sum(rows for rows, *_ in found.fits.calibration) == N and found.fits.dispersion is None


def test_weights_choose_the_draws():
    y = rng.poisson(MEAN)
    off = near(0.3, 0.4)
    off[2:, :, 0] += 1.0
    weights = np.zeros((4, 100))
    weights[2:] = -50.0

    def log_likelihood(theta, rows):
        mean = poisson(theta, rows)
        return y[rows] * np.log(mean) - mean

    def simulate(theta, rows):
        return np.random.default_rng(0).poisson(poisson(theta, rows))

    asked = dict(n=N, y=y, simulate=simulate)
    assert corelet.review_model(off, log_likelihood, log_weights=weights, **asked).fits.misfits == []
    assert corelet.review_model(off, log_likelihood, **asked).fits.misfits != []


def test_no_outcomes_are_drawn_where_none_are_wanted_and_bad_ones_are_refused():
    y = rng.poisson(MEAN)
    assert reviewed(y, outcomes=0).fits is None and reviewed(y, y=None, simulate=None).fits is None
    for keywords, text in [
        (dict(y=y[:5]), "y has shape"),
        (dict(y=None), "together"),
        (dict(simulate=lambda theta, rows: np.zeros(3)), "simulate returned shape"),
        (dict(simulate=lambda theta, rows: np.full((len(theta), len(y[rows])), np.nan)), "not finite"),
        (dict(y=np.where(np.arange(N) == 3, np.nan, y)), "y of row 3 is not finite"),
    ]:
        with pytest.raises(corelet.CoreletError, match=text):
            reviewed(y, **keywords)


def test_a_column_shows_where_a_model_is_off():
    counts = rng.poisson(MEAN)
    season = np.where(np.arange(N) % 4 == 0, "winter", "summer")
    counts[season == "winter"] += 1
    found = reviewed(counts, by=season).by
    assert list(found) == ["summer", "winter"] and found["summer"].misfits == [] and found["summer"].n == 9000
    assert "on average" in found["winter"].misfits[0]
    winter = season == "winter"
    assert found["winter"].mean[0] == pytest.approx(counts[winter].mean())
    assert found["winter"].mean[1] == pytest.approx(MEAN[winter].mean(), rel=0.02)
    ranges = reviewed(counts, by=X).by
    assert len(ranges) == 10 and sum(level.n for level in ranges.values()) == N
    for keywords, text in [
        (dict(by=season[:7]), "by has 7 values for 12000 rows"),
        (dict(by="season"), "there is no table of rows here"),
        (dict(by=season, outcomes=0), "outcomes is 0"),
        (dict(by=season, y=None, simulate=None), "outcomes are not checked"),
    ]:
        with pytest.raises(corelet.CoreletError, match=text):
            reviewed(counts, **keywords)
