"""The native part of `corelet`: what `crates/corelet-py` defines."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ._types import Part, Report

__version__: str

class CoreletError(ValueError): ...

def build_columns(
    source: str,
    parts: Sequence[Part],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def build_stream(
    handle: int,
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def build_file(
    paths: Sequence[str],
    format: Optional[str],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def solve_dense(
    columns: NDArray[np.float64],
    target: Optional[NDArray[np.float64]],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def write_coreset(
    source: str,
    parts: Sequence[Part],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    metadata: Mapping[str, str],
    path: "str | PathLike[str]",
) -> None: ...
def judgement(nats: float) -> str: ...
def build_matrix(
    matrix: NDArray[np.float64],
    held_out: int,
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def build_pool(
    data: NDArray[np.int64],
    columns: NDArray[np.float64],
    totals: NDArray[np.float64],
    n: int,
    held_out: int,
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def build_function(
    function: Callable[[Any, slice], Any],
    theta: Any,
    n: int,
    draws: int,
    held_out: int,
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def sample_coreset(
    kept: Mapping[str, object],
    weights: NDArray[np.float64],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def check_columns(
    source: str,
    parts: Sequence[Part],
    build: Mapping[str, object],
    coreset: Optional[tuple[NDArray[np.int64], NDArray[np.float64], Optional[str]]],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def check_file(
    paths: Sequence[str],
    format: Optional[str],
    build: Mapping[str, object],
    coreset: Optional[tuple[NDArray[np.int64], NDArray[np.float64], Optional[str]]],
    keywords: Mapping[str, object],
    progress: Optional[Report],
    threads: Optional[int],
) -> dict[str, Any]: ...
def check_errors(
    errors: NDArray[np.float64], chains: Optional[int], found: str, points: int, n: int
) -> dict[str, Any]: ...
def diagnose(quantities: NDArray[np.float64]) -> NDArray[np.float64]: ...
