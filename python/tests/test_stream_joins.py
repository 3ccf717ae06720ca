"""Joins of streams of events in SQL give the rows that they give over tables of the same events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

# How the times of `b` may lie to those of `a`, on a logical clock.
APART = {
    "after": "b.time between a.time and a.time + 10",
    "before": "b.time <= a.time and b.time > a.time - 7",
    "around": "b.time >= a.time - 3 and a.time >= b.time - 4",
    "later": "b.time - a.time between 2 and 6",
    "strictly": "a.time < b.time and b.time - 5 < a.time",
    "long before": "a.time between b.time + 3 and b.time + 8",
    "never": "b.time between a.time + 5 and a.time + 4",
    "with more": "b.time between a.time and a.time + 10 and a.n < b.n",
}

QUERIES = {
    "inner": "select a.time, a.k, a.n, b.time as u, b.n as m from a join b on a.k = b.k and {apart}",
    "where": "select a.n, b.n as m from a, b where a.k = b.k and {apart} and b.n > 3",
    "left": "select a.time, a.n, b.time as u, b.n as m from a left join b on a.k = b.k and {apart}",
    "right": "select a.n, b.time as u, b.n as m from a right join b on a.k = b.k and {apart}",
    "full": "select a.n, b.n as m from a full join b on a.k = b.k and {apart}",
    "exists": "select time, n from a where exists (select 1 from b where a.k = b.k and {apart})",
    "not exists": "select time, n from a where not exists (select 1 from b where a.k = b.k and {apart})",
    "no key": "select a.n, b.n as m from a join b on {apart}",
}

ASOF = [
    "select a.time, a.n, b.n as m from a asof join b on a.k = b.k and a.time >= b.time",
    "select a.time, a.n, b.time as u, b.n as m from a asof left join b on a.k = b.k and a.time >= b.time",
    "select a.time, a.n, b.n as m from a asof join b on a.k = b.k and a.time > b.time",
    "select a.n, b.n as m from a asof left join b on a.time >= b.time",
]


def events(random: Random, rows: int, *, unique: bool = False) -> list[dict[str, Any]]:
    times = random.sample(range(60), rows) if unique else [random.randint(0, 60) for _ in range(rows)]
    keys = [random.choice(["x", "y", None]) for _ in range(rows)]
    rows_of = zip(sorted(times), keys, range(rows), strict=True)
    return [{"time": time, "k": key, "n": number} for time, key, number in rows_of]


def without_lifetimes(stream: wb.ShardedStream) -> list[str]:
    rows = [{k: v for k, v in dict(row).items() if k not in ("start", "end")} for row in stream.to_rows()]
    return sorted(map(repr, rows))


def both(sql: str, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    """Run a query over tables, over streams at rest, and over live streams."""
    schema = pa.schema([("time", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
    tables = {name: pa.Table.from_pylist(rows, schema) for name, rows in (("a", a), ("b", b))}
    expected = without_lifetimes(wb.sql(sql, **tables))
    assert without_lifetimes(wb.sql(sql, **streams(tables, wb.from_arrow))) == expected, sql
    assert without_lifetimes(wb.sql(sql, **streams(tables, live))) == expected, sql


def streams(tables: dict[str, pa.Table], make: Callable[..., Any]) -> dict[str, Any]:
    return {name: make(table, time="time") for name, table in tables.items()}


def live(table: pa.Table, time: str) -> wb.LiveStream:
    stream = wb.live(table.schema, time=time)
    for start in range(0, table.num_rows, 3):
        stream.push(table.slice(start, 3))
    stream.close()
    return stream


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("query", QUERIES)
def test_interval_joins(query: str, apart: str) -> None:
    for seed in range(4):
        random = Random(f"{query} {apart} {seed}")
        both(QUERIES[query].format(apart=APART[apart]), events(random, 25), events(random, 30))


@pytest.mark.parametrize("sql", ASOF)
def test_asof_joins(sql: str) -> None:
    for seed in range(6):
        random = Random(seed)
        both(sql, events(random, 25), events(random, 30, unique=True))


def test_one_join_after_the_other() -> None:
    sql = (
        "select a.n, b.n as m, c.n as o from a join b on a.k = b.k and b.time between a.time and a.time + 9 "
        "join b as c on c.k = b.k and c.time between b.time + 1 and b.time + 5"
    )
    for seed in range(4):
        random = Random(seed)
        both(sql, events(random, 25), events(random, 30))


def test_a_stream_joined_with_itself_is_read_once() -> None:
    sql = (
        "select x.n, y.time as u from a x join a y on x.k = y.k and y.time between x.time + 1 and x.time + 8 "
        "where exists (select 1 from b where b.k = x.k and b.time - x.time between -9 and 9)"
    )
    # A pair is there at the later of its times: what lies before the other one cannot be looked at any more.
    with pytest.raises(wb.InvalidError, match="how far apart their times may be"):
        both(sql, events(Random(0), 9), events(Random(1), 9))
    both(sql[: sql.index("where")], events(Random(0), 25), events(Random(1), 9))


def test_timestamps_and_intervals() -> None:
    def at(minutes: int) -> datetime:
        return datetime(2024, 1, 1) + timedelta(minutes=minutes)

    orders = wb.from_rows([{"time": at(0), "id": 1}, {"time": at(30), "id": 2}], time="time")
    payments = wb.from_rows([{"time": at(9), "id": 1}, {"time": at(41), "id": 2}], time="time")
    sql = (
        "select o.id from orders o {} join payments p on o.id = p.id and p.time between o.time and "
        "o.time + interval '10 minutes'"
    )
    paid = wb.sql(sql.format(""), orders=orders, payments=payments).to_rows()
    assert [(row.id, row.start) for row in paid] == [(1, at(9))]
    apart = (
        "select o.id from orders o join payments p on o.id = p.id "
        "and p.time - o.time <= interval '10 minutes' and o.time - p.time <= interval '0 minutes'"
    )
    paid = wb.sql(apart, orders=orders, payments=payments).to_rows()
    assert [(row.id, row.start) for row in paid] == [(1, at(9))]
    unpaid = wb.sql(
        "select id from orders o where not exists (select 1 from payments p where p.id = o.id and "
        "p.time - o.time between interval '0 minutes' and interval '10 minutes')",
        orders=orders,
        payments=payments,
    ).to_rows()
    # It is certain when the ten minutes have passed.
    assert [(row.id, row.start) for row in unpaid] == [(2, at(40))]


def test_a_missing_bound_is_told() -> None:
    schema = {"time": "int64", "k": "string", "n": "int64"}
    live: dict[str, Any] = {name: wb.live(schema, time="time") for name in ("a", "b")}
    for condition in ("a.k = b.k", "a.k = b.k and b.time >= a.time", "a.k = b.k and b.n >= a.n"):
        with pytest.raises(wb.InvalidError, match="how far apart their times may be") as caught:
            wb.sql(f"select a.n from a join b on {condition}", **live)
        assert "b.time between a.time and a.time + interval" in str(caught.value)
    # Events at the same instant are what a join of streams finds by itself.
    rows = [{"time": 1, "k": "x", "n": 1}]
    tables: dict[str, Any] = {name: wb.from_rows(rows, time="time") for name in ("a", "b")}
    assert len(wb.sql("select a.n from a join b on a.k = b.k and a.time = b.time", **tables).to_rows()) == 1
    with pytest.raises(wb.InvalidError, match="looks back"):
        wb.sql("select a.n from a asof join b on a.time <= b.time", **live)
    with pytest.raises(wb.InvalidError, match="have their time from"):
        wb.sql("select a.n from a asof join b on a.n >= b.n", **live)


# What is read of the pairs: some columns, in any order, under other names, computed, or none.
SELECTIONS: dict[str, Callable[[wb.Stream], wb.Stream]] = {
    "one side": lambda q: q.select("m"),
    "turned around": lambda q: q.select("m", "n"),
    "keys": lambda q: q.select("k", "m"),
    "renamed": lambda q: q.select(x="n", y="m"),
    "twice": lambda q: q.select(x="n", y="n", z="k"),
    "computed": lambda q: q.select(x=lambda e: e.n * e.m),
    "filtered": lambda q: q.where(lambda e: e.m > e.n).select("k"),
    "counted": lambda q: q.aggregate(rows=wb.count()),
    "shared": lambda q: q.select(v="n").union(q.select(v="m")),
}
JOINS: dict[str, Callable[[wb.Stream, wb.Stream], wb.Stream]] = {
    "column": lambda a, b: a.join(b, on="k"),
    "computed": lambda a, b: a.join(b, left_on=lambda e: e.k.upper(), right_on=lambda e: e.k.upper()),
    "nulls": lambda a, b: a.join(b, on="k", nulls_equal=True),
    "no key": lambda a, b: a.join(b, how="cross"),
}


@pytest.mark.parametrize("lifetimes", [[5], [2, 30], [5, None]])
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_columns_that_nobody_reads_change_nothing(
    selection: str, join: str, lifetimes: list[int | None]
) -> None:
    random = Random(f"{selection} {join} {lifetimes}")
    sides = []
    for name in ("n", "m"):
        rows: list[dict[str, Any]] = []
        for row in events(random, 40):
            lifetime = random.choice(lifetimes)
            end = None if lifetime is None else row["time"] + lifetime
            rows.append({"time": row["time"], "end": end, "k": row["k"], name: row["n"]})
        columns = [("time", pa.int64()), ("end", pa.int64()), ("k", pa.string()), (name, pa.int64())]
        table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
        sides.append(wb.from_arrow(table, time="time", end="end"))
    left, right = sides

    def pairs(a: wb.Stream, b: wb.Stream) -> wb.Stream:
        return JOINS[join](a, b)

    narrow = left.query(right, lambda a, b: SELECTIONS[selection](pairs(a, b)))
    # All columns are read where the pairs are a result.
    table = left.query(right, pairs).to_arrow()
    assert {"k", "n", "m"} <= set(table.column_names)
    whole = wb.from_arrow(table, time="start", end="end").query(SELECTIONS[selection])
    assert sorted(map(repr, narrow.to_rows())) == sorted(map(repr, whole.to_rows()))
