"""Tables that come as a stream, written batch by batch to a scratch file and never collected."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any, Optional, Union

from .columns import is_in_memory
from .._lib import CoreletError


READ_ALREADY = (
    "the stream has no rows; one that can be read once only is empty the second time, so hand over a new one, or what can be "
    "read again: a table, a dataset, a file"
)


@contextmanager
def spooled(data: Any, folder: Union[str, PathLike[str], None] = None) -> Iterator[Optional[int]]:
    """The handle of a file with all rows of a stream in Arrow's format; None where `data` is no stream.

    The file has no name where the system allows it, and is gone when the block ends, however it ends.
    """
    if not is_stream(data):
        yield None
        return
    with tempfile.TemporaryFile(dir=folder, prefix="corelet-") as file:
        _write(data, file)
        file.flush()
        yield file.fileno()


def is_stream(data: Any) -> bool:
    """Whether a table has to be asked for its batches: a query, a reader, a dataset that is somewhere else."""
    if sys.platform == "win32" or is_in_memory(data):  # no way to hand over an open file
        return False
    return _is_lazy(data) or _is_dataset(data) or hasattr(data, "__arrow_c_stream__")


def _write(data: Any, file: IO[bytes]) -> None:
    if _is_lazy(data):
        data.sink_ipc(file)
        return
    import pyarrow as pa

    reader, rows = _reader(data), 0
    try:
        with pa.ipc.new_stream(file, reader.schema) as writer:
            for batch in reader:
                rows += batch.num_rows
                writer.write_batch(batch)
    except pa.ArrowException as error:
        if "KeyboardInterrupt" in str(error):  # Ctrl-C within Python code that makes the batches: Arrow has only its words.
            raise KeyboardInterrupt from error
        raise
    if rows == 0:
        raise CoreletError(READ_ALREADY)


def _reader(data: Any) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise TypeError(f"X is of type {type(data).__name__}; install pyarrow so that corelet can read it") from None
    if _is_dataset(data):
        return data.scanner().to_reader()
    return pa.RecordBatchReader.from_stream(data)


def _is_lazy(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "polars" and hasattr(data, "sink_ipc")


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow") and hasattr(data, "scanner")
