"""When two outputs are the same: as what they say, and as the changing relation that they describe.

Nothing here uses the product's own coalescing. An output is a list of events `(kind, start, end, payload)`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

END_OF_TIME = float("inf")

MARKS = ("punctuation", "low_watermark")
"""The kinds of events that only say how far time has come."""


class Said(NamedTuple):
    """One event, in a form that can be compared."""

    kind: str
    start: float
    end: float | None
    payload: Hashable
    partition: Hashable = None

    @property
    def sync(self) -> float:
        """When it becomes known."""
        return self.end if self.kind == "end" and self.end is not None else self.start


def canonical(payload: Any) -> Hashable:
    """Make a payload hashable; floats to twelve digits, as they may have been added up in another order."""
    if isinstance(payload, dict):
        return tuple(sorted((key, canonical(value)) for key, value in payload.items()))
    if isinstance(payload, (list, tuple)):
        return tuple(canonical(value) for value in payload)
    if isinstance(payload, float):
        return float(f"{payload:.12g}")
    return payload


def of_case(event: dict[str, Any]) -> Said:
    """Read an event of a case file."""
    kind, partition = event["kind"], event.get("partition")
    if kind in MARKS:
        return Said(kind, instant(event[kind]), None, None, partition)
    end = event.get("end")
    return Said(
        kind,
        event["start"],
        None if kind == "start" else end,
        canonical(event.get("payload")),
        partition,
    )


def instant(time: Any) -> float:
    """Read a time of a case file, or of the product."""
    return END_OF_TIME if time == "inf" or time == 2**63 - 1 else time


def punctuated_first(events: list[Said]) -> list[Said]:
    """Put punctuations before the rows of their own instant, with which they commute."""
    ordered: list[Said] = []
    for event in events:
        place = len(ordered)
        while event.kind == "punctuation" and place and ordered[place - 1].sync == event.start:
            place -= 1
        ordered.insert(place, event)
    return ordered


Steps = dict[Hashable, dict[float, int]]


def steps(events: Iterable[Said]) -> Steps:
    """Describe the relation: by how much the number of each payload changes, and when."""
    changes: defaultdict[Hashable, Counter[float]] = defaultdict(Counter)
    for event in events:
        if event.kind in ("interval", "start"):
            changes[event.partition, event.payload][event.start] += 1
        if event.kind in ("interval", "end") and event.end is not None:
            changes[event.partition, event.payload][event.end] -= 1
    relation = {payload: {t: n for t, n in when.items() if n != 0} for payload, when in changes.items()}
    return {payload: when for payload, when in relation.items() if when}


def before(relation: Steps, time: float) -> Steps:
    """Cut a relation off at a time."""
    cut = {payload: {t: n for t, n in when.items() if t < time} for payload, when in relation.items()}
    return {payload: when for payload, when in cut.items() if when}


def of_lifetimes(rows: Iterable[dict[str, Any]]) -> list[Said]:
    """Read a list of lifetimes of a case file."""
    return [
        Said(
            "start" if row["end"] is None else "interval",
            row["start"],
            row["end"],
            canonical(row["payload"]),
            row.get("partition"),
        )
        for row in rows
    ]
