"""Values by conditions: ``if``, ``elif``, ``else`` for columns.

It relies on `expressions`: what has a value for each condition is one.
"""

from __future__ import annotations

from . import _whimbrel as native
from .expressions import Expr
from .operands import IncompleteExpression, Value, to_native


class When(IncompleteExpression):
    """A condition without a value yet: the result of `when`."""

    __slots__ = ("_branches", "_condition")

    _reason = "when(...) has no value yet: go on with .then(value)"

    def __init__(self, condition: Value, branches: tuple[tuple[native.Expr, native.Expr], ...] = ()) -> None:
        self._condition = to_native(condition)
        self._branches = branches

    def then(self, value: Value) -> Then:
        """
        Give the value for rows for which the condition holds.

        Parameters
        ----------
        value
            A constant or an expression.
        """
        return Then((*self._branches, (self._condition, to_native(value))))


class Then(Expr):
    """An expression with conditions: goes on with `when`, ends with `otherwise`; without it, null."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[tuple[native.Expr, native.Expr], ...]) -> None:
        super().__init__(native.Expr.case(list(branches)))
        self._branches = branches

    def when(self, condition: Value) -> When:
        """
        Add a condition for the rows for which no earlier one holds.

        Parameters
        ----------
        condition
            An expression of booleans.
        """
        return When(condition, self._branches)

    def otherwise(self, value: Value) -> Expr:
        """
        Give the value for all other rows.

        Parameters
        ----------
        value
            A constant or an expression.
        """
        return Expr(native.Expr.case(list(self._branches), to_native(value)))


def when(condition: Value) -> When:
    """
    Choose a value by conditions: ``if``, ``elif``, ``else`` for columns.

    Parameters
    ----------
    condition
        An expression of booleans. A null counts as false.

    Returns
    -------
    When
        Go on with ``.then(value)``, then ``.when(…).then(…)`` any number of times, then
        ``.otherwise(value)``.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.when(wb.col("delay") > 15).then("late").otherwise("on time")
    when(delay > 15).then("late").otherwise("on time")
    """
    return When(condition)
