"""Every example runs in a folder of its own, since PyStan leaves the objects it compiles in the current one; with CORELET_WITHOUT_JAX=1, without JAX."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

NEED_JAX = ("numpyro", "pages")


def hide_jax() -> None:
    """Makes every import of JAX fail, as where it is not installed."""
    assert "jax" not in sys.modules
    for name in ("jax", "jaxlib", "numpyro"):
        sys.modules[name] = None  # type: ignore[assignment]
        assert importlib.util.find_spec(name) is None


if "CORELET_WITHOUT_JAX" in os.environ:
    hide_jax()
    collect_ignore_glob = [f"*{name}*" for name in NEED_JAX]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quick: some seconds in all, for every change (-m quick)")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
