"""What a person who comes from other packages types, and what they see: seeds, names, data frames, reprs."""

import importlib
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import corelet

CHAINS = dict(draws=300, tune=200, chains=2)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=1500), "kind": rng.choice(["u", "v", "w"], 1500)})
    return frame.assign(y=rng.random(1500) < 1 / (1 + np.exp(-frame["a"])))


@pytest.fixture(scope="module")
def fitted(table):
    return corelet.fit(table, target="y", k=60, rest="none", **CHAINS)


def test_a_seed_has_other_names(table):
    asked = dict(target="y", k=30, method="uniform")
    plain = corelet.build(table, seed=5, **asked)
    for other in ({"random_state": 5}, {"random_seed": 5}):
        assert np.array_equal(corelet.build(table, **other, **asked).rows, plain.rows)
    drawn = corelet.build(table, random_state=np.random.default_rng(1), **asked)
    assert np.array_equal(drawn.rows, corelet.build(table, random_state=np.random.default_rng(1), **asked).rows)
    with pytest.raises(corelet.CoreletError, match="seed and random_state are names of the same thing"):
        corelet.build(table, seed=1, random_state=2, **asked)
    assert np.array_equal(corelet.CoresetSelector(k=30, method="uniform", random_state=5).fit(table[["a"]], table["y"]).rows_,
                          corelet.build(table[["a"]], table["y"], k=30, method="uniform", seed=5).rows)


def test_what_is_public_is_listed_and_nothing_else():
    listed = dir(corelet)
    assert {"build", "fit", "check", "pymc", "numpyro", "dask", "spark", "Prediction"} <= set(listed)
    assert not [name for name in listed if name.startswith("_") and name != "__version__"]
    assert {"annotations", "results", "frames", "adapters"}.isdisjoint(listed)
    for adapter, public in (("pymc", {"fit", "certify", "review", "k_fold"}), ("dask", {"build", "check", "update"})):
        listed = dir(importlib.import_module(f"corelet.{adapter}"))
        assert public <= set(listed) and not [name for name in listed if name.startswith("_") or name in ("np", "time", "annotations")]


def test_names_that_are_nearly_right(table):
    counts = table.assign(y=np.arange(len(table)) % 4)
    assert corelet.build(counts, target="y", model="negative_binomial", k=40).summary["model"] == "negative-binomial"
    with pytest.raises(corelet.CoreletError, match=r"model is 'poison' \(did you mean 'poisson'\?\), but it must be one of"):
        corelet.build(counts, target="y", model="poison")
    with pytest.raises(TypeError, match=r"no keyword 'exposre' \(did you mean 'exposure'\?\)"):
        corelet.fit(counts, target="y", exposre="a")
    with pytest.raises(corelet.CoreletError, match=r"no column 'kin' \(did you mean 'kind'\?\)"):
        corelet.build(table, target="y", features=["kin"])
    with pytest.raises(corelet.CoreletError, match="looks like counts .*model=\"poisson\" suits such a target"):
        corelet.build(counts, target="y")
    with pytest.raises(corelet.CoreletError, match="a few whole numbers.*model=\"ordinal\" suits such a target"):
        corelet.build(counts.assign(y=counts["y"] + 1), target="y")
    with pytest.raises(TypeError, match=r"no keyword 'random_sed' \(did you mean 'random_seed'\?\)"):
        corelet.fit(counts, target="y", random_sed=1)
    dated = table.assign(day=pd.date_range("2024-01-01", periods=len(table)))
    with pytest.raises(corelet.CoreletError, match="column 'day' has type datetime64.*turn it into a number, such as days"):
        corelet.build(dated, target="y")
    frames = [dated, pa.Table.from_pandas(dated), {name: dated[name].to_numpy() for name in dated}]
    for frame in frames:
        for keywords in ({"exclude": ["day"]}, {"features": ["a", "kind"]}):
            cs = corelet.build(frame, target="y", k=40, **keywords)
            assert not any("day" in name for name in cs.names)
            assert np.isfinite(cs.predict(frame).mean).all()
            assert cs.columns["day"][0][:10] == str(dated["day"][cs.rows[0]])[:10]


