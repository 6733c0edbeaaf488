"""Tables in the partitions of a cluster: what workers do with a partition, and what is made of their answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Protocol

import numpy as np

from .. import _lib
from .._build import BESIDE, _count, native
from .._certify import densities, looked_at, settings_of
from .._certify import named as named_draws
from .._review import weights_of
from .columns import parts_of
from ..results.certificate import Certificate, certificate_from
from ..results.coreset import Coreset, coreset_from, weighted_rows
from ..results.review import KFold, Review, k_fold_from, review_from
from .._progress import ProgressOption, reporter
from .._types import Data, Execution
from .._warn import warn
from ..results.verdict import Verdict, chain_settings, judged_by

REFUSED = ("y", "format")
"""Keywords of `corelet.build` that have no meaning here."""


class Engine(Protocol):
    """Carries bytes to partitions, and answers back in the order of the partitions. See `corelet::cluster::Carrier`."""

    partitions: int

    def look(self, question: bytes) -> list[bytes]: ...

    def hold(self, plan: bytes, partitions: list[int]) -> list[bytes]: ...

    def ask(self, question: bytes, partitions: list[int]) -> list[bytes]: ...

    def cells(self, rows: Mapping[int, list[int]]) -> list[dict[str, Any]]:
        """The cells of these rows of each partition, column by column."""


def named(table: Any, partition: int) -> Data:
    """A partition as the native part takes it; errors call it by its number."""
    # What came over a wire may lie anywhere in a buffer.
    parts = [
        (names, np.require(array, requirements=["C", "A"]), integer, levels)
        for names, array, integer, levels in parts_of(table)
    ]
    return f"partition {partition}", parts


def look(table: Any, partition: int, question: bytes) -> bytes:
    """What a partition as it came answers."""
    return _lib.look(named(table, partition), question)


def make(table: Any, partition: int, plan: bytes) -> _lib.Shard:
    """The shard of a partition: a function of these alone, so that it can be made again anywhere."""
    return _lib.Shard(named(table, partition), partition, plan)


def cells(table: Any, partition: int, rows: Sequence[int]) -> dict[str, Any]:
    """These rows of a partition."""
    return _lib.cells(named(table, partition), list(rows))


def build_on(
    engine: Engine,
    schema: Any,
    keywords: Mapping[str, Any],
    progress: ProgressOption,
    threads: Optional[int],
) -> Coreset:
    """A coreset of the partitions of an engine; `schema` is a table with their columns."""
    asked = _asked(keywords)
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        fields = _lib.build_partitions(("data", parts_of(schema)), engine, asked, execution)
    rows, starts = fields["rows"], fields.pop("partitions")
    by_partition: dict[int, list[int]] = {}
    for row in rows.tolist():
        partition = bisect_right(starts, row) - 1
        by_partition.setdefault(partition, []).append(row - starts[partition])
    fields["columns"] = _joined(engine.cells(by_partition))
    coreset = coreset_from(fields, asked)
    warn(*coreset.warnings)
    return coreset


def _asked(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `corelet.build` that have a meaning here."""
    for name in REFUSED:
        if keywords.get(name) is not None:
            raise _lib.CoreletError(f"{name} has no meaning for a table in partitions: all columns are in it")
    for name in BESIDE:
        if not isinstance(keywords.get(name), (str, type(None))):
            raise _lib.CoreletError(f"{name} must be the name of a column where the table is in partitions")
    return native(keywords)


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The cells of several partitions, one after the other."""
    names = parts[0] if parts else {}

    def values(name: str) -> Any:
        found = [part[name] for part in parts]
        if all(isinstance(cells, np.ndarray) for cells in found):
            return np.concatenate(found)
        return [cell for cells in found for cell in cells]

    return {name: values(name) for name in names}


def certify_on(
    engine: Engine,
    schema: Any,
    draws: Any,
    settings: Mapping[str, Any],
    beside: tuple[str, Any],
    progress: ProgressOption,
    threads: Optional[int],
) -> Certificate:
    """The certificate of anybody's draws by all rows of the partitions; `settings` are `model` and keywords of `corelet.build`."""
    scale, log_density = beside
    settings = _of_draws(draws, settings)
    table = named_draws(draws, scale)
    looked = table.draws.thin(looked_at(table.draws))
    asked = _asked(settings)
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        given = table.fields(densities(log_density, table.draws))
        fields = _lib.certify_partitions(("data", parts_of(schema)), engine, asked, given, execution)
    warn(*fields["warnings"])
    return certificate_from(fields, looked)


def review_on(
    engine: Engine,
    schema: Any,
    draws: Any,
    settings: Mapping[str, Any],
    beside: Mapping[str, Any],
    progress: ProgressOption,
    threads: Optional[int],
) -> Review:
    """What all rows of the partitions say of draws; `beside` are the keywords of `corelet.review` that are its own."""
    if beside.get("by") is not None:
        by = beside["by"]
        raise _lib.CoreletError(
            f"by needs the rows here: review the rows of a level by themselves, those of the partitions where {by} is that level, outcomes and all"
        )
    table = named_draws(draws, beside["scale"])
    weights = weights_of(draws, beside["log_weights"], table.draws)
    asked = _asked(_of_draws(draws, settings))
    counts = (_count("most", beside["most"]), _count("outcomes", beside["outcomes"]))
    own = (*counts, bool(beside["pointwise"]), _count("seed", beside["seed"]), None, bool(beside["evidence"]))
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        data: Data = ("data", parts_of(schema))
        fields = _lib.review_partitions(data, engine, asked, table.fields(log_weights=weights), (own, execution))
    warn(*fields["warnings"])
    return review_from(fields)


def k_fold_on(
    engine: Engine,
    schema: Any,
    settings: Mapping[str, Any],
    counts: tuple[int, Optional[int]],
    chains: Mapping[str, object],
    progress: ProgressOption,
    threads: Optional[int],
) -> KFold:
    """K-fold cross-validation of the rows of the partitions."""
    asked = _asked(dict(k=None, rest="none", **settings))
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        fields = _lib.k_fold_partitions(("data", parts_of(schema)), engine, asked, counts, (chains, execution))
    warn(*fields["warnings"])
    return k_fold_from(fields)


def update_on(tables: Iterable[Any], coreset: Coreset, settings: Mapping[str, Any]) -> Coreset:
    """A coreset with the rows of some tables, added one table after the other."""
    updated = None
    for table in tables:
        if len(table) > 0:
            updated = (updated or coreset).update(table, **settings)
    if updated is None:
        raise _lib.CoreletError("there is no new row in any partition")
    return updated


def _of_draws(draws: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of `corelet.build` with what a fit was told where nothing is said."""
    keywords = {name: value for name, value in settings.items() if name != "model"}
    return dict(k=None, rest="none", **settings_of(draws, settings.get("model"), keywords))


def check_on(
    engine: Engine, schema: Any, coreset: Coreset, settings: Mapping[str, Any], progress: ProgressOption
) -> Verdict:
    """The verdict on a coreset by all rows of the partitions."""
    if not coreset.options:
        raise _lib.CoreletError("a coreset of log-likelihoods is checked by corelet.check")
    known = dict(draws=1000, warmup=500, chains=4, target_accept=0.8, max_depth=10, seed=0)
    threads = settings.get("threads")
    chains = chain_settings(**{**known, **{name: value for name, value in settings.items() if name != "threads"}})
    chosen = weighted_rows(coreset)
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        data: Data = ("data", parts_of(schema))
        fields = _lib.check_partitions(data, engine, coreset.options, chosen, (chains, execution))
    return judged_by(coreset, fields)
