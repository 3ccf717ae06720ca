"""One module an engine, each with `programs(line, events, threads)`.

It prepares what is not measured, and returns by name one or more ways to compute the line's answer with that
engine; the best of them counts. Each call of a program is one run, and returns the seconds that it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from workloads import Answer


class Run(NamedTuple):
    """One run of a program."""

    seconds: float
    answer: Answer


Programs = dict[str, Callable[[], Run]]


def timed(program: Callable[[], Answer]) -> Callable[[], Run]:
    """Measure a program from outside."""

    def run() -> Run:
        start = time.perf_counter()
        answer = program()
        return Run(time.perf_counter() - start, answer)

    return run
