"""Polars over a frame that shares the Arrow buffers; making it is not measured, the fold of the result is.

The number of threads is read from `POLARS_MAX_THREADS` when Polars is imported; `measure.py` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import and_
from typing import Literal

import polars as pl
import pyarrow as pa

from engines import Programs, timed
from workloads import HOP, MISSED, STEPS, WINDOW, Answer, Line

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


def sessions(frame: pl.LazyFrame, pause: int) -> pl.LazyFrame:
    """Give the sessions of all keys numbers, in one pass over the sorted events."""
    other_key = pl.col("key") != pl.col("key").shift()
    began = (other_key | (pl.col("t") - pl.col("t").shift() >= pause)).fill_null(value=True)
    return frame.sort("key", "t").group_by(session=began.cum_sum()).agg(**COUNT_AND_SUM)


def joined(frame: pl.LazyFrame, window: int) -> pl.LazyFrame:
    """Add up the pairs of a low and a later high value of one key."""
    pairs = frame.filter(VALUE < 250).join(frame.filter(VALUE >= 750), on="key", suffix="_b")
    later = (pl.col("t_b") >= pl.col("t")) & (pl.col("t_b") < pl.col("t") + window)
    return pairs.filter(later).select(rows=pl.len(), n=VALUE.sum(), s=pl.col("value_b").sum())


def matches(frame: pl.LazyFrame, window: int) -> pl.LazyFrame:
    """Compare each of the sorted events with those behind it."""
    steps = [(VALUE.shift(-step) + step) % 10 >= MISSED for step in range(STEPS)]
    last = pl.col("t").shift(1 - STEPS)
    of_one_key = (pl.col("key").shift(1 - STEPS) == pl.col("key")) & (last < pl.col("t") + window)
    found = frame.sort("key", "t", "value").with_columns(last=last).filter(reduce(and_, steps, of_one_key))
    return found.select(rows=pl.len(), n=pl.col("t").sum(), s=pl.col("last").sum())


def texts(condition: pl.Expr) -> Callable[[pl.LazyFrame, Line], pl.LazyFrame]:
    """Count and sum the values of the rows whose path satisfies a condition."""
    return lambda frame, _: scan(frame.filter(condition).select(VALUE))


PATH = pl.col("path").str
OFFSET = (PATH.find("test", literal=True) + 1).fill_null(0).cast(pl.Int64)

QUERIES: dict[str, Callable[[pl.LazyFrame, Line], pl.LazyFrame]] = {
    "filter": lambda frame, _: scan(frame.filter(VALUE < 500).select(VALUE)),
    "projection": lambda frame, _: scan(frame.select(VALUE * 2 + pl.col("key"))),
    "tumbling": lambda frame, _: fold(frame.group_by("key", w=pl.col("t") // WINDOW).agg(**COUNT_AND_SUM)),
    "hopping": lambda frame, _: fold(panes(frame)),
    "sessions": lambda frame, line: fold(sessions(frame, line.window)),
    "join": lambda frame, line: joined(frame, line.window),
    "pattern": lambda frame, line: matches(frame, line.window),
    "text contains": texts(PATH.contains("test", literal=True)),
    "text equals": texts(pl.col("path") == "Makefile"),
    "text starts": texts(PATH.starts_with("src/")),
    "text ends": texts(PATH.ends_with(".py")),
    "text like": texts(PATH.contains("src.*test")),
    "text offset": lambda frame, _: scan(frame.select(OFFSET)),
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's query on both of Polars' engines."""
    assert pl.thread_pool_size() == threads, "POLARS_MAX_THREADS has to be set before Polars is imported"
    frame = pl.from_arrow(events)
    assert isinstance(frame, pl.DataFrame)
    query = QUERIES[line.query](frame.lazy(), line)

    def answer(engine: Literal["streaming", "in-memory"]) -> Answer:
        return Answer(*(int(value) for value in query.collect(engine=engine).row(0)))

    return {
        "streaming": timed(partial(answer, "streaming")),
        "in-memory": timed(partial(answer, "in-memory")),
    }
