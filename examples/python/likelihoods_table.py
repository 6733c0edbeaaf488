"""Writes the tables of PyMC into docs/likelihoods.md.

    python examples/python/likelihoods_table.py [--fit [NAME …]]

`--fit` first fits these likelihoods, or those without a grade by the present judge, and adds each to docs/likelihoods.json, so that it can be
stopped and goes on. (After a change of the judge, remove that file.)
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
GRADES = PAGE.with_suffix(".json")


def fit(names: list[str]) -> None:
    """Grades of these likelihoods, kept one by one."""
    warnings.filterwarnings("ignore")
    for name in names:
        try:
            found, shift = fitted(name)
            row = dict(grade=found.verdict.grade, rounds=len(found.rounds), points=len(found.coreset), shift=round(shift, 1))
        except corelet.CoreletError as error:
            row = dict(grade="error", error=str(error))
        row["jax"] = importlib.util.find_spec("jax") is not None
        table = {**grades(), name: row}
        part = GRADES.with_suffix(".part")
        part.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        part.replace(GRADES)
        print(name, row, flush=True)
        gc.collect()


def grades() -> dict[str, Any]:
    """Those that there are, by likelihood."""
    found: dict[str, Any] = json.loads(GRADES.read_text()) if GRADES.exists() else {}
    return found


def by_present_judge(row: dict[str, Any]) -> bool:
    return row.get("judge") != "earlier"


def refusal_of(build: Any) -> str:
    """What a refused model is told."""
    try:
        tool = tool_of(model_of(build, SMALL))
        tool._loglik.compile(numba=False)
        tool.check_slicing(0)
    except corelet.CoreletError as error:
        return str(error)
    raise AssertionError("not refused")


def section(found: dict[str, Any]) -> str:
    """Of the page, with its heading."""
    present = [row for row in found.values() if by_present_judge(row)]
    without = sum(not row["jax"] for row in present)
    lines = [
        "## PyMC\n",
        f"`examples/python/likelihoods_table.py` fits each likelihood with PyMC {pm.__version__} and nutpie: a regression on 2000 rows with `k=80` (300",
        "where the log-likelihood has kinks). The last column compares the posterior means with chains on all rows. It shows the largest difference, in",
        f"Monte Carlo standard errors. JAX is not needed: {without} of these fits ran in an environment without it.\n",
        "For each likelihood, with PyMC 5.28 and PyMC 6.4, `examples/python/test_likelihoods_pymc.py` also compares the log-likelihoods of some rows, the",
        "weighted log density and its gradient with PyMC's own.",
    ]
    if len(present) < len(found):
        lines.append(f"\n{len(present)} grades come from the current verdict. Grades in brackets come from earlier versions of it, without the score test.")
    lines += ["", "| PyMC | grade | points | largest shift, Monte-Carlo errors |", "| --- | --- | --- | --- |"]
    for name in CASES:
        row = found.get(name)
        if row is None:
            lines.append(f"| {name} | density checked, not sampled | | |")
            continue
        grade = row["grade"] if by_present_judge(row) else f"({row['grade']})"
        lines.append(f"| {name} | {grade} | {row['points']} | {row['shift']} |")
    lines += ["", "| refused model | error |", "| --- | --- |"]
    lines += [f"| {name} | {refusal_of(build)} |" for name, (build, _) in REFUSED.items()]
    lines += [
        "",
        "The log-likelihood of the triangular distribution has a kink at each row, and k rows with large weights can have several modes. "
        "With seeds 0, 2 and 3, about 300 rows get an A. With seed 1 they do not, and Corelet samples all 2000 rows instead.",
    ]
    return "\n".join([*lines, "", ""])


def main() -> None:
    more = sys.argv[1:]
    if more[:1] == ["--fit"]:
        known = grades()
        fit(more[1:] or [name for name in CASES if name not in known or not by_present_judge(known[name])])
    text = PAGE.read_text()
    before = re.search(r"^## PyMC\n.*?(?=^## )", text, flags=re.S | re.M)
    assert before is not None
    PAGE.write_text(text.replace(before[0], section(grades())))


if __name__ == "__main__":
    main()
