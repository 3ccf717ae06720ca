"""For relations only: DataFusion's aggregates and window functions, and grouping sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from .aggregates import Aggregate
from .ordering import Order
from .scalar_functions import Namespace

__all__ = ["GroupingSets", "agg", "cube", "grouping_sets", "rollup"]


class RowsFunctions(Namespace):
    """
    All of DataFusion's functions of several rows, as attributes: ``wb.agg.stddev("price")``.

    ``dir(wb.agg)`` lists them; https://datafusion.apache.org/user-guide/sql/aggregate_functions.html and
    https://datafusion.apache.org/user-guide/sql/window_functions.html describe them. Arguments are names of
    columns, lambdas of the row, expressions and constants (a string as ``wb.lit("…")``). A call makes an
    `Aggregate` for `Stream.aggregate`, or, with `Aggregate.over`, for `Stream.with_columns`. Streams without
    a time only.

    Keywords: ``where``, a filter of the rows; ``distinct``, to take each value once; ``order_by``,
    ``descending`` and ``nulls_last``, the order of the values, as in `Stream.sort`; ``ignore_nulls``.

    Raises
    ------
    InvalidError
        If there is no function of that name; the message has the nearest one.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "b", "price": 2}, {"item": "a", "price": 4}])
    >>> names = wb.agg.string_agg("item", wb.lit(", "), order_by="item")
    >>> clicks.query(lambda q: q.aggregate(names=names, median=wb.agg.median("price"))).to_rows()
    [Row(names='a, b', median=3.0)]
    >>> number = wb.agg.row_number().over(order_by="price", descending=True)
    >>> clicks.query(lambda q: q.with_columns(number=number)).to_rows()
    [Row(item='a', price=4, number=1), Row(item='b', price=2, number=2)]
    """

    _name = "wb.agg"
    _made_by = "wb.aggregate_function"

    def _names(self) -> list[str]:
        return native.call_names()

    def _call(self, name: str) -> Callable[..., Aggregate]:
        def call(
            *arguments: Any,
            where: Any = None,
            distinct: bool = False,
            order_by: Any = None,
            descending: bool | list[bool] = False,
            nulls_last: bool | list[bool] = True,
            ignore_nulls: bool = False,
        ) -> Aggregate:
            of, *further = arguments or (None,)
            order = Order.of(order_by, descending, nulls_last)
            return Aggregate(
                name, of, where, name, tuple(further), distinct, order, ignore_nulls, relational=True
            )

        return call


agg = RowsFunctions()


@dataclass(frozen=True)
class GroupingSets:
    """Several sets of columns to group by: made by `grouping_sets`, `rollup` and `cube`."""

    kind: str
    sets: tuple[tuple[str, ...], ...]


def grouping_sets(*sets: list[str] | tuple[str, ...] | str) -> GroupingSets:
    """
    Group by several sets of columns; the result has the rows of all.

    Parameters
    ----------
    *sets
        Names of columns, a list for each set; an empty list is the group of all rows.

    Returns
    -------
    GroupingSets
        For `Stream.aggregate`. In its result, a column that is not in a row's set is null. The column
        ``grouping_id`` has a bit for each column, the lowest for the last; it is 1 if the set lacks it.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a", "user": 1}, {"item": "a", "user": 2}])
    >>> counts = clicks.query(lambda q: q.aggregate(wb.grouping_sets(["item"], []), n=wb.count()))
    >>> sorted(counts.to_rows(), key=lambda row: row.grouping_id)
    [Row(item='a', grouping_id=0, n=2), Row(item=None, grouping_id=1, n=2)]
    """
    return GroupingSets("sets", tuple((one,) if isinstance(one, str) else tuple(one) for one in sets))


def rollup(*columns: str) -> GroupingSets:
    """
    Group by these columns, by all of them but the last, and so on, down to the group of all rows.

    Parameters
    ----------
    *columns
        Names of columns.

    Returns
    -------
    GroupingSets
        As `grouping_sets`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}, {"item": "a"}])
    >>> counts = clicks.query(lambda q: q.aggregate(wb.rollup("item"), n=wb.count()))
    >>> sorted((row.grouping_id, row.item, row.n) for row in counts.to_rows())
    [(0, 'a', 2), (0, 'b', 1), (1, None, 3)]
    """
    return GroupingSets("rollup", (columns,))


def cube(*columns: str) -> GroupingSets:
    """
    Group by every subset of these columns.

    Parameters
    ----------
    *columns
        Names of columns.

    Returns
    -------
    GroupingSets
        As `grouping_sets`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a", "user": 1}, {"item": "a", "user": 2}])
    >>> counts = clicks.query(lambda q: q.aggregate(wb.cube("item", "user"), n=wb.count()))
    >>> [row.n for row in counts.to_rows() if row.item is None and row.user is None]
    [2]
    """
    return GroupingSets("cube", (columns,))
