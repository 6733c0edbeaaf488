"""Threads for what compilers do beside the caller's work, while they let go of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Made = TypeVar("Made")

_threads = ThreadPoolExecutor(thread_name_prefix="corelet")


def beside(work: Callable[..., Made], *args: Any) -> Future[Made]:
    """Begins some work, whose `result` waits for it."""
    return _threads.submit(work, *args)
