"""Projections: named expressions, from the column names, expressions, lambdas and dicts of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .expressions import Expr, Untraceable
from .operands import to_native
from .tracing import RowTracer, Udf, row_black_box, trace, warn_untraced

START = "__start"
"""The column that holds the lifetime's start for lambdas of two arguments."""

ROW = "__row"
"""The column that holds the struct that a black box returns, while its fields are taken out."""


@dataclass(frozen=True)
class Projection:
    """Named expressions; if they are fields of one struct, that struct, so that a black box runs once."""

    columns: list[native.Expr]
    struct: native.Expr | None = None


def is_function(spec: Any) -> bool:
    """Tell functions of a row from expressions, which are callable too, only to raise an error."""
    return callable(spec) and not isinstance(spec, Expr)


def predicate(schema: native.Schema, condition: Any, extra: tuple[Expr, ...] = ()) -> native.Expr:
    """Make the boolean expression of a condition: an expression, a column's name, a function of the row."""
    if isinstance(condition, Udf):
        return row_black_box(condition.row_function, schema, extra, truth=True)[0]
    if not is_function(condition):
        return expression(schema, condition)
    try:
        return to_native(trace(condition, RowTracer(schema), *extra))
    except Untraceable as reason:
        warn_untraced(condition, reason)
        return row_black_box(condition, schema, extra, truth=True)[0]


def expression(
    schema: native.Schema, spec: Any, returns: Any = None, extra: tuple[Expr, ...] = ()
) -> native.Expr:
    """Make one expression of a column's name, an expression, a constant or a function of the row."""
    result = _traced_value(schema, spec, returns, extra)
    if isinstance(result, list | tuple):
        raise InvalidError(
            "one value is wanted here, and the function returns several; pick one, e.g. lambda e: e.item"
        )
    return result


def expression_or_struct(schema: native.Schema, spec: Any) -> native.Expr:
    """Make one expression, where a function may return a dict of expressions too."""
    if is_function(spec) and not isinstance(spec, Udf):
        try:
            result = trace(spec, RowTracer(schema))
        except Untraceable as reason:
            warn_untraced(spec, reason)
            return row_black_box(spec, schema)[0]
        if isinstance(result, Mapping):
            literal = native.Expr.literal
            parts = [
                part for name, value in result.items() for part in (literal(name, None), to_native(value))
            ]
            return native.Expr.call("named_struct", parts)
    return expression(schema, spec)


def expression_or_list(schema: native.Schema, spec: Any, returns: Any = None) -> native.Expr:
    """Make one expression, where a function may return a list of expressions too."""
    result = _traced_value(schema, spec, returns, ())
    if isinstance(result, list | tuple):
        return native.Expr.call("make_array", [to_native(part) for part in result])
    return result


def _traced_value(
    schema: native.Schema, spec: Any, returns: Any, extra: tuple[Expr, ...]
) -> native.Expr | list[Any] | tuple[Any, ...]:
    if isinstance(spec, str):
        return native.Expr.column(spec, schema)
    if isinstance(spec, Expr):
        return spec._native
    if isinstance(spec, Udf):
        return row_black_box(spec.row_function, schema, extra, returns or spec.returns)[0]
    if not is_function(spec):
        return to_native(spec)
    try:
        result = trace(spec, RowTracer(schema), *extra)
    except Untraceable as reason:
        warn_untraced(spec, reason)
        return row_black_box(spec, schema, extra, returns)[0]
    if isinstance(result, RowTracer):
        return list(result._names)
    if isinstance(result, Mapping):
        return list(result)
    return result if isinstance(result, list | tuple) else to_native(result)


