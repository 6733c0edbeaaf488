"""The result of a build: chosen rows, their weights, and what they are worth."""

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
    """½‖r‖² on draws that no method has seen: to leading order the divergence. None where it is not known."""
    heldout_draws: int
    """How many draws those are."""
    residual_nats: float
    """½‖r‖² in the embedding that the coreset was built in. For embeddings by draws it flatters."""
    kl_forward: Optional[float] = None
    """KL(π ‖ π_w) between the Laplace fits; exact for conjugate models."""
    kl_reverse: Optional[float] = None
    """KL(π_w ‖ π) between the Laplace fits."""
    map_distance: Optional[float] = None
    """Distance of the two modes on the standardised scale."""
    verdict: Optional[Verdict] = None
    """The grade that `corelet.check` gave, once it has been asked for one."""
    judged_on: str = "posterior"
    """Of what the draws are: `posterior`, of all rows or near it; `pilot`; or `own`, of the coreset itself."""

    @property
    def judgement(self) -> str:
        """The verdict, where there is one, and the divergence in words."""
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
"""Rows by which a check knows the data again."""


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
    """Weighted rows that stand in for all rows when a posterior is computed.

    The weights multiply the log-likelihood: fit the model to `rows` with each row's log-likelihood times its weight, and leave the
    prior as it is. Frequency weights of the data are included in them. Where `rest` is not None, add that term too:
    `rest.pymc`, `rest.numpyro` and `rest.stan` give the line.
    """

    rows: NDArray[np.int64]
    """The chosen rows, ascending, from 0."""
    weights: NDArray[np.float64]
    """Their weights, > 0."""
    quality: Quality
    """What they are worth."""
    summary: dict[str, Any]
    """All that is known about the build; the keys are those of the command's `--json`."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The chosen rows of the data, column by column."""
    warnings: list[str] = field(default_factory=list)
    """What should not be overlooked; also issued as Python warnings."""
    lines: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """The name of each parameter."""
    options: dict[str, Any] = field(default_factory=dict)
    """The keywords it was built with."""
    groups: Optional[NDArray[Any]] = None
    """The labels of the chosen groups, where groups were chosen; `rows` are then all rows of these."""
    group_ids: Optional[NDArray[np.int64]] = None
    """The place of each chosen group among all: of labels in their order, of a column in that in which they first come."""
    group_weights: Optional[NDArray[np.float64]] = None
    """The weight of each chosen group, which all of its rows have."""
    design: Optional[Design] = field(default=None, repr=False)
    """The formula it was built with, where there was one, and how it codes new rows: `design.features(frame)`."""
    sketch: Optional[Sketch] = field(default=None, repr=False)
    """The log-likelihoods of some rows where it was built, by which `corelet.check` knows the data again."""

    def __len__(self) -> int:
        return len(self.rows)

    def say_divergence(self, words: str) -> None:
        """Puts these words in place of what the build said of its divergence, and of what it made of it."""
        at = next((i for i, line in enumerate(self.lines) if line.startswith("  divergence")), None)
        if at is None:
            return
        rest = itertools.dropwhile(lambda line: line.startswith(" " * 17), self.lines[at + 1 :])
        self.lines = [*self.lines[:at], f"  divergence     {words}", *rest]

    @property
    def rest(self) -> Optional[Rest]:
        """The Gaussian factor that belongs to the rows; None where the rows are used by themselves."""
        return Rest.of(self.metadata, self.sampling)

    @property
    def unit_ids(self) -> NDArray[np.int64]:
        """What was chosen: the numbers of rows, or of groups."""
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
        """Number of points and residual ‖y − Φw‖ along the way, for methods that yield every size."""
        path = self.summary["path"]
        points = np.array([point for point, _ in path], dtype=np.int64)
        return points, np.array([residual for _, residual in path], dtype=np.float64)

    @property
    def sample_weight(self) -> NDArray[np.float64]:
        """One weight for every row of the input, 0 for those that were not chosen."""
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
        """Draws from the coreset's posterior by NUTS, for ArviZ; the cost does not depend on n.

        What ArviZ's own functions take and return: an xarray `DataTree`, or an `InferenceData` before ArviZ 1. The posterior
        has the variables `original` (coefficients of the data as they are) and `standardised`, with the dimension `parameter`; warm-up and sample statistics are in groups of their own, and so are `log_likelihood`,
        `posterior_predictive` and `observed_data` of the coreset's own rows, each the variable `y` with the dimension `row`
        (without their weights; classes by their numbers). The keywords are those of
        `corelet sample`; `tune` and `random_seed` are other names of `warmup` and `seed`. `corelet.check` says whether these
        draws can be trusted.
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
        """Predict new rows by the coreset's posterior: mean, standard deviation and quantiles for each.

        Parameters
        ----------
        new
            Rows with the columns that the coreset was built on: an array, a table, a mapping of columns. They are encoded as
            those were; a missing column, an unseen level (see `unseen`) and a missing value are errors.
        idata
            Draws from `sample`, `Fit.draws` or `Fit.idata`; by default those of the last verdict, or fresh ones. ArviZ is not needed.
        kind
            `mean` for the distribution of E[y] given the coefficients (the probability of success, for two classes), which
            says how well it is known; `outcome` for that of y itself.
        exposure, offset
            Of each new row, where the model has one: an array, or the name of a column; by default the column that the
            coreset's rows had it in.
        quantiles, seed
            The quantiles to return; the random seed of simulated outcomes.
        unseen
            `error` refuses a level that the coreset's data did not have; `baseline` takes it as the base level of its column, with a
            warning. A formula refuses such levels itself.

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
            Rows as `corelet.build` took them, the target a column of them or `y`.
        exposure, trials, event, offset
            Of each row, where the coreset was built with one: an array, or the name of a column; by default the column that the
            coreset's rows had it in.
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
        """A coreset of the rows that this one stands for and of new ones, for a model that Corelet knows. The earlier rows need not be there.

        Parameters
        ----------
        new, y
            Rows with the columns that the coreset was built on; the target a column of them or `y`. Another level or a column that is
            not there is an error, and so are rows that have been added before.
        exposure, trials, event, weights, offset
            Of each new row, where the coreset was built with one: an array, or the name of a column; by default the column that the
            coreset's rows had it in.
        earlier
            All rows that the coreset stands for, in the order in which they came: a table, a path, or a pair `(X, y)`. The verdict is then
            on all rows. Without it, it rests on the certificate of the earlier rows, and says how much of the bound on V does.
        rest
            `auto` or `gaussian`: a Gaussian may stand for new rows; `none`: rows alone, where the coreset has no Gaussian yet.
        drop_missing
            Whether rows with missing values are left out.
        allow_repeats
            Whether rows are added that look like some that are in already: others that are equal, as of the same people in another month.
        draws, tune, chains, target_accept, max_depth, seed, threads, progress
            As for `corelet.fit`.

        Returns
        -------
        Coreset
            Its `quality.verdict` has the grade. A posterior that has moved beyond where the earlier rows were certified is a C.
        """
        beside = dict(exposure=exposure, trials=trials, event=event, weights=weights, offset=offset)
        settings: dict[str, Any] = dict(
            draws=draws, warmup=tune, chains=chains, target_accept=target_accept, max_depth=max_depth, seed=seed
        )
        from .update import update
        from .verdict import chain_settings

        return update(self, new, y, beside, earlier, (rest, drop_missing, allow_repeats), chain_settings(**settings), threads, progress)

    def to_frame(self, library: str = "pandas") -> Any:
        """The chosen rows as a data frame of pandas (or polars): `row`, `weight`, and the columns of the data."""
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
        """Draws the divergence against the number of points, with matplotlib, and returns the axes."""
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(5, 3.2))[1] if ax is None else ax
        points, residual = self.path
        if len(points) == 0:
            points, residual = np.array([len(self)]), np.array([float(self.summary["residual"])])
        nats = np.maximum(0.5 * residual**2, np.finfo(float).tiny)
        axes.plot(points, nats, marker="." if len(points) < 30 else None, label="in the embedding")
        if self.quality.nats is not None:
            label = f"on {self.quality.heldout_draws} unseen draws"
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
    """What the native part takes for a coreset of data that it is given as well."""
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
