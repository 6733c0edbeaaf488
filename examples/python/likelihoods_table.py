"""Writes the tables of PyMC, bambi and NumPyro into docs/likelihoods.md.

    python examples/python/likelihoods_table.py pymc|bambi|numpyro [--without-jax] [--fit [NAME …]]

`--fit` first fits these likelihoods, or those without a grade, and adds each to docs/likelihoods_pymc.json (or bambi, or numpyro), so that it can be
stopped and goes on. (After a change of the judge, remove these files.) With `--without-jax` nothing can import JAX, and what PyMC's likelihoods are
without it goes to docs/likelihoods_pymc_without_jax.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import corelet

PAGE = Path(__file__).parents[2] / "docs" / "likelihoods.md"
Row = dict[str, Any]


class Tool(NamedTuple):
    """What is tried of a tool."""

    heading: str
    cases: Iterable[str]
    fitted: Callable[[str], Row]
    """Differences of a likelihood from all rows, beside `fit`."""
    refused: Callable[[], list[tuple[str, str]]]
    words: str
    after: str = ""


def pymc() -> Tool:
    import pymc as pm
    from likelihoods_pymc import CASES, REFUSED, model_of
    from test_likelihoods_pymc import SMALL, fitted, tool_of

    def row(name: str) -> Row:
        fit, shift = fitted(name)
        return dict(fit=fit, shift=shift)

    def refusal(build: Any) -> str:
        try:
            tool = tool_of(model_of(build, SMALL))
            tool._loglik.compile(numba=False)
            tool.check_slicing(0)
        except corelet.CoreletError as error:
            return str(error)
        raise AssertionError("not refused")

    same = sum(row["grade"] == "A" for row in kept("pymc_without_jax").values())
    words = (
        f"Made by `examples/python/likelihoods_table.py pymc` with PyMC {pm.__version__} and nutpie: a regression on 2000 rows with `k=80` "
        "(300 where the log-likelihood has kinks). The shift is the largest of a posterior mean against chains on all rows, in\n"
        "Monte-Carlo errors of the difference. For each of them, with PyMC 5.28 and with PyMC 6.4, the log-likelihoods of some rows, the weighted "
        "density and its gradient agree with PyMC's own (`examples/python/test_likelihoods_pymc.py`).\n"
        f"JAX has no part in it: {same} of these are an A as well where JAX cannot be imported (`--without-jax`)."
    )
    after = (
        "The log-likelihood of the triangular distribution has a kink for each row, and k rows that carry large weights may have several modes. "
        "With seeds 0, 2 and 3 some 300 rows have an A; with seed 1 they have not, and all 2000 rows were sampled in their place.\n"
    )
    return Tool("PyMC", CASES, row, lambda: [(name, refusal(build)) for name, (build, _) in REFUSED.items()], words, after)


def bambi() -> Tool:
    import bambi
    from test_likelihoods_bambi import CASES, fitted

    def row(name: str) -> Row:
        fit, shift = fitted(name)
        return dict(fit=fit, shift=shift)

    words = (
        f"Made by `examples/python/likelihoods_table.py bambi` with bambi {bambi.__version__}: every family, in a formula, as for PyMC. For each, with "
        "bambi 0.17 and 0.21, the weighted density of some rows agrees with PyMC's own (`examples/python/test_likelihoods_bambi.py`)."
    )
    after = (
        "With `truncated()` bambi's automatic priors are not finite, and the call says whose: give priors of your own.\n"
    )
    return Tool("bambi", CASES, row, list, words, after)


def numpyro() -> Tool:
    import jax
    import numpyro
    from likelihoods_numpyro import NOT_OF_ROWS
    from test_likelihoods_numpyro import NAMES, fitted
    from test_numpyro_refusals import REFUSED, name_of

    import corelet.numpyro

    def row(name: str) -> Row:
        fit, shift, ratio = fitted(name)
        jax.clear_caches()
        return dict(fit=fit, shift=shift, ratio=ratio)

    def refusal(model: Any, args: Any) -> str:
        try:
            corelet.numpyro.fit(model, args, k=20, chains=2)
        except corelet.CoreletError as error:
            return str(error).replace("\\", "")
        raise AssertionError("not refused")

    words = (
        f"Made by `examples/python/likelihoods_table.py numpyro` with NumPyro {numpyro.__version__}: 2000 rows drawn from each, `k=80`, two chains. The "
        "shifts are the largest of a posterior mean and of the logarithm of a standard deviation against NUTS on all rows, in Monte-Carlo errors of the\n"
        "difference. What is refused is a model of `examples/python/test_numpyro_refusals.py`. No likelihoods of rows, and not tried: "
        + "; ".join(f"`{name}` ({why})" for name, why in NOT_OF_ROWS.items() if name != "Distribution")
        + "."
    )
    after = (
        "Where an angle is a line of x, it turns round and round as the slope grows, and the likelihood has another top at each turn: here of negligible "
        "mass, which a search cannot prove of all of them. 2 arctan(…), the link of circular regression and of bambi, does not turn.\n"
    )
    return Tool("NumPyro", NAMES, row, lambda: [(f"`{name_of(model)}`", refusal(model, args)) for model, args, _ in REFUSED], words, after)


TOOLS = {"pymc": pymc, "bambi": bambi, "numpyro": numpyro}


def path(table: str) -> Path:
    return PAGE.with_name(f"likelihoods_{table}.json")


def kept(table: str) -> dict[str, Row]:
    """Rows of a table that there are, by likelihood."""
    found: dict[str, Row] = json.loads(path(table).read_text()) if path(table).exists() else {}
    return found


def fit(tool: Tool, table: str, names: list[str]) -> None:
    """Grades of these likelihoods, or of those that have none, kept one by one."""
    warnings.filterwarnings("ignore")
    for name in names or tool.cases:
        if not names and name in kept(table):
            continue
        found = tool.fitted(name)
        fit = found.pop("fit")
        row = dict(grade=fit.verdict.grade, rounds=len(fit.rounds), points=len(fit.coreset), **{key: round(x, 1) for key, x in found.items()})
        if row["grade"] != "A":
            row["reasons"] = fit.verdict.reasons
        part = path(table).with_suffix(".part")
        part.write_text(json.dumps({**kept(table), name: row}, indent=1, ensure_ascii=False) + "\n")
        part.replace(path(table))
        print(name, row, flush=True)
        gc.collect()


def section(tool: Tool, found: dict[str, Row]) -> str:
    """Of the page, with its heading."""
    shifts = [key for key in ("shift", "ratio") if any(key in row for row in found.values())]
    titles = {"shift": "shift of a mean", "ratio": "of a standard deviation"}
    header = [tool.heading, "grade", "points", *(titles[key] for key in shifts)]
    lines = [f"## {tool.heading}\n", tool.words, "", cells(header), cells(["---"] * len(header))]
    for name in tool.cases:
        row = found.get(name)
        values = ["density checked, not sampled", *[""] * (len(header) - 2)] if row is None else [row[key] for key in ("grade", "points", *shifts)]
        lines.append(cells([name, *values]))
    refused = tool.refused()
    if refused:
        lines += ["", "| refused | in these words |", "| --- | --- |", *(cells(pair) for pair in refused)]
    return "\n".join([*lines, "", *([tool.after] if tool.after else []), ""])


def cells(values: Iterable[Any]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("tool", choices=list(TOOLS))
    flags.add_argument("--without-jax", action="store_true")
    flags.add_argument("--fit", nargs="*", metavar="NAME")
    chosen = flags.parse_args()
    if chosen.without_jax:
        from conftest import hide_jax

        hide_jax()
    tool = TOOLS[chosen.tool]()
    if chosen.fit is not None:
        fit(tool, f"{chosen.tool}_without_jax" if chosen.without_jax else chosen.tool, chosen.fit)
    if chosen.without_jax:
        return
    text = PAGE.read_text()
    before = re.search(r"^## %s\n.*?(?=^## |\Z)" % tool.heading, text, flags=re.S | re.M)
    assert before is not None
    PAGE.write_text(text.replace(before[0], section(tool, kept(chosen.tool)).rstrip() + ("\n\n" if before.end() < len(text) else "\n")))


if __name__ == "__main__":
    main()
