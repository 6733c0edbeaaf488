"""Processes killed by SIGKILL, during each question of a build in turn: the same bits as without, and nothing left behind."""

import os
import signal
import threading
import time
from pathlib import Path

import corelet
import corelet.dask
import corelet.spark
import dask.dataframe as dd
import distributed
import pytest
from corelet.frames import cluster as _cluster
from test_spark import distributed as spark_frame
from test_spark import spark  # noqa: F401

ASKED = dict(target="late", k=20)
QUESTIONS = ("look", "hold", "ask", "cells")


def killing(engine, victims, delay):
    """An engine that loses a process during the question whose turn it is; `victims` finds those that may be lost."""

    class Killing(engine):
        turn, asked, lost = 0, 0, None

        def lose(self):
            if self.asked == self.turn:
                threading.Timer(delay, self.kill).start()
            self.asked += 1

        def kill(self):
            for pid in victims():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.lost = pid
                return

    def losing(name):
        plain = getattr(engine, name)

        def question(self, *arguments):
            self.lose()
            return plain(self, *arguments)

        return question

    for name in QUESTIONS:
        setattr(Killing, name, losing(name))
    return Killing


def built(engine, schema, turn):
    """What comes of a build that loses a process during question `turn`; none where there are not so many."""
    engine.turn = turn
    with engine:
        found = _cluster.build_on(engine, schema, ASKED, None, None)
    return found if engine.asked > turn else None


def count_kills(wanted, run):
    """Builds with a kill during the first question, the second, …, and from the first again; which they were."""
    kills, turn = [], 0
    while len(kills) < wanted:
        lost = run(turn)
        turn = turn + 1 if lost is not None else 0
        if lost:
            kills.append(turn - 1)
    return kills


def same(found, expected):
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.weights.tolist() == expected.weights.tolist()


def test_dask(frame, parts):
    ddf = dd.from_map(lambda at: parts[at], range(len(parts)), meta=frame.iloc[:0])
    expected = corelet.build(frame, **ASKED)

    def run(turn):
        # Workers of its own for every build, so that each begins with two.
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            pids = list(client.run(os.getpid).values())
            engine = killing(corelet.dask._Dask, lambda: pids[turn % 2 :], 0.01)(ddf, client)
            found = built(engine, engine.schema, turn)
            deadline = time.monotonic() + 30
            while any(client.has_what().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not any(client.has_what().values())
        if found is None:
            return None
        same(found, expected)
        return engine.lost is not None

    kills = count_kills(int(os.environ.get("CORELET_KILLS", "20")), run)
    print(f"Dask: {len(kills)} workers killed, during questions {sorted(set(kills))}")


def processes(word):
    """Processes of this user whose command line has a word in it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word in (entry / "cmdline").read_bytes().decode():
                found.append(int(entry.name))
        except (OSError, UnicodeDecodeError):
            continue
    return sorted(found, reverse=True)


@pytest.mark.parametrize("victim", ["pyspark.daemon", "CoarseGrainedExecutorBackend"])
def test_spark(spark, frame, parts, victim):  # noqa: F811
    sdf = spark_frame(spark, frame, parts)
    expected = corelet.build(frame, **ASKED)

    def run(turn):
        engine = killing(corelet.spark._Spark, lambda: processes(victim), 0.3)(sdf)
        found = built(engine, engine.schema.empty_table(), turn)
        assert not spark.sparkContext._jsc.getPersistentRDDs()
        if found is None:
            return None
        same(found, expected)
        return engine.lost is not None

    kills = count_kills(int(os.environ.get("CORELET_KILLS", "20")) // 4, run)
    print(f"Spark: {len(kills)} times {victim} killed, during questions {sorted(set(kills))}")
