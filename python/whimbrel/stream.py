"""Streams: what the lambda of `ShardedStream.query` works on, one shard at a time.

The methods of one kind are in a module of their own: those of rows, lifetimes, joins, sequences and
requirements. Here are groups and aggregates, and what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from . import _whimbrel as native
from . import attribute_errors
from ._types import Key
from .aggregates import Aggregate
from .errors import InvalidError
from .join_methods import JoinMethods
from .lifetime_methods import LifetimeMethods
from .ordering import sort_keys
from .projection import Projection, key_columns, projection
from .relational import GroupingSets
from .requirement_methods import RequirementMethods
from .reshaping import pivoted, unpivoted
from .row_methods import RowMethods
from .sequence_methods import SequenceMethods
from .tracing import label


class Stream(SequenceMethods, RowMethods, LifetimeMethods, JoinMethods, RequirementMethods):
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
        keys = key_columns(self._schema, key)
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


def result_of(query: Callable[..., Any], *streams: Stream) -> Stream:
    """Call a query's function; what it returns has to be a stream."""
    result = query(*streams)
    if not isinstance(result, Stream):
        raise InvalidError(
            f"the {label(query)} has to return a stream, not {type(result).__name__}; is a return missing?"
        )
    return result


def _group_apply(plan: native.Plan, keys: Projection, query: Callable[[Stream], Stream]) -> native.Plan:
    if keys.struct is not None:
        plan = plan.with_columns([keys.struct])
    return plan.group_apply(keys.columns, lambda group: result_of(query, Stream(group))._plan)
