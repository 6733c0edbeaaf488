"""Mixed models: `corelet.fit(random=…)` and formulas with `(1 | g)`."""

import numpy as np
import pandas as pd
import pytest

import corelet
from corelet.frames.formula import groupings_of, without_random


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(3)
    groups, each = 200, 8
    customer = np.repeat(np.arange(groups), each)
    price = rng.normal(10.0, 2.0, groups * each)
    effect = 0.9 * rng.normal(size=groups)
    eta = 0.2 - 0.3 * (price - 10.0) + effect[customer]
    frame = pd.DataFrame(dict(customer=[f"c{c}" for c in customer], price=price))
    frame["bought"] = (rng.random(len(frame)) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["spent"] = eta + 0.5 * rng.normal(size=len(frame))
    order = rng.permutation(len(frame))
    return frame.iloc[order].reset_index(drop=True), effect


def test_few_groups_have_the_posterior_of_all(visits):
    frame, effect = visits
    few = corelet.fit("bought ~ price + (1 | customer)", frame, k=40, draws=400)
    every = corelet.fit(frame[["price", "customer"]], frame.bought, random="customer", k=200, draws=400)
    assert few.verdict.grade == "A" and len(few.groups) <= 40 and len(every.groups) == 200
    assert set(few.draws) == {"price", "(intercept)", "1|customer_sigma"} and few.draws["price"].shape == (4, 400)
    for name, values in every.draws.items():
        assert abs(few.draws[name].mean() - values.mean()) < 0.25 * values.std()
        assert 0.8 < few.draws[name].std() / values.std() < 1.25
    assert few.quadrature_bias < 0.1 and few.effects == "1 | customer" and few.n_groups == 200
    table = pd.DataFrame(few.random_effects(quantiles=(0.025, 0.975)))
    assert list(table.columns) == ["group", "effect", "rows", "mean", "sd", "q2.5", "q97.5"] and len(table) == 200
    at = table.group.str[1:].astype(int).to_numpy()
    assert np.corrcoef(table["mean"], effect[at])[0, 1] > 0.6 and (table.rows == 8).all()
    covered = (table["q2.5"] < effect[at]) & (effect[at] < table["q97.5"])
    assert covered.mean() > 0.88
    assert "1 | customer" in repr(few) and len(few.rows[0]) == 8
    assert few.idata.posterior["1|customer_sigma"].shape == (4, 400)


def test_groups_may_be_an_array(visits):
    frame, _ = visits
    by_name = corelet.fit(frame[["price", "customer"]], frame.spent, model="linear", random="customer", k=20, draws=300)
    by_array = corelet.fit(frame[["price"]], frame.spent, model="linear", random=frame.customer, k=20, draws=300)
    assert by_name.groups == by_array.groups and by_name.verdict.grade == "A"
    assert np.array_equal(by_name.draws["price"], by_array.draws["price"])


def test_formulas_are_read():
    assert without_random("y ~ x + z") == ("y ~ x + z", None)
    assert without_random("y ~ x + (1 + x | g) + z") == ("y ~ x + z", "1 + x | g")
    assert without_random("y ~ (x || g) + x") == ("y ~ x", "x || g")
    assert without_random("y ~ x + (1 | g) + (1 + x | h)") == ("y ~ x", "(1 | g) + (1 + x | h)")
    assert [groupings_of(text) for text in ("g", "g: 1 + x", "1 + x || g", "(1 | my g)")] == [["g"], ["g"], ["g"], ["my g"]]
    assert groupings_of("(1 | a/b) + (1 | c)") == ["a", "b", "c"] and groupings_of("1 | a:b") == ["a", "b"]


def test_what_cannot_be_is_refused(visits):
    frame, _ = visits
    for formula, why in [
        ("bought ~ price + (1 | customer) + (1 | shop)", "'shop' is no column"),
        ("bought ~ price + (1 | customer) + (0 + price | customer)", "stand in several terms"),
        ("bought ~ price + 1 | customer", "belongs to no term"),
        ("bought ~ price + (1 | shop/customer)", "'shop' is no column"),
        ("bought ~ price + (1 | shop)", "'shop' is no column"),
        ("bought ~ price + (1 + size | customer)", "needs a feature of that name"),
        ("bought ~ price + (1 | bought)", "'bought' is the target"),
    ]:
        with pytest.raises(corelet.CoreletError, match=why):
            corelet.fit(formula, frame, k=20)
    with pytest.raises(corelet.CoreletError, match="are for corelet.fit"):
        corelet.build("bought ~ price + (1 | customer)", frame, k=20)
    with pytest.raises(corelet.CoreletError, match="given twice"):
        corelet.fit("bought ~ price + (1 | customer)", frame, random="customer")
    with pytest.raises(corelet.CoreletError, match="sd_prior needs random"):
        corelet.fit(frame[["price"]], frame.bought, sd_prior="exponential(1)")
    with pytest.raises(corelet.CoreletError, match="do not go together"):
        corelet.fit(frame[["price", "customer"]], frame.bought, random="customer", groups="customer")


def test_groups_may_be_days(visits):
    """A date tells rows apart as well as its text does."""
    frame, _ = visits
    days = pd.Timestamp("2024-02-01") + pd.to_timedelta(frame.customer.str[1:].astype(int) % 40, unit="D")
    dated, texts = frame.assign(customer=days), frame.assign(customer=days.astype(str))
    fits = [corelet.fit("bought ~ price + (1 | customer)", data, k=20, draws=300) for data in (dated, texts)]
    assert np.array_equal(fits[0].draws["price"], fits[1].draws["price"])
    predicted = fits[0].predict(dated.head(3))
    # Draws of effects follow the label, as it is written.
    np.testing.assert_allclose(predicted.mean, fits[1].predict(texts.head(3)).mean, atol=0.01)
    with pytest.raises(corelet.CoreletError, match="1 of .* rows have missing values"):
        corelet.fit("bought ~ price + (1 | customer)", frame.assign(customer=days.where(days.index != 4)), k=20)


@pytest.fixture(scope="module")
def crossed():
    """120 customers and 6 products, in no order, and the fit of both factors."""
    rng = np.random.default_rng(5)
    rows, customers, products = 2400, 120, 6
    c, p = rng.integers(0, customers, rows), rng.integers(0, products, rows)
    x = rng.normal(3.0, 2.0, rows)
    own, other = 0.8 * rng.normal(size=customers), 0.7 * rng.normal(size=products)
    eta = -0.4 + 0.3 * (x - 3.0) + own[c] + other[p]
    frame = pd.DataFrame(dict(x=x, c=[f"c{i}" for i in c], p=[f"p{i}" for i in p]))
    frame["y"] = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    fit = corelet.fit("y ~ x + (1 | c) + (1 | p)", frame, k=50, seed=1)
    return frame, fit, (own, other)


def test_crossed_factors_have_the_posterior_of_all_parameters(crossed):
    """Against NUTS of every effect, of both factors."""
    jax = pytest.importorskip("jax")
    numpyro = pytest.importorskip("numpyro")
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    frame, fit, _ = crossed
    c, p = frame.c.str[1:].astype(int).to_numpy(), frame.p.str[1:].astype(int).to_numpy()
    z = ((frame.x - frame.x.mean()) / frame.x.std(ddof=0)).to_numpy()
    share = frame.y.mean()

    def model():
        b = numpyro.sample("b", dist.Normal(0, 2.5))
        a = numpyro.sample("a", dist.Normal(np.log(share / (1 - share)), 2.5))
        sds = numpyro.sample("sds", dist.HalfNormal(2.5).expand([2]).to_event(1))
        v = numpyro.sample("v", dist.Normal(0, 1).expand([c.max() + 1]).to_event(1))
        s = numpyro.sample("s", dist.Normal(0, 1).expand([p.max() + 1]).to_event(1))
        r = numpyro.deterministic("r", sds[1] * s)
        numpyro.sample("y", dist.Bernoulli(logits=a + b * z + sds[0] * v[c] + r[p]), obs=frame.y.to_numpy())

    chains = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=600, num_samples=2000, num_chains=1, progress_bar=False)
    chains.run(jax.random.PRNGKey(1))
    want = {name: np.asarray(values) for name, values in chains.get_samples().items()}
    theirs = {"x": want["b"] / frame.x.std(ddof=0), "1|c_sigma": want["sds"][:, 0], "1|p_sigma": want["sds"][:, 1]}
    theirs |= {f"1|p[p{h}]": want["r"][:, h] for h in range(p.max() + 1)}
    assert len(fit.groups) <= 50 and fit.verdict.variance < 0.05 and fit.n_groups == 120
    for name, other in theirs.items():
        own = fit.draws[name]
        assert abs(own.mean() - other.mean()) < 0.3 * other.std(), (name, own.mean(), other.mean(), other.std())
        assert 0.75 < own.std() / other.std() < 1.33, (name, own.std(), other.std())


