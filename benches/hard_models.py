"""Is an A of `corelet.fit_model` ever wrong? Small cases made to mislead it, each with many seeds.

    python benches/hard_models.py [RUNS] [CASE …]

needs the package and NumPy; 40 runs of each case take about a quarter of an hour of one core. The cases: a mixture whose two
components can change places; a funnel (a hierarchical model in its centred form with little information in each row); and a
pilot from 50 rows; each with half, one, two or four times as many points as
parameters, which may double. The sampler is adaptive Metropolis, written here: honest, and easily stuck. An A is *wrong* where the true
symmetrised KL, E_π Δ − E_{π_w} Δ over long chains on all rows and fresh long chains on the coreset, is above 0.2 nats.
"""

import sys
import time

import numpy as np

import corelet

ROWS, CHAINS = 2000, 4


class Model:
    """A log prior and log-likelihoods, both of many parameter vectors at once."""

    dim: int
    pilot = 500

    def start(self, rng, count):
        return rng.normal(size=(count, self.dim))

    def log_prior(self, theta):
        return -0.5 * (theta**2).sum(axis=1) / 9

    def log_likelihood(self, theta, rows):
        raise NotImplementedError


class Mixture(Model):
    """Two Gaussians of unknown means, shares and a common width, in no order."""

    dim = 4

    def __init__(self, rng):
        first = rng.random(ROWS) < rng.uniform(0.3, 0.5)
        self.x = np.where(first, -1.5, rng.uniform(1.0, 2.5)) + rng.normal(size=ROWS)

    def log_likelihood(self, theta, rows):
        x = self.x[rows]
        share, width = theta[:, 2:3], np.exp(-theta[:, 3:4])
        log_share, log_rest = -np.logaddexp(0, -share), -np.logaddexp(0, share)
        one = log_share - 0.5 * ((x - theta[:, :1]) * width) ** 2
        other = log_rest - 0.5 * ((x - theta[:, 1:2]) * width) ** 2
        return np.logaddexp(one, other) - theta[:, 3:4]


class Funnel(Model):
    """Means of eight groups around 0 with an unknown spread, under noise that hides them: the centred form."""

    dim = 9

    def __init__(self, rng):
        self.group = rng.integers(0, 8, ROWS)
        self.y = rng.normal(0, rng.choice([0.1, 0.5]), size=8)[self.group] + 8 * rng.normal(size=ROWS)

    def log_prior(self, theta):
        v, x = theta[:, 0], theta[:, 1:]
        return -0.5 * (v / 3) ** 2 - 0.5 * (x**2).sum(axis=1) * np.exp(-v) - 4 * v

    def log_likelihood(self, theta, rows):
        return -0.5 * ((self.y[rows] - theta[:, 1:][:, self.group[rows]]) / 8) ** 2


class SmallPilot(Model):
    """A logistic regression with rare events, from a pilot of 50 rows, of which few are events."""

    dim = 5
    pilot = 50

    def __init__(self, rng):
        self.X = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, 4)) * [1, 1, 3, 0.3]])
        eta = self.X @ [-2.5, 1.0, -1.0, 0.3, 2.0]
        self.sign = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)

    def log_likelihood(self, theta, rows):
        return -np.logaddexp(0, -self.sign[rows] * (theta @ self.X[rows].T))


CASES = {"mixture": Mixture, "funnel": Funnel, "small pilot": SmallPilot}


def metropolis(model, rng, rows, weights, start, steps):
    """Chains of adaptive Metropolis, each with a covariance of its own, thinned to 500 draws."""

    def log_posterior(theta):
        return model.log_likelihood(theta, rows) @ weights + model.log_prior(theta)

    theta = start.copy()
    current = log_posterior(theta)
    warmup, kept = steps // 2, []
    mean, second = theta.copy(), np.einsum("ci,cj->cij", theta, theta)
    factor = np.tile(0.1 * np.eye(model.dim), (CHAINS, 1, 1))
    scale = np.full(CHAINS, 2.4 / np.sqrt(model.dim))
    for step in range(1, warmup + steps + 1):
        noise = np.einsum("cij,cj->ci", factor, rng.normal(size=theta.shape))
        proposal = theta + scale[:, None] * noise
        value = log_posterior(proposal)
        accepted = np.log(rng.random(CHAINS)) < value - current
        theta[accepted], current[accepted] = proposal[accepted], value[accepted]
        if step <= warmup:
            rate = 1 / (step + 10) ** 0.6
            mean += rate * (theta - mean)
            second += rate * (np.einsum("ci,cj->cij", theta, theta) - second)
            scale *= np.exp(rate * (accepted - 0.3))
            if step % 50 == 0:
                spread = second - np.einsum("ci,cj->cij", mean, mean)
                factor = np.linalg.cholesky(spread + 1e-6 * np.eye(model.dim))
        elif (step - warmup) % (steps // 500) == 0:
            kept.append(theta.copy())
    return np.stack(kept, axis=1)


def true_divergence(model, rng, fit, steps=10_000):
    """E_π Δ − E_{π_w} Δ, from long chains that start at draws of the fit and at their own places."""
    rows, weights = fit.coreset.rows, fit.coreset.weights

    def error(theta):
        flat = theta.reshape(-1, model.dim)
        return model.log_likelihood(flat, slice(None)).sum(axis=1) - model.log_likelihood(flat, rows) @ weights

    start = fit.draws[:, -1]
    everything = metropolis(model, rng, slice(None), np.ones(ROWS), start, steps)
    fresh = metropolis(model, rng, rows, weights, start, steps)
    return float(error(everything).mean() - error(fresh).mean())


def run(case, seed):
    rng = np.random.default_rng([seed, sorted(CASES).index(case)])
    model = CASES[case](rng)

    def sample(rows, weights, start):
        first = model.start(rng, CHAINS) if start is None else start[rng.integers(len(start), size=CHAINS)]
        return metropolis(model, rng, rows, weights, first, 4000)

    k = (model.dim // 2 + 1, model.dim, 2 * model.dim, 4 * model.dim)[seed % 4]
    fit = corelet.fit_model(
        sample, model.log_likelihood, n=ROWS, k=k, max_k=2 * k, pilot=model.pilot, max_rounds=6, seed=seed
    )
    truth = true_divergence(model, rng, fit) if fit.verdict.grade == "A" else float("nan")
    return fit, truth


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("case,seed,grade,reasons,rounds,points,variance,true_kl,seconds", flush=True)
    for case in sys.argv[2:] or CASES:
        for seed in range(runs):
            clock = time.process_time()
            fit, truth = run(case, seed)
            verdict = fit.verdict
            print(
                f"{case},{seed},{verdict.grade},{' '.join(verdict.reasons)},{len(fit.rounds)},{len(fit.coreset)},"
                f"{verdict.variance:.3g},{truth:.3g},{time.process_time() - clock:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
