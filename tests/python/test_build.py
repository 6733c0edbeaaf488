"""`corelet.build`: equal to the command, whatever the data come in, and clear about what it refuses."""

import gc
import json
import pickle
import subprocess
import sys
import threading
import time

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import corelet


def same(a, b):
    return np.array_equal(a.rows, b.rows) and np.array_equal(a.weights, b.weights)


def frame_of(X, y):
    return pd.DataFrame({**{f"x{j + 1}": X[:, j] for j in range(X.shape[1])}, "y": y})


@pytest.mark.filterwarnings("ignore:a-iht-2 had not converged")
@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("logistic", {"k": 40}),
        ("logistic", {"k": 60, "method": "giga", "standardise": "whiten", "prior_sd": 3.0, "seed": 7}),
        ("logistic", {"max_kl": 0.05, "embedding": "draws:300"}),
        ("logistic", {"k": 30, "method": "a-iht-2", "reference": True, "polish": True}),
        ("poisson", {"k": 30, "link": "softplus", "intercept": False}),
        ("linear", {"k": 30}),
        ("gaussian", {"k": 10, "sigma": 2.0}),
    ],
)
def test_the_result_is_that_of_the_command_to_the_bit(model, flags, logistic, command, tmp_path):
    X, y = logistic
    y = {"logistic": y, "poisson": np.floor(np.abs(X[:, 0]) * 3), "linear": X[:, 0] + np.sin(9 * X[:, 1])}.get(model, y)
    frame = frame_of(X, y) if model != "gaussian" else frame_of(X, y).drop(columns="y")
    frame.to_parquet(tmp_path / "data.parquet")
    cs = corelet.build(frame, target=None if model == "gaussian" else "y", model=model, **flags)

    arguments = ["build", "data.parquet", "--model", model, "-o", "core.parquet", "--json", "summary.json"]
    arguments += [] if model == "gaussian" else ["--target", "y"]
    for name, value in flags.items():
        flag = "-k" if name == "k" else "--" + name.replace("_", "-")
        flag, value = ("--no-intercept", True) if name == "intercept" else (flag, value)
        arguments += [flag] if value is True else [flag, value]
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = pyarrow.parquet.read_table(tmp_path / "core.parquet")
    assert np.array_equal(cs.rows, written["row"].to_numpy())
    assert np.array_equal(cs.weights, written["weight"].to_numpy())
    said = json.loads((tmp_path / "summary.json").read_text())
    own = dict(cs.summary)
    for key in ("seconds", "peak_memory_bytes", "data"):
        said.pop(key, None), own.pop(key, None)
    assert own == said
    assert same(cs, corelet.build(tmp_path / "data.parquet", target=None if model == "gaussian" else "y", model=model, **flags))


def test_every_container_gives_the_same_coreset(logistic):
    X, y = logistic
    frame = frame_of(X, y)
    expected = corelet.build(X, y, k=25)
    readonly = X.copy()
    readonly.setflags(write=False)
    wide = np.zeros((X.shape[0], 2 * X.shape[1]))
    wide[:, ::2] = X
    containers = {
        "fortran": (np.asfortranarray(X), y),
        "strided": (wide[:, ::2], y),
        "backwards": (X[::-1][::-1], y),
        "big endian": (X.astype(">f8"), y),
        "read-only": (readonly, y),
        "list": (X.tolist(), y.tolist()),
        "boolean target": (X, y > 0),
        "integer target": (X, y.astype(np.int8)),
        "signs": (X, 2 * y - 1),
        "column target": (X, y[:, None]),
        "pandas": (frame.drop(columns="y"), frame["y"]),
        "pandas nullable": (frame.drop(columns="y").convert_dtypes(), frame["y"].astype("boolean")),
        "polars": (pl.from_pandas(frame.drop(columns="y")), pl.Series("y", y)),
        "arrow": (pa.Table.from_pandas(frame.drop(columns="y")), pa.array(y)),
        "arrow batch": (pa.RecordBatch.from_pandas(frame.drop(columns="y")), pa.chunked_array([y[:7], y[7:]])),
        "mapping": (dict(frame.drop(columns="y")), y),
        "masked": (np.ma.masked_invalid(X), y),
    }
    for name, (features, target) in containers.items():
        assert same(corelet.build(features, target, k=25), expected), name
    for name, table in {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}.items():
        assert same(corelet.build(table, target="y", k=25), expected), name