def test_predictions_of_known_groups_new_ones_and_the_population(crossed):
    frame, fit, (own, other) = crossed
    new = pd.DataFrame(dict(x=[3.0] * 4, c=["c0", "c1", "c2", "c3"], p=["p0", "p1", "p2", "p0"]))
    known = fit.predict(new)
    population = fit.predict(new.drop(columns=["c", "p"]), effects="population")
    fresh = fit.predict(new[["x"]], effects="new", quantiles=(0.05, 0.95))
    # By hand: the inverse logit of what the draws say, without effects; and with effects drawn from their distributions.
    eta = (fit.draws["(intercept)"] + 3.0 * fit.draws["x"] if "(intercept)" in fit.draws else fit.draws["Intercept"]).ravel()
    rng = np.random.default_rng(0)
    spread = np.hypot(fit.draws["1|c_sigma"], fit.draws["1|p_sigma"]).ravel()
    by_hand = 1 / (1 + np.exp(-eta))
    assert np.allclose(population.mean, by_hand.mean(), atol=0.01) and np.allclose(population.sd, by_hand.std(), rtol=0.2)
    many = 1 / (1 + np.exp(-(eta + spread * rng.normal(size=(200, len(eta))))))
    assert abs(fresh.mean[0] - many.mean()) < 0.04 and abs(fresh.sd[0] / many.std() - 1) < 0.2
    assert np.abs(fresh.quantiles[0] - np.quantile(many, [0.05, 0.95])).max() < 0.08
    assert (fresh.sd > population.sd).all()
    # The log odds of known groups follow their effects.
    table = pd.DataFrame(fit.random_effects()).set_index("group")
    level = [fit.draws[f"1|p[{name}]"].mean() for name in new.p]
    assert np.allclose(np.log(known.mean / (1 - known.mean)), eta.mean() + table["mean"][new.c] + level, atol=0.12)
    # The same rows in another order, and some of them, are predicted alike.
    again = fit.predict(new.iloc[[2, 0]])
    assert np.array_equal(again.mean, known.mean[[2, 0]])
    assert np.array_equal(fit.predict(new).quantiles, known.quantiles)
    outcome = fit.predict(new, kind="outcome")
    assert np.allclose(outcome.mean, known.mean, atol=0.06) and set(np.unique(outcome.quantiles)) <= {0.0, 1.0}


