"""A picture of docs/after.md: updates, rows and folds left out, log evidence and predictions, each beside what is known by other means.

    python docs/pictures/compared.py [FOLDER]

By line: the bound on V that updates carry, and V on all rows, which they have not; log predictive densities of rows that were left out, one by one
and fold by fold, against their closed form; the log evidence of linear models against its closed form; how many new outcomes lie in
intervals that were predicted for them. Everything is generated, and computed in this one run.
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
LINEAR = dict(model="linear", sigma=0.8, prior_sd=1.0, standardise="none")
BLOCK, BLOCKS = 3000, 15


def counts(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(0.5 + X @ [0.4, -0.2, 0.1]))


def updates(axis: plt.Axes, rng: np.random.Generator) -> None:
    """The bound on V after each update, and V by a verdict on all rows."""
    X, y = counts(rng, BLOCK * BLOCKS)
    asked = dict(model="poisson", k=60, rest="none")
    fit = corelet.fit(X[:BLOCK], y[:BLOCK], **asked)
    bounds, known = [], []
    for end in range(BLOCK, len(y) + 1, BLOCK):
        if end > BLOCK:
            fit = fit.update(X[end - BLOCK : end], y[end - BLOCK : end])
        bounds.append(fit.verdict.variance_upper)
        known.append(_variance(fit, X[:end], y[:end]))
    at = np.arange(1, BLOCKS + 1)
    axis.semilogy(at, bounds, "-", color=OURS, label="bound, without the earlier rows")
    axis.semilogy(at, known, "o", color=OTHER, markersize=3, label="V on all rows")
    axis.axhline(0.1, color=LEVEL)
    axis.annotate("an A ends here", (1, 0.1), textcoords="offset points", xytext=(0, -9), fontsize=7, color=LEVEL)
    axis.set(xlabel=f"blocks of {BLOCK} rows", ylabel="nats²")
    axis.legend(frameon=False, fontsize=8)


def _variance(fit: corelet.Fit, X: np.ndarray, y: np.ndarray) -> float:
    """Var(L − L_w) at draws of the fit, by hand."""
    theta = fit.draws["original"].reshape(-1, 4)[::20]

    def total(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        eta = theta[:, :3] @ X[rows].T + theta[:, 3:]
        return (y[rows] * eta - np.exp(eta)) @ weights

    everything = total(np.arange(len(y)), np.ones(len(y)))
    return float((everything - total(fit.coreset.rows, fit.coreset.weights)).var())


def straight(rng: np.random.Generator, n: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, features))
    return X, X @ np.linspace(0.6, 0.0, features) + 0.8 * rng.normal(size=n)


def predicted(Z: np.ndarray, y: np.ndarray, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """log p of rows `at` given these rows, of a linear model with noise 0.8 and N(0, 1) priors."""
    covariance = np.linalg.inv(Z[rows].T @ Z[rows] / 0.64 + np.eye(Z.shape[1]))
    mean, variance = Z[at] @ covariance @ Z[rows].T @ y[rows] / 0.64, 0.64 + ((Z[at] @ covariance) * Z[at]).sum(axis=1)
    return -0.5 * (y[at] - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)


def left_out(axis: plt.Axes, rng: np.random.Generator) -> None:
    """Log densities of rows by the others."""
    X, y = straight(rng, 120, 4)
    y[7] += 4.0
    Z, everything = X, np.arange(len(y))
    asked = dict(LINEAR, intercept=False)
    loo = corelet.review(corelet.fit(X, y, full=True, draws=2000, **asked), X, y, most=4000, **asked).loo.elpd_i
    truth = np.concatenate([predicted(Z, y, np.delete(everything, row), everything[row : row + 1]) for row in everything])
    axis.plot(truth, loo - truth, "o", color=OURS, markersize=3, label="leave-one-out")
    folds = corelet.k_fold(X, y, folds=5, k=60, **asked)
    truth = np.empty(len(y))
    for fold in range(5):
        held = folds.fold_i == fold
        truth[held] = predicted(Z, y, everything[~held], everything[held])
    axis.plot(truth, folds.elpd_i - truth, "s", color=OTHER, markersize=3, label="five folds")
    axis.axhline(0.0, color=LEVEL, zorder=0)
    axis.set(xlabel="log density of a row by the others, exact", ylabel="off by, nats", ylim=(-0.3, 0.3))
    axis.legend(frameon=False, fontsize=8)


def evidence(axis: plt.Axes, rng: np.random.Generator) -> None:
    """Log evidence less its closed form, by the number of coefficients."""
    X, y = straight(rng, 5000, 12)
    sizes = [1, 2, 4, 6, 8, 10, 12]
    off = []
    for size in sizes:
        Z, asked = X[:, :size], dict(LINEAR, intercept=False)
        found = corelet.review(corelet.fit(Z, y, k=200, **asked), Z, y, evidence=True, outcomes=0, **asked).evidence
        precision = Z.T @ Z / 0.64 + np.eye(size)
        quadratic = y @ y / 0.64 - y @ Z @ np.linalg.solve(precision, Z.T @ y) / 0.64**2
        truth = -0.5 * (len(y) * np.log(2 * np.pi * 0.64) + np.linalg.slogdet(precision)[1] + quadratic)
        off.append((found.log - truth, found.se))
    values, errors = np.array(off).T
    axis.errorbar(sizes, values, yerr=2 * errors, fmt="o", color=OURS, markersize=4)
    axis.axhline(0.0, color=LEVEL, zorder=0)
    axis.set(xlabel="coefficients", ylabel="log evidence, off by ± 2 se")


def covered(axis: plt.Axes, rng: np.random.Generator) -> None:
    """Shares of new outcomes that lie below predicted quantiles."""
    X, y = straight(rng, 8000, 4)
    fit = corelet.fit(X[:4000], y[:4000], k=150, model="linear")
    levels = np.linspace(0.05, 0.95, 10)
    quantiles = fit.predict(X[4000:], kind="outcome", quantiles=list(levels)).quantiles
    axis.plot(levels, (y[4000:, None] <= quantiles).mean(axis=0), "o", color=OURS, markersize=4)
    axis.plot([0, 1], [0, 1], color=LEVEL, zorder=0)
    axis.set(xlabel="predicted quantile", ylabel="share of new outcomes below")


def main() -> None:
    rng = np.random.default_rng(6)
    with plt.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure, axes = plt.subplots(2, 2, figsize=(7.4, 6.0))
        for axis, draw in zip(axes.ravel(), (updates, left_out, evidence, covered)):
            draw(axis, rng)
        figure.tight_layout()
        figure.savefig(FOLDER / "compared.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
