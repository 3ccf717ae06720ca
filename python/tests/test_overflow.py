"""A number that is too large for its type is an error on tables and on streams, and never another number."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

LARGEST: dict[str, tuple[pa.DataType, Any, Any]] = {
    "int64": (pa.int64(), 2**63 - 1, -(2**63) + 1),
    "uint64": (pa.uint64(), 2**64 - 1, 0),
    "decimal": (pa.decimal128(38, 0), Decimal("9" * 38), Decimal("-" + "9" * 38)),
}

WINDOWS: dict[str, Callable[[Any], Any]] = {
    "none": lambda q: q,
    "tumbling": lambda q: q.tumbling(4),
    "hopping": lambda q: q.hopping(4, hop=2),
    "sliding": lambda q: q.sliding(3),
    "session": lambda q: q.session(3),
}


def stream(kind: str, numbers: list[int]) -> wb.ShardedStream:
    """Make events at 0, 1, …: 1 is the largest number of a type, -1 the same with the other sign."""
    data_type, largest, least = LARGEST[kind]
    drawn = {1: largest, -1: least, 0: type(largest)(0)}
    values = [drawn[number] for number in numbers]
    rows = {"t": range(len(values)), "k": [1] * len(values), "v": pa.array(values, data_type)}
    return wb.from_arrow(pa.table(rows), time="t")


@pytest.mark.parametrize("key", [[], ["k"]])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", LARGEST)
def test_sums_on_streams(kind: str, window: str, key: list[str]) -> None:
    """Two of the largest numbers that live together have no sum; one after the other they have."""

    def sums(numbers: list[int], function: Any = wb.sum) -> list[Any]:
        plan = (
            stream(kind, numbers)
            .rekey(*key)
            .query(lambda q: WINDOWS[window](q).aggregate(s=function(lambda e: e.v), n=wb.count()))
        )
        return [row.s for row in plan.to_rows()]

    alone = [1, 0] if window == "session" else [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    _, largest, least = LARGEST[kind]
    assert max(sums(alone)) == largest
    if window != "none":
        with pytest.raises(wb.WhimbrelError, match="too large"):
            sums([1, 1, 0, 0])
    if kind != "uint64":
        assert set(sums([1, -1, 1, -1])) <= {largest, least, 0}
    assert len(sums([1, 1, 1, 1], wb.avg)) > 0


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("shards", [1, 3])
def test_sums_of_tables(kind: str, shards: int) -> None:
    """Sums, grouped and not, over frames and of different values."""
    data_type, largest, _ = LARGEST[kind]
    values = [largest, largest, type(largest)(1), type(largest)(0)]
    table = pa.table({"k": [1, 1, 2, 2], "v": pa.array(values, data_type)})
    for sql in [
        "select sum(v) from t",
        "select k, sum(v) from t group by k",
        "select sum(distinct v) from t where k = 2 or v > 1",
        "select sum(v) over (order by k rows 1 preceding) from t",
        "select sum(v) filter (where k = 1) from t",
    ]:
        with pytest.raises(wb.WhimbrelError, match="too large"):
            wb.sql(sql, shards=shards, t=table).collect()
    assert wb.sql("select sum(v) as s from t where k = 2", shards=shards, t=table).to_rows()[0].s == 1
    with pytest.raises(wb.WhimbrelError, match="too large"):
        wb.from_arrow(table).query(lambda q: q.aggregate(s=wb.sum(lambda e: e.v))).collect()


def test_constants() -> None:
    """Numbers without columns are looked at as well, over a table and over time."""
    most = wb.lit(2**63 - 1)
    table = pa.table({"t": [0, 1], "v": [1, 2]})
    for stream in (wb.from_arrow(table), wb.from_arrow(table, time="t")):
        for large in (most + 1, wb.lit(-(2**63)) - 1, most * 2, wb.fn.abs(most) + 1):
            with pytest.raises(wb.WhimbrelError, match="too large"):
                stream.query(lambda q, large=large: q.select(v=large)).to_rows()
            with pytest.raises(wb.WhimbrelError, match="too large"):
                stream.query(lambda q, large=large: q.where(lambda e: e.v < large)).to_rows()
        reached = wb.when(wb.col("v") > 5).then(most + 1).otherwise(wb.col("v"))
        rows = stream.query(lambda q, reached=reached: q.select(v=reached)).to_rows()
        assert [row.v for row in rows] == [1, 2]


def test_averages_of_decimals() -> None:
    """They are not cut off, on tables and on streams."""
    cents = pa.array([Decimal("0.01"), Decimal("0.02"), Decimal("0.02")], pa.decimal128(4, 2))
    table = pa.table({"t": [0, 1, 2], "v": cents})
    mean = 0.05 / 3
    assert wb.sql("select avg(v) as a from t", t=table).to_rows()[0].a == pytest.approx(mean, rel=1e-15)
    average = wb.from_arrow(table).query(lambda q: q.aggregate(a=wb.avg(lambda e: e.v)))
    assert average.to_rows()[0].a == pytest.approx(mean, rel=1e-15)
    windows = wb.from_arrow(table, time="t").query(lambda q: q.tumbling(3).aggregate(a=wb.avg(lambda e: e.v)))
    assert windows.to_rows()[0].a == pytest.approx(mean, rel=1e-15)


def test_sessions_keep_rows_without_a_key() -> None:
    """A key that is null is a key like others, over a table and over time."""
    table = pa.table({"t": [0, 1, 10, 11], "k": [None, "a", None, "a"], "v": [1, 2, 3, 4]})
    sql = "select k, window_start, window_end, sum(v) as s from session(x, t, 5, k) group by all"
    rows = {tuple(row) for row in wb.sql(sql, x=table).to_rows()}
    assert len(rows) == 4
    timed = wb.sql(sql, x=wb.from_arrow(table, time="t")).to_rows()
    assert {(row.k, row.window_start, row.window_end, row.s) for row in timed} == rows
