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
from workloads import HOP, WINDOW, Answer, Line

BATCH = 80_000

Query = Callable[[wb.Stream], wb.Stream]

COUNT_AND_SUM = {"n": wb.count(), "s": wb.sum(lambda e: e.value)}


def totals_of(query: Query) -> Query:
    """Count and sum all rows of a query, in one window."""
    return lambda q: query(q).tumbling(1 << 40).aggregate(n=wb.count(), s=wb.sum(lambda e: e.value))


SCANS: dict[str, Query] = {
    "filter": totals_of(lambda q: q.where(lambda e: e.value < 500)),
    "projection": totals_of(lambda q: q.select(value=lambda e: e.value * 2 + e.key)),
}
WINDOWS: dict[str, Query] = {
    "tumbling": lambda q: q.tumbling(WINDOW).aggregate(**COUNT_AND_SUM),
    "hopping": lambda q: q.hopping(WINDOW, hop=HOP).aggregate(**COUNT_AND_SUM),
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's plan on the runtime for so many threads."""
    runtime = "library" if threads == 1 else "local"
    source = wb.from_arrow(by_turns(events, threads), time="t", shards=threads)
    if line.query in SCANS:
        plan = source.query(SCANS[line.query])
        fold = fold_scan
    else:
        plan = source.rekey(lambda e: e.key).redistribute(threads).query(WINDOWS[line.query])
        fold = partial(fold_windows, HOP if line.query == "hopping" else WINDOW)

    def answer() -> Answer:
        return fold(plan.collect(runtime=runtime, progress=False))

    return {runtime: timed(answer)}


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


def fold_windows(hop: int, table: wb.Table) -> Answer:
    """Add up counts and sums, once for each window of a row, which lives whole hops."""
    result = table.to_arrow()
    lives = pc.call_function("subtract", [result["end"], result["start"]])
    products = [pc.call_function("multiply", [lives, result[name]]) for name in ("n", "s")]
    return Answer(*(total(column) // hop for column in (lives, *products)))