def test_columns_that_are_not_what_they_seem(table):
    text = pa.table({"x": [f"{x:.3f}" for x in table["a"]], "y": table["y"].to_numpy()})
    with pytest.raises(corelet.CoreletError, match="column 'x' is stored as text, but every cell is a number.*categories"):
        corelet.build(text, target="y")
    codes = pa.table({"zip": [f"{i % 30:05}" for i in range(1500)], "y": table["y"].to_numpy()})
    with pytest.warns(UserWarning, match="column 'zip' is text, but every cell is a number: its 30 values are taken as levels"):
        corelet.build(codes, target="y", k=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corelet.build(codes, target="y", k=60, categories=["zip"])
    with pytest.warns(UserWarning, match="column 'id' holds a different whole number in every row"):
        corelet.build(table[["a", "y"]].assign(id=np.arange(1500)), target="y", k=20)


def test_the_default_priors_and_those_of_the_paper(table):
    said = [prior["prior"] for prior in corelet.build(table, target="y", k=30).summary["priors"]]
    assert said[0] == "normal(0, 2.5)" and said[-1].startswith("normal(") and said[-1].endswith(", 2.5)")
    paper = corelet.build(table, target="y", k=30, priors="paper")
    number = corelet.build(table, target="y", k=30, prior_sd=1)
    assert np.array_equal(paper.rows, number.rows) and np.array_equal(paper.weights, number.weights)


def test_unseen_levels(table):
    coreset = corelet.build(table, target="y", k=40)
    base = table["kind"].mode()[0]
    new = pd.DataFrame({"a": [0.5, 0.5], "kind": ["elsewhere", base]})
    with pytest.raises(corelet.CoreletError, match="'elsewhere'.*unseen=\"baseline\""):
        coreset.predict(new)
    with pytest.warns(UserWarning, match=f"column 'kind': 1 row with unseen levels \\('elsewhere'\\) taken as the base level '{base}'"):
        predicted = coreset.predict(new, unseen="baseline", random_state=1)
    assert predicted.mean[0] == predicted.mean[1]
    with pytest.raises(corelet.CoreletError, match="one of error, baseline"):
        coreset.predict(new, unseen="nan")


def test_a_fit_is_a_data_frame_a_picture_and_words(table, fitted):
    summary = fitted.summary()
    assert list(summary.columns) == ["mean", "sd", "q5", "q95", "r_hat", "ess_bulk", "ess_tail"]
    assert summary.index[0] == "(intercept)" and set(summary.index) == set(fitted.coreset.names)
    draws = np.asarray(fitted.draws["original"])
    at = fitted.coreset.names.index("a")
    assert summary.loc["a", "mean"] == pytest.approx(draws[..., at].mean())
    assert summary.loc["a", "q95"] == pytest.approx(np.quantile(draws[..., at], 0.95))
    assert (summary["r_hat"] < 1.05).all() and (summary["ess_bulk"] > 100).all()
    shown = repr(fitted)
    assert "90 % interval" in shown and "(intercept)" in shown and "whether the model suits the data is not judged" in shown
    page = fitted._repr_html_()
    assert ">A<" in page and "90 % interval" in page and page.index(">A<") < page.index("(intercept)")
    axes = fitted.plot(["a", "(intercept)"])
    assert [place.get_title() for place in np.ravel(axes)] == ["a", "(intercept)"]
    with pytest.raises(corelet.CoreletError, match="there is no parameter 'b'"):
        fitted.plot(["b"])


def test_predictions_and_scores_are_data_frames(table, fitted):
    predicted = fitted.predict(table.iloc[:7])
    frame = predicted.to_frame()
    assert list(frame.columns) == ["mean", "sd", "q5", "q50", "q95"] and len(frame) == len(predicted) == 7
    assert np.array_equal(frame["q95"], predicted.quantiles[:, 2])
    assert np.array_equal(predicted.mean, fitted.coreset.predict(table.iloc[:7], idata=fitted.draws).mean)
    shown = repr(predicted)
    assert "7 rows" in shown and "and 2 more" in shown and "q50" in shown and "q50" in predicted._repr_html_()
    score = fitted.coreset.score(table.iloc[:50])
    assert len(score.to_frame()) == 50 and "nats a row" in repr(score) and "±" in repr(score)
    grades = np.array(["low", "mid", "high"])[np.clip(np.round(table["a"] + 1), 0, 2).astype(int)]
    ordinal = corelet.build(table[["a"]], grades, model="ordinal", levels=["low", "mid", "high"], k=60)
    classes = ordinal.predict(table[["a"]].iloc[:2]).to_frame()
    assert list(classes.columns[:2]) == ["low:mean", "low:sd"] and "high:q95" in classes


def test_any_model_has_estimates_too():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 1.0, size=5000)

    def sample(rows, weights, start):
        precision = 1.0 + weights.sum()
        return {"mu": rng.normal(weights @ x[rows] / precision, precision**-0.5, size=(2, 400))}

    def log_likelihood(theta, rows):
        return -0.5 * (x[rows] - theta["mu"][:, None]) ** 2

    fit = corelet.fit_model(sample, log_likelihood, n=len(x), k=10, random_seed=1)
    assert list(fit.summary().index) == ["mu"] and "mu" in repr(fit)


def test_priors_of_mixed_models_follow_the_unit_of_the_target(command, tmp_path):
    rng = np.random.default_rng(5)
    shop, x = rng.integers(0, 40, 1200), rng.normal(size=1200)
    cents = rng.gamma(2.0, np.exp(8.0 + 0.3 * x + rng.normal(0, 0.2, 40)[shop]) / 2)
    centres = []
    for unit in (1.0, 100.0):
        pd.DataFrame({"x": x, "shop": shop, "y": cents / unit}).to_csv(tmp_path / "data.csv", index=False)
        done = command("fit", "data.csv", "--target", "y", "--model", "gamma", "--random", "shop", "-k", "39", cwd=tmp_path)
        assert "coefficients ~ normal(0, 2.5)" in done.stdout, done.stdout + done.stderr
        centres.append(float(re.search(r"\(intercept\) ~ normal\(([^,]+), 2\.5\)", done.stdout).group(1)))
    assert abs(centres[0] - centres[1] - np.log(100)) < 0.02
