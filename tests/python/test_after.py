"""`corelet.certify` and `corelet.review`, against closed forms, refits and ArviZ."""

import arviz as az
import numpy as np
import pytest

import corelet
from either import TREES, from_groups

rng = np.random.default_rng(5)
N = 1500
X = rng.normal(size=(N, 2)) * [1.0, 4.0] + [0.0, 10.0]
Y = rng.poisson(np.exp(0.4 * X[:, 0] - 0.05 * X[:, 1]))
NAMES = ["x1", "x2", "(intercept)"]


@pytest.fixture(scope="module")
def fit():
    return corelet.fit(X, Y, model="poisson", k=100)


def loglik(theta):
    eta = theta[:, :2] @ X.T + theta[:, 2:]
    from math import lgamma

    return Y * eta - np.exp(eta) - np.array([lgamma(y + 1.0) for y in Y])


def certify(draws, **keywords):
    return corelet.certify(draws, X, Y, model="poisson", **keywords)


def test_the_same_draws_in_any_form_have_the_same_certificate(fit):
    original = fit.draws["original"]
    by_name = {name: original[:, :, at] for at, name in enumerate(NAMES)}
    found = [certify(fit), certify(fit.idata), certify(original), certify(by_name), certify(dict(reversed(by_name.items())))]
    found.append(certify(fit.draws["standardised"], scale="standardised"))
    assert {certificate.grade for certificate in found} == {"A"}
    for certificate in found:
        np.testing.assert_allclose(certificate.shift, found[0].shift, atol=1e-6)
        assert certificate.names == NAMES and certificate.looked_at is not None
    with_intercept = {**by_name, "Intercept": by_name["(intercept)"]}
    del with_intercept["(intercept)"]
    assert certify(with_intercept).grade == "A"


@pytest.mark.parametrize("off, reason", [("shifted", "shifted"), ("narrow", "misscaled"), ("stuck", "not_mixed"), ("other", "shifted")])
def test_draws_that_are_off_are_not_certified(fit, off, reason):
    draws = fit.draws["original"].copy()
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    if off == "shifted":  # A Laplace fit of which one mean is off.
        draws[:, :, 1] += 0.7 * sd[1]
    elif off == "narrow":  # ADVI without correlations.
        draws = mean + 0.5 * (draws - mean)
    elif off == "stuck":
        draws[0] = draws[0, 0]
    if off == "other":
        certificate = corelet.certify(draws, X, rng.permutation(Y), model="poisson")
    else:
        certificate = certify(draws)
    assert certificate.grade == "C" and reason in certificate.verdict.reasons, certificate
    if off == "shifted":
        assert abs(certificate.shift[1] - 0.7) < 4 * certificate.shift_error[1]
    if off == "narrow":
        assert (abs(certificate.scale - 0.5) < 0.1).all()


def test_a_density_mends_draws_that_are_nearly_right(fit):
    # Of a Gaussian with the moments of the posterior, a little wider.
    flat = fit.draws["original"].reshape(-1, 3)
    mean, covariance = flat.mean(axis=0), 1.3 * np.cov(flat.T)
    draws = rng.multivariate_normal(mean, covariance, size=4000)
    off = draws - mean
    density = -0.5 * np.einsum("si,ij,sj->s", off, np.linalg.inv(covariance), off)
    assert certify(draws).grade == "C"
    certificate = certify(draws, log_density=density)
    assert certificate.grade == "B" and certificate.verdict.pareto_k < 0.5, certificate
    mended = certificate.reweighted().reshape(-1, 3)
    assert (abs(mended.std(axis=0) / flat.std(axis=0) - 1) < 0.12).all()
    good = rng.multivariate_normal(mean, covariance / 1.3, size=4000)
    off = good - mean
    density = -0.5 * np.einsum("si,ij,sj->s", off, np.linalg.inv(covariance / 1.3), off)
    assert certify(good, log_density=density).grade == "A"
    # Without their density such draws do not prove themselves.
    assert certify(good).verdict.reasons == ["no_density"]


def test_any_model_by_its_gradient():
    draws = rng.normal(size=(4, 1000, 2)) * [1.0, 3.0]
    assert corelet.certify(draws, gradient=lambda theta: -theta / [1.0, 9.0]).grade == "A"
    wide = corelet.certify({"a": draws[..., 0], "b": draws[..., 1]}, gradient=lambda t: {"a": -t["a"], "b": -t["b"] / 4.0})
    assert wide.grade == "C" and wide.names == ["a", "b"] and abs(wide.scale[1] - 1.5) < 0.1
    flat = draws.reshape(-1, 2)[:3000]
    density = -0.5 * (flat**2 / [1.0, 9.0]).sum(axis=1) - np.log(2 * np.pi * 3)
    # The evidence is e², since the log posterior is 2 above a density.
    weighted = corelet.certify(
        flat, gradient=lambda t: -t / [1.0, 9.0], log_posterior=lambda t: 2 - 0.5 * (t**2 / [1.0, 9.0]).sum(axis=1) - np.log(2 * np.pi * 3),
        log_density=density,
    )
    assert weighted.grade == "A" and abs(weighted.log_evidence - 2) < 1e-9


