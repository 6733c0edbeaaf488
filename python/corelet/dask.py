"""Coresets of Dask data frames: `corelet.dask.build(ddf, target=…, k=…)`.

Each partition becomes a shard in the memory of the worker to which Dask assigns it. A build sends a dozen queries to all shards, whose
answers do not grow with the number of rows. Dask keeps the lineage of every shard: if a worker is lost, its shards are recomputed,
with the same bits.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ._build import _count
from ._mixed import MixedFit
from .frames import cluster as _cluster
from .frames import gathered
from .results.certificate import Certificate
from .results.coreset import Coreset
from .results.review import KFold, Review
from ._progress import ProgressOption
from ._seeds import seeded
from .results.verdict import Verdict, chain_settings

__all__ = ["build", "certify", "check", "fit", "k_fold", "review", "update"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


AHEAD = 2
"""Partitions that are computed while one is written to the scratch file."""


@seeded
def build(
    ddf: Any,
    *,
    client: Any = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Coreset:
    """Choose at most k weighted rows of a Dask data frame: the coreset that `corelet.build` finds on one machine.

    Parameters
    ----------
    ddf
        A Dask data frame with all columns, including the target. It is read three times (the columns, the rows, and the cells of
        the chosen rows). Persist it if it fits in the memory of the workers, or if it is expensive to compute.
    client
        The `distributed.Client` to use; by default the current one.
    threads, progress
        As for `corelet.build`: threads of this process, which does little work.
    **keywords
        The keywords of `corelet.build`: `target`, `k`, `model`, `features`, … Arguments with one entry per row are names of columns.
        `memory` is the budget of one shard. `collapse` sends the distinct rows to this process, and `method="sparse-vi"` all rows.

    Returns
    -------
    Coreset
        Its `rows` are numbered from 0 through all partitions in their order.
    """
    with _Dask(ddf, client) as engine:
        return _cluster.build_on(engine, engine.schema, keywords, progress, threads)


@seeded
def check(
    coreset: Coreset, ddf: Any, *, client: Any = None, progress: ProgressOption = None, **settings: Any
) -> Verdict:
    """Certify a coreset's posterior with draws from it and one pass over all rows of a Dask data frame.

    `settings` are the settings of the chains, as for `corelet.check`: `draws`, `warmup`, `chains`, `target_accept`, `max_depth`, `seed`,
    `threads`.
    """
    with _Dask(ddf, client) as engine:
        return _cluster.check_on(engine, engine.schema, coreset, settings, progress)


def certify(
    draws: Any,
    ddf: Any,
    *,
    model: Optional[str] = None,
    log_density: Any = None,
    scale: str = "original",
    client: Any = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Certificate:
    """Certify whether given draws are draws of the posterior of all rows of a Dask data frame.

    Arguments are those of `corelet.certify`, with names of columns. All partitions compute gradients at 250 draws at a time.
    """
    with _Dask(ddf, client) as engine:
        settings = dict(model=model, **keywords)
        return _cluster.certify_on(engine, engine.schema, draws, settings, (scale, log_density), progress, threads)


@seeded
def fit(ddf: Any, *, random: str, client: Any = None, **keywords: Any) -> MixedFit:
    """Fit a mixed model to a Dask data frame. The result equals that of `corelet.fit(random=…)` for the same rows in one table, bit for bit.

    The rows of a group may be in several partitions. The workers compute the partitions, and send them to this process one after the
    other. This process sorts the rows by group, in scratch files beyond `memory`, and makes all passes over them.

    Parameters
    ----------
    ddf
        A Dask data frame with all columns, including the target; it is read once. If you name `features`, other columns are not sent.
    random
        The random effects, as for `corelet.fit`: `"customer"`, `"1 + price | customer"`.
    client
        The `distributed.Client` to use; by default the current one.
    **keywords
        The keywords of `corelet.fit`: `target`, `k`, `model`, `memory`, `scratch`, …

    Returns
    -------
    MixedFit
        Its `rows` are numbered from 0 through all partitions in their order.
    """
    asked = dict(random=random, **keywords)
    with _Dask(ddf, client) as engine:
        columns = gathered.needed([str(name) for name in engine.schema.columns], asked)
        schema = gathered.schema_of(engine.schema[columns])
        return gathered.fit_here(schema, engine.batches(columns, schema), asked)


@seeded
def review(
    draws: Any,
    ddf: Any,
    *,
    model: Optional[str] = None,
    log_weights: Any = None,
    scale: str = "original",
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = False,
    evidence: bool = False,
    seed: int = 0,
    client: Any = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Review:
    """Leave-one-out, WAIC, predictive checks and the influence of rows, from one pass over all rows of a Dask data frame.

    Arguments are those of `corelet.review`, with names of columns. Each partition sums over its own rows. `pointwise=True` also sends three
    numbers per row to this process, which `corelet.compare` needs. `by` is only for tables on one machine. Rows are numbered from 0
    through all partitions in their order.
    """
    own = dict(log_weights=log_weights, scale=scale, most=most, outcomes=outcomes, pointwise=pointwise, evidence=evidence, seed=seed)
    own["by"] = keywords.pop("by", None)
    with _Dask(ddf, client) as engine:
        return _cluster.review_on(engine, engine.schema, draws, dict(model=model, **keywords), own, progress, threads)


@seeded
def k_fold(
    ddf: Any,
    *,
    folds: int = 10,
    k: Optional[int] = None,
    model: str = "logistic",
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    target_accept: float = 0.8,
    max_depth: int = 10,
    seed: int = 0,
    client: Any = None,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> KFold:
    """K-fold cross-validation of the rows of a Dask data frame. Arguments are those of `corelet.k_fold`, with names of columns.

    The rows of one fold at a time are sent to this process.
    """
    settings = chain_settings(draws, tune, chains, target_accept, max_depth, seed)
    counts = (_count("folds", folds), None if k is None else _count("k", k))
    with _Dask(ddf, client) as engine:
        return _cluster.k_fold_on(engine, engine.schema, dict(model=model, **keywords), counts, settings, progress, threads)


def update(coreset: Coreset, ddf: Any, *, client: Any = None, **keywords: Any) -> Coreset:
    """A coreset of the rows that the given one represents and of those of a Dask data frame. Keywords are those of `Coreset.update`.

    Partitions are added one after the other, each as new rows. One partition at a time is sent to this process.
    """
    with _Dask(ddf, client) as engine:
        return _cluster.update_on(engine.each(), coreset, keywords)


class _Dask:
    """Partitions as tasks, shards as futures: placement, retries and lineage are Dask's."""

    def __init__(self, ddf: Any, client: Any) -> None:
        try:
            from dask.dataframe.dispatch import meta_nonempty
            from distributed import get_client
        except ImportError:
            raise ImportError("corelet.dask needs dask and distributed: pip install 'corelet[dask]'") from None
        if not hasattr(ddf, "to_delayed") or not hasattr(ddf, "_meta"):
            raise TypeError(f"ddf is of type {type(ddf).__name__}; it must be a Dask data frame")
        self.client = get_client() if client is None else client
        self.schema = meta_nonempty(ddf._meta)
        self.tables = ddf.to_delayed()
        self.partitions = len(self.tables)
        self.shards: dict[int, Any] = {}

    def __enter__(self) -> _Dask:
        return self

    def __exit__(self, *_: object) -> None:
        for shard in self.shards.values():
            shard.release()
        self.shards.clear()

    def look(self, question: bytes) -> list[bytes]:
        return self._gathered(self._of_tables(_cluster.look, dict.fromkeys(range(self.partitions), question)))

    def hold(self, plan: bytes, partitions: list[int]) -> list[bytes]:
        made = self._of_tables(_cluster.make, dict.fromkeys(partitions, plan))
        self.shards = dict(zip(partitions, made))
        return self._asked(_made, partitions)

    def ask(self, question: bytes, partitions: list[int]) -> list[bytes]:
        # A task of its own, so that the question travels once to each worker, and can be sent again.
        asked = self.client.submit(_itself, question, key=_key("question"))
        try:
            return self._asked(_answer, partitions, asked)
        finally:
            asked.release()

    def cells(self, rows: Mapping[int, list[int]]) -> list[dict[str, Any]]:
        return self._gathered(self._of_tables(_cluster.cells, rows))

    def batches(self, columns: list[str], schema: Any) -> Iterator[Any]:
        """The rows of all partitions, in their order."""
        from dask.delayed import delayed

        task, waiting = delayed(_arrow, pure=False), deque[Any]()
        try:
            for at in range(self.partitions + AHEAD):
                if at < self.partitions:
                    waiting.append(self.client.compute(task(self.tables[at], columns, schema, at)))
                if at >= AHEAD:
                    made = waiting.popleft()
                    table = made.result()
                    made.release()
                    yield from table.to_batches()
        finally:
            for made in waiting:
                made.cancel()

    def each(self) -> Iterator[Any]:
        """The tables, one at a time."""
        for table in self.tables:
            future = self.client.compute(table)
            try:
                yield future.result()
            finally:
                future.release()

    def _of_tables(self, function: Any, arguments: Mapping[int, Any]) -> list[Any]:
        """Tasks on partitions as they come, each with an argument."""
        from dask.delayed import delayed

        task = delayed(function, pure=False)
        # Bytes that all tasks share are one node of the graph.
        shared = {id(argument): delayed(argument, pure=False) for argument in arguments.values()}
        tasks = [task(self.tables[at], at, shared[id(argument)]) for at, argument in arguments.items()]
        futures: list[Any] = self.client.compute(tasks)
        return futures

    def _asked(self, function: Any, partitions: list[int], *arguments: Any) -> list[bytes]:
        keys = [_key(function.__name__) for _ in partitions]
        return self._gathered(
            [self.client.submit(function, self.shards[at], *arguments, key=key) for at, key in zip(partitions, keys)]
        )

    def _gathered(self, futures: list[Any]) -> list[Any]:
        try:
            answers: list[Any] = self.client.gather(futures)
            return answers
        finally:
            # An exception holds on to what it passed through.
            for future in futures:
                future.release()


def _key(name: str) -> str:
    return f"corelet-{name.strip('_')}-{uuid.uuid4().hex}"


def _arrow(table: Any, columns: list[str], schema: Any, partition: int) -> Any:
    return gathered.batches_of(table[columns], schema, partition)


def _itself(question: bytes) -> bytes:
    return question


def _made(shard: Any) -> bytes:
    answer: bytes = shard.made()
    return answer


def _answer(shard: Any, question: bytes) -> bytes:
    answer: bytes = shard.answer(question)
    return answer
