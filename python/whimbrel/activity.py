"""What a running query has done so far, operator by operator, and what it waits for."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native

Instant = Any
"""An integer, a datetime, ``math.inf`` at the end of time, or None at its beginning."""


@dataclass(frozen=True)
class Operator:
    """An operator of a running query, over all shards of its stage."""

    stage: int
    """The number of its stage; rows move from one to the next."""
    name: str
    """What it is; ``"input"`` where rows come into the stage."""
    rows_in: int
    """How many rows it has taken."""
    rows: int
    """How many rows it has handed out."""
    held: int
    """How many rows, or groups of rows, it keeps; the state of an operator of your own is not counted."""
    bytes: int
    """About how many bytes of memory these take."""
    oldest: Instant
    """The first instant of what it keeps; None if it keeps nothing, or not since when."""
    latest: Instant
    """The time of the last row that it has handed out."""
    frontier: Instant
    """No row before this time will come out of it, in any shard."""
    reached: Instant
    """The same of what it reads."""


@dataclass(frozen=True)
class Activity:
    """
    What a running query has done so far: the result of `Subscription.stats` and `LiveJob.stats`.

    Operators are those of stages with a time: relational ones are not counted one by one.
    """

    rows_read: int
    """How many rows have been read."""
    rows_out: int
    """How many rows have been reported."""
    late_rows: int
    """How many rows came too late and were dropped."""
    done: bool
    """Whether the query has ended."""
    operators: tuple[Operator, ...]
    """The operators, inputs first."""

    @property
    def waits_for(self) -> str:
        """Why no further row comes out, in a sentence."""
        if self.done:
            return "The query has ended."
        if not self.rows_read:
            return "No row has been read yet."
        if not self.operators:
            return "The query has no stage with a time: its rows come when they have been computed."
        for operator in self.operators:
            if operator.rows_in and not operator.rows:
                return _silence(operator)
        slowest = next(o for o in self.operators if o.name == "input")
        if slowest.frontier is None:
            return (
                f"{self.rows_read:,} rows have been read, and there is an input or a shard of which nobody "
                "says up to which time it is complete: push later rows, advance time, or close the source."
            )
        return (
            f"Time has come to {slowest.frontier}: what is later is not final. Push later rows, advance the "
            "time, or close the source."
        )

    def __repr__(self) -> str:
        rows: list[tuple[Any, ...]] = [
            ("stage", "operator", "rows in", "rows out", "held", "bytes", "oldest", "latest", "frontier")
        ]
        for o in self.operators:
            counts = (f"{count:,}" for count in (o.rows_in, o.rows, o.held, o.bytes))
            rows.append((o.stage, o.name, *counts, o.oldest, o.latest, o.frontier))
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        counts = f"{self.rows_read:,} rows read, {self.late_rows:,} late, {self.rows_out:,} out"
        return "\n".join([*lines, "", f"{counts}. {self.waits_for}"])


def _silence(operator: Operator) -> str:
    """Why an operator that has taken rows has handed out none."""
    if operator.name == "where":
        return f"The condition of where has let none of {operator.rows_in:,} rows pass."
    reached = "its beginning" if operator.reached is None else operator.reached
    held = f" and keeps {operator.held:,}" if operator.held else ""
    return (
        f"{operator.name} has taken {operator.rows_in:,} rows{held}, and none of its results is final: "
        f"time has come to {reached} there. Push later rows, advance the time, or close the source."
    )


def activity_of(job: native.Job | native.DurableJob, clock: str | None) -> Activity:
    """Collect what a job has done; `clock` is the type of its time."""
    operators = operators_of(job.activity(clock))
    return Activity(job.rows_read(), job.rows_out(), job.rows_late(), job.done(), operators)


def operators_of(channels: list[native._Operator]) -> tuple[Operator, ...]:
    """Put the operators of all channels of a stage together."""
    nodes_of: dict[tuple[int, int], list[native._Operator]] = {}
    count: Counter[tuple[int, int]] = Counter()
    for node in channels:
        channel = node[:2]
        nodes_of.setdefault((node[0], count[channel]), []).append(node)
        count[channel] += 1
    operators: dict[tuple[int, int], Operator] = {}
    for (stage, number), nodes in sorted(nodes_of.items()):
        inputs = [operators[stage, at] for at in nodes[0][3]]
        operators[stage, number] = Operator(
            stage=stage,
            name=re.sub(r"(?<!^)(?=[A-Z])", "_", nodes[0][2]).lower(),
            rows_in=sum(of.rows for of in inputs) if inputs else sum(node[4] for node in nodes),
            rows=sum(node[4] for node in nodes),
            held=sum(node[7][0] for node in nodes),
            bytes=sum(node[7][1] for node in nodes),
            oldest=min((node[7][2] for node in nodes if node[7][2] is not None), default=None),
            latest=max((node[5] for node in nodes if node[5] is not None), default=None),
            frontier=_earliest([node[6] for node in nodes]),
            reached=_earliest([of.frontier for of in inputs]) if inputs else _earliest([n[6] for n in nodes]),
        )
    return tuple(operators.values())


def _earliest(times: list[Instant]) -> Instant:
    """Find the first of some times; None is before all others, and infinity after them."""
    if any(time is None for time in times):
        return None
    finite = [time for time in times if time != float("inf")]
    return min(finite) if finite else float("inf")
