"""Whimbrel through its Python API over Arrow columns in memory: from the table to the fold of the result.

One thread is library mode: the calling thread does all the work. Two threads are local mode with two
shards; the events come in two shards too, by turns, so that both are read at the same time. All streams have
a time and run on the temporal engine; the peers' scans do not know of time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import whimbrel as wb
from engines import Programs, timed
from workloads import HOP, MISSED, STEPS, WINDOW, Answer, Line

BATCH = 80_000

Query = Callable[[wb.Stream], wb.Stream]

COUNT_AND_SUM = {"n": wb.count(), "s": wb.sum(lambda e: e.value)}
EVER = 1 << 40


def totals_of(query: Query) -> Query:
    """Count and sum all rows of a query, in one window."""
    return lambda q: query(q).tumbling(EVER).aggregate(n=wb.count(), s=wb.sum(lambda e: e.value))


def joined(window: int) -> Query:
    """Add up the pairs of a low and a later high value of one key."""

    def pairs(q: wb.Stream) -> wb.Stream:
        low = q.where(lambda e: e.value < 250).alter_duration(window)
        return low.join(q.where(lambda e: e.value >= 750))

    sums = {"a": wb.sum(lambda e: e.value), "b": wb.sum(lambda e: e.value_right)}
    return lambda q: q.multicast(pairs).tumbling(EVER).aggregate(n=wb.count(), **sums)


def step(number: int) -> wb.Pattern:
    """Match the event at a place of the pattern."""
    return wb.event(lambda e: (e.value + number) % 10 >= MISSED)


def matches(window: int) -> Query:
    """Find the pattern, wherever it begins."""
    pattern = step(0).then(*(step(number) for number in range(1, STEPS)))
    return lambda q: q.detect(pattern, within=window)


SCANS: dict[str, Query] = {
    "filter": totals_of(lambda q: q.where(lambda e: e.value < 500)),
    "projection": totals_of(lambda q: q.select(value=lambda e: e.value * 2 + e.key)),
    "text contains": totals_of(lambda q: q.where(lambda e: wb.fn.contains(e.path, "test"))),
    "text equals": totals_of(lambda q: q.where(lambda e: e.path == "Makefile")),
    "text starts": totals_of(lambda q: q.where(lambda e: e.path.startswith("src/"))),
    "text ends": totals_of(lambda q: q.where(lambda e: e.path.endswith(".py"))),
    "text like": totals_of(lambda q: q.where(lambda e: e.path.like("%src%test%"))),
    "text offset": totals_of(lambda q: q.select(value=lambda e: wb.fn.strpos(e.path, "test"))),
}
WINDOWS: dict[str, Query] = {
    "tumbling": lambda q: q.tumbling(WINDOW).aggregate(**COUNT_AND_SUM),
    "hopping": lambda q: q.hopping(WINDOW, hop=HOP).aggregate(**COUNT_AND_SUM),
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's plan on the runtime for so many threads."""
    runtime = "library" if threads == 1 else "local"
    source = wb.from_arrow(by_turns(events, threads), time="t", shards=threads)
    plan, fold = plan_and_fold(line, source, threads)

    def answer() -> Answer:
        return fold(plan.collect(runtime=runtime, progress=False))

    return {runtime: timed(answer)}


def plan_and_fold(
    line: Line, source: wb.ShardedStream, threads: int
) -> tuple[wb.ShardedStream, Callable[[wb.Table], Answer]]:
    """Return the line's plan, and what adds up its result."""
    if line.query in SCANS:
        return source.query(SCANS[line.query]), fold_scan
    by_key = source.rekey(lambda e: e.key).redistribute(threads)
    if line.query == "sessions":
        # A session's row comes when it ends; the stream's own `session` has one for each event.
        return wb.sql(SESSIONS.format(pause=line.window), shards=threads, events=source), fold_sessions
    if line.query == "join":
        return by_key.query(joined(line.window)), fold_pairs
    if line.query == "pattern":
        return by_key.query(matches(line.window)), partial(fold_matches, line.window)
    lives = HOP if line.query == "hopping" else WINDOW
    return by_key.query(WINDOWS[line.query]), partial(fold_windows, lives)


SESSIONS = """
    select key, window_start, count(*) as n, sum(value) as s from session(events, t, {pause}, key)
    group by key, window_start, window_end
"""


def by_turns(events: pa.Table, shards: int) -> pa.Table:
    """Order slices so that each shard, a contiguous part of the table, gets every n-th of them."""
    rows = events.num_rows
    length = next(length for length in range(BATCH, 0, -1) if rows % (length * shards) == 0)
    starts = range(0, rows, length * shards)
    return pa.concat_tables(
        events.slice(start + length * shard, length) for shard in range(shards) for start in starts
    )


def total(column: pa.ChunkedArray) -> int:
    """Add up a column."""
    return pc.call_function("sum", [column]).as_py() or 0


def fold_scan(table: wb.Table) -> Answer:
    """Add up the counts and sums of the shards, a row each."""
    return Answer(1, sum(table["n"]), sum(table["s"]))


def fold_sessions(table: wb.Table) -> Answer:
    """Add up the rows of the sessions."""
    result = table.to_arrow()
    return Answer(result.num_rows, total(result["n"]), total(result["s"]))


def fold_pairs(table: wb.Table) -> Answer:
    """Add up the totals of the shards, a row each."""
    return Answer(sum(table["n"]), sum(table["a"]), sum(table["b"]))


def fold_matches(within: int, table: wb.Table) -> Answer:
    """Add up when matches began, which is so long before they end, and when their last events were."""
    result = table.to_arrow()
    return Answer(result.num_rows, total(result["end"]) - within * result.num_rows, total(result["start"]))


def fold_windows(hop: int, table: wb.Table) -> Answer:
    """Add up counts and sums, once for each window of a row, which lives whole hops."""
    result = table.to_arrow()
    lives = pc.call_function("subtract", [result["end"], result["start"]])
    products = [pc.call_function("multiply", [lives, result[name]]) for name in ("n", "s")]
    return Answer(*(total(column) // hop for column in (lives, *products)))
