#!/usr/bin/env python3
"""Is this commit what its tag says? One line for each thing that is missing, and exit code 1.

    python .ci/release_ready.py v0.2.0            everything that a release needs (RELEASING.md)
    python .ci/release_ready.py v0.2.0 --notes    that version's part of the changelog
    python .ci/release_ready.py --unreleased      does the changelog have room for what comes next?
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def found(path: str, pattern: str) -> "str | None":
    match = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.M)
    return match.group(1) if match else None


def part(heading: str) -> "str | None":
    """The text below a heading of the changelog, up to the next of its level."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(heading)}\b.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return match.group(1).strip() if match else None


def missing(tag: str) -> "list[str]":
    version = found("Cargo.toml", r'^version = "(.*)"')
    lines = []
    if tag != f"v{version}":
        lines.append(f"the tag is {tag}, but Cargo.toml has version {version}")
    inner = re.findall(r'path = "crates/.*?version = "(.*?)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    if set(inner) != {version}:
        lines.append(f"Cargo.toml asks for {', '.join(sorted(set(inner)))} of its own crates, which have version {version}")
    if found("CITATION.cff", r"^version: (.*)$") != version:
        lines.append(f"CITATION.cff does not have version {version}")
    if not found("CITATION.cff", r"^date-released: (.*)$"):
        lines.append("CITATION.cff has no date-released")
    if not part(str(version)):
        lines.append(f"CHANGELOG.md says nothing under '## {version}'")
    if part("Unreleased"):
        lines.append("CHANGELOG.md has lines under '## Unreleased': move them under the version")
    if not found("Cargo.toml", r'^repository = "(.*)"'):
        lines.append("Cargo.toml has no repository: the address of the project")
    if not found("pyproject.toml", r"^(\[project\.urls\])"):
        lines.append("pyproject.toml has no [project.urls]: the addresses of the project and its documentation")
    return lines


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--unreleased"]:
        lines = [] if part("Unreleased") is not None else ["CHANGELOG.md has no heading '## Unreleased'"]
    elif len(arguments) == 2 and arguments[1] == "--notes":
        print(part(arguments[0].lstrip("v")) or "")
        return 0
    elif len(arguments) == 1:
        lines = missing(arguments[0])
    else:
        print(__doc__)
        return 2
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
