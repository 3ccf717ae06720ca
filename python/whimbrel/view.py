"""Results that are kept up to date while the rows of live sources come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from . import _whimbrel as native
from . import feeds
from .subscription import Subscription
from .table import Table


class View(Subscription):
    """
    A result that is kept up to date: the result of `ShardedStream.maintain`.

    It holds the rows of the result as of what has arrived so far. When the sources have ended it holds what
    the query gives over all their rows.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows, job: native.Job, running: list[feeds.Feed], query: object) -> None:
        super().__init__(job, running, query)
        self._rows = rows

    def __enter__(self) -> View:
        return self

    def snapshot(self) -> list[dict[str, Any]]:
        """
        Give the rows that the result has now, in no particular order.

        Returns
        -------
        list of dict
            A row each. A row that is there several times is given several times.
        """
        return self._rows.snapshot()


class Rows:
    """The rows of a relation, as the changes so far make it."""

    def __init__(self, then: Callable[[Table], Any] | None) -> None:
        self._lock = threading.Lock()
        # By its text, because not every value can be hashed: a row, and how often it is there.
        self._counts: dict[str, tuple[dict[str, Any], int]] = {}
        self._then = then

    def change(self, changes: native.Table) -> None:
        """Take in rows with their changes."""
        with self._lock:
            for row in changes.rows():
                values = dict(row)
                self._one(values.pop("change"), values)
        if self._then is not None:
            self._then(Table(changes))

    def _one(self, change: int, row: dict[str, Any]) -> None:
        text = repr(row)
        count = self._counts.get(text, (row, 0))[1] + change
        if count:
            self._counts[text] = (row, count)
        else:
            del self._counts[text]

    def snapshot(self) -> list[dict[str, Any]]:
        """Copy the rows."""
        with self._lock:
            return [dict(row) for row, count in self._counts.values() for _ in range(count)]
