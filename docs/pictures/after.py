"""The pictures of docs/after.md: what `certify` and `review` measure, beside what is known by other means.

    python docs/pictures/after.py [FOLDER]

Left to right in the first: draws that are off by a known shift and scale, and what the certificate says of them; the change of each mean
when a row is left out, against a refit without it. The second is the place of
outcomes among those that each of two models draws for them. Everything is generated, and computed in this one run.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "corelet"

import matplotlib.pyplot as plt
import numpy as np

import corelet

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
OURS, OTHER, LEVEL = "#0b6e99", "#d55e00", "#9aa5b1"
CHAINS = dict(draws=1000, tune=400, chains=4)


def counts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    mean = np.exp(0.5 + X @ [0.4, -0.2, 0.0])
    return X, rng.poisson(rng.gamma(1.5, mean / 1.5))


def certified(axis: plt.Axes, rng: np.random.Generator) -> None:
    """Shift and scale that were put in, against those that come out."""
    X, y = counts(rng, 20_000)
    fit = corelet.fit(X, y, model="negative-binomial", k=200, **CHAINS)
    draws = fit.draws["original"]
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    for shift, colour in ((0.0, OURS), (0.5, OTHER)):
        scales = np.array([0.5, 0.7, 0.85, 1.0, 1.2, 1.5])
        found = []
        for scale in scales:
            moved = mean + scale * (draws - mean)
            moved[:, :, 0] += shift * sd[0]
            certificate = corelet.certify(moved, X, y, model="negative-binomial")
            found.append((certificate.scale[0], certificate.scale_error[0], certificate.grade))
        values, errors, grades = zip(*found)
        label = "mean right" if shift == 0 else "mean off by half an sd"
        axis.errorbar(scales, values, yerr=2 * np.array(errors), fmt="o", color=colour, markersize=4, label=label)
        for x, y_, grade in zip(scales, values, grades):
            axis.annotate(grade, (x, y_), textcoords="offset points", xytext=(6, -9 if shift else 4), color=colour, fontsize=8)
    axis.plot([0.4, 1.6], [0.4, 1.6], color=LEVEL, zorder=0)
    axis.set(xlabel="sd of the draws over that of the posterior", ylabel="what certify measures")
    axis.legend(frameon=False, fontsize=8)


def influence(axis: plt.Axes, rng: np.random.Generator) -> None:
    """First-order changes against refits without a row."""
    X, y = counts(rng, 150)
    y[3] = 40
    asked = dict(model="poisson", full=True, draws=2000, tune=400, chains=4)
    everything = corelet.fit(X, y, seed=1, **asked)
    means = everything.draws["original"].mean(axis=(0, 1))
    review = corelet.review(everything, X, y, model="poisson", most=4000)
    for name, at, colour in (("x1", 0, OURS), ("x2", 1, OTHER)):
        found = review.influence[name]
        rows = np.concatenate([found.rows[:6], found.rows_along[:6]])
        changes = np.concatenate([found.changes[:6], found.changes_along[:6]])
        truth = []
        for row in rows:
            kept = np.arange(len(y)) != row
            left = corelet.fit(X[kept], y[kept], seed=1, **asked)
            truth.append(left.draws["original"].mean(axis=(0, 1))[at] - means[at])
        axis.plot(changes, truth, "o", color=colour, markersize=4, label=name)
    ends = axis.get_xlim()
    axis.plot(ends, ends, color=LEVEL, zorder=0)
    axis.set(xlabel="change when a row is left out, review", ylabel="refit without it")
    axis.legend(frameon=False, fontsize=8)


def places(axes: np.ndarray, rng: np.random.Generator) -> None:
    """Histograms of the probability integral transform."""
    X, y = counts(rng, 20_000)
    for axis, model in zip(axes, ("poisson", "negative-binomial")):
        review = corelet.review(corelet.fit(X, y, model=model, k=150, **CHAINS), X, y, most=200)
        heights = review.fits.pit / review.fits.pit.mean()
        edges = np.linspace(0, 1, len(heights) + 1)
        axis.stairs(heights, edges, color=OURS, fill=True, alpha=0.6)
        axis.axhline(1.0, color=LEVEL)
        said = "vary more than it says" if review.fits.misfits else "nothing is far off"
        axis.set(xlabel=f"place among outcomes drawn by the {model} model", title=f"dispersion {review.fits.dispersion:.2f}: {said}")
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("rows, over a level share")


def main() -> None:
    rng = np.random.default_rng(4)
    with plt.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.2))
        for axis, draw in zip(axes, (certified, influence)):
            draw(axis, rng)
        figure.tight_layout()
        figure.savefig(FOLDER / "after.svg", metadata={"Date": None})
        figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), sharey=True)
        places(axes, rng)
        figure.tight_layout()
        figure.savefig(FOLDER / "places.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
