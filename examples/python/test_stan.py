"""Stan, through PyStan: a logistic regression and a Student-t regression, on all data and on a coreset.

The one line that a weighted fit needs is `target += weights[i] * ..._lpdf(y[i] | ...)` in place of `y ~ ...`.
One program serves both fits: with weights of one it is the full model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import stan
from common import Array, compare, logistic_data, robust_data

import corelet

LOGISTIC = """
data { int n; int d; matrix[n, d] x; array[n] int y; vector[n] weights; }
parameters { real intercept; vector[d] slopes; }
model {
  intercept ~ normal(0, 2);
  slopes ~ normal(0, 2);
  for (i in 1:n) target += weights[i] * bernoulli_logit_lpmf(y[i] | intercept + x[i] * slopes);
}
generated quantities {
  vector[n] log_lik;
  for (i in 1:n) log_lik[i] = bernoulli_logit_lpmf(y[i] | intercept + x[i] * slopes);
}
"""

ROBUST = """
data { int n; vector[n] x; vector[n] y; vector[n] weights; }
parameters { real intercept; real slope; real<lower=0> sigma; real<lower=1> nu; }
model {
  intercept ~ normal(0, 5);
  slope ~ normal(0, 5);
  sigma ~ normal(0, 2);
  nu ~ gamma(2, 0.1);
  for (i in 1:n) target += weights[i] * student_t_lpdf(y[i] | nu, intercept + slope * x[i], sigma);
}
generated quantities {
  vector[n] log_lik;
  for (i in 1:n) log_lik[i] = student_t_lpdf(y[i] | nu, intercept + slope * x[i], sigma);
}
"""


def fit(program: str, data: dict[str, Any], weights: Array) -> Any:
    posterior = stan.build(program, data={**data, "weights": weights.tolist()}, random_seed=1)
    return posterior.sample(num_chains=2, num_samples=600, num_warmup=400)


def draws(sampled: Any, names: list[str]) -> dict[str, Array]:
    return {name: np.asarray(sampled[name]).T for name in names}


def check(name: str, program: str, data: dict[str, Any], names: list[str], k: int) -> None:
    n = data["n"]
    full = fit(program, data, np.ones(n))
    cs = corelet.build_from_loglik(np.asarray(full["log_lik"]).T, k=k)
    chosen = {key: np.asarray(data[key])[cs.rows].tolist() for key in ("x", "y")}
    core = fit(program, {**data, **chosen, "n": len(cs)}, cs.weights)
    assert cs.quality.nats is not None and cs.quality.nats < 0.1
    assert compare(name, draws(full, names), draws(core, names)) < 0.3


def test_logistic() -> None:
    X, y = logistic_data(1000)
    check("Stan, logistic", LOGISTIC, dict(n=len(y), d=3, x=X.tolist(), y=y.tolist()), ["intercept", "slopes"], k=60)


def test_robust_regression() -> None:
    x, y = robust_data(1000)
    check("Stan, Student-t regression", ROBUST, dict(n=len(y), x=x.tolist(), y=y.tolist()), ["intercept", "slope", "sigma", "nu"], k=60)