def test_single_precision_and_integers_are_taken_as_they_are(logistic):
    X, y = logistic
    single = X.astype(np.float32)
    assert same(corelet.build(single, y, k=25), corelet.build(single.astype(np.float64), y, k=25))
    whole = np.round(X * 10).astype(np.int32)
    assert same(corelet.build(whole, y, k=25), corelet.build(whole.astype(np.float64), y, k=25))


def test_text_becomes_indicators_in_every_container(logistic):
    X, y = logistic
    town = np.array(["Ulm", "Bern", "Nice"])[(np.abs(X[:, 0]) * 2).astype(int) % 3]
    label = np.where(y > 0, "late", "early")
    frame = pd.DataFrame({"a": X[:, 1], "town": town, "wet": X[:, 2] > 0, "label": label})
    expected = corelet.build(frame, target="label", positive="late", k=20)
    assert [shift["name"] for shift in expected.summary["parameters"]] == ["a", "town=Bern", "town=Nice", "wet", "(intercept)"]
    categories = frame.astype({"town": "category", "label": "category"})
    objects = frame.astype({"town": object, "label": object})
    for table in (categories, objects, pl.from_pandas(frame), pl.from_pandas(categories), pa.Table.from_pandas(frame), pa.Table.from_pandas(categories)):
        assert same(corelet.build(table, target="label", positive="late", k=20), expected)
    assert same(corelet.build(frame[["a", "town", "wet"]], label, positive="late", k=20), expected)


def test_missing_values(logistic):
    X, y = logistic
    X = X.copy()
    X[[3, 500], 1] = np.nan
    with pytest.raises(corelet.CoreletError, match=r"2 of 2000 rows have missing values \(2 in 'x2'\)"):
        corelet.build(X, y, k=20)
    with pytest.warns(UserWarning, match="2 of 2 000 rows have missing values and were left out"):
        cs = corelet.build(X, y, k=20, drop_missing=True)
    kept = np.setdiff1d(np.arange(2000), [3, 500])
    assert np.array_equal(kept[corelet.build(X[kept], y[kept], k=20).rows], cs.rows)
    assert cs.sample_weight.shape == (2000,) and cs.sample_weight.sum() == pytest.approx(cs.weights.sum())
    frame = pl.DataFrame({"x": X[:, 0], "town": ["a", None] * 1000, "wet": [True, None, False, True] * 500})
    with pytest.raises(corelet.CoreletError, match=r"1000 of 2000 rows .*1000 in 'town', 500 in 'wet'"):
        corelet.build(frame, y, k=20)


