"""Sharded streams: datasets in a fixed number of shards, and the plans over them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import _whimbrel as native
from . import attribute_errors, feeds
from ._types import Duration
from .background_actions import BackgroundActions
from .display import html_plan
from .errors import InvalidError
from .ingress import Ingress, check_settings
from .movement_methods import MovementMethods
from .program import Program
from .result_actions import ResultActions
from .stream import Stream, result_of


class ShardedStream(ResultActions, BackgroundActions, MovementMethods):
    """
    A dataset in a fixed number of shards, bounded or live, and what is to be done with it.

    Nothing runs until an action asks for a result: `collect`, `to_arrow`, `to_polars`, `to_pandas`,
    `to_rows`, `to_events`, `show`, `to_memory`, `to_storage`, `to_binary_stream`, `subscribe`. All other
    methods return a new sharded stream and leave this one as it is.

    On a stream with a time, results have the columns ``start`` and ``end`` first, then the key's columns,
    then the others. A null ``end`` is not determined yet.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([(0, "a"), (70, "b"), (80, "b")], schema=["time", "item"], time="time")
    >>> per_item = (
    ...     clicks.rekey(lambda e: e.item)
    ...     .redistribute()
    ...     .query(lambda q: q.tumbling(60).aggregate(n=wb.count()))
    ... )
    >>> per_item.show()
    ┌───────┬───────┬────────┬───────┐
    │ start │   end │ item   │     n │
    │ int64 │ int64 │ string │ int64 │
    ├───────┼───────┼────────┼───────┤
    │    60 │   120 │ a      │     1 │
    │   120 │   180 │ b      │     2 │
    └───────┴───────┴────────┴───────┘
    """

    __slots__ = ()

    def _with_plan(self, plan: native.Plan) -> ShardedStream:
        return ShardedStream(plan)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return self._plan.properties()["shards"]

    @property
    def time(self) -> str | None:
        """The name of the type of time, or `None` if the stream has no time."""
        return self._plan.properties()["time"]

    @property
    def bounded(self) -> bool:
        """Whether the rows end."""
        return self._plan.properties()["bounded"]

    def to_python(self) -> Program:
        """
        Write the plan as a Python program that builds it again, to read, to edit and to run.

        Returns
        -------
        Program
            A string. A plan over files is a script; one over tables in memory, live sources or black boxes is
            a function that is given them. `Program.run` runs either.

        Raises
        ------
        InvalidError
            If the plan has a step that no method builds.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(0, "a"), (70, "b"), (80, "b")], schema=["time", "item"], time="time")
        >>> per_item = clicks.rekey("item").query(lambda q: q.tumbling(60).aggregate(n=wb.count()))
        >>> program = per_item.to_python()
        >>> print(program)
        import whimbrel as wb
        <BLANKLINE>
        <BLANKLINE>
        def program(table: wb.ShardedStream) -> wb.ShardedStream:
            per_item = table.rekey("item").query(lambda q: q.tumbling(60).aggregate(n=wb.count()))
            return per_item
        <BLANKLINE>
        >>> program.run().to_rows() == per_item.to_rows()
        True
        """
        return Program(self._plan.to_python(), ShardedStream)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {dtype}" for name, dtype in self.schema.items())
        return f"{self._title()}\n  columns: {columns}\n{_indent(self.explain())}"

    def _repr_html_(self) -> str:
        return html_plan(self._title(), self._plan.schema(), self.explain())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")
            raise AttributeError(attribute_errors.for_sharded_stream(name, dir(type(self)), dir(Stream)))

    def _title(self) -> str:
        properties = self._plan.properties()
        parts = [f"{properties['shards']} shard{'' if properties['shards'] == 1 else 's'}"]
        parts.append(f"time {properties['time']}" if properties["time"] else "no time")
        if properties["key"]:
            parts.append(f"key {', '.join(properties['key'])}")
        if not properties["bounded"]:
            parts.append("live")
        return f"ShardedStream: {' · '.join(parts)}"

    # Transformations.

    def query(self, *others: ShardedStream | Callable[..., Stream]) -> ShardedStream:
        """
        Run a query on every shard, or on shards of several streams that have the same number.

        Parameters
        ----------
        *others
            First, for a query over several streams, the others, with as many shards. Last, a function of a
            `Stream`, or of as many as there are streams, that returns one.

        Returns
        -------
        ShardedStream
            As many shards as before.

        Raises
        ------
        InvalidError
            If the shards are not as many, or the function does not return a stream.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "user": 1}, {"item": "b", "user": 2}])
        >>> clicks.query(lambda q: q.where(lambda e: e.user < 2)).to_rows()
        [Row(item='a', user=1)]
        >>> items = wb.from_rows([{"item": "a", "price": 5}])
        >>> clicks.query(items, lambda c, i: c.join(i, on="item")).to_rows()
        [Row(item='a', user=1, price=5)]
        """
        *streams, query = others or (None,)
        if isinstance(query, ShardedStream) or not callable(query):
            raise InvalidError(
                "query ends with a function: clicks.query(lambda q: …), left.query(right, lambda l, r: …)"
            )
        for other in streams:
            if not isinstance(other, ShardedStream):
                raise InvalidError(
                    f"query takes sharded streams and a function, not a {type(other).__name__}"
                )
            if self.shards != other.shards:
                raise InvalidError(
                    f"the left stream has {self.shards} shards and the right one {other.shards}; "
                    f"redistribute both by the same key, or bring one to the other's number, e.g. "
                    f"right.broadcast(shards={self.shards})"
                )
        plans = [self._plan, *(other._plan for other in streams if isinstance(other, ShardedStream))]
        return ShardedStream(result_of(query, *map(Stream, plans))._plan)

    def with_time(self, time: str, end: str | None = None, **ingress: Any) -> ShardedStream:
        """
        Give the rows of a stream without a time lifetimes, as `read` does with ``time=``.

        For data that has to be filtered, or whose time has to be computed, first.

        Parameters
        ----------
        time, end, **ingress
            As in `read`.

        Returns
        -------
        ShardedStream
            The same rows in the same shards, as events.

        Raises
        ------
        InvalidError
            If there is no such column, or the stream has a time already.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([{"dep": 5}, {"dep": None}])
        >>> flights.query(lambda q: q.where(lambda e: e.dep.is_not_null())).with_time("dep").to_rows()
        [Row(start=5, end=6, dep=5)]
        """
        return ShardedStream(Ingress(time, end, **check_settings(ingress)).apply(self._plan))

    def recursive(
        self, step: Callable[[ShardedStream], ShardedStream], *, distinct: bool = False
    ) -> ShardedStream:
        """
        Add the rows that a step derives, repeatedly, until it derives none: SQL's ``with recursive``.

        Parameters
        ----------
        step
            A function of the rows that the last step derived, which returns the next ones, in the same
            columns. It is called once, to build the plan.
        distinct
            Whether to keep one of equal rows. The recursion then ends when a step derives no new row.

        Returns
        -------
        ShardedStream
            The first rows and all that were derived.

        Raises
        ------
        InvalidError
            If there is more than one shard, or a time, or the columns differ.

        Examples
        --------
        >>> import whimbrel as wb
        >>> powers = wb.values([{"n": 1}]).recursive(
        ...     lambda rows: rows.query(lambda q: q.where(lambda e: e.n < 9).select(n=lambda e: e.n * 2))
        ... )
        >>> [row.n for row in powers.to_rows()]
        [1, 2, 4, 8, 16]
        """

        def native_step(rows: native.Plan) -> native.Plan:
            result = step(ShardedStream(rows))
            if not isinstance(result, ShardedStream):
                raise InvalidError(f"the step has to return a sharded stream, not {type(result).__name__}")
            return result._plan

        name = next(iter(inspect.signature(step).parameters), "rows")
        return ShardedStream(self._plan.recursive(name, native_step, distinct))

    def changes(self) -> ShardedStream:
        """
        Make the stream of what changes in this relation.

        Over a live source without time a result changes as rows come. Its changes are final, so they can be
        handed on one by one: `subscribe` to them.

        Returns
        -------
        ShardedStream
            A row for each row that comes into the relation (``change`` is 1) or leaves it (``change`` is -1),
            with ``change`` as its first column. The sum of ``change`` over equal rows is how often the row is
            there.

        Raises
        ------
        InvalidError
            If the relation cannot be maintained while rows come; the message has the reason and a remedy.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"item": "string"})
        >>> seen = []
        >>> per_item = wb.sql("select item, count(*) as n from clicks group by item", clicks=clicks)
        >>> subscription = per_item.changes().subscribe(seen.append)
        >>> clicks.push([("a",)])
        >>> clicks.push([("a",)])
        >>> clicks.close()
        >>> subscription.wait()
        True
        >>> seen
        [Row(change=1, item='a', n=1), Row(change=-1, item='a', n=1), Row(change=1, item='a', n=2)]
        """
        return ShardedStream(self._plan.changes())

    def allow_lateness(self, time: str, lateness: Duration, *, retention: Duration) -> ShardedStream:
        """
        Drop rows of a live relation that come too late, and forget those that nothing can change any more.

        This is what ``emit changes within`` is made of, which checks what is said below, and computes the
        retention. Use it under `changes` and `maintain`, so that the state of a query over windows, which
        are columns here, does not grow for ever.

        Parameters
        ----------
        time
            The column with the time of each row: a timestamp, or an int64.
        lateness
            How much earlier than the latest row a row may be. Later ones are dropped and counted
            (`Subscription.late_rows`).
        retention
            How long after its time the last window of a row may end. A row that is so much older than the
            lateness allows is forgotten: what has been computed of it stays as it is.

        Returns
        -------
        ShardedStream
            The same rows, in one shard. Every row of what is computed of them has to be about one window
            (group by it, join on it), because rows of a window that is over are not there any more. A bounded
            relation stays as it is.

        Raises
        ------
        InvalidError
            If the stream has a time, there is no such column, or a duration does not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.live({"at": "int64"})
        >>> windows = clicks.allow_lateness("at", 20, retention=10).query(
        ...     lambda q: q.with_columns(window=lambda e: e.at // 10)
        ... )
        >>> counts = windows.rekey("window").query(lambda q: q.aggregate(n=wb.count()))
        >>> seen = []
        >>> subscription = counts.changes().subscribe(seen.append)
        >>> for at in (1, 25, 8, 50, 9):
        ...     clicks.push([(at,)])
        >>> clicks.close()
        >>> subscription.wait()
        True
        >>> [(row.change, row.window, row.n) for row in seen]
        [(1, 0, 1), (1, 2, 1), (-1, 0, 1), (1, 0, 2), (1, 5, 1)]
        >>> subscription.late_rows
        1
        """
        return ShardedStream(self._plan.allow_lateness(time, lateness, retention))

    def to_memory(self, name: str | None = None, **options: Any) -> ShardedStream:
        """
        Run, and return the result as a sharded stream over memory.

        Parameters
        ----------
        name
            With a cluster: the name under which the result is in the memory of its workers, for all
            applications that use the cluster (`Cluster.datasets`), until it is removed. What is lost with a
            worker is computed again.
        **options
            As in `collect`.

        Returns
        -------
        ShardedStream
            The same rows, lifetimes, shards and key; its source is memory.

        Raises
        ------
        InvalidError
            If there is a dataset of this name, or a name and no cluster.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}]).reshard(2).to_memory()
        >>> clicks.shards, len(clicks.to_rows())
        (2, 2)
        """
        if name is not None:
            cluster = self._remote(options.get("on"))
            if cluster is None:
                raise InvalidError("a result in memory has a name on a cluster only: give it with on=")
            return ShardedStream(cluster._store(name, self._plan))
        with feeds.running(self._plan) as poll:
            return ShardedStream(native.to_memory(self._plan, self._options(**options), poll))


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())
