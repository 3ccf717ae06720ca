"""Exceptions, one class for each remedy.

Every message says what happened, where (column, row, file or call) and what to do about it.
"""

from __future__ import annotations


class WhimbrelError(Exception):
    """
    The base of all errors that Whimbrel raises.

    Examples
    --------
    >>> import whimbrel as wb
    >>> issubclass(wb.InvalidError, wb.WhimbrelError)
    True
    """


class InvalidError(WhimbrelError, ValueError):
    """
    The call or the query is wrong: change it.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.from_rows([{"item": "a", "price": 1.5}])
    >>> clicks.query(lambda q: q.where(lambda e: e.itme == "a"))
    Traceback (most recent call last):
        ...
    whimbrel.errors.InvalidError: column "itme" not found; did you mean "item"? columns: item, price
    """


class DataError(WhimbrelError):
    """
    The input is wrong: mend it.

    Raised, for example, for rows out of order under ``disorder="raise"``, for a truncated file, and for an
    error inside a Python function that the query called (which is then its ``__cause__``).
    """


class ResourceExhaustedError(WhimbrelError):
    """Memory or disk ran out: give more, or ask for less."""


class UnavailableError(WhimbrelError):
    """A service did not answer: try again."""


class InternalError(WhimbrelError):
    """A bug in Whimbrel: please report it, with the message."""


class UntracedLambdaWarning(UserWarning):
    """
    A lambda could not be traced into an expression and runs as a black box, once for every row.

    Given once for each place in a program. The message says what stood in the way and what would be faster.
    Silence it with ``warnings.simplefilter("ignore", wb.UntracedLambdaWarning)``.
    """
