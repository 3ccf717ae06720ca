"""Python's rows as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _whimbrel as native
from . import events
from .errors import InvalidError, WhimbrelError
from .events import Event
from .schema import columns_of
from .table import Table


def table_of_rows(rows: list[Any], schema: Any) -> native.Table:
    """Make a table of rows; types that the schema lacks are inferred from all rows."""
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
    for name in names:
        if not isinstance(name, str):
            raise InvalidError(f"a column has a text as its name, not {name!r:.60}; give the keys as text")
    return list(names)


def _keys(row: Any) -> Iterable[str]:
    if hasattr(row, "keys"):
        return row.keys()
    if hasattr(row, "_fields"):
        return row._fields
    if hasattr(row, "__dataclass_fields__") or hasattr(row, "__dict__"):
        return getattr(row, "__dataclass_fields__", None) or vars(row)
    raise InvalidError(f"a row is a dict, a tuple or an object with attributes, and {row!r:.60} is none")


def table_of_any(rows: Any, schema: native.Schema | None) -> native.Table:
    """Make a table of what is pushed: an Arrow object, one row, or a list of rows or events."""
    if isinstance(rows, Table) or hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        table = rows._native if isinstance(rows, Table) else table_of_arrow(rows)
        return table if schema is None else table.conform(schema)
    if isinstance(rows, Mapping | tuple | Event | native.Row) or not isinstance(rows, Iterable):
        rows = [rows]
    listed = [_event_row(row, schema) if isinstance(row, Event) else row for row in rows]
    return table_of_rows(listed, None) if schema is None else native.Table.from_rows_like(listed, schema)


def _event_row(event: Event, schema: native.Schema | None) -> dict[str, Any]:
    """Make the row of an event that is pushed; its payload has the columns that are not the event's own."""
    own = (events.START, events.END, events.KIND)
    if schema is None:
        columns = [] if event.row is None or isinstance(event.row, tuple) else list(event.row.keys())
    else:
        columns = [name for name in schema.names() if name not in own]
    return events.event_row(event, columns)


def table_of_arrow(table: Any) -> native.Table:
    """Take a table from another library."""
    if type(table).__module__.partition(".")[0] == "polars":
        _refuse_untyped(table)
    try:
        return native.Table.from_arrow(table)
    except (WhimbrelError, ImportError):
        raise
    except Exception as error:
        # pandas asks pyarrow, which has errors of its own for values of several types.
        raise InvalidError(f"a {type(table).__name__} cannot be taken as an Arrow table: {error}") from error


def _refuse_untyped(frame: Any) -> None:
    """Refuse columns of polars that have no type: what it exports of them is no Arrow."""
    names = getattr(frame, "columns", [getattr(frame, "name", "")])
    for name, dtype in zip(names, getattr(frame, "dtypes", [getattr(frame, "dtype", "")]), strict=True):
        if str(dtype) == "Null":
            raise InvalidError(f'column "{name}" has no type, only nulls; cast it in polars first')
        if "Object" in str(dtype):
            raise InvalidError(
                f'column "{name}" holds Python objects, of which Arrow has no values; cast it in polars '
                "first, or give the rows to wb.from_rows"
            )
