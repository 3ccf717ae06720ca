"""Events: the physical form of a temporal stream, in the order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from . import _whimbrel as native
from .errors import InvalidError

Instant = int | datetime
"""A time: a number of ticks on a logical clock, else a datetime."""

INFINITY: Final = 2**63 - 1
"""The end of time on a logical clock. A punctuation of `INFINITY` ends a stream."""


@dataclass(frozen=True)
class Event:
    """
    An element of a temporal stream.

    Made by `interval`, `start_edge`, `end_edge`, `punctuation` and `low_watermark`.

    Attributes
    ----------
    kind
        ``"interval"``, ``"start"``, ``"end"``, ``"punctuation"`` or ``"low_watermark"``.
    start
        The start of the lifetime; the time of a punctuation or low watermark.
    end
        The end of the lifetime; `None` for start edges, which have none yet, and for punctuations.
    row
        The payload, by name of column; a tuple of values if it was made of one.
    """

    kind: Literal["interval", "start", "end", "punctuation", "low_watermark"]
    start: Instant
    end: Instant | None
    row: Any


def interval(start: Instant, end: Instant, row: Any) -> Event:
    """
    Make an event with both ends of its lifetime.

    Parameters
    ----------
    start, end
        The lifetime, ``[start, end)``.
    row
        The payload: a dict; a tuple of the values of all columns, in their order; or one value, for the
        column ``value`` or the only one that there is.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.interval(3, 5, {"item": "a"})
    Event(kind='interval', start=3, end=5, row={'item': 'a'})
    """
    return Event("interval", start, end, _payload(row))


def start_edge(start: Instant, row: Any) -> Event:
    """
    Make an event whose end is not determined yet.

    Parameters
    ----------
    start
        The start of its lifetime.
    row
        The payload, as in `interval`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.start_edge(3, {"item": "a"})
    Event(kind='start', start=3, end=None, row={'item': 'a'})
    """
    return Event("start", start, None, _payload(row))


def end_edge(start: Instant, end: Instant, row: Any) -> Event:
    """
    Make the end of an event that a start edge began.

    Parameters
    ----------
    start, end
        The start that the start edge had, and the end.
    row
        The payload that the start edge had.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.end_edge(3, 5, {"item": "a"})
    Event(kind='end', start=3, end=5, row={'item': 'a'})
    """
    return Event("end", start, end, _payload(row))


def punctuation(time: Instant, partition: Any = None) -> Event:
    """
    Make the promise that nothing before a time will follow.

    Parameters
    ----------
    time
        The time; `INFINITY` ends the stream.
    partition
        Of which partition, as a dict of the columns that tell partitions apart; only for streams with
        ``partition_by=``, whose promises are of one partition each.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.punctuation(10)
    Event(kind='punctuation', start=10, end=None, row=None)
    """
    return Event("punctuation", time, None, None if partition is None else _payload(partition))


def low_watermark(time: Instant) -> Event:
    """
    Make the promise that nothing before a time will follow in any partition.

    Only for streams with ``partition_by=``; the others have one clock, and `punctuation`.

    Parameters
    ----------
    time
        The time; `INFINITY` ends the stream.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.low_watermark(10)
    Event(kind='low_watermark', start=10, end=None, row=None)
    """
    return Event("low_watermark", time, None, None)


def _payload(row: Any) -> Mapping[str, Any] | tuple[Any, ...]:
    if isinstance(row, native.Row):
        return dict(row)
    names = getattr(row, "_fields", None)
    if isinstance(row, tuple) and names is not None:
        return dict(zip(names, row, strict=True))
    return row if isinstance(row, Mapping | tuple) else {VALUE: row}


# Columns of an event that are not payload; no payload has these names.
START, END, KIND = "__start", "__end", "__kind"

VALUE = "value"
"""The column of a payload that is one value."""


def event_row(event: Event, columns: Sequence[str]) -> dict[str, Any]:
    """Make the row of a table that stands for an event whose payload has these columns."""
    row = {} if event.row is None else _by_name(event.row, columns)
    end = None if event.kind in ("punctuation", "low_watermark") else event.end
    return {START: event.start, END: end, KIND: event.kind, **row}


def _by_name(row: Mapping[str, Any] | tuple[Any, ...], columns: Sequence[str]) -> dict[str, Any]:
    """Name the values of a payload; each needs a column."""
    if isinstance(row, tuple):
        if len(row) != len(columns):
            raise InvalidError(
                f"the payload {row!r} has {len(row)} values, and there are {len(columns)} columns: "
                f"{', '.join(columns) or 'give them with schema='}; one value that is a list is written [...]"
            )
        return dict(zip(columns, row, strict=True))
    # The payload of an event that a query returned is a `Row`.
    values = dict(row)
    if list(values) == [VALUE] and VALUE not in columns and len(columns) == 1:
        return {columns[0]: values[VALUE]}
    for name in values:
        if name not in columns:
            raise InvalidError(
                f'the payload has a value for column "{name}", which is none of: {", ".join(columns)}'
            )
    return values
