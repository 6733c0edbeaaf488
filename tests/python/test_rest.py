"""`rest=`: a Gaussian beside the rows, or in their place, and the term that other tools add."""

import numpy as np
import pytest

import corelet


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(3)
    X = random.normal(size=(4000, 6)) * np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]) + np.arange(6)
    eta = (X - np.arange(6)) @ np.array([0.5, -0.3, 0.2, 0.0, 0.1, -0.4]) + 0.2
    return X, (random.random(4000) < 1 / (1 + np.exp(-eta))).astype(int)


@pytest.fixture(scope="module")
def alone(data):
    return corelet.build(*data, model="logistic", k=0, rest="gaussian")


def log_likelihood(X, y, beta):
    eta = X @ beta[:-1] + beta[-1]
    return float(np.sum(y * eta - np.logaddexp(0, eta)))


def test_a_gaussian_alone_stands_for_all_rows(data, alone):
    assert len(alone) == 0 and alone.summary["rest"] == "gaussian"
    assert alone.quality.nats < 0.005 and alone.quality.kl_forward is None
    verdict = corelet.check(alone, *data)
    assert verdict.grade == "A" and verdict.variance < 0.01
    full = corelet.build(*data, model="logistic", k=200)
    a, b = (np.asarray(coreset.sample().posterior["original"]).reshape(-1, 7) for coreset in (alone, full))
    assert np.abs(a.mean(axis=0) - b.mean(axis=0)).max() < 0.15 * b.std(axis=0).max()
    assert np.abs(a.std(axis=0) / b.std(axis=0) - 1).max() < 0.1
    assert 0 < alone.predict(data[0][:5]).mean.min() < 1
    assert "Gaussian" in repr(alone) and "Gaussian" in alone._repr_html_()


def test_the_term_is_the_log_likelihood_on_both_scales(data, alone):
    X, y = data
    rest = alone.rest
    assert rest.names == alone.names and rest.scale == "standardised"
    assert np.linalg.eigvalsh(rest.curvature).max() <= 1e-9 * np.abs(rest.curvature).max()
    original = rest.original
    random = np.random.default_rng(1)
    spread = np.linalg.cholesky(np.linalg.inv(-original.curvature))
    draws = original.centre + random.normal(size=(20, 7)) @ spread.T
    order = [alone.names.index(name) for name in alone.names]
    said = original.logp(draws[:, order])
    true = np.array([log_likelihood(X, y, draw) for draw in draws])
    assert alone.names[-1] == "(intercept)"
    assert np.std(said - true) < 0.1 < np.std(true)
    with pytest.raises(corelet.CoreletError, match="its last axis must have the 7 parameters"):
        rest.logp(np.zeros(3))


def test_other_tools_add_the_same_term(alone):
    rest = alone.rest
    theta = rest.centre + 0.01 * np.arange(7)
    stan = rest.stan("beta")
    assert "target += dot_product(rest_gradient, (beta - rest_centre))" in stan.model
    assert stan.values["rest_size"] == 7 and "matrix[rest_size, rest_size] rest_curvature;" in stan.data
    pymc = pytest.importorskip("pymc")
    with pymc.Model() as model:
        beta = pymc.Normal("beta", shape=7)
        rest.pymc(beta)
    both = model.compile_logp()({"beta": theta})
    assert both == pytest.approx(rest.logp(theta) - 0.5 * np.sum(theta**2) - 3.5 * np.log(2 * np.pi))
    numpyro = pytest.importorskip("numpyro")
    seen = numpyro.infer.util.log_density(lambda: rest.numpyro(theta), (), {}, {})[0]
    assert float(seen) == pytest.approx(rest.logp(theta), rel=1e-4)


def test_files_carry_it(data, alone, tmp_path):
    alone.to_parquet(tmp_path / "core.parquet")
    with pytest.raises(corelet.CoreletError, match="CSV has no place for the Gaussian part"):
        alone.to_parquet(tmp_path / "core.csv")
    counts = np.random.default_rng(5).poisson(np.exp(0.3 * data[0][:300, 0]))
    few = corelet.build(data[0][:300], counts, model="poisson", k=60, rest="gaussian")
    assert 0 < len(few) <= 60 and few.rest is not None
    assert few.sample(draws=200, chains=2).posterior["original"].shape == (2, 200, 7)
    assert corelet.build(*data, model="logistic", k=30).rest is None
    with pytest.raises(corelet.CoreletError, match="k is 0"):
        corelet.build(*data, model="logistic", k=0)


def test_the_first_line_names_rows_and_gaussian(data, alone):
    assert "the posterior of this Gaussian matches" in corelet.check(alone, *data).headline
    both = corelet.build(*data, model="logistic", k=20, rest="gaussian")
    points = len(both)
    said = corelet.check(both, *data).headline
    whose = "this Gaussian" if points == 0 else f"{points} weighted row{'s' if points > 1 else ''} and a Gaussian"
    assert f"the posterior of {whose} matches" in said, said


def test_the_verdict_names_what_moves_most_as_reweighted_draws_do():
    random = np.random.default_rng(5)
    X = random.normal(size=(150, 4))
    y = random.poisson(np.exp(0.4 * X[:, 0] - 0.3))
    coreset = corelet.build(X, y, model="poisson", k=0, rest="gaussian")
    verdict = corelet.check(coreset, X, y, draws=500)
    name, by, error = verdict.largest_shift
    assert 0.001 < verdict.variance < 1 and 0 < error < 0.05
    draws = np.asarray(verdict.draws["posterior"]["standardised"]).reshape(-1, 5)
    if verdict.resampled:
        pytest.fail("the draws were resampled, and so tell nothing of their weights")
    shifts = (np.exp(verdict.log_weights) @ draws - draws.mean(axis=0)) / draws.std(axis=0)
    assert abs(shifts[coreset.names.index(name)] - by) < 0.3 * abs(by) + 0.01
    assert np.abs(shifts).max() < abs(by) + 0.02 and abs(by) <= verdict.variance**0.5
    widest, factor, _ = verdict.largest_ratio
    assert widest in coreset.names and 0.7 < factor < 1.4
    said = [line for line in verdict.lines if line.startswith("  parameters")]
    assert len(said) == 1 and name in said[0] and widest in said[0]


def test_rows_with_a_place_of_their_own_have_a_gaussian_beside_them():
    """Student-t rows with ν estimated: forty rows of thousands of rows' weight each have much of their mass at σ = 0, which all rows have not."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200_000, 3))
    y = X @ [1, -0.5, 0.2] + 0.5 + 0.7 * rng.standard_t(4, size=200_000)
    settings = dict(model="student", degrees="estimated", chains=2, draws=500, seed=1)
    with pytest.warns(UserWarning, match="the posterior of the weighted rows, and of these alone"):
        alone = corelet.fit(X, y, rest="none", **settings)
    assert alone.verdict.grade == "C" and list(alone.verdict.reasons) == ["own_tail"], alone
    assert "a Gaussian for all rows (rest: gaussian), or more points" in str(alone) and "look at rows whose feature" not in str(alone)
    fit = corelet.fit(X, y, **settings)
    assert fit.verdict.grade == "A" and fit.coreset.rest is not None and len(fit.rounds) == 2, fit
    assert "a Gaussian for all rows beside them" in str(fit)
