"""Aggregates of a user's own: Trill's five functions, in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _whimbrel as native
from .aggregates import Aggregate
from .errors import InvalidError
from .tracing import label

__all__ = ["AggregateFunction", "aggregate_function"]


class AggregateFunction:
    """
    An aggregate of a user's own: the result of `aggregate_function`.

    Called with an argument, and optionally a filter, it makes an `Aggregate` for `Stream.aggregate`.
    """

    __slots__ = ("_name", "_native")

    def __init__(self, name: str, function: native.Aggregate) -> None:
        self._name = name
        self._native = function

    def __call__(self, of: Any, *, where: Any = None) -> Aggregate:  # noqa: D102
        return Aggregate(self._native, of, where, self._name)

    def __repr__(self) -> str:
        return f"aggregate_function({self._name})"


def aggregate_function(
    *,
    initial: Callable[[], Any],
    accumulate: Callable[[Any, Any], Any],
    result: Callable[[Any], Any],
    returns: Any,
    combine: Callable[[Any, Any], Any] | None = None,
    deaccumulate: Callable[[Any, Any], Any] | None = None,
    difference: Callable[[Any, Any], Any] | None = None,
    name: str | None = None,
) -> AggregateFunction:
    """
    Make an aggregate of Python functions over a state.

    `initial`, `accumulate` and `result` are enough for every window. Where rows leave a window one by one
    (hopping and sliding windows, intervals), the values of the rows alive are then kept, and each result is
    computed from all of them. With `combine`, `deaccumulate` and `difference`, which have to be given all
    three, only states are kept, and the cost of a result is that of the rows that changed.

    Parameters
    ----------
    initial
        Makes the state of no rows.
    accumulate
        Takes a state and a value; gives the state with the value added.
    result
        Takes a state; gives its result.
    returns
        The type of the results, as in `Expr.cast`.
    combine
        Takes two states; gives that of the rows of both.
    deaccumulate
        Takes a state and a value that is in it; gives the state without the value.
    difference
        Takes two states, the second of rows that are in the first too; gives the state without them.
    name
        Its name in plans and messages; by default that of `accumulate`.

    Returns
    -------
    AggregateFunction
        To be called with what to aggregate.

    Raises
    ------
    InvalidError
        If only some of `combine`, `deaccumulate` and `difference` are given, or there is no such type.

    Notes
    -----
    The functions have to be deterministic. They may change their first argument and return it, but not change
    or keep the second. Nulls are left out; a group without values has a null. A state is pickled where a
    query is checkpointed. What a function raises comes out as the cause of a `DataError` that names the
    aggregate and shows what it was called with.

    Examples
    --------
    >>> import whimbrel as wb
    >>> longest = wb.aggregate_function(
    ...     initial=str,
    ...     accumulate=lambda best, text: max(best, text, key=len),
    ...     result=lambda best: best,
    ...     returns="string",
    ...     name="longest",
    ... )
    >>> words = wb.from_rows([(0, "a"), (1, "bcd"), (5, "ef")], schema=["time", "word"], time="time")
    >>> words.query(lambda q: q.hopping(8, hop=4).aggregate(word=longest(lambda e: e.word))).to_rows()
    [Row(start=4, end=8, word='bcd'), Row(start=8, end=12, word='bcd'), Row(start=12, end=16, word='ef')]
    """
    undo = [combine, deaccumulate, difference]
    inverses = [function for function in undo if function is not None]
    if inverses and len(inverses) < len(undo):
        raise InvalidError(
            "combine, deaccumulate and difference go together: give all, or none to have values kept"
        )
    for what, function in (("initial", initial), ("accumulate", accumulate), ("result", result)):
        if not callable(function):
            raise InvalidError(
                f"{what}: {function!r} is no function; for a constant write lambda: {function!r}"
            )
    name = label(accumulate) if name is None else name
    functions = [initial, accumulate, result]
    return AggregateFunction(name, native.Aggregate(name, returns, functions, inverses or None))
