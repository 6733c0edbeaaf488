"""
A file larger than memory
=========================

Build a coreset from a file that is larger than the memory you allow. The data are four million rows in eight Parquet files, and the limit for
rows is 50 MB. Corelet maps the remaining rows from an unnamed scratch file. The coreset is identical to the bit to the one built with all rows in
memory. Besides these rows, the process holds the Python interpreter and packed rows for the kernel; the packed rows take at most 256 MB for any file
size.

.. image:: /gallery/results/beyond_memory.svg
   :alt: memory held by the two runs

.. literalinclude:: /gallery/results/beyond_memory.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/beyond_memory.svg'

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from _shown import ALL, CORESET, report, rows, save

import corelet

# %%
# Write eight files, one at a time.

PARTS, FEATURES = 8, 10
n = rows(4_000_000, 80_000)
folder = tempfile.TemporaryDirectory()
rng = np.random.default_rng(0)
for part in range(PARTS):
    X = rng.normal(size=(n // PARTS, FEATURES)).astype(np.float32)
    y = rng.random(len(X)) < 1 / (1 + np.exp(1.0 - X @ np.linspace(-1, 1, FEATURES)))
    columns = {f"x{j}": X[:, j] for j in range(FEATURES)}
    pyarrow.parquet.write_table(pa.table({**columns, "y": y.astype(np.int8)}), Path(folder.name) / f"part-{part}.parquet")

# %%
# Each limit gets its own process, so that memory is measured separately. The measure is anonymous memory, which the system cannot
# reclaim, unlike mapped pages.

PROGRAM = """
import sys, threading, time, corelet

held, over = [0], threading.Event()

def watch():
    while not over.is_set():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                held[0] = max(held[0], int(line.split()[1]) // 1024)
        time.sleep(0.02)

watcher = threading.Thread(target=watch)
watcher.start()
coreset = corelet.build(sys.argv[1], target="y", k=100, memory=sys.argv[2], progress=False)
over.set()
watcher.join()
coreset.to_parquet(sys.argv[3])
print(held[0])
"""


def build(memory: str, output: Path) -> tuple[int, float]:
    """MB of anonymous memory at most, and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROGRAM, str(Path(folder.name)), memory, str(output)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(printed.split()[-1]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


outputs = {memory: Path(folder.name).parent / f"{Path(folder.name).name}-{memory}.parquet" for memory in ("2GiB", "50MB")}
held = {memory: build(memory, output) for memory, output in outputs.items()}
same = outputs["2GiB"].read_bytes() == outputs["50MB"].read_bytes()

# %%
# The verdict reads the files once more. NUTS on all rows would take an hour, so this example leaves it out.

coreset = corelet.build(folder.name, target="y", k=100, memory="50MB")
verdict = corelet.check(coreset, folder.name, chains=2)

figure, axis = plt.subplots(figsize=(5, 1.6))
axis.barh([f"--memory {memory}" for memory in held], [megabytes for megabytes, _ in held.values()], color=[ALL, CORESET])
axis.set_xlabel("MB of anonymous memory, at most")
axis.spines[["right", "top"]].set_visible(False)
save("beyond_memory", figure)
lines = {f"--memory {memory}": f"{megabytes} MB held, {seconds:.1f} s" for memory, (megabytes, seconds) in held.items()}
report("beyond_memory", verdict, {**lines, "the same file to the byte": "yes" if same else "no"}, "pyarrow")

for output in outputs.values():
    output.unlink()
folder.cleanup()
