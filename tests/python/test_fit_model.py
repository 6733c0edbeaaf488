"""`corelet.fit_model`: from a pilot to a verdict, with a sampler that draws the weighted posterior exactly."""

import numpy as np
import pytest

import corelet


class Regression:
    """A linear regression with unknown noise: its weighted posterior is normal-inverse-gamma, and is drawn exactly."""

    def __init__(self, n=20_000, seed=0, dim=4, chains=2, draws=500, heavy=False):
        rng = np.random.default_rng(seed)
        self.X = np.column_stack([np.ones(n), rng.normal(size=(n, dim - 1))])
        noise = rng.standard_t(3, size=n) if heavy else rng.normal(size=n)
        self.y = self.X @ np.linspace(-1, 2, dim) + 0.7 * noise
        self.n, self.dim, self.chains, self.draws = n, dim, chains, draws
        self.rng = np.random.default_rng(seed + 1)
        self.calls = []

    def posterior(self, rows, weights):
        """Mean, precision, shape and scale, under β | σ² ~ N(0, σ²·100 I), σ² ~ IG(1, 1)."""
        X, y = self.X[rows], self.y[rows]
        precision = (X.T * weights) @ X + 0.01 * np.eye(self.dim)
        mean = np.linalg.solve(precision, X.T @ (weights * y))
        rest = weights @ (y - X @ mean) ** 2 + 0.01 * mean @ mean
        return mean, precision, 1 + 0.5 * weights.sum(), 1 + 0.5 * rest

    def sample(self, rows, weights, start):
        self.calls.append((rows, weights, start))
        mean, precision, shape, scale = self.posterior(rows, weights)
        size = (self.chains, self.draws)
        variance = scale / self.rng.gamma(shape, size=size)
        normal = self.rng.normal(size=(*size, self.dim)) @ np.linalg.inv(np.linalg.cholesky(precision))
        return {"beta": mean + normal * np.sqrt(variance)[..., None], "log_sd": 0.5 * np.log(variance)}

    def log_likelihood(self, theta, rows):
        assert theta["beta"].ndim == 2
        error = self.y[rows] - theta["beta"] @ self.X[rows].T
        log_sd = theta["log_sd"][:, None]
        return -0.5 * error**2 * np.exp(-2 * log_sd) - log_sd

    def fit(self, **keywords):
        return corelet.fit_model(self.sample, self.log_likelihood, **{"n": self.n, "k": 60, **keywords})

    def shift(self, fit):
        """Of the means of β from their exact values, in posterior sd, and the ratio of sds."""
        mean, precision, shape, scale = self.posterior(np.arange(self.n), np.ones(self.n))
        sd = np.sqrt(np.diag(np.linalg.inv(precision)) * scale / (shape - 1))
        draws = np.asarray(fit.draws["beta"]).reshape(-1, self.dim)
        return np.abs((draws.mean(axis=0) - mean) / sd).max(), draws.std(axis=0) / sd


def test_from_a_pilot_to_an_a():
    model = Regression()
    fit = model.fit()
    assert fit.verdict.grade == "A", fit
    shift, ratio = model.shift(fit)
    assert shift < 0.2 and 0.85 < ratio.min() and ratio.max() < 1.15
    assert len(fit.coreset) <= 60 and fit.coreset.quality.verdict is fit.verdict
    rows, weights, start = model.calls[0]
    assert len(rows) == 1000 and (weights == 1).all() and start is None
    assert model.calls[1][2]["beta"].shape == (1000, 4)
    assert fit.rounds[-1].next == "certified" and fit.rounds[0].shift > 0.5
    assert len(model.calls) == 1 + len(fit.rounds)
    assert fit.idata.posterior["beta"].shape == (2, 500, 4) and fit.idata.posterior.attrs["verdict"] == "A"
    assert "A - exact" in repr(fit) and "draws of its own posterior" in repr(fit.coreset)