def test_unknown_groups_want_a_policy(crossed):
    _, fit, _ = crossed
    new = pd.DataFrame(dict(x=[3.0, 3.0], c=["c0", "nobody"], p=["p0", "p1"]))
    with pytest.raises(corelet.CoreletError, match="row 1: 'nobody' in 'c' is none of the groups.*'new'"):
        fit.predict(new)
    taken = {policy: fit.predict(new, unseen_groups=policy) for policy in ("new", "population")}
    assert taken["new"].mean[0] == taken["population"].mean[0] and taken["new"].sd[1] > 1.5 * taken["population"].sd[1]
    with pytest.raises(corelet.CoreletError, match="'px' in 'p'"):
        fit.predict(new.assign(c="c0", p="px"))
    for keywords, why in [
        (dict(effects="mine"), "own, new, population"),
        (dict(unseen_groups="baseline"), "error, new, population"),
        (dict(kind="median"), "mean, outcome"),
        (dict(quantiles=(2.0,)), "between 0 and 1"),
        (dict(groups=["c0", "c1"]), "must be columns"),
    ]:
        with pytest.raises(corelet.CoreletError, match=why):
            fit.predict(new, **keywords)
    with pytest.raises(corelet.CoreletError, match="'c'"):
        fit.predict(new.drop(columns="c"))
    with pytest.raises(corelet.CoreletError, match="missing"):
        fit.predict(new.assign(c=[None, "c0"]))


def test_predictions_where_groups_were_an_array(visits):
    frame, _ = visits
    fit = corelet.fit(frame[["price"]], frame.spent, model="linear", random=frame.customer, k=20, draws=300)
    new = pd.DataFrame(dict(price=[9.0, 11.0]))
    own = fit.predict(new, groups=["c1", "c2"])
    assert own.mean.shape == (2,) and not np.allclose(own.mean, fit.predict(new, effects="population").mean, atol=1e-3)


