"""The native part of `corelet`: what `crates/corelet-py` defines."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ._types import Data, Execution, Part

__version__: str

class CoreletError(ValueError): ...

def build(data: Data, keywords: Mapping[str, object], execution: Execution) -> dict[str, Any]: ...
def certify(
    data: Data, keywords: Mapping[str, object], draws: Mapping[str, object], execution: Execution
) -> dict[str, Any]: ...
def review(
    data: Data,
    keywords: Mapping[str, object],
    draws: Mapping[str, object],
    settings: tuple[int, int, bool, int, Optional[str], bool],
    execution: Execution,
) -> dict[str, Any]: ...
def update(
    data: Data,
    earlier: Optional[Data],
    coreset: tuple[Optional[Mapping[str, object]], NDArray[np.float64], Mapping[str, str]],
    asked: tuple[str, bool, bool],
    chains: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def certified_blocks(
    before: Optional[str], size: tuple[int, int], judged: tuple[str, float], at: NDArray[np.float64]
) -> tuple[str, list[str]]: ...
def k_fold(
    data: Data,
    keywords: Mapping[str, object],
    settings: tuple[int, Optional[int]],
    chains: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
class OutcomeChecks:
    def __init__(self, kind: str, draws: int) -> None: ...
    def add(
        self,
        y: NDArray[np.float64],
        drawn: NDArray[np.float64],
        uniform: NDArray[np.float64],
        probabilities: Optional[NDArray[np.float64]] = None,
        levels: Optional[NDArray[np.uint32]] = None,
    ) -> None: ...

def levels_of(data: Data, column: str, rows: int) -> tuple[list[str], NDArray[np.uint32]]: ...

def review_target(bridge: object, given: Mapping[str, object], execution: Execution) -> dict[str, Any]: ...
def certify_claim(claim: Mapping[str, object]) -> dict[str, Any]: ...
def look(data: Data, question: bytes) -> bytes: ...
def cells(data: Data, rows: Sequence[int]) -> dict[str, Any]: ...

class Shard:
    def __init__(self, data: Data, partition: int, plan: bytes) -> None: ...
    def made(self) -> bytes: ...
    def answer(self, question: bytes) -> bytes: ...

def certify_partitions(
    schema: Data, engine: object, keywords: Mapping[str, object], draws: Mapping[str, object], execution: Execution
) -> dict[str, Any]: ...
def review_partitions(
    schema: Data,
    engine: object,
    keywords: Mapping[str, object],
    draws: Mapping[str, object],
    settings: tuple[tuple[int, int, bool, int, Optional[str], bool], Execution],
) -> dict[str, Any]: ...
def k_folded(elpd: float, se: float, rows: int, folds: list[tuple[int, str]]) -> list[str]: ...
def k_fold_partitions(
    schema: Data,
    engine: object,
    keywords: Mapping[str, object],
    settings: tuple[int, Optional[int]],
    chains: tuple[Mapping[str, object], Execution],
) -> dict[str, Any]: ...
def build_partitions(
    schema: Data, engine: object, keywords: Mapping[str, object], execution: Execution
) -> dict[str, Any]: ...
def check_partitions(
    schema: Data,
    engine: object,
    build: Mapping[str, object],
    coreset: tuple[NDArray[np.int64], NDArray[np.float64], Mapping[str, str]],
    settings: tuple[Mapping[str, object], Execution],
) -> dict[str, Any]: ...
def solve_dense(
    columns: NDArray[np.float64],
    target: Optional[NDArray[np.float64]],
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def write_coreset(
    source: str,
    parts: Sequence[Part],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    metadata: Mapping[str, str],
    path: "str | PathLike[str]",
) -> None: ...
def figures(rows: NDArray[np.float64]) -> list[list[str]]: ...
def diagnose(draws: NDArray[np.float64]) -> list[NDArray[np.float64]]: ...
def judgement(nats: float) -> str: ...
def build_matrix(
    matrix: NDArray[np.float64],
    held_out: int,
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def build_pool(
    pool: Mapping[str, object],
    held_out: int,
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def build_function(
    function: Mapping[str, object],
    held_out: int,
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def sample_coreset(
    kept: Mapping[str, object],
    weights: NDArray[np.float64],
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def original_scale(model: str, standardisation: str, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
def check(
    data: Data,
    build: Mapping[str, object],
    coreset: Optional[tuple[NDArray[np.int64], NDArray[np.float64], Mapping[str, str]]],
    keywords: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def fit(
    data: Data,
    keywords: Mapping[str, object],
    max_k: Optional[int],
    chains: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def draws_looked_at(parameters: int) -> int: ...
def fit_mixed(
    data: Data,
    keywords: Mapping[str, object],
    max_k: Optional[int],
    chains: Mapping[str, object],
    execution: Execution,
) -> dict[str, Any]: ...
def gaussian_first(rest: str, coordinates: int, k: int) -> bool: ...
def fit_target(
    bridge: object,
    groups: Optional[NDArray[np.int64]],
    plan: tuple[int, int, int, int, Optional[int], int, bool],
    rest: str,
    pilot: Optional[tuple[NDArray[np.float64], bool, int]],
    execution: Execution,
) -> dict[str, Any]: ...
def sample_function(
    function: object,
    mean: NDArray[np.float64],
    precision: NDArray[np.float64],
    length: tuple[int, int, int, float],
    seed: int,
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]: ...
def gather(
    bridge: object,
    groups: Optional[NDArray[np.int64]],
    draws: int,
    pool: tuple[int, NDArray[np.int64], int],
) -> dict[str, Any]: ...
def judge(given: Mapping[str, object]) -> dict[str, Any]: ...
def block_size(n: int, draws: int) -> int: ...
def draws_of_pass(draws: Optional[int], k: int, parameters: int) -> int: ...
def predict(
    data: Data,
    notes: Mapping[str, str],
    draws: NDArray[np.float64],
    exposure: Optional[NDArray[np.float64]],
    asked: tuple[str, Sequence[float], int, bool],
) -> dict[str, Any]: ...
def score_rows(data: Data, notes: Mapping[str, str], draws: NDArray[np.float64]) -> NDArray[np.float64]: ...
def pointwise(
    kept: Mapping[str, Any], draws: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], Optional[NDArray[np.float64]]]: ...
