"""Early results of queries over tables."""

from __future__ import annotations

from typing import NamedTuple

from . import _whimbrel as native
from .table import Table


class EarlyResult(NamedTuple):
    """
    A result over a part of the rows: what iterating over `ShardedStream.progressive` gives.

    Examples
    --------
    >>> import whimbrel as wb
    >>> [early.share for early in wb.sql("select sum(n) from range(1000000) t(n)").progressive(results=4)]
    [0.25, 0.5, 0.75, 1.0]
    """

    share: float
    """How much of the largest table had been read, from 0 to 1. The result is final if it is 1."""

    table: Table
    """The result of the query over these rows of that table, and all rows of the other ones."""


class Progressive:
    """
    A query that gives early results: the result of `ShardedStream.progressive`.

    It is an iterator of `EarlyResult`, and ends the query when it is closed or deleted.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.sql("select count(*) as n from range(1000000)").progressive() as results:
    ...     first = next(results)
    >>> first.share, len(first.table)
    (0.05, 1)
    """

    __slots__ = ("_running",)

    def __init__(self, running: native.Progressive) -> None:
        self._running = running

    def __iter__(self) -> Progressive:
        return self

    def __next__(self) -> EarlyResult:
        early = self._running.next()
        if early is None:
            raise StopIteration
        share, table = early
        return EarlyResult(share, Table(table))

    def __enter__(self) -> Progressive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the query; no more results come."""
        self._running.close()
