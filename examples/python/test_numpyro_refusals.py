"""NumPyro models of which a coreset would be silently wrong: each is refused in one line that names the site and what to do."""

from __future__ import annotations

from typing import Any, Callable

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from jax import random
from jax.scipy.stats import norm
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam

import corelet
import corelet.numpyro
from corelet.adapters.numpyro_check import check
from corelet.adapters.numpyro_rows import Rows

numpyro.enable_x64()

N = 300
rng = np.random.default_rng(5)
X = rng.normal(size=(N, 2))
x = X[:, 0]
y = 1.0 + 0.5 * x + rng.normal(size=N)
positive = np.abs(y) + 0.1
group = rng.integers(0, 6, N)


def line(x: Any, y: Any, scale: Any = 1.0) -> None:
    b = numpyro.sample("b", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def truncated_by_factor(y: Any) -> None:
    m = numpyro.sample("m", dist.Normal())
    numpyro.sample("y", dist.Normal(m, 1.0), obs=y)
    numpyro.factor("trunc", -len(y) * norm.logsf(0.0, m, 1.0))


def summed_factor(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)
    numpyro.factor("more", -0.1 * ((y - b) ** 2).sum())


def factor_of_a_mean(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)
    numpyro.factor("soft", -0.5 * (b - y.mean()) ** 2)


def prior_of_the_number(x: Any, y: Any) -> None:
    line(x, y, 1 / jnp.sqrt(x.shape[0]))


def prior_of_a_plate(x: Any, y: Any, n: int) -> None:
    b = numpyro.sample("b", dist.Normal(0.0, n**-0.5))
    with numpyro.plate("rows", n):
        numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def g_prior(X: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), precision_matrix=X.T @ X / 300))
    numpyro.sample("y", dist.Normal(X @ b, 1.0), obs=y)


def empirical_prior(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal(y.mean(), 2.5 * y.std()))
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def prior_of_one_row(x: Any, y: Any) -> None:
    line(x, y, 1.0 + x[0] ** 2)


def support_of_the_rows(y: Any) -> None:
    top = numpyro.sample("top", dist.ImproperUniform(dist.constraints.greater_than(y.min()), (), ()))
    numpyro.sample("y", dist.Normal(top, 1.0), obs=y)


def support_of_the_number(y: Any) -> None:
    top = numpyro.sample("top", dist.ImproperUniform(dist.constraints.greater_than(0.01 * len(y)), (), ()))
    numpyro.sample("y", dist.Normal(top, 1.0), obs=y)


def scaled_prior(x: Any, y: Any) -> None:
    with numpyro.handlers.scale(scale=len(y) / 100):
        b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def prior_scaled_by_rows(x: Any, y: Any) -> None:
    with numpyro.handlers.scale(scale=x**2):
        line(x, y)


def scaled_rows(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    with numpyro.handlers.scale(scale=1e4 / len(y)):
        numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def weights_of_mean_one(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    with numpyro.handlers.scale(scale=x**2 / jnp.mean(x**2)):
        numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


def broadcast(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y[:, None])


def lagged(y: Any) -> None:
    r = numpyro.sample("r", dist.Normal())
    numpyro.sample("y", dist.Normal(r * y[:-1], 1.0), obs=y[1:])


def lagged_beside(y: Any, x: Any) -> None:
    r = numpyro.sample("r", dist.Normal())
    numpyro.sample("y", dist.Normal(r * y[:-1], 1.0), obs=x)


def rolled(y: Any) -> None:
    r = numpyro.sample("r", dist.Normal())
    numpyro.sample("y", dist.Normal(r * jnp.roll(y, 1), 1.0), obs=y)


def trend(y: Any) -> None:
    r = numpyro.sample("r", dist.Normal())
    numpyro.sample("y", dist.Normal(r * jnp.arange(len(y)), 1.0), obs=y)


def from_outside(y: Any) -> None:
    numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal()) * x, 1.0), obs=y)


def plate_from_outside(y: Any) -> None:
    m = numpyro.sample("m", dist.Normal())
    with numpyro.plate("rows", N):
        numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


def counts_groups(group: Any, y: Any) -> None:
    a = numpyro.sample("a", dist.Normal().expand([len(np.unique(group))]))
    numpyro.sample("y", dist.Normal(a[group], 1.0), obs=y)


def boolean_index(x: Any, y: Any) -> None:
    m = numpyro.sample("m", dist.Normal())
    numpyro.sample("y", dist.Normal(m, 1.0), obs=y[x > 0])


def subsampled(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    with numpyro.plate("rows", len(y), subsample_size=20) as at:
        numpyro.sample("y", dist.Normal(b * x[at], 1.0), obs=y[at])


def rows_in_one_event(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)
    numpyro.sample("z", dist.Normal(b * x, 2.0).to_event(1), obs=y)


def discrete(y: Any) -> None:
    z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)


