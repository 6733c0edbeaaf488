"""`Coreset.predict` and `Coreset.score`: predictions of new rows from a coreset's posterior, and ArviZ's groups with one entry per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from . import html
from .._build import paths_of
from ..frames.columns import cells_of, column, length, names_of, parts_of
from .._lib import CoreletError
from .._progress import reporter
from .._types import Execution, Part
from .._warn import warn

if TYPE_CHECKING:
    from ..frames.formula import Design
    from .coreset import Coreset

Floats = NDArray[np.float64]
Rows = Union[tuple[str, list[Part]], tuple[list[str], Optional[str]]]


@dataclass(frozen=True, repr=False)
class Prediction:
    """The predictive distribution of each new row; for `softmax` and `ordinal`, of each class of each row."""

    mean: Floats
    """The mean of each row; for two classes the probability of success, for `binomial` that of one trial. For several classes, their
    probabilities, rows by classes."""
    sd: Floats
    """The standard deviation, in the same shape."""
    quantiles: Floats
    """Rows by quantiles; rows by classes by quantiles."""
    levels: tuple[float, ...]
    """The levels of the quantiles."""
    kind: str
    """`mean`: the posterior of E[y] given the coefficients. `outcome`: the posterior predictive distribution of y itself."""
    classes: tuple[str, ...] = ()
    """The classes, if there are several."""

    def __len__(self) -> int:
        return len(self.mean)

    def table(self) -> dict[str, Floats]:
        """Columns by name: `mean`, `sd`, `q5`, …; for several classes `CLASS:mean`, …."""
        prefixes = [f"{name}:" for name in self.classes] if self.mean.ndim > 1 else [""]
        mean, sd = (values.reshape(len(self), -1) for values in (self.mean, self.sd))
        quantiles = self.quantiles.reshape(len(self), len(prefixes), len(self.levels))
        columns: dict[str, Floats] = {}
        for at, prefix in enumerate(prefixes):
            columns[f"{prefix}mean"], columns[f"{prefix}sd"] = mean[:, at], sd[:, at]
            for place, level in enumerate(self.levels):
                columns[f"{prefix}q{round(100 * level, 4):g}"] = quantiles[:, at, place]
        return columns

    def to_frame(self) -> Any:
        """A pandas data frame with one line per row."""
        import pandas

        return pandas.DataFrame(self.table())

    def _title(self) -> str:
        what = "E[y] given the coefficients" if self.kind == "mean" else "y"
        if self.mean.ndim > 1:
            what = "the probability of each class" if self.kind == "mean" else "the class"
        return f"{len(self)} row{'' if len(self) == 1 else 's'}, the distribution of {what}"

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The column heads and the first rows, with digits chosen from the standard deviations."""
        table = self.table()
        shown = [[str(row), *(_figure(values[row], sd) for values, sd in _with_sd(table, row))] for row in range(min(5, len(self)))]
        return ["row", *table], shown

    def __repr__(self) -> str:
        heads, cells = self._cells()
        lines = [heads, *cells]
        widths = [max(len(line[j]) for line in lines) for j in range(len(heads))]
        body = ["  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        more = [f"  and {len(self) - 5} more"] if len(self) > 5 else []
        return "\n".join([f"<corelet.Prediction: {self._title()}", *body, *more]) + ">"

    def _repr_html_(self) -> str:
        heads, cells = self._cells()
        more = f"; {len(self) - 5} more" if len(self) > 5 else ""
        return html.note(self._title() + more) + html.table(heads, cells)


def _with_sd(table: Mapping[str, Floats], row: int) -> list[tuple[Floats, float]]:
    """Each column with the standard deviation of its row and class."""
    return [(values, float(table[f"{name.rpartition(':')[0]}:sd" if ":" in name else "sd"][row])) for name, values in table.items()]


def _figure(x: float, sd: float) -> str:
    """Two digits of the standard deviation, and as many decimals of what goes with it."""
    if not (sd > 0 and math.isfinite(x)):
        return f"{x:.4g}"
    decimals = 1 - math.floor(math.log10(sd * 1.005))
    return f"{x:.{max(decimals, 0)}f}" if decimals <= 9 else f"{x:.3e}"


@dataclass(frozen=True, repr=False)
class Score:
    """The log predictive density of rows whose outcome is known, in nats."""

    each: Floats
    """For each row, the log of its mean likelihood over the draws."""

    @property
    def total(self) -> float:
        """Sum over all rows."""
        return float(self.each.sum())

    @property
    def mean(self) -> float:
        """Mean over rows."""
        return float(self.each.mean())

    @property
    def mean_se(self) -> float:
        """The standard error of the mean over rows."""
        return float(self.each.std(ddof=1) / math.sqrt(len(self.each))) if len(self.each) > 1 else float("nan")

    def __len__(self) -> int:
        return len(self.each)

    def to_frame(self) -> Any:
        """A pandas data frame with one line per row: `log_density`."""
        import pandas

        return pandas.DataFrame({"log_density": self.each})

    def __repr__(self) -> str:
        rows = f"{len(self)} row{'' if len(self) == 1 else 's'}"
        average, error = (_figure(x, self.mean_se) for x in (self.mean, self.mean_se))
        return f"<corelet.Score: {average} ± {error} nats a row, the log predictive density of {rows}; {self.total:.6g} in all>"


def predict(
    coreset: Coreset,
    new: Any,
    *,
    idata: Any = None,
    kind: str = "mean",
    exposure: Any = None,
    offset: Any = None,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    seed: int = 0,
    unseen: str = "error",
) -> Prediction:
    """See `Coreset.predict`."""
    if unseen not in ("error", "baseline"):
        raise CoreletError(f"unseen is '{unseen}', but it must be one of error, baseline")
    if kind not in ("mean", "outcome"):
        raise CoreletError(f"kind is '{kind}', but it must be one of mean, outcome")
    levels = tuple(float(level) for level in quantiles)
    if not all(0 <= level <= 1 for level in levels):
        raise CoreletError(f"quantiles are {list(levels)}, but they must be between 0 and 1")
    notes = _notes(coreset)
    data = _rows(coreset, new, {"offset": offset})
    given = None if exposure is None else exposure_of(data, exposure)
    made = _lib.predict(data, notes, _draws(coreset, idata), given, (kind, levels, seed, unseen == "baseline"))
    return prediction_of(made, kind, levels)


def prediction_of(made: Mapping[str, Any], kind: str, levels: tuple[float, ...]) -> Prediction:
    """From what the native part returns."""
    warn(*made["warnings"])
    width, classes = int(made["columns"]), tuple(made["classes"])
    shape = (-1, width) if width > 1 else (-1,)
    cuts = made["quantiles"].reshape(len(made["mean"]) // width, *shape[1:], len(levels))
    return Prediction(made["mean"].reshape(shape), made["sd"].reshape(shape), cuts, levels, kind, classes)


def score(coreset: Coreset, new: Any, y: Any, beside: Mapping[str, Any], idata: Any) -> Score:
    """See `Coreset.score`; `beside` has the exposure, the trials, the event and the offset, each where it is given."""
    notes = _notes(coreset)
    data = rows_with_target(coreset, new, y, beside)
    return Score(_lib.score_rows(data, notes, _draws(coreset, idata)))


def rows_with_target(coreset: Coreset, new: Any, y: Any, beside: Mapping[str, Any]) -> Rows:
    """Rows whose outcome is known, as the native part takes them."""
    if coreset.design is not None:
        y = coreset.design.target_of(new) if y is None else y
    data = _rows(coreset, new, beside)
    if y is not None:
        name, parts = str(coreset.options["target"]), data[1]
        if not isinstance(parts, list):
            raise CoreletError("the new rows are a file, so the target must be a column of it")
        if name in names_of(parts):
            raise CoreletError("the target is given twice: as y and as a column of the new rows")
        parts.append(column(name, y))
    return data


def pointwise(
    kept: Mapping[str, Any], rows: NDArray[np.int64], posterior: Mapping[str, Any], seed: int = 0
) -> dict[str, dict[str, Any]]:
    """ArviZ's groups with one entry per row: `log_likelihood`, `posterior_predictive` and `observed_data`."""
    if len(rows) == 0:
        return {}
    draws = np.asarray(posterior["standardised"], dtype=np.float64)
    flat = np.ascontiguousarray(draws.reshape(-1, draws.shape[-1]))
    values, outcomes = _lib.pointwise(kept, flat, seed)
    shape = (*draws.shape[:2], len(rows))
    groups = {"log_likelihood": {"y": values.reshape(shape)}}
    if outcomes is not None:
        target = np.asarray(kept["target"])
        signs = set(np.unique(target)) <= {-1.0, 1.0} and '"logistic"' in kept["model"]
        groups["posterior_predictive"] = {"y": outcomes.reshape(shape)}
        groups["observed_data"] = {"y": (target + 1) / 2 if signs else target}
    return groups


def _notes(coreset: Coreset) -> dict[str, str]:
    """What the coreset says of its encoding and its model."""
    if not coreset.metadata:
        raise CoreletError("all rows, as fit(..., full=True) has them, predict nothing here: build a coreset of them")
    if "corelet.encoding" not in coreset.metadata:
        raise CoreletError(
            "this coreset was built from log-likelihoods, so corelet has no model of its outcome; predict in the tool that the model is "
            "written in, from the draws (idata)"
        )
    return dict(coreset.metadata)


def _rows(coreset: Coreset, new: Any, beside: Mapping[str, Any]) -> Rows:
    """New rows as the native part takes them; what a fit alone needs, they need not have."""
    needless = [str(coreset.options.get(role)) for role in ("weights", "groups")]
    return new_rows(coreset.design, coreset.options, new, beside, needless)


def new_rows(
    design: Optional[Design], options: Mapping[str, Any], new: Any, beside: Mapping[str, Any], needless: Sequence[str]
) -> Rows:
    """New rows with what is given beside them in the columns that the rows of the fit had it in; `needless` columns may be missing."""
    given: dict[str, Any] = {}
    for role, values in beside.items():
        name = options.get(role)
        if values is not None and name is None:
            raise CoreletError(f"{role} is given, but the coreset was built without")
        if values is not None:
            given[str(name)] = new[values] if isinstance(values, str) else values
    if design is not None:
        return ("the new rows", parts_of(design.table(new, given={**dict.fromkeys(needless), **given}), options))
    paths = paths_of(new, None, given)
    if paths is not None:
        return (paths, None)
    parts = [part for part in parts_of(new, options) if len(part[0]) != 1 or part[0][0] not in given]
    for name, values in given.items():
        parts.append(column(name, values))
        if len(parts[-1][1]) != length(parts):
            raise CoreletError(f"{name} has {len(parts[-1][1])} numbers, but there are {length(parts)} new rows")
    return ("the new rows", parts)


def _draws(coreset: Coreset, idata: Any) -> Floats:
    """Draws of the parameters of the standardised features, all chains together."""
    if idata is None:
        verdict = coreset.quality.verdict
        idata = verdict.draws if verdict is not None and verdict.draws else _fresh(coreset)
    values = _standardised(idata)
    if values.shape[-1] != len(coreset.names):
        have, need = values.shape[-1], len(coreset.names)
        raise CoreletError(f"the draws have {have} parameters, the coreset {need}: they are not of this coreset")
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]))


