"""Materialized views: results that are maintained while the rows of live sources come."""

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
    A materialized view: the result of `ShardedStream.maintain`.

    Its rows are those of the query over the rows of its sources that have arrived so far.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows, job: native.Job, started: list[feeds.Feed], query: object) -> None:
        super().__init__(job, started, query)
        self._rows = rows

    def __enter__(self) -> View:
        return self

    def snapshot(self) -> list[dict[str, Any]]:
        """
        Copy the current rows, in no particular order.

        Returns
        -------
        list of dict
            A dict for each row; equal rows are repeated.
        """
        return self._rows.snapshot()


class Rows:
    """The rows of a relation, kept as a count for each row, to which changes are added."""

    def __init__(self, callback: Callable[[Table], Any] | None) -> None:
        self._lock = threading.Lock()
        # Keyed by the text of a row, because not every value can be hashed: the row and its count.
        self._counts: dict[str, tuple[dict[str, Any], int]] = {}
        self._callback = callback

    def apply(self, changes: native.Table) -> None:
        """Add the changes of a batch, then call the callback with them."""
        with self._lock:
            for row in changes.rows():
                values = dict(row)
                self._add(values.pop("change"), values)
        if self._callback is not None:
            self._callback(Table(changes))

    def _add(self, change: int, row: dict[str, Any]) -> None:
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
