"""Whether `auto` takes more than twice the time of the cheapest embedding that reaches what it reaches.

    python benches/embeddings.py target/release/corelet [claims.parquet]

Builds each problem with every embedding, `--threads 1`, and prints seconds of the processor and nats on fresh draws, the faster of
two runs. The real sets need the folder that CORELET_DATA names; `claims.parquet` is what the example `claims` writes.
An embedding *reaches* what `auto` does where its nats are at most twice those of `auto`, or 1e-3, which is good enough by default.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GOOD_NATS, RUNS, LONGEST = 1e-3, 2, 120
EMBEDDINGS = ["auto", "hermite:2", "hermite:3", "both", "draws"]


def draws(k):
    """How many draws `auto` would take for k points."""
    return min(max(4 * k, 500), 4000)


def embedding(name, k):
    return {"both": f"hermite:2+draws:{draws(k)}", "draws": f"draws:{draws(k)}"}.get(name, name)


def generated(folder, model, rows, features):
    """A file of correlated, skewed features, and a response of the model given them."""
    rng = np.random.default_rng(1)
    mixing = np.eye(features) + 0.3 * rng.standard_normal((features, features)) / np.sqrt(features)
    X = rng.standard_normal((rows, features)) @ mixing
    X[:, 0] = np.expm1(0.5 * X[:, 0])
    X = np.column_stack([X, np.ones(rows)])
    eta = X @ (0.5 * rng.standard_normal(features + 1))
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), 1.0, -1.0) if model == "logistic" else rng.poisson(np.log1p(np.exp(eta)))
    path = folder / f"{model}-{rows}-{features}.npz"
    np.savez(path, X=X, y=y.astype(float))
    return path


def problems(folder, claims):
    """Name, arguments and numbers of points."""
    poisson = ["--model", "poisson", "--link", "softplus"]
    for rows, features, points in [(500, 10, [20, 100]), (20_000, 10, [50, 200]), (200_000, 20, [100, 400])]:
        yield f"logistic {rows} × {features + 1}", [generated(folder, "logistic", rows, features)], points
        yield f"poisson {rows} × {features + 1}", [generated(folder, "poisson", rows, features), *poisson], points
    if data := os.environ.get("CORELET_DATA"):
        real = Path(data)
        yield "ds1", [real / "ds1.npz", "--standardise", "whiten"], [20, 100]
        yield "phishing_large", [real / "phishing_large.npz", "--standardise", "whiten"], [100, 200]
        yield "phishing.libsvm", [real / "phishing.libsvm"], [400, 1000]
        yield "flights", [real / "flights.parquet", "--target", "late", "--drop-missing"], [200, 500]
    if claims:
        yield "claims", [claims, "--target", "claims", "--model", "poisson", "--exposure", "exposure"], [300, 800]


def build(program, arguments, k, name, folder):
    """Processor seconds of the command and nats on fresh draws; none where the embedding does not apply, or takes too long."""
    summary = folder / "summary.json"
    command = [program, "build", *arguments, "-k", k, "--embedding", embedding(name, k), "--threads", 1, "-q"]
    command += ["-o", folder / "coreset.csv", "--json", summary]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=LONGEST)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(summary.read_text())["heldout_nats"]


def main(program, claims=None):
    print("| problem | k | " + " | ".join(EMBEDDINGS) + " | auto, times the cheapest |")
    print("| --- " * (len(EMBEDDINGS) + 3) + "|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for problem, arguments, points in problems(folder, claims):
            for k in points:
                runs = [[build(program, arguments, k, name, folder) for name in EMBEDDINGS] for _ in range(RUNS)]
                found = [min(filter(None, pair), default=None) for pair in zip(*runs)]
                cells = [f"{f[0]:.2f} s, {f[1]:.1e}" if f else "–" for f in found]
                seconds, nats = found[0]
                cheapest = min(f[0] for f in found if f and f[1] <= max(2 * nats, GOOD_NATS))
                print(f"| {problem} | {k} | " + " | ".join(cells) + f" | {seconds / cheapest:.1f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
