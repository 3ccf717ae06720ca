"""Polars over a frame that shares the Arrow buffers; making it is not measured, the fold of the result is.

The number of threads is read from `POLARS_MAX_THREADS` when Polars is imported; `measure.py` sets it.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import polars as pl
import pyarrow as pa

from engines import Programs, timed
from workloads import HOP, WINDOW, Answer, Line

VALUE = pl.col("value")
COUNT_AND_SUM = {"n": pl.len(), "s": VALUE.sum()}


def fold(result: pl.LazyFrame) -> pl.LazyFrame:
    """Add up a result with a count and a sum in each row."""
    return result.select(pl.len().alias("rows"), pl.col("n").sum(), pl.col("s").sum())


def scan(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Count and sum one column."""
    return frame.select(rows=pl.lit(1), n=pl.len(), s=pl.first().sum())


def panes(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Aggregate once a hop, then add up the hops of each window."""
    of_hop = frame.group_by("key", w=pl.col("t") // HOP).agg(**COUNT_AND_SUM)
    moved = [of_hop.with_columns(pl.col("w") + k) for k in range(1, WINDOW // HOP + 1)]
    return pl.concat(moved).group_by("key", "w").agg(pl.col("n").sum(), pl.col("s").sum())


QUERIES = {
    "filter": lambda frame: scan(frame.filter(VALUE < 500).select(VALUE)),
    "projection": lambda frame: scan(frame.select(VALUE * 2 + pl.col("key"))),
    "tumbling": lambda frame: fold(frame.group_by("key", w=pl.col("t") // WINDOW).agg(**COUNT_AND_SUM)),
    "hopping": lambda frame: fold(panes(frame)),
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's query on both of Polars' engines."""
    assert pl.thread_pool_size() == threads, "POLARS_MAX_THREADS has to be set before Polars is imported"
    frame = pl.from_arrow(events)
    assert isinstance(frame, pl.DataFrame)
    query = QUERIES[line.query](frame.lazy())

    def answer(engine: Literal["streaming", "in-memory"]) -> Answer:
        return Answer(*(int(value) for value in query.collect(engine=engine).row(0)))

    return {
        "streaming": timed(partial(answer, "streaming")),
        "in-memory": timed(partial(answer, "in-memory")),
    }
