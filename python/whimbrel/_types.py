"""Names for the types that many signatures share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

from .expressions import Expr
from .operands import Value

__all__ = ["ArrowStream", "Duration", "Key", "RowFunction", "Value"]


class ArrowStream(Protocol):
    """Any object that hands over a table by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the table as a capsule that holds an ``ArrowArrayStream``."""
        ...


Duration: TypeAlias = "str | int | timedelta"
"""
A length of time: ``"5m"``, ``"1h30m"`` (ns, us, ms, s, m, h, d, w), a `timedelta`; else ticks. Windows that
follow each other may be of months: ``"1mo"``, ``"1q"``, ``"1y"``.
"""

RowFunction: TypeAlias = "Callable[[Any], Any]"
"""A function of a row, usually a lambda: ``lambda e: e.price * e.amount``."""

Key: TypeAlias = "str | Expr | RowFunction | list[Any] | tuple[Any, ...] | dict[str, Any]"
"""Grouping columns: a name, several, an expression, or a function of the row that returns any of these."""
