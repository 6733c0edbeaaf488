"""The picture of the README: the posterior of at most 300 weighted rows over that of all rows, and processor seconds against the number of rows.

    python docs/pictures/posterior.py [OUTPUT.svg]

Rows are the flights of `flights.parquet` in the folder that CORELET_DATA names, or generated where there are none. NUTS on all rows takes
minutes; everything is measured in this one run.
"""

import os
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gaussian_kde

import corelet

OUTPUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".svg")
FLIGHTS = Path(os.environ.get("CORELET_DATA") or ".") / "flights.parquet"
POINTS = 300
CHAINS = dict(chains=2, tune=250, draws=600, seed=1)
SIZES = (10_000, 30_000, 100_000, 300_000)
ALL, CORESET = "#9aa5b1", "#0b6e99"


def generated(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(size, 10))
    return X, rng.random(size) < 1 / (1 + np.exp(1.0 - X @ np.linspace(-1, 1, 10)))


def draws_of(idata) -> tuple[list[str], np.ndarray]:
    original = idata.posterior["original"]
    return list(original[original.dims[-1]].values), original.values.reshape(-1, original.shape[-1])


def main() -> None:
    if FLIGHTS.exists():
        data, target = {"X": str(FLIGHTS), "target": "late", "drop_missing": True}, "flights"
        shown = ["dep_delay", "hour", "wind_speed", "precip", "distance", "visib", "temp", "humid"]
    else:
        X, y = generated(300_000)
        data, target, shown = {"X": X, "y": y}, "rows", ["x1", "x3", "x8"]

    coreset = corelet.build(**data, k=POINTS)
    ours = draws_of(coreset.sample(**CHAINS))
    full = corelet.fit(**data, full=True, **CHAINS)
    names, everything = draws_of(full.idata)
    verdict = corelet.check(coreset, data["X"], data.get("y"), **CHAINS)
    print(f"all rows: {full.seconds:.1f} s by the clock\n{verdict}", flush=True)

    shown = [name for name in shown if name in names][:3] or names[:3]
    figure, axes = plt.subplots(1, len(shown) + 1, figsize=(10, 2.6), gridspec_kw={"width_ratios": [1] * len(shown) + [1.35]})
    for axis, name in zip(axes, shown):
        column = names.index(name)
        values = everything[:, column]
        middle, spread = values.mean(), values.std()
        grid = np.linspace(middle - 6 * spread, middle + 6 * spread, 300)
        everybody = f"all {int(coreset.summary['n']):,} {target}".replace(",", " ")
        axis.fill_between(grid, gaussian_kde(values)(grid), color=ALL, alpha=0.6, linewidth=0, label=everybody)
        axis.plot(grid, gaussian_kde(ours[1][:, column])(grid), color=CORESET, linewidth=1.8, label=f"{len(coreset)} weighted {target}")
        axis.set(yticks=[], xlabel=name.replace("_", " "))
        axis.locator_params(axis="x", nbins=3)
        for side in ("left", "right", "top"):
            axis.spines[side].set_visible(False)

    seconds = {"NUTS on all rows": [], "Corelet": []}
    for size in SIZES:
        X, y = generated(size)
        for name, asked in (("Corelet", dict(k=100)), ("NUTS on all rows", dict(full=True))):
            began = time.process_time()
            corelet.fit(X, y, **asked, **CHAINS)
            seconds[name].append(time.process_time() - began)
        print(size, {name: round(values[-1], 2) for name, values in seconds.items()}, flush=True)
    axis = axes[-1]
    for (name, values), colour in zip(seconds.items(), (ALL, CORESET)):
        axis.loglog(SIZES, values, "o-", color=colour, label=name, markersize=4)
        axis.annotate(name, (SIZES[-1], values[-1]), textcoords="offset points", xytext=(0, 7), ha="right", fontsize=8, color=colour)
    axis.set(xlabel="rows", ylabel="processor seconds")
    axis.set_title("logistic regression, 11 coefficients", fontsize=9, pad=17)
    for side in ("right", "top"):
        axis.spines[side].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper left", ncols=3, frameon=False, fontsize=9, bbox_to_anchor=(0.01, 1.04))
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(OUTPUT, metadata={"Date": None}, facecolor="white")


main()