def bad_inputs():
    X = np.random.default_rng(0).normal(size=(50, 2))
    y = (X[:, 0] > 0).astype(float)
    infinite = X.copy()
    infinite[4, 1] = np.inf
    three = np.arange(50) % 3
    return {
        "infinity": ((infinite, y), {}, ValueError, r"data: column 'x2', row 4: inf is not a finite number"),
        "one dimension": ((X[:, 0], y), {}, ValueError, r"shape \(50,\); it must have two dimensions"),
        "three dimensions": ((X[None], y), {}, ValueError, r"shape \(1, 50, 2\)"),
        "short target": ((X, y[:-1]), {}, ValueError, "y has 49 values, X has 50 rows"),
        "wide target": ((X, X), {}, ValueError, r"y has shape \(50, 2\)"),
        "no rows": ((X[:0], y[:0]), {}, ValueError, "0 usable rows"),
        "no columns": ((X[:, :0], y), {}, ValueError, "no feature that varies is left"),
        "objects": ((X.astype(object), y), {}, ValueError, "dtype object"),
        "object column": (({"a": [object()] * 50}, y), {}, ValueError, r"column 'a' holds Python objects \(object\)"),
        "complex": ((X.astype(complex), y), {}, ValueError, "dtype complex128"),
        "text matrix": ((X.astype(str), y), {}, ValueError, "dtype <U"),
        "dates": ((np.zeros((50, 2), "M8[s]"), y), {}, ValueError, "dtype datetime64"),
        "date column": ((pd.DataFrame({"t": pd.date_range("2020", periods=50)}), y), {}, ValueError, "column 't' has type datetime64"),
        "not data": ((7, y), {}, TypeError, "X is of type int"),
        "no target": ((X,), {}, ValueError, "target=\"COLUMN\" names it"),
        "unknown column": ((X,), {"target": "z"}, ValueError, r"there is no column 'z'; the columns are 'x1', 'x2'"),
        "two targets": ((X, y), {"target": "x1"}, ValueError, "the target is given twice"),
        "three classes": ((X, three), {}, ValueError, r"target 'y', row 2: 2 is neither 0/1 nor -1/\+1"),
        "one class": ((X, np.ones(50)), {}, ValueError, "is '1' in every row"),
        "k of 0": ((X, y), {"k": 0}, ValueError, "k is 0, but it must be at least 1"),
        "k too large": ((X, y), {"k": 51}, ValueError, "k = 51 points cannot be chosen from 50 rows"),
        "k negative": ((X, y), {"k": -1}, ValueError, "k is -1"),
        "k no integer": ((X, y), {"k": 2.5}, TypeError, "k is 2.5, but it must be a whole number"),
        "model": ((X, y), {"model": "probit"}, ValueError, "model is 'probit', but it must be one of binomial, exponential, gamma, gaussian, linear, logistic, negative-binomial, ordinal, poisson, softmax, student, weibull"),
        "method": ((X, y), {"method": "magic"}, ValueError, "method is 'magic', but it must be one of uniform"),
        "embedding": ((X, y), {"embedding": "draws:1"}, ValueError, "is not an embedding"),
        "prior": ((X, y), {"prior_sd": -1.0}, ValueError, "prior_sd is -1"),
        "counts": ((X, y - 0.5), {"model": "poisson"}, ValueError, "is not a count"),
        "conflict": ((X, y), {"link": "log"}, ValueError, "link is for model poisson"),
        "max_kl": ((X, y), {"max_kl": 0.1, "method": "omp"}, ValueError, "max_kl is for method pursuit"),
        "threads": ((X, y), {"threads": 0}, ValueError, "threads is 0"),
        "no file": (("missing.parquet",), {"target": "y"}, ValueError, "missing.parquet: cannot be opened"),
    }


@pytest.mark.parametrize("name", bad_inputs())
def test_bad_input_is_refused_in_one_line(name):
    arguments, keywords, kind, text = bad_inputs()[name]
    with pytest.raises(kind, match=text) as caught:
        corelet.build(*arguments, **keywords)
    assert "\n" not in str(caught.value)
    assert kind is TypeError or isinstance(caught.value, corelet.CoreletError)


def test_files_in_parts_are_one_table(logistic, tmp_path):
    frame = frame_of(*logistic)
    frame.to_parquet(tmp_path / "all.parquet")
    parts = tmp_path / "parts"
    parts.mkdir()
    for at, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].reset_index(drop=True).to_parquet(parts / f"{at}.parquet")
    whole = corelet.build(tmp_path / "all.parquet", target="y", k=20)
    for path in (parts, str(parts / "*.parquet"), sorted(parts.iterdir())):
        assert same(whole, corelet.build(path, target="y", k=20))
    frame.rename(columns={"x2": "z"}).to_parquet(parts / "3.parquet")
    with pytest.raises(corelet.CoreletError, match=r"3\.parquet: its columns are not those of .*: it has no column 'x2'"):
        corelet.build(parts, target="y", k=20)


