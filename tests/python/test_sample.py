"""`Coreset.sample` and `corelet.check`: the command's draws, honest grades, and models that corelet does not know."""

import pickle

import arviz as az
import numpy as np
import pandas as pd
import polars as pl
import pytest

import corelet
from either import from_groups, groups_of


@pytest.fixture(scope="module")
def built(logistic):
    return corelet.build(*logistic, k=60)


@pytest.fixture(scope="module")
def idata(built):
    return built.sample(draws=600, warmup=300, chains=2, seed=3)


def test_the_posterior_is_that_of_all_rows(built, idata, logistic):
    X, y = logistic
    signs, design = 2 * y - 1, np.column_stack([(X - X.mean(0)) / X.std(0, ddof=1), np.ones(len(X))])
    theta = np.zeros(5)
    for _ in range(50):
        p = 1 / (1 + np.exp(signs * (design @ theta)))
        precision = (design.T * (p * (1 - p))) @ design + np.eye(5)
        theta = theta + np.linalg.solve(precision, design.T @ (signs * p) - theta)
    draws = idata.posterior["standardised"].stack(sample=("chain", "draw")).values
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.abs((draws.mean(axis=1) - theta) / sd).max() < 0.25
    assert draws.std(axis=1) == pytest.approx(sd, rel=0.15)


def test_arviz_opens_it(idata):
    assert idata.posterior["original"].dims == ("chain", "draw", "parameter")
    assert idata.posterior["parameter"].values.tolist() == ["x1", "x2", "x3", "x4", "(intercept)"]
    assert groups_of(idata) >= {"posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"}
    assert idata.warmup_posterior.sizes["draw"] == 300 and idata.posterior.sizes["draw"] == 600
    summary = az.summary(idata, var_names=["original"])
    assert (summary["r_hat"] < 1.05).all() and len(summary) == 5
    assert not idata.sample_stats["diverging"].values.any()


def test_original_and_standardised_predict_the_same(idata, logistic):
    X, _ = logistic
    design = np.column_stack([(X - X.mean(0)) / X.std(0, ddof=1), np.ones(len(X))])[:20]
    plain = np.column_stack([X, np.ones(len(X))])[:20]
    original, standardised = (idata.posterior[name].values.reshape(-1, 5) for name in ("original", "standardised"))
    assert plain @ original.T == pytest.approx(design @ standardised.T, abs=1e-8)


def test_draws_are_those_of_the_command(built, logistic, command, tmp_path):
    import pandas as pd
    import pyarrow.parquet

    X, y = logistic
    pd.DataFrame({**{f"x{j + 1}": X[:, j] for j in range(4)}, "y": y}).to_parquet(tmp_path / "data.parquet")
    built.to_parquet(tmp_path / "core.parquet")
    done = command(
        *("sample", "data.parquet", "--target", "y", "--coreset", "core.parquet", "-o", "draws.parquet"),
        *("--draws", 100, "--warmup", 100, "--chains", 2, "--seed", 5),
        cwd=tmp_path,
    )
    assert done.returncode in (0, 3), done.stderr
    written = pyarrow.parquet.read_table(tmp_path / "draws.parquet")
    own = built.sample(draws=100, warmup=100, chains=2, seed=5).posterior["original"].values
    assert np.array_equal(own[:, :, 1].ravel(), written["x2"].to_numpy())


@pytest.mark.parametrize("model", ["poisson", "linear", "gaussian"])
def test_every_model_is_sampled(model, logistic):
    X, _ = logistic
    y = {"poisson": np.floor(np.abs(X[:, 0]) * 3), "linear": X[:, 0] + np.sin(9 * X[:, 1])}.get(model)
    exposure = {"exposure": 1 + np.abs(X[:, 2])} if model == "poisson" else {}
    cs = corelet.build(X, y, model=model, k=50, **exposure)
    draws = cs.sample(draws=100, warmup=100, chains=2)
    assert np.isfinite(draws.posterior["original"].values).all()
    assert corelet.check(cs, X, y, draws=200, warmup=100, chains=2, **exposure).grade in "AB"


def test_a_good_coreset_is_trusted_and_a_bad_one_is_not(built, logistic):
    verdict = corelet.check(built, *logistic, draws=500, chains=2)
    assert verdict.grade == "A" and verdict.certified and not verdict.reasons
    assert built.quality.verdict is verdict and "A - trusted" in repr(built) and "A - trusted" in built._repr_html_()
    assert verdict.idata.posterior.sizes == {"chain": 2, "draw": 500, "parameter": 5}
    assert pickle.loads(pickle.dumps(built)).quality.verdict.grade == "A"
    few = corelet.build(*logistic, k=5, method="uniform")
    verdict = corelet.check(few, *logistic, draws=500, chains=2)
    assert verdict.grade == "C" and not verdict.certified and verdict.reasons
    assert verdict.headline.startswith("C - not certified") and "what to do" in repr(verdict)


def test_a_coreset_in_between_is_reweighted(logistic):
    verdict = corelet.check(corelet.build(*logistic, k=1900, method="uniform"), *logistic, chains=2)
    assert verdict.grade == "B" and verdict.certified and "variance" in verdict.reasons
    assert verdict.resampled and np.exp(verdict.log_weights).sum() == pytest.approx(1.0)
    assert "warmup_posterior" not in groups_of(verdict.idata)


