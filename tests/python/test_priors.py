"""`priors=`: the bits of the command, the posterior of scipy, and what is refused."""

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from scipy import optimize, stats

import corelet

FILE = """
default = "normal(0, 1.5)"
scale = "original"
intercept = "student_t(4, 0, 10)"
log_sigma = "normal(1, 2)"

[coefficients]
"x*" = "laplace(0, 0.5)"
x2 = { student_t = [3, 0, 0.5], scale = "standardised" }
"""

DICT = {
    "default": "normal(0, 1.5)",
    "scale": "original",
    "intercept": "student_t(4, 0, 10)",
    "log_sigma": "normal(1, 2)",
    "coefficients": {"x*": "laplace(0, 0.5)", "x2": {"student_t": [3, 0, 0.5], "scale": "standardised"}},
}


def test_a_mapping_is_the_file_of_the_command_to_the_bit(logistic, command, tmp_path):
    X, _ = logistic
    frame = pd.DataFrame({f"x{j + 1}": X[:, j] for j in range(4)} | {"y": X[:, 0] + np.sin(9 * X[:, 1])})
    frame.to_parquet(tmp_path / "data.parquet")
    (tmp_path / "priors.toml").write_text(FILE)
    cs = corelet.build(frame, target="y", model="linear", k=40, priors=DICT)
    arguments = ["--model", "linear", "--target", "y", "--priors", "priors.toml"]
    done = command("build", "data.parquet", *arguments, "-k", 40, "-o", "core.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = pyarrow.parquet.read_table(tmp_path / "core.parquet")
    assert np.array_equal(cs.rows, written["row"].to_numpy())
    assert np.array_equal(cs.weights, written["weight"].to_numpy())

    # The draws too: those of the object, which was built, and those of the command, which read a file.
    own = cs.sample(draws=100, warmup=100, chains=2)
    flags = ["--warmup", 100, "--draws", 100, "--chains", 2]
    done = command("sample", "data.parquet", *arguments, "--coreset", "core.parquet", *flags, "-o", "draws.csv", cwd=tmp_path)
    assert done.returncode in (0, 3), done.stderr
    draws = pd.read_csv(tmp_path / "draws.csv")
    x1 = np.asarray(own.posterior["original"].sel(parameter="x1")).ravel()
    assert np.allclose(draws["x1"], x1, rtol=1e-12)


def standardised(X):
    return np.column_stack([(X - X.mean(0)) / X.std(0, ddof=1), np.ones(len(X))])


@pytest.mark.parametrize(
    ("prior", "log_density"),
    [
        ("normal(0.3, 0.2)", lambda t: stats.norm.logpdf(t, 0.3, 0.2)),
        ("student_t(3, 0, 0.1)", lambda t: stats.t.logpdf(t, 3, 0, 0.1)),
        ("student_t(30, 0.5, 0.4)", lambda t: stats.t.logpdf(t, 30, 0.5, 0.4)),
    ],
)
@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_the_mode_is_that_of_scipy(model, prior, log_density, logistic):
    X, y = logistic
    Z = standardised(X)
    if model == "linear":
        y = X[:, 0] + np.sin(9 * X[:, 1])
    sigma = 0.7

    def negative(theta):
        eta = Z @ theta
        fit = -np.logaddexp(0, -(2 * y - 1) * eta).sum() if model == "logistic" else stats.norm.logpdf(y, eta, sigma).sum()
        return -(fit + log_density(theta[:-1]).sum() + stats.norm.logpdf(theta[-1], 1, 2))

    best = optimize.minimize(negative, np.zeros(5), method="BFGS", options={"gtol": 1e-4}).x
    keywords = {"sigma": sigma} if model == "linear" else {}
    fit = corelet.fit(
        X, y, model=model, full=True, k=20, draws=2000, chains=4, priors={"default": prior, "intercept": "normal(1, 2)"}, **keywords
    )
    # The mean of the draws is near the mode, by a share of the standard deviation that 2000 rows leave.
    draws = fit.draws["standardised"].reshape(-1, 5)
    assert np.abs((draws.mean(0) - best) / draws.std(0)).max() < 0.15


def test_a_kink_is_drawn_as_it_is(logistic):
    """A strong Laplace prior against a grid: one feature, no intercept."""
    X, y = logistic
    x = X[:200, 0]
    y = y[:200]
    fit = corelet.fit(
        x[:, None], y, full=True, k=10, draws=4000, chains=4, intercept=False, standardise="none", priors={"default": "laplace(0, 0.05)"}
    )
    grid = np.linspace(-1, 3, 20001)
    log = -np.logaddexp(0, -np.outer(grid, (2 * y - 1) * x)).sum(1) + stats.laplace.logpdf(grid, 0, 0.05)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    draws = fit.draws["original"].ravel()
    assert abs(draws.mean() - mean) < 0.06 * sd
    assert abs(draws.std() / sd - 1) < 0.06


def test_a_coreset_keeps_its_priors(logistic):
    X, y = logistic
    cs = corelet.build(X, y, k=60, priors={"default": "laplace(0, 0.3)", "coefficients": {"x2": "student_t(4, 0, 1)"}})
    said = {group["parameters"]: group["prior"] for group in cs.summary["priors"]}
    intercept = said.pop("(intercept)")
    assert said == {"other coefficients": "laplace(0, 0.3)", "x2": "student_t(4, 0, 1)"}
    assert intercept.startswith("normal(") and intercept.endswith(", 2.5)")
    assert "x2 ~ student_t(4, 0, 1) on the standardised scale" in repr(cs)
    verdict = corelet.check(cs, X, y)
    assert verdict.grade == "A"
    weak = corelet.build(X, y, k=60, priors="auto")
    assert weak.summary["priors"][0]["prior"] == "normal(0, 2.5)"
    assert np.array_equal(weak.rows, corelet.build(X, y, k=60).rows)


@pytest.mark.parametrize(
    ("priors", "text"),
    [
        ("weak", "priors is 'weak': it must be priors by name, or one of the words auto and paper"),
        ({"default": "normal(0)"}, r"'normal\(0\)' is no prior: it must be normal\(mean, sd\)"),
        ({"default": {"normal": [0, -1]}}, "its scale is -1"),
        ({"coefficients": {"x9": "normal(0, 1)"}}, "'x9', which is no coefficient"),
        ({"coefficients": {"z*": "normal(0, 1)"}}, r"no coefficient matches 'z\*' of the priors; there are 'x1', 'x2'"),
        ({"log_sigma": "normal(0, 1)"}, "'log_sigma', which is no parameter beside the coefficients"),
        ({"scale": "log"}, "unknown variant `log`"),
    ],
)
def test_bad_priors_are_refused_in_one_line(priors, text, logistic):
    with pytest.raises(corelet.CoreletError, match=text) as caught:
        corelet.build(*logistic, k=20, priors=priors)
    assert "\n" not in str(caught.value)
    with pytest.raises(corelet.CoreletError, match="priors and prior_sd do not go together"):
        corelet.build(*logistic, k=20, priors="auto", prior_sd=2.0)
    with pytest.raises(corelet.CoreletError, match="must all be normal for the method sparse-vi"):
        corelet.build(*logistic, k=20, priors={"default": "laplace(0, 1)"}, method="sparse-vi")
