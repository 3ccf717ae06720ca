"""Aggregates: what `Stream.aggregate` computes over each snapshot.

Each takes its argument as a column's name, an expression or a lambda of the row, and a filter of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import _whimbrel as native
from .attribute_errors import NearNames
from .errors import InvalidError
from .ordering import Order
from .projection import expression, expression_or_struct, predicate

__all__ = [
    "Aggregate",
    "Over",
    "avg",
    "count",
    "count_distinct",
    "count_non_null",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "sum",
]


Function: TypeAlias = "str | tuple[Any, ...] | native.Aggregate"
"""A function by its name, or by its name and its parameters, or one of a user's own."""


@dataclass(frozen=True, repr=False)
class Aggregate(NearNames):
    """
    One aggregate of a group: made by the functions here and in `agg`, for `Stream.aggregate`.

    Aggregates from `agg` are relational: for streams without a time only.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.sum("price", where=wb.col("price") > 0)
    sum('price', where=price > 0)
    """

    function: Function
    of: Any = None
    condition: Any = None
    name: str | None = None
    further: tuple[Any, ...] = ()
    distinct: bool = False
    order: Order = field(default_factory=Order)
    ignore_nulls: bool = False
    relational: bool = False

    def __repr__(self) -> str:
        parts = [repr(part) for part in (self.of, *self.further) if part is not None]
        if self.condition is not None:
            parts.append(f"where={self.condition!r}")
        name = self.name or (self.function[0] if isinstance(self.function, tuple) else self.function)
        return f"{name}({', '.join(parts)})"

    def resolve(
        self, schema: native.Schema
    ) -> tuple[Function | native.Expr, native.Expr | None, native.Expr | None]:
        """Make the function, its argument and its filter; a relational aggregate is one expression."""
        condition = None if self.condition is None else predicate(schema, self.condition)
        if not self.relational:
            return self.function, self._argument(schema), condition
        arguments = self._arguments(schema)
        order = self.order.resolve(schema)
        call = native.aggregate_call(
            str(self.function), arguments, self.distinct, condition, order, self.ignore_nulls
        )
        return call, None, None

    def _argument(self, schema: native.Schema) -> native.Expr | None:
        """Make the one argument; of several, a struct of the key and the value."""
        if self.of is None:
            return None
        value = expression_or_struct(schema, self.of)
        if not self.further:
            return value
        (key,) = self.further
        literal = native.Expr.literal
        parts = [literal("by", None), expression(schema, key), literal("value", None), value]
        return native.Expr.call("named_struct", parts)

    def _arguments(self, schema: native.Schema) -> list[native.Expr]:
        arguments = (self.of, *self.further) if self.of is not None or self.further else ()
        return [expression(schema, argument) for argument in arguments]

    def over(
        self,
        *partition_by: Any,
        order_by: Any = None,
        descending: bool | list[bool] = False,
        nulls_last: bool | list[bool] = True,
        rows: tuple[Any, Any] | None = None,
        range: tuple[Any, Any] | None = None,
        groups: tuple[Any, Any] | None = None,
    ) -> Over:
        """
        Compute it for each row, over the rows around it: SQL's window functions. Streams without a time only.

        Parameters
        ----------
        *partition_by
            The columns in which these rows are equal: names of columns, lambdas or expressions.
        order_by, descending, nulls_last
            The order of the rows, as in `Stream.sort`.
        rows, range, groups
            The frame: its first and its last row, counted from the current row in rows, in values of the
            order's column, or in groups of equal rows. ``(-2, 0)`` is the two rows before it and itself;
            `None` is no limit. Distances in time are strings, ``("-1 day", 0)``. By default, all rows; with
            an order, ``range=(None, 0)``, all rows up to and including those equal to the current one.

        Returns
        -------
        Over
            For `Stream.with_columns`.

        Raises
        ------
        InvalidError
            If more than one of `rows`, `range` and `groups` is given.

        Examples
        --------
        >>> import whimbrel as wb
        >>> sales = wb.from_rows([{"day": 1, "sold": 3}, {"day": 2, "sold": 4}, {"day": 3, "sold": 5}])
        >>> so_far = wb.sum("sold").over(order_by="day")
        >>> sales.query(lambda q: q.with_columns(so_far=so_far)).to_rows()
        [Row(day=1, sold=3, so_far=3), Row(day=2, sold=4, so_far=7), Row(day=3, sold=5, so_far=12)]
        """
        by_unit = {"rows": rows, "range": range, "groups": groups}
        frames = [(unit, *frame) for unit, frame in by_unit.items() if frame is not None]
        if len(frames) > 1:
            raise InvalidError("give one of rows=, range= and groups=")
        order = Order.of(order_by, descending, nulls_last)
        return Over(self, partition_by, order, frames[0] if frames else None)


_WINDOW_FUNCTIONS = {"first": "first_value", "last": "last_value", "count_distinct": "count"}
"""DataFusion's names of aggregates that have another one here."""


