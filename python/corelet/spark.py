"""Coresets of Spark data frames: `corelet.spark.build(sdf, target=…, k=…)`.

Each partition becomes a shard: bytes that Spark caches where it computed them. A build sends a dozen queries to all shards with
`mapInArrow`, whose answers do not grow with the number of rows. Spark keeps the lineage of its cache: if an executor is lost, its shards
are recomputed, with the same bits.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional

from ._build import _count
from .frames import cluster as _cluster

from . import _lib
from ._mixed import MixedFit
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


ANSWERS = "partition int, answer binary, error string"


@seeded
def build(
    sdf: Any, *, threads: Optional[int] = None, progress: ProgressOption = None, **keywords: Any
) -> Coreset:
    """Choose at most k weighted rows of a Spark data frame: the coreset that `corelet.build` finds on one machine.

    Parameters
    ----------
    sdf
        A Spark data frame with all columns, including the target. It is cached during the build, unless it is cached already.
    threads, progress
        As for `corelet.build`: threads of the driver, which does little work.
    **keywords
        The keywords of `corelet.build`: `target`, `k`, `model`, `features`, … Arguments with one entry per row are names of columns.
        `memory` is the budget of one shard. `collapse` sends the distinct rows to the driver, and `method="sparse-vi"` all rows.

    Returns
    -------
    Coreset
        Its `rows` are numbered from 0 through all partitions in their order.
    """
    with _Spark(sdf) as engine:
        return _cluster.build_on(engine, engine.schema.empty_table(), keywords, progress, threads)


@seeded
def check(coreset: Coreset, sdf: Any, *, progress: ProgressOption = None, **settings: Any) -> Verdict:
    """Certify a coreset's posterior with draws from it and one pass over all rows of a Spark data frame.

    `settings` are those of the chains, as for `corelet.check`: `draws`, `warmup`, `chains`, `target_accept`, `max_depth`, `seed`,
    `threads`.
    """
    with _Spark(sdf) as engine:
        return _cluster.check_on(engine, engine.schema.empty_table(), coreset, settings, progress)


@seeded
def fit(sdf: Any, *, random: str, **keywords: Any) -> MixedFit:
    """Fit a mixed model to a Spark data frame. The result equals that of `corelet.fit(random=…)` for the same rows in one table, bit for
    bit.

    The rows of a group may be in several partitions. The executors compute the partitions, and send them to the driver one after the
    other. The driver sorts the rows by group, in scratch files beyond `memory`, and makes all passes over them.

    Parameters
    ----------
    sdf
        A Spark data frame with all columns, including the target. If you name `features`, other columns are not sent.
    random
        The random effects, as for `corelet.fit`: `"customer"`, `"1 + price | customer"`.
    **keywords
        The keywords of `corelet.fit`: `target`, `k`, `model`, `memory`, `scratch`, …

    Returns
    -------
    MixedFit
        Its `rows` are numbered from 0 through all partitions in their order.
    """
    asked = dict(random=random, **keywords)
    with _Spark(sdf) as engine:
        columns = gathered.needed(engine.schema.names, asked)
        import pyarrow as pa

        schema = pa.schema([engine.schema.field(name) for name in columns])
        return gathered.fit_here(schema, engine.batches(columns, schema), asked)


@seeded
def certify(
    draws: Any,
    sdf: Any,
    *,
    model: Optional[str] = None,
    log_density: Any = None,
    scale: str = "original",
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Certificate:
    """Certify whether given draws are draws of the posterior of all rows of a Spark data frame.

    Arguments are those of `corelet.certify`, with names of columns. All partitions compute gradients at 250 draws at a time.
    """
    with _Spark(sdf) as engine:
        settings, schema = dict(model=model, **keywords), engine.schema.empty_table()
        return _cluster.certify_on(engine, schema, draws, settings, (scale, log_density), progress, threads)


@seeded
def review(
    draws: Any,
    sdf: Any,
    *,
    model: Optional[str] = None,
    log_weights: Any = None,
    scale: str = "original",
    most: int = 1000,
    outcomes: int = 100,
    pointwise: bool = False,
    evidence: bool = False,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> Review:
    """Leave-one-out, WAIC, predictive checks and the influence of rows, from one pass over all rows of a Spark data frame.

    Arguments are those of `corelet.dask.review`.
    """
    own = dict(log_weights=log_weights, scale=scale, most=most, outcomes=outcomes, pointwise=pointwise, evidence=evidence, seed=seed)
    own["by"] = keywords.pop("by", None)
    with _Spark(sdf) as engine:
        settings, schema = dict(model=model, **keywords), engine.schema.empty_table()
        return _cluster.review_on(engine, schema, draws, settings, own, progress, threads)


@seeded
def k_fold(
    sdf: Any,
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
    threads: Optional[int] = None,
    progress: ProgressOption = None,
    **keywords: Any,
) -> KFold:
    """K-fold cross-validation of the rows of a Spark data frame: see `corelet.dask.k_fold`."""
    settings = chain_settings(draws, tune, chains, target_accept, max_depth, seed)
    counts = (_count("folds", folds), None if k is None else _count("k", k))
    with _Spark(sdf) as engine:
        schema = engine.schema.empty_table()
        return _cluster.k_fold_on(engine, schema, dict(model=model, **keywords), counts, settings, progress, threads)


def update(coreset: Coreset, sdf: Any, **keywords: Any) -> Coreset:
    """A coreset of the rows that the given one represents and of those of a Spark data frame: see `corelet.dask.update`."""
    with _Spark(sdf) as engine:
        return _cluster.update_on(engine.each(), coreset, keywords)


class _Spark:
    """Partitions and shards as cached data frames: placement, retries and lineage are Spark's."""

    def __init__(self, sdf: Any) -> None:
        try:
            from pyspark.sql.pandas.types import to_arrow_schema
        except ImportError:
            raise ImportError("corelet.spark needs pyspark: pip install 'corelet[spark]'") from None
        if not hasattr(sdf, "mapInArrow"):
            raise TypeError(f"sdf is of type {type(sdf).__name__}; it must be a Spark data frame")
        self.schema = to_arrow_schema(sdf.schema)
        level = sdf.storageLevel
        self.ours = not (level.useMemory or level.useDisk)
        self.tables = sdf.persist() if self.ours else sdf
        self.partitions: int = self.tables.rdd.getNumPartitions()
        self.shards: Any = None

    def __enter__(self) -> _Spark:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shards is not None:
            self.shards.unpersist()
        if self.ours:
            self.tables.unpersist()

    def look(self, question: bytes) -> list[bytes]:
        schema, everywhere = self.schema, list(range(self.partitions))

        def answer(partition: int, batches: Iterable[Any]) -> bytes:
            return _cluster.look(_table(batches, schema), partition, question)

        return self._answers(self.tables, answer, everywhere)

    def hold(self, plan: bytes, partitions: list[int]) -> list[bytes]:
        schema = self.schema

        def make(partition: int, batches: Iterable[Any]) -> bytes:
            return pickle.dumps(_cluster.make(_table(batches, schema), partition, plan), protocol=5)

        self.shards = self.tables.mapInArrow(_each(make, partitions), ANSWERS).persist()
        return self._asked(lambda shard: shard.made(), partitions)

    def ask(self, question: bytes, partitions: list[int]) -> list[bytes]:
        return self._asked(lambda shard: shard.answer(question), partitions)

    def cells(self, rows: Mapping[int, list[int]]) -> list[dict[str, Any]]:
        schema = self.schema

        def chosen(partition: int, batches: Iterable[Any]) -> bytes:
            return pickle.dumps(_cluster.cells(_table(batches, schema), partition, rows[partition]))

        return [pickle.loads(answer) for answer in self._answers(self.tables, chosen, list(rows))]

    def batches(self, columns: list[str], schema: Any) -> Iterator[Any]:
        """The rows of all partitions, in their order."""
        import pyarrow as pa

        packed = self.tables.select(*[f"`{name}`" for name in columns]).mapInArrow(_packed, "rows binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            yield from pa.ipc.open_stream(bytes(row["rows"])).read_all().cast(schema).to_batches()

    def each(self) -> Iterator[Any]:
        """The tables, one at a time."""
        schema = self.schema

        def whole(partition: int, batches: Iterable[Any]) -> bytes:
            return pickle.dumps(_table(batches, schema), protocol=5)

        for partition in range(self.partitions):
            (table,) = self._answers(self.tables, whole, [partition])
            yield pickle.loads(table)

    def _asked(self, question: Callable[[Any], bytes], partitions: list[int]) -> list[bytes]:
        def answer(partition: int, batches: Iterable[Any]) -> bytes:
            held = [row for batch in batches for row in batch.to_pylist()]
            if held[0]["error"] is not None:
                raise _lib.CoreletError(held[0]["error"])
            return question(pickle.loads(held[0]["answer"]))

        return self._answers(self.shards, answer, partitions)

    def _answers(self, frame: Any, answer: _Answer, partitions: list[int]) -> list[bytes]:
        """The answers of these partitions, in their order; raises the first error."""
        found = sorted(frame.mapInArrow(_each(answer, partitions), ANSWERS).collect(), key=lambda row: row["partition"])
        for row in found:
            if row["error"] is not None:
                raise _lib.CoreletError(row["error"])
        return [bytes(row["answer"]) for row in found]


_Answer = Callable[[int, Iterable[Any]], bytes]


def _each(answer: _Answer, partitions: list[int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that Spark calls on every partition. It returns the number of the partition and an answer or an error; partitions
    outside the list return nothing."""
    wanted = frozenset(partitions)

    def on_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        kept = list(batches)
        if partition not in wanted:
            return
        found: Optional[bytes] = None
        error: Optional[str] = None
        try:
            found = answer(partition, kept)
        except _lib.CoreletError as refused:
            error = str(refused)
        columns = [pa.array([partition], pa.int32()), pa.array([found], pa.binary()), pa.array([error], pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=["partition", "answer", "error"])

    return on_partition


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Each batch as bytes."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["rows"])


def _table(batches: Iterable[Any], schema: Any) -> Any:
    import pyarrow as pa

    kept = list(batches)
    return pa.Table.from_batches(kept) if kept else schema.empty_table()
