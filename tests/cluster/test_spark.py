"""Spark data frames: the coreset of one machine, whoever holds the partitions."""

import os

import numpy as np
import pytest

import corelet
import corelet.spark
from corelet import CoreletError
from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark():
    """Two executors of their own, with their Python workers."""
    session = (
        SparkSession.builder.master(os.environ.get("CORELET_SPARK_MASTER", "local-cluster[2,1,1024]"))
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "20")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.excludeOnFailure.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


COLUMNS = "a double, b double, word string, late boolean"


def distributed(spark, frame, parts, columns=COLUMNS):
    """The pieces as the partitions of one data frame, in their order."""
    rows = spark.sparkContext.parallelize(range(len(parts)), len(parts)).flatMap(
        lambda at: [tuple(row) for row in parts[at].astype(object).itertuples(index=False)]
    )
    return spark.createDataFrame(rows, columns)


def test_the_coreset_of_one_machine(spark, frame, parts):
    sdf = distributed(spark, frame, parts)
    whole = corelet.build(frame, target="late", k=30)
    found = corelet.spark.build(sdf, target="late", k=30)
    assert found.rows.tolist() == whole.rows.tolist()
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-9)
    assert found.summary["fingerprint"] == whole.summary["fingerprint"]
    assert list(found.columns["word"]) == frame["word"].iloc[found.rows].tolist()
    assert corelet.spark.check(found, sdf, draws=500, seed=1).certified
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_random_effects_over_partitions_are_those_of_one_table(spark, frame, parts):
    sdf, asked = distributed(spark, frame, parts), dict(target="late", random="word", k=20, draws=100, seed=3)
    whole, found = corelet.fit(frame, **asked), corelet.spark.fit(sdf, **asked)
    assert found.groups == whole.groups and [rows.tolist() for rows in found.rows] == [rows.tolist() for rows in whole.rows]
    assert all((found.draws[name] == values).all() for name, values in whole.draws.items())
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_what_comes_after_the_fit_is_that_of_one_machine(spark, frame, parts):
    sdf, asked = distributed(spark, frame, parts), dict(target="late")
    fit = corelet.fit(frame, k=80, **asked)
    here, there = corelet.review(fit, frame, **asked), corelet.spark.review(fit, sdf, pointwise=True, **asked)
    assert there.loo.elpd == here.loo.elpd and there.fits.misfits == here.fits.misfits
    np.testing.assert_array_equal(there.loo.elpd_i, here.loo.elpd_i)
    for name, of in here.influence.items():
        assert there.influence[name].jackknife_se == of.jackknife_se
    assert corelet.spark.certify(fit, sdf, **asked).grade == corelet.certify(fit, frame, **asked).grade == "A"
    chains = dict(draws=300, tune=200)
    folds = [corelet.k_fold(frame, folds=3, k=60, **asked, **chains), corelet.spark.k_fold(sdf, folds=3, k=60, **asked, **chains)]
    assert folds[0].elpd == pytest.approx(folds[1].elpd, abs=1e-3)
    coreset = fit.coreset
    predicted = sdf.mapInPandas(lambda parts: (p.assign(mean=coreset.predict(p).mean) for p in parts if len(p)), COLUMNS + ", mean double")
    np.testing.assert_allclose(predicted.toPandas()["mean"], coreset.predict(frame).mean, rtol=1e-9)
    new = [part.assign(a=part.a + 0.5) for part in parts[1:3]]
    updated = corelet.spark.update(fit.coreset, distributed(spark, frame, new), **chains)
    assert updated.summary["n"] == len(frame) + 3001 and updated.quality.verdict.certified
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_one_bad_row(spark, frame, parts):
    bad = [part.copy() for part in parts]
    bad[3].iloc[17, 1] = np.inf
    with pytest.raises(CoreletError, match="partition 3: column 'b', row 17"):
        corelet.spark.build(distributed(spark, frame, bad), target="late", k=10)
    assert not spark.sparkContext._jsc.getPersistentRDDs()