def test_streams_are_read_batch_by_batch(logistic, tmp_path):
    table = pa.Table.from_pandas(frame_of(*logistic), preserve_index=False)
    pyarrow.parquet.write_table(table, tmp_path / "all.parquet", row_group_size=300)
    whole = corelet.build(table, target="y", k=20)
    scans = iter(table.to_batches(max_chunksize=100))
    streams = {
        "reader": pa.RecordBatchReader.from_batches(table.schema, scans),
        "dataset": pyarrow.dataset.dataset(tmp_path / "all.parquet"),
        "polars": pl.scan_parquet(tmp_path / "all.parquet"),
        "duckdb": duckdb.sql(f"select * from '{tmp_path / 'all.parquet'}'"),
    }
    folder = tmp_path / "scratch"
    folder.mkdir()
    for name, stream in streams.items():
        cs = corelet.build(stream, target="y", k=20, scratch=folder)
        assert same(whole, cs), name
        assert cs.summary["data"] == "data" and np.array_equal(cs.columns["x1"], whole.columns["x1"])
    assert next(scans, None) is None and not list(folder.iterdir())
    X, y = logistic
    lazy = pl.DataFrame({f"x{j + 1}": X[:, j] for j in range(X.shape[1])}).lazy()
    assert same(whole, corelet.build(lazy, y, k=20))
    with pytest.raises(corelet.CoreletError, match="data: there is no column 'z'"):
        corelet.build(streams["polars"], target="z", k=20)


def test_rows_beyond_memory_give_the_same_coreset(logistic, tmp_path):
    X, y = logistic
    whole = corelet.build(X, y, k=20)
    assert same(whole, corelet.build(X, y, k=20, memory="1kB", scratch=tmp_path))
    assert same(whole, corelet.build(X, y, k=20, memory=0))
    assert not list(tmp_path.iterdir())
    with pytest.raises(corelet.CoreletError, match="none: the scratch file: .* cannot be written there"):
        corelet.build(X, y, k=20, memory=0, scratch=tmp_path / "none")
    with pytest.raises(corelet.CoreletError, match="memory is 'much': .*it must be a size such as 4GiB"):
        corelet.build(X, y, k=20, memory="much")


def test_texts_are_those_of_the_command(logistic, command, tmp_path):
    X, y = logistic
    frame = frame_of(X, y)
    frame.loc[5, "x3"] = np.nan
    frame.to_parquet(tmp_path / "data.parquet")
    done = command("build", "data.parquet", "--target", "y", "-o", "core.csv", cwd=tmp_path)
    with pytest.raises(corelet.CoreletError) as caught:
        corelet.build(frame, target="y")
    said, advised = done.stderr.strip().removeprefix("error: data.parquet").split("; ")
    assert f"{said}; {advised.replace('--drop-missing', 'drop_missing=True')}" == str(caught.value).removeprefix("data")


def test_refusals_do_not_leak(logistic):
    X, y = logistic
    X, references = X.copy(), sys.getrefcount
    X[0, 0] = np.nan
    before = references(X)
    for _ in range(20):
        with pytest.raises(corelet.CoreletError):
            corelet.build(X, y, k=20)
    gc.collect()
    assert references(X) == before
    X[0, 0] = 0.0  # no borrow is left behind that would forbid writing
    corelet.build(X, y, k=5)
    assert references(X) == before


