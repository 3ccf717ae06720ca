"""Threads that run many queries in turns."""

from __future__ import annotations

import os

from . import _whimbrel as native
from .errors import InvalidError


class Scheduler:
    """
    Threads that run many queries in turns, for as many live queries as there are users, devices or rules.

    By default a query that runs in the background has threads of its own. On a scheduler, queries share a
    given number: one that has got rows is run by the next free thread, and the others wait without a
    thread. Who has waited for the longest time goes first, and after some milliseconds the next one goes on.
    (Trill §6.)

    A query is on one thread at a time, whatever its number of shards, so the functions that it calls are,
    too; one that blocks holds up other queries.

    Parameters
    ----------
    threads
        How many threads it has; by default as many as there are cores.

    Raises
    ------
    InvalidError
        If there is not at least one thread.
    ResourceExhaustedError
        If a thread cannot be started.

    Examples
    --------
    >>> import whimbrel as wb
    >>> scheduler = wb.Scheduler(threads=2)
    >>> ticks = wb.live({"time": "int64", "symbol": "string"}, time="time")
    >>> feed = ticks.publish(runtime=scheduler)
    >>> seen = []
    >>> def only(symbol):
    ...     return feed.query(lambda q: q.where(wb.col("symbol") == symbol))
    >>> rules = [only(symbol).subscribe(seen.append, runtime=scheduler) for symbol in ("a", "b", "c")]
    >>> scheduler.queries
    4
    >>> ticks.push([(1, "b")])
    >>> ticks.close()
    >>> all(rule.wait() for rule in rules)
    True
    >>> [row.symbol for row in seen], scheduler.queries
    (['b'], 0)
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InvalidError(f"a scheduler needs at least one thread, not {threads}")
        self._threads = threads or os.cpu_count() or 1
        self._native = native.Scheduler(self._threads)

    @property
    def threads(self) -> int:
        """How many threads it has."""
        return self._threads

    @property
    def queries(self) -> int:
        """How many queries have not ended."""
        return self._native.queries()

    def __repr__(self) -> str:
        return f"Scheduler(threads={self._threads})"
