"""
Item response: persons as rows
==============================

Fit an item response model to 20 000 persons who answer 10 questions each. With one ability per person, the model has as many latent variables as
rows, and no subset of rows can represent the others. But Gauss–Hermite quadrature can integrate the abilities out. Each person is then a row with one
log-likelihood, and 20 parameters remain: the difficulty and the discrimination of each question. Corelet treats a ``numpyro.factor`` with one
value per row like any other likelihood.

.. image:: /gallery/results/item_response.svg
   :alt: marginal posteriors of the coreset over those of all persons

.. literalinclude:: /gallery/results/item_response.txt
"""

# sphinx_gallery_thumbnail_path = 'gallery/results/item_response.svg'

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from _shown import REDUCED, marginals, report, rows, timed
from numpyro.infer import MCMC, NUTS

import corelet.numpyro

numpyro.enable_x64()

# %%
# Generate the answers: a row of zeros and ones for each person.

rng = np.random.default_rng(4)
n, questions = rows(20_000, 2_000), 10
difficulty, discrimination = np.linspace(-1.5, 1.5, questions), rng.uniform(0.5, 2.0, questions)
ability = rng.normal(size=n)
answers = (rng.random((n, questions)) < 1 / (1 + np.exp(-discrimination * (ability[:, None] - difficulty)))).astype(float)

# %%
# The log-likelihood of a person is a weighted sum over 15 quadrature nodes for the ability.

nodes, mass = np.polynomial.hermite_e.hermegauss(15)
log_mass = np.log(mass / mass.sum())


def model(answers):
    difficulty = numpyro.sample("difficulty", dist.Normal(0, 2).expand([questions]).to_event(1))
    discrimination = numpyro.sample("discrimination", dist.LogNormal(0, 0.5).expand([questions]).to_event(1))
    logits = discrimination * (nodes[:, None] - difficulty)
    at_nodes = answers @ logits.T - jax.nn.softplus(logits).sum(axis=1)
    numpyro.factor("persons", jax.scipy.special.logsumexp(at_nodes + log_mass, axis=1))


# %%
# Fit a coreset, then all rows with the same sampler.

fit, seconds = timed(lambda: corelet.numpyro.fit(model, args=(answers,), k=300, chains=2, seed=1))


def all_rows():
    sampler = MCMC(NUTS(model), num_warmup=300, num_samples=300 if REDUCED else 1000, num_chains=2, chain_method="sequential", progress_bar=False)
    sampler.run(jax.random.PRNGKey(1), answers)
    return sampler.get_samples()


full, seconds_full = timed(all_rows)


def shown(draws):
    difficulty, discrimination = np.asarray(draws["difficulty"]), np.asarray(draws["discrimination"])
    return {
        "difficulty of the first": difficulty[..., 0],
        "difficulty of the last": difficulty[..., -1],
        "discrimination of the last": discrimination[..., -1],
    }


marginals("item_response", shown(fit.idata.posterior), shown(full))
report(
    "item_response",
    fit.verdict,
    {"one call": f"{seconds:.0f} s, compiling included", f"NUTS on all {n} persons": f"{seconds_full:.0f} s, compiling included"},
    "numpyro",
    "jax",
)
