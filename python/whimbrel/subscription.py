"""Queries that run in the background, and the functions that they call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from . import _whimbrel as native
from . import endings, feeds
from .errors import InvalidError
from .events import Event


class _Calls(threading.local):
    """The queries whose functions this thread is inside of."""

    def __init__(self) -> None:
        self.queries: list[object] = []


_calls = _Calls()


class Subscription:
    """
    A query that runs in the background: the result of `ShardedStream.subscribe`.

    When Python ends, it waits for a query whose sources end. One that would run on ends with it, with a
    warning: what it has not handed out is lost. So close the sources and `wait`, or `stop`, before that.
    """

    __slots__ = ("_feeds", "_job", "_query")

    def __init__(self, job: native.Job, running: list[feeds.Feed], query: object) -> None:
        self._job = job
        self._feeds = running
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
            If a function that this query calls waits for it.
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
        endings.forget(self._job)
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


def calls_of(query: object, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a function that knows, while it runs, which query has called it."""

    def call(argument: Any) -> Any:
        _calls.queries.append(query)
        try:
            return function(argument)
        finally:
            _calls.queries.pop()

    return call


def each_row(callback: Callable[[Any], Any]) -> Callable[[native.Table], None]:
    """Make a function of tables of a function of rows."""

    def on_table(table: native.Table) -> None:
        for row in table.rows():
            if native.leaving():
                return
            callback(row)

    return on_table


def each_event(callback: Callable[[Any], Any]) -> Callable[[list[tuple[Any, ...]]], None]:
    """Make a function of lists of events of a function of events."""

    def on_events(events: list[tuple[Any, ...]]) -> None:
        for event in events:
            if native.leaving():
                return
            callback(Event(*event))

    return on_events
