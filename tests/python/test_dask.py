"""Dask data frames on worker processes: the coreset of one machine, whoever holds the partitions and whoever dies."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

import corelet
from corelet import CoreletError

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

SIZES = [0, 3000, 1, 150, 0, 849]


def two_workers():
    """Two worker processes, each with a nanny that starts it again."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        with distributed.Client(cluster) as client:
            yield client


client = pytest.fixture(scope="module")(two_workers)
# A nanny may give up on a machine that is busy, and what is left is then no cluster for another test.
mortal = pytest.fixture(two_workers)


@pytest.fixture(scope="module")
def frame():
    """Numbers, text of which one level is in one partition alone, and two targets."""
    rng = np.random.default_rng(3)
    n = sum(SIZES)
    word = rng.choice(["left", "right"], n)
    word[3005:3009] = "rare"
    a, b = 50 + 3 * rng.normal(size=n), rng.normal(size=n)
    eta = (a - 50) / 3 - 0.5 * b + 0.4 * (word == "right")
    late = rng.random(n) < 1 / (1 + np.exp(-eta))
    return pd.DataFrame({"a": a, "b": b, "word": word, "late": late, "size": 1000 + 20 * (eta + rng.normal(size=n))})


def partitioned(frame, sizes=SIZES):
    """The frame in partitions of these sizes, each made by a task of its own."""
    ends = np.cumsum(sizes)
    parts = [frame.iloc[end - size : end] for size, end in zip(sizes, ends)]
    return dd.from_map(lambda at: parts[at], range(len(parts)), meta=frame.iloc[:0])


def assert_nothing_left(client):
    deadline = time.monotonic() + 10
    while any(client.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.has_what().values())


def kill_once_during(monkeypatch, client, method):
    """Kills one worker while the first call of a method of the engine is on its way."""
    original, kills = getattr(corelet.dask._Dask, method), []

    def killing(self, *arguments):
        if not kills:
            kills.append(method)
            pid = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.02, os.kill, (pid, signal.SIGKILL)).start()
        return original(self, *arguments)

    monkeypatch.setattr(corelet.dask._Dask, method, killing)
    return kills


def same(one, other):
    assert one.rows.tolist() == other.rows.tolist()
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)


def test_the_coreset_of_one_machine(client, frame):
    asked = dict(target="late", k=30, exclude=["size"], seed=2)
    whole = corelet.build(frame, **asked)
    parts = corelet.dask.build(partitioned(frame), **asked)
    same(whole, parts)
    assert parts.names == whole.names and "word=rare" in parts.names
    assert parts.summary["fingerprint"] == whole.summary["fingerprint"]
    for name in frame.columns:
        assert list(parts.columns[name]) == frame[name].iloc[parts.rows].tolist()
    pd.testing.assert_frame_equal(parts.to_frame(), whole.to_frame(), rtol=1e-9)
    assert corelet.dask.check(parts, partitioned(frame), draws=500, seed=1).certified
    assert corelet.check(parts, frame, draws=500, seed=1).certified
    assert_nothing_left(client)


def test_other_models_and_other_partitions(client, frame):
    asked = dict(target="size", model="linear", k=25, exclude=["late"])
    whole = corelet.build(frame, **asked)
    for sizes in ([4000], [2000, 2000], [10] * 4 + [3960]):
        same(whole, corelet.dask.build(partitioned(frame, sizes), **asked))


