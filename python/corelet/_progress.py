"""Progress of a run: a user's callback, a tqdm bar, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional, Union

from ._types import Report


class Progress(NamedTuple):
    """The progress of a run, as a callback receives it."""

    iterations: int
    """Steps of the method so far."""
    passes: float
    """Passes over the data so far."""
    seconds: float
    """Seconds since the method started."""
    points: int
    """Current number of points with a weight."""
    k: int
    """Largest number of points."""
    residual: float
    """Current ‖y − Φw‖."""
    target_norm: float
    """‖y‖."""


ProgressOption = Union[bool, Callable[[Progress], object], None]


@contextmanager
def reporter(progress: ProgressOption) -> Iterator[Optional[Report]]:
    """The function that the native part calls: the user's callback, a progress bar, or nothing."""
    if callable(progress):
        callback = progress
        yield lambda *numbers: callback(Progress(*numbers))
        return
    bar = _bar(progress)
    if bar is None:
        yield None
        return
    with bar:

        def advance(*numbers: Any) -> None:
            step = Progress(*numbers)
            bar.total = max(step.k, step.points)
            bar.n = step.points
            bar.set_postfix_str(f"residual {step.residual:.3g}, {step.passes:.0f} passes")

        yield advance


def _bar(wanted: Optional[bool]) -> Any:
    """A tqdm bar that appears after a second of work; by default only in a terminal or notebook."""
    if wanted is False or (wanted is None and not _watched()):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc="corelet", unit="point", delay=0 if wanted else 1, leave=False)


def _watched() -> bool:
    return "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
