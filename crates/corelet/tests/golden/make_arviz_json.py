"""Writes arviz.json: what ArviZ 0.23 says of small sets of chains and of log weights.

python crates/corelet/tests/golden/make_arviz_json.py > crates/corelet/tests/golden/arviz.json
"""

import json

import arviz as az
import numpy as np

rng = np.random.default_rng(20261115)


def ar1(chains, draws, rho):
    x = np.empty((chains, draws))
    x[:, 0] = rng.standard_normal(chains)
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return x


chains = {
    "independent": rng.standard_normal((4, 50)),
    "one chain, odd": rng.standard_normal((1, 51)),
    "autocorrelated": ar1(4, 60, 0.8),
    "antithetic": ar1(4, 60, -0.6),
    "one chain apart": ar1(3, 40, 0.3) + np.array([[0.0], [0.0], [3.0]]),
    "one chain wider": rng.standard_normal((4, 40)) * np.array([[1.0], [1.0], [1.0], [5.0]]),
    "heavy tails": rng.standard_cauchy((4, 50)),
    "ties": np.round(ar1(4, 50, 0.5)),
}
weights = {
    "narrow": 0.1 * rng.standard_normal(300),
    "lognormal": 1.5 * rng.standard_normal(300),
    "pareto 0.4": 0.4 * rng.exponential(size=400),
    "pareto 1.2": 1.2 * rng.exponential(size=400),
    "short": 0.7 * rng.standard_normal(60),
}
golden = {"source": f"ArviZ {az.__version__}, make_arviz_json.py beside this file", "chains": [], "weights": []}
for name, x in chains.items():
    x = np.round(x, 6)
    data = az.convert_to_dataset({"x": x})
    golden["chains"].append({
        "name": name,
        "draws": x.tolist(),
        "r_hat": float(az.rhat(data)["x"]) if len(x) > 1 else None,
        "ess_bulk": float(az.ess(data, method="bulk")["x"]),
        "ess_tail": float(az.ess(data, method="tail")["x"]),
    })
for name, x in weights.items():
    x = np.round(x, 6)
    for reff in (1.0, 0.5):
        smoothed, k = az.psislw(x.copy(), reff=reff)
        golden["weights"].append({
            "name": name, "log_weights": x.tolist(), "efficiency": reff,
            "smoothed": np.asarray(smoothed).tolist(), "pareto_k": float(k),
        })
print(json.dumps(golden))
