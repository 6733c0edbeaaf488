"""The pages of docs/tools, run as they stand, that of Stan through `corelet.fit_model`; and the examples of the gallery in these tools."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = DOCS / "tools"


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_the_page_runs(page: str) -> None:
    if page == "stan.md":
        pytest.importorskip("stan")
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.S)
    assert blocks
    exec("\n".join(blocks), {"__name__": "page"})


@pytest.mark.parametrize("example", ["customers", "item_response", "shops"])
def test_the_gallery_runs(example: str, tmp_path: Path) -> None:
    if example == "customers":
        pytest.importorskip("pymc_marketing")
    environment = {**os.environ, "CORELET_GALLERY_REDUCED": "1", "CORELET_GALLERY_RESULTS": str(tmp_path)}
    done = subprocess.run([sys.executable, DOCS / "gallery" / f"{example}.py"], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{example}.txt").read_text().startswith(("A - ", "B - "))
