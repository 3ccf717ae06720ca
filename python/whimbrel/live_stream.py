"""Sources that grow while queries run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from . import _whimbrel as native
from . import events, feeds
from .errors import DataError, InvalidError
from .ingress import Ingress, check_settings, shard_count
from .rows import table_of_any
from .schema import columns_of, schema_of
from .sharded import ShardedStream
from .subscription import Subscription


@dataclass(frozen=True)
class Pace:
    """What moves the time of a source beside its rows."""

    idle: str | timedelta | None = None
    arrival: str | None = None
    latency: str | timedelta = "100ms"

    def of(
        self, time: str | None
    ) -> tuple[tuple[str, str | timedelta] | None, tuple[str, str | timedelta] | None]:
        """Pair each setting with its column."""
        if self.arrival is not None and time is not None:
            raise InvalidError("rows have the time of a column, time=, or that of their arrival, arrival=")
        if self.idle is not None and time is None:
            raise InvalidError("idle= is about the time of rows: give the column with time=")
        idle = None if self.idle is None or time is None else (time, self.idle)
        return idle, None if self.arrival is None else (self.arrival, self.latency)


class LiveStream(ShardedStream):
    """
    A sharded stream whose rows are pushed while queries run: the result of `live`.

    Rows that are pushed before the first query runs are kept for it. A later query gets the rows that are
    pushed after its start.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.live({"time": "int64", "item": "string"}, time="time") as clicks:
    ...     clicks.push([(1, "a"), (7, "b")])
    ...     clicks.advance(20)
    >>> clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count())).to_rows()
    [Row(start=10, end=20, n=2)]
    """

    __slots__ = ("_source", "_schema", "_senders", "_time")

    def __init__(
        self,
        schema: native.Schema,
        ingress: Ingress,
        shards: int,
        log: str | os.PathLike[str] | None = None,
        pace: Pace | None = None,
    ) -> None:
        pace = pace or Pace()
        idle, arrival = pace.of(ingress.time)
        log = None if log is None else os.fspath(log)
        plan, senders = native.live(schema, shard_count(shards) or 1, log, idle, arrival)
        if arrival is not None:
            ingress = replace(ingress, time=pace.arrival)
        super().__init__(ingress.apply(plan))
        self._schema = schema
        self._senders = senders
        self._source = native.live_sources(plan)[0]
        # Whoever gives rows the time of their arrival advances it.
        of_rows = dict(zip(schema.names(), schema.types(), strict=True))
        self._time = None if arrival is not None or ingress.time is None else of_rows[ingress.time]

    def push(self, rows: Any, *, shard: int = 0, timeout: float | timedelta | None = None) -> None:
        """
        Send rows, all or none; waits while the query is behind. Ctrl-C ends the wait.

        Parameters
        ----------
        rows
            A list of dicts or tuples, any Arrow table, or for `live_events` a list of events.
        shard
            Which shard they belong to.
        timeout
            How long to wait at most: seconds or a timedelta; by default without limit.

        Raises
        ------
        InvalidError
            If the columns are not the source's, or a value is not of its column's type. Values are not
            rounded, only floats to narrower ones. A column that a row lacks is null.
        DataError
            If every query that read the source has ended (if one has failed, its own error), or the source
            is closed.
        UnavailableError
            If the buffer was full until the timeout; none of the rows was sent.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self._send(self._shard(shard), rows, seconds)

    def advance(self, time: int | datetime, *, shard: int | None = None) -> None:
        """
        Promise that no row before a time will be pushed: results up to that time become final.

        Parameters
        ----------
        time
            The time.
        shard
            For which shard; by default for all.

        Raises
        ------
        InvalidError
            If the stream has no time, or this is none.
        """
        if self._time is None:
            raise InvalidError(
                "this stream has no time to advance: give it one with time=; that of the rows' arrival goes "
                "on by itself"
            )
        for sender in self._senders if shard is None else [self._senders[self._shard(shard)]]:
            sender.advance(time, self._time)

    def close(self) -> None:
        """End the stream: nothing more can be pushed."""
        for sender in self._senders:
            sender.close()

    def __enter__(self) -> LiveStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _push_item(self, item: Any) -> None:
        self._send(0, item)

    def _send(self, shard: int, rows: Any, timeout: float | None = None) -> None:
        table = table_of_any(rows, self._schema)
        try:
            self._senders[shard].push(table, timeout)
        except DataError:
            # No query reads the source any more; one that failed has the cause.
            feeds.raise_failure(self._source)
            raise

    def _shard(self, shard: int) -> int:
        if not 0 <= shard < len(self._senders):
            raise InvalidError(f"there is no shard {shard}; the stream has {len(self._senders)}, from 0")
        return shard


