"""How fast functions are, and how that is measured."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol

from .function_bill import Bill
from .function_plans import FunctionPlan

# How many tasks a query that is measured has at most, rows of each if it is not given, and how often it runs.
_MOST_TASKS = 32
_ROWS = 4_000_000
_REPEATS = 3

# Less time than this is none.
_INSTANT = 1e-6


RatesValues = tuple[
    tuple[float, float, float, float, float], tuple[float | None, float, float | None, float | None]
]
"""The rates of one function, and what all share."""


@dataclass(frozen=True)
class Rates:
    """
    How fast functions are: what the expected seconds and dollars of queries are made of (Starling, §4.3).

    Attributes
    ----------
    invocation
        Seconds from the invocation of a function to its first request, and from its last one to the answer.
    latency
        Seconds of a request to the object store.
    transfer
        Bytes that a function reads or writes in a second.
    compute, rows
        Bytes and rows that a function computes with in a second, with a whole processor.
    processors
        How many functions compute at that rate at the same time; those that are more share the processors.
        None: all do.
    cold_start
        Seconds that a new function takes until it begins.
    reads, writes
        How many requests for objects of queries the store serves in a second, to all functions together.
        None: any number. By default as many as Amazon S3 promises for one prefix, which is what a new bucket
        serves; one that is used much serves more.
    """

    invocation: float
    latency: float
    transfer: float
    compute: float
    rows: float
    processors: float | None = None
    cold_start: float = 0.0
    reads: float | None = None
    writes: float | None = None

    @staticmethod
    def of(values: RatesValues) -> Rates:
        """Make the rates of the native half's values."""
        of_one, limits = values
        return Rates(*of_one, *limits)

    def values(self) -> RatesValues:
        """Get the values for the native half."""
        of_one = (self.invocation, self.latency, self.transfer, self.compute, self.rows)
        return of_one, (self.processors, self.cold_start, self.reads, self.writes)


class Probe(Protocol):
    """Queries on the functions that are measured, which are planned by nothing but their shards."""

    def run(self, sql: str, shards: int, *, inline: bool = True, concurrency: int = 1) -> Bill:
        """Run a query on so many functions; small outputs go along with answers, or into objects."""
        ...

    def expect(self, sql: str, shards: int, rates: Rates) -> FunctionPlan:
        """Get what is expected of a query if functions are so fast."""
        ...


def measure(probe: Probe, concurrency: int, rates: Rates, sql: str | None) -> Rates:
    """
    Measure functions with queries.

    Parameters
    ----------
    probe
        Queries on them.
    concurrency
        How many of them run at the same time.
    rates
        What is expected of them. How far `transfer` and `compute` are from each other is taken from there.
    sql
        A query of the kind that they are for; by default one that counts numbers.

    Returns
    -------
    Rates
        What was measured.
    """
    rates = replace(rates, processors=None)
    tasks = min(concurrency, _MOST_TASKS)
    query = sql or _counting(tasks * _ROWS)
    # The first invocations start processes.
    probe.run(query, tasks, concurrency=tasks)
    invocation = _taken(probe, _counting(1), 1)
    with_object = _taken(probe, _counting(1), 1, inline=False)
    # The same tasks, one after the other and all at once.
    alone = _taken(probe, query, tasks) - invocation
    together = _taken(probe, query, tasks, concurrency=tasks) - invocation
    expected = _expected(probe.expect(query, tasks, rates)) - rates.invocation
    without_transfer = replace(rates, transfer=math.inf)
    computed = _expected(probe.expect(query, tasks, without_transfer)) - rates.invocation
    speed = max(expected, _INSTANT) / max(alone, _INSTANT)
    # What takes longer when all run at once is what they compute.
    sharing = (together - (expected - computed) / speed) / max(computed / speed, _INSTANT)
    return replace(
        rates,
        invocation=invocation,
        latency=max(with_object - invocation, 0.0),
        transfer=rates.transfer * speed,
        compute=rates.compute * speed,
        rows=rates.rows * speed,
        processors=tasks / sharing if sharing > 1 else None,
    )


def _counting(rows: int) -> str:
    numbers = f"range({rows}) t(n)"
    return f"select n % 1009 as k, count(*) as c, min(n) as low, sum(n) as s from {numbers} group by k"


def _taken(probe: Probe, sql: str, shards: int, *, inline: bool = True, concurrency: int = 1) -> float:
    """Run a query some times; return the median of the mean seconds of its tasks."""
    means = []
    for _ in range(_REPEATS):
        attempts = probe.run(sql, shards, inline=inline, concurrency=concurrency).attempts
        tasks = Counter(a.stage for a in attempts if a.outcome == "ended")
        largest = {stage for stage, count in tasks.items() if count == max(tasks.values())}
        means.append(
            statistics.mean(a.end - a.start for a in attempts if a.stage in largest and a.outcome == "ended")
        )
    return statistics.median(means)


def _expected(plan: FunctionPlan) -> float:
    """Get the mean seconds that the tasks of the stages with the most tasks are expected to take."""
    most = max(stage.tasks for stage in plan.stages)
    return statistics.mean(stage.task_seconds for stage in plan.stages if stage.tasks == most)
