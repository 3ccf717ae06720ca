"""Waiting for what has to come: every wait has an end, and says what it was for."""

from __future__ import annotations

import time
from collections.abc import Callable

# Longer than anything takes on a machine that does other things as well; a hang costs as long.
LIMIT = 90.0


def until(what: str, is_so: Callable[[], bool], seconds: float = LIMIT) -> None:
    """
    Wait until something is so.

    Parameters
    ----------
    what
        What is waited for, for the message.
    is_so
        Whether it is so.
    seconds
        For how long at most.

    Raises
    ------
    TimeoutError
        If it does not come.
    """
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
