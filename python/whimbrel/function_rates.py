"""How fast functions are, and how that is measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from .function_bill import Bill
from .function_plans import FunctionPlan

# Rows of each task of a query that computes, and how often each query runs.
_ROWS = 8_000_000
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


# Runs a query in so many shards, with small outputs along with answers or not: its bill, and what was
# expected.
Run = Callable[[str, int, bool], tuple[Bill, FunctionPlan]]


def measure(run: Run, concurrency: int, rates: Rates) -> Rates:
    """
    Measure functions with queries.

    Parameters
    ----------
    run
        Runs a query on them.
    concurrency
        How many of them run at the same time.
    rates
        What was expected of them.

    Returns
    -------
    Rates
        The same with what was measured: all but `transfer`.
    """
    # The first invocations start processes.
    _task_seconds(run, _computing(1000), concurrency, True)
    invocation, _ = _task_seconds(run, _computing(1), 1, True)
    with_object, _ = _task_seconds(run, _computing(1), 1, False)
    alone, expected = _task_seconds(run, _computing(_ROWS), 1, True)
    together, _ = _task_seconds(run, _computing(_ROWS * concurrency), concurrency, True)
    computing = max(alone - invocation, 1e-6)
    speed = max(expected - rates.invocation, 1e-6) / computing
    sharing = max(together - invocation, 1e-6) / computing
    return replace(
        rates,
        invocation=invocation,
        latency=max(with_object - invocation, 0.0),
        compute=rates.compute * speed,
        rows=rates.rows * speed,
        processors=concurrency / sharing if sharing > 1 else None,
    )


def _computing(rows: int) -> str:
    return (
        f"select n % 1009 as k, count(*) as c, min(n) as low, sum(n) as s from range({rows}) t(n) group by k"
    )


def _task_seconds(run: Run, sql: str, shards: int, inline: bool) -> tuple[float, float]:
    """Get the seconds of a task of the first stage: the median of some runs, and what was expected."""
    taken, expected = [], 0.0
    for _ in range(_REPEATS):
        bill, plan = run(sql, shards, inline)
        own = [a.end - a.start for a in bill.attempts if a.stage == 0 and a.outcome == "ended"]
        taken.append(statistics.mean(own))
        expected = plan.stages[0].task_seconds
    return statistics.median(taken), expected
