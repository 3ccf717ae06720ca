"""Streams: what the lambda of `ShardedStream.query` works on, one shard at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from . import _whimbrel as native
from . import attribute_errors, patterns
from ._types import Duration, Key, RowFunction
from .aggregates import Aggregate, Over
from .errors import InvalidError
from .expressions import Expr, Untraceable, to_native
from .lifetimes import LifetimeMethods
from .ordering import sort_keys
from .patterns import Pattern
from .projection import START, Projection, expression_or_list, is_function, predicate, projection
from .relational import GroupingSets
from .reshaping import pivoted, unpivoted
from .tracing import SideTracer, label, takes_two, trace

How = Literal["inner", "left", "right", "full", "cross", "semi", "anti", "mark"]


class Stream(LifetimeMethods):
    """
    A relation, whose rows have a lifetime ``[start, end)`` each if the source has a time.

    A stream is a plan and computes nothing. Every method returns a new one. Where a method takes a function
    of the row (``lambda e: …``), the function is traced into an expression; one that cannot be traced runs as
    a black box, once for every row, with an `UntracedLambdaWarning`.

    Every operator is defined by what it does to each snapshot, the set of rows alive at an instant. On a
    stream without a time there is one snapshot, and the operators are the relational ones.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Stream\n{self.explain()}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"a Stream has no attribute {name!r}")
            raise AttributeError(attribute_errors.for_stream(name, dir(Stream)))

    # Rows and columns.

    def where(self, condition: RowFunction | Expr | str) -> Stream:
        """
        Keep the rows for which a condition holds. Lifetimes stay.

        Parameters
        ----------
        condition
            A lambda of the row, an expression, or the name of a boolean column. Null counts as false.

        Returns
        -------
        Stream
            Shape ``(m, k)`` with ``m <= n``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist or the condition is not a boolean.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}, {"item": "b", "price": 3}])
        >>> clicks.query(lambda q: q.where(lambda e: e.price > 2)).to_rows()
        [Row(item='b', price=3)]
        """
        return Stream(self._plan.where_(predicate(self._schema, condition)))

    def select(self, /, *columns: Any, returns: Any = None, **named: Any) -> Stream:
        """
        Make new columns and drop all others. Lifetimes stay.

        Parameters
        ----------
        *columns
            Names of columns, expressions, or lambdas of the row that return an expression, a dict of names
            and expressions, or a list of these. A lambda of two arguments is given the start of the row's
            lifetime too.
        returns
            The type of what a lambda returns that runs as a black box; by default found on sample rows.
        **named
            Expressions, lambdas of the row, or names of columns, by the name of the new column.

        Returns
        -------
        Stream
            Shape ``(n, columns)``, in the same order. A computed column without a name is named after the
            first column that it refers to.

        Raises
        ------
        InvalidError
            If a column does not exist, two have one name, or types do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}, {"item": "b", "price": 3}])
        >>> clicks.query(lambda q: q.select("item", double=lambda e: e.price * 2)).to_rows()
        [Row(item='a', double=2), Row(item='b', double=6)]
        >>> clicks.query(
        ...     lambda q: q.select(lambda e: {"what": e.item.upper(), "cost": e.price + 0.5})
        ... ).to_rows()
        [Row(what='A', cost=1.5), Row(what='B', cost=3.5)]
        """
        plan, projected = self._project(columns, named, returns)
        return Stream(plan.select(projected.columns))

    def with_columns(self, /, *columns: Any, returns: Any = None, **named: Any) -> Stream:
        """
        Add columns, or replace those of the same name. Lifetimes stay.

        Parameters
        ----------
        *columns, returns, **named
            As in `select`; or aggregates over the rows around each row, `Aggregate.over`, by name.

        Returns
        -------
        Stream
            Shape ``(n, k + new)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, two new ones have one name, or types do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.with_columns(double=lambda e: e.price * 2)).to_rows()
        [Row(item='a', price=1, double=2)]
        """
        if any(isinstance(value, Over) for value in named.values()):
            return self._with_windows(columns, named)
        plan, projected = self._project(columns, named, returns)
        stream = Stream(plan.with_columns(projected.columns))
        wanted = (*self.columns, *(column.name() for column in projected.columns))
        extra = [name for name in stream.columns if name not in wanted]
        return stream.drop(*extra) if extra else stream

    def _with_windows(self, columns: tuple[Any, ...], named: dict[str, Any]) -> Stream:
        windows = [
            (name, value.resolve(self._schema)) for name, value in named.items() if isinstance(value, Over)
        ]
        if columns or len(windows) < len(named):
            raise InvalidError("what is computed over other rows needs a with_columns of its own")
        return Stream(self._plan.with_windows(windows))

    def drop(self, *columns: str) -> Stream:
        """
        Leave out columns.

        Parameters
        ----------
        *columns
            Their names.

        Returns
        -------
        Stream
            Shape ``(n, k - columns)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, or is part of the key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.drop("price")).to_rows()
        [Row(item='a')]
        """
        return Stream(self._plan.drop(list(columns)))

    def rename(self, names: Mapping[str, str], /) -> Stream:
        """
        Give columns other names. Lifetimes stay.

        Parameters
        ----------
        names
            The new name of each column that gets one, by its present name.

        Returns
        -------
        Stream
            Shape ``(n, k)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, two have one name afterwards, or a column of the key would be renamed.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.rename({"price": "cost"})).to_rows()
        [Row(item='a', cost=1)]
        """
        keys = [name for name in names if name in self.key]
        if keys:
            raise InvalidError(f'column "{keys[0]}" is part of the key; rename it before rekey')
        renamed = {
            name: Expr(native.Expr.column(name, self._schema).alias(new)) for name, new in names.items()
        }
        # A name that is no column stays at the end, where select raises the error.
        return self.select(*({name: name for name in self.columns} | renamed).values())

    def select_many(
        self,
        items: RowFunction | Expr | str,
        name: str | None = None,
        *,
        returns: Any = None,
        nulls: bool = False,
    ) -> Stream:
        """
        Make one row of every element of a list. Lifetimes stay.

        Parameters
        ----------
        items
            The lists: a lambda of the row, which may return a list of expressions; an expression; or the name
            of a column.
        name
            The column of the elements; by default the list's own, which it replaces.
        returns
            The type of the lists that a black box makes, e.g. ``"list[int64]"``.
        nulls
            Whether a null list gives a row, with a null, as SQL's ``unnest`` does. Streams without a time
            only.

        Returns
        -------
        Stream
            A row for each element, with the row's other columns; none for an empty list, nor, by default, for
            a null one.

        Raises
        ------
        InvalidError
            If what is given is not a list.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "tags": ["x", "y"]}, {"item": "b", "tags": []}])
        >>> clicks.query(lambda q: q.select_many("tags", "tag")).to_rows()
        [Row(item='a', tag='x'), Row(item='a', tag='y')]
        """
        schema = self._schema
        expr = expression_or_list(schema, items, returns)
        source = expr.name()
        if source in schema.names():
            stream = Stream(self._plan.select_many(expr, name or source, nulls))
            return stream.drop(source) if name not in (None, source) else stream
        return Stream(self._plan.select_many(expr, name or expr.root() or "value", nulls))

    # Lifetimes.

    def clip(
        self,
        by: Stream | Duration,
        *,
        on: Key | None = None,
        left_on: Key | None = None,
        right_on: Key | None = None,
    ) -> Stream:
        """
        End lifetimes early: at a limit, or when something happens.

        Parameters
        ----------
        by
            The longest that a row may live (`Duration`), or a stream: a row ends with the first start of a
            row of that stream, of equal key, that is later than its own.
        on, left_on, right_on
            What has to be equal in both streams; by default the current key.

        Returns
        -------
        Stream
            The same rows with lifetimes that are no longer than before.

        Raises
        ------
        InvalidError
            If a stream has no time, the limit is not a positive whole number of ticks, or keys do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> moods = wb.from_rows([(0, "glad"), (5, "sad"), (7, "glad")], schema=["time", "mood"], time="time")
        >>> def until_next(q):
        ...     forever = q.alter_duration(float("inf"))
        ...     return forever.clip(forever).select("mood")
        >>> moods.query(until_next).to_rows()
        [Row(start=0, end=5, mood='glad'), Row(start=5, end=7, mood='sad'), Row(start=7, end=None,
        mood='glad')]
        """
        if not isinstance(by, Stream):
            return Stream(self._plan.clip_constant(by))
        left, right, pairs = _keyed_pair(self, by, on, left_on, right_on)
        return Stream(left._plan.clip(right._plan, pairs))

    # Groups.

    def aggregate(self, groups: GroupingSets | None = None, /, **aggregates: Aggregate) -> Stream:
        """
        Aggregate every snapshot, per key.

        Parameters
        ----------
        groups
            By default rows are grouped by the current key. Streams without a time can be grouped by several
            sets of columns: `grouping_sets`, `rollup`, `cube`.
        **aggregates
            Any number, by the name of the new column: `count`, `count_non_null`, `sum`, `avg`, `min`, `max`,
            `first`, `last`, `count_distinct`, each with a filter of its own; on streams without a time, any
            of DataFusion's, from `agg`.

        Returns
        -------
        Stream
            The key's columns, then one column for each aggregate. On a stream with a time, a row for each key
            and each stretch of time in which its snapshot stays the same; where no row is alive there is
            none.

        Raises
        ------
        InvalidError
            If a column does not exist or an aggregate does not take its type.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows(
        ...     [(0, 5, "a"), (2, 9, "b")], schema=["dep", "arr", "plane"], time="dep", end="arr"
        ... )
        >>> flights.query(lambda q: q.aggregate(flying=wb.count())).to_rows()
        [Row(start=0, end=2, flying=1), Row(start=2, end=5, flying=2), Row(start=5, end=9, flying=1)]
        """
        if not aggregates and groups is None:
            raise InvalidError("aggregate needs at least one aggregate, by name: aggregate(n=wb.count())")
        schema, resolved = self._schema, []
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise InvalidError(f"{name}: not an aggregate; use wb.count(), wb.sum(lambda e: e.price), …")
            resolved.append((name, *aggregate.resolve(schema)))
        if groups is None:
            return Stream(self._plan.aggregate(resolved))
        if not isinstance(groups, GroupingSets):
            raise InvalidError('aggregate groups by the current key, or by wb.rollup("a", "b") and its like')
        sets = [[native.Expr.column(name, schema) for name in one] for one in groups.sets]
        return Stream(self._plan.aggregate(resolved, (groups.kind, sets)))

    def pivot(
        self,
        on: str,
        values: Iterable[Any] | Mapping[str, Any],
        aggregate: Aggregate | None = None,
        /,
        **aggregates: Aggregate,
    ) -> Stream:
        """
        Make columns of the values of a column: Trill's `Pivot`.

        Parameters
        ----------
        on
            The column.
        values
            The values that get columns, or a mapping of the columns' names to values. They have to be known
            before the rows are.
        aggregate
            What the columns have: the aggregate of the rows with that value.
        **aggregates
            Several of them; columns are called after the value and the aggregate.

        Returns
        -------
        Stream
            The key's columns, then those of the values, as `aggregate` gives them.

        Raises
        ------
        InvalidError
            If a column does not exist, or there is no value or no aggregate.

        Examples
        --------
        >>> import whimbrel as wb
        >>> readings = wb.from_rows(
        ...     [(0, "a", "heat", 190), (0, "a", "load", 7), (0, "b", "heat", 80)],
        ...     schema=["time", "device", "what", "value"],
        ...     time="time",
        ... )
        >>> def wide(q):
        ...     return q.group_apply("device", lambda g: g.pivot("what", ["heat", "load"], wb.max("value")))
        >>> readings.query(wide).to_rows()
        [Row(start=0, end=1, device='a', heat=190, load=7), Row(start=0, end=1, device='b', heat=80,
        load=None)]
        """
        return self.aggregate(**pivoted(on, values, aggregate, aggregates))

    def unpivot(self, *columns: str, name: str = "name", value: str = "value", nulls: bool = False) -> Stream:
        """
        Make rows of columns: Trill's `Unpivot`.

        Parameters
        ----------
        *columns
            The columns, of one type.
        name, value
            The new columns: the name of the old one, and its value.
        nulls
            Whether values that are null get rows, too.

        Returns
        -------
        Stream
            Up to a row for each of the columns, with all other columns; lifetimes stay.

        Raises
        ------
        InvalidError
            If a column does not exist, a name is taken, or the columns have different types.

        Examples
        --------
        >>> import whimbrel as wb
        >>> devices = wb.from_rows([(0, "a", 190, 7)], schema=["time", "device", "heat", "load"], time="time")
        >>> long = devices.query(lambda q: q.unpivot("heat", "load", name="what"))
        >>> sorted((row.device, row.what, row.value) for row in long.to_rows())
        [('a', 'heat', 190), ('a', 'load', 7)]
        """
        return unpivoted(self, columns, name, value, nulls)

    def group_apply(self, key: Key, query: Callable[[Stream], Stream]) -> Stream:
        """
        Run a query on each group by itself.

        Parameters
        ----------
        key
            The columns by which rows are grouped: a column's name, several, or a lambda of the row that
            returns an expression, a tuple, or a dict of names and expressions. Within an outer `group_apply`,
            they are added to its key.
        query
            A function of the stream of a group.

        Returns
        -------
        Stream
            The results of all groups, in order of time, with the key's columns.

        Raises
        ------
        InvalidError
            If a column does not exist, or the function does not return a stream.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(0, "a"), (1, "b"), (2, "a")], schema=["time", "item"], time="time")
        >>> clicks.query(
        ...     lambda q: q.group_apply("item", lambda g: g.tumbling(10).aggregate(n=wb.count()))
        ... ).to_rows()
        [Row(start=10, end=20, item='a', n=2), Row(start=10, end=20, item='b', n=1)]
        """
        keys = projection(self._schema, (key,), {}, name_by_text=True)
        return Stream(_group_apply(self._plan, keys, query))

    def colocated(self, *key: Key) -> Stream:
        """
        Require that rows with equal keys are in one shard. No row changes or moves.

        An aggregate after a `redistribute` is right because the rows of a group are in one shard. This method
        checks that when the plan is built. Within `group_apply`, it checks the rows of each group.

        Parameters
        ----------
        *key
            Columns: rows that are equal in them have to be in one shard, as after a `redistribute` by these
            columns or by some of them. Without a key, all rows have to be in one shard. The check passes too
            if there is one shard, or after a `broadcast`.

        Returns
        -------
        Stream
            The same rows in the same shards.

        Raises
        ------
        InvalidError
            If the plan does not ensure it.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "user": 1}, {"item": "b", "user": 2}])
        >>> per_item = clicks.rekey("item").redistribute(4)
        >>> counts = per_item.query(lambda q: q.colocated("item").aggregate(n=wb.count()))
        >>> per_user = per_item.rekey("user")
        >>> per_user.query(lambda q: q.colocated("user").aggregate(n=wb.count()))
        Traceback (most recent call last):
        ...
        whimbrel.errors.InvalidError: colocated: rows with equal user have to be in one shard, but they lie by
        item over 4 shards; add .rekey("user").redistribute() before
        """
        keys = _key_columns(self, key)
        return Stream(self._plan.colocated(keys))

    def distinct(self) -> Stream:
        """
        Keep one of equal rows in each snapshot.

        Returns
        -------
        Stream
            The rows of each snapshot, once each.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}, {"item": "a"}])
        >>> sorted(row.item for row in clicks.query(lambda q: q.distinct()).to_rows())
        ['a', 'b']
        """
        return Stream(self._plan.distinct())

    # Two streams.

    def union(self, *others: Stream) -> Stream:
        """
        Unite streams: each snapshot has the rows of all of them.

        Parameters
        ----------
        *others
            Streams of the same columns.

        Returns
        -------
        Stream
            All rows, in order of time; among rows of the same time, those of this stream come first.

        Raises
        ------
        InvalidError
            If the columns differ.

        Examples
        --------
        >>> import whimbrel as wb
        >>> a, b = wb.from_rows([{"item": "a"}]), wb.from_rows([{"item": "b"}])
        >>> a.query(b, lambda l, r: l.union(r)).to_rows()
        [Row(item='a'), Row(item='b')]
        """
        plan = self._plan
        for other in others:
            plan = plan.union(_plan_of(other))
        return Stream(plan)

    def join(
        self,
        other: Stream,
        on: Key | None = None,
        *,
        left_on: Key | None = None,
        right_on: Key | None = None,
        how: How = "inner",
        suffix: str = "_right",
        where: Callable[[Any, Any], Any] | None = None,
        nulls_equal: bool = False,
        null_aware: bool = False,
        colocated: bool = False,
    ) -> Stream:
        """
        Join every snapshot with that of another stream.

        Parameters
        ----------
        other
            The right side.
        on, left_on, right_on
            What has to be equal, on both sides or on each: names of columns or lambdas of the row. By default
            the current key, if both sides have one.
        how
            ``"inner"``; ``"left"``, ``"right"`` or ``"full"``, where what has no partner gets nulls for as
            long; ``"cross"``, every row with every row; ``"semi"`` and ``"anti"``, the left rows with and
            without a partner; ``"mark"``, all left rows, and in the column ``mark`` whether they have one.
        suffix
            Put after the names of right columns that the left side has too. The right side's keys of the same
            name are left out.
        where
            A further condition of partners: a lambda of the left and the right row.
        nulls_equal
            Whether a null equals a null.
        null_aware
            With ``how="anti"``, as SQL's ``not in``: a null on the right side leaves no row.
        colocated
            Whether to require that rows that match are in one shard, so that the result is the join of all
            shards. They are if both sides are redistributed by the join's key, in the same order and into as
            many shards. They are too if one side is broadcast, and the join keeps no row of that side that
            has no partner.

        Returns
        -------
        Stream
            The columns of the left side, then those of the right. A row lives while both its rows do.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key; if `colocated` is required and
            the plan does not ensure it.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows(
        ...     [(1, 4, "a"), (2, 9, "b")], schema=["from", "to", "item"], time="from", end="to"
        ... )
        >>> prices = wb.from_rows(
        ...     [(0, 3, "a", 7), (3, 9, "a", 8)], schema=["s", "e", "item", "price"], time="s", end="e"
        ... )
        >>> both = clicks.query(prices, lambda l, r: l.join(r, on="item").select("item", "price"))
        >>> both.to_rows()
        [Row(start=1, end=3, item='a', price=7), Row(start=3, end=4, item='a', price=8)]
        >>> bids = wb.from_rows([{"item": "a", "bid": 5}, {"item": "b", "bid": 9}])
        >>> asks = wb.from_rows([{"item": "a", "ask": 4}, {"item": "b", "ask": 12}])
        >>> bids.query(
        ...     asks, lambda l, r: l.join(r, on="item", how="left", where=lambda b, a: b.bid >= a.ask)
        ... ).to_rows()
        [Row(item='a', bid=5, ask=4), Row(item='b', bid=9, ask=None)]
        """
        if how == "cross" and not (on is left_on is right_on is None):
            raise InvalidError('a cross join has no key; leave out on=, or how="cross"')
        left, right, pairs = _keyed_pair(self, other, on, left_on, right_on)
        condition = None if where is None else _join_condition(where, left, right)
        plan = left._plan.join(right._plan, pairs, how, suffix, condition, nulls_equal, null_aware, colocated)
        return Stream(plan)

    def where_exists(
        self, other: Stream, on: Key | None = None, *, left_on: Key | None = None, right_on: Key | None = None
    ) -> Stream:
        """
        Keep rows while a row of equal key is alive in another stream.

        Parameters
        ----------
        other
            The other stream.
        on, left_on, right_on
            What has to be equal, as in `join`.

        Returns
        -------
        Stream
            The same columns; lifetimes are cut to when there is a partner.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([(0, 9, "x")], schema=["dep", "arr", "plane"], time="dep", end="arr")
        >>> storms = wb.from_rows([(3, 5, "x")], schema=["from", "to", "plane"], time="from", end="to")
        >>> flights.query(storms, lambda f, s: f.where_exists(s, on="plane").select("plane")).to_rows()
        [Row(start=3, end=5, plane='x')]
        """
        left, right, pairs = _keyed_pair(self, other, on, left_on, right_on)
        return Stream(left._plan.where_exists(right._plan, pairs))

    def where_not_exists(
        self, other: Stream, on: Key | None = None, *, left_on: Key | None = None, right_on: Key | None = None
    ) -> Stream:
        """
        Keep rows while no row of equal key is alive in another stream.

        Parameters
        ----------
        other, on, left_on, right_on
            As in `where_exists`.

        Returns
        -------
        Stream
            The same columns; from lifetimes the time with a partner is taken away.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([(0, 9, "x")], schema=["dep", "arr", "plane"], time="dep", end="arr")
        >>> storms = wb.from_rows([(3, 5, "x")], schema=["from", "to", "plane"], time="from", end="to")
        >>> flights.query(storms, lambda f, s: f.where_not_exists(s, on="plane").select("plane")).to_rows()
        [Row(start=0, end=3, plane='x'), Row(start=5, end=9, plane='x')]
        """
        left, right, pairs = _keyed_pair(self, other, on, left_on, right_on)
        return Stream(left._plan.where_not_exists(right._plan, pairs))

    # Sequences of events.

    def detect(
        self,
        pattern: Pattern,
        *,
        within: Duration,
        register: Mapping[str, Any] | None = None,
        overlap: bool = True,
        simultaneous: Literal["ordered", "kill", "absent"] = "ordered",
    ) -> Stream:
        """
        Find sequences of events, per key: a regular expression over them, or an automaton (Trill's `Detect`).

        An instance of the pattern begins with every event. Each event of the key has to be the next one of
        the instance, or the instance is over; so it is after `within`.

        Parameters
        ----------
        pattern
            What is looked for, made with `event`.
        within
            How long after its first event an instance is given up.
        register
            What an instance remembers: fields with the values that they have before its first event, which
            the parts of the pattern read and change. A null has no type: write ``wb.lit(None, "string")``.
        overlap
            Whether an instance begins while another one of the key is alive.
        simultaneous
            What events of one key and instant mean. ``"ordered"``: they follow one another in the order of
            their values; ``"kill"``: they end all instances, as in Trill; ``"absent"``: there are none, so
            that matches come at once.

        Returns
        -------
        Stream
            A row for each match: the key's columns, then the register. It lives from the last event of the
            match until `within` after the first.

        Raises
        ------
        InvalidError
            If the stream has no time, an expression does not fit, or a field of the register has no type.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "u", 5), (2, "v", 3), (3, "u", 7), (4, "u", 9), (5, "v", 2)]
        >>> log = wb.from_rows(rows, schema=["at", "user", "price"], time="at")
        >>> rise = wb.event(last=lambda e: e.price).then(
        ...     wb.event(
        ...         lambda e, seen: e.price > seen.last, last=lambda e: e.price, n=lambda e, seen: seen.n + 1
        ...     )
        ... )
        >>> found = log.rekey("user").query(lambda q: q.detect(rise, within=10, register={"last": 0, "n": 1}))
        >>> found.to_rows()
        [Row(start=3, end=11, user='u', last=7, n=2), Row(start=4, end=13, user='u', last=9, n=2)]
        """
        resolved, fields = patterns.resolve(pattern, self._plan, register or {})
        return Stream(self._plan.detect(resolved, fields, within, overlap, simultaneous))

    def followed_by(
        self,
        other: Stream,
        on: Key | None = None,
        *,
        left_on: Key | None = None,
        right_on: Key | None = None,
        within: Duration | None = None,
        suffix: str = "_right",
    ) -> Stream:
        """
        Pair every event with the first one of another stream that comes later (`FollowedByImmediate`).

        Parameters
        ----------
        other
            The events that follow.
        on, left_on, right_on
            What has to be equal in both events; by default the current key, and without one nothing.
        within
            How much later they may come, at most; by default as late as they like.
        suffix
            Put after the names of columns of `other` that the left side has too.

        Returns
        -------
        Stream
            The columns of both, as a join gives them. A pair is alive for one tick, from the later event on.

        Raises
        ------
        InvalidError
            If a stream has no time, a column does not exist, or the duration is not a positive whole number
            of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "u", "ad"), (3, "u", "buy"), (4, "v", "ad"), (9, "u", "buy")]
        >>> log = wb.from_rows(rows, schema=["at", "user", "what"], time="at")
        >>> def bought(q):
        ...     ads, buys = q.where(lambda e: e.what == "ad"), q.where(lambda e: e.what == "buy")
        ...     return ads.followed_by(buys, on="user", within=5).select("user", "at", "at_right")
        >>> log.query(bought).to_rows()
        [Row(start=3, end=4, user='u', at=1, at_right=3)]
        """
        left, right, pairs = _keyed_pair(self, other, on, left_on, right_on)
        return Stream(left._plan.followed_by(right._plan, pairs, within, suffix))

    def consecutive_pairs(
        self, on: Key | None = None, *, within: Duration | None = None, suffix: str = "_next"
    ) -> Stream:
        """
        Pair every event with the next one (Trill's `ConsecutivePairs`).

        Parameters
        ----------
        on
            What has to be equal in both events; by default the current key.
        within
            How much later the next one may come, at most.
        suffix
            Put after the names of the columns of the later event.

        Returns
        -------
        Stream
            The columns of the earlier event, then those of the later. A pair is alive for one tick, from the
            later event on. Events of one instant are each paired with each of the next.

        Raises
        ------
        InvalidError
            As `followed_by`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> power = wb.from_rows([(1, 10), (4, 30), (6, 20)], schema=["at", "watt"], time="at")
        >>> steps = power.query(lambda q: q.consecutive_pairs().select(by=lambda e: e.watt_next - e.watt))
        >>> steps.to_rows()
        [Row(start=4, end=5, by=20), Row(start=6, end=7, by=-10)]
        """
        return self.followed_by(self, on, within=within, suffix=suffix)

    def sessions_between(
        self,
        opens: RowFunction | Expr | str,
        closes: RowFunction | Expr | str,
        *,
        on: Key | None = None,
    ) -> Stream:
        """
        Keep the events of sessions, each alive until its session ends (Trill's `Sessionize`).

        A session is open from an event that satisfies `opens` until the next one that satisfies `closes`,
        both included.

        Parameters
        ----------
        opens, closes
            What opens a session, and what closes it, as in `where`.
        on
            What has to be equal in the events of a session; by default the current key.

        Returns
        -------
        Stream
            The events within sessions. All of a session are alive at the instant of its last one. Events
            outside of sessions are left out; a session that nobody closes stays open.

        Raises
        ------
        InvalidError
            If the stream has no time, or a column does not exist.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "noise"), (2, "on"), (3, "noise"), (5, "off"), (6, "noise")]
        >>> log = wb.from_rows(rows, schema=["at", "what"], time="at")
        >>> def sizes(q):
        ...     sessions = q.sessions_between(lambda e: e.what == "on", lambda e: e.what == "off")
        ...     return sessions.aggregate(n=wb.count())
        >>> log.query(sizes).to_rows()
        [Row(start=2, end=3, n=1), Row(start=3, end=5, n=2), Row(start=5, end=6, n=3)]
        """
        forever = float("inf")
        closing = self.where(closes)
        # An event is still alive at the instant at which its session ends.
        after_close = closing.alter_lifetime(lambda s: s + 1)
        sessions = self.where(opens).alter_duration(forever).clip(after_close, on=on)
        inside = self.where_exists(sessions, on=on)
        return inside.alter_duration(forever).clip(after_close, on=on)

    def multicast(self, query: Callable[[Stream], Stream]) -> Stream:
        """
        Use a stream several times; what comes before is computed once.

        Parameters
        ----------
        query
            A function of this stream, which may use it more than once.

        Returns
        -------
        Stream
            What the function returns.

        Raises
        ------
        InvalidError
            If the function does not return a stream.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a"}])
        >>> clicks.query(lambda q: q.multicast(lambda s: s.union(s))).to_rows()
        [Row(item='a'), Row(item='a')]
        """
        return Stream(result_of(query, self)._plan)

    # Relations.

    def sort(
        self, *by: Any, descending: bool | list[bool] = False, nulls_last: bool | list[bool] = True
    ) -> Stream:
        """
        Sort the rows of a stream without a time.

        Parameters
        ----------
        *by
            Names of columns, expressions, or lambdas of the row.
        descending
            Whether the greatest come first: for all, or for each.
        nulls_last
            Whether nulls come last (the default) or first: for all, or for each.

        Returns
        -------
        Stream
            The same rows, sorted within each shard.

        Raises
        ------
        InvalidError
            If a column does not exist, or the stream has a time: it is in order of that.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"price": 1}, {"price": 3}])
        >>> clicks.query(lambda q: q.sort("price", descending=True).limit(1)).to_rows()
        [Row(price=3)]
        """
        columns = projection(self._schema, by, {}, name_by_text=True).columns
        if not columns:
            raise InvalidError('sort needs at least one column: sort("price")')
        return Stream(self._plan.sort(sort_keys(columns, descending, nulls_last)))

    def limit(self, n: int | None, offset: int = 0) -> Stream:
        """
        Keep the first rows of a stream without a time.

        Parameters
        ----------
        n
            How many rows to keep in each shard; `None`: all.
        offset
            How many to leave out before.

        Returns
        -------
        Stream
            At most `n` rows of each shard.

        Raises
        ------
        InvalidError
            If a number is negative, or the stream has a time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"price": 1}, {"price": 3}, {"price": 5}])
        >>> clicks.query(lambda q: q.limit(1, offset=1)).to_rows()
        [Row(price=3)]
        """
        if (n is not None and n < 0) or offset < 0:
            raise InvalidError(f"limit takes numbers that are not negative, not {n} and {offset}")
        return Stream(self._plan.limit(offset, n))

    @property
    def _schema(self) -> native.Schema:
        return self._plan.schema()

    def _project(
        self, specs: tuple[Any, ...], named: dict[str, Any], returns: Any
    ) -> tuple[native.Plan, Projection]:
        """Make the projection, and the plan with the columns it needs: the start, a black box's struct."""
        plan, extra = self._plan, ()
        functions = [spec for spec in (*specs, *named.values()) if is_function(spec)]
        if any(takes_two(f) for f in functions):
            plan = plan.with_start(START)
            extra = (Expr(native.Expr.column(START, plan.schema())),)
            if not all(takes_two(f) for f in functions):
                raise InvalidError("either all lambdas of a call take the lifetime's start, or none")
        projected = projection(self._schema, specs, named, returns, extra)
        if projected.struct is not None:
            plan = plan.with_columns([projected.struct])
        return plan, projected


