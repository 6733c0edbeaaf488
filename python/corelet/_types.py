"""What the native part takes."""

from collections.abc import Callable
from typing import Any, Optional

from numpy.typing import NDArray

Part = tuple[list[str], NDArray[Any], bool, Optional[list[str]]]
"""Names; a C-contiguous array, of two dimensions for several columns; whether it holds integers; levels of text."""

Report = Callable[[int, float, float, int, int, float, float], object]
"""Called now and then with the fields of `Progress`; False asks to stop."""
