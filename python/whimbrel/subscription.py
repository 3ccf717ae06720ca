"""Queries that run in the background, and their callbacks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from . import _whimbrel as native
from . import feeds, shutdown
from .activity import Activity, activity_of
from .attribute_errors import NearNames
from .errors import InvalidError, WhimbrelError
from .table import Table


class _Calls(threading.local):
    """The queries whose callbacks run on this thread."""

    def __init__(self) -> None:
        self.queries: list[object] = []


_calls = _Calls()


class Subscription(NearNames):
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

    __slots__ = ("_clock", "_feeds", "_job", "_query")

    def __init__(
        self,
        job: native.Job | native.DurableJob,
        started: list[feeds.Feed],
        query: object,
        clock: str | None = None,
    ) -> None:
        self._job = job
        self._clock = clock
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
        if isinstance(self._job, native.Job):
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

    def stats(self) -> Activity:
        """
        Tell what the query has done so far, operator by operator, and what it waits for.

        Returns
        -------
        Activity
            Rows and times of each operator, and `Activity.waits_for`: in a sentence, why nothing comes out.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"time": "int64", "item": "string"}, time="time")
        >>> counts = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
        >>> with counts.subscribe(print) as subscription:
        ...     print(subscription.stats().waits_for)
        No row has been read yet.
        """
        return activity_of(self._job, self._clock)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "ended" if self.done else "running"
        counts = f"{self.rows_read:,} rows read, {self.late_rows:,} late, {self.rows_out:,} out"
        return f"{type(self).__name__}({state}, {counts})"


class Job(Subscription):
    """
    A query that survives crashes: the result of `ShardedStream.run_forever`.

    `ShardedStream.subscribe` gives one too, with ``checkpoint=``. When Python exits, it is stopped; the call
    that began it goes on where it was.
    """

    __slots__ = ("_durable",)

    def __init__(self, job: native.DurableJob, query: object, clock: str | None = None) -> None:
        super().__init__(job, [], query, clock)
        self._durable = job

    def stop(self) -> None:
        """
        Stop the job and wait until it has; the call that began it goes on with it.

        In the callback of the job it does not wait: the other rows of the result still come.
        """
        super().stop()
        if self._query not in _calls.queries:
            # An error was or will be raised by wait().
            with contextlib.suppress(WhimbrelError):
                self._durable.wait(None, None)

    @property
    def checkpointed_at(self) -> datetime | None:
        """When the last checkpoint of this run was written, in UTC."""
        seconds = self._durable.checkpointed_at()
        return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)

    @property
    def restored_from(self) -> int | None:
        """The epoch of the checkpoint that this run went on from; None if it began at the beginning."""
        return self._durable.restored_from()

    @property
    def damaged_checkpoints(self) -> int:
        """How many checkpoints were damaged, so that this run went on from an older one."""
        return self._durable.damaged_checkpoints()

    @property
    def epoch(self) -> int:
        """The last epoch that was read."""
        return self._durable.epochs()[0]

    @property
    def committed(self) -> int:
        """The last epoch whose results are in the sink."""
        return self._durable.epochs()[1]


def callback_of(query: object, function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the callback of a query: while it runs, the thread is marked as being inside of the query."""

    def call(*arguments: Any) -> Any:
        _calls.queries.append(query)
        try:
            return function(*arguments)
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


def on_epoch(callback: Callable[[int, Any], Any], form: str) -> Callable[[int, native.Table], None]:
    """Make the callback of a job, which is called with the number of an epoch and a result of it."""

    def call(epoch: int, table: native.Table) -> None:
        for result in [Table(table)] if form == "tables" else table.rows():
            callback(epoch, result)

    return call
