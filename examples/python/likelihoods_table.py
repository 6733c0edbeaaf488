"""Prints the table of likelihoods of PyMC and bambi for docs/likelihoods.md.

    LIKELIHOODS=grades.json python -m pytest examples/python/test_likelihoods_pymc.py -k posterior_of_all_rows
    python examples/python/likelihoods_table.py grades.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import corelet
from likelihoods_pymc import CASES, REFUSED, model_of
from test_likelihoods_pymc import SMALL, tool_of


def line(build: Any) -> str:
    """What a refused model is told."""
    try:
        tool = tool_of(model_of(build, SMALL))
        tool._loglik.compile(numba=False)
        tool.check_slicing(0)
    except corelet.CoreletError as error:
        return str(error)
    raise AssertionError("not refused")


def main() -> None:
    grades = json.loads(Path(sys.argv[1]).read_text())
    print("| PyMC | grade | points | largest shift, Monte-Carlo errors |\n| --- | --- | --- | --- |")
    for name in CASES:
        found = grades.get(name)
        shown = f"{found['grade']} | {found['points']} | {found['shift']}" if found else "density checked, not sampled | |"
        print(f"| {name} | {shown} |")
    print("\n| refused | in these words |\n| --- | --- |")
    for name, (build, _) in REFUSED.items():
        print(f"| {name} | {line(build)} |")


if __name__ == "__main__":
    main()
