"""Exceptions, one class for each remedy.

Every message says what happened, where (column, row, file or call) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._whimbrel import Fix


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


class UnboundedError(WhimbrelError):
    """
    A query over a key/value store has no bound: rewrite it, or add what a fix names.

    The message draws the query, marks the part that has no end, says why, and lists the fixes.

    Attributes
    ----------
    reason
        Why there is no bound, in one sentence.
    drawing
        The plan, the part without a limit marked.
    fixes
        What to write, cheapest first; each was compiled, and has the bound that it would give.

    Examples
    --------
    >>> import whimbrel as wb
    >>> db = wb.bounded.open("memory:")
    >>> db.execute("create table users (name varchar(20) primary key, town varchar(40))")
    >>> try:
    ...     db.prepare("select name from users where town = :town")
    ... except wb.UnboundedError as error:
    ...     print(error.reason)
    ...     for fix in error.fixes:
    ...         print(fix.bound.requests, fix.paste)
    nothing limits how many rows of users have the same town
    1 select name from users where town = :town paginate 10
    1 select name from users where town = :town limit 10
    1 alter table users add cardinality limit 100 (town);
    """

    def __init__(self, message: str, reason: str = "", drawing: str = "", fixes: Sequence[Fix] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.drawing = drawing
        self.fixes = list(fixes)


class ResourceExhaustedError(WhimbrelError):
    """Memory or disk ran out: give more, or ask for less."""


class UnavailableError(WhimbrelError):
    """A service did not answer: try again. Of a write nobody knows whether it was made."""


class ConflictError(WhimbrelError):
    """
    Others wrote the same all the time: try again later.

    Raised when that went on for longer than the ``conflict_timeout`` of `whimbrel.bounded.open`. What the
    call would write was not written. Of a statement for several rows, on a store that writes key by key, some
    rows can be written; the message says how many, and then it is not safe to repeat the statement.
    """


class InternalError(WhimbrelError):
    """A bug in Whimbrel: please report it, with the message."""


class UntracedLambdaWarning(UserWarning):
    """
    A lambda could not be traced into an expression and runs as a black box, once for every row.

    Given once for each place in a program. The message says what stood in the way and what would be faster.
    Silence it with ``warnings.simplefilter("ignore", wb.UntracedLambdaWarning)``.
    """
