"""Aggregates of numbers beside sums and means: how they are spread, percentiles, products."""

from __future__ import annotations

from typing import Any

from .aggregates import Aggregate
from .errors import InvalidError

__all__ = ["avg_squares", "median", "percentile", "product", "std", "sum_squares", "var"]


def var(of: Any, *, population: bool = False, where: Any = None) -> Aggregate:
    """
    Compute the variance of the values of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.
    population
        Whether the values are all there are (SQL's ``var_pop``), or a sample (``var_samp``).

    Returns
    -------
    Aggregate
        A float64, null if there are no values, or if a sample has only one.

    Examples
    --------
    >>> import whimbrel as wb
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 2}, {"watt": 6}])
    >>> power.query(lambda q: q.aggregate(v=wb.var("watt"), sd=wb.std("watt", population=True))).to_rows()
    [Row(v=7.0, sd=2.160246899469287)]
    """
    return Aggregate("var_pop" if population else "var_samp", of, where, "var")


def std(of: Any, *, population: bool = False, where: Any = None) -> Aggregate:
    """
    Compute the standard deviation of the values of a group: the square root of `var`.

    Parameters
    ----------
    of, population, where
        As in `var`.

    Returns
    -------
    Aggregate
        A float64, null where `var` is.

    Examples
    --------
    >>> import whimbrel as wb
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 3}])
    >>> power.query(lambda q: q.aggregate(sd=wb.std("watt", population=True))).to_rows()
    [Row(sd=1.0)]
    """
    return Aggregate("stddev_pop" if population else "stddev_samp", of, where, "std")


def sum_squares(of: Any, *, where: Any = None) -> Aggregate:
    """
    Add up the squares of the values of a group; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.

    Returns
    -------
    Aggregate
        An int64 or float64, null if there is no value. A sum that an int64 cannot hold is an error.

    Examples
    --------
    >>> import whimbrel as wb
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 3}])
    >>> power.query(lambda q: q.aggregate(s=wb.sum_squares("watt"), a=wb.avg_squares("watt"))).to_rows()
    [Row(s=10, a=5.0)]
    """
    return Aggregate("sum_of_squares", of, where, "sum_squares")


def avg_squares(of: Any, *, where: Any = None) -> Aggregate:
    """
    Take the mean of the squares of the values of a group; nulls are left out.

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
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 3}])
    >>> power.query(lambda q: q.aggregate(a=wb.avg_squares("watt"))).to_rows()
    [Row(a=5.0)]
    """
    return Aggregate("average_of_squares", of, where, "avg_squares")


def product(of: Any, *, where: Any = None) -> Aggregate:
    """
    Multiply the values of a group; nulls are left out.

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
    >>> growth = wb.from_rows([{"factor": 1.5}, {"factor": 4.0}])
    >>> growth.query(lambda q: q.aggregate(total=wb.product("factor"))).to_rows()
    [Row(total=6.0)]
    """
    return Aggregate("product", of, where)


def percentile(of: Any, fraction: float, *, continuous: bool = True, where: Any = None) -> Aggregate:
    """
    Find the value of a group that a share of the values do not exceed; nulls are left out.

    Parameters
    ----------
    of, where
        As in `count_non_null`.
    fraction
        The share, from 0 to 1.
    continuous
        Whether to interpolate between the two values next to the place (SQL's ``percentile_cont``, for
        numbers), or to take the first value that at least this share of the values does not exceed
        (``percentile_disc``, for values of any type that have an order).

    Returns
    -------
    Aggregate
        A float64, or of the type of the values if not `continuous`; null if there is no value.

    Raises
    ------
    InvalidError
        If the fraction is not between 0 and 1.

    Examples
    --------
    >>> import whimbrel as wb
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 2}, {"watt": 6}, {"watt": 9}])
    >>> power.query(
    ...     lambda q: q.aggregate(
    ...         middle=wb.median("watt"), most=wb.percentile("watt", 0.75, continuous=False)
    ...     )
    ... ).to_rows()
    [Row(middle=4.0, most=6)]
    """
    if not 0 <= fraction <= 1:
        raise InvalidError(f"a percentile is of a share between 0 and 1, not {fraction!r}")
    name = "percentile_cont" if continuous else "percentile_disc"
    return Aggregate((name, float(fraction)), of, where, name)


def median(of: Any, *, where: Any = None) -> Aggregate:
    """
    Find the middle of the values of a group: ``percentile(of, 0.5)``.

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
    >>> power = wb.from_rows([{"watt": 1}, {"watt": 2}, {"watt": 6}])
    >>> power.query(lambda q: q.aggregate(middle=wb.median("watt"))).to_rows()
    [Row(middle=2.0)]
    """
    return percentile(of, 0.5, where=where)
