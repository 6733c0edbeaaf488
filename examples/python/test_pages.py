"""The pages of docs/tools, run as they stand; that of Stan is a model of its own in PyStan, through `corelet.fit_model`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "tools"


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_the_page_runs(page: str) -> None:
    if page == "stan.md":
        pytest.importorskip("stan")
    blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.S)
    assert blocks
    exec("\n".join(blocks), {"__name__": "page"})
