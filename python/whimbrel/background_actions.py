"""Actions that go on: run a plan in the background, as a job, or on a cluster.

They rely on `runnable` for the settings of a run, and on `subscription` and `view` for what is handed to the
caller, who waits for a query or stops it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from itertools import starmap
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _whimbrel as native
from . import feeds, shutdown
from .connectors import JobSink, SinkAdapter, sink_at
from .errors import InvalidError
from .events import Event
from .progressive import Progressive
from .remote import RemoteRuntime
from .runnable import Runnable
from .settings import Runtime
from .subscription import Job, Subscription, callback_of, on_epoch, one_by_one
from .table import Table
from .view import Rows, View

if TYPE_CHECKING:
    from .cluster_job import ClusterJob
    from .live_job import LiveJob
    from .live_stream import Published


class BackgroundActions(Runnable):
    """The actions that hand on results while a query runs, or whose query outlives the call."""

    __slots__ = ()

    def submit(self, *, on: RemoteRuntime | None = None, keep: str | timedelta = "1h") -> ClusterJob:
        """
        Run on a cluster, as a job that goes on when this process is gone.

        Parameters
        ----------
        on
            The cluster; by default that of `config`.
        keep
            How long the job and its result are there after it has ended.

        Returns
        -------
        ClusterJob
            The job. ``wb.cluster.connect(address).job(job.id)`` is the same job, anywhere.

        Raises
        ------
        InvalidError
            If there is no cluster, or the query cannot run on one.

        Examples
        --------
        >>> import whimbrel as wb
        >>> with wb.cluster.start(workers=2) as cluster:  # doctest: +SKIP
        ...     job = wb.sql("select count(*) as n from range(1000000)").submit(on=cluster)
        ...     job.result().to_rows(), job.stats().failures
        ([Row(n=1000000)], 0)
        """
        cluster = self._remote(on)
        if cluster is None:
            raise InvalidError("submit runs a query on a cluster: give it with on=, or wb.config(on=)")
        return cluster._submit(self._plan, keep)

    def progressive(
        self,
        *,
        results: int = 20,
        runtime: Runtime | None = None,
        batch_rows: int | None = None,
    ) -> Progressive:
        """
        Run over tables, and give the result over what has been read so far, again and again.

        The largest table is read in equal parts; the others are there from the beginning. After each part
        comes the result of the query over the rows that have been read: its order and its limit are those of
        the query. The last one is the result itself.

        Parameters
        ----------
        results
            How many results there are at most. Parts that are over at the same time have one, and a file in
            which no place can be told has one as a whole.
        runtime, batch_rows
            As in `config`.

        Returns
        -------
        Progressive
            An iterator of `EarlyResult`. The query waits while nobody takes its results, and ends when the
            iterator is closed or deleted.

        Raises
        ------
        InvalidError
            If a source of the query does not end, rows have a time, or a step cannot be kept up to date.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.read("data/nyc_flights_2013.parquet")
        >>> sql = "select carrier, avg(dep_delay) as d from flights group by 1 order by d desc limit 1"
        >>> for early in wb.sql(sql, flights=flights).progressive(results=4):
        ...     print(f"{early.share:.0%} of the flights: {early.table.to_rows()[0].carrier}")
        25% of the flights: OO
        50% of the flights: OO
        75% of the flights: F9
        100% of the flights: F9
        """
        options = self._options(runtime, False, batch_rows, None)
        return Progressive(native.progressive(self._plan, options, results))

    def subscribe(
        self,
        callback: Callable[..., Any],
        *,
        form: Literal["rows", "tables", "events"] = "rows",
        late: Callable[[Table], Any] | None = None,
        runtime: Runtime | None = None,
        batch_rows: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: str | timedelta = "10s",
        stop_when_idle: str | timedelta | None = None,
    ) -> Subscription:
        """
        Run in the background, and call a function with results as they become final.

        With ``checkpoint``, the query goes on after a crash where it was, see `run_forever`; the result is a
        `Job`. The function is then called with the number of an epoch and a result of it. The results of an
        epoch that the function had not returned from come again after a crash, under the same number: whoever
        keeps the number together with the results can leave those out.

        Parameters
        ----------
        callback
            Called on a thread of the engine, for one result after the other. What it raises ends the query.
        form
            What it is called with: ``"rows"``, one `Row` each; ``"tables"``, a `Table` for each batch;
            ``"events"``, `Event` objects with edges and punctuations.
        late
            Called with tables of rows that came too late and were dropped: of their source's columns, those
            that the query uses.
        runtime, batch_rows
            As in `config`.
        checkpoint, every, stop_when_idle
            As in `run_forever`; by default nothing is kept.

        Returns
        -------
        Subscription
            It waits for the end of the query or stops it.

        Warns
        -----
        UserWarning
            If nothing is final before the sources are closed, because rows of the result change as rows of a
            live source without time come: `changes` and `maintain` are for that.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"time": "int64", "item": "string"}, time="time")
        >>> seen = []
        >>> subscription = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count())).subscribe(
        ...     seen.append
        ... )
        >>> clicks.push([(3, "a"), (5, "b"), (12, "a")])
        >>> clicks.close()
        >>> subscription.wait()
        True
        >>> seen
        [Row(start=10, end=20, n=2), Row(start=20, end=30, n=1)]
        """
        if form not in ("rows", "tables", "events"):
            raise InvalidError(f'form is "rows", "tables" or "events", not {form!r}')
        if form == "events":
            self._require_time('form="rows"')
        if not self._plan.final_at_once():
            warnings.warn(
                "rows of this result change as rows of its live source come, so none is final, and none is "
                "handed out, before the source is closed; for what changes, subscribe to .changes() (in SQL: "
                "emit changes)",
                stacklevel=2,
            )
        if checkpoint is not None:
            if form == "events":
                raise InvalidError(
                    'a job with a checkpoint hands out rows or tables: leave form="events" out'
                )
            on_result = on_epoch(callback, form)
            return self._start_job(
                checkpoint, every, stop_when_idle, runtime, batch_rows, callback=on_result, late=late
            )
        settings = self._options(runtime, False, batch_rows)
        query = object()
        on_late = None if late is None else callback_of(query, lambda table: late(Table(table)))
        if form == "events":
            on_events = one_by_one(callback, lambda events: starmap(Event, events))
            job = native.subscribe_events(self._plan, settings, callback_of(query, on_events), on_late)
        else:
            by_row = one_by_one(callback, native.Table.rows)
            on_table = by_row if form == "rows" else lambda table: callback(Table(table))
            job = native.subscribe(self._plan, settings, callback_of(query, on_table), on_late)
        feeds.add_reader(self._plan, job)
        shutdown.remember(self._plan, job)
        return Subscription(job, feeds.start(self._plan), query, self._plan.properties()["time"])

    @overload
    def run_forever(
        self,
        to: str | os.PathLike[str] | JobSink,
        *,
        checkpoint: str | os.PathLike[str],
        every: str | timedelta = "10s",
        stop_when_idle: str | timedelta | None = None,
        format: Literal["parquet", "arrow"] | None = None,
        runtime: Runtime | None = None,
        batch_rows: int | None = None,
        wait: bool = True,
        on: None = None,
    ) -> Job: ...

    @overload
    def run_forever(
        self,
        to: str | os.PathLike[str],
        *,
        checkpoint: str | os.PathLike[str],
        every: str | timedelta = "10s",
        stop_when_idle: str | timedelta | None = None,
        format: Literal["parquet", "arrow"] | None = None,
        batch_rows: int | None = None,
        on: RemoteRuntime,
    ) -> LiveJob: ...

    def run_forever(
        self,
        to: str | os.PathLike[str] | JobSink,
        *,
        checkpoint: str | os.PathLike[str],
        every: str | timedelta = "10s",
        stop_when_idle: str | timedelta | None = None,
        format: Literal["parquet", "arrow"] | None = None,
        runtime: Runtime | None = None,
        batch_rows: int | None = None,
        wait: bool = True,
        on: RemoteRuntime | None = None,
    ) -> Job | LiveJob:
        r"""
        Run as a job that survives crashes: the same call goes on where the last one was, whatever ended it.

        Each result is in the sink exactly once, also if the process is killed at any moment. Its sources have
        to be such that their rows can be read again: `follow`, `kafka`, `from_source`, `live` with ``log=``,
        and what is bounded.

        Parameters
        ----------
        to
            Where results go: a folder, here or in an object store (``"s3://bucket/out"``),
            ``"postgres://user@host/database?table=name"``, ``"kafka://host:port/topic"``, or a sink of your
            own. A folder gets a file with each checkpoint that has new results.
        checkpoint
            Where the state of the job is kept: a folder, or the URL of one in an object store
            (``"s3://bucket/state"``). Each job has one of its own.
        every
            The time between two checkpoints.
        stop_when_idle
            After how long without anything new the job ends; the same call goes on with it later. By default
            it runs until its sources end, or Ctrl-C.
        format
            The format of the files in a folder; by default Parquet.
        runtime, batch_rows
            As in `config`.
        wait
            Whether to wait for the end of the job. Otherwise it runs in the background.
        on
            A cluster, one of whose workers hosts the job; another one goes on with it when that is lost.
            The call returns at once, whatever ``wait`` says, and the job outlives this process. All workers
            have to reach ``to``, ``checkpoint`` and the sources. By default the job runs in this process,
            whatever `config` says.

        Returns
        -------
        Job or LiveJob
            The job, which has ended if it was waited for; on a cluster, a `LiveJob`.

        Raises
        ------
        InvalidError
            If a source cannot be read again, or ``to`` has the results of another job.
        DataError
            If the state is of another query or release, another process runs the job, or the query fails.
        ResourceExhaustedError
            If the disk is full. Nothing is lost: the same call goes on once there is room.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import whimbrel as wb
        >>> folder = tempfile.TemporaryDirectory()
        >>> root = pathlib.Path(folder.name)
        >>> (root / "clicks").mkdir()
        >>> _ = (root / "clicks/1.csv").write_text("time,item\n1,a\n12,b\n")
        >>> def count():
        ...     clicks = wb.follow(root / "clicks", time="time")
        ...     query = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
        ...     return query.run_forever(root / "out", checkpoint=root / "state", stop_when_idle="200ms")
        >>> count().restored_from is None
        True
        >>> wb.read(root / "out").query(lambda q: q.select("start", "n")).to_rows()
        [Row(start=10, n=1)]
        >>> _ = (root / "clicks/2.csv").write_text("time,item\n15,a\n25,b\n")
        >>> count().restored_from is None
        False
        >>> wb.read(root / "out").query(lambda q: q.select("start", "n")).to_rows()
        [Row(start=10, n=1), Row(start=20, n=2)]
        >>> folder.cleanup()
        """
        if on is not None:
            if isinstance(to, JobSink) or os.fspath(to).startswith("kafka://"):
                raise InvalidError(
                    "a cluster writes to a folder or to PostgreSQL; this sink is of this process"
                )
            settings = self._options(None, False, batch_rows)
            place, state = os.fspath(to), os.fspath(checkpoint)
            return on._run_forever(self._plan, settings, place, format, state, every, stop_when_idle)
        sink = to if isinstance(to, JobSink) else sink_at(os.fspath(to))
        if sink is not None and format is not None:
            raise InvalidError("format= is that of the files in a folder; this sink has none")
        place = None if isinstance(to, JobSink) else os.fspath(to)
        job = self._start_job(
            checkpoint, every, stop_when_idle, runtime, batch_rows, to=place, format=format, sink=sink
        )
        if wait:
            job.wait()
        return job

    def _start_job(
        self,
        checkpoint: str | os.PathLike[str],
        every: str | timedelta,
        stop_when_idle: str | timedelta | None,
        runtime: Runtime | None,
        batch_rows: int | None,
        *,
        to: str | None = None,
        format: str | None = None,
        callback: Callable[[int, native.Table], Any] | None = None,
        sink: JobSink | None = None,
        late: Callable[[Table], Any] | None = None,
    ) -> Job:
        query = object()
        on_late = None if late is None else callback_of(query, lambda table: late(Table(table)))
        settings, place = self._options(runtime, False, batch_rows), os.fspath(checkpoint)
        job = native.start_durable(
            self._plan,
            settings,
            place,
            every,
            stop_when_idle,
            to,
            format,
            None if callback is None else callback_of(query, callback),
            None if sink is None else SinkAdapter(sink, lambda function: callback_of(query, function)),
            on_late,
        )
        shutdown.remember_job(job)
        return Job(job, query, self._plan.properties()["time"])

    def publish(self, *, runtime: Runtime | None = None, batch_rows: int | None = None) -> Published:
        """
        Run once in the background, for several queries that read the result while it grows.

        The first query that reads it gets all rows so far, later ones those that come from then on. A query
        that is slow holds up the others.

        Parameters
        ----------
        runtime, batch_rows
            As in `config`.

        Returns
        -------
        Published
            A sharded stream of the result as a table, in order of time. Leaving a ``with`` block stops the
            query.

        Raises
        ------
        InvalidError
            If the stream has no time, or the plan cannot be run. Queries that read the result of one that
            fails or is stopped fail, too.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"time": "int64", "item": "string"}, time="time")
        >>> counts = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count())).publish()
        >>> low, high = [], []
        >>> jobs = [
        ...     counts.query(lambda q: q.where(lambda e: e.n < 2)).subscribe(low.append),
        ...     counts.query(lambda q: q.where(lambda e: e.n >= 2)).subscribe(high.append),
        ... ]
        >>> clicks.push([(3, "a"), (5, "b"), (12, "a")])
        >>> clicks.close()
        >>> all(job.wait() for job in jobs)
        True
        """
        # A published result is a stream, and streams have this method.
        from .live_stream import Published

        plan, job = native.publish(self._plan, self._options(runtime, False, batch_rows))
        feeds.add_reader(self._plan, job)
        shutdown.remember(self._plan, job)
        started = feeds.start(self._plan)
        return Published(plan, Subscription(job, started, object(), self._plan.properties()["time"]))

    def maintain(
        self,
        callback: Callable[[Table], Any] | None = None,
        *,
        runtime: Runtime | None = None,
        batch_rows: int | None = None,
    ) -> View:
        """
        Run in the background, and keep the result up to date while rows come.

        Parameters
        ----------
        callback
            Called after each change, on a thread of the engine, with a table of what has changed, as
            `changes` gives it.
        runtime, batch_rows
            As in `config`.

        Returns
        -------
        View
            It has the current rows, and waits for the end of the query or stops it.

        Raises
        ------
        InvalidError
            If the result cannot be maintained; the message has the reason and a remedy.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"item": "string"})
        >>> with wb.sql("select item, count(*) as n from c group by item", c=clicks).maintain() as view:
        ...     clicks.push([("a",), ("b",), ("a",)])
        ...     clicks.close()
        ...     view.wait()
        True
        >>> view.snapshot()
        [{'item': 'a', 'n': 2}, {'item': 'b', 'n': 1}]
        """
        if self._plan.properties()["time"] is not None:
            raise InvalidError("a stream with time has rows that live and end: subscribe to it")
        # In one shard, the changes of all shards at one instant are one batch.
        one_shard = self._plan if self._plan.properties()["shards"] == 1 else self._plan.reshard(1, "global")
        plan = one_shard.changes()
        rows, query = Rows(callback), object()
        on_changes = callback_of(query, rows.apply)
        job = native.subscribe(plan, self._options(runtime, False, batch_rows), on_changes, None)
        feeds.add_reader(plan, job)
        if callback is not None:
            shutdown.remember(plan, job)
        return View(rows, job, feeds.start(plan), query)