def test_a_log_likelihood_without_a_term_is_refused():
    """The coreset would be one of another model, whose draws the gradient alone cannot tell."""
    model = Regression(n=5000)

    def gradient(theta, rows, weights):
        X, error = model.X[rows], model.y[rows] - theta["beta"] @ model.X[rows].T
        precision = np.exp(-2 * theta["log_sd"])
        beta, total = theta["beta"], weights.sum()
        prior = 0.01 * precision[:, None] * beta
        # σ² ~ IG(1, 1) with the Jacobian of log σ; β | σ² brings σ⁻ᵖ and its quadratic.
        quadratic = weights @ (error**2).T + 0.01 * (beta**2).sum(axis=1) + 2
        return {
            "beta": precision[:, None] * ((weights * error) @ X) - prior,
            "log_sd": precision * quadratic - total - beta.shape[1] - 2,
        }

    def without_the_scale(theta, rows):
        return model.log_likelihood(theta, rows) + theta["log_sd"][:, None]

    assert model.fit(gradient=gradient).verdict.grade == "A"
    with pytest.raises(corelet.CoreletError, match="gradient is not that of the log-likelihood: its derivative by log_sd"):
        corelet.fit_model(model.sample, without_the_scale, n=model.n, k=60, gradient=gradient)


def test_a_pilot_far_off_takes_more_rounds():
    model = Regression(heavy=True)
    mean = np.array([5.0, 5.0, 5.0, 5.0])
    pilot = {"beta": mean + model.rng.normal(size=(2, 400, 4)), "log_sd": model.rng.normal(size=(2, 400))}
    fit = model.fit(pilot=pilot)
    assert fit.verdict.grade == "A" and len(model.calls[0][0]) <= 60
    assert fit.rounds[0].shift > 5 and model.shift(fit)[0] < 0.2


def test_more_points_where_they_are_needed_and_no_more_than_allowed():
    model = Regression(dim=8)
    fit = model.fit(k=12, max_k=100)
    assert fit.verdict.grade == "A" and any("points" in this.next for this in fit.rounds)
    assert 12 < len(fit.coreset) <= 100
    few = Regression(dim=8).fit(k=12, max_k=12)
    assert few.verdict.grade != "A" and "max" in few.rounds[-1].next


def test_seeds_repeat():
    one, other = (Regression(n=5000).fit(seed=3) for _ in range(2))
    assert np.array_equal(one.coreset.rows, other.coreset.rows)
    assert np.array_equal(one.coreset.weights, other.coreset.weights)


def test_nothing_of_size_draws_by_n_is_asked_for():
    model = Regression(n=50_000)
    asked = []

    def log_likelihood(theta, rows):
        values = model.log_likelihood(theta, rows)
        asked.append(values.size)
        return values

    corelet.fit_model(model.sample, log_likelihood, n=model.n, k=60)
    assert max(asked) <= 2**21 < 400 * model.n


def test_groups_are_chosen_whole():
    model = Regression(n=20_000)
    groups = np.random.default_rng(5).integers(0, 4000, size=20_000)
    fit = model.fit(groups=groups)
    assert fit.verdict.grade == "A" and model.shift(fit)[0] < 0.2
    coreset = fit.coreset
    assert len(coreset.groups) <= 60
    assert np.array_equal(coreset.rows, np.flatnonzero(np.isin(groups, coreset.groups)))
    for label, weight in zip(coreset.groups, coreset.group_weights):
        assert (coreset.weights[groups[coreset.rows] == label] == weight).all()


def test_chains_that_stay_apart_are_the_models_fault():
    model = Regression(n=5000)

    def sample(rows, weights, start):
        draws = model.sample(rows, weights, start)
        draws["label"] = np.random.default_rng(1).normal(size=(2, 500)) + np.array([[0.0], [9.0]])
        return draws

    fit = corelet.fit_model(sample, model.log_likelihood, n=model.n, k=60)
    assert fit.verdict.grade == "C" and "pilot_not_mixed" in fit.verdict.reasons
    assert "the model or its sampler is at fault" in fit.verdict.headline

    def later(rows, weights, start):
        return model.sample(rows, weights, start) if start is None else sample(rows, weights, start)

    def labelled(rows, weights, start):
        draws = later(rows, weights, start)
        draws.setdefault("label", np.random.default_rng(2).normal(size=(2, 500)))
        return draws

    fit = corelet.fit_model(labelled, model.log_likelihood, n=model.n, k=60)
    assert fit.verdict.grade == "C" and "pilot_not_mixed" not in fit.verdict.reasons
    assert "the draws are at fault" in fit.verdict.headline


