"""Every keyword of `corelet.build` on partitions of Dask and of Spark: the coreset of one machine."""

import dask.dataframe as dd
import distributed
import numpy as np
import pytest

import corelet
import corelet.dask
import corelet.spark
from test_spark import distributed as spark_frame
from test_spark import spark  # noqa: F401

LATE = dict(target="late", exclude=["size", "patient", "visits"], k=20)
SIZE = dict(target="size", exclude=["late", "patient", "visits"], k=20)

KEYWORDS = {
    "groups": {**LATE, "groups": "patient"},
    "collapse": dict(target="late", features=["word", "visits"], k=4, collapse=True),
    "collapse exact": dict(target="late", features=["word"], collapse=True),
    "sparse-vi": {**SIZE, "model": "linear", "sigma": 20.0, "k": 3, "method": "sparse-vi"},
    "features": dict(target="late", features=["a", "word"], k=20),
    "categories": dict(target="late", features=["a", "visits"], categories=["visits"], k=20),
    "missing": {**LATE, "missing": ["rare"], "drop_missing": True},
    "weights, offset": {**LATE, "exclude": ["size", "patient"], "weights": "visits", "offset": "b"},
    "exposure": dict(target="visits", features=["b", "word"], model="poisson", exposure="a", link="softplus", k=20),
    "trials": dict(target="visits", features=["b", "word"], model="binomial", trials="seen", k=20),
    "event": dict(target="a", features=["b", "word"], model="weibull", event="late", k=20),
    "positive": dict(target="word", features=["a", "b"], missing=["rare"], drop_missing=True, positive="left", k=20),
    "levels": dict(target="word", features=["a", "b"], model="ordinal", levels=["left", "rare", "right"], k=20),
    "intercept": {**LATE, "intercept": False, "standardise": "none"},
    "standardise": {**LATE, "standardise": "whiten"},
    "sigma, prior_sd": {**SIZE, "model": "linear", "sigma": 20.0, "prior_sd": 100.0},
    "degrees": {**SIZE, "model": "student", "degrees": "estimated"},
    "priors": {**LATE, "priors": {"default": "normal(0, 2.5)", "scale": "original", "coefficients": {"word*": "laplace(0, 1)"}}},
    "max_kl": {**LATE, "k": 100, "max_kl": 0.05},
    "method, reference": {**LATE, "method": "a-iht-2", "reference": True, "embedding": "draws:200"},
    "embedding, polish": {**LATE, "embedding": "hermite:2", "polish": True},
    "start": {**LATE, "start": "subsample:1000"},
    "rounds, rounds_by": {**LATE, "rounds": 2, "rounds_by": "nuts", "seed": 3},
    "memory": {**LATE, "memory": "10kB"},
}


@pytest.fixture(scope="module")
def table(frame):
    rows, rng = np.arange(len(frame)), np.random.default_rng(5)
    noise = rng.normal(size=len(frame))
    return frame.assign(
        size=1000 + 20 * (frame["b"] + noise), patient=rows // 7 * 11 % 200, visits=1.0 + rows % 3, seen=3.0 + rows % 2
    )


@pytest.fixture(scope="module")
def pieces(table, parts):
    return [table.loc[part.index] for part in parts]


@pytest.fixture(scope="module")
def ddf(table, pieces):
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    with cluster, distributed.Client(cluster):
        yield dd.from_map(lambda at: pieces[at], range(len(pieces)), meta=table.iloc[:0])


@pytest.fixture(scope="module")
def sdf(spark, table, pieces):  # noqa: F811
    columns = "a double, b double, word string, late boolean, size double, patient long, visits double, seen double"
    return spark_frame(spark, table, pieces, columns)


def same(found, expected):
    assert found.rows.tolist() == expected.rows.tolist()
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)
    assert found.warnings == expected.warnings and found.names == expected.names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("asked", KEYWORDS.values(), ids=KEYWORDS.keys())
class TestKeywords:
    def test_dask(self, ddf, table, asked):
        same(corelet.dask.build(ddf, **asked), corelet.build(table, **asked))

    def test_spark(self, sdf, table, asked):
        same(corelet.spark.build(sdf, **asked), corelet.build(table, **asked))
