"""Queries that run in the background, and their callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from . import _whimbrel as native
from . import feeds, shutdown
from .errors import InvalidError


class _Calls(threading.local):
    """The queries whose callbacks run on this thread."""

    def __init__(self) -> None:
        self.queries: list[object] = []


_calls = _Calls()


class Subscription:
    """
    A query that runs in the background: the result of `ShardedStream.subscribe`.

    When Python exits, it waits for queries whose sources end. It stops the others, with a warning: their rows
    that are not final yet are lost. So close the sources and `wait`, or `stop`, before the program ends.

    Examples
    --------
    >>> import whimbrel as wb
    >>> items = []
    >>> with wb.from_rows([{"item": "a"}]).subscribe(lambda row: items.append(row.item)) as subscription:
    ...     subscription.wait()
    True
    >>> items, subscription.rows_out
    (['a'], 1)
    """

    __slots__ = ("_feeds", "_job", "_query")

    def __init__(self, job: native.Job, started: list[feeds.Feed], query: object) -> None:
        self._job = job
        self._feeds = started
        self._query = query

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait for the end of the query; Ctrl-C stops it.

        Parameters
        ----------
        timeout
            How many seconds to wait at most; by default for ever.

        Returns
        -------
        bool
            Whether the query has ended.

        Raises
        ------
        DataError
            If the query failed, for example because the callback did.
        InvalidError
            If a callback of this query calls it.
        """
        if self._query in _calls.queries:
            raise InvalidError(
                "a function that the query calls cannot wait for the query: it would wait for itself. Return "
                "from it, or call stop(), and wait where the query was begun"
            )
        try:
            return self._job.wait(timeout, lambda: feeds.check(self._feeds))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the query; what is not final yet is not reported. Does nothing if it has ended."""
        for feed in self._feeds:
            feed.stop()
        shutdown.forget(self._job)
        self._job.cancel()

    @property
    def done(self) -> bool:
        """Whether the query has ended."""
        return self._job.done()

    @property
    def rows_read(self) -> int:
        """How many rows have been read."""
        return self._job.rows_read()

    @property
    def rows_out(self) -> int:
        """How many rows have been reported."""
        return self._job.rows_out()

    @property
    def late_rows(self) -> int:
        """How many rows came too late and were dropped."""
        return self._job.rows_late()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "ended" if self.done else "running"
        counts = f"{self.rows_read:,} rows read, {self.late_rows:,} late, {self.rows_out:,} out"
        return f"Subscription({state}, {counts})"


def callback_of(query: object, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make the callback of a query: while it runs, the thread is marked as being inside of the query."""

    def call(argument: Any) -> Any:
        _calls.queries.append(query)
        try:
            return function(argument)
        finally:
            _calls.queries.pop()

    return call


def one_by_one(
    callback: Callable[[Any], Any], items: Callable[[Any], Iterable[Any]]
) -> Callable[[Any], None]:
    """Make a callback of batches that calls another for each item of a batch, until Python exits."""

    def on_batch(batch: Any) -> None:
        for item in items(batch):
            if native.leaving():
                return
            callback(item)

    return on_batch
