"""Spark data frames: the coreset of one machine, whoever holds the partitions and whoever dies."""

import os
import signal
import subprocess
import threading

import numpy as np
import pytest

import corelet
import corelet.spark
from corelet import CoreletError
from pyspark.sql import SparkSession

KILLS = int(os.environ.get("CORELET_SPARK_KILLS", "6"))


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


def distributed(spark, frame, parts):
    """The pieces as the partitions of one data frame, in their order."""
    rows = spark.sparkContext.parallelize(range(len(parts)), len(parts)).flatMap(
        lambda at: [tuple(row) for row in parts[at].astype(object).itertuples(index=False)]
    )
    return spark.createDataFrame(rows, "a double, b double, word string, late boolean")


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


def test_one_bad_row(spark, frame, parts):
    bad = [part.copy() for part in parts]
    bad[3].iloc[17, 1] = np.inf
    with pytest.raises(CoreletError, match="partition 3: column 'b', row 17"):
        corelet.spark.build(distributed(spark, frame, bad), target="late", k=10)
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def victims():
    """The executors and the Python workers that this process has started, by their process ids."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    running = {int(pid): (int(parent), args) for pid, parent, args in (line.split(None, 2) for line in found.splitlines()[1:])}

    def is_ours(pid):
        while pid in running and pid != os.getpid():
            pid = running[pid][0]
        return pid == os.getpid()

    ours = [(pid, args) for pid, (_, args) in running.items() if is_ours(pid)]
    executors = [pid for pid, args in ours if "CoarseGrainedExecutorBackend" in args and "java" in args.split()[0]]
    workers = [pid for pid, args in ours if "pyspark.daemon" in args]
    return executors, workers


def test_kills(spark, frame, parts):
    sdf = distributed(spark, frame, parts)
    expected = corelet.build(frame, target="late", k=20)
    kills = []

    class Killing(corelet.spark._Spark):
        """Kills an executor or a Python worker during the question whose turn it is."""

        asked, turn = 0, 0

        def _answers(self, *arguments):
            if self.asked == self.turn:
                executors, workers = victims()
                victim = (executors or workers)[0] if len(kills) % 2 == 0 else (workers or executors)[-1]
                threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
                kills.append(self.turn)
            self.asked += 1
            return super()._answers(*arguments)

    turn = 0
    while len(kills) < KILLS:
        before = len(kills)
        engine = Killing(sdf)
        engine.turn = turn
        with engine:
            found = corelet._cluster.build_on(engine, engine.schema.empty_table(), dict(target="late", k=20), None, None)
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.weights.tolist() == expected.weights.tolist()
        turn = turn + 1 if len(kills) > before else 0
    assert not spark.sparkContext._jsc.getPersistentRDDs()
    print(f"{len(kills)} kills, during questions {sorted(set(kills))}")
