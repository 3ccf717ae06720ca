"""Values that become columns, and columns that become rows: Trill's `Pivot` and `Unpivot`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .aggregates import Aggregate
from .errors import InvalidError
from .expressions import Expr, col, lit
from .projection import is_function

if TYPE_CHECKING:
    from .stream import Stream


def pivoted(
    on: str,
    values: Iterable[Any] | Mapping[str, Any],
    aggregate: Aggregate | None,
    aggregates: Mapping[str, Aggregate],
) -> dict[str, Aggregate]:
    """Make an aggregate of each value, by the names of the columns."""
    names = values if isinstance(values, Mapping) else {str(value): value for value in values}
    if not names:
        raise InvalidError(
            f'pivot("{on}") needs the values that become columns: pivot("{on}", ["a", "b"], …)'
        )
    if (aggregate is None) == (not aggregates):
        raise InvalidError(
            "pivot takes one aggregate, pivot(on, values, wb.sum(…)), or several by name, total=wb.sum(…)"
        )
    if aggregate is not None:
        return {name: _of(aggregate, on, value) for name, value in names.items()}
    return {
        f"{name}_{suffix}": _of(each, on, value)
        for name, value in names.items()
        for suffix, each in aggregates.items()
    }


def _of(aggregate: Aggregate, on: str, value: Any) -> Aggregate:
    """Make the aggregate of the rows with a value."""
    if not isinstance(aggregate, Aggregate):
        raise InvalidError("pivot takes aggregates: wb.sum(lambda e: e.price), wb.count(), …")
    is_value, where = col(on) == value, aggregate.condition
    if where is None:
        return replace(aggregate, condition=is_value)
    if is_function(where):
        return replace(aggregate, condition=lambda e: (getattr(e, on) == value) & where(e))
    condition = where if isinstance(where, Expr) else col(where)
    return replace(aggregate, condition=is_value & condition)


def unpivoted(stream: Stream, columns: tuple[str, ...], name: str, value: str, nulls: bool) -> Stream:
    """Make a row of each of these columns."""
    known = stream.columns
    if not columns:
        raise InvalidError('unpivot needs the columns that become rows: unpivot("a", "b")')
    for column in columns:
        if column not in known:
            raise InvalidError(f'unpivot: there is no column "{column}"; columns: {", ".join(known)}')
    kept = [column for column in known if column not in columns]
    for new in (name, value):
        if new in kept:
            raise InvalidError(
                f'unpivot: there is a column "{new}" already; give name= or value= another name'
            )

    def rows(source: Stream) -> Stream:
        parts = [source.select(*kept, **{name: lit(column), value: col(column)}) for column in columns]
        return parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]

    found = stream.multicast(rows)
    return found if nulls else found.where(col(value).is_not_null())
