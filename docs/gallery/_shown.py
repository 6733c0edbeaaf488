"""What the examples share: their size, and the picture and the text that the gallery shows of a run."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import numpy as np

RESULTS = Path(os.environ.get("CORELET_GALLERY_RESULTS") or Path(__file__).resolve().parent / "results")
REDUCED = bool(os.environ.get("CORELET_GALLERY_REDUCED"))
ALL, CORESET = "#9aa5b1", "#0b6e99"


def rows(usual: int, reduced: int) -> int:
    """How many rows an example generates; fewer in tests."""
    return reduced if REDUCED else usual


def versions(*packages: str) -> str:
    """The packages and the machine that a run stands for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    named = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in ("corelet", *packages))
    return f"{named}; Python {platform.python_version()}, {cores} cores, {time.strftime('%B %Y')}"


def timed(call):
    """What a call returns, and the processor seconds that it took, of all cores together."""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A Gaussian kernel density."""
    width = 1.06 * values.std() * len(values) ** -0.2
    return np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2).mean(axis=1) / width


def marginals(name: str, ours: dict, full: dict) -> None:
    """Posterior of the coreset (lines) over that of all rows (areas), one panel a parameter, into results/NAME.svg."""
    figure, axes = plt.subplots(1, len(ours), figsize=(2.3 * len(ours), 2.2), squeeze=False)
    for axis, parameter in zip(axes[0], ours):
        mine, all_rows = np.ravel(ours[parameter]), np.ravel(full[parameter])
        middle, spread = all_rows.mean(), all_rows.std()
        grid = np.linspace(middle - 4 * spread, middle + 4 * spread, 200)
        axis.fill_between(grid, density(all_rows, grid), color=ALL, alpha=0.6, linewidth=0, label="all rows")
        axis.plot(grid, density(mine, grid), color=CORESET, linewidth=1.6, label="coreset")
        axis.set(yticks=[], xlabel=parameter)
        axis.locator_params(axis="x", nbins=3)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["left", "right", "top"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=7, loc="upper left")
    save(name, figure)


def save(name: str, figure) -> None:
    """A figure into results/NAME.svg, on white so that it can be read in the dark theme too."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.svg", facecolor="white", metadata={"Date": None})


def report(name: str, verdict, lines: dict, *packages: str) -> None:
    """The verdict and the times into results/NAME.txt, and on the screen."""
    width = max(map(len, lines))
    text = "\n".join([str(verdict), "", *(f"{label:<{width}}  {value}" for label, value in lines.items()), "", versions(*packages)])
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.txt").write_text(text + "\n")
    print(text)
