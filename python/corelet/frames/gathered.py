"""Tables in partitions whose rows come to this process, one partition after the other: what a fit of whole groups reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

from .. import _lib
from .._mixed import MixedFit

BESIDE = ("target", "exposure", "trials", "event", "weights", "offset")
"""Keywords that name a column."""


def needed(columns: Iterable[str], keywords: Mapping[str, Any]) -> list[str]:
    """The columns that a fit reads: all, or those that are features or named besides."""
    features, random = keywords.get("features"), keywords.get("random")
    if not isinstance(random, str):
        raise _lib.CoreletError("random must be text where the table is in partitions, such as 'customer' or '1 + price | customer'")
    for name in BESIDE:
        if not isinstance(keywords.get(name), (str, type(None))):
            raise _lib.CoreletError(f"{name} must be the name of a column where the table is in partitions")
    if features is None:
        return list(columns)
    named = {features} if isinstance(features, str) else {str(feature) for feature in features}
    named |= {str(keywords[name]) for name in BESIDE if keywords.get(name) is not None}
    return [name for name in columns if name in named or name in random]


def schema_of(frame: Any) -> Any:
    """The schema of a pandas frame as its partitions travel: categories as text."""
    import pyarrow as pa

    return pa.Schema.from_pandas(_plain(frame), preserve_index=False)


def batches_of(frame: Any, schema: Any, partition: int) -> Any:
    """A partition that is a pandas frame as an Arrow table of this schema."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(_plain(frame), preserve_index=False).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise _lib.CoreletError(f"partition {partition}: its columns are not those of the table: {reason}") from None


def _plain(frame: Any) -> Any:
    """With text in the place of categories, which may differ from partition to partition."""
    categories = [name for name, kind in frame.dtypes.items() if str(kind) == "category"]
    return frame.astype(dict.fromkeys(categories, "string")) if categories else frame


def fit_here(schema: Any, batches: Iterable[Any], keywords: Mapping[str, Any]) -> MixedFit:
    """`corelet.fit` of these batches, which go to a scratch file as they come."""
    import pyarrow as pa

    from .._known import fit

    failed: Optional[BaseException] = None

    def kept() -> Iterator[Any]:
        nonlocal failed
        try:
            yield from batches
        except BaseException as error:
            failed = error
            raise

    try:
        fitted = fit(pa.RecordBatchReader.from_batches(schema, kept()), **keywords)
    except (pa.ArrowException, OSError) as error:
        # Arrow has only the words of what went wrong where the batches are made.
        raise (error if failed is None else failed) from None
    if not isinstance(fitted, MixedFit):
        raise _lib.CoreletError("only models with random effects are fitted to a table in partitions")
    return fitted
