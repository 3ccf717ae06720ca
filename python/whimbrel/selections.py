"""Aggregates that select values of a group: those of extreme rows, the first few, all of them."""

from __future__ import annotations

from typing import Any

from .aggregates import Aggregate
from .errors import InvalidError

__all__ = ["collect", "max_by", "min_by", "single", "top_k"]


def max_by(value: Any, by: Any, *, where: Any = None) -> Aggregate:
    """
    Take a value of the row of a group with the greatest key.

    Parameters
    ----------
    value
        What is taken: a column's name, an expression, or a lambda of the row; a lambda that returns a dict
        takes several values of the same row, as a struct.
    by
        The key. Rows where it is null do not count.
    where
        Count only rows for which this holds.

    Returns
    -------
    Aggregate
        Of the type of the value; null if there is no row. Of several rows with the greatest key, the one
        with the least value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> bids = wb.from_rows([{"who": "ann", "bid": 3}, {"who": "bob", "bid": 7}])
    >>> bids.query(lambda q: q.aggregate(best=wb.max_by("who", "bid"))).to_rows()
    [Row(best='bob')]
    """
    return Aggregate("max_by", value, where, further=(by,))


def min_by(value: Any, by: Any, *, where: Any = None) -> Aggregate:
    """
    Take a value of the row of a group with the least key.

    Parameters
    ----------
    value, by, where
        As in `max_by`.

    Returns
    -------
    Aggregate
        As `max_by`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> bids = wb.from_rows([{"who": "ann", "bid": 3}, {"who": "bob", "bid": 7}])
    >>> bids.query(lambda q: q.aggregate(worst=wb.min_by("who", "bid"))).to_rows()
    [Row(worst='ann')]
    """
    return Aggregate("min_by", value, where, further=(by,))


def top_k(of: Any, k: int, *, ties: bool = True, descending: bool = True, where: Any = None) -> Aggregate:
    """
    List the first values of a group in their order, each with its rank (Trill's `TopK`).

    Parameters
    ----------
    of, where
        As in `count_non_null`.
    k
        How many; at least 1.
    ties
        Whether values equal to the last one are listed too, as SQL's ``rank() <= k`` does.
    descending
        Whether the greatest come first.

    Returns
    -------
    Aggregate
        A list of structs of ``rank``, one more than there are values before it, and ``value``; null if there
        is no value.

    Raises
    ------
    InvalidError
        If `k` is less than 1.

    Examples
    --------
    >>> import whimbrel as wb
    >>> bids = wb.from_rows([{"bid": 3}, {"bid": 7}, {"bid": 7}, {"bid": 5}])
    >>> rows = bids.query(lambda q: q.aggregate(best=wb.top_k("bid", 2))).to_rows()
    >>> rows[0].best
    [{'rank': 1, 'value': 7}, {'rank': 1, 'value': 7}]
    """
    if k < 1:
        raise InvalidError(f"top_k lists at least 1 value, not {k!r}")
    return Aggregate(("top_k", int(k), ties, descending), of, where, "top_k")


def collect(of: Any, *, where: Any = None) -> Aggregate:
    """
    List all values of a group, nulls too.

    Parameters
    ----------
    of, where
        As in `count_non_null`; a lambda that returns a dict collects structs.

    Returns
    -------
    Aggregate
        A list, by the starts of the rows; values of rows that start together, as those of a window do, are in
        their order. Null if there is no row.

    Examples
    --------
    >>> import whimbrel as wb
    >>> rows = [(0, "b"), (1, "a"), (5, "c")]
    >>> clicks = wb.from_rows(rows, schema=["time", "item"], time="time")
    >>> clicks.query(lambda q: q.tumbling(4).aggregate(items=wb.collect("item"))).to_rows()
    [Row(start=4, end=8, items=['a', 'b']), Row(start=8, end=12, items=['c'])]

    Structs are ordered by their first field, so that the time of the rows can come first:

    >>> visits = wb.collect(lambda e: {"time": e.time, "item": e.item})
    >>> clicks.query(lambda q: q.tumbling(4).aggregate(visits=visits)).to_rows()[0].visits
    [{'time': 0, 'item': 'b'}, {'time': 1, 'item': 'a'}]
    """
    return Aggregate("collect", of, where)


def single(of: Any, *, where: Any = None) -> Aggregate:
    """
    Take the value of the only row of a group (Trill's `SingleOrDefault`).

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        Of the type of the value; null if there are several rows.

    Examples
    --------
    >>> import whimbrel as wb
    >>> moods = wb.from_rows([{"who": "ann", "mood": "glad"}])
    >>> moods.query(lambda q: q.aggregate(mood=wb.single("mood"))).to_rows()
    [Row(mood='glad')]
    """
    return Aggregate("single", of, where)
