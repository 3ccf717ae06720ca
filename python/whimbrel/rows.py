"""Python's rows as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _whimbrel as native
from . import events
from .errors import InvalidError
from .events import Event
from .schema import columns_of
from .table import Table


def table_of_rows(rows: list[Any], schema: Any) -> native.Table:
    """Make a table of rows; what the schema does not say is found by looking at all of them."""
    columns = columns_of(schema) if schema is not None else [(name, None) for name in _names(rows)]
    return native.Table.from_rows(rows, [name for name, _ in columns], [dtype for _, dtype in columns])


def _names(rows: list[Any]) -> list[str]:
    """All keys of all rows, in order of appearance."""
    if not rows:
        raise InvalidError("there are no rows to tell the columns; give them with schema=")
    names: dict[str, None] = {}
    for row in rows:
        if isinstance(row, tuple | list) and not hasattr(row, "_fields"):
            raise InvalidError('tuples have no names; give them with schema=["time", "item"]')
        names.update(dict.fromkeys(_keys(row)))
    return list(names)


def _keys(row: Any) -> Iterable[str]:
    if hasattr(row, "keys"):
        return row.keys()
    if hasattr(row, "_fields"):
        return row._fields
    return getattr(row, "__dataclass_fields__", None) or vars(row)


def table_of_any(rows: Any, schema: native.Schema | None) -> native.Table:
    """Make a table of what is pushed: an Arrow object, one row, or a list of rows or events."""
    if isinstance(rows, Table) or hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        table = rows._native if isinstance(rows, Table) else native.Table.from_arrow(rows)
        return table if schema is None else table.conform(schema)
    if isinstance(rows, Mapping | tuple | Event) or not isinstance(rows, Iterable):
        rows = [rows]
    listed = [events.flat(row) if isinstance(row, Event) else row for row in rows]
    return table_of_rows(listed, None) if schema is None else native.Table.from_rows_like(listed, schema)
