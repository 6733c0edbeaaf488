"""How often partitions choose otherwise than one machine: random builds, their partitions in this process. `python benches/partitionings.py 300`."""

import sys
import warnings

import numpy as np
import pandas as pd

import corelet
from corelet.frames import cluster as _cluster

MODELS = ("logistic", "poisson", "linear", "student", "negative-binomial", "gamma", "softmax", "ordinal")


class Here:
    """Partitions in this process, asked one after the other."""

    def __init__(self, parts):
        self.parts, self.partitions, self.shards = parts, len(parts), {}

    def look(self, question):
        return [_cluster.look(part, at, question) for at, part in enumerate(self.parts)]

    def hold(self, plan, partitions):
        self.shards = {at: _cluster.make(self.parts[at], at, plan) for at in partitions}
        return [self.shards[at].made() for at in partitions]

    def ask(self, question, partitions):
        return [self.shards[at].answer(question) for at in partitions]

    def cells(self, rows):
        return [_cluster.cells(self.parts[at], at, these) for at, these in rows.items()]


def table(rng, model, rows, features):
    """Numbers of several kinds, a text, and a target that the model suits."""
    x = rng.normal(size=(rows, features)) @ np.linalg.qr(rng.normal(size=(features, features)))[0]
    x = np.sinh(x) if rng.random() < 0.3 else x
    frame = pd.DataFrame({f"x{j}": 10.0 ** rng.integers(-3, 4) * x[:, j] + rng.normal() for j in range(features)})
    frame["word"] = rng.choice(["a", "b", "c"], rows, p=[0.7, 0.25, 0.05])
    eta = x @ rng.normal(size=features) / features**0.5 + 0.5 * (frame["word"] == "b").to_numpy()
    noise = rng.normal(size=rows)
    classes = np.digitize(eta + noise, [-1.0, 0.0, 1.0])
    targets = {
        "logistic": lambda: rng.random(rows) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(np.clip(0.5 * eta, -5, 3))).astype(float),
        "negative-binomial": lambda: rng.poisson(np.exp(np.clip(0.5 * eta + 0.5 * noise, -5, 4))).astype(float),
        "gamma": lambda: np.exp(np.clip(0.5 * eta, -5, 5)) * rng.gamma(2.0, size=rows),
        "softmax": lambda: np.array(["low", "fair", "good", "high"])[classes],
        "ordinal": lambda: classes.astype(float),
    }
    return frame.assign(y=targets.get(model, lambda: eta + noise)())


def cut(rng, rows):
    """Where partitions begin and end: from 2 to 12 of them, of sizes that may be far apart."""
    shares = rng.dirichlet(np.full(rng.integers(2, 13), rng.choice([0.3, 3.0])))
    return np.concatenate([[0], np.round(rows * np.cumsum(shares)).astype(int)])


def main(builds):
    warnings.simplefilter("ignore")
    rows_off, weights_off, worst, differing = 0, 0, 0.0, []
    for seed in range(builds):
        rng = np.random.default_rng(seed)
        model = MODELS[seed % len(MODELS)]
        rows = int(10 ** rng.uniform(2.5, 4.3))
        frame = table(rng, model, rows, int(rng.integers(1, 9)))
        asked = dict(target="y", model=model, k=int(min(rows, rng.choice([10, 30, 100]))), seed=seed)
        whole = corelet.build(frame, progress=False, **asked)
        ends = cut(rng, rows)
        parts = [frame.iloc[start:end] for start, end in zip(ends, ends[1:])]
        found = _cluster.build_on(Here(parts), frame.iloc[:0], asked, False, None)
        if found.rows.tolist() != whole.rows.tolist():
            rows_off += 1
            differing.append((seed, model, rows, whole.quality.kl_forward, found.quality.kl_forward))
            continue
        off = np.max(np.abs(found.weights - whole.weights) / np.maximum(np.abs(whole.weights), 1.0))
        worst, weights_off = max(worst, off), weights_off + bool(off > 1e-9)
        if off > 1e-9:
            differing.append((seed, model, rows, off))
    print(f"{builds} builds: {rows_off} with other rows, {weights_off} with weights off by more than 1e-9; of the others {worst:.1e}")
    for case in differing:
        print(*case)


if __name__ == "__main__":
    main(int(sys.argv[1]))
