"""Tables of messages, and messages of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .. import _whimbrel as native
from .._types import ArrowStream
from ..errors import DataError, InvalidError
from ..schema import schema_of
from ..table import Table
from .client import pyarrow

if TYPE_CHECKING:
    from confluent_kafka import Message

Format = Literal["json", "arrow", "bytes"]

_NO_TIMESTAMP = 0
# A message has at most a megabyte if the brokers are not told otherwise.
_MESSAGE_BYTES = 512 << 10


def _timestamp(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return None if kind == _NO_TIMESTAMP else milliseconds


Field = tuple[str, Callable[[Any], Any]]

# What a schema may name beside the columns of the payload: the type, and the value of a message.
_METADATA: dict[str, Field] = {
    "_key": ("binary", lambda message: message.key()),
    "_partition": ("int32", lambda message: message.partition()),
    "_offset": ("int64", lambda message: message.offset()),
    "_timestamp": ("timestamp[ms, UTC]", _timestamp),
    "_topic": ("string", lambda message: message.topic()),
}

_BYTES: dict[str, Field] = {
    "key": ("binary", lambda message: message.key()),
    "value": ("binary", lambda message: message.value()),
}


class Decoder:
    """
    Makes tables of messages.

    The columns are those of the payload, and those that are fields of the message itself.
    """

    def __init__(self, format: Format, schema: Any) -> None:
        if format not in ("json", "arrow", "bytes"):
            raise InvalidError(f'format is one of "json", "arrow", "bytes", not {format!r}')
        known = _METADATA | (_BYTES if format == "bytes" else {})
        if schema is None and format == "bytes":
            schema = {name: dtype for name, (dtype, _) in _BYTES.items()}
        elif schema is None:
            raise InvalidError(f"messages of {format} do not say their columns; give them with schema=")
        self.schema = schema_of(schema)
        columns = dict(zip(self.schema.names(), self.schema.types(), strict=True))
        self._format = format
        self._fields = {name: known[name][1] for name in columns if name in known}
        self._payload = [name for name in columns if name not in known]
        _check_types(columns, known)
        if format == "bytes" and self._payload:
            raise InvalidError(
                f'messages of bytes have no column "{self._payload[0]}"; there are {", ".join(known)}'
            )
        if format != "bytes" and not self._payload:
            raise InvalidError('no column is of the payload: add one, or use format="bytes"')
        payload = [(name, columns[name]) for name in self._payload]
        self._payload_schema = native.Schema.of(payload) if self._fields else self.schema

    def decode(self, messages: Sequence[Message]) -> ArrowStream:
        """
        Make the table of messages.

        Raises
        ------
        DataError
            If one of them cannot be read.
        """
        if self._format == "bytes":
            return self._with_fields(messages, None)
        values: list[Any] = [message.value() for message in messages]
        if None in values:
            raise DataError("it has no value, as what deletes a key of a compacted topic")
        if self._format == "arrow":
            tables = [self._read_arrow(value) for value in values]
            of_rows = [m for m, table in zip(messages, tables, strict=True) for _ in range(table.num_rows)]
            return self._with_fields(of_rows, pyarrow().concat_tables(tables))
        table = native.parse_json(values, self._payload_schema)
        return self._with_fields(messages, table) if self._fields else table

    def _read_arrow(self, value: bytes) -> Any:
        arrow = pyarrow()
        try:
            table = arrow.ipc.open_stream(value).read_all()
            return table.select(self._payload).cast(arrow.schema(self._payload_schema))
        except (arrow.ArrowException, KeyError) as error:
            raise DataError(f"it is no Arrow IPC stream with these columns: {error}") from error

    def _with_fields(self, of_rows: Sequence[Message], payload: ArrowStream | None) -> ArrowStream:
        """Put the fields of each row's message beside the payload."""
        arrow = pyarrow()
        schema = arrow.schema(self.schema)
        taken = arrow.table({} if payload is None else payload)
        columns = [
            arrow.array(map(self._fields[field.name], of_rows), field.type)
            if field.name in self._fields
            else taken.column(field.name)
            for field in schema
        ]
        return arrow.table(columns, schema=schema)


def _check_types(columns: dict[str, str], known: dict[str, Field]) -> None:
    for name, (dtype, _) in known.items():
        if columns.get(name, dtype) != dtype:
            raise InvalidError(f'column "{name}" of a message is {dtype}, not {columns[name]}')


class Encoder:
    """Makes messages of tables: a key and a value each."""

    def __init__(self, format: Literal["json", "arrow"], key: str | None) -> None:
        if format not in ("json", "arrow"):
            raise InvalidError(f'format is "json" or "arrow", not {format!r}')
        if format == "arrow" and key is not None:
            raise InvalidError(
                'a message of Arrow has many rows, so no key=; leave it out, or use format="json"'
            )
        self._format = format
        self._key = key

    def check(self, schema: dict[str, str]) -> None:
        """Refuse columns that cannot be written."""
        if self._key is None:
            return
        if self._key not in schema:
            raise InvalidError(native.missing_column(self._key, list(schema)))
        if schema[self._key] not in _KEY_TYPES:
            raise InvalidError(
                f'column "{self._key}" is {schema[self._key]}, and a key is a string, binary or an integer; '
                "cast it"
            )

    def encode(self, rows: Table) -> list[tuple[bytes | None, bytes]]:
        """Make the messages of rows."""
        if self._format == "arrow":
            return [(None, value) for value in _arrow_streams(rows)]
        values = native.format_json(rows._native)
        keys = [None] * len(values) if self._key is None else map(_key_bytes, rows[self._key])
        return list(zip(keys, values, strict=True))


_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_KEY_TYPES = {"string", "large_string", "string_view", "binary", *_INTEGERS}


def _key_bytes(key: Any) -> bytes | None:
    return key if key is None or isinstance(key, bytes) else str(key).encode()


def _arrow_streams(rows: Table) -> list[bytes]:
    """Write rows as streams that are small enough for a message."""
    arrow = pyarrow()
    table = arrow.table(rows)
    count = max(1, table.num_rows * _MESSAGE_BYTES // max(1, table.nbytes))
    return [_arrow_stream(table.slice(first, count)) for first in range(0, table.num_rows, count)]


def _arrow_stream(table: Any) -> bytes:
    arrow = pyarrow()
    buffer = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return buffer.getvalue().to_pybytes()