@pytest.mark.parametrize(
    "draws, keywords, text",
    [
        (np.zeros((4, 200, 2)), {}, "the draws have 2 parameters, the model 3: x1, x2, (intercept)"),
        ({"x1": np.zeros((4, 200)), "b": np.zeros((4, 200))}, {}, "nothing is called 'x2', '(intercept)'; the model has"),
        ({name: np.zeros((4, 200)) for name in (*NAMES, "z")}, {}, "column 'z' is no parameter of the model"),
        (rng.normal(size=(2, 20, 3)), {}, "40 draws are too few"),
        (np.full((4, 200, 3), np.nan), {}, "not finite"),
        (rng.normal(size=(4, 200, 3)), {"scale": "raw"}, "scale is 'raw'"),
        (rng.normal(size=(4, 200, 3)), {"log_density": np.zeros(7)}, "log_density has shape (7,)"),
    ],
)
def test_draws_that_are_not_the_models_are_refused(draws, keywords, text):
    with pytest.raises(corelet.CoreletError) as refused:
        certify(draws, **keywords)
    assert text in str(refused.value) and "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def reviewed(fit):
    return corelet.review(fit, X, Y, model="poisson", most=4000)


def test_leave_one_out_is_that_of_arviz(fit, reviewed):
    draws = fit.draws["original"]
    values = loglik(draws.reshape(-1, 3)).reshape(*draws.shape[:2], N)
    idata = from_groups(posterior={"theta": draws}, log_likelihood={"y": values})
    full = az.loo(idata, pointwise=True)
    elpd_i = np.asarray(full.elpd_i if TREES else full.loo_i)
    assert abs(reviewed.loo.elpd - float(full.elpd if TREES else full.elpd_loo)) < 0.05
    assert abs(reviewed.loo.se / float(full.se) - 1) < 1e-3 and abs(reviewed.loo.p - float(full.p if TREES else full.p_loo)) < 0.05
    np.testing.assert_allclose(reviewed.loo.elpd_i, elpd_i, atol=2e-3)
    # k̂ depends on how many draws are taken for effective, and so on how long its tail is: by less than its own error, 0.07 at best.
    khat, known = reviewed.loo.pareto_k, np.asarray(full.pareto_k)
    off = np.abs(khat - known)[khat != 0]
    assert off.mean() < 0.05 and off.max() < 0.3
    if not TREES:
        waic = az.waic(idata)
        assert abs(reviewed.waic.elpd - waic.elpd_waic) < 0.05 and abs(reviewed.waic.p - waic.p_waic) < 0.05


