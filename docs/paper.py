"""Writes the table of docs/paper.md that stands beside the authors' figures, from docs/paper/summary.csv.

    python docs/paper.py            writes the table
    python docs/paper.py --check    exit code 1 where the page has another one
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE, SUMMARY = HERE / "paper.md", HERE / "paper" / "summary.csv"
HEAD = "| data | k | A-IHT: theirs | ours | A-IHT II: theirs | ours | GIGA | SparseVI | pursuit | pursuit, Hermite |"

# Medians of ten seeds of the authors' own code, forward / reverse KL: of A-IHT and of A-IHT II.
THEIRS = {
    ("synth_lr", 20): ("0.12 / 0.19", "2.1e-3 / 2.0e-3"),
    ("synth_lr", 100): ("5.4e-4 / 5.4e-4", "4.5e-4 / 4.5e-4"),
    ("phishing", 20): ("2.0 / 7.2", "1.8 / 5.7"),
    ("phishing", 50): ("0.36 / 0.73", "0.30 / 0.54"),
    ("phishing", 100): ("4.7e-2 / 5.5e-2", "1.6e-2 / 1.7e-2"),
    ("ds1", 20): ("1.7 / 4.6", "1.9 / 5.1"),
    ("ds1", 50): ("0.36 / 0.61", "0.24 / 0.37"),
    ("ds1", 100): ("9.8e-2 / 0.13", "4.7e-2 / 5.5e-2"),
    ("synth_poiss", 10): ("5.1e-2 / 6.0e-2", "2.4e-4 / 2.3e-4"),
    ("synth_poiss", 100): ("4.9e-3 / 5.2e-3", "2.4e-5 / 2.3e-5"),
    ("biketrips", 20): ("2.2 / 6.8", "0.96 / 2.1"),
    ("biketrips", 50): ("1.2 / 2.8", "0.51 / 0.89"),
    ("biketrips", 100): ("0.67 / 1.2", "0.22 / 0.31"),
    ("airportdelays", 20): ("7.4 / 34", "6.6 / 31"),
    ("airportdelays", 50): ("2.8 / 7.7", "1.1 / 2.2"),
    ("airportdelays", 100): ("1.0 / 1.9", "0.37 / 0.52"),
}
BESIDE = ("giga", "sparse-vi", "pursuit", "pursuit-hermite")


def figure(value: float) -> str:
    """Two digits; powers of ten below a hundredth and from a thousand on."""
    if 0.01 <= value < 1000:
        return f"{float(f'{value:.1e}'):g}"
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(power)}"


def table() -> "list[str]":
    with SUMMARY.open(encoding="utf-8") as file:
        rows = {(row["experiment"], row["data"], row["method"], int(row["k"])): row for row in csv.DictReader(file)}

    def ours(data: str, method: str, k: int) -> str:
        found = next((rows[at] for at in ((kind, data, method, k) for kind in ("logistic", "poisson")) if at in rows), None)
        if found is None:
            return ""
        return " / ".join(figure(float(found[f"kl_{way}_median"])) for way in ("forward", "reverse"))

    lines, last = [HEAD, "|" + " --- |" * 10], None
    for (data, k), (first, second) in THEIRS.items():
        cells = ["" if data == last else data, str(k), first, ours(data, "a-iht", k), second, ours(data, "a-iht-2", k)]
        cells += [ours(data, method, k) for method in BESIDE]
        lines.append("| " + " | ".join(cells) + " |")
        last = data
    return lines


def main() -> int:
    before = PAGE.read_text(encoding="utf-8")
    lines = before.split("\n")
    start = lines.index(HEAD)
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))
    after = "\n".join(lines[:start] + table() + lines[end:])
    if "--check" in sys.argv[1:]:
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
