"""What calling from Python costs over the command, and what memory an array costs on the way in.

    python benches/python_overhead.py path/to/corelet

needs the package, NumPy and the built command. Both do the same job, fit, build and evaluate, on 1 000 000 × 10 float64 in memory
for Python and in an `.npz` file for the command, whose reading is not counted; the parts are timed by each itself.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import corelet

ROWS, WIDTH, RUNS = 1_000_000, 10, 3
PARTS = ("laplace", "build", "evaluate")


# In a process of its own, which has held nothing larger than the arrays before.
MEMORY = """
import re, numpy as np, corelet
peak = lambda: 1024 * int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
X, y = np.load("X.npy"), np.load("y.npy")
before = peak()
seen = []
corelet.build(X, y, k=100, progress=lambda step: seen.append(peak()))
print(X.nbytes, seen[0] - before, peak() - before)
"""


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, WIDTH))
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, WIDTH)))).astype(np.float64)
    return X, y


def main():
    command = sys.argv[1]
    X, y = data()
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", X=X, y=y)
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        child = subprocess.run([sys.executable, "-c", MEMORY], cwd=folder, check=True, capture_output=True, text=True)
        size, design, grown = map(int, child.stdout.split())
        own, other = [], []
        for _ in range(RUNS):
            start = time.perf_counter()
            cs = corelet.build(X, y, k=100)
            wall = time.perf_counter() - start
            inside = sum(cs.summary["seconds"][part] for part in PARTS)
            own.append((wall, inside))
            subprocess.run(
                [command, "build", "data.npz", "-k", "100", "-o", "core.csv", "--json", "s.json", "--quiet"], cwd=folder, check=True
            )
            other.append(sum(json.loads((Path(folder) / "s.json").read_text())["seconds"][part] for part in PARTS))
    wall, inside = min(own)
    print(f"an array of {size / 1e6:.0f} MB: peak raised by {design / 1e6:.0f} MB at the first step, {grown / 1e6:.0f} MB at the end")
    print(f"command: fit, build, evaluate {min(other):.2f} s; the same inside Python {inside:.2f} s; call to result {wall:.2f} s")
    print(f"beside the design matrix, which both make: {100 * (wall - inside - cs.summary['seconds']['read']) / wall:.2f} % of the call")


main()
