"""What the questions after a fit cost, through the command, beside a verdict on all rows: processor seconds.

    python benches/after_fit.py ROWS [COMMAND]      # 1000000 or 10000000; corelet from the PATH unless it is named

Logistic regression with ten features, from a Parquet file; a coreset of 70 rows. One thread, so that processor seconds are those of the work
alone. Files are written to a temporary folder: 80 bytes a row.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SLOPES = 0.3 * np.random.default_rng(1).normal(size=10)


def table(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(SLOPES)))
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "y": rng.random(rows) < 1 / (1 + np.exp(-0.2 - X @ SLOPES))})


def written(path, rows, block=500_000):
    with pq.ParquetWriter(path, table(2, 0).schema) as writer:
        for at in range(0, rows, block):
            writer.write_table(table(min(block, rows - at), [7, at]))


def measured(command, *arguments):
    """Processor seconds of one run."""
    sys.stdout.flush()
    child = os.posix_spawnp(
        command, [command, *map(str, arguments)], {**os.environ, "RAYON_NUM_THREADS": "1"},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 3):
        sys.exit(f"{command} {' '.join(map(str, arguments))}: exit code {code}")
    return used.ru_utime + used.ru_stime


def main():
    rows, command = int(float(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else "corelet"
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        data, new, core, draws = (here / name for name in ("data.parquet", "new.parquet", "core.parquet", "draws.parquet"))
        written(data, rows)
        pq.write_table(table(10_000, 99), new)
        model = ("--target", "y", "--model", "logistic")
        runs = {
            "fit -k 70": ("fit", data, *model, "-k", 70, "-o", draws, "--coreset", core),
            "sample, with its verdict at 4000 draws": ("sample", data, *model, "--coreset", core, "-o", here / "again.parquet"),
            "certify": ("certify", draws, data, *model),
            "update, of 10 000 new rows": ("update", core, new, "-o", here / "core2.parquet"),
            "review": ("review", draws, data, *model),
            "review --outcomes 0": ("review", draws, data, *model, "--outcomes", 0),
            "review --most 100 --outcomes 0": ("review", draws, data, *model, "--most", 100, "--outcomes", 0),
            "review --k-fold 5 -k 70": ("review", draws, data, *model, "--most", 100, "--outcomes", 0, "--k-fold", 5, "-k", 70),
            "predict, by 200 draws": ("predict", core, data, "--draws", 50, "--chains", 4, "-o", here / "predicted.parquet"),
        }
        for name, arguments in runs.items():
            print(f"{rows:>10} rows  {name:<42} {measured(command, *arguments):8.1f} s", flush=True)


if __name__ == "__main__":
    main()
