"""Rows that arrive, against one fit of all of them; and what review says by a column and of the evidence."""

from __future__ import annotations

import numpy as np
import pytest

import corelet


def rows(n: int, seed: int, slope: float = 0.5):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "kind": rng.choice(["p", "q"], n)})
    eta = 0.2 + slope * frame.a - 0.3 * frame.b + 0.4 * (frame.kind == "q")
    frame["y"] = rng.poisson(np.exp(eta))
    return frame


SETTINGS = dict(draws=600, tune=300, chains=4)


def test_a_fit_takes_rows_block_by_block():
    pandas = pytest.importorskip("pandas")
    blocks = [rows(2000, seed) for seed in range(5)]
    fit = corelet.fit(blocks[0], target="y", model="poisson", k=100, **SETTINGS)
    assert fit.verdict.grade == "A"
    for block in blocks[1:]:
        fit = fit.update(block, **SETTINGS)
        assert fit.verdict.grade == "A", fit.verdict
    assert fit.coreset.summary["n"] == 10_000 and len(fit.coreset) <= 300
    assert any("not available" in line for line in fit.verdict.lines)
    whole = corelet.fit(pandas.concat(blocks, ignore_index=True), target="y", model="poisson", k=100, **SETTINGS)
    one, two = fit.summary(), whole.summary()
    off = (one["mean"] - two["mean"]).abs() / two["sd"]
    assert off.max() < 0.25, off
    # Cells of all blocks, under numbers that go on.
    assert set(fit.coreset.columns) >= {"a", "b", "kind", "y"}
    assert all(len(values) == len(fit.coreset) for values in fit.coreset.columns.values())
    assert len(set(fit.coreset.rows.tolist())) == len(fit.coreset) and fit.coreset.rows.max() < 10_000
    assert len(fit.predict(blocks[0].drop(columns="y")).mean) == 2000


def test_arrays_weights_and_a_file_are_taken(tmp_path):
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(3000, 2)), rng.normal(size=(1000, 2))
    y, z = (rng.random(len(x)) < 1 / (1 + np.exp(-x[:, 0])) for x in (X, more))
    w, v = rng.uniform(0.5, 2, 3000), rng.uniform(0.5, 2, 1000)
    coreset = corelet.build(X, y, weights=w, k=60)
    with pytest.raises(corelet.CoreletError, match="weights"):
        coreset.update(more, z)
    corelet.check(coreset, X, y, weights=w, chains=2)
    new = coreset.update(more, z, weights=v, **SETTINGS)
    assert new.quality.verdict.grade == "A" and new.quality.verdict.certified
    both = corelet.fit(
        np.concatenate([X, more]), np.concatenate([y, z]), weights=np.concatenate([w, v]), k=80, standardise="scale", **SETTINGS
    )
    mine, theirs = new.quality.verdict.draws["posterior"]["original"], both.draws["original"]
    off = np.abs(mine.mean((0, 1)) - theirs.mean((0, 1))) / theirs.std((0, 1))
    assert off.max() < 0.3, off
    path = tmp_path / "core.parquet"
    new.to_parquet(path)
    assert path.exists()


def test_the_earlier_rows_make_it_a_verdict_on_all():
    old, new = rows(2000, 1), rows(3000, 2, slope=-1.2)
    fit = corelet.fit(old, target="y", model="poisson", k=80, **SETTINGS)
    moved = fit.coreset.update(new, **SETTINGS)
    assert moved.quality.verdict.grade == "C" and "drifted" in moved.quality.verdict.reasons
    seen = fit.coreset.update(new, earlier=old, **SETTINGS)
    assert not {"drifted", "uncertified"} & set(seen.quality.verdict.reasons)
    assert any("available: the verdict covers all rows" in line for line in seen.quality.verdict.lines)
    with pytest.raises(corelet.CoreletError, match="2000"):
        fit.coreset.update(new, earlier=old.iloc[:100], **SETTINGS)


def test_rows_that_cannot_be_added_are_refused():
    old = rows(1000, 1)
    coreset = corelet.fit(old, target="y", model="poisson", k=60, **SETTINGS).coreset
    for frame, wanted in [
        (old, "already"),
        (rows(100, 2).drop(columns="b"), "'b'"),
        (rows(100, 2).assign(kind="z"), "'z'"),
        (rows(100, 2).iloc[:0], "no new row|empty|no row"),
    ]:
        with pytest.raises(corelet.CoreletError, match=wanted):
            coreset.update(frame)
    pandas = pytest.importorskip("pandas")
    grown = pandas.concat([old, rows(300, 8)], ignore_index=True)
    for frame, wanted in [(grown, "the first 1 000 of 1 300"), (grown.iloc[::-1], "about 1 000 of 1 300"), (old[::2], "of 500")]:
        with pytest.raises(corelet.CoreletError, match=f"{wanted} rows are in the coreset already.*allow_repeats=True"):
            coreset.update(frame)
    assert coreset.update(old[::2], allow_repeats=True, **SETTINGS).summary["n"] == 1500
    with pytest.raises(corelet.CoreletError, match="drop_missing=True"):
        coreset.update(rows(100, 2).assign(a=np.nan))
    with pytest.raises(corelet.CoreletError, match="'z'") as refused:
        coreset.update(rows(100, 2).assign(kind="z"))
    assert "unseen=" not in str(refused.value)
    built = corelet.build_from_loglik(np.random.default_rng(0).normal(size=(200, 500)), k=20)
    with pytest.raises(corelet.CoreletError, match="log-likelihoods"):
        built.update(rows(100, 2))


