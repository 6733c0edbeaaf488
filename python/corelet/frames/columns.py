"""Arrays and data frames of every kind as columns that the native part can borrow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .._lib import CoreletError
from .._types import Part

ROLES = ("target", "exposure", "trials", "event", "weights", "offset", "groups")
"""The keywords that name a column which is no feature."""
MISSING_TEXT = np.uint32(2**32 - 1)
MISSING_BOOL = np.uint8(2)


def parts_of(data: object, options: Optional[Mapping[str, Any]] = None) -> list[Part]:
    """The columns of a matrix or a data frame, borrowed wherever their memory allows it.

    A column of a type that no model can use is an error, but text where `options` leave it out or where it says of which group a row is.
    """
    needed, groups = _needed(options or {}), _groups(options or {})

    def part(name: str, convert: Callable[[], Part], cells: Callable[[], Iterable[Any]]) -> Part:
        try:
            return convert()
        except CoreletError:
            if needed(name) and name not in groups:
                raise
            return _text(name, cells())

    if isinstance(data, np.ndarray):
        return _matrix(data)
    frame = _frame_kind(data)
    if frame == "pandas":
        columns = [(str(name), data.iloc[:, j]) for j, name in enumerate(data.columns)]  # type: ignore[attr-defined]
        return [part(name, partial(_pandas, name, values), values.to_list) for name, values in columns]
    if frame == "polars":
        table: Any = data.collect() if hasattr(data, "collect") else data  # a LazyFrame
        return [part(series.name, partial(_polars, series), series.to_list) for series in table.get_columns()]
    if frame == "arrow":
        return [part(name, partial(_arrow, name, values), values.to_pylist) for name, values in _arrow_table(data)]
    if isinstance(data, Mapping):
        return [part(str(name), partial(column, str(name), values), partial(list, values)) for name, values in data.items()]
    if hasattr(data, "toarray"):
        raise TypeError("X is a sparse matrix, which corelet cannot use; pass X.toarray()")
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _matrix(np.asarray(data))
    if hasattr(data, "map_partitions") or hasattr(data, "mapInArrow"):
        raise TypeError(
            "X is a table in partitions; corelet.dask and corelet.spark take these (build, check, fit with random, and Dask certify), and predict takes one "
            "partition at a time (map_partitions, mapInPandas)"
        )
    raise TypeError(
        f"X is of type {type(data).__name__}; it must be a NumPy array, a pandas, polars or Arrow table, "
        "a mapping of columns, or the path of a file"
    )


def _needed(options: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a column is a feature or has a role, by the keywords of `build`."""
    left_out, features = set(options.get("exclude") or ()), options.get("features")
    roles = {name for name in map(options.get, ROLES) if isinstance(name, str)}
    return lambda name: name not in left_out and (features is None or name in features or name in roles)


def _groups(options: Mapping[str, Any]) -> list[str]:
    """The columns that say of which group of random effects a row is."""
    from .formula import groupings_of  # Which takes columns apart, too.

    random = options.get("random")
    return groupings_of(random) if isinstance(random, str) else []


def is_in_memory(data: object) -> bool:
    """Whether a table is one of a known library that is in memory as it is."""
    frame = type(data).__module__.partition(".")[0]
    if frame == "polars":
        return not hasattr(data, "collect")
    return frame == "pandas" or (frame == "pyarrow" and hasattr(data, "num_rows"))


def column(name: str, values: object) -> Part:
    """One column: a vector of numbers, booleans or text."""
    frame = _frame_kind(values)
    if frame == "pandas":
        return _pandas(name, values)
    if frame == "polars":
        return _polars(values, name)
    if frame == "arrow":
        return _arrow(name, values)
    array = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan) if np.ma.isMaskedArray(values) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise CoreletError(f"{name} has shape {array.shape}; it must have one dimension, a value for each row")
    return _vector(name, array)


def length(parts: Iterable[Part]) -> int:
    """Number of rows."""
    return next((len(part[1]) for part in parts), 0)


def names_of(parts: Iterable[Part]) -> list[str]:
    """All column names."""
    return [name for part in parts for name in part[0]]


def first_missing(part: Part) -> Optional[int]:
    """The first row in which the cell of a single column is missing."""
    _, array, _, levels = part
    if levels is not None:
        missing = array == MISSING_TEXT
    elif array.dtype == np.uint8:
        missing = array == MISSING_BOOL
    else:
        missing = np.isnan(array)
    return int(np.argmax(missing)) if missing.any() else None


