"""Aggregates: what `Stream.aggregate` computes over each snapshot.

Each takes what to aggregate as a column's name, an expression or a lambda of the row, and a filter of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from .outputs import predicate, single

__all__ = [
    "Aggregate",
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


@dataclass(frozen=True, repr=False)
class Aggregate:
    """One aggregate of a group: made by the functions here, named by `Stream.aggregate`'s keyword."""

    function: str | native.Aggregate
    of: Any = None
    where: Any = None
    name: str | None = None

    def __repr__(self) -> str:
        parts = [repr(self.of)] if self.of is not None else []
        if self.where is not None:
            parts.append(f"where={self.where!r}")
        name = self.name or self.function
        return f"{name}({', '.join(parts)})"

    def resolve(
        self, schema: native.Schema
    ) -> tuple[str | native.Aggregate, native.Expr | None, native.Expr | None]:
        """Make native expressions of the argument and the filter, over these columns."""
        argument = None if self.of is None else single(schema, self.of)
        condition = None if self.where is None else predicate(schema, self.where)
        return self.function, argument, condition


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