@pytest.mark.parametrize(("rest", "k"), [("gaussian", 0), ("gaussian", 25), ("auto", 8)])
def test_a_gaussian_of_all_partitions(client, frame, rest, k):
    """Alone, with rows beside it, and where it is tried first; on one machine, from scratch files and from partitions."""
    few = frame.iloc[:400] if k == 25 else frame
    asked = dict(target="late", k=k, exclude=["size"], rest=rest)
    whole = corelet.build(few, **asked)
    assert whole.rest is not None and (len(whole) > 0) == (k == 25), whole
    held = dict(asked, memory="4kB")
    with pytest.raises(CoreletError, match="nowhere"):
        corelet.build(few, **held, scratch="/nowhere")
    sizes = [len(few) - 130, 1, 129] if k == 25 else SIZES
    for other in (corelet.build(few, **held), corelet.dask.build(partitioned(few, sizes), **asked), corelet.dask.build(partitioned(few, sizes), **held)):
        same(whole, other)
        for part in ("centre", "gradient", "curvature"):
            np.testing.assert_allclose(getattr(other.rest, part), getattr(whole.rest, part), rtol=1e-8, atol=1e-8)
        assert corelet.dask.check(other, partitioned(few, sizes), draws=500, seed=1).grade == corelet.check(whole, few, draws=500, seed=1).grade
    assert_nothing_left(client)


@pytest.mark.parametrize("named", [False, True])
def test_groups_that_lie_in_several_partitions(client, frame, named):
    patient = np.arange(len(frame)) // 7 * 11 % 200
    table = frame.assign(patient=[f"patient {p}" for p in patient] if named else patient)
    asked = dict(target="late", k=25, exclude=["size"], groups="patient")
    whole, parts = corelet.build(table, **asked), corelet.dask.build(partitioned(table), **asked)
    assert parts.weights.tolist() == whole.weights.tolist()
    same(whole, parts)
    assert list(parts.groups) == list(whole.groups) and set(table["patient"].iloc[parts.rows]) == set(parts.groups)
    assert parts.group_ids.tolist() == whole.group_ids.tolist()
    assert parts.group_weights.tolist() == whole.group_weights.tolist()
    assert parts.summary["groups"] == 200 and len(parts.groups) <= 25
    assert_nothing_left(client)


def test_random_effects_over_partitions_are_those_of_one_table(client, frame):
    patient = np.arange(len(frame)) // 7 * 11 % 200
    table = frame.assign(patient=pd.Categorical([f"patient {p}" for p in patient]))
    asked = dict(target="late", features=["a", "word"], random="patient", k=20, draws=200, seed=3)
    whole, parts = corelet.fit(table, **asked), corelet.dask.fit(partitioned(table), memory="20KB", **asked)
    assert parts.n_groups == 200 and parts.groups == whole.groups
    assert all((one == other).all() for one, other in zip(parts.rows, whole.rows))
    assert {name: values.tobytes() for name, values in parts.draws.items()} == {
        name: values.tobytes() for name, values in whole.draws.items()
    }
    assert parts.predict(table.head(2)).mean.tolist() == whole.predict(table.head(2)).mean.tolist()
    with pytest.raises(CoreletError, match="'nobody'"):
        corelet.dask.fit(partitioned(table), target="late", random="nobody")
    with pytest.raises(CoreletError, match="random must be text"):
        corelet.dask.fit(partitioned(table), target="late", random=patient)
    changed = [table.iloc[:100], table.iloc[100:200].assign(a="much")]
    other = dd.from_map(lambda at: changed[at], range(2), meta=table.iloc[:0])
    with pytest.raises(CoreletError, match="partition 1: its columns are not those of the table"):
        corelet.dask.fit(other, target="late", random="patient")
    assert_nothing_left(client)


@pytest.mark.parametrize(
    "asked",
    [
        dict(target="late", features=["word"], k=5, collapse=True),
        dict(target="late", features=["word", "odd"], k=6, collapse=True, weights="visits"),
        dict(target="size", features=["a", "b"], model="linear", sigma=20.0, k=3, method="sparse-vi"),
        dict(target="late", features=["a", "word"], k=20, offset="b", weights="visits", priors="auto"),
    ],
    ids=["collapse", "collapse weights", "sparse-vi", "beside"],
)
def test_keywords_of_one_machine(client, frame, asked):
    rows = np.arange(len(frame))
    table = frame.assign(visits=1 + rows % 3, odd=rows % 2)
    whole, parts = corelet.build(table, **asked), corelet.dask.build(partitioned(table), **asked)
    same(whole, parts)
    assert parts.warnings == whole.warnings
    for name in table.columns:
        assert list(parts.columns[name]) == table[name].iloc[parts.rows].tolist()
    assert_nothing_left(client)


