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
        f"`examples/python/likelihoods_table.py pymc` fits each likelihood with PyMC {pm.__version__} and nutpie: a regression on 2000 rows with `k=80`\n"
        "(300 where the log-likelihood has kinks). The shift is the largest difference of a posterior mean from chains on all rows, in Monte Carlo\n"
        f"standard errors. JAX is not needed: {same} of these also get an A where JAX cannot be imported (`--without-jax`).\n\n"
        "For each likelihood, with PyMC 5.28 and PyMC 6.4, `examples/python/test_likelihoods_pymc.py` also compares the log-likelihoods of some rows, the\n"
        "weighted log density and its gradient with PyMC's own."
    )
    after = (
        "The log-likelihood of the triangular distribution has a kink at each row, and k rows with large weights can have several modes. With seeds 0, 2\n"
        "and 3, about 300 rows get an A. With seed 1 they do not, and Corelet samples all 2000 rows instead.\n"
    )
    return Tool("PyMC", CASES, row, lambda: [(name, refusal(build)) for name, (build, _) in REFUSED.items()], words, after)


def bambi() -> Tool:
    import bambi
    from test_likelihoods_bambi import CASES, fitted

    def row(name: str) -> Row:
        fit, shift = fitted(name)
        return dict(fit=fit, shift=shift)

    words = (
        f"`examples/python/likelihoods_table.py bambi` fits every family of bambi {bambi.__version__} with a formula, as for PyMC. For each family, with bambi\n"
        "0.17 and 0.21, `examples/python/test_likelihoods_bambi.py` also compares the weighted log density of some rows with PyMC's own."
    )
    after = "With `truncated()`, bambi's automatic priors are not finite, and the error names them: set your own priors.\n"
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
        f"`examples/python/likelihoods_table.py numpyro` fits each likelihood with NumPyro {numpyro.__version__}: 2000 rows drawn from it, `k=80`, two chains. The\n"
        "shifts are the largest differences of a posterior mean, and of the logarithm of a standard deviation, from NUTS on all rows, in Monte Carlo\n"
        "standard errors. The refused models come from `examples/python/test_numpyro_refusals.py`.\n\n"
        "These distributions are not likelihoods of independent rows, or are too large to test:\n"
        + ";\n".join(f"`{name}` ({why})" for name, why in NOT_OF_ROWS.items() if name != "Distribution")
        + "."
    )
    after = (
        "If an angle is linear in x, it turns full circles as the slope grows, and the likelihood has another mode at each turn. Here these modes have\n"
        "negligible mass, but no search can prove that for all of them. The link 2 arctan(…), of circular regression and of bambi, does not turn.\n"
        "The B of the LKJ model says that 2 chains have too few draws for its parameters (`blunt`).\n"
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
        lines += ["", "| refused model | error |", "| --- | --- |", *(cells(pair) for pair in refused)]
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
