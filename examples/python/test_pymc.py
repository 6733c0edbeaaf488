"""PyMC: a logistic regression and a Student-t regression, on all data and on a coreset.

The one line that a weighted fit needs is `pm.Potential("y", pm.math.dot(weights, pm.logp(...)))`.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pymc as pm
from common import Array, compare, logistic_data, robust_data

import corelet

SAMPLER: dict[str, Any] = dict(draws=600, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)


def logistic(X: Array, y: Any, weights: Optional[Array] = None) -> pm.Model:
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        slopes = pm.Normal("slopes", 0, 2, shape=X.shape[1])
        eta = intercept + pm.math.dot(X, slopes)
        if weights is None:
            pm.Bernoulli("y", logit_p=eta, observed=y)
        else:
            pm.Potential("y", pm.math.dot(weights, pm.logp(pm.Bernoulli.dist(logit_p=eta), y)))
    return model


def robust(x: Array, y: Array, weights: Optional[Array] = None) -> pm.Model:
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 5)
        slope = pm.Normal("slope", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        nu = pm.Gamma("nu", 2, 0.1)
        mu = intercept + slope * x
        if weights is None:
            pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y)
        else:
            pm.Potential("y", pm.math.dot(weights, pm.logp(pm.StudentT.dist(nu=nu, mu=mu, sigma=sigma), y)))
    return model


def fit(model: pm.Model, log_likelihood: bool = False) -> Any:
    """InferenceData."""
    with model:
        idata = pm.sample(**SAMPLER)
        return pm.compute_log_likelihood(idata, progressbar=False) if log_likelihood else idata


def draws(idata: Any) -> dict[str, Array]:
    posterior = idata.posterior.stack(sample=("chain", "draw")).transpose("sample", ...)
    return {str(name): np.asarray(posterior[name]) for name in posterior.data_vars}


def test_logistic() -> None:
    X, y = logistic_data()
    full = fit(logistic(X, y), log_likelihood=True)
    cs = corelet.build_from_loglik(full, k=80)
    core = fit(logistic(X[cs.rows], y[cs.rows], cs.weights))
    print(cs)
    assert cs.quality.nats is not None and cs.quality.nats < 0.1
    assert compare("PyMC, logistic", draws(full), draws(core)) < 0.3


def test_robust_regression() -> None:
    x, y = robust_data()
    full = fit(robust(x, y), log_likelihood=True)
    cs = corelet.build_from_loglik(full, k=80)
    core = fit(robust(x[cs.rows], y[cs.rows], cs.weights))
    assert cs.quality.nats is not None and cs.quality.nats < 0.1
    assert compare("PyMC, Student-t regression", draws(full), draws(core)) < 0.3