def result_of(query: Callable[..., Any], *streams: Stream) -> Stream:
    """Call a query's function; what it returns has to be a stream."""
    result = query(*streams)
    if not isinstance(result, Stream):
        raise InvalidError(
            f"the {label(query)} has to return a stream, not {type(result).__name__}; is a return missing?"
        )
    return result


def _join_condition(condition: Callable[[Any, Any], Any], left: Stream, right: Stream) -> native.Expr:
    """Make the expression of a condition of two rows."""
    plans = (left._plan, right._plan)
    rows = SideTracer("left", left._schema, plans), SideTracer("right", right._schema, plans)
    try:
        return to_native(trace(lambda row, other: condition(row, other), rows[0], rows[1]))
    except Untraceable as reason:
        raise InvalidError(
            f"the {label(condition)} has to be an expression of two rows: {reason.what}; {reason.instead}"
        ) from reason


def _plan_of(other: Any) -> native.Plan:
    if isinstance(other, Stream):
        return other._plan
    raise InvalidError(
        f"a stream is wanted here, not {type(other).__name__}; to combine two sharded streams, "
        "use left.query(right, lambda l, r: …)"
    )


def _group_apply(plan: native.Plan, keys: Projection, query: Callable[[Stream], Stream]) -> native.Plan:
    if keys.struct is not None:
        plan = plan.with_columns([keys.struct])
    return plan.group_apply(keys.columns, lambda group: result_of(query, Stream(group))._plan)


def _keyed_pair(
    left: Stream, right: Stream, on: Key | None, left_on: Key | None, right_on: Key | None
) -> tuple[Stream, Stream, list[tuple[native.Expr, native.Expr]]]:
    """Pair the keys of two streams; an empty list stands for their current keys."""
    _plan_of(right)
    if on is not None and (left_on is not None or right_on is not None):
        raise InvalidError("give either on=, or left_on= and right_on=")
    if (left_on is None) != (right_on is None):
        raise InvalidError("left_on= and right_on= go together")
    if on is None and left_on is None:
        return left, right, []
    left_keys = _key_columns(left, left_on if on is None else on)
    right_keys = _key_columns(right, right_on if on is None else on)
    if len(left_keys) != len(right_keys):
        raise InvalidError(f"the left side has {len(left_keys)} keys, the right side {len(right_keys)}")
    return left, right, list(zip(left_keys, right_keys, strict=True))


def _key_columns(stream: Stream, key: Any) -> list[native.Expr]:
    projected = projection(stream._schema, (key,), {}, name_by_text=True, duplicates=True)
    if projected.struct is not None:
        raise InvalidError(
            "a key that is a black box has to return one value; add it with with_columns first"
        )
    return projected.columns
