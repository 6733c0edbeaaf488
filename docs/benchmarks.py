"""Writes benchmarks.md from benchmarks.json, where the figures are: one section for each measurement, with its machine, day and command.

    python docs/benchmarks.py           writes the page
    python docs/benchmarks.py --check   exit code 1 where the page is not that of the figures
"""

import json
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent


def line(cells: list) -> str:
    return "| " + " | ".join(cells) + " |" if any(cells) else "|" + " |" * len(cells)


def wrapped(text: str) -> str:
    return textwrap.fill(text, 130, break_long_words=False, break_on_hyphens=False)


def section(figures: dict) -> str:
    table = [line(figures["columns"]), line(["---"] * len(figures["columns"])), *map(line, figures["rows"])]
    where = f"*`{figures['command']}`; {figures['machine']}; recorded {figures['recorded']}.*"
    return "\n\n".join(filter(None, [f"## {figures['title']}", wrapped(figures["text"]), "\n".join(table), wrapped(figures["after"]), wrapped(where)]))


def page() -> str:
    figures = json.loads((HERE / "benchmarks.json").read_text(encoding="utf-8"))
    note = "<!-- Written by benchmarks.py from benchmarks.json: change the figures there. -->"
    return "\n\n".join(["# Current figures", note, wrapped(figures["about"]), *map(section, figures["sections"])]) + "\n"


def main() -> int:
    path = HERE / "benchmarks.md"
    if sys.argv[1:] == ["--check"]:
        return 0 if path.read_text(encoding="utf-8") == page() else 1
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