def projection(
    schema: native.Schema,
    specs: tuple[Any, ...],
    named: Mapping[str, Any],
    returns: Any = None,
    extra: tuple[Expr, ...] = (),
    *,
    name_by_text: bool = False,
    duplicates: bool = False,
) -> Projection:
    """
    Make the projection of what `select`, `with_columns` and keys take.

    With `name_by_text`, a computed expression is named by its text and not by its first column. With
    `duplicates`, several columns may have one name.
    """
    columns: list[native.Expr] = []
    struct: native.Expr | None = None
    for spec in specs:
        of_spec, of_box = _columns_of(schema, spec, returns, extra, name_by_text)
        if of_box is not None and (len(specs) > 1 or named):
            raise InvalidError(
                "a black box that returns a dict has to stand alone: give every column a lambda of its own, "
                "select(a=lambda e: …, b=lambda e: …)"
            )
        columns += of_spec
        struct = struct or of_box
    for name, spec in named.items():
        columns.append(expression(schema, spec, returns, extra).alias(name))
    if not duplicates:
        _refuse_duplicates(columns)
    return Projection(columns, struct)


def key_columns(schema: native.Schema, key: Any) -> list[native.Expr]:
    """Make the columns of a key that is compared, where a black box has to be a column already."""
    projected = projection(schema, (key,), {}, name_by_text=True, duplicates=True)
    if projected.struct is not None:
        raise InvalidError(
            "a key that is a black box has to return one value; add it with with_columns first"
        )
    return projected.columns


def _refuse_duplicates(columns: list[native.Expr]) -> None:
    names: set[str | None] = set()
    for column in columns:
        name = column.name()
        if name in names:
            raise InvalidError(f'there are two columns named "{name}"; rename one with .alias("other name")')
        names.add(name)


def _columns_of(
    schema: native.Schema, spec: Any, returns: Any, extra: tuple[Expr, ...], name_by_text: bool
) -> tuple[list[native.Expr], native.Expr | None]:
    if isinstance(spec, (list, tuple)):
        parts = [_columns_of(schema, part, returns, extra, name_by_text) for part in spec]
        if any(struct is not None for _, struct in parts):
            raise InvalidError("a black box that returns a dict has to stand alone")
        return [column for columns, _ in parts for column in columns], None
    if isinstance(spec, Mapping):
        return [expression(schema, part, returns, extra).alias(name) for name, part in spec.items()], None
    if isinstance(spec, Udf):
        return _black_box_columns(spec.row_function, schema, returns or spec.returns, extra)
    if not is_function(spec):
        return [_named(expression(schema, spec, returns, extra), name_by_text)], None
    try:
        result = trace(spec, RowTracer(schema), *extra)
    except Untraceable as reason:
        warn_untraced(spec, reason)
        return _black_box_columns(spec, schema, returns, extra)
    return _traced_columns(schema, result, name_by_text), None


def _traced_columns(schema: native.Schema, result: Any, name_by_text: bool) -> list[native.Expr]:
    if isinstance(result, RowTracer):
        return [native.Expr.column(name, schema) for name in result._names]
    if isinstance(result, Mapping):
        return [_scalar(value).alias(name) for name, value in result.items()]
    if isinstance(result, (list, tuple)):
        return [column for part in result for column in _traced_columns(schema, part, name_by_text)]
    return [_named(_scalar(result), name_by_text)]


def _scalar(value: Any) -> native.Expr:
    if isinstance(value, Mapping | list | tuple | RowTracer):
        raise InvalidError(
            'a column holds one value a row; to nest values, use wb.fn.named_struct("name", e.x, …)'
        )
    return to_native(value)


def _named(column: native.Expr, by_text: bool) -> native.Expr:
    if column.name() is not None:
        return column
    return column.alias(column.text() if by_text else column.root() or "literal")


def _black_box_columns(
    function: Callable[..., Any], schema: native.Schema, returns: Any, extra: tuple[Expr, ...]
) -> tuple[list[native.Expr], native.Expr | None]:
    call, kind = row_black_box(function, schema, extra, returns)
    fields = native.DataType.of(kind).fields()
    if not fields:
        return [call.alias("value")], None
    return [native.Expr.column(ROW).field(name).alias(name) for name in fields], call.alias(ROW)