def test_arviz_takes_its_own_objects(fit, reviewed):
    own = reviewed.loo.to_arviz()
    assert "elpd" in repr(own)
    less = corelet.review(corelet.fit(X[:, 1:], Y, model="poisson", k=80), X[:, 1:], Y, model="poisson")
    ours = corelet.compare({"both": reviewed, "one": less})
    theirs = az.compare({"both": own, "one": less.loo.to_arviz()})
    assert ours.names == list(theirs.index) == ["both", "one"]
    # The sign of the difference changed, and ArviZ 1 shows no more digits than the standard error has.
    assert abs(abs(ours.difference[1]) - abs(float(theirs["elpd_diff"].iloc[1]))) < 0.6 * max(1.0, ours.se[1])
    assert abs(ours.se[1] - float(theirs["dse"].iloc[1])) < 0.6
    with pytest.raises(corelet.CoreletError, match="not of the same rows"):
        corelet.compare({"both": reviewed, "half": corelet.review(fit, X[: N // 2], Y[: N // 2], model="poisson")})
    # As many rows in another order, or another outcome, are not the same.
    for Z, y in ((X[::-1], Y[::-1]), (X, Y + 1)):
        with pytest.raises(corelet.CoreletError, match="the outcomes of b are not those of a"):
            corelet.compare({"a": reviewed, "b": corelet.review(fit, Z, y, model="poisson", most=100, outcomes=0)})
    with pytest.raises(corelet.CoreletError, match="pointwise=True"):
        corelet.review(fit, X, Y, model="poisson", pointwise=False).loo.to_arviz()


def test_any_model_is_reviewed_as_a_known_one(fit, reviewed):
    original = fit.draws["original"]

    def log_likelihood(theta, rows):
        return loglik(np.column_stack([theta["slopes"], theta["middle"]]))[:, rows]

    draws = {"slopes": original[:, :, :2], "middle": original[:, :, 2]}
    any_model = corelet.review_model(draws, log_likelihood, n=N, most=4000)
    assert abs(any_model.loo.elpd - reviewed.loo.elpd) < 0.02 and any_model.fits is None
    for name, known in zip(("slopes[0]", "slopes[1]", "middle"), NAMES):
        ours, theirs = any_model.influence[name], reviewed.influence[known]
        assert abs(ours.jackknife_se / theirs.jackknife_se - 1) < 1e-3
        np.testing.assert_array_equal(ours.rows[:5], theirs.rows[:5])
    groups = np.arange(N) // 3
    grouped = corelet.review_model(draws, log_likelihood, n=N, groups=groups)
    assert grouped.clusters == N // 3
    # Rows in groups of three that have nothing to do with each other are as good as rows.
    assert abs(grouped.influence["middle"].jackknife_se / any_model.influence["middle"].jackknife_se - 1) < 0.15


def test_influence_is_that_of_refits(reviewed):
    everything = corelet.fit(X, Y, model="poisson", full=True, draws=4000, seed=1).draws["original"].reshape(-1, 3)
    for at, name in enumerate(NAMES):
        found = reviewed.influence[name]
        gone = found.rows[:40]
        kept = np.setdiff1d(np.arange(N), gone)
        left = corelet.fit(X[kept], Y[kept], model="poisson", full=True, draws=4000, seed=1).draws["original"].reshape(-1, 3)
        change = left[:, at].mean() - everything[:, at].mean()
        assert abs(found.changes[:40].sum() / change - 1) < 0.35, (name, change)
        assert np.sign(change) == -np.sign(found.mean)


def test_the_jackknife_of_groups_is_the_sandwich_of_groups():
    """Of a linear model with flat priors: (XᵀX)⁻¹ Σ (X_gᵀe_g)(X_gᵀe_g)ᵀ (XᵀX)⁻¹ by hand, row by row and group by group."""
    Z = np.column_stack([X[:, 0], np.ones(N)])
    group = np.arange(N) % 50
    y = Z @ [1.0, -0.5] + rng.normal(size=50)[group] + rng.normal(size=N)
    asked = dict(model="linear", sigma=1.0, prior_sd=1000.0)
    fit = corelet.fit(X[:, :1], y, full=True, draws=4000, **asked)
    bread = np.linalg.inv(Z.T @ Z)
    scores = Z * (y - Z @ (bread @ Z.T @ y))[:, None]
    for groups, meat in ((None, scores.T @ scores), (group, sum(np.outer(s, s) for s in (scores[group == g].sum(0) for g in range(50))))):
        expected = np.sqrt(np.diag(bread @ meat @ bread))
        found = corelet.review(fit, X[:, :1], y, groups=groups, most=4000, **asked)
        ours = [found.influence[name].jackknife_se for name in ("x1", "(intercept)")]
        np.testing.assert_allclose(ours, expected, rtol=0.08)


def test_draws_on_another_scale_are_told_which():
    counts = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(0.4 * X[:, 0] + 0.1 * X[:, 1])))
    fit = corelet.fit(X, counts, model="negative-binomial", k=100)
    names = fit.coreset.names
    assert names[-1] == "log_size"
    original, standardised = fit.draws["original"], fit.draws["standardised"]

    def said(draws, **keywords):
        certificate = corelet.certify(draws, X, counts, model="negative-binomial", **keywords)
        assert certificate.grade == "C"
        return repr(certificate)

    assert "taken as draws of the standardised features" in said(standardised)
    assert "taken as draws of the features of the data" in said(original, scale="standardised")
    by = {name: original[:, :, at] for at, name in enumerate(names)}
    assert "taken as draws of what logarithms were taken of" in said({**by, "log_size": np.exp(by["log_size"])})
    del by["log_size"]
    assert "taken as draws of logarithms" in said({**by, "size": original[:, :, -1]})
    other = original.copy()
    other[:, :, 0] += 30 * other[:, :, 0].std()
    assert "taken as draws" not in said(other)
    with pytest.raises(corelet.CoreletError, match="1000 chains of 4 draws.*have the two been exchanged"):
        corelet.certify(np.swapaxes(original, 0, 1), X, counts, model="negative-binomial")


def test_columns_in_another_order_are_found_by_name(fit):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    named = corelet.fit(frame, target="y", model="poisson", k=100)
    turned = frame[["y", "b", "a"]]
    assert corelet.certify(named, turned, target="y").grade == "A"
    assert corelet.certify(named.idata, turned, target="y", model="poisson").grade == "A"
    review = corelet.review(named, turned, target="y")
    assert review.loo.elpd == pytest.approx(corelet.review(named, frame, target="y").loo.elpd, abs=1e-6)
    with pytest.raises(corelet.CoreletError, match="column 'b', a feature of the coreset's data, is not a feature here"):
        corelet.review(named, frame.rename(columns={"b": "c"}), target="y")


def test_weights_are_taken_from_a_verdict_or_given(fit, reviewed):
    flat = np.zeros(fit.draws["original"].shape[:2])
    even = corelet.review(fit, X, Y, model="poisson", most=4000, log_weights=flat)
    assert abs(even.loo.elpd - reviewed.loo.elpd) < 0.1
    with pytest.raises(corelet.CoreletError, match="there are 7 log weights for 4000 draws"):
        corelet.review(fit, X, Y, model="poisson", log_weights=np.zeros(7))


def test_a_model_that_does_not_fit_is_told_beside_the_verdict():
    amounts = np.exp(0.3 * X[:, 0] + 3.0 * rng.normal(size=N))
    with pytest.warns(UserWarning, match="the model does not fit: outcomes"):
        corelet.fit(X, amounts, model="gamma", k=100)


def test_the_command_says_the_same(fit, reviewed, command, tmp_path):
    np.savez(tmp_path / "data.npz", X=X, y=Y)
    draws = fit.draws["original"]
    chain = np.repeat(np.arange(4), draws.shape[1])
    header = ",".join(["chain", *NAMES])
    np.savetxt(tmp_path / "draws.csv", np.column_stack([chain, draws.reshape(-1, 3)]), delimiter=",", header=header, comments="", fmt="%.17g")
    done = command("certify", "draws.csv", "data.npz", "--model", "poisson", "--json", "c.json", "-o", "w.csv", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("A - trusted: these 4"), done.stderr
    review = ("review", "draws.csv", "data.npz", "--model", "poisson", "--most", 4000, "-o", "rows.csv", "--json", "r.json")
    done = command(*review, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    import json

    summary = json.loads((tmp_path / "r.json").read_text())
    assert abs(summary["elpd_loo"] - reviewed.loo.elpd) < 0.05 and summary["misfits"] == []
    assert command(*review[:-4], "--report", "r.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert all(part in page for part in ("Does the model fit?", "Which rows drive it?", "<svg", "Nothing is far off.")) and "NaN" not in page
    done = command(*review[:-4], "--against", "rows.csv", "-o", "again.csv", cwd=tmp_path)
    assert "difference     elpd 0.0 ± 0.0" in done.stdout, done.stdout + done.stderr
    np.savez(tmp_path / "backwards.npz", X=X[::-1], y=Y[::-1])
    done = command("review", "draws.csv", "backwards.npz", *review[3:5], "--against", "rows.csv", "-o", "never.csv", cwd=tmp_path)
    assert done.returncode == 1 and "not of the same rows" in done.stderr and not (tmp_path / "never.csv").exists()
    for weight, said in ((-1, "the weight of draw 0 is -1"), (0, "no draw has a weight above 0")):
        rows = np.column_stack([np.full(len(chain), weight), draws.reshape(-1, 3)])
        np.savetxt(tmp_path / "weighted.csv", rows, delimiter=",", header=",".join(["weight", *NAMES]), comments="")
        done = command("certify", "weighted.csv", "data.npz", "--model", "poisson", cwd=tmp_path)
        assert done.returncode == 1 and said in done.stderr, done.stderr
    done = command("review", "draws.csv", "data.npz", "--model", "linear", cwd=tmp_path)
    assert done.returncode == 1 and "nothing is called 'log_sigma'" in done.stderr
    (tmp_path / "other.csv").write_text("chain,x1\n0,1\n1,2\n1,3\n")
    done = command("certify", "other.csv", "data.npz", "--model", "poisson", "-o", "never.csv", cwd=tmp_path)
    assert done.returncode == 1 and "'x2', '(intercept)'" in done.stderr and not (tmp_path / "never.csv").exists()


def test_a_fit_knows_its_model_and_priors():
    fit = corelet.fit(X, Y, model="poisson", prior_sd=0.05, k=100)
    assert corelet.certify(fit, X, Y).grade == "A"
    assert corelet.certify(fit, X, Y, prior_sd=1.0).grade == "C"
    assert corelet.review(fit, X, Y).fits.zeros is not None
    full = corelet.fit(X, Y, model="poisson", full=True)
    assert corelet.certify(full, X, Y).grade == "A"