@dataclass(frozen=True)
class Over:
    """An aggregate over the rows around each row: made by `Aggregate.over`, for `Stream.with_columns`."""

    call: Aggregate
    partition_by: tuple[Any, ...]
    order: Order
    frame: tuple[str, Any, Any] | None

    def resolve(self, schema: native.Schema) -> native.Expr:
        """Make the native expression, over these columns."""
        call = self.call
        if not isinstance(call.function, str):
            raise InvalidError(
                f"{call!r}: an aggregate of your own cannot be computed over the rows around each row"
            )
        function, distinct = call.function, call.distinct
        if not call.relational:
            function = _WINDOW_FUNCTIONS.get(function, function)
            distinct = call.function == "count_distinct"
        arguments = call._arguments(schema)
        if function == "count" and not arguments:
            arguments = [native.Expr.literal(1, None)]
        frame = self.frame and (self.frame[0], _frame_bound(self.frame[1]), _frame_bound(self.frame[2]))
        return native.window_call(
            function,
            arguments,
            distinct,
            None if call.condition is None else predicate(schema, call.condition),
            call.ignore_nulls,
            [expression(schema, part) for part in self.partition_by],
            self.order.resolve(schema),
            frame,
        )


def _frame_bound(distance: Any) -> str | None:
    return None if distance is None else str(distance)


def count(*, where: Any = None) -> Aggregate:
    """
    Count the rows of a group.

    Parameters
    ----------
    where
        Count only rows for which this holds: a lambda of the row or an expression.

    Returns
    -------
    Aggregate
        An int64, never null.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([(0, "a"), (1, "b"), (5, "a")], schema=["time", "item"], time="time")
    >>> clicks.query(
    ...     lambda q: q.tumbling(4).aggregate(n=wb.count(), a=wb.count(where=lambda e: e.item == "a"))
    ... ).show()
    ┌───────┬───────┬───────┬───────┐
    │ start │   end │     n │     a │
    │ int64 │ int64 │ int64 │ int64 │
    ├───────┼───────┼───────┼───────┤
    │     4 │     8 │     2 │     1 │
    │     8 │    12 │     1 │     1 │
    └───────┴───────┴───────┴───────┘
    """
    return Aggregate("count", None, where)


def count_non_null(of: Any, *, where: Any = None) -> Aggregate:
    """
    Count the values of a group that are not null.

    Parameters
    ----------
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Count only rows for which this holds.

    Returns
    -------
    Aggregate
        An int64, never null.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"price": 1.5}, {"price": None}])
    >>> clicks.query(lambda q: q.aggregate(n=wb.count(), prices=wb.count_non_null("price"))).to_rows()
    [Row(n=2, prices=1)]
    """
    return Aggregate("count", of, where)


def sum(of: Any, *, where: Any = None) -> Aggregate:
    """
    Add up the values of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        An int64 or float64, null if there is no value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"price": 1.5, "amount": 2}, {"price": 4.0, "amount": 1}])
    >>> clicks.query(lambda q: q.aggregate(total=wb.sum(lambda e: e.price * e.amount))).to_rows()
    [Row(total=7.0)]
    """
    return Aggregate("sum", of, where)


def avg(of: Any, *, where: Any = None) -> Aggregate:
    """
    Take the mean of the values of a group; nulls are left out. `mean` is the same.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        A float64, null if there is no value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"price": 1.5}, {"price": 4.0}])
    >>> clicks.query(lambda q: q.aggregate(mean=wb.avg("price"))).to_rows()
    [Row(mean=2.75)]
    """
    return Aggregate("avg", of, where)


mean = avg


def min(of: Any, *, where: Any = None) -> Aggregate:
    """
    Find the least value of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        Of the type of the values, null if there is none.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"price": 1.5}, {"price": 4.0}])
    >>> clicks.query(lambda q: q.aggregate(least=wb.min("price"), most=wb.max("price"))).to_rows()
    [Row(least=1.5, most=4.0)]
    """
    return Aggregate("min", of, where)


def max(of: Any, *, where: Any = None) -> Aggregate:
    """
    Find the greatest value of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        Of the type of the values, null if there is none.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}])
    >>> clicks.query(lambda q: q.aggregate(last=wb.max("item"))).to_rows()
    [Row(last='b')]
    """
    return Aggregate("max", of, where)


def first(of: Any, *, where: Any = None) -> Aggregate:
    """
    Take the value of the row of a group with the earliest start.

    Among rows of the same start, it is the first in the order of the input.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        Of the type of the values.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([(0, "a"), (1, "b")], schema=["time", "item"], time="time")
    >>> clicks.query(lambda q: q.tumbling(4).aggregate(a=wb.first("item"), b=wb.last("item"))).to_rows()
    [Row(start=4, end=8, a='a', b='b')]
    """
    return Aggregate("first", of, where)


def last(of: Any, *, where: Any = None) -> Aggregate:
    """
    Take the value of the row of a group with the latest start.

    Among rows of the same start, it is the last in the order of the input.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        Of the type of the values.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([(0, "a"), (1, "b")], schema=["time", "item"], time="time")
    >>> clicks.query(lambda q: q.tumbling(4).aggregate(b=wb.last("item"))).to_rows()
    [Row(start=4, end=8, b='b')]
    """
    return Aggregate("last", of, where)


def count_distinct(of: Any, *, where: Any = None) -> Aggregate:
    """
    Count the different values of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        An int64, never null.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}, {"item": "a"}])
    >>> clicks.query(lambda q: q.aggregate(items=wb.count_distinct("item"))).to_rows()
    [Row(items=2)]
    """
    return Aggregate("count_distinct", of, where)
