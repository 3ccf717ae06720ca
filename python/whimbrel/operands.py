"""What operators and methods of expressions take: other expressions, and constants that become some.

It relies on the engine and on no other module of expressions, so that all of these can use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from .attribute_errors import NearNames
from .errors import InvalidError

if TYPE_CHECKING:
    from .expressions import Expr

Value = Any
"""An expression, or a constant that becomes one."""


class Operand:
    """A value that the engine computes. `Expr` is the class of them all, and adds operators and methods."""

    __slots__ = ("_native",)

    _native: native.Expr

    def __init__(self, native_expr: native.Expr) -> None:
        self._native = native_expr

    def _expr(self, made: native.Expr) -> Expr:
        """Make the expression that a method returns."""
        raise NotImplementedError


class IncompleteExpression(NearNames):
    """What becomes an expression only when it goes on, as `when` does; `_reason` says how."""

    __slots__ = ()

    _reason: str


def to_native(value: Any) -> native.Expr:
    """Make the native expression of an expression or constant."""
    if isinstance(value, Operand):
        return value._native
    if isinstance(value, IncompleteExpression):
        raise InvalidError(value._reason)
    return native.Expr.literal(value)