@pytest.mark.parametrize(
    "model, random", [("logistic", "(1 | c) + (1 | p)"), ("linear", "1 + x | c"), ("poisson", "1 + x || c"), ("gamma", "c"), ("weibull", "c"),
                      ("negative-binomial", "c"), ("student", "c"), ("binomial", "c"), ("exponential", "c")]
)
def test_marginal_models_have_our_density(crossed, model, random):
    """The NumPyro model of the chosen groups, against the log posterior that was sampled, up to a constant."""
    pytest.importorskip("numpyro")
    import jax
    from numpyro.infer.util import log_density

    jax.config.update("jax_enable_x64", True)
    frame = crossed[0].head(600)
    rng = np.random.default_rng(1)
    mean = np.exp(0.2 * frame.x - 0.5).to_numpy()
    y = dict(
        logistic=frame.y, linear=frame.y + 0.3 * rng.normal(size=600), poisson=rng.poisson(mean), gamma=mean * rng.gamma(2.0, 0.5, 600),
        weibull=mean * rng.weibull(1.5, 600), student=frame.y + rng.standard_t(4, 600), binomial=rng.binomial(5, 0.4, 600),
        exponential=mean * rng.exponential(size=600),
    ).get(model, rng.poisson(mean * rng.gamma(2.0, 0.5, 600)))
    more = dict(trials=np.full(600, 5)) if model == "binomial" else {}
    features = frame[["x", "c", "p"]] if "p" in random else frame[["x", "c"]]
    fit = corelet.fit(features, y, model=model, random=random, k=15, max_k=15, draws=100, tune=100, chains=2, **more)
    native = fit._native
    import json

    centre = np.array(json.loads(native.marginal()[2])["theta"])
    target, differences = fit.numpyro(), []
    for shift in [np.zeros(len(centre)), *(0.1 * rng.normal(size=(4, len(centre))))]:
        theta = centre + shift
        theirs = float(log_density(target, (), {}, {"theta": theta})[0])
        differences.append(theirs - native.log_posterior(theta))
    assert np.ptp(differences) < 0.02, differences
    program = fit.stan()
    assert "log_sum_exp" in program.program and program.data["D"] == len(centre) and len(program.data["X"]) == program.data["N"]


def test_what_is_not_written_out_is_said(visits):
    frame, _ = visits
    levels = pd.cut(frame.spent, 3, labels=False)
    fit = corelet.fit(frame[["price", "customer"]], levels, model="ordinal", random="customer", k=10, max_k=10, draws=100, tune=100, chains=2)
    with pytest.raises(corelet.CoreletError, match="ordinal model is not among"):
        fit.stan()


def test_factors_that_cannot_be_kept_are_refused(crossed):
    frame, _, _ = crossed
    more = frame.assign(one="same", many=[f"m{i % 900}" for i in range(len(frame))], twin=frame.c + "!", huge=[f"h{i % 1200}" for i in range(len(frame))])
    for random, why in [
        ("(1 | c) + (1 + x | p)", "can be intercepts alone"),
        ("(1 | c) + (1 | one)", "'one' has one group only"),
        ("(1 | c) + (1 | twin)", "tell the same rows apart"),
        ("(1 | many) + (1 | huge)", "more than the 300 levels"),
        ("1 | many/p", "write '1 | many:p' alone"),
        ("(1 | c) + (1 | c)", "stand in several terms"),
    ]:
        with pytest.raises(corelet.CoreletError, match=why.replace("|", r"\|")):
            corelet.fit(more.drop(columns="y"), frame.y, random=random, features=["x"], k=20)


def test_nested_factors_are_an_outer_and_an_inner_one(crossed):
    frame, _, _ = crossed
    nested = frame.assign(school=frame.p, room="r" + (frame.c.str[1:].astype(int) % 9).astype(str))
    fit = corelet.fit("y ~ x + (1 | school/room)", nested, k=54, draws=200)
    assert {"1|school:room_sigma", "1|school_sigma", "1|school[p0]"} <= set(fit.draws) and fit.n_groups == 54
    assert fit.effects == "(1 | school:room) + (1 | school)"
    known = fit.predict(nested.head(3))
    assert np.isfinite(known.mean).all()
    with pytest.raises(corelet.CoreletError, match="'p0:r99' in 'school:room'"):
        fit.predict(nested.head(1).assign(school="p0", room="r99"))


def test_a_second_mode_of_the_parameters_takes_the_certificate_away():
    """Two lines of slopes 2 and −2 through the same points: with y also −y, so that either has half of the mass."""
    rng = np.random.default_rng(4)
    groups = 60
    customer = np.repeat(np.arange(groups), 8)
    x, noise = np.repeat(rng.normal(size=groups * 4), 2), np.repeat(0.1 * rng.standard_normal(groups * 4), 2)
    frame = pd.DataFrame(dict(y=np.tile([1, -1], groups * 4) * (2 * x + noise), x=x, customer=customer))
    fit = corelet.fit("y ~ x + (1 | customer)", frame, model="student", degrees=1, k=30, draws=300)
    assert fit.verdict.grade == "C" and "second_mode" in fit.verdict.reasons
    assert any("another mode" in note for note in fit.notes)
    plain = corelet.fit("y ~ x + (1 | customer)", frame[frame.y * frame.x > 0], model="student", degrees=1, k=30, draws=300)
    assert plain.verdict.grade == "A" and not any("another mode" in note for note in plain.notes)


def test_too_few_nodes_are_refused(visits):
    with pytest.raises(corelet.CoreletError, match="between 3 and 61"):
        corelet.fit("bought ~ price + (1 | customer)", visits[0], k=20, nodes=1)
