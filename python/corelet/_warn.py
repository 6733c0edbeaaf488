"""Warnings that point at the user's own line."""

from __future__ import annotations

import inspect
import os
import warnings

PACKAGE = os.path.dirname(__file__) + os.sep


def warn(*messages: str) -> None:
    """Issues each message at the innermost line outside of this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    for message in messages:
        warnings.warn(message, stacklevel=level)
