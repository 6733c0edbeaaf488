"""Estimates of the parameters by their draws: mean, sd, 90 % interval, R-hat and effective sample sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from . import html
from .draws import BARE, Draws

HEADS = ("", "mean", "sd", "90 % interval", "R-hat", "ESS")

SHOWN = 12
"""Parameters that a repr shows."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """What is known of each parameter, on the scale of the data."""

    names: list[str]
    values: NDArray[np.float64]
    """Chains × draws × parameters."""
    chained: bool = True

    @staticmethod
    def of(draws: Draws, names: Sequence[str] = ()) -> Estimates:
        """Of a model that Corelet knows, by the names of its coefficients, intercepts first; of any other, variable by variable."""
        if {"original", "standardised"} <= set(draws.values) and names:
            return _known(draws, list(names))
        labels: list[str] = []
        columns = []
        for name, array in draws.values.items():
            if array.dtype.kind in "fiub":
                shape = array.shape[2:]
                columns.append(array.reshape(*draws.shape, -1).astype(np.float64))
                labels += [_label(name or "theta", index) for index in np.ndindex(*shape)]
        return Estimates(labels, np.concatenate(columns, axis=2), draws.chained)

    def first(self, most: Optional[int]) -> Estimates:
        """Of the first of them."""
        return Estimates(self.names[:most], self.values[..., :most], self.chained)

    def table(self) -> dict[str, NDArray[np.float64]]:
        """Columns of numbers, one line a parameter."""
        flat = self.values.reshape(-1, len(self.names))
        low, high = np.quantile(flat, [0.05, 0.95], axis=0)
        columns = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0), "q5": low, "q95": high}
        chains = np.ascontiguousarray(self.values.transpose(2, 0, 1))
        if self.chained:
            columns.update(zip(("r_hat", "ess_bulk", "ess_tail"), _lib.diagnose(chains)))
        else:
            columns.update({name: np.full(len(self.names), np.nan) for name in ("r_hat", "ess_bulk", "ess_tail")})
        return columns

    def cells(self) -> list[tuple[str, ...]]:
        """The same as text: as many digits as the standard deviations ask for."""
        columns = self.table()
        figures = np.column_stack([columns[name] for name in ("mean", "sd", "q5", "q95")])
        shown = _lib.figures(np.ascontiguousarray(figures))
        ess = np.minimum(columns["ess_bulk"], columns["ess_tail"])
        chains = [("-" if np.isnan(r) else f"{r:.3f}", "-" if np.isnan(e) else f"{e:.0f}") for r, e in zip(columns["r_hat"], ess)]
        return [
            (name, mean, sd, f"{low} to {high}", *of_chains)
            for name, (mean, sd, low, high), of_chains in zip(self.names, shown, chains)
        ]

    def lines(self) -> list[str]:
        """A table in text, of the first parameters."""
        table = [HEADS, *self.first(SHOWN).cells()]
        widths = [max(len(line[j]) for line in table) for j in range(len(HEADS))]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]).rstrip()
            for line in table
        ]
        return lines + self._more()

    def to_html(self) -> str:
        """The same for a notebook."""
        return html.table(HEADS, self.first(SHOWN).cells()) + "".join(html.note(line) for line in self._more())

    def _more(self) -> list[str]:
        more = len(self.names) - SHOWN
        return [f"and {more} more: summary() has all"] if more > 0 else []

    def to_frame(self) -> Any:
        """As a data frame of pandas, one line a parameter."""
        import pandas

        return pandas.DataFrame(self.table(), index=pandas.Index(self.names, name="parameter"))


def _known(draws: Draws, names: list[str]) -> Estimates:
    """Coefficients of the data as they are, intercepts first, and what has a natural scale of its own."""
    from .verdict import natural

    original = np.asarray(draws.values["original"], dtype=np.float64)
    intercepts = [at for at, name in enumerate(names) if name.endswith("(intercept)")]
    order = intercepts + [at for at in range(len(names)) if at not in intercepts]
    labels, columns = [names[at] for at in order], [original[..., order]]
    for name, values in natural(original, names).items():
        values = values.reshape(*original.shape[:2], -1)
        count = values.shape[2]
        labels += [name] if count == 1 else [f"{name}[{at}]" for at in range(count)]
        columns.append(values)
    return Estimates(labels, np.concatenate(columns, axis=2), draws.chained)


def _label(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else (name if name != BARE else "theta")


def plotted(estimates: Estimates, axes: Any = None) -> Any:
    """Marginal densities with their means and 90 % intervals, by matplotlib; the axes."""
    from matplotlib import pyplot

    count = len(estimates.names)
    if axes is None:
        columns = min(3, count)
        lines = -(-count // columns)
        _, axes = pyplot.subplots(lines, columns, figsize=(3.4 * columns, 2.3 * lines), squeeze=False, layout="constrained")
    table, places = estimates.table(), np.asarray(axes).ravel()
    for at, (name, place) in enumerate(zip(estimates.names, places)):
        values = estimates.values[..., at].ravel()
        place.hist(values, bins=40, density=True, histtype="stepfilled", alpha=0.35, color="C0")
        place.axvline(table["mean"][at], color="C0", linewidth=1.5)
        place.hlines(0, table["q5"][at], table["q95"][at], color="C3", linewidth=4, label="90 % interval")
        place.set(title=name, yticks=[])
    for place in places[count:]:
        place.set_visible(False)
    return axes
