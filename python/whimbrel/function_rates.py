"""How fast functions are, and how that is measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from .function_bill import Bill
from .function_plans import FunctionPlan

# How many tasks a query that is measured has at most, rows of each if it is not given, and how often it runs.
_MOST_TASKS = 32
_ROWS = 4_000_000
_REPEATS = 3


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
    """

    invocation: float
    latency: float
    transfer: float
    compute: float
    rows: float
    processors: float | None = None


class Probe(Protocol):
    """Runs queries on the functions that are measured."""

    def __call__(
        self, sql: str, shards: int, *, inline: bool = True, concurrency: int = 1
    ) -> tuple[Bill, FunctionPlan]:
        """
        Run a query.

        Parameters
        ----------
        sql
            The query.
        shards
            In how many shards it is planned; the plan depends on nothing else.
        inline
            Whether small outputs go along with answers instead of into objects.
        concurrency
            How many functions run at the same time.

        Returns
        -------
        tuple
            Its bill, and what was expected.
        """
        ...


def measure(probe: Probe, concurrency: int, rates: Rates, sql: str | None) -> Rates:
    """
    Measure functions with queries.

    Parameters
    ----------
    probe
        Runs a query on them.
    concurrency
        How many of them run at the same time.
    rates
        What was expected of them.
    sql
        A query of the kind that they are for; by default one that counts numbers.

    Returns
    -------
    Rates
        The same with what was measured: all but `transfer`.
    """
    tasks = min(concurrency, _MOST_TASKS)
    query = sql or _counting(tasks * _ROWS)
    # The first invocations start processes.
    probe(query, tasks, concurrency=tasks)
    invocation = _seconds(lambda: probe(_counting(1), 1))[0]
    with_object = _seconds(lambda: probe(_counting(1), 1, inline=False))[0]
    # The same tasks, one after the other and all at once.
    alone, expected = _seconds(lambda: probe(query, tasks))
    together, _ = _seconds(lambda: probe(query, tasks, concurrency=tasks))
    seconds = max(alone - invocation, 1e-6)
    speed = max(expected - rates.invocation, 1e-6) / seconds
    sharing = max(together - invocation, 1e-6) / seconds
    return replace(
        rates,
        invocation=invocation,
        latency=max(with_object - invocation, 0.0),
        compute=rates.compute * speed,
        rows=rates.rows * speed,
        processors=tasks / sharing if sharing > 1 else None,
    )


def _counting(rows: int) -> str:
    numbers = f"range({rows}) t(n)"
    return f"select n % 1009 as k, count(*) as c, min(n) as low, sum(n) as s from {numbers} group by k"


def _seconds(run: Callable[[], tuple[Bill, FunctionPlan]]) -> tuple[float, float]:
    """Get the mean seconds of a task of the largest stages: the median of some runs, and those expected."""
    taken, expected = [], 0.0
    for _ in range(_REPEATS):
        bill, plan = run()
        most = max(stage.tasks for stage in plan.stages)
        large = {number for number, stage in enumerate(plan.stages) if stage.tasks == most}
        own = [a.end - a.start for a in bill.attempts if a.stage in large and a.outcome == "ended"]
        taken.append(statistics.mean(own))
        expected = statistics.mean(plan.stages[number].task_seconds for number in large)
    return statistics.median(taken), expected
