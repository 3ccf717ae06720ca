"""Schemas: names and types of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _whimbrel as native


class Schema(Mapping[str, str]):
    """
    The columns of a stream or table: a mapping of names, in order, to names of types.

    Exports itself by the Arrow PyCapsule interface (``__arrow_c_schema__``): ``pyarrow.schema(schema)``.

    Examples
    --------
    >>> import whimbrel as wb
    >>> schema = wb.from_rows([{"item": "a", "price": 1.5}]).schema
    >>> schema
    Schema(item: string, price: float64)
    >>> schema["price"]
    'float64'
    """

    __slots__ = ("_native",)

    def __init__(self, schema: native.Schema) -> None:
        self._native = schema

    def __getitem__(self, name: str) -> str:
        return dict(self.items())[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native.names())

    def items(self) -> Any:
        """Pair the names with the types."""
        return dict(zip(self._native.names(), self._native.types(), strict=True)).items()

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{name}: {dtype}' for name, dtype in self.items())})"


SchemaLike = Any
"""A mapping of names to types, pairs of these, names alone, or any object with ``__arrow_c_schema__``."""


def schema_of(spec: Any) -> native.Schema:
    """Make the native schema of what a user gives as one; all types have to be known."""
    if isinstance(spec, Schema):
        return spec._native
    if hasattr(spec, "__arrow_c_schema__"):
        return native.Schema.from_arrow(spec)
    return native.Schema.of([(name, dtype) for name, dtype in columns_of(spec)])


def columns_of(spec: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str, Any]]:
    """List the names and types (`None` where it is not given) of what a user gives as a schema."""
    if hasattr(spec, "__arrow_c_schema__"):
        schema = native.Schema.from_arrow(spec)
        return list(zip(schema.names(), schema.types(), strict=True))
    if isinstance(spec, Mapping):
        return list(spec.items())
    return [(part, None) if isinstance(part, str) else (part[0], part[1]) for part in spec]
