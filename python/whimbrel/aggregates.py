"""Aggregates: what `Stream.aggregate` computes over each snapshot.

Each takes what to aggregate as a column's name, an expression or a lambda of the row, and a filter of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .outputs import predicate, single

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


@dataclass(frozen=True)
class Order:
    """By what rows are ordered."""

    by: tuple[Any, ...] = ()
    descending: bool | list[bool] = False
    nulls_last: bool | list[bool] = True

    @staticmethod
    def of(by: Any, descending: bool | list[bool], nulls_last: bool | list[bool]) -> Order:
        """Take one thing to order by, a list of them, or none."""
        listed = () if by is None else tuple(by) if isinstance(by, list | tuple) else (by,)
        return Order(listed, descending, nulls_last)

    def resolve(self, schema: native.Schema) -> list[tuple[native.Expr, bool, bool]]:
        """Make native expressions, each with whether it ascends and whether nulls come first."""
        columns = [single(schema, by) for by in self.by]
        descending = for_each("descending", self.descending, len(columns))
        nulls_last = for_each("nulls_last", self.nulls_last, len(columns))
        return [(c, not d, not n) for c, d, n in zip(columns, descending, nulls_last, strict=True)]


def for_each(name: str, value: bool | list[bool], columns: int) -> list[bool]:
    """Give every column its own of a setting that is said once or for each."""
    values = [value] * columns if isinstance(value, bool) else list(value)
    if len(values) != columns:
        raise InvalidError(f"{name} has {len(values)} values for {columns} columns")
    return values


@dataclass(frozen=True, repr=False)
class Aggregate:
    """One aggregate of a group: made by the functions here, named by `Stream.aggregate`'s keyword."""

    function: str | native.Aggregate
    of: Any = None
    where: Any = None
    name: str | None = None
    more: tuple[Any, ...] = ()
    distinct: bool = False
    order: Order = field(default_factory=Order)
    ignore_nulls: bool = False
    plain: bool = True

    def __repr__(self) -> str:
        parts = [repr(part) for part in (self.of, *self.more) if part is not None]
        if self.where is not None:
            parts.append(f"where={self.where!r}")
        name = self.name or self.function
        return f"{name}({', '.join(parts)})"

    def resolve(
        self, schema: native.Schema
    ) -> tuple[str | native.Aggregate | native.Expr, native.Expr | None, native.Expr | None]:
        """Make native expressions of the argument and the filter, over these columns; or of all, in one."""
        condition = None if self.where is None else predicate(schema, self.where)
        if self.plain:
            argument = None if self.of is None else single(schema, self.of)
            return self.function, argument, condition
        arguments = self._arguments(schema)
        order = self.order.resolve(schema)
        call = native.aggregate_call(
            str(self.function), arguments, self.distinct, condition, order, self.ignore_nulls
        )
        return call, None, None

    def _arguments(self, schema: native.Schema) -> list[native.Expr]:
        given = (self.of, *self.more) if self.of is not None or self.more else ()
        return [single(schema, argument) for argument in given]

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
            What the rows around it have in common with it: names of columns, lambdas or expressions.
        order_by, descending, nulls_last
            In which order they are, as in `Stream.sort`.
        rows, range, groups
            Which of them count: how many rows (or how far in value, or how many groups of equal rows) before
            and after it, as ``(-2, 0)``; `None` is all there are. By default, all rows; with an order, the
            rows up to and with those equal to it, ``range=(None, 0)``. Distances in time are texts, ``("-1
            day", 0)``.

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
        frames = {"rows": rows, "range": range, "groups": groups}
        given = [(units, *frame) for units, frame in frames.items() if frame is not None]
        if len(given) > 1:
            raise InvalidError("give one of rows=, range= and groups=")
        order = Order.of(order_by, descending, nulls_last)
        return Over(self, partition_by, order, given[0] if given else None)


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
        names = (
            {"first": "first_value", "last": "last_value", "count_distinct": "count"} if call.plain else {}
        )
        arguments = call._arguments(schema)
        if call.function == "count" and not arguments:
            arguments = [native.Expr.literal(1, None)]
        frame = self.frame and (self.frame[0], _distance(self.frame[1]), _distance(self.frame[2]))
        return native.window_call(
            names.get(call.function, call.function),
            arguments,
            call.distinct or (call.plain and call.function == "count_distinct"),
            None if call.where is None else predicate(schema, call.where),
            call.ignore_nulls,
            [single(schema, part) for part in self.partition_by],
            self.order.resolve(schema),
            frame,
        )


def _distance(given: Any) -> str | None:
    return None if given is None else str(given)


def count(*, where: Any = None) -> Aggregate:
    """
    Count the rows of a group that are alive.

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
    >>> clicks.query(lambda q: q.aggregate(n=wb.count(), known=wb.count_non_null("price"))).to_rows()
    [Row(n=2, known=1)]
    """
    return Aggregate("count", of, where)


def sum(of: Any, *, where: Any = None) -> Aggregate:
    """
    Add up the values of a group; nulls are left out.

    Parameters
    ----------
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    Take the value of the row of a group that began first.

    Among rows that began together it is the one that came first.

    Parameters
    ----------
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    Take the value of the row of a group that began last.

    Among rows that began together it is the one that came last.

    Parameters
    ----------
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
    of
        The values: a column's name, an expression, or a lambda of the row.
    where
        Only rows for which this holds.

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