def test_one_bad_row(client, frame):
    bad = frame.copy()
    bad.loc[3001 + 17, "b"] = np.inf
    with pytest.raises(CoreletError, match="partition 3: column 'b', row 17"):
        corelet.dask.build(partitioned(bad), target="late", k=10)
    bad.loc[3001 + 17, "b"] = np.nan
    with pytest.raises(CoreletError, match="drop_missing=True"):
        corelet.dask.build(partitioned(bad), target="late", k=10)
    with pytest.warns(UserWarning, match="1 of 4 000 rows"):
        kept = corelet.dask.build(partitioned(bad), target="late", k=20, drop_missing=True)
        same(kept, corelet.build(bad, target="late", k=20, drop_missing=True))


def test_what_is_refused(client, frame):
    ddf = partitioned(frame)
    with pytest.raises(CoreletError, match="groups must be the name of a column"):
        corelet.dask.build(ddf, target="late", groups=np.arange(len(frame)))
    with pytest.raises(CoreletError, match="groups and max_kl do not go together"):
        corelet.dask.build(ddf, target="late", groups="word", max_kl=0.1)
    with pytest.raises(CoreletError, match="k = 30 groups cannot be chosen from 3 groups"):
        corelet.dask.build(ddf, target="late", groups="word", k=30)
    with pytest.raises(CoreletError, match="groups and collapse do not go together"):
        corelet.dask.build(ddf, target="late", groups="word", collapse=True)
    with pytest.raises(CoreletError, match="y has no meaning for a table in partitions"):
        corelet.dask.build(ddf, y=frame["late"])
    with pytest.raises(CoreletError, match="there is no column 'lat'"):
        corelet.dask.build(ddf, target="lat")
    with pytest.raises(CoreletError, match="colour is no setting"):
        corelet.dask.build(ddf, target="late", colour="red")
    with pytest.raises(TypeError, match="Dask data frame"):
        corelet.dask.build(frame, target="late")


def test_an_interrupted_build_leaves_nothing_behind(client, frame):
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corelet.dask.build(partitioned(frame), target="late", k=30, progress=stop)
    assert_nothing_left(client)


@pytest.mark.parametrize("method", ["look", "hold", "ask"])
def test_killed_workers_change_no_bit(mortal, frame, method, monkeypatch):
    asked = dict(target="late", k=20, exclude=["size"])
    expected = corelet.build(frame, **asked)
    kills = kill_once_during(monkeypatch, mortal, method)
    found = corelet.dask.build(partitioned(frame), **asked)
    assert kills == [method]
    assert found.rows.tolist() == expected.rows.tolist() and found.weights.tolist() == expected.weights.tolist()
    assert_nothing_left(mortal)


def test_anybodys_draws_are_certified_on_partitions_as_on_one_machine(client, frame):
    asked = dict(target="late", features=["a", "b", "word"])
    fit = corelet.fit(frame, k=80, **asked)
    here = corelet.certify(fit, frame, **asked)
    there = corelet.dask.certify(fit, partitioned(frame), client=client, **asked)
    assert here.grade == there.grade == "A" and here.names == there.names
    np.testing.assert_allclose(there.shift, here.shift, atol=1e-6)
    np.testing.assert_allclose(there.scale, here.scale, rtol=1e-6)
    moved = fit.draws["original"].copy()
    moved[:, :, 0] += moved[:, :, 0].std()
    assert corelet.dask.certify(moved, partitioned(frame), client=client, **asked).grade == "C"
    with pytest.raises(CoreletError, match="nothing is called 'b'"):
        corelet.dask.certify({"a": moved[:, :, 0]}, partitioned(frame), client=client, **asked)
    with pytest.raises(TypeError, match="table in partitions.*corelet.dask"):
        corelet.review(fit, partitioned(frame), **asked)
    assert_nothing_left(client)


