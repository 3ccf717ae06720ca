"""The line of a user's program that called the package; warnings point to it."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(__file__)


def call_site() -> tuple[str, int]:
    """Return the file and the line of the innermost caller outside of the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
