"""The result of a build: chosen rows, their weights, and the divergence of their posterior."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from . import html
from ..frames.columns import column
from ..frames.formula import Design
from .._progress import ProgressOption
from .._seeds import seeded
from .rest import Rest

if TYPE_CHECKING:
    from .predict import Prediction, Score
    from .verdict import Verdict


@dataclass(frozen=True)
class Quality:
    """The divergence of the coreset's posterior from the posterior of all rows, in nats."""

    nats: Optional[float]
    """½‖r‖² on held-out draws, which no method has used: the divergence to leading order. None if unknown."""
    heldout_draws: int
    """The number of held-out draws."""
    residual_nats: float
    """½‖r‖² in the embedding that the coreset was built in. For a draws embedding it is too optimistic."""
    kl_forward: Optional[float] = None
    """KL(π ‖ π_w) between the Laplace fits; exact for conjugate models."""
    kl_reverse: Optional[float] = None
    """KL(π_w ‖ π) between the Laplace fits."""
    map_distance: Optional[float] = None
    """Distance of the two modes on the standardised scale."""
    verdict: Optional[Verdict] = None
    """The verdict of `corelet.check`, once it has been called."""
    judged_on: str = "posterior"
    """Where the held-out draws come from: `posterior`, of all rows or near it; `pilot`; or `own`, of the coreset itself."""

    @property
    def judgement(self) -> str:
        """The verdict, if there is one, and the divergence in words."""
        return self._worded if self.verdict is None else f"{self.verdict.headline}; {self._worded}"

    @property
    def _worded(self) -> str:
        nats = self.kl_forward if self.kl_forward is not None else self.nats
        words = "not judged" if nats is None else _lib.judgement(nats)
        if self.judged_on == "pilot" and nats is not None:
            words = (
                f"judged on a pilot ({nats:.2g} nats there), which says little of the posterior: sample the weighted rows "
                "and build again at those draws"
            )
        return words

    def __repr__(self) -> str:
        shown = {"nats": self.nats, "kl_forward": self.kl_forward, "kl_reverse": self.kl_reverse}
        numbers = ", ".join(f"{name}={value:.3g}" for name, value in shown.items() if value is not None)
        return f"Quality({numbers or 'unknown'}: {self.judgement})"


