"""Models with every likelihood that PyMC has, as people write them, for the table of likelihoods: each builds one on n rows.

A name stands once: a model that is fitted, or one that is refused, with the words of its refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N = 2000
tensors: Any = pt

Case = Callable[[Any, Any], object]
CASES: dict[str, Case] = {}
"""Those that are fitted."""
REFUSED: dict[str, tuple[Case, str]] = {}
"""Those that are refused, each with a part of its line."""


def line(x: Any) -> Any:
    """Intercept and slope."""
    return pm.Normal("a", 0, 2) + pm.Normal("b", 0, 1) * x


def positive(x: Any) -> Any:
    return pm.math.exp(line(x))


def share(x: Any) -> Any:
    return pm.math.invlogit(line(x))


def case(name: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        CASES[name] = function
        return function

    return keep


def refused(name: str, words: str) -> Callable[[Case], Case]:
    def keep(function: Case) -> Case:
        REFUSED[name] = (function, words)
        return function

    return keep


def simple(name: str, distribution: Any, data: Callable[[Any, Any], Any], **parameters: Callable[[Any], Any]) -> None:
    """A distribution whose parameters are these functions of x, which make the priors."""

    def build(rng: Any, x: Any) -> None:
        observed = data(rng, x)
        distribution("y", **{key: make(x) for key, make in parameters.items()}, observed=observed)

    CASES[name] = build


def sd(name: str = "sigma") -> Callable[[Any], Any]:
    return lambda x: pm.HalfNormal(name, 2)


def real(rng: Any, x: Any) -> Any:
    return 0.5 + 0.8 * x + 0.7 * rng.standard_t(6, size=len(x))


def above_zero(rng: Any, x: Any) -> Any:
    return rng.gamma(3.0, np.exp(0.3 * x) / 3.0)


def unit(rng: Any, x: Any) -> Any:
    return np.clip(rng.beta(2 * np.exp(0.3 * x), 2.0), 1e-4, 1 - 1e-4)


def counts(rng: Any, x: Any) -> Any:
    return rng.poisson(np.exp(0.5 + 0.3 * x) * rng.gamma(4, 0.25, len(x)))


def zeros(rng: Any, x: Any) -> Any:
    return np.where(rng.random(len(x)) < 0.3, 0, counts(rng, x))


def of_ten(rng: Any, x: Any) -> Any:
    return rng.binomial(10, rng.beta(3 * np.exp(0.3 * x), 3.0))


def yes(rng: Any, x: Any) -> Any:
    return rng.binomial(1, 1 / (1 + np.exp(-0.3 - 0.7 * x)))


def level(rng: Any, x: Any) -> Any:
    return np.digitize(0.8 * x + rng.logistic(size=len(x)), [-1.0, 0.5])


simple("Normal", pm.Normal, real, mu=line, sigma=sd())
simple("StudentT", pm.StudentT, real, mu=line, sigma=sd(), nu=lambda x: pm.Gamma("nu", 2, 0.1))
simple("Laplace", pm.Laplace, real, mu=line, b=sd("scale"))
simple("AsymmetricLaplace", pm.AsymmetricLaplace, real, mu=line, b=sd("scale"), kappa=lambda x: pm.HalfNormal("kappa", 2))
simple("Cauchy", pm.Cauchy, real, alpha=line, beta=sd("scale"))
simple("Logistic", pm.Logistic, real, mu=line, s=sd("scale"))
simple("Gumbel", pm.Gumbel, real, mu=line, beta=sd("scale"))
simple("Moyal", pm.Moyal, real, mu=line, sigma=sd())
simple("SkewNormal", pm.SkewNormal, real, mu=line, sigma=sd(), alpha=lambda x: pm.Normal("alpha", 1, 1))
simple("ExGaussian", pm.ExGaussian, real, mu=line, sigma=sd(), nu=lambda x: pm.HalfNormal("nu", 1))
simple(
    "SkewStudentT",
    pm.SkewStudentT,
    real,
    mu=line,
    sigma=sd(),
    a=lambda x: pm.Gamma("p", 4, 1),
    b=lambda x: pm.Gamma("q", 4, 1),
)
simple("HalfNormal", pm.HalfNormal, above_zero, sigma=positive)
simple("HalfStudentT", pm.HalfStudentT, above_zero, sigma=positive, nu=lambda x: pm.Gamma("nu", 2, 0.1))
simple("HalfCauchy", pm.HalfCauchy, above_zero, beta=positive)
simple("Exponential", pm.Exponential, above_zero, lam=positive)
simple("Gamma", pm.Gamma, above_zero, mu=positive, sigma=sd())
simple("InverseGamma", pm.InverseGamma, above_zero, alpha=lambda x: pm.HalfNormal("shape", 3), beta=positive)
simple("LogNormal", pm.LogNormal, above_zero, mu=line, sigma=sd())
simple("Weibull", pm.Weibull, above_zero, alpha=lambda x: pm.HalfNormal("shape", 3), beta=positive)
simple("Wald", pm.Wald, above_zero, mu=positive, lam=lambda x: pm.HalfNormal("lam", 3))
simple("ChiSquared", pm.ChiSquared, above_zero, nu=positive)
simple("Rice", pm.Rice, above_zero, nu=positive, sigma=sd())
simple("Pareto", pm.Pareto, lambda rng, x: 1 + above_zero(rng, x), alpha=positive, m=lambda x: 1.0)
simple("Beta", pm.Beta, unit, mu=share, nu=lambda x: pm.HalfNormal("nu", 10))
simple("Kumaraswamy", pm.Kumaraswamy, unit, a=positive, b=lambda x: pm.HalfNormal("shape", 3))
simple("LogitNormal", pm.LogitNormal, unit, mu=line, sigma=sd())
simple("Triangular", pm.Triangular, unit, lower=lambda x: 0.0, upper=lambda x: 1.0, c=share)
simple("VonMises", pm.VonMises, lambda rng, x: rng.vonmises(0.5, 2.0, len(x)), mu=line, kappa=lambda x: pm.HalfNormal("kappa", 3))
simple("TruncatedNormal", pm.TruncatedNormal, above_zero, mu=line, sigma=sd(), lower=lambda x: 0.0)
simple("Bernoulli", pm.Bernoulli, yes, logit_p=line)
simple("Bernoulli with p", pm.Bernoulli, yes, p=share)
simple("Binomial", pm.Binomial, of_ten, n=lambda x: 10, p=share)
simple("BetaBinomial", pm.BetaBinomial, of_ten, n=lambda x: 10, alpha=positive, beta=lambda x: pm.HalfNormal("beta", 5))
simple("Poisson", pm.Poisson, counts, mu=positive)
simple("NegativeBinomial", pm.NegativeBinomial, counts, mu=positive, alpha=lambda x: pm.HalfNormal("alpha", 5))
simple("Geometric", pm.Geometric, lambda rng, x: 1 + counts(rng, x), p=share)
simple("DiscreteWeibull", pm.DiscreteWeibull, counts, q=share, beta=lambda x: pm.HalfNormal("beta", 2))
simple("ZeroInflatedPoisson", pm.ZeroInflatedPoisson, zeros, psi=lambda x: pm.Beta("psi", 2, 2), mu=positive)
simple(
    "ZeroInflatedBinomial",
    pm.ZeroInflatedBinomial,
    lambda rng, x: of_ten(rng, x) * (rng.random(len(x)) < 0.7),
    psi=lambda x: pm.Beta("psi", 2, 2),
    n=lambda x: 10,
    p=share,
)
simple(
    "ZeroInflatedNegativeBinomial",
    pm.ZeroInflatedNegativeBinomial,
    zeros,
    psi=lambda x: pm.Beta("psi", 2, 2),
    mu=positive,
    alpha=lambda x: pm.HalfNormal("alpha", 5),
)
simple("HurdlePoisson", pm.HurdlePoisson, zeros, psi=lambda x: pm.Beta("psi", 2, 2), mu=positive)
simple(
    "HurdleNegativeBinomial",
    pm.HurdleNegativeBinomial,
    zeros,
    psi=lambda x: pm.Beta("psi", 2, 2),
    mu=positive,
    alpha=lambda x: pm.HalfNormal("alpha", 5),
)
simple(
    "HurdleGamma",
    pm.HurdleGamma,
    lambda rng, x: above_zero(rng, x) * (rng.random(len(x)) < 0.7),
    psi=lambda x: pm.Beta("psi", 2, 2),
    mu=positive,
    sigma=sd(),
)
simple(
    "HurdleLogNormal",
    pm.HurdleLogNormal,
    lambda rng, x: above_zero(rng, x) * (rng.random(len(x)) < 0.7),
    psi=lambda x: pm.Beta("psi", 2, 2),
    mu=line,
    sigma=sd(),
)


@case("Uniform")
def _(rng: Any, x: Any) -> None:
    pm.Uniform("y", 0, 2 + pm.HalfNormal("more", 1) + 0.0 * x, observed=rng.random(len(x)))


@case("DiscreteUniform")
def _(rng: Any, x: Any) -> None:
    pm.DiscreteUniform("y", 0, 9, observed=rng.integers(0, 9, len(x)))
    pm.Normal("z", line(x), observed=real(rng, x))


@case("HyperGeometric")
def _(rng: Any, x: Any) -> None:
    pm.HyperGeometric("y", N=40, k=20, n=10, observed=rng.hypergeometric(20, 20, 10, len(x)))
    pm.Normal("z", line(x), observed=real(rng, x))


@case("Categorical")
def _(rng: Any, x: Any) -> None:
    slopes, middles = pm.Normal("slopes", 0, 1, shape=2), pm.Normal("middles", 0, 1, shape=2)
    eta = tensors.concatenate([tensors.zeros((len(x), 1)), middles + slopes * x[:, None]], axis=1)
    pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=level(rng, x))


@case("Categorical with logit_p")
def _(rng: Any, x: Any) -> None:
    slopes, middles = pm.Normal("slopes", 0, 1, shape=3), pm.Normal("middles", 0, 1, shape=3)
    pm.Categorical("y", logit_p=middles + slopes * x[:, None], observed=level(rng, x))


@case("Categorical with one p")
def _(rng: Any, x: Any) -> None:
    pm.Categorical("y", p=pm.Dirichlet("p", np.ones(3)), observed=level(rng, x))


def cutpoints() -> Any:
    from pymc.distributions import transforms

    return pm.Normal("cutpoints", 0, 2, shape=2, transform=transforms.ordered, initval=np.array([-1.0, 1.0]))


@case("OrderedLogistic")
def _(rng: Any, x: Any) -> None:
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=cutpoints(), observed=level(rng, x), compute_p=False)


@case("OrderedLogistic with its probabilities")
def _(rng: Any, x: Any) -> None:
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=cutpoints(), observed=level(rng, x))


@case("OrderedProbit")
def _(rng: Any, x: Any) -> None:
    pm.OrderedProbit("y", eta=pm.Normal("b") * x, cutpoints=cutpoints(), observed=level(rng, x), compute_p=False)


@case("Mixture")
def _(rng: Any, x: Any) -> None:
    parts = [pm.Normal.dist(line(x), 0.5), pm.StudentT.dist(nu=4, mu=0, sigma=pm.HalfNormal("scale", 3))]
    pm.Mixture("y", w=pm.Dirichlet("w", np.ones(2)), comp_dists=parts, observed=real(rng, x))


@case("NormalMixture")
def _(rng: Any, x: Any) -> None:
    from pymc.distributions import transforms

    middle = pm.Normal("middle", np.array([-2.0, 2.0]), 1, shape=2, transform=transforms.ordered, initval=np.array([-1.0, 1.0]))
    y = np.where(rng.random(len(x)) < 0.4, -2, 2) + rng.normal(size=len(x))
    pm.NormalMixture("y", pm.Dirichlet("w", np.full(2, 5.0)), mu=middle, sigma=pm.HalfNormal("sigma", 2), observed=y)


@case("Censored")
def _(rng: Any, x: Any) -> None:
    y = real(rng, x)
    pm.Censored("y", pm.Normal.dist(line(x), pm.HalfNormal("sigma", 2)), lower=-1.0, upper=2.0, observed=np.clip(y, -1, 2))


@case("Censored, a limit for each row")
def _(rng: Any, x: Any) -> None:
    ends = rng.uniform(0.5, 3.0, len(x))
    y = np.minimum(above_zero(rng, x), ends)
    pm.Censored("y", pm.Weibull.dist(pm.HalfNormal("shape", 3), positive(x)), lower=None, upper=ends, observed=y)


@case("Censored counts")
def _(rng: Any, x: Any) -> None:
    pm.Censored("y", pm.Poisson.dist(positive(x)), lower=None, upper=4, observed=np.minimum(counts(rng, x), 4))


@case("Truncated")
def _(rng: Any, x: Any) -> None:
    y = 0.5 + 0.8 * x + 0.7 * rng.normal(size=3 * len(x)).reshape(3, -1)
    kept = np.where(y > -0.5, y, np.nan)
    y = np.where(np.isnan(kept).all(axis=0), 0.1, np.nanmax(np.nan_to_num(kept, nan=-9.0), axis=0))
    pm.Truncated("y", pm.Normal.dist(line(x), pm.HalfNormal("sigma", 2)), lower=-0.5, observed=y)


@case("Truncated counts")
def _(rng: Any, x: Any) -> None:
    pm.Truncated("y", pm.Poisson.dist(positive(x)), lower=1, observed=1 + counts(rng, x))


@case("Multinomial")
def _(rng: Any, x: Any) -> None:
    slopes, middles = pm.Normal("slopes", 0, 1, shape=2), pm.Normal("middles", 0, 1, shape=2)
    eta = tensors.concatenate([tensors.zeros((len(x), 1)), middles + slopes * x[:, None]], axis=1)
    pm.Multinomial("y", n=8, p=pm.math.softmax(eta, axis=1), observed=rng.multinomial(8, [0.2, 0.3, 0.5], len(x)))


@case("DirichletMultinomial")
def _(rng: Any, x: Any) -> None:
    concentration = pm.HalfNormal("concentration", 5, shape=3)
    y = np.array([rng.multinomial(8, p) for p in rng.dirichlet([2, 3, 4], len(x))])
    pm.DirichletMultinomial("y", n=8, a=concentration, observed=y)


@case("OrderedMultinomial")
def _(rng: Any, x: Any) -> None:
    y = rng.multinomial(8, [0.2, 0.3, 0.5], len(x))
    pm.OrderedMultinomial("y", eta=pm.Normal("b") * x, cutpoints=cutpoints(), n=8, observed=y, compute_p=False)


@case("Dirichlet")
def _(rng: Any, x: Any) -> None:
    pm.Dirichlet("y", a=pm.HalfNormal("concentration", 5, shape=3), observed=rng.dirichlet([2, 3, 4], len(x)))


@case("MvNormal rows")
def _(rng: Any, x: Any) -> None:
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0))
    middle = pm.Normal("middle", 0, 2, shape=2)
    y = rng.multivariate_normal([1, -1], [[1, 0.5], [0.5, 2]], len(x))
    pm.MvNormal("y", mu=middle + pm.Normal("b") * x[:, None], chol=chol, observed=y)


@case("MvStudentT rows")
def _(rng: Any, x: Any) -> None:
    y = rng.multivariate_normal([1, -1], [[1, 0.5], [0.5, 2]], len(x))
    pm.MvStudentT("y", nu=5, mu=pm.Normal("middle", 0, 2, shape=2), scale=np.eye(2) * 1.5, observed=y)


@case("correlated slopes of groups")
def _(rng: Any, x: Any) -> None:
    group = rng.integers(0, 6, len(x))
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
    z = pm.Normal("z", 0, 1, shape=(6, 2))
    effects = pm.Deterministic("effects", z @ chol.T)
    y = 0.5 * x + 0.3 * rng.normal(size=6)[group] + rng.normal(size=len(x))
    pm.Normal("y", effects[group, 0] + effects[group, 1] * x, pm.HalfNormal("sigma", 2), observed=y)


@case("CustomDist with logp")
def _(rng: Any, x: Any) -> None:
    def logp(value: Any, mu: Any, scale: Any) -> Any:
        return -pm.math.log(2 * scale) - pm.math.abs(value - mu) / scale

    pm.CustomDist("y", line(x), pm.HalfNormal("scale", 2), logp=logp, observed=real(rng, x))


@case("CustomDist with dist")
def _(rng: Any, x: Any) -> None:
    def dist(mu: Any, sigma: Any, size: Any) -> Any:
        return pm.math.exp(pm.Normal.dist(mu, sigma, size=size))

    pm.CustomDist("y", line(x), pm.HalfNormal("sigma", 2), dist=dist, observed=above_zero(rng, x))


@case("pm.Data, coords and deterministics")
def _(rng: Any, x: Any) -> None:
    model: Any = pm.modelcontext(None)
    model.add_coords({"row": range(len(x)), "shop": list("abcd")})
    data: Any = pm.Data("x", x, dims="row")
    shop: Any = pm.Data("which", rng.integers(0, 4, len(x)), dims="row")
    shops = pm.Normal("shops", 0, pm.HalfNormal("spread", 1), dims="shop")
    mu = pm.Deterministic("mu", shops[shop] + pm.Normal("b") * data, dims="row")
    pm.Deterministic("ratio", shops[0] - shops[1])
    pm.Normal("y", mu, pm.HalfNormal("sigma", 2), observed=real(rng, x), dims="row")


@case("potentials on priors")
def _(rng: Any, x: Any) -> None:
    mu = line(x)
    pm.Potential("near", -0.5 * (pm.Normal("c", 0, 1) - 1.0) ** 2)
    pm.Normal("y", mu, pm.HalfNormal("sigma", 2), observed=real(rng, x))


@case("a mean of the data inside the model")
def _(rng: Any, x: Any) -> None:
    data: Any = pm.Data("x", x + 3.0)
    pm.Normal("y", pm.Normal("b") * (data - data.mean()) / data.std(), pm.HalfNormal("sigma", 2), observed=real(rng, x))


@case("lagged data inside the model")
def _(rng: Any, x: Any) -> None:
    data: Any = pm.Data("series", np.append(real(rng, x), 0.0))
    pm.Normal("y", pm.Normal("rho") * data[:-1] + pm.Normal("b") * tensors.roll(data, 1)[1:], observed=data[1:])


@case("two observed variables")
def _(rng: Any, x: Any) -> None:
    mu = line(x)
    pm.Normal("y", mu, pm.HalfNormal("sigma", 2), observed=real(rng, x))
    pm.Poisson("z", pm.math.exp(mu), observed=counts(rng, x))


@case("other surveys beside the rows")
def _(rng: Any, x: Any) -> None:
    """One of fewer rows, one of a number, and one of the parameters."""
    b = pm.Normal("b")
    mu = pm.Normal("m") + b * x
    pm.Normal("y", mu, observed=real(rng, x))
    pm.Bernoulli("late", logit_p=mu[: len(x) // 3], observed=yes(rng, x[: len(x) // 3]))
    pm.Normal("census", pm.math.stack([mu.mean(), b]), 0.05, observed=[0.3, 0.5])
    pm.Normal("known", b, 0.1, observed=0.4)


@case("a variable named y_observed")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y_observed", line(x), observed=real(rng, x))


@case("an exponential of a Gaussian process by its basis")
def _(rng: Any, x: Any) -> None:
    basis = np.column_stack([np.sin(j * x) for j in range(1, 5)])
    pm.Poisson("y", pm.math.exp(basis @ pm.Normal("w", 0, pm.HalfNormal("scale", 1), shape=4)), observed=counts(rng, x))


# What has no rows, or cannot be sampled.


@refused("AR", "y .*(not a sum over its rows|depends on the other rows|cannot be computed for some rows)")
def _(rng: Any, x: Any) -> None:
    pm.AR("y", rho=pm.Normal("rho", 0, 1, shape=1), sigma=1.0, init_dist=pm.Normal.dist(), observed=real(rng, x))


@refused("GaussianRandomWalk", "y .*(not a sum over its rows|depends on the other rows|cannot be computed for some rows)")
def _(rng: Any, x: Any) -> None:
    pm.GaussianRandomWalk("y", sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(), observed=real(rng, x))


@refused("GARCH11", "y .*(not a sum over its rows|depends on the other rows|cannot be computed for some rows)")
def _(rng: Any, x: Any) -> None:
    pm.GARCH11("y", omega=pm.HalfNormal("o"), alpha_1=0.2, beta_1=0.3, initial_vol=1.0, observed=real(rng, x))


@refused("MvNormal of all rows", "y .*(not a sum over its rows|depends on the other rows|cannot be computed for some rows)")
def _(rng: Any, x: Any) -> None:
    pm.MvNormal("y", mu=pm.Normal("m"), cov=np.eye(len(x)), observed=real(rng, x))


@refused("CAR", "y .*(not a sum over its rows|pair of rows|cannot be computed for some rows)")
def _(rng: Any, x: Any) -> None:
    near = np.eye(len(x), k=1) + np.eye(len(x), k=-1)
    pm.CAR("y", mu=pm.Normal("m") + np.zeros(len(x)), W=near, alpha=0.5, tau=1.0, observed=real(rng, x))


@refused("Simulator", "y is made of random draws")
def _(rng: Any, x: Any) -> None:
    pm.Simulator("y", lambda rng, m, size=None: rng.normal(m, size=size), pm.Normal("m"), observed=real(rng, x))


@refused("missing values", "y has missing values that the model imputes")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y", line(x), observed=np.ma.masked_greater(real(rng, x), 2.0))


@refused("a latent value for each row", "z has one latent value for each of the")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y", pm.Normal("z", shape=len(x)), observed=real(rng, x))


@refused("a discrete latent variable", "which is a discrete variable|which NUTS cannot sample")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y", pm.Bernoulli("which", 0.5) + pm.Normal("b") * x, observed=real(rng, x))


@refused("Minibatch", "pm.Minibatch")
def _(rng: Any, x: Any) -> None:
    small_x, small_y = pm.Minibatch(x, real(rng, x), batch_size=50)
    pm.Normal("y", pm.Normal("b") * small_x, observed=small_y, total_size=len(x))


@refused("a mask on parameters by row", "y .*(cannot be computed for some rows alone|depends on the other rows)")
def _(rng: Any, x: Any) -> None:
    eta: Any = line(x)
    some = x > 0
    both = tensors.concatenate([eta[some], eta[~some]])
    pm.Normal("y", both, observed=real(rng, x))


@refused("a roll of parameters by row", "y .*(cannot be computed for some rows alone|depends on the other rows)")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y", tensors.roll(line(x), 1), observed=real(rng, x))


@refused("a slice of parameters by row", "y .*(cannot be computed for some rows alone|depends on the other rows)")
def _(rng: Any, x: Any) -> None:
    eta: Any = line(x)
    pm.Normal("y", eta[:-1], observed=real(rng, x)[1:])


@refused("a mean over parameters by row", "y .*(cannot be computed for some rows alone|depends on the other rows)")
def _(rng: Any, x: Any) -> None:
    eta: Any = pm.math.exp(line(x))
    pm.Normal("y", eta / eta.mean(), observed=real(rng, x))


@refused("no observed variable", "no observed variable")
def _(rng: Any, x: Any) -> None:
    pm.Potential("y", -0.5 * ((real(rng, x) - pm.Normal("m")) ** 2).sum())


@refused("no free variable", "no free variable")
def _(rng: Any, x: Any) -> None:
    pm.Normal("y", 1.0, observed=real(rng, x))


def model_of(build: Case, n: int = N, seed: int = 1) -> pm.Model:
    """The model of a case."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    with pm.Model() as model:
        build(rng, x)
    return model
