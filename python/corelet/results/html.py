"""What a notebook shows of a result: a badge with the grade, tables, and what is seen when it is asked for, in the notebook's own colours."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

TONES = {"A": "#1a7f4b", "B": "#9a6700", "C": "#c4382c"}
"""The colours of the command's report, which can be read on white and on black."""

RULE = "border-bottom:1px solid rgba(128,128,128,.35)"


def badge(grade: str, headline: str) -> str:
    """The grade and its sentence: `A - trusted: the posterior …`."""
    title, _, words = headline.partition(": ")
    tone = TONES.get(grade, "#6e6e6e")
    circle = (
        f"flex:none;width:2.2em;height:2.2em;border-radius:50%;background:{tone};color:#fff;font-weight:700;line-height:2.2em;"
        "text-align:center"
    )
    box = f"display:flex;gap:.8em;align-items:center;border-left:.35em solid {tone};padding:.5em .8em;margin:.4em 0;max-width:46em"
    words = words[:1].upper() + words[1:]
    return (
        f'<div style="{box}" role="group" aria-label="Verdict"><span style="{circle}">{html.escape(grade)}</span>'
        f"<span><strong>{html.escape(title)}</strong><br>{html.escape(words)}</span></div>"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells in lines; the first of each is text, the others are set flush right."""
    def line(cells: Sequence[str], tag: str) -> str:
        shown = []
        for at, cell in enumerate(cells):
            side = "left" if at == 0 else "right;white-space:nowrap"
            shown.append(f'<{tag} style="text-align:{side};padding:.15em .6em;{RULE}">{html.escape(str(cell))}</{tag}>')
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-variant-numeric:tabular-nums">'
        f"<thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, lines: Iterable[str]) -> str:
    """Lines that are seen when they are asked for."""
    text = html.escape("\n".join(lines))
    return f'<details><summary>{html.escape(summary)}</summary><pre style="white-space:pre-wrap">{text}</pre></details>'


def note(text: str) -> str:
    """A line below a table."""
    return f'<p style="opacity:.75;margin:.2em 0">{html.escape(text)}</p>'
