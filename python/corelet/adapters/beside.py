"""Threads for work that lets go of the interpreter: compilers beside the caller, and passes over rows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

MOST_AT_ONCE = 4
"""Blocks of log-likelihoods that are computed at once, which memory must hold."""

_threads = ThreadPoolExecutor(thread_name_prefix="corelet")


def beside(work: Callable[..., Made], *args: Any) -> Future[Made]:
    """Begins some work, whose `result` waits for it."""
    return _threads.submit(work, *args)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Item], Made], items: Iterable[Item], at_once: int) -> Iterator[Made]:
    """What comes of each item, in their order; some are worked on ahead, by so many threads. The first is worked on here, since
    what it compiles serves the others."""
    ahead: deque[Future[Made]] = deque()
    try:
        for at, item in enumerate(items):
            if at == 0 or at_once == 1:
                yield work(item)
                continue
            ahead.append(beside(work, item))
            if len(ahead) == at_once:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for left in ahead:
            left.cancel()
