"""Queries that run for some seconds on a cluster: what faults hit, and what the answers have to be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import polars

import whimbrel as wb

ROWS = 3_000_000
FILES = 60


def hashed(column: str, times: int) -> str:
    """Write an expression that takes its time."""
    return "md5(" * times + column + ")" * times


AGGREGATE = f"select n % 7 as k, count(*) as c, min({hashed('text', 9)}) as low from rows group by 1"

JOIN = f"""
    select a.k, count(*) as c, sum(b.s) as s, min(b.low) as low, sum(a.digits) as digits
    from (select k, sum(length({hashed("text", 5)})) as digits from rows group by k) a
    join (select k, sum(n) as s, min({hashed("text", 4)}) as low from rows group by k) b on a.k = b.k
    group by a.k
"""

SORT = f"select n, k, md5(text) as t from rows where {hashed('text', 9)} < '08' order by t desc, n"

WINDOW = f"""
    select n, s from (
        select n, sum(length({hashed("text", 7)})) over (partition by k order by n) as s
        from rows where n % 3 = 0
    ) where s % 5 = 0
"""


class Case:
    """
    A query, and its answer.

    Parameters
    ----------
    name
        What it is called.
    plan
        Plans it for a cluster, or for this process.
    """

    def __init__(self, name: str, plan: Callable[[wb.cluster.Cluster | None], wb.ShardedStream]) -> None:
        self.name = name
        self.plan = plan

    @cached_property
    def answer(self) -> polars.DataFrame:
        """The answer of this process."""
        return in_order(self.plan(None).to_polars())


def in_order(rows: polars.DataFrame) -> polars.DataFrame:
    """Sort rows, as nothing may have ordered them."""
    return rows.sort(rows.columns)


def write(folder: Path) -> None:
    """Write the files that the queries read."""
    rows = "select n, n * 7919 % 200003 as k, md5(n::varchar) as text from range({}) t(n)"
    wb.sql(rows.format(ROWS)).to_storage(folder / "rows")
    ticks = "select *, to_timestamp_seconds(1700000000 + n) as at from rows"
    wb.sql(ticks, rows=str(folder / "rows")).to_storage(folder / "ticks")
    some = wb.sql(rows.format(ROWS // 4)).to_polars()
    (folder / "parts").mkdir()
    for number, part in enumerate(some.iter_slices(len(some) // FILES)):
        part.write_parquet(folder / "parts" / f"{number:03}.parquet")


def cases(folder: Path) -> dict[str, Case]:
    """Make a query of each shape over the files of this folder."""

    def in_sql(text: str) -> Callable[[wb.cluster.Cluster | None], wb.ShardedStream]:
        return lambda on: wb.sql(text, on=on, rows=str(folder / "rows"))

    def slow(stream: wb.ShardedStream, times: int) -> wb.ShardedStream:
        text = wb.col("text")
        for _ in range(times):
            text = wb.fn.md5(text)
        return stream.query(lambda q: q.select("n", k=wb.col("k") % 23, text=text))

    def hopping(_: wb.cluster.Cluster | None) -> wb.ShardedStream:
        ticks = slow(wb.read(folder / "ticks", time="at", shards=3), 7)
        totals = {"c": wb.count(), "s": wb.sum("n"), "low": wb.min("text")}
        moved = ticks.rekey("k").redistribute(3)
        return moved.query(lambda q: q.hopping("2h", hop="20m").aggregate(**totals))

    def small_batches(_: wb.cluster.Cluster | None) -> wb.ShardedStream:
        parts = wb.read(folder / "parts", time="n", shards=3, batch_rows=500)
        moved = slow(parts, 6).rekey("k").redistribute(3)
        texts = moved.query(lambda q: q.select("n", "k", text=wb.fn.md5(wb.col("text"))))
        again = slow(texts.rekey("n").redistribute(3), 16)
        return again.query(lambda q: q.where(wb.col("text") < "08"))

    plans = {
        "aggregate": in_sql(AGGREGATE),
        "join": in_sql(JOIN),
        "sort": in_sql(SORT),
        "window": in_sql(WINDOW),
        "hopping": hopping,
        "small_batches": small_batches,
    }
    return {name: Case(name, plan) for name, plan in plans.items()}