def test_a_result_can_be_shown_framed_written_and_pickled(logistic, command, tmp_path):
    X, y = logistic
    frame = frame_of(X, y).assign(town=np.where(X[:, 0] > 0, "Ulm", "Bern"))
    cs = corelet.build(frame, target="y", k=15)
    assert "15 of 2 000 rows stand for all (pursuit" in repr(cs) and "posterior" in repr(cs)
    shown = cs._repr_html_()
    assert "<table" in shown and "posterior" in shown and f">{cs.rows[cs.weights.argmax()]}</td>" in shown
    table = cs.to_frame()
    assert list(table.columns) == ["row", "weight", "x1", "x2", "x3", "x4", "y", "town"]
    assert np.array_equal(table["x2"], frame["x2"].to_numpy()[cs.rows])
    assert list(table["town"]) == list(frame["town"].iloc[cs.rows])
    assert cs.to_frame("polars").shape == (15, 8)
    cs.to_parquet(tmp_path / "core.parquet")
    again = pyarrow.parquet.read_table(tmp_path / "core.parquet")
    assert again.to_pandas().equals(table)
    metadata = pyarrow.parquet.read_metadata(tmp_path / "core.parquet").metadata
    assert json.loads(metadata[b"corelet"])["points"] == 15 and b"corelet.standardisation" in metadata
    frame.to_parquet(tmp_path / "data.parquet")
    done = command("evaluate", "data.parquet", "--target", "y", "--coreset", "core.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    copy = pickle.loads(pickle.dumps(cs))
    assert same(copy, cs) and copy.summary == cs.summary and repr(copy) == repr(cs)
    assert len(copy) == 15 and copy.quality == cs.quality
    with pytest.raises(corelet.CoreletError, match="extension of an output file"):
        cs.to_parquet(tmp_path / "core.xlsx")


def test_plot_draws_the_path(logistic):
    import matplotlib

    matplotlib.use("Agg")
    cs = corelet.build(*logistic, k=15)
    axes = cs.plot()
    points, residual = cs.path
    assert np.array_equal(axes.lines[0].get_xdata(), points)
    assert axes.lines[0].get_ydata() == pytest.approx(np.maximum(0.5 * residual**2, np.finfo(float).tiny))
    assert corelet.build(*logistic, k=15, method="uniform").plot(ax=axes) is axes


def test_threads_do_not_change_a_bit(logistic):
    one, two = (corelet.build(*logistic, k=30, method="importance-nnls", seed=3, threads=t) for t in (1, 2))
    assert same(one, two)


def test_progress_is_heard_and_can_stop(logistic):
    steps = []
    corelet.build(*logistic, k=50, progress=steps.append)
    assert steps and isinstance(steps[0], corelet.Progress) and steps[0].k == 50
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200_000, 8))
    y = rng.random(200_000) < 0.5
    with pytest.warns(UserWarning, match="had not converged when it stopped"):
        cs = corelet.build(X, y, k=400, method="giga", progress=lambda step: False)
    assert cs.status == "stopped"

    class Mine(Exception):
        pass

    def fail(step):
        raise Mine(step.k)

    with pytest.raises(Mine, match="400"):
        corelet.build(X, y, k=400, method="giga", progress=fail)


def test_a_bar_is_drawn_where_it_is_asked_for(logistic, capsys):
    corelet.build(*logistic, k=20, progress=True)
    assert "corelet" in capsys.readouterr().err
    corelet.build(*logistic, k=20)
    assert capsys.readouterr().err == ""


def test_the_gil_is_let_go():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300_000, 10)), rng.random(300_000) < 0.5
    beats, done = [], threading.Event()

    def beat():
        while not done.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.005)

    heart = threading.Thread(target=beat)
    heart.start()
    start = time.perf_counter()
    corelet.build(X, y, k=100)
    end = time.perf_counter()
    done.set()
    heart.join()
    inside = [moment for moment in beats if start < moment < end]
    assert len(inside) > 5


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, corelet
rng = np.random.default_rng(1)
X, y = rng.normal(size=(100_000, 12)), rng.random(100_000) < 0.5
asked = []
def ask():
    asked.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(1.5, ask).start()
try:
    # A pass for every point: minutes of work.
    corelet.build(X, y, k=1000, method="omp", embedding="draws:2000")
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - asked[0])
    sys.stdout.flush()
    os._exit(0)
print("finished")
"""


@pytest.mark.slow
def test_ctrl_c_interrupts():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("interrupted"), done.stdout + done.stderr


READING = """
import os, signal, sys, threading
import pyarrow as pa, corelet
asked = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
def forever():
    asked.start()
    while True:
        yield pa.record_batch({"x": [0.5] * 1000, "y": [0, 1] * 500})
def file():
    asked.start()
    return sys.argv[2]
def stream():
    batches = forever()
    return pa.RecordBatchReader.from_batches(next(batches).schema, batches)
