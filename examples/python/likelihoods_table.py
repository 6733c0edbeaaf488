"""Writes the tables of PyMC into docs/likelihoods.md.

    python examples/python/likelihoods_table.py grades.json [--fit [NAME …]]

`--fit` first fits those likelihoods that grades.json has not yet, or these, and adds them to it one by one, so that it can be stopped and goes on.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pymc as pm
from likelihoods_pymc import CASES, REFUSED, model_of
from test_likelihoods_pymc import SMALL, fitted, tool_of

import corelet

PAGE = Path(__file__).parents[2] / "docs" / "likelihoods.md"


def fit(names: list[str], kept: Path) -> None:
    """Grades of these likelihoods, kept one by one."""
    warnings.filterwarnings("ignore")
    for name in names:
        try:
            found, shift = fitted(name)
            row = dict(grade=found.verdict.grade, rounds=len(found.rounds), points=len(found.coreset), shift=round(shift, 1))
        except corelet.CoreletError as error:
            row = dict(grade="error", error=str(error))
        row["jax"] = importlib.util.find_spec("jax") is not None
        table = {**grades_in(kept), name: row}
        kept.with_suffix(".new").write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        kept.with_suffix(".new").replace(kept)
        print(name, row, flush=True)
        gc.collect()


def grades_in(kept: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    return found


def refusal_of(build: Any) -> str:
    """What a refused model is told."""
    try:
        tool = tool_of(model_of(build, SMALL))
        tool._loglik.compile(numba=False)
        tool.check_slicing(0)
    except corelet.CoreletError as error:
        return str(error)
    raise AssertionError("not refused")


def section(grades: dict[str, Any]) -> str:
    """Of the page, with its heading."""
    without = sum(not row.get("jax", True) for row in grades.values())
    where = "in an environment without JAX" if without == len(CASES) else f"{without} of them in an environment without JAX"
    lines = [
        "## PyMC\n",
        f"Made by `examples/python/likelihoods_table.py` with PyMC {pm.__version__} and nutpie, {where}: a regression on 2000 rows with `k=80` "
        "(300 where the log-likelihood has kinks). The shift is the largest of a posterior mean against chains on all rows, in",
        "Monte-Carlo errors of the difference. For each of them the log-likelihoods of some rows, the weighted density and its gradient also "
        "agree with PyMC's own (`examples/python/test_likelihoods_pymc.py`).\n",
        "| PyMC | grade | points | largest shift, Monte-Carlo errors |",
        "| --- | --- | --- | --- |",
    ]
    for name in CASES:
        found = grades.get(name)
        shown = f"{found['grade']} | {found['points']} | {found['shift']}" if found else "density checked, not sampled | |"
        lines.append(f"| {name} | {shown} |")
    lines += ["\n| refused | in these words |", "| --- | --- |"]
    lines += [f"| {name} | {refusal_of(build)} |" for name, (build, _) in REFUSED.items()]
    return "\n".join([*lines, "", ""])


def main() -> None:
    kept, *more = sys.argv[1:]
    if more[:1] == ["--fit"]:
        known = grades_in(Path(kept))
        fit(more[1:] or [name for name in CASES if name not in known], Path(kept))
    text = PAGE.read_text()
    before = re.search(r"^## PyMC\n.*?(?=^## )", text, flags=re.S | re.M)
    assert before is not None
    PAGE.write_text(text.replace(before[0], section(grades_in(Path(kept)))))


if __name__ == "__main__":
    main()