def test_a_review_of_partitions_is_that_of_one_machine(client, frame):
    table = frame.assign(patient=[f"patient {p}" for p in np.arange(len(frame)) // 7 * 11 % 200])
    asked = dict(target="late", features=["a", "b", "word"])
    fit = corelet.fit(table, k=80, **asked)
    here = corelet.review(fit, table, evidence=True, **asked)
    for sizes in (SIZES, [2000, 2000]):
        there = corelet.dask.review(fit, partitioned(table, sizes), pointwise=True, evidence=True, **asked)
        # Sums of rows are the same bits in whatever parts they are; those of outcomes to rounding.
        assert (there.loo.elpd, there.loo.se, there.waic.elpd) == (here.loo.elpd, here.loo.se, here.waic.elpd)
        np.testing.assert_array_equal(there.loo.elpd_i, here.loo.elpd_i)
        assert there.loo.outcomes == here.loo.outcomes and there.evidence.log == pytest.approx(here.evidence.log, abs=1e-6)
        for name, of in here.influence.items():
            np.testing.assert_array_equal(there.influence[name].rows, of.rows)
            assert there.influence[name].jackknife_se == of.jackknife_se
        assert there.fits.misfits == here.fits.misfits
        np.testing.assert_allclose(there.fits.calibration, here.fits.calibration, rtol=1e-9)
    grouped = corelet.review(fit, table, groups="patient", **asked)
    apart = corelet.dask.review(fit, partitioned(table), groups="patient", **asked)
    assert apart.clusters == grouped.clusters == 200 and apart.loo.elpd_i is None
    for name, of in grouped.influence.items():
        assert apart.influence[name].jackknife_se == of.jackknife_se
    with pytest.raises(CoreletError, match="by needs the rows here"):
        corelet.dask.review(fit, partitioned(table), by="word", **asked)
    # A level by itself, in its place.
    parts = partitioned(table)
    level = corelet.dask.review(fit, parts[parts.word == "left"], **asked).fits
    known = corelet.review(fit, table, by="word", **asked).by["left"]
    assert level.n == known.n == (table.word == "left").sum()
    np.testing.assert_allclose(level.calibration, known.calibration, rtol=1e-9)
    assert_nothing_left(client)


def test_folds_and_updates_of_partitions(client, frame):
    asked = dict(target="late", features=["a", "b", "word"])
    chains = dict(draws=300, tune=200)
    here = corelet.k_fold(frame, folds=3, k=60, **asked, **chains)
    there = corelet.dask.k_fold(partitioned(frame), folds=3, k=60, **asked, **chains)
    assert here.fold_i.tolist() == there.fold_i.tolist() and there.elpd == pytest.approx(here.elpd, abs=1e-3)
    table = frame.assign(word=frame.word.replace("rare", "left"))
    old, new = table.iloc[:2500], table.iloc[2500:].assign(a=table.a.iloc[2500:] + 0.5)
    fit = corelet.fit(old, k=60, **asked)
    updated = corelet.dask.update(fit.coreset, partitioned(new, [900, 0, 600]), **chains)
    assert updated.summary["n"] == 4000 and updated.quality.verdict.certified
    both = pd.concat([old, new], ignore_index=True)
    for sizes in (SIZES, [4000]):
        verdict = corelet.dask.check(updated, partitioned(both, sizes), draws=500, seed=1)
        assert verdict.certified and "other_data" not in verdict.reasons
    with pytest.raises(CoreletError, match="no new row in any partition"):
        corelet.dask.update(fit.coreset, partitioned(new.iloc[:0], [0, 0]))
    assert_nothing_left(client)
