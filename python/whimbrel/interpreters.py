"""The engine has one interpreter: that of the process, and no subinterpreter."""

from __future__ import annotations

import sys

REFUSED = (
    "whimbrel works in the main interpreter of a process only: import it there, "
    "or run it in a process of its own"
)


class main_only:
    """Where the native half is loaded: from Python 3.12 on, Python itself refuses it in a subinterpreter."""

    def __enter__(self) -> None:
        if sys.version_info >= (3, 12):
            return
        try:
            import _xxsubinterpreters as interpreters  # pyright: ignore[reportMissingImports]
        except ImportError:
            return
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(REFUSED)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, ImportError) and "subinterpreter" in str(error):
            raise ImportError(REFUSED) from error