def imputed(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y, obs_mask=y > 0)


def gaussian_process(x: Any, y: Any) -> None:
    length = numpyro.sample("length", dist.HalfNormal())
    kernel = jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 0.1 * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), kernel), obs=y)


def autoregression_by_scan(y: Any) -> None:
    r = numpyro.sample("r", dist.Normal())

    def step(before: Any, now: Any) -> Any:
        numpyro.sample("y", dist.Normal(r * before, 1.0), obs=now)
        return now, None

    scan(step, 0.0, y)


def walk_by_scan(y: Any) -> None:
    def step(before: Any, now: Any) -> Any:
        level = numpyro.sample("level", dist.Normal(before, 0.1))
        numpyro.sample("y", dist.Normal(level, 1.0), obs=now)
        return level, None

    scan(step, 0.0, y)


def named_groups(group: Any, y: Any) -> None:
    a = numpyro.sample("a", dist.Normal().expand([2]))
    numpyro.sample("y", dist.Normal(a[(group == "b").astype(int)], 1.0), obs=y)


def more_of_few(x: Any, y: Any) -> None:
    b = numpyro.sample("b", dist.Normal())
    c = numpyro.sample("c", dist.Normal()) if len(y) < 100 else 0.0
    numpyro.sample("y", dist.Normal(b * x + c, 1.0), obs=y)


def optimised(x: Any, y: Any) -> None:
    c = numpyro.param("c", lambda key: random.normal(key))
    numpyro.sample("y", dist.Normal(c + numpyro.sample("b", dist.Normal()) * x, 1.0), obs=y)


def conditioned(x: Any) -> None:
    numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal()) * x, 1.0))


def random_walk(y: Any) -> None:
    s = numpyro.sample("s", dist.HalfNormal())
    numpyro.sample("y", dist.GaussianRandomWalk(s, num_steps=len(y)), obs=y)


def of_a_table(table: Any) -> None:
    numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal()) * table["x"].values, 1.0), obs=table["y"].values)


def rows_across(x: Any, y: Any) -> None:
    numpyro.sample("y", dist.Normal(numpyro.sample("c", dist.Normal().expand([3]))[:, None] + x, 1.0), obs=y)


PRIOR, ROWS = "the prior of b depends on the rows", "depends on the other rows"
REFUSED: list[tuple[Callable[..., None], tuple[Any, ...], str]] = [
    (truncated_by_factor, (positive,), "the factor trunc depends on the rows or on their number.*without the .sum"),
    (summed_factor, (x, y), "the factor more depends on the rows"),
    (factor_of_a_mean, (x, y), "the factor soft depends on the rows"),
    (prior_of_the_number, (x, y), f"{PRIOR} or on their number.*pass that as an argument"),
    (prior_of_a_plate, (x, y, N), PRIOR),
    (g_prior, (X, y), PRIOR),
    (empirical_prior, (x, y), PRIOR),
    (prior_of_one_row, (x, y), PRIOR),
    (support_of_the_rows, (y,), "the (prior|support) of top depends on the rows"),
    (support_of_the_number, (y,), "the support of top depends on the rows"),
    (scaled_prior, (x, y), PRIOR),
    (prior_scaled_by_rows, (x, y), PRIOR),
    (scaled_rows, (x, y), ROWS),
    (weights_of_mean_one, (x, y), ROWS),
    (broadcast, (x, y), ROWS),
    (lagged, (y,), "no argument of the model has 299 rows.*before the model"),
    (lagged_beside, (y, x[:299]), "cannot be evaluated on 7 of its 299 rows"),
    (rolled, (y,), ROWS),
    (trend, (y,), ROWS),
    (from_outside, (y,), "cannot be evaluated on 7 of its 300 rows.*hand over in args"),
    (plate_from_outside, (y,), "cannot be evaluated on 7 of its 300 rows|has 300 rows where the model is given 7"),
    (counts_groups, (group, y), "reads values of its arguments in Python"),
    (boolean_index, (x, y), "no argument of the model has"),
    (subsampled, (x, y), "the plate rows takes a subsample"),
    (rows_in_one_event, (x, y), "the log-likelihood of z depends on the rows"),
    (discrete, (y,), "z is a discrete latent site; integrate it out"),
    (imputed, (x, y), "y has missing values that the model imputes"),
    (gaussian_process, (x, y), "y is not a sum over its rows"),
    (autoregression_by_scan, (y,), ROWS),
    (walk_by_scan, (y,), "level has one latent value for each of the 300 rows"),
    (named_groups, (np.array(["a", "b"] * 150), y), "holds str.*not numbers"),
    (more_of_few, (x, y), "the prior of c depends on the rows"),
    (optimised, (x, y), "c is a numpyro.param, which NUTS does not sample"),
    (numpyro.handlers.condition(conditioned, data={"y": y}), (x,), "cannot be evaluated on 7 of its 300 rows"),
    (random_walk, (y,), "y is not a sum over its rows"),
    (of_a_table, (pd.DataFrame({"x": x, "y": y}),), "an argument of the model is a DataFrame; hand over its columns"),
    (rows_across, (x, np.stack([y, y, y])), r"each of the 3 rows \(the first axis of y, whose shape is \(3, 300\)\)"),
]