def test_a_model_of_ones_own_is_checked_by_its_log_likelihood():
    rng = np.random.default_rng(2)
    x = rng.normal(size=800)

    def log_likelihood(mean):
        return -2.5 * np.log1p((x - np.reshape(mean, (-1, 1))) ** 2 / 4)

    grid = np.linspace(-0.3, 0.3, 4001)
    total = log_likelihood(grid).sum(axis=1)
    chances = np.exp(total - total.max()) / np.exp(total - total.max()).sum()
    draws = rng.choice(grid, size=1000, p=chances)
    good = corelet.build_from_loglik(log_likelihood(draws), k=12)
    weighted = rng.choice(grid, size=(4, 500), p=chances)
    matrix = log_likelihood(weighted.ravel())
    bare = corelet.check(good, loglik=matrix)
    assert bare.grade == "B" and bare.reasons == ["no_chains", "on_trust"] and "mixing could not be tested" in repr(bare)
    assert corelet.check(good, loglik=matrix.reshape(4, 500, 800)).reasons == ["on_trust"]
    idata = from_groups(posterior={"m": weighted}, log_likelihood={"x": matrix.reshape(4, 500, 800)})
    verdict = corelet.check(good, loglik=idata)
    assert verdict.grade == "A"
    bad = corelet.build_from_loglik(log_likelihood(draws), k=1, method="uniform")
    assert corelet.check(bad, loglik=matrix).grade == "C"
    errors = matrix.sum(axis=1) - matrix[:, good.rows] @ good.weights
    assert verdict.variance == pytest.approx(errors.var(), rel=1e-6)
    with pytest.raises(corelet.CoreletError, match="none to return"):
        verdict.idata  # noqa: B018
    with pytest.raises(corelet.CoreletError, match="it must be draws by 800 data"):
        corelet.check(good, loglik=matrix[:, :5])
    with pytest.raises(corelet.CoreletError, match="row 3 at draw 2 of chain 0 is not finite"):
        broken = matrix.copy()
        broken[2, 3] = np.nan
        corelet.check(good, loglik=broken)
    with pytest.raises(corelet.CoreletError, match="is checked by loglik"):
        corelet.check(good, x)
    with pytest.raises(corelet.CoreletError, match="has no model to sample"):
        good.sample()


def test_bad_settings(built, logistic):
    with pytest.raises(corelet.CoreletError, match="draws = 1 cannot be used"):
        built.sample(draws=1)
    with pytest.raises(corelet.CoreletError, match="target_accept = 1 cannot be used"):
        built.sample(target_accept=1.0)
    with pytest.raises(corelet.CoreletError, match="give the data that the coreset was built on"):
        corelet.check(built)
    with pytest.raises(corelet.CoreletError, match=r"row \d+ is named, but data has 20 rows"):
        corelet.check(built, logistic[0][:20], logistic[1][:20])


def test_the_names_of_other_tools(built, logistic):
    ours = built.sample(draws=50, warmup=40, chains=2, seed=7)
    theirs = built.sample(draws=50, tune=40, chains=2, random_seed=7)
    assert np.array_equal(ours.posterior["original"], theirs.posterior["original"])
    settings = dict(draws=100, chains=2)
    one = corelet.check(built, *logistic, **settings, warmup=40, seed=7)
    other = corelet.check(built, *logistic, **settings, tune=40, random_seed=7)
    assert one.variance == other.variance and one.r_hat == other.r_hat > 1.0


def test_a_file_is_checked_as_a_table_is(logistic, tmp_path):
    X, y = logistic
    names = [f"x{j}" for j in range(4)]
    table = dict(zip(names, X.T)) | {"y": y}
    path = tmp_path / "data.txt"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=",".join([*names, "y"]), comments="", fmt="%.17g")
    coreset = corelet.build(path, target="y", k=60, format="csv")
    settings = dict(draws=300, warmup=100, chains=2)
    by_file = corelet.check(coreset, path, format="csv", **settings)
    by_table = corelet.check(coreset, table, **settings)
    assert by_file.grade == "A" and by_file.variance == by_table.variance
    assert np.array_equal(by_file.draws["posterior"]["original"], by_table.draws["posterior"]["original"])
    with pytest.raises(corelet.CoreletError, match="X is a file, so name its columns"):
        corelet.check(coreset, path, y)
    with pytest.raises(corelet.CoreletError, match="data.txt"):
        corelet.check(coreset, path)


def test_other_data_and_another_order_are_known(logistic):
    X, y = logistic
    colour = np.where(np.arange(len(X)) % 3 == 0, "red", "blue")
    table = pd.DataFrame(X, columns=list("abcd")).assign(colour=colour, late=y > 0)
    coreset = corelet.build(table, target="late", k=40)
    settings = dict(draws=60, warmup=40, chains=2)
    corelet.check(coreset, pl.from_pandas(table), **settings)
    with pytest.raises(corelet.CoreletError, match=r"rows are in another order: column 'a' of row \d+ is"):
        corelet.check(coreset, table.iloc[::-1], **settings)
    with pytest.raises(corelet.CoreletError, match="column 'colour' of row"):
        corelet.check(coreset, table.assign(colour=np.where(colour == "red", "blue", "red")), **settings)
    with pytest.raises(corelet.CoreletError, match="column 'late' of row"):
        corelet.check(coreset, table.assign(late=y == 0), **settings)
    chosen = set(coreset.rows)
    others = [row for row in range(len(X)) if row not in chosen]
    changed = table.copy()
    changed.loc[others[0], "a"] += 1.0
    verdict = corelet.check(coreset, changed, **settings)
    assert verdict.grade != "A" and "other_data" in verdict.reasons
    assert "built on other observations" in str(verdict)
