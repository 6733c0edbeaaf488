"""The docstrings, the pages and the types say what is true."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corelet

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["corelet", *(f"corelet.{name}" for name in ("_build", "_certify", "_estimators", "_fit", "_known", "_loglik", "_nnls", "_review", "_selector", "results.verdict"))]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_the_installed_package_is_the_built_wheel():
    assert ROOT not in Path(corelet.__file__).resolve().parents or "site-packages" in corelet.__file__
    assert (Path(corelet.__file__).parent / "py.typed").exists()


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


PAGES = [page for page in ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))) if blocks_of(page)]


def test_pages_have_examples():
    assert {"README.md", "docs/cli.md", "docs/python.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_pages_run(page, command, logistic, tmp_path, monkeypatch):
    """Those of docs/tools, which need PyMC, bambi, NumPyro or Stan, are run by examples/python/test_pages.py."""
    monkeypatch.chdir(tmp_path)
    if page == "docs/cli.md":  # It opens what the command above it wrote.
        X, y = logistic
        np.savez("data.npz", X=X, y=y)
        done = command("fit", "data.npz", "-k", 60, "-o", "draws.parquet", "--arviz", "draws.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    exec("\n".join(blocks_of(page)), {"__name__": "page"})


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path):
    environment = {**os.environ, "CORELET_TUTORIAL_REDUCED": "1"}
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "tutorial.py", tmp_path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "largest shift of a mean: coreset" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"path.png", "shifts.png"}


@pytest.mark.slow
@pytest.mark.parametrize("example", ["beyond_memory", "claims", "robust", "survival"])
def test_the_gallery_runs(example, tmp_path):
    """Fewer rows than the gallery shows. Those that need PyMC or NumPyro are run by examples/python/test_pages.py."""
    environment = {**os.environ, "CORELET_GALLERY_REDUCED": "1", "CORELET_GALLERY_RESULTS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "gallery" / f"{example}.py"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{example}.txt").read_text().startswith(("A - ", "B - "))
    assert (tmp_path / f"{example}.svg").exists()


def test_pages_are_those_of_their_figures():
    for page in ("benchmarks", "paper"):
        assert subprocess.run([sys.executable, ROOT / "docs" / f"{page}.py", "--check"]).returncode == 0, f"run docs/{page}.py"


def test_the_keywords_are_the_flags_of_the_command(command, tmp_path):
    import inspect

    flags = set(re.findall(r"--([a-z-]+)", command("build", "--help", cwd=tmp_path).stdout))
    keywords = {name.replace("_", "-") for name in inspect.signature(corelet.build).parameters}
    only_files = {"output", "json", "report", "quiet", "help", "version", "no-intercept"}  # and `--prior` is another name of `--priors`
    assert flags - only_files - {"prior"} == keywords - {"X", "y", "k", "intercept", "progress"}