def cells_of(parts: Iterable[Part], rows: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[Any]]]:
    """These rows of each column: numbers (NaN where missing) or text (None where missing)."""
    for names, array, _, levels in parts:
        values = array[rows]
        if levels is not None:
            words = np.array([*levels, None], dtype=object)
            yield names[0], words[np.minimum(values, len(levels)).astype(np.int64)]
        elif values.dtype == np.uint8:
            yield names[0], np.where(values == MISSING_BOOL, np.nan, values.astype(np.float64))
        else:
            yield from zip(names, values.T if values.ndim == 2 else [values])


def same_cells(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells are the same; missing ones are. Columns of different kinds are not compared: a file may have text for numbers."""
    if (one.dtype.kind == "O") != (other.dtype.kind in "OU"):
        return np.ones(len(one), dtype=bool)
    if one.dtype.kind == "O":
        return np.array([a == b or a is None or b is None for a, b in zip(one, other)], dtype=bool)
    a, b = one.astype(np.float64), other.astype(np.float64)
    return np.asarray((a == b) | np.isnan(a) | np.isnan(b), dtype=bool)


def _frame_kind(data: object) -> Optional[str]:
    """Which library the object belongs to, without importing any."""
    library = type(data).__module__.partition(".")[0]
    if library in ("pandas", "polars"):
        return library
    if library == "pyarrow" or hasattr(data, "__arrow_c_stream__"):
        return "arrow"
    return None


def _matrix(array: NDArray[Any]) -> list[Part]:
    if array.ndim != 2:
        hint = "; X.reshape(-1, 1) makes a column of it" if array.ndim == 1 else ""
        raise CoreletError(f"X has shape {array.shape}; it must have two dimensions, rows and columns{hint}")
    names = [f"x{j + 1}" for j in range(array.shape[1])]
    if np.ma.isMaskedArray(array):
        array = np.ma.filled(array.astype(float), np.nan)
    numbers, integer = _numbers("X", array)
    if numbers.flags.f_contiguous and not numbers.flags.c_contiguous:
        return [([name], numbers[:, j], integer, None) for j, name in enumerate(names)]
    return [(names, np.ascontiguousarray(numbers), integer, None)] if names else []


def _vector(name: str, array: NDArray[Any]) -> Part:
    if array.dtype.kind == "b":
        return [name], np.ascontiguousarray(array).view(np.uint8), False, None
    if array.dtype.kind in "US":
        return _text(name, array.astype(str).tolist())
    if array.dtype.kind == "O":
        return _objects(name, array.tolist())
    numbers, integer = _numbers(name, array)
    return [name], np.ascontiguousarray(numbers), integer, None


def _numbers(name: str, array: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """The array as float64, float32 or int64 in the machine's own byte order, and whether it holds integers."""
    kind, integer = array.dtype.kind, array.dtype.kind in "iub"
    if kind == "O":
        raise CoreletError(
            f"{name} has dtype object; convert it with {name}.astype(float), or pass a data frame where some "
            "columns are text"
        )
    if kind not in "iubf" or array.dtype.itemsize > 8:
        raise CoreletError(f"{name} has dtype {array.dtype}; integers, floats and booleans can be used")
    kept = (np.float32, np.int64)  # besides float64, all others become it
    wanted = next((kind for kind in kept if array.dtype == np.dtype(kind).newbyteorder("=")), np.float64)
    return array.astype(wanted, copy=False), integer


def _objects(name: str, values: list[Any]) -> Part:
    """Python objects: text or booleans, perhaps with missing values among them."""
    present = [value for value in values if not _is_missing(value)]
    if present and all(isinstance(value, str) for value in present):
        return _text(name, values)
    if present and all(isinstance(value, (bool, np.bool_)) for value in present):
        codes = [MISSING_BOOL if _is_missing(value) else np.uint8(value) for value in values]
        return [name], np.array(codes, dtype=np.uint8), False, None
    if present and all(isinstance(value, (int, float, np.number)) for value in present):
        numbers = [np.nan if _is_missing(value) else float(value) for value in values]
        return [name], np.array(numbers, dtype=np.float64), False, None
    kinds = sorted({type(value).__name__ for value in present}) or ["nothing but missing values"]
    raise CoreletError(
        f"column '{name}' holds Python objects ({', '.join(kinds)}), which no model can use; convert it to numbers or text"
    )


def _is_missing(value: object) -> bool:
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NaTType":
        return True
    pandas = sys.modules.get("pandas")
    return pandas is not None and value is pandas.NA


def _text(name: str, values: Iterable[Any]) -> Part:
    codes: dict[str, int] = {}
    coded = [
        MISSING_TEXT if _is_missing(value) else codes.setdefault(str(value), len(codes)) for value in values
    ]
    return [name], np.array(coded, dtype=np.uint32), False, list(codes)


def _pandas(name: str, series: Any) -> Part:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        coded = np.where(codes < 0, MISSING_TEXT, codes).astype(np.uint32)
        return [name], coded, False, [str(level) for level in series.cat.categories]
    if pd.api.types.is_bool_dtype(kind):
        codes = series.astype("UInt8").to_numpy(dtype=np.uint8, na_value=MISSING_BOOL)
        return [name], np.ascontiguousarray(codes), False, None
    if isinstance(kind, pd.StringDtype):
        return _text(name, series.to_list())
    if pd.api.types.is_numeric_dtype(kind) and not isinstance(kind, np.dtype):
        integer = pd.api.types.is_integer_dtype(kind)
        return [name], series.to_numpy(dtype=np.float64, na_value=np.nan), integer, None
    if not isinstance(kind, np.dtype) or kind.kind not in "iubfO":
        raise CoreletError(f"column '{name}' has type {kind}, which no model can use; {_otherwise(kind)}")
    return _vector(name, series.to_numpy())


def _polars(series: Any, name: Optional[str] = None) -> Part:
    import polars as pl

    name, kind = series.name if name is None else name, series.dtype
    if kind == pl.Boolean:
        codes = series.cast(pl.UInt8).fill_null(int(MISSING_BOOL)).to_numpy()
        return [name], np.ascontiguousarray(codes), False, None
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return _text(name, series.cast(pl.String).to_list())
    if not kind.is_numeric():
        raise CoreletError(f"column '{name}' has type {kind}, which no model can use; {_otherwise(kind)}")
    if kind.is_decimal():
        series = series.cast(pl.Float64)
    numbers, integer = _numbers(name, series.to_numpy())
    return [name], np.ascontiguousarray(numbers), integer or kind.is_integer(), None


def _arrow_table(data: object) -> list[tuple[str, Any]]:
    try:
        import pyarrow as pa
    except ImportError:
        raise TypeError(f"X is of type {type(data).__name__}; install pyarrow so that corelet can read it") from None
    table = data if isinstance(data, pa.Table) else pa.table(data)
    return [(name, table.column(j)) for j, name in enumerate(table.column_names)]


def _arrow(name: str, values: Any) -> Part:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # of no chunk at all
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if pa.types.is_boolean(kind):
        codes = values.cast(pa.uint8()).fill_null(int(MISSING_BOOL)).to_numpy(zero_copy_only=False)
        return [name], np.ascontiguousarray(codes), False, None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        coded = values if pa.types.is_dictionary(kind) else values.dictionary_encode()
        codes = coded.indices.cast(pa.int64()).fill_null(int(MISSING_TEXT)).to_numpy(zero_copy_only=False)
        levels = [str(level) for level in coded.dictionary.to_pylist()]
        return [name], codes.astype(np.uint32), False, levels
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers, _ = _numbers(name, values.to_numpy(zero_copy_only=False))
        return [name], np.ascontiguousarray(numbers), pa.types.is_integer(kind), None
    if pa.types.is_decimal(kind):
        return _arrow(name, values.cast(pa.float64()))
    raise CoreletError(f"column '{name}' has type {kind}, which no model can use; {_otherwise(kind)}")


def order_of(values: Any) -> Optional[list[object]]:
    """The levels that occur in an ordered categorical of pandas or an enumeration of polars, in their order."""
    kind = getattr(values, "dtype", None)
    if kind is None or not (getattr(kind, "ordered", False) or type(kind).__name__ == "Enum"):
        return None
    occurring = set(values.unique())
    return [level for level in kind.categories if level in occurring]


def _otherwise(kind: object) -> str:
    """What to do with a column of this type."""
    if any(word in str(kind).lower() for word in ("date", "time", "duration")):
        return "leave it out (exclude), or turn it into a number, such as days"
    return "leave it out (exclude)"
