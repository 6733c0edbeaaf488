"""`corelet.fit`: the built-in models in one call, from every kind of data."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import corelet

CHAINS = dict(draws=500, tune=300, chains=2)


@pytest.fixture(scope="module")
def counts():
    """A table of two features, an exposure and counts."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(4000, 2)), columns=["a", "b"]).assign(days=rng.uniform(1, 3, 4000))
    return table.assign(count=rng.poisson(table["days"] * np.exp(0.4 * table["a"] - 0.2 * table["b"])))


ASKED = dict(model="poisson", target="count", exposure="days", k=60)


@pytest.fixture(scope="module")
def fitted(counts):
    return corelet.fit(counts, **ASKED, **CHAINS)


def test_it_is_build_and_check_in_one(counts, fitted):
    coreset = corelet.build(counts, **ASKED)
    verdict = corelet.check(coreset, counts, draws=500, warmup=300, chains=2)
    assert np.array_equal(fitted.coreset.rows, coreset.rows) and np.array_equal(fitted.coreset.weights, coreset.weights)
    assert fitted.verdict.grade == "A" and fitted.verdict.variance == verdict.variance
    assert np.array_equal(fitted.draws["original"], verdict.draws["posterior"]["original"])
    assert fitted.idata.posterior["original"].sizes == {"chain": 2, "draw": 500, "parameter": 3}
    assert fitted.idata.posterior.attrs["verdict"] == "A"
    assert [this.next for this in fitted.rounds] == ["certified"] and fitted.rounds[0].r_hat < 1.05
    assert "A - trusted" in repr(fitted) and "certified" in repr(fitted)


def once(table):
    """A stream of batches that can be read once."""
    whole = pa.Table.from_pandas(table, preserve_index=False)
    return pa.RecordBatchReader.from_batches(whole.schema, iter(whole.to_batches(max_chunksize=700)))


def test_a_stream_is_checked_once(counts, fitted):
    assert corelet.check(fitted.coreset, once(counts), draws=500, tune=300, chains=2).grade == "A"
    full = corelet.fit(once(counts), full=True, **ASKED, **CHAINS)
    assert full.verdict.grade == "A"
    stream = once(counts)
    coreset = corelet.build(stream, **ASKED)
    with pytest.raises(corelet.CoreletError, match="can be read once only is empty the second time"):
        corelet.check(coreset, stream)
    other = corelet.check(coreset, once(counts.assign(a=counts["a"].to_numpy()[::-1])))
    assert other.grade == "C" and "was built on other observations than these" in repr(other)


@pytest.mark.parametrize("form", ["arrays", "lazy", "reader", "reader beside arrays", "parquet", "csv"])
def test_every_kind_of_data_gives_the_same(counts, fitted, form, tmp_path):
    asked = dict(ASKED)
    if form == "arrays":
        asked.update(exposure=counts["days"].to_numpy(), target=None)
        fit = corelet.fit(counts[["a", "b"]], counts["count"], **asked, **CHAINS)
    elif form == "reader beside arrays":
        asked.update(target=None)
        fit = corelet.fit(once(counts[["a", "b", "days"]]), counts["count"], **asked, **CHAINS)
    else:
        path = tmp_path / f"counts.{form}"
        if form == "reader":
            data = once(counts)
        elif form == "lazy":
            data = pl.DataFrame({name: counts[name].to_numpy() for name in counts}).lazy()
        elif form == "parquet":
            counts.to_parquet(data := path, index=False)
        else:
            counts.to_csv(data := path, index=False)
        fit = corelet.fit(data, **asked, **CHAINS)
    assert np.array_equal(fit.coreset.rows, fitted.coreset.rows)
    assert fit.coreset.weights == pytest.approx(fitted.coreset.weights, rel=1e-9)
    assert fit.draws["original"] == pytest.approx(fitted.draws["original"], rel=1e-6)


