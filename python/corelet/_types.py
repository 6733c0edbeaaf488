"""What the native part takes."""

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

from numpy.typing import NDArray

Part = tuple[list[str], NDArray[Any], bool, Optional[list[str]]]
"""Names; a C-contiguous array, of two dimensions for several columns; whether it holds integers; levels of text."""

Report = Callable[..., object]
"""Called now and then with the fields of `Progress`, or of a `FitProgress` but for the seconds; False asks to stop."""

Data = Union[tuple[str, list[Part]], tuple[list[str], Optional[str]], int]
"""What messages call the data, and their columns; or the paths of files, and their format where the extensions do not say it; or
the handle of an open file in Arrow's format."""


class Execution(NamedTuple):
    """How work is done."""

    report: Optional[Report] = None
    """Who hears of it."""
    threads: Optional[int] = None
    """On how many threads; all cores by default."""