def _fresh(coreset: Coreset) -> dict[str, Any]:
    """The draws of `Coreset.sample`, as arrays."""
    from .verdict import chain_settings, draws_of

    with reporter(None) as report:
        return draws_of(coreset, chain_settings(), Execution(report, None))


def _standardised(idata: Any) -> Floats:
    """That variable, by chains and draws: of an InferenceData, a DataTree or a mapping of groups, or of a posterior alone (`Fit.draws`)."""
    groups: Mapping[str, Any] = idata if isinstance(idata, Mapping) else {}
    posterior = groups.get("posterior", groups)
    if "standardised" not in posterior:
        raise CoreletError(
            "idata has no variable 'standardised' in its posterior: give what `sample`, `Verdict.idata` or `Fit.idata` returned"
        )
    return np.asarray(posterior["standardised"], dtype=np.float64)


def exposure_of(data: Rows, exposure: Any) -> Floats:
    """The exposure of each new row: an array, or a column of them."""
    parts = data[1]
    if not isinstance(parts, list):
        raise CoreletError("the new rows are a file, so their exposure must be the column that the coreset was built with")
    values = _column(parts, exposure) if isinstance(exposure, str) else _cells([column("exposure", exposure)], "exposure")
    rows = length(parts)
    if len(values) != rows or not (values > 0).all():
        raise CoreletError("exposure must be one number above 0 for each new row")
    return values


def _column(parts: list[Part], name: str) -> Floats:
    if name not in names_of(parts):
        raise CoreletError(f"the new rows have no column '{name}'")
    return _cells(parts, name)


def _cells(parts: list[Part], name: str) -> Floats:
    cells = dict(cells_of(parts, np.arange(length(parts))))
    try:
        return np.ascontiguousarray(cells[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CoreletError(f"'{name}' is not numeric") from error