def name_of(model: Any) -> str:
    return str(getattr(model, "__name__", None) or f"handlers.{type(model).__name__}")


@pytest.mark.quick
@pytest.mark.parametrize(("model", "args", "text"), REFUSED, ids=[name_of(model) for model, _, _ in REFUSED])
def test_what_a_coreset_would_change_is_refused(model: Callable[..., None], args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(corelet.CoreletError, match=text) as caught:
        corelet.numpyro.fit(model, args, k=20, chains=2)
    assert "\n" not in str(caught.value)


def accepted(model: Callable[..., None], args: tuple[Any, ...], **kwargs: Any) -> Rows:
    rows = Rows(model, args, kwargs)
    check(rows, 0)
    return rows


def test_an_integer_that_equals_the_number_of_rows_is_not_taken_for_it() -> None:
    def of_the_prior(x: Any, y: Any, n: int) -> None:
        line(x, y, n**-0.5)

    def plate(x: Any, y: Any, n: int, m: int) -> None:
        b = numpyro.sample("b", dist.Normal(0.0, m**-0.5))
        with numpyro.plate("rows", n):
            numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)

    def groups(group: Any, y: Any, count: int) -> None:
        a = numpyro.sample("a", dist.Normal().expand([count]))
        numpyro.sample("y", dist.Normal(a[group], 1.0), obs=y)

    assert accepted(of_the_prior, (x, y, N)).call([x[:5], y[:5]])[0][2] == N
    assert accepted(plate, (x, y, N, N)).call([x[:5], y[:5]])[0][2:] == (5, N)
    assert accepted(plate, (x, y, np.int64(N), 50)).call([x[:5], y[:5]])[0][2:] == (5, 50)
    assert accepted(groups, (group, y, N)).latent["a"].shape == (N,)


def test_what_is_row_by_row_or_of_no_row_is_taken() -> None:
    def masked(x: Any, y: Any, known: Any) -> None:
        b = numpyro.sample("b", dist.Normal())
        with numpyro.plate("rows", len(y)), numpyro.handlers.mask(mask=known):
            numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)

    def tempered(x: Any, y: Any) -> None:
        with numpyro.handlers.scale(scale=0.5):
            line(x, y)
            numpyro.factor("soft", -1.0)

    def by_factor(x: Any, y: Any) -> None:
        b = numpyro.sample("b", dist.Normal())
        numpyro.factor("likelihood", dist.Normal(b * x, 1.0).log_prob(y))
        numpyro.factor("prior", -0.5 * b**2)

    def named(x: Any, y: Any) -> None:
        numpyro.sample("y_observed", dist.Normal(numpyro.sample("b", dist.Normal()) * x, 1.0), obs=y)

    def months(month: Any, y: Any) -> None:
        def step(before: Any, _: Any) -> Any:
            level = numpyro.sample("level", dist.Normal(before, 0.5))
            return level, level

        levels = scan(step, 0.0, jnp.arange(6))[1]
        numpyro.sample("y", dist.Normal(levels[month], 1.0), obs=y)

    def of_other_lengths(x: Any, y: Any, late: Any, census: Any) -> None:
        """Rows, fewer rows that are known to be above a limit, one mean of another source, and a soft constraint."""
        b, c = numpyro.sample("b", dist.Normal()), numpyro.sample("c", dist.Normal().expand([3]))
        numpyro.sample("y", dist.Normal(b * x + c[0], 1.0), obs=y)
        numpyro.sample("late", dist.Bernoulli(logits=b * late), obs=jnp.ones(len(late)))
        numpyro.sample("census", dist.Normal(c, 0.3), obs=census)
        numpyro.sample("sum", dist.Normal(c.sum(), 0.01), obs=0.0)

    rows = accepted(of_other_lengths, (x, y, x[:40], np.ones(3)))
    assert rows.n == N and rows.likelihood == ["y"] and rows.whole == ["late", "census", "sum"]
    accepted(months, (group, y))
    accepted(masked, (x, y, x > 0))
    accepted(tempered, (x, y))
    accepted(named, (x, y))
    assert accepted(by_factor, (x, y)).likelihood == ["likelihood"]
    accepted(numpyro.handlers.reparam(line, config={"b": LocScaleReparam(0.0)}), (x, y))
    accepted(line, (), x=x, y=y)