def test_a_check_after_an_update_is_on_the_scale_of_the_first_rows():
    pandas = pytest.importorskip("pandas")
    old, new = rows(6000, 1), rows(2000, 2)
    # Another mean, another spread, and another level that has most rows.
    new["a"] = 0.3 + 1.2 * new["a"]
    new["kind"] = np.where(np.arange(2000) % 8 == 0, old.kind.mode()[0], old.kind.value_counts().index[1])
    eta = 0.2 + 0.5 * new.a - 0.3 * new.b + 0.4 * (new.kind == "q")
    new["y"] = np.random.default_rng(3).poisson(np.exp(eta))
    fit = corelet.fit(old, target="y", model="poisson", k=100, **SETTINGS)
    updated = fit.update(new, **SETTINGS)
    coreset, both = updated.coreset, pandas.concat([old, new], ignore_index=True)
    assert updated.verdict.grade == "A" and coreset.rest is not None
    chains = dict(draws=600, warmup=300)
    verdict = corelet.check(coreset, both, **chains)
    assert verdict.grade == "A", verdict
    checked, theirs = verdict.draws["posterior"]["original"], updated.draws["original"]
    off = np.abs(checked.mean((0, 1)) - theirs.mean((0, 1))) / theirs.std((0, 1))
    assert off.max() < 0.25, off
    assert corelet.certify(updated, both, target="y").grade == "A"
    # The columns may stand in another order; the rows may not, be they chosen or not.
    assert corelet.check(coreset, both[["y", "kind", "b", "a"]], **chains).grade == "A"
    others = np.setdiff1d(np.arange(len(both)), coreset.rows)
    order = np.arange(len(both))
    order[others] = others[::-1]
    turned = corelet.check(coreset, both.iloc[order].reset_index(drop=True), **chains)
    assert turned.grade != "A" and "other_data" in turned.reasons
    with pytest.raises(corelet.CoreletError, match="'r' is an unseen level"):
        corelet.check(coreset, both.assign(kind=np.where(order == others[0], "r", both.kind)), **chains)
    with pytest.raises(corelet.CoreletError, match="column 'b', a feature of the coreset's data, is not a feature here"):
        corelet.check(coreset, both.drop(columns="b"), **chains)


def test_a_gaussian_part_of_other_parameters_or_on_another_scale_gets_no_a():
    import json

    frame = rows(3000, 1)
    fit = corelet.fit(frame, target="y", model="poisson", k=60, rest="gaussian", **SETTINGS)
    kept = dict(fit.coreset.metadata)
    chains = dict(draws=600, warmup=300)
    names = json.loads(kept["corelet.rest"])["names"]
    said = json.dumps({**json.loads(kept["corelet.rest"]), "names": [names[1], names[0], *names[2:]]})
    fit.coreset.metadata["corelet.rest"] = said
    with pytest.raises(corelet.CoreletError, match="Gaussian part is of the parameters b, a"):
        corelet.check(fit.coreset, frame, **chains)
    # A coreset that says another scale than that of its Gaussian.
    scale = json.loads(kept["corelet.standardisation"])
    for off in (1.02, 1.5):
        told = {**scale, "scale": [off * sd for sd in scale["scale"]]}
        fit.coreset.metadata.update(kept, **{"corelet.standardisation": json.dumps(told)})
        verdict = corelet.check(fit.coreset, frame, **chains)
        assert verdict.grade != "A" and "other_data" in verdict.reasons
    fit.coreset.metadata.update(kept)
    assert corelet.check(fit.coreset, frame, **chains).grade == "A"


def test_evidence_of_two_linear_models_has_its_closed_form():
    rng = np.random.default_rng(3)
    n, sigma = 400, 0.7
    X = rng.normal(size=(n, 2))
    y = 0.5 * X[:, 0] + sigma * rng.normal(size=n)
    reviews, truths = {}, []
    for name, columns in (("one", [0]), ("two", [0, 1])):
        Z = np.ascontiguousarray(X[:, columns])
        asked = dict(model="linear", sigma=sigma, prior_sd=1.0, intercept=False, standardise="none")
        fit = corelet.fit(Z, y, k=40, **asked, **SETTINGS)
        reviews[name] = corelet.review(fit, Z, y, evidence=True, **asked)
        covariance = sigma**2 * np.eye(n) + Z @ Z.T
        truths.append(-0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1]))
        found = reviews[name].evidence
        assert abs(found.log - truths[-1]) < 4 * found.se and found.se < 0.1
    compared = corelet.compare(reviews)
    (_, (less, se)), order = compared.log_evidence, compared.names
    truth = truths[1] - truths[0] if order == ["one", "two"] else truths[0] - truths[1]
    assert abs(less - truth) < 4 * se and "log evidence" in repr(compared)


def test_outcomes_by_a_column():
    frame = rows(4000, 5)
    frame.loc[frame.kind == "q", "y"] += 2
    fit = corelet.fit(frame, target="y", features=["a", "b"], model="poisson", k=60, **SETTINGS)
    found = corelet.review(fit, frame, target="y", features=["a", "b"], by="kind")
    assert list(found.by) == ["p", "q"]
    for level, fits in found.by.items():
        own = frame.y[frame.kind == level]
        assert fits.n == len(own) and fits.mean[0] == pytest.approx(own.mean())
        assert fits.zeros[0] == (own == 0).sum()
    assert any("on average" in line for line in found.by["q"].misfits)
    with pytest.raises(corelet.CoreletError, match="nowhere"):
        corelet.review(fit, frame, target="y", features=["a", "b"], by="nowhere")