def test_the_posterior_of_all_rows(counts, fitted, tmp_path):
    counts.to_parquet(tmp_path / "counts.parquet", index=False)
    full = corelet.fit(tmp_path / "counts.parquet", full=True, **ASKED, **CHAINS)
    assert full.verdict.grade == "A" and full.verdict.variance == 0.0 and full.rounds == []
    assert np.array_equal(full.coreset.rows, np.arange(4000)) and (full.coreset.sample_weight == 1.0).all()
    mean, sd = (f(full.draws["original"], axis=(0, 1)) for f in (np.mean, np.std))
    assert np.abs((fitted.draws["original"].mean(axis=(0, 1)) - mean) / sd).max() < 0.25
    assert full.idata.posterior["parameter"].values.tolist() == fitted.coreset.names
    few = corelet.fit(counts, full=True, **ASKED, draws=60, tune=20, chains=2, max_depth=1)
    assert few.verdict.grade == "C" and "draws are at fault" in few.verdict.headline


def test_rows_left_out_keep_their_numbers(counts):
    holed = counts.assign(a=counts["a"].where(counts.index >= 5))
    full = corelet.fit(holed, full=True, drop_missing=True, **ASKED, **CHAINS)
    assert np.array_equal(full.coreset.rows, np.arange(5, 4000)) and len(full.coreset.sample_weight) == 4000
    assert any("5 of 4 000 rows have missing values" in note for note in full.notes)


def test_more_points_where_they_are_needed(logistic):
    fit = corelet.fit(*logistic, k=6, max_k=40, rest="none", **CHAINS)
    assert [this.k for this in fit.rounds] == [6, 12, 24, 40][: len(fit.rounds)] and len(fit.rounds) > 1
    assert fit.rounds[0].next == "V is still large: 12 points" and fit.verdict.grade == "A"
    assert fit.rounds[1].shift > 0 and np.isnan(fit.rounds[0].shift)
    stopped = corelet.fit(*logistic, k=4, max_k=4, rest="none", **CHAINS)
    assert stopped.verdict.grade != "A" and "the most allowed (max_k)" in stopped.rounds[-1].next


def test_an_interrupt_returns_the_best_so_far(logistic):
    def stop_in(wanted):
        def progress(step):
            if step.round == wanted:
                raise KeyboardInterrupt

        return progress

    fit = corelet.fit(*logistic, k=6, rest="none", progress=stop_in(2), **CHAINS)
    assert fit.notes[0] == "interrupted: the best so far" and len(fit.rounds) == 1
    assert fit.coreset.quality.verdict is fit.verdict and fit.rounds[0].points == len(fit.coreset)
    with pytest.raises(KeyboardInterrupt):
        corelet.fit(*logistic, k=6, rest="none", progress=stop_in(1), **CHAINS)


def test_what_cannot_be_asked(logistic, tmp_path):
    with pytest.raises(corelet.CoreletError, match="max_k = 5 is less than k = 10"):
        corelet.fit(*logistic, k=10, max_k=5)
    with pytest.raises(TypeError, match="colour"):
        corelet.fit(*logistic, colour="red")
    with pytest.raises(corelet.CoreletError, match="X is a file, so name its columns"):
        corelet.fit(tmp_path / "x.csv", logistic[1])
    with pytest.raises(TypeError, match="colour"):
        corelet.fit(*logistic, full=True, colour="red")


def test_warnings_are_issued_once(logistic):
    X, y = logistic
    with pytest.warns(UserWarning, match="2 is taken as success") as caught:
        fit = corelet.fit(X, y + 1, k=6, max_k=12, rest="none", **CHAINS)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(set(texts)) and len(fit.rounds) == 2
    assert any("2 is taken as success" in note for note in fit.notes)
    assert {warning.filename for warning in caught} == {__file__}


def test_fewer_rows_than_points_are_all_taken():
    """Nobody asked for 300 points."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    fit = corelet.fit(X, rng.poisson(np.exp(0.3 * X[:, 0])), model="poisson", chains=2, draws=500)
    assert fit.verdict.grade == "A" and len(fit.coreset) <= 100, fit
    fewer = corelet.fit(X, rng.poisson(np.exp(0.3 * X[:, 0])), model="poisson", max_k=40, chains=2, draws=500)
    assert len(fewer.coreset) <= 40