try:
    corelet.build({"file": file, "stream": stream}[sys.argv[1]](), target="y", k=5)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_ctrl_c_interrupts_while_rows_are_read(kind, tmp_path):
    path = tmp_path / "many.csv"
    if kind == "file":  # Read to its end, it would be refused.
        path.write_bytes(b"x,y\n" + b"0.123456789,1\n-1.23456789,0\n" * 10_000_000 + b"none,1\n")
    done = subprocess.run([sys.executable, "-c", READING, kind, path], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stdout + done.stderr


def test_the_version_is_that_of_the_crate():
    from importlib.metadata import version

    assert corelet.__version__ == version("corelet")


MEMORY = """
import re, numpy as np, corelet
peak = lambda: 1024 * int(re.search("VmHWM:\\\\s*(\\\\d+)", open("/proc/self/status").read())[1])
X, y = np.load("X.npy"), np.load("y.npy")
corelet.build(X[:100], y[:100], k=5)
before = peak()
try:
    corelet.build(X, y, k=len(X) + 1)  # refused when the design matrix is there
except corelet.CoreletError:
    print((peak() - before) / X.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_an_array_is_copied_once_on_the_way_in(tmp_path):
    """The design matrix has 11 columns in f32 for the array's 10 in f64, and the target is one more vector."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(500_000, 10)))
    np.save(tmp_path / "y.npy", (rng.random(500_000) < 0.5).astype(float))
    done = subprocess.run([sys.executable, "-c", MEMORY], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert 0.6 < float(done.stdout) < 1.0, done.stdout + done.stderr


def test_groups_are_chosen_whole_from_a_column_or_an_array(logistic, command, tmp_path):
    X, y = logistic
    patients = np.array([f"p{j}" for j in (np.arange(len(y)) * 31) % 150])
    frame = frame_of(X, y).assign(patient=patients)
    cs = corelet.build(frame, target="y", groups="patient", k=40)
    assert same(cs, corelet.build(X, y, groups=patients, k=40))
    assert len(cs.groups) <= 40 and cs.summary["groups"] == 150 and cs.summary["groups_chosen"] == len(cs.groups)
    assert np.array_equal(cs.rows, np.flatnonzero(np.isin(patients, cs.groups)))
    weights = dict(zip(cs.groups, cs.group_weights))
    assert np.array_equal(cs.weights, [weights[patient] for patient in patients[cs.rows]])
    assert corelet.check(cs, frame, chains=2).grade == "A"

    frame.to_parquet(tmp_path / "data.parquet")
    arguments = ["build", "data.parquet", "--target", "y", "--groups", "patient", "-k", "40", "-o", "core.parquet"]
    assert command(*arguments, cwd=tmp_path).returncode == 0
    written = pyarrow.parquet.read_table(tmp_path / "core.parquet")
    assert np.array_equal(cs.rows, written["row"].to_numpy()) and np.array_equal(cs.weights, written["weight"].to_numpy())


def test_groups_are_checked_and_fitted_where_they_are_an_array(logistic):
    X, y = logistic
    patients = (np.arange(len(y)) * 31) % 150
    fit = corelet.fit(X, y, groups=patients, k=40, chains=2)
    assert fit.verdict.grade == "A" and len(fit.coreset.groups) <= 40
    assert set(patients[fit.coreset.rows]) == set(fit.coreset.groups)


@pytest.mark.parametrize(
    ("groups", "flags", "words"),
    [
        (np.arange(10), {}, "groups has 10 values"),
        ("doctor", {}, "there is no column 'doctor'"),
        ("every", {"max_kl": 0.1}, "groups and max_kl do not go together"),
        ("every", {"method": "sparse-vi"}, "groups and method sparse-vi do not go together"),
        ("missing", {}, "the group of row 3 is missing"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, flags, words, logistic):
    X, y = logistic
    every = np.arange(len(y)) % 50
    given = {"every": every, "missing": np.where(np.arange(len(y)) == 3, np.nan, every)}.get(str(groups), groups)
    with pytest.raises(corelet.CoreletError, match=words):
        corelet.build(X, y, groups=given, **flags)
