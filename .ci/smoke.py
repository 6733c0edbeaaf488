"""Uses an installed package with NumPy alone: what a wheel or an sdist must be able to do on any platform."""

import numpy as np

import corelet

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 4))
y = (rng.random(20_000) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5, 0.0]))).astype(float)

cs = corelet.build(X, y, model="logistic", k=60)
assert len(cs.rows) == len(cs.weights) <= 60 and cs.quality.nats < 1e-2, cs
verdict = corelet.check(cs, X, y, chains=2)
assert verdict.grade == "A", verdict
assert cs.predict(X[:5]).mean.shape == (5,)

data = rng.normal(3.0, 1.0, size=20_000)


def sample(rows, weights, start):
    precision = 1.0 + weights.sum()
    return rng.normal(weights @ data[rows] / precision, precision**-0.5, size=(2, 500, 1))


fit = corelet.fit_model(sample, lambda theta, rows: -0.5 * (data[rows] - theta) ** 2, n=len(data), k=10)
assert fit.verdict.grade in "AB", fit

print(f"corelet {corelet.__version__} with NumPy {np.__version__}: {verdict}")