def live(
    source: Any,
    *,
    time: str | None = None,
    end: str | None = None,
    schema: Any = None,
    shards: int = 1,
    log: str | os.PathLike[str] | None = None,
    idle: str | timedelta | None = None,
    arrival: str | None = None,
    latency: str | timedelta = "100ms",
    **ingress: Any,
) -> LiveStream:
    """
    Make a source that grows while queries run.

    Parameters
    ----------
    source
        Its schema, as a mapping of names to types: the result's `LiveStream.push` then feeds it. Or an
        iterable of rows (dicts, tuples) or of tables (any Arrow object), which the first query that runs
        consumes in the background.
    time, end
        The columns that hold time, as in `read`.
    schema
        The columns, where `source` is an iterable of tuples, or its first element has nulls.
    shards
        In how many shards; rows are pushed into one of them.
    log
        A folder that keeps what is pushed: it is on the disk before `LiveStream.push` returns, so that
        `ShardedStream.run_forever` can go on after a crash. A program that makes the source again with the
        same folder goes on writing there. The folder grows: files in it (Arrow streams, each with an index)
        that no job will read again may be removed, the oldest first.
    idle
        A shard into which nothing is pushed for so long holds nobody back: it counts as having come as far as
        the slowest of the others. Rows that are pushed into it later may be late: ``disorder="drop"``.
    arrival
        The name of a column that is added to the rows: when each was pushed, in UTC. It is their time, which
        goes on by the clock while no rows come.
    latency
        With `arrival`: how far results may be behind the clock.
    **ingress
        As in `read`.

    Returns
    -------
    LiveStream
        A sharded stream to build queries on and to push to.

    Raises
    ------
    InvalidError
        If the columns are not known.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.live({"time": "int64", "item": "string"}, time="time")
    >>> clicks.push([(1, "a"), (2, "b")])
    >>> clicks.close()
    >>> clicks.query(lambda q: q.select("item")).to_rows()
    [Row(start=1, end=2, item='a'), Row(start=2, end=3, item='b')]
    >>> ticks = wb.live(({"time": t, "n": t * t} for t in range(3)), time="time")
    >>> ticks.query(lambda q: q.select("n")).to_rows()
    [Row(start=0, end=1, n=0), Row(start=1, end=2, n=1), Row(start=2, end=3, n=4)]
    """
    settings, pace = Ingress(time, end, **check_settings(ingress)), Pace(idle, arrival, latency)
    if isinstance(source, Mapping) or hasattr(source, "__arrow_c_schema__"):
        return LiveStream(schema_of(source), settings, shards, log, pace)
    if log is not None:
        raise InvalidError(
            "a log keeps what is pushed: give live a schema, and push the items of the iterable"
        )
    if not isinstance(source, Iterable):
        raise InvalidError('live takes a schema, {"time": "int64", "item": "string"}, or an iterable of rows')
    items = iter(source)
    first = next(items, None)
    if first is None and schema is None:
        raise InvalidError("the iterable is empty, so its columns are not known; give them with schema=")
    columns = schema_of(schema) if schema is not None else _inferred_schema(first)
    stream = LiveStream(columns, settings, shards, pace=pace)
    rest = items if first is None else itertools.chain([first], items)
    feeds.register(stream._source, feeds.Feed(rest, stream._push_item, stream.close))
    return stream


def _inferred_schema(first: Any) -> native.Schema:
    """Take the columns from the first element, which has to have a value in each."""
    schema = table_of_any(first, None).schema()
    for name, dtype in zip(schema.names(), schema.types(), strict=True):
        if dtype == "null":
            raise InvalidError(
                f'the first row has nothing in column "{name}", so its type is not known; give schema='
            )
    return schema


class Published(ShardedStream):
    """
    A result that several queries read while it grows: the result of `ShardedStream.publish`.

    Its columns are those of the result as a table, lifetimes among them.
    """

    __slots__ = ("job",)

    def __init__(self, plan: native.Plan, job: Subscription) -> None:
        super().__init__(plan)
        self.job = job
        """The query that makes it, which goes on whether or not others read it."""

    def __enter__(self) -> Published:
        return self

    def __exit__(self, *exception: object) -> None:
        self.job.stop()


def live_events(schema: Any, *, clock: str = "int64", shards: int = 1, **ingress: Any) -> LiveStream:
    """
    Make a source that is fed with events, edges and punctuations while queries run.

    Parameters
    ----------
    schema
        The payload's columns: a mapping of names to types.
    clock
        The type of time.
    shards, **ingress
        As in `live`.

    Returns
    -------
    LiveStream
        Its `LiveStream.push` takes lists of events.

    Examples
    --------
    >>> import whimbrel as wb
    >>> moods = wb.live_events({"mood": "string"})
    >>> moods.push([wb.start_edge(1, {"mood": "glad"}), wb.end_edge(1, 4, {"mood": "glad"})])
    >>> moods.close()
    >>> moods.to_rows()
    [Row(start=1, end=4, mood='glad')]
    """
    columns = [(events.START, clock), (events.END, clock), (events.KIND, "string"), *columns_of(schema)]
    return LiveStream(
        native.Schema.of(columns),
        Ingress(events.START, events.END, events.KIND, **check_settings(ingress)),
        shards,
    )