def test_one_chain_is_a_b_at_best():
    model = Regression(n=5000)

    def sample(rows, weights, start):
        draws = model.sample(rows, weights, start)
        return np.concatenate([draws["beta"].reshape(1000, 4), draws["log_sd"].reshape(1000, 1)], axis=1)

    def log_likelihood(theta, rows):
        return model.log_likelihood({"beta": theta[:, :4], "log_sd": theta[:, 4]}, rows)

    fit = corelet.fit_model(sample, log_likelihood, n=model.n, k=60)
    assert fit.verdict.grade == "B" and fit.verdict.reasons == ["no_chains"]
    assert "reservation" in fit.verdict.headline


def test_an_interrupt_returns_the_best_so_far():
    model = Regression(dim=8)

    def sample(rows, weights, start):
        if len(model.calls) == 3:
            raise KeyboardInterrupt
        return model.sample(rows, weights, start)

    fit = corelet.fit_model(sample, model.log_likelihood, n=model.n, k=12, max_k=12)
    assert fit.notes == ["interrupted: the best so far"] and fit.verdict.grade in "BC" and len(fit.coreset) <= 12

    def at_once(rows, weights, start):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corelet.fit_model(at_once, model.log_likelihood, n=model.n, k=12)


def test_progress_tells_where_it_stands(capsys):
    steps = []
    Regression(dim=8).fit(k=12, max_k=100, progress=steps.append)
    assert steps[0].stage == "pilot" and steps[0].remaining is None
    assert steps[-1].stage == "a pass over all rows" and steps[-1].variance is not None and steps[-1].remaining >= 0
    Regression(n=5000).fit(progress=True)
    assert "round 1, 60 points: building" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"k": 0}, "k = 0 points cannot stand for"),
        ({"k": 5000}, "k = 5000 points cannot stand for 5000 rows"),
        ({"max_k": 10}, "max_k = 10 is less than k = 60"),
        ({"pilot": 1}, "pilot must be at least 2 rows"),
        ({"draws": 50}, "at least 100 are needed"),
        ({"groups": [1, 2]}, "one entry for each"),
        ({"groups": np.zeros(5000)}, "cannot stand for 1 groups"),
        ({"pilot": {"beta": np.zeros(5)}}, "every variable must be chains by draws"),
        ({"pilot": "draws"}, "they must be an array of chains"),
    ],
)
def test_bad_input(keywords, text):
    with pytest.raises(corelet.CoreletError, match=text):
        Regression(n=5000).fit(**keywords)


def test_bad_functions():
    model = Regression(n=5000)
    with pytest.raises(corelet.CoreletError, match=r"shape \(3, 3\) for rows 0 to"):
        corelet.fit_model(model.sample, lambda theta, rows: np.zeros((3, 3)), n=5000, k=60)
    with pytest.raises(corelet.CoreletError, match="at draw 0 is not finite"):
        corelet.fit_model(model.sample, lambda theta, rows: np.nan * model.log_likelihood(theta, rows), n=5000, k=60)
    with pytest.raises(TypeError, match="must be functions"):
        corelet.fit_model(model.sample, 3, n=5000, k=60)
    with pytest.raises(corelet.CoreletError, match="hold numbers that are not finite"):
        corelet.fit_model(lambda *_: np.full((2, 500, 3), np.nan), model.log_likelihood, n=5000, k=60)


@pytest.mark.parametrize("still", [16, 25])
def test_chains_that_mix_slowly_are_run_on(still):
    model = Regression(n=5000, draws=500)
    calls = []

    def sample(rows, weights, start):
        """The last chains stay where they are for so many draws: 1000 of them are worth some sixty, or forty."""
        calls.append(len(rows))
        draws = model.sample(rows, weights, start)
        slow = len(calls) > 1
        return {name: values[:, np.arange(500) // still * still] if slow else values for name, values in draws.items()}

    fit = corelet.fit_model(sample, model.log_likelihood, n=model.n, k=60)
    assert len(fit.rounds) == 1 and len(calls) > 2
    assert fit.draws["beta"].shape == (2, 500 * (len(calls) - 1), 4)
    assert fit.verdict.grade == "A" and fit.verdict.ess_bulk >= 100 and fit.verdict.r_hat < 1.05