SKETCH = 1000
"""Number of rows by which a check recognises the data."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """The mean log-likelihood of some rows over the draws that a coreset was built on."""

    rows: NDArray[np.int64]
    means: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.int64], columns: NDArray[np.float64]) -> Sketch:
        """From rows and their log-likelihoods, rows × draws: some of them, evenly spaced."""
        some = slice(None, None, -(-len(rows) // SKETCH) or 1)
        return cls(rows[some], columns[some].mean(axis=1))

    def knows(self, means: NDArray[np.float64]) -> bool:
        """Whether these means, of the same rows at other draws, are of the same data in the same order."""
        if np.ptp(self.means) == 0.0 or np.ptp(means) == 0.0:
            return bool(np.ptp(self.means) == np.ptp(means))
        return bool(np.corrcoef(_ranks(self.means), _ranks(means))[0, 1] > 0.5)


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(np.float64)


@dataclass(eq=False, repr=False)
class Coreset:
    """Weighted rows whose posterior closely approximates that of all rows.

    The weights multiply the log-likelihood: fit the model to `rows`, multiply the log-likelihood of each row by its weight, and leave the
    prior unchanged. The weights include frequency weights of the data. If `rest` is not None, add that term too:
    `rest.pymc`, `rest.numpyro` and `rest.stan` provide the line.
    """

    rows: NDArray[np.int64]
    """The chosen rows, ascending, from 0."""
    weights: NDArray[np.float64]
    """Their weights, > 0."""
    quality: Quality
    """The divergence of their posterior."""
    summary: dict[str, Any]
    """All facts about the build; the keys are those of the command's `--json`."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The chosen rows of the data, column by column."""
    warnings: list[str] = field(default_factory=list)
    """Remarks that you should read; also issued as Python warnings."""
    lines: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """The name of each parameter."""
    options: dict[str, Any] = field(default_factory=dict)
    """The keywords of the build."""
    groups: Optional[NDArray[Any]] = None
    """The labels of the chosen groups, if groups were chosen; `rows` then holds all of their rows."""
    group_ids: Optional[NDArray[np.int64]] = None
    """The number of each chosen group: in the order of the labels for an array, in the order of first appearance for a column."""
    group_weights: Optional[NDArray[np.float64]] = None
    """The weight of each chosen group, which applies to all of its rows."""
    design: Optional[Design] = field(default=None, repr=False)
    """The formula it was built with, where there was one, and how it codes new rows: `design.features(frame)`."""
    sketch: Optional[Sketch] = field(default=None, repr=False)
    """The log-likelihoods of some rows where it was built, by which `corelet.check` knows the data again."""

    def __len__(self) -> int:
        return len(self.rows)

    def say_divergence(self, words: str) -> None:
        """Replaces what the build reported about its divergence by these words."""
        at = next((i for i, line in enumerate(self.lines) if line.startswith("  divergence")), None)
        if at is None:
            return
        rest = itertools.dropwhile(lambda line: line.startswith(" " * 17), self.lines[at + 1 :])
        self.lines = [*self.lines[:at], f"  divergence     {words}", *rest]

    @property
    def rest(self) -> Optional[Rest]:
        """The Gaussian factor that belongs to the rows; None if the rows are used by themselves."""
        return Rest.of(self.metadata, self.sampling)

    @property
    def unit_ids(self) -> NDArray[np.int64]:
        """The numbers of the chosen rows, or of the chosen groups."""
        return self.rows if self.group_ids is None else self.group_ids

    @property
    def unit_weights(self) -> NDArray[np.float64]:
        """The weight of each of `unit_ids`."""
        return self.weights if self.group_weights is None else self.group_weights

    @property
    def method(self) -> str:
        """The method that chose the rows."""
        return str(self.summary["method"])

    @property
    def status(self) -> str:
        """Why the solver stopped: `completed`, `numerical-floor`, `stopped`, …"""
        return str(self.summary["status"])

    @property
    def path(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Number of points and residual ‖y − Φw‖ along the search, for methods that produce every size."""
        path = self.summary["path"]
        points = np.array([point for point, _ in path], dtype=np.int64)
        return points, np.array([residual for _, residual in path], dtype=np.float64)

    @property
    def sample_weight(self) -> NDArray[np.float64]:
        """One weight for every row of the input, 0 for rows that were not chosen."""
        dense = np.zeros(int(self.summary["n"]) + int(self.summary["rows_dropped"]))
        dense[self.rows] = self.weights
        return dense

    @seeded
    def sample(
        self,
        *,
        draws: int = 1000,
        warmup: int = 500,
        chains: int = 4,
        target_accept: float = 0.8,
        max_depth: int = 10,
        seed: int = 0,
        threads: Optional[int] = None,
        progress: ProgressOption = None,
        tune: Optional[int] = None,
        random_seed: Optional[int] = None,
    ) -> Any:
        """Sample the coreset's posterior by NUTS, for ArviZ; the cost does not depend on n.

        Returns an xarray `DataTree`, or an `InferenceData` before ArviZ 1. The posterior has the variables `original` (coefficients on the
        scale of the data) and `standardised`, with the dimension `parameter`. Warm-up and sample statistics are in groups of their own.
        So are `log_likelihood`, `posterior_predictive` and `observed_data` of the coreset's own rows: a variable `y` with the dimension
        `row`, without weights, and with classes as numbers. The keywords are those of `corelet sample`; `tune` and `random_seed` are
        other names for `warmup` and `seed`. `corelet.check` judges whether these draws can be trusted.
        """
        from .verdict import chain_settings, sample

        settings = chain_settings(draws, warmup, chains, target_accept, max_depth, seed, tune, random_seed)
        return sample(self, settings, threads, progress)

    @seeded
    def predict(
        self,
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
        """Predict new rows from the coreset's posterior: mean, standard deviation and quantiles of each.

        Parameters
        ----------
        new
            Rows with the columns that the coreset was built on: an array, a table, a mapping of columns. They are encoded in the same
            way; a missing column, an unseen level (see `unseen`) and a missing value are errors.
        idata
            Draws from `sample`, `Fit.draws` or `Fit.idata`; by default those of the last verdict, or fresh ones. ArviZ is not needed.
        kind
            `mean`: the posterior of E[y] given the coefficients (for two classes, of the probability of success); `outcome`: the posterior
            predictive distribution of y itself.
        exposure, offset
            The exposure and offset of each new row, if the model has them: an array, or the name of a column; by default the column of
            the same name as in the coreset's data.
        quantiles, seed
            The quantiles to return; the random seed of simulated outcomes.
        unseen
            `error` refuses an unseen level, which the coreset's data did not have; `baseline` treats it as the base level of its column,
            with a warning. A formula refuses such levels itself.

        Returns
        -------
        Prediction
            `mean`, `sd` and `quantiles` as arrays; `to_frame()` is a data frame.
        """
        from .predict import predict

        return predict(
            self,
            new,
            idata=idata,
            kind=kind,
            exposure=exposure,
            offset=offset,
            quantiles=quantiles,
            seed=seed,
            unseen=unseen,
        )

    def score(
        self,
        new: Any,
        y: Any = None,
        *,
        exposure: Any = None,
        trials: Any = None,
        event: Any = None,
        offset: Any = None,
        idata: Any = None,
    ) -> Score:
        """The log predictive density of rows whose outcome is known, under the coreset's posterior: `total`, `mean`, `mean_se`, `each`.

        Parameters
        ----------
        new, y
            Rows in the form of `corelet.build`, with the target as a column or as `y`.
        exposure, trials, event, offset
            These numbers for each row, if the coreset was built with them: an array, or the name of a column; by default the column of
            the same name as in the coreset's data.
        idata
            Draws from `sample`, `Fit.draws` or `Fit.idata`; by default those of the last verdict, or fresh ones. ArviZ is not needed.
        """
        from .predict import score

        beside = {"exposure": exposure, "trials": trials, "event": event, "offset": offset}
        return score(self, new, y, beside, idata)

    @seeded
    def update(
        self,
        new: Any,
        y: Any = None,
        *,
        exposure: Any = None,
        trials: Any = None,
        event: Any = None,
        weights: Any = None,
        offset: Any = None,
        earlier: Any = None,
        rest: str = "auto",
        drop_missing: bool = False,
        allow_repeats: bool = False,
        draws: int = 1000,
        tune: int = 500,
        chains: int = 4,
        target_accept: float = 0.8,
        max_depth: int = 10,
        seed: int = 0,
        threads: Optional[int] = None,
        progress: ProgressOption = None,
    ) -> Coreset:
        """A coreset of the rows that this one represents and of new rows, for a built-in model. The earlier rows are not needed.

        Parameters
        ----------
        new, y
            Rows with the columns that the coreset was built on, with the target as a column or as `y`. An unseen level or a missing
            column is an error, and so are rows that were already added.
        exposure, trials, event, weights, offset
            These numbers for each new row, if the coreset was built with them: an array, or the name of a column; by default the column
            of the same name as in the coreset's data.
        earlier
            All rows that the coreset represents, in the order in which they arrived: a table, a path, or a pair `(X, y)`. The verdict then
            covers all rows. Without them, the verdict rests on the certificate of the earlier rows, and says which part of the bound on V
            does.
        rest
            `auto` or `gaussian`: a Gaussian factor may represent new rows; `none`: rows alone, if the coreset has no Gaussian factor yet.
        drop_missing
            Whether to leave out rows with missing values.
        allow_repeats
            Whether to add rows that look like rows already included, because they are different rows with equal values (the same people
            in another month, say).
        draws, tune, chains, target_accept, max_depth, seed, threads, progress
            As for `corelet.fit`.

        Returns
        -------
        Coreset
            Its `quality.verdict` has the grade: a C if the posterior has moved out of the region in which the earlier rows were certified.
        """
        beside = dict(exposure=exposure, trials=trials, event=event, weights=weights, offset=offset)
        settings: dict[str, Any] = dict(
            draws=draws, warmup=tune, chains=chains, target_accept=target_accept, max_depth=max_depth, seed=seed
        )
        from .update import update
        from .verdict import chain_settings

        return update(self, new, y, beside, earlier, (rest, drop_missing, allow_repeats), chain_settings(**settings), threads, progress)

    def to_frame(self, library: str = "pandas") -> Any:
        """The chosen rows as a pandas (or polars) data frame: `row`, `weight`, and the columns of the data."""
        table: dict[str, Any] = {"row": self.rows, "weight": self.weights}
        for name, values in self.columns.items():
            while name in table:
                name = f"original_{name}"
            table[name] = values
        if library == "polars":
            import polars

            return polars.DataFrame(table)
        if library != "pandas":
            raise _lib.CoreletError(f"library is '{library}', but it must be one of pandas, polars")
        import pandas

        return pandas.DataFrame(table)

    def to_parquet(self, path: Union[str, PathLike[str]]) -> None:
        """Write the coreset to a file, as `corelet build -o` does: Parquet, or CSV or JSON by the extension.

        The file is written atomically, and `corelet evaluate --coreset` reads it.
        """
        parts = [column(name, values) for name, values in self.columns.items()]
        _lib.write_coreset(str(self.summary["data"]), parts, self.rows, self.weights, self.metadata, path)

    def plot(self, ax: Any = None) -> Any:
        """Plot the divergence against the number of points with matplotlib. Returns the axes."""
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(5, 3.2))[1] if ax is None else ax
        points, residual = self.path
        if len(points) == 0:
            points, residual = np.array([len(self)]), np.array([float(self.summary["residual"])])
        nats = np.maximum(0.5 * residual**2, np.finfo(float).tiny)
        axes.plot(points, nats, marker="." if len(points) < 30 else None, label="in the embedding")
        if self.quality.nats is not None:
            label = f"on {self.quality.heldout_draws} held-out draws"
            axes.plot([len(self)], [self.quality.nats], "o", color="C3", label=label)
        axes.set(xlabel="points", ylabel="divergence (nats)", yscale="log", title=f"{self.method}, {len(self)} points")
        axes.legend(frameon=False)
        return axes

    def __repr__(self) -> str:
        body = "\n".join(self.lines)
        verdict = f"\n  verdict        {self.quality.verdict.headline}" if self.quality.verdict else ""
        return f"<corelet.Coreset: {body}{verdict}\n{self._table()}>"

    def _repr_html_(self) -> str:
        divergences = (
            ("forward KL", self.quality.kl_forward),
            ("reverse KL", self.quality.kl_reverse),
            (f"on {self.quality.heldout_draws} held-out draws", self.quality.nats),
        )
        facts = [(name, f"{value:.3g}") for name, value in divergences if value is not None]
        title = self.lines[0] if self.lines else f"{len(self)} points"
        verdict = self.quality.verdict
        head = html.badge(verdict.grade, verdict.headline) if verdict is not None else ""
        judged = html.note(f"Divergence: {self.quality._worded}") + html.table(("divergence", "nats"), facts)
        rows = html.note("The rows with the largest weights") + html.table(("row", "weight", *self._shown_columns()), self._cells())
        said = html.folded("How it was built", self.lines[1:])
        return f"<div><strong>{escape(title)}</strong>{head}{judged}{rows}{said}</div>"

    def _shown_columns(self) -> list[str]:
        return list(self.columns)[:5]

    def _cells(self) -> list[list[str]]:
        """The rows with the largest weights, as text."""
        heaviest = np.argsort(-self.weights, kind="stable")[:5]
        return [
            [str(self.rows[j]), f"{self.weights[j]:.4g}", *(_short(self.columns[name][j]) for name in self._shown_columns())]
            for j in heaviest
        ]

    def _table(self) -> str:
        table = [["row", "weight", *self._shown_columns()], *self._cells()]
        widths = [max(len(line[j]) for line in table) for j in range(len(table[0]))]
        return "\n".join("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in table)


def _short(value: object) -> str:
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"
    return str(value)[:20]


def weighted_rows(coreset: Coreset) -> tuple[NDArray[np.int64], NDArray[np.float64], dict[str, str]]:
    """A coreset in the form that the native part reads, beside the data."""
    return (coreset.rows, coreset.weights, coreset.metadata)


def coreset_from(fields: Mapping[str, Any], options: Optional[Mapping[str, Any]] = None) -> Coreset:
    """From what the native part returns."""
    summary = json.loads(fields["summary"])
    quality = Quality(
        nats=summary["heldout_nats"],
        heldout_draws=summary["heldout_draws"],
        residual_nats=0.5 * summary["residual"] ** 2,
        kl_forward=summary.get("kl_forward"),
        kl_reverse=summary.get("kl_reverse"),
        map_distance=summary.get("map_distance"),
    )
    options, sampling = dict(options or {}), dict(fields["sampling"])
    coreset = Coreset(
        rows=fields["rows"],
        weights=fields["weights"],
        quality=quality,
        summary=summary,
        columns=fields["columns"],
        warnings=fields["warnings"],
        lines=fields["lines"],
        metadata=fields["metadata"],
        sampling=sampling,
        names=fields.get("names", []),
        options=options,
    )
    column = fields.get("group_column")
    if column is not None:
        ids, first = np.unique(fields["groups"], return_index=True)
        labels = np.asarray(coreset.columns[column])[first]
        coreset.groups, coreset.group_ids, coreset.group_weights = labels, ids, coreset.weights[first]
    return coreset
