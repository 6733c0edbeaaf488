"""A straightforward NumPy A-IHT II with its Φ of 500 draws, on the data of `cargo bench -p corelet --bench build`.

    cargo bench -p corelet --bench build -- --data /tmp/corelet-bench.f64     # writes the data and our figures
    python benches/numpy_baseline.py /tmp/corelet-bench.f64                   # theirs, on the same machine, right after

It is what the paper describes, written the way one would: Φ stored in f64, one matrix product a gradient, argpartition
for the projection, exact line searches, all 300 iterations. The Laplace fit is not counted.
"""

import sys
import time

import numpy as np

FEATURES, DRAWS, POINTS, ITERATIONS = 10, 500, 100, 300


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))


def laplace(features, target, weights, steps=50):
    """Mode and precision of a logistic posterior with a N(0, I) prior, by Newton's method."""
    dim = features.shape[1]
    theta = np.zeros(dim)
    for _ in range(steps):
        p = sigmoid(-target * (features @ theta))
        gradient = features.T @ (weights * target * p) - theta
        precision = (features.T * (weights * p * (1 - p))) @ features + np.eye(dim)
        step = np.linalg.solve(precision, gradient)
        theta = theta + step * min(1.0, 5.0 / max(np.linalg.norm(step), 1e-300))
        if gradient @ step < 1e-20:
            break
    return theta, precision


def kl_gaussian(mean0, precision0, mean1, precision1):
    """KL(N0 ‖ N1)."""
    factor = np.linalg.cholesky(np.linalg.inv(precision0))
    change = np.linalg.eigvalsh(factor.T @ (precision1 - precision0) @ factor)
    shift = mean1 - mean0
    return 0.5 * (np.sum(change - np.log1p(change)) + shift @ precision1 @ shift)


def embed(features, target, mean, precision, rng):
    """Φ: one column of centred log-likelihoods a datum."""
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    draws = mean + rng.standard_normal((DRAWS, len(mean))) @ factor.T
    phi = -np.logaddexp(0.0, -target[:, None] * (features @ draws.T))
    phi -= phi.mean(axis=1, keepdims=True)
    phi /= np.sqrt(DRAWS)
    return phi.T


def largest(values, count):
    return np.argpartition(values, -count)[-count:]


def a_iht_2(phi, k, iterations):
    """Algorithm 3 of the paper, with the exact minimisers."""
    y = phi.sum(axis=1)
    n = phi.shape[1]
    w, z = np.zeros(n), np.zeros(n)
    image = np.zeros_like(y)
    residual = y
    for _ in range(iterations):
        gradient = phi.T @ residual
        outside = np.abs(gradient)
        support = np.flatnonzero(z)
        outside[support] = 0.0
        explored = np.union1d(support, largest(outside, k))
        moved = phi[:, explored] @ gradient[explored]
        step = (residual @ moved) / (moved @ moved)
        b = z + step * gradient
        chosen = largest(b, k)
        chosen = chosen[b[chosen] > 0]
        x = b[chosen]
        columns = phi[:, chosen]
        r = y - columns @ x
        direction = columns.T @ r
        moved = columns @ direction
        x = np.maximum(x + (r @ moved) / (moved @ moved) * direction, 0.0)
        previous, previous_image = w, image
        w = np.zeros(n)
        w[chosen] = x
        image = columns @ x
        change = image - previous_image
        tau = (y - image) @ change / max(change @ change, 1e-300)
        z = w + tau * (w - previous)
        residual = y - image - tau * change
    return w, np.linalg.norm(y - image)


def main(path):
    data = np.fromfile(path).reshape(-1, FEATURES + 1)
    features, target = np.ascontiguousarray(data[:, :-1]), data[:, -1].copy()
    mean, precision = laplace(features, target, np.ones(len(target)))
    start = time.perf_counter()
    phi = embed(features, target, mean, precision, np.random.default_rng(1))
    embedded = time.perf_counter()
    w, residual = a_iht_2(phi, POINTS, ITERATIONS)
    end = time.perf_counter()
    chosen = np.flatnonzero(w)
    mode, weighted = laplace(features[chosen], target[chosen], w[chosen])
    kl = kl_gaussian(mean, precision, mode, weighted)
    print(f"numpy a-iht-2: n = {len(target)}, {len(chosen)} points, residual {residual:.3e}, forward KL {kl:.3e}")
    print(f"numpy a-iht-2: Φ {embedded - start:.2f} s, {ITERATIONS} iterations {end - embedded:.2f} s, {end - start:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
