"""Mixed models: `corelet.fit(random=…)` and formulas with `(1 | g)`."""

import numpy as np
import pandas as pd
import pytest

import corelet
from corelet.frames.formula import grouping_of, without_random


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
    assert [grouping_of(text) for text in ("g", "g: 1 + x", "1 + x || g", "(1 | my g)")] == ["g", "g", "g", "my g"]


def test_what_cannot_be_is_refused(visits):
    frame, _ = visits
    for formula, why in [
        ("bought ~ price + (1 | customer) + (1 | shop)", "one grouping column"),
        ("bought ~ price + (1 | customer) + (0 + price | customer)", "stand in several terms"),
        ("bought ~ price + 1 | customer", "belongs to no term"),
        ("bought ~ price + (1 | shop/customer)", "nested"),
        ("bought ~ price + (1 | shop)", "'shop' is no column"),
        ("bought ~ price + (1 + size | customer)", "needs a feature of that name"),
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
