"""Events: the rows of a temporal stream one by one, as they become known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from . import _whimbrel as native

Instant = int | datetime
"""A time: a number of ticks on a logical clock, else a datetime."""

INFINITY: Final = 2**63 - 1
"""The end of time on a logical clock. A punctuation of `INFINITY` ends a stream."""


@dataclass(frozen=True)
class Event:
    """
    Something that a temporal stream says; made by `interval`, `start_edge`, `end_edge` and `punctuation`.

    Attributes
    ----------
    kind
        ``"interval"``, ``"start"``, ``"end"`` or ``"punctuation"``.
    start
        The start of the lifetime; the time of a punctuation.
    end
        The end of the lifetime; `None` if it is not known (start edges) or there is none (punctuations).
    row
        The payload, by name of column.
    """

    kind: Literal["interval", "start", "end", "punctuation"]
    start: Instant
    end: Instant | None
    row: Mapping[str, Any] | None


def interval(start: Instant, end: Instant, row: Any) -> Event:
    """
    Make an event with both ends of its lifetime.

    Parameters
    ----------
    start, end
        The lifetime, ``[start, end)``.
    row
        The payload: a dict, or one value, for the column ``value``.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.interval(3, 5, {"item": "a"})
    Event(kind='interval', start=3, end=5, row={'item': 'a'})
    """
    return Event("interval", start, end, _payload(row))


def start_edge(start: Instant, row: Any) -> Event:
    """
    Make an event whose end is not known yet.

    Parameters
    ----------
    start
        The start of its lifetime.
    row
        The payload: a dict, or one value, for the column ``value``.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.start_edge(3, {"item": "a"})
    Event(kind='start', start=3, end=None, row={'item': 'a'})
    """
    return Event("start", start, None, _payload(row))


def end_edge(start: Instant, end: Instant, row: Any) -> Event:
    """
    Make the news of the end of an event that a start edge began.

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


def punctuation(time: Instant) -> Event:
    """
    Make the promise that nothing before a time will follow.

    Parameters
    ----------
    time
        The time; `INFINITY` says that the stream has ended.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.punctuation(10)
    Event(kind='punctuation', start=10, end=None, row=None)
    """
    return Event("punctuation", time, None, None)


def _payload(row: Any) -> Mapping[str, Any]:
    if isinstance(row, native.Row):
        return dict(row)
    return row if isinstance(row, Mapping) else {"value": row}


# Columns that carry what is not payload; names that no payload has.
START, END, KIND = "__start", "__end", "__kind"


def flat(event: Event) -> dict[str, Any]:
    """Make the row of a table that stands for an event."""
    row = dict(event.row) if event.row is not None else {}
    end = None if event.kind == "punctuation" else event.end
    return {START: event.start, END: end, KIND: event.kind, **row}
