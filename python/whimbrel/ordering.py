"""The order of rows: sort keys, each with a direction and a place for nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .projection import expression

SortKey = tuple[native.Expr, bool, bool]
"""An expression, whether it ascends, and whether nulls come first."""


def sort_keys(
    columns: list[native.Expr], descending: bool | list[bool], nulls_last: bool | list[bool]
) -> list[SortKey]:
    """Make the sort keys of some columns; the flags hold for all columns, or one is given for each."""
    descending = _per_column("descending", descending, len(columns))
    nulls_last = _per_column("nulls_last", nulls_last, len(columns))
    return [(c, not d, not n) for c, d, n in zip(columns, descending, nulls_last, strict=True)]


def _per_column(name: str, flags: bool | list[bool], columns: int) -> list[bool]:
    flags = [flags] * columns if isinstance(flags, bool) else list(flags)
    if len(flags) != columns:
        raise InvalidError(f"{name} has {len(flags)} values for {columns} columns")
    return flags


@dataclass(frozen=True)
class Order:
    """The order in which an aggregate takes its rows."""

    by: tuple[Any, ...] = ()
    descending: bool | list[bool] = False
    nulls_last: bool | list[bool] = True

    @staticmethod
    def of(by: Any, descending: bool | list[bool], nulls_last: bool | list[bool]) -> Order:
        """Take one column, a list of columns, or `None`."""
        columns = () if by is None else tuple(by) if isinstance(by, list | tuple) else (by,)
        return Order(columns, descending, nulls_last)

    def resolve(self, schema: native.Schema) -> list[SortKey]:
        """Make sort keys over the columns of a schema."""
        return sort_keys([expression(schema, by) for by in self.by], self.descending, self.nulls_last)
