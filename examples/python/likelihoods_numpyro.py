"""Every distribution that NumPyro offers as a likelihood of rows, in a small model with data drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.nn import sigmoid
from numpyro.handlers import reparam, seed, substitute, trace
from numpyro.infer import init_to_median
from numpyro.infer.reparam import LocScaleReparam, TransformReparam


class Case(NamedTuple):
    """A model of rows `(x, g, y)`; y is None where it is to be drawn at the true values of the latent sites."""

    model: Callable[..., None]
    truth: dict[str, Any]
    of: tuple[str, ...]
    """Classes of `numpyro.distributions` that it tries."""
    draw: Callable[..., Any] | None = None
    """y by other means, where the distribution draws none."""


GROUPS = 6
TRUTH: dict[str, Any] = dict(a=0.4, b=0.5, s=0.8)
NOT_OF_ROWS = {
    "Distribution": "the base class",
    "Unit": "the distribution behind numpyro.factor",
    "Delta": "a point mass",
    "ImproperUniform": "a prior without a density",
    "Uniform": "its only parameters are its bounds",
    "LogUniform": "its only parameters are its bounds",
    "DiscreteUniform": "its only parameters are its bounds",
    "GaussianRandomWalk": "a time series",
    "GaussianStateSpace": "a time series",
    "EulerMaruyama": "a time series",
    "CAR": "one joint value for all areas",
    "CirculantNormal": "one joint value for all times",
    "GaussianCopula": "covered by MultivariateNormal",
    "GaussianCopulaBeta": "covered by MultivariateNormal",
    "LKJ": "a prior for correlations",
    "InverseWishart": "a prior for covariances",
    "InverseWishartCholesky": "a prior for covariances",
    "WishartCholesky": "a prior for covariances",
    "TruncatedPolyaGamma": "an auxiliary variable of samplers",
    "ZeroSumNormal": "a prior for effects",
    "RelaxedBernoulliLogits": "a relaxation for gradients",
    "SineBivariateVonMises": "NumPyro needs about 8 MB per row and draw for its constant",
}
"""What is no likelihood of rows, and why."""


def line(x: Any, spread: float = 0.5) -> Any:
    a = numpyro.sample("a", dist.Normal(0.0, spread))
    return a + numpyro.sample("b", dist.Normal(0.0, spread)) * x


def size() -> Any:
    return numpyro.sample("s", dist.LogNormal(0.0, 0.5))


def share() -> Any:
    return numpyro.sample("p", dist.Beta(2.0, 2.0))


def of(make: Callable[[Any], Any], *names: str, **truth: Any) -> Case:
    """A model with one observed site whose distribution is made from x."""

    def model(x: Any, g: Any, y: Any = None) -> None:
        numpyro.sample("y", make(x), obs=y)

    return Case(model, {**TRUTH, **truth}, names)


def normal(x: Any) -> Any:
    return dist.Normal(line(x), size())


def mixture(x: Any) -> Any:
    p = share()
    ends = numpyro.sample("m", dist.Normal(jnp.array([-2.0, 2.0]), 0.5).to_event(1))
    return dist.MixtureSameFamily(dist.Categorical(jnp.stack([p, 1 - p])), dist.Normal(ends + 0.0 * x[:, None], size()))


def general_mixture(x: Any) -> Any:
    p = share()
    parts = [dist.Normal(line(x), 0.5), dist.StudentT(4.0, 0.0 * x, 3.0 * size())]
    return dist.MixtureGeneral(dist.Categorical(jnp.stack([p, 1 - p])), parts)


def correlation(name: str = "L") -> Any:
    return numpyro.sample(name, dist.LKJCholesky(2, 2.0))


CHOLESKY = np.array([[1.0, 0.0], [0.4, np.sqrt(1 - 0.16)]])


def two(x: Any) -> Any:
    """Means of two numbers a row."""
    c = numpyro.sample("c", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    return x[:, None] * numpyro.sample("b", dist.Normal(0.0, 0.5)) * jnp.array([1.0, 0.5]) + c


def three(x: Any) -> Any:
    """Logits of three classes."""
    c = numpyro.sample("c", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    return jnp.stack([jnp.zeros_like(x), c[0] + 0.5 * x, c[1] + numpyro.sample("b", dist.Normal(0.0, 0.5)) * x], axis=-1)


def cuts() -> Any:
    free = dist.Normal(0.0, 2.0).expand([3]).to_event(1)
    return numpyro.sample("cuts", dist.TransformedDistribution(free, dist.transforms.OrderedTransform()))


C = dict(c=np.array([0.3, -0.4]))


def slopes(x: Any, g: Any, y: Any = None) -> None:
    """Correlated intercepts and slopes of groups."""
    L, sd = correlation(), numpyro.sample("sd", dist.LogNormal(0.0, 0.5).expand([2]).to_event(1))
    with numpyro.plate("groups", GROUPS):
        u = numpyro.sample("u", dist.MultivariateNormal(jnp.zeros(2), scale_tril=sd[:, None] * L))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=u[g, 0] + u[g, 1] * x), obs=y)


def intercepts(x: Any, g: Any, y: Any = None) -> None:
    """Groups under `LocScaleReparam`, below."""
    m, t = numpyro.sample("m", dist.Normal(0.0, 1.0)), numpyro.sample("t", dist.HalfNormal(1.0))
    with numpyro.plate("groups", GROUPS):
        u = numpyro.sample("u", dist.Normal(m, t))
    b = numpyro.sample("b", dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.AffineTransform(0.0, 2.0)))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Poisson(jnp.exp(u[g] + b * x)), obs=y)


def right_censored(x: Any, g: Any, y: Any = None) -> None:
    time, censored = (None, None) if y is None else y
    base = dist.Weibull(jnp.exp(line(x)), 1.0 + size())
    numpyro.sample("y", base if y is None else dist.RightCensoredDistribution(base, censored), obs=time)


def left_censored(x: Any, g: Any, y: Any = None) -> None:
    value, censored = (None, None) if y is None else y
    base = dist.Normal(line(x), size())
    numpyro.sample("y", base if y is None else dist.LeftCensoredDistribution(base, censored), obs=value)


def interval_censored(x: Any, g: Any, y: Any = None) -> None:
    """Known to within 1 in the middle, and to be below or above at the ends."""
    value, left, right = (None, None, None) if y is None else y
    base = dist.Normal(line(x), size())
    numpyro.sample("y", base if y is None else dist.IntervalCensoredDistribution(base, left, right), obs=value)


def by_factor(x: Any, g: Any, y: Any = None) -> None:
    """Censored rows by a factor with one value for each."""
    base = dist.Normal(line(x), size())
    if y is None:
        numpyro.sample("y", base)
    else:
        value, censored = y
        rows = jnp.where(censored, jnp.log1p(-jnp.clip(base.cdf(value), 0.0, 1 - 1e-12)), base.log_prob(value))
        numpyro.factor("likelihood", rows)


def two_sites(x: Any, g: Any, y: Any = None) -> None:
    """Counts and whether there is one, of the same rows."""
    rate = line(x)
    first, second = (None, None) if y is None else y
    numpyro.sample("y", dist.Poisson(jnp.exp(rate)), obs=first)
    numpyro.sample("z", dist.Bernoulli(logits=rate), obs=second)


def masked_and_scaled(x: Any, g: Any, y: Any = None) -> None:
    rate = line(x)
    with numpyro.plate("rows", len(x)), numpyro.handlers.mask(mask=x < 1.0), numpyro.handlers.scale(scale=1.0 + x**2):
        numpyro.sample("y", dist.Normal(rate, 1.0), obs=y)


def _censored(model: Callable[..., None], limit: float, above: bool) -> Callable[..., Any]:
    def draw(x: Any, g: Any, truth: dict[str, Any], key: Any) -> Any:
        value = drawn(model, x, g, truth, key)["y"]
        beyond = value > limit if above else value < limit
        return np.where(beyond, limit, value), beyond

    return draw


def _within(x: Any, g: Any, truth: dict[str, Any], key: Any) -> Any:
    value = drawn(interval_censored, x, g, truth, key)["y"]
    left, right = value < -0.5, value > 1.5
    ends = np.stack([np.floor(value), np.floor(value) + 1], axis=-1)
    return np.where(left[:, None], -0.5, np.where(right[:, None], 1.5, ends)), left, right


def _both(x: Any, g: Any, truth: dict[str, Any], key: Any) -> Any:
    found = drawn(two_sites, x, g, truth, key)
    return found["y"], found["z"]


def _simplex(x: Any, g: Any, truth: dict[str, Any], key: Any) -> Any:
    return np.random.default_rng(0).dirichlet([2.0, 1.0, 3.0], len(x))


POSITIVE = dict(a=0.2, b=0.3, s=0.8)
SHARE = dict(p=0.3)
CASES: dict[str, Case] = {
    # A real line.
    "Normal": of(normal, "Normal"),
    "StudentT": of(lambda x: dist.StudentT(2.0 + 3.0 * size(), line(x), 0.7), "StudentT"),
    "Cauchy": of(lambda x: dist.Cauchy(line(x), size()), "Cauchy"),
    "Laplace": of(lambda x: dist.Laplace(line(x), size()), "Laplace"),
    "AsymmetricLaplace": of(lambda x: dist.AsymmetricLaplace(line(x), size(), 1.3), "AsymmetricLaplace"),
    "AsymmetricLaplaceQuantile": of(lambda x: dist.AsymmetricLaplaceQuantile(line(x), size(), 0.7), "AsymmetricLaplaceQuantile"),
    "SoftLaplace": of(lambda x: dist.SoftLaplace(line(x), size()), "SoftLaplace"),
    "Logistic": of(lambda x: dist.Logistic(line(x), size()), "Logistic"),
    "Gumbel": of(lambda x: dist.Gumbel(line(x), size()), "Gumbel"),
    "VonMises": of(lambda x: dist.VonMises(2 * jnp.arctan(line(x)), 1.0 + size()), "VonMises"),
    "VonMises, its angle a line": of(lambda x: dist.VonMises(line(x), 1.0 + size()), "VonMises"),
    "SineSkewed": of(
        lambda x: dist.SineSkewed(dist.VonMises(2 * jnp.arctan(line(x))[:, None], 2.0 + size()).to_event(1), jnp.array([0.3])), "SineSkewed"
    ),
    # Positive numbers.
    "LogNormal": of(lambda x: dist.LogNormal(line(x), size()), "LogNormal"),
    "Gamma": of(lambda x: (lambda k: dist.Gamma(k, k / jnp.exp(line(x))))(1.0 + size()), "Gamma"),
    "InverseGamma": of(lambda x: dist.InverseGamma(2.0 + size(), jnp.exp(line(x))), "InverseGamma"),
    "Exponential": of(lambda x: dist.Exponential(jnp.exp(line(x))), "Exponential"),
    "Weibull": of(lambda x: dist.Weibull(jnp.exp(line(x)), 1.0 + size()), "Weibull"),
    "HalfNormal": of(lambda x: dist.HalfNormal(jnp.exp(line(x))), "HalfNormal"),
    "HalfCauchy": of(lambda x: dist.HalfCauchy(jnp.exp(line(x))), "HalfCauchy"),
    "Chi2": of(lambda x: dist.Chi2(2.0 * jnp.exp(line(x))), "Chi2"),
    "Gompertz": of(lambda x: dist.Gompertz(size(), jnp.exp(line(x))), "Gompertz"),
    "Dagum": of(lambda x: dist.Dagum(1.0 + size(), 3.0, jnp.exp(line(x))), "Dagum"),
    "Levy": of(lambda x: dist.Levy(0.0, jnp.exp(line(x))), "Levy"),
    "Pareto": of(lambda x: dist.Pareto(1.0, 1.0 + jnp.exp(line(x))), "Pareto"),
    "LowerTruncatedPowerLaw": of(lambda x: dist.LowerTruncatedPowerLaw(-1.5 - jnp.exp(line(x)), 1.0), "LowerTruncatedPowerLaw"),
    "DoublyTruncatedPowerLaw": of(
        lambda x: dist.DoublyTruncatedPowerLaw(-1.5 - jnp.exp(line(x)), 1.0, 20.0), "DoublyTruncatedPowerLaw"
    ),
    "FoldedDistribution": of(lambda x: dist.FoldedDistribution(dist.Normal(1.0 + line(x), size())), "FoldedDistribution"),
    "TransformedDistribution": of(
        lambda x: dist.TransformedDistribution(dist.Normal(line(x), size()), dist.transforms.ExpTransform()), "TransformedDistribution"
    ),
    # Intervals.
    "Beta": of(lambda x: (lambda m, k: dist.Beta(m * k, (1 - m) * k))(sigmoid(line(x)), 2.0 + 5.0 * size()), "Beta"),
    "BetaProportion": of(lambda x: dist.BetaProportion(sigmoid(line(x)), 2.0 + 5.0 * size()), "BetaProportion"),
    "Kumaraswamy": of(lambda x: dist.Kumaraswamy(jnp.exp(line(x)), 1.0 + size()), "Kumaraswamy"),
    "TruncatedNormal": of(
        lambda x: dist.TruncatedNormal(line(x), size(), low=0.0), "LeftTruncatedDistribution", a=0.6, b=0.3
    ),
    "TruncatedCauchy, right": of(
        lambda x: dist.TruncatedDistribution(dist.Cauchy(line(x), size()), high=2.0), "RightTruncatedDistribution"
    ),
    "TruncatedDistribution, both": of(
        lambda x: dist.TruncatedDistribution(dist.Logistic(line(x), size()), low=-2.0, high=2.0), "TwoSidedTruncatedDistribution"
    ),
    "LeftTruncatedGamma": of(lambda x: dist.LeftTruncatedGamma(dist.Gamma(2.0, jnp.exp(line(x))), 0.3), "LeftTruncatedGamma"),
    "RightTruncatedGamma": of(lambda x: dist.RightTruncatedGamma(dist.Gamma(2.0, jnp.exp(line(x))), 3.0), "RightTruncatedGamma"),
    "TwoSidedTruncatedGamma": of(
        lambda x: dist.TwoSidedTruncatedGamma(dist.Gamma(2.0, jnp.exp(line(x))), 0.3, 3.0), "TwoSidedTruncatedGamma"
    ),
    # Counts and classes.
    "Poisson": of(lambda x: dist.Poisson(jnp.exp(line(x))), "Poisson"),
    "NegativeBinomial2": of(lambda x: dist.NegativeBinomial2(jnp.exp(line(x)), size()), "NegativeBinomial2"),
    "NegativeBinomialLogits": of(lambda x: dist.NegativeBinomialLogits(2.0 * size(), line(x)), "NegativeBinomialLogits"),
    "NegativeBinomialProbs": of(lambda x: dist.NegativeBinomialProbs(2.0 * size(), sigmoid(line(x))), "NegativeBinomialProbs"),
    "GammaPoisson": of(lambda x: (lambda k: dist.GammaPoisson(k, k / jnp.exp(line(x))))(size()), "GammaPoisson"),
    "BetaNegativeBinomial": of(lambda x: dist.BetaNegativeBinomial(3.0 * jnp.exp(line(x)), 2.0, 4.0), "BetaNegativeBinomial"),
    "GeometricLogits": of(lambda x: dist.Geometric(logits=line(x)), "GeometricLogits"),
    "GeometricProbs": of(lambda x: dist.Geometric(probs=sigmoid(line(x))), "GeometricProbs"),
    "BernoulliLogits": of(lambda x: dist.Bernoulli(logits=line(x)), "BernoulliLogits"),
    "BernoulliProbs": of(lambda x: dist.Bernoulli(probs=sigmoid(line(x))), "BernoulliProbs"),
    "BinomialLogits": of(lambda x: dist.Binomial(10, logits=line(x)), "BinomialLogits"),
    "BinomialProbs": of(lambda x: dist.Binomial(10, probs=sigmoid(line(x))), "BinomialProbs"),
    "BetaBinomial": of(
        lambda x: (lambda m, k: dist.BetaBinomial(m * k, (1 - m) * k, 10))(sigmoid(line(x)), 4.0 * size()), "BetaBinomial"
    ),
    "CategoricalLogits": of(lambda x: dist.Categorical(logits=three(x)), "CategoricalLogits", **C),
    "CategoricalProbs": of(lambda x: dist.Categorical(probs=jax.nn.softmax(three(x))), "CategoricalProbs", **C),
    "OrderedLogistic": of(
        lambda x: dist.OrderedLogistic(x * numpyro.sample("b", dist.Normal()), cuts()), "OrderedLogistic", cuts=np.array([-1.0, 0.2, 1.4])
    ),
    "MultinomialLogits": of(lambda x: dist.Multinomial(8, logits=three(x)), "MultinomialLogits", **C),
    "MultinomialProbs": of(lambda x: dist.Multinomial(8, probs=jax.nn.softmax(three(x))), "MultinomialProbs", **C),
    "DirichletMultinomial": of(lambda x: dist.DirichletMultinomial(jnp.exp(three(x)), 8), "DirichletMultinomial", **C),
    "ZeroInflatedPoisson": of(lambda x: dist.ZeroInflatedPoisson(share(), jnp.exp(line(x))), "ZeroInflatedPoisson", **SHARE),
    "ZeroInflatedDistribution, probs": of(
        lambda x: dist.ZeroInflatedDistribution(dist.NegativeBinomial2(jnp.exp(line(x)), 2.0), gate=share()), "ZeroInflatedProbs", **SHARE
    ),
    "ZeroInflatedDistribution, logits": of(
        lambda x: dist.ZeroInflatedDistribution(dist.Poisson(2.0), gate_logits=line(x)), "ZeroInflatedLogits"
    ),
    "HurdlePoisson": of(lambda x: dist.HurdlePoisson(share(), jnp.exp(line(x))), "HurdlePoisson", **SHARE),
    "HurdleGamma": of(lambda x: dist.HurdleGamma(share(), 2.0, jnp.exp(line(x))), "HurdleGamma", **SHARE),
    "HurdleLogNormal": of(lambda x: dist.HurdleLogNormal(share(), line(x), size()), "HurdleLogNormal", **SHARE),
    "HurdleDistribution, probs": of(
        lambda x: dist.HurdleDistribution(dist.NegativeBinomial2(jnp.exp(line(x)), 2.0), gate=share()), "HurdleProbs", **SHARE
    ),
    "HurdleDistribution, logits": of(lambda x: dist.HurdleDistribution(dist.Poisson(2.0), gate_logits=line(x)), "HurdleLogits"),
    # Mixtures.
    "MixtureSameFamily": of(mixture, "MixtureSameFamily", m=np.array([-2.0, 2.0]), **SHARE),
    "MixtureGeneral": of(general_mixture, "MixtureGeneral", **SHARE),
    # Rows of several numbers.
    "MultivariateNormal": of(lambda x: dist.MultivariateNormal(two(x), scale_tril=size() * correlation()), "MultivariateNormal", "LKJCholesky", L=CHOLESKY, **C),
    "MultivariateStudentT": of(lambda x: dist.MultivariateStudentT(5.0, two(x), size() * correlation()), "MultivariateStudentT", L=CHOLESKY, **C),
    "LowRankMultivariateNormal": of(
        lambda x: dist.LowRankMultivariateNormal(two(x), size() * jnp.ones((2, 1)), jnp.ones(2)), "LowRankMultivariateNormal", **C
    ),
    "MatrixNormal": of(
        lambda x: dist.MatrixNormal(two(x)[:, :, None] * jnp.ones(3), size() * jnp.eye(2), jnp.eye(3)), "MatrixNormal", **C
    ),
    "Independent columns": of(lambda x: dist.Normal(two(x), size()).to_event(1), "Independent", **C),
    "ProjectedNormal": of(lambda x: dist.ProjectedNormal(two(x) + jnp.array([1.0, 0.0])), "ProjectedNormal", **C),
    "Wishart": of(lambda x: dist.Wishart(5.0, scale_matrix=jnp.exp(line(x))[:, None, None] * jnp.eye(2)), "Wishart"),
    "Dirichlet": Case(
        lambda x, g, y=None: numpyro.sample("y", dist.Dirichlet(jnp.exp(three(x))), obs=y), {**TRUTH, **C}, ("Dirichlet",), _simplex
    ),
    # Censored rows, and structures.
    "RightCensoredDistribution": Case(
        right_censored, POSITIVE, ("RightCensoredDistribution",), _censored(right_censored, 1.3, True)
    ),
    "LeftCensoredDistribution": Case(left_censored, TRUTH, ("LeftCensoredDistribution",), _censored(left_censored, 0.0, False)),
    "IntervalCensoredDistribution": Case(interval_censored, TRUTH, ("IntervalCensoredDistribution",), _within),
    "a factor with one value for each row": Case(by_factor, TRUTH, ("Unit",), _censored(by_factor, 1.0, True)),
    "two observed sites": Case(two_sites, TRUTH, (), _both),
    "handlers.mask and handlers.scale": Case(masked_and_scaled, TRUTH, ("MaskedDistribution", "ExpandedDistribution")),
    "LKJ-correlated slopes": Case(
        slopes, dict(L=CHOLESKY, sd=np.array([0.6, 0.4]), u=np.random.default_rng(3).normal(size=(GROUPS, 2)) * [0.6, 0.4]), ()
    ),
    "handlers.reparam": Case(
        reparam(intercepts, config={"u": LocScaleReparam(0.0), "b": TransformReparam()}),
        dict(m=0.3, t=0.5, u_decentered=np.random.default_rng(4).normal(size=GROUPS), b_base=0.1),
        (),
    ),
}


def drawn(model: Callable[..., None], x: Any, g: Any, truth: dict[str, Any], key: Any) -> dict[str, Any]:
    """Values of all sample sites at the truth."""
    sites = trace(seed(substitute(model, data=truth), key)).get_trace(x, g, None)
    return {name: np.asarray(site["value"]) for name, site in sites.items() if site["type"] == "sample"}


def data_of(case: Case, n: int, number: int = 0) -> tuple[Any, Any, Any]:
    """x, groups and y of n rows."""
    rng = np.random.default_rng([7, number])
    x, g = rng.normal(size=n), rng.integers(0, GROUPS, n)
    key = jax.random.PRNGKey(number)
    if case.draw is not None:
        return x, g, case.draw(x, g, case.truth, key)
    return x, g, drawn(case.model, x, g, case.truth, key)["y"]


def kernel() -> dict[str, Any]:
    """Starts that suit all of them."""
    return {"init_strategy": init_to_median()}
