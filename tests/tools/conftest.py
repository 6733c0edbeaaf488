"""One small model in each tool: the comparison of its own fit of all rows with that of a coreset."""

import os

import arviz as az
import numpy as np
import pytest

ROWS, POINTS = 3000, 60


def posterior_of(idata):
    """The variables of an `InferenceData` or a `DataTree`, chains by draws by …"""
    posterior = idata["posterior"]
    dataset = posterior.to_dataset() if hasattr(posterior, "to_dataset") else posterior
    return {str(name): dataset[name].transpose("chain", "draw", ...).values for name in dataset.data_vars}


@pytest.fixture
def agrees():
    """Whether a fit is certified, and its means are those of a full fit, given as draws, within 0.3 standard deviations."""

    def check(fit, full):
        assert fit.verdict.grade in "AB", fit
        assert len(fit.coreset) <= POINTS
        core = posterior_of(fit.idata)
        assert full and set(full) <= set(core), (sorted(full), sorted(core))
        for name, draws in full.items():
            mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
            shift = np.abs(core[name].mean(axis=(0, 1)) - mean) / sd
            assert shift.max() < 0.3, f"{name}: {shift}"
        summary = az.summary(fit.idata, round_to="none")
        assert np.isfinite(summary["mean"].astype(float)).all() and (summary["r_hat"].astype(float) < 1.05).all()

    return check


@pytest.fixture(scope="session")
def line():
    """A feature, and a line with Gaussian noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=ROWS)
    return x, 1.0 + 2.0 * x + 0.5 * rng.normal(size=ROWS)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Where CI runs, a tool that is not installed is a failure and not skipped."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome, report.longrepr = "failed", f"skipped, where CI needs it: {report.longrepr[-1]}"
    return report
