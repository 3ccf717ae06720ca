"""Aggregates beside counts and sums: on relations and in every kind of window, against Python's own."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import whimbrel as wb

Rows = list[tuple[int, int, float | None, str]]


def rows_of(seed: int, count: int = 80) -> Rows:
    chance = random.Random(seed)
    values = [None, 1.5, -2.0, 0.0, 7.25, 7.25, 1e6]
    rows = [
        (chance.randrange(60), chance.randrange(3), chance.choice(values), chance.choice("pqr"))
        for _ in range(count)
    ]
    return sorted(rows, key=lambda row: row[0])


def source(rows: Rows) -> wb.ShardedStream:
    schema = {"at": "int64", "k": "int64", "x": "float64", "name": "string"}
    return wb.from_rows(rows, schema=schema, time="at").rekey("k")


def numbers(rows: Rows) -> list[float]:
    return sorted(row[2] for row in rows if row[2] is not None)


def quantile(values: list[float], fraction: float) -> float | None:
    if not values:
        return None
    place = fraction * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def by_key(rows: Rows, pick: Callable[..., Any]) -> str | None:
    keyed = [(row[2], row[3]) for row in rows if row[2] is not None]
    if not keyed:
        return None
    key = pick(key for key, _ in keyed)
    return min(name for k, name in keyed if k == key)


def ranked(rows: Rows, k: int) -> list[tuple[int, float]] | None:
    values = sorted(numbers(rows), reverse=True)
    ranks = [(1 + sum(other > value for other in values), value) for value in values]
    return [pair for pair in ranks if pair[0] <= k] or None


def collected(rows: Rows) -> list[str]:
    return [name for _, name in sorted((row[0], row[3]) for row in rows)]


CASES: dict[str, tuple[wb.Aggregate, Callable[[Rows], Any]]] = {
    "var": (wb.var("x"), lambda r: statistics.variance(numbers(r)) if len(numbers(r)) > 1 else None),
    "var_pop": (
        wb.var("x", population=True),
        lambda r: statistics.pvariance(numbers(r)) if numbers(r) else None,
    ),
    "std": (wb.std("x"), lambda r: statistics.stdev(numbers(r)) if len(numbers(r)) > 1 else None),
    "std_pop": (
        wb.std("x", population=True),
        lambda r: statistics.pstdev(numbers(r)) if numbers(r) else None,
    ),
    "squares": (wb.sum_squares("x"), lambda r: sum(x * x for x in numbers(r)) if numbers(r) else None),
    "mean_squares": (
        wb.avg_squares("x"),
        lambda r: sum(x * x for x in numbers(r)) / len(numbers(r)) if numbers(r) else None,
    ),
    "product": (wb.product("x"), lambda r: math.prod(numbers(r)) if numbers(r) else None),
    "median": (wb.median("x"), lambda r: quantile(numbers(r), 0.5)),
    "percentile": (wb.percentile("x", 0.9), lambda r: quantile(numbers(r), 0.9)),
    "discrete": (
        wb.percentile("x", 0.4, continuous=False),
        lambda r: numbers(r)[math.ceil(0.4 * len(numbers(r))) - 1] if numbers(r) else None,
    ),
    "max_by": (wb.max_by("name", "x"), lambda r: by_key(r, max)),
    "min_by": (wb.min_by("name", "x"), lambda r: by_key(r, min)),
    "top_k": (wb.top_k("x", 2), lambda r: ranked(r, 2)),
    "single": (wb.single("name"), lambda r: r[0][3] if len(r) == 1 else None),
    "some": (
        wb.var("x", where=lambda e: e.name == "p", population=True),
        lambda r: (
            statistics.pvariance(numbers([x for x in r if x[3] == "p"]))
            if numbers([x for x in r if x[3] == "p"])
            else None
        ),
    ),
}
WINDOWS: dict[str, tuple[Callable[[wb.Stream], wb.Stream], Callable[[int], tuple[int, int]]]] = {
    "tumbling": (lambda q: q.tumbling(20), lambda at: (at // 20 * 20 + 20, at // 20 * 20 + 40)),
    "hopping": (lambda q: q.hopping(20, 5), lambda at: (at // 5 * 5 + 5, at // 5 * 5 + 25)),
    "sliding": (lambda q: q.sliding(9, closed="right"), lambda at: (at, at + 9)),
    "for ever": (lambda q: q.alter_duration(float("inf")), lambda at: (at, 10**6)),
    "by value": (
        lambda q: q.alter_lifetime(None, lambda s, e: s % 7 + 1),
        lambda at: (at, at + at % 7 + 1),
    ),
}


def close(found: Any, expected: Any) -> bool:
    if isinstance(expected, list) and expected and isinstance(expected[0], tuple):
        return [(item["rank"], item["value"]) for item in found] == expected
    if isinstance(expected, float) and found is not None:
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return found == expected


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("window", WINDOWS)
def test_in_windows(name: str, window: str) -> None:
    aggregate, expected_of = CASES[name]
    apply, life = WINDOWS[window]
    for seed in range(2):
        rows = rows_of(seed)
        result = source(rows).query(lambda q: apply(q).aggregate(a=aggregate, n=wb.count())).to_rows()
        assert result
        for row in result:
            alive = [r for r in rows if r[1] == row.k and life(r[0])[0] <= row.start < life(r[0])[1]]
            assert row.n == len(alive)
            assert close(row.a, expected_of(alive)), (seed, row.start, row.k)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shards", [1, 3])
def test_over_relations(name: str, shards: int) -> None:
    aggregate, expected_of = CASES[name]
    rows = rows_of(5)
    table = wb.from_rows(
        rows, schema={"at": "int64", "k": "int64", "x": "float64", "name": "string"}, shards=shards
    )
    result = table.rekey("k").redistribute().query(lambda q: q.aggregate(a=aggregate)).to_rows()
    assert len(result) == 3
    for row in result:
        assert close(row.a, expected_of([r for r in rows if r[1] == row.k]))


def test_lists_are_ordered_by_start() -> None:
    rows = rows_of(3)
    windows = source(rows).query(
        lambda q: q.tumbling(20).aggregate(
            names=wb.collect("name"), timed=wb.collect(lambda e: {"at": e.at, "name": e.name})
        )
    )
    for row in windows.to_rows():
        inside = [r for r in rows if r[1] == row.k and r[0] // 20 * 20 + 20 == row.start]
        # All rows of a window start together.
        assert row.names == sorted(collected(inside))
        assert [item["name"] for item in row.timed] == collected(inside)
    alive = source(rows).query(lambda q: q.alter_duration(float("inf")).aggregate(names=wb.collect("name")))
    last = {row.k: row.names for row in alive.to_rows() if row.end is None}
    assert last == {k: collected([r for r in rows if r[1] == k]) for k in range(3)}


def test_rows_by_key_are_whole() -> None:
    rows = rows_of(4)
    best = source(rows).query(
        lambda q: q.tumbling(20).aggregate(row=wb.max_by(lambda e: {"x": e.x, "name": e.name}, "x"))
    )
    assert all(row.row is None or set(row.row) == {"x", "name"} for row in best.to_rows())


SQL = {
    "var_samp(x)": "var_samp(x)",
    "var_pop(x)": "var_pop(x)",
    "stddev(x)": "stddev(x)",
    "stddev_pop(x)": "stddev_pop(x)",
    "median(x)": "median(x)",
    "quantile_cont(x, 0.3)": "quantile_cont(x, 0.3)",
    "product(x)": "product(x)",
    "arg_max(name, x)": None,
    'array_agg(name order by "at", name)': 'array_agg(name order by "at", name)',
}


@pytest.mark.parametrize("call", SQL)
def test_in_sql_over_a_stream(call: str) -> None:
    rows = [(at, k, x, name) for at, k, x, name in rows_of(6) if x is not None]
    live = wb.live({"at": "int64", "k": "int64", "x": "float64", "name": "string"}, time="at")
    live.push(rows)
    live.close()
    query = f"select window_end, k, {call} as a from tumble(table events, descriptor(at), 20) group by all"
    found = {(row.window_end, row.k): row.a for row in wb.sql(query, events=live).to_rows()}
    table = wb.from_rows(rows, schema={"at": "int64", "k": "int64", "x": "float64", "name": "string"})
    asked = f'select "at" // 20 * 20 + 20 as e, k, {SQL[call] or call} as a from events group by all'
    peer = duckdb.connect()
    peer.register("events", table.to_arrow())
    expected = {(e, k): a for e, k, a in peer.execute(asked).fetchall()}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if call.startswith("arg_max"):
            assert found[key] in [row[3] for row in rows]
        else:
            assert close(found[key], value), key


def test_parameters_are_checked() -> None:
    stream = source(rows_of(1))
    for refused in (
        lambda: wb.percentile("x", 1.5),
        lambda: wb.top_k("x", 0),
        lambda: stream.query(lambda q: q.aggregate(a=wb.var("name"))),
        lambda: stream.query(lambda q: q.aggregate(a=wb.product("name"))),
        lambda: stream.query(lambda q: q.aggregate(a=wb.median("name"))),
        lambda: stream.query(lambda q: q.aggregate(a=wb.max_by("name", "nothing"))),
    ):
        with pytest.raises(wb.InvalidError):
            refused()


def test_plans_travel_and_are_printed() -> None:
    calls = {name.replace(" ", "_"): aggregate for name, (aggregate, _) in CASES.items() if name != "some"}
    stream = source(rows_of(2)).query(lambda q: q.tumbling(20).aggregate(**calls))
    assert list(map(repr, wb.from_bytes(stream.to_bytes()).to_rows())) == list(map(repr, stream.to_rows()))


def test_a_null_in_a_list_is_larger_than_all_values_in_an_order() -> None:
    rows = pa.table(
        {
            "v": [0, 1, 2, 3],
            "x": pa.array([[1], [None], [2], None], pa.list_(pa.int64())),
        }
    )
    with wb.live(rows.schema) as live:
        best = wb.sql("select v from live where x is not null order by x desc limit 2 emit final", live=live)
        live.push(rows)
        live.close()
        assert {row.v for row in best.to_rows()} == {1, 2}


@pytest.mark.parametrize("shards", [1, 3])
def test_averages_of_long_durations(shards: int) -> None:
    """As many ticks as an integer has room for: their sum has none."""
    most = 2**62
    lengths = pa.array([most, most, -3, None, most - 4, -4], pa.duration("us"))
    rows = pa.table({"k": [1, 1, 2, 2, 1, 2], "x": lengths})
    query = "select avg(x) as a, avg(distinct x) as d from rows group by k order by k"
    with wb.config(shards=shards):
        averages = pa.table(wb.sql(query, rows=rows).to_arrow())
        (whole,) = wb.sql("select avg(x)::bigint as a from rows where k = 1", rows=rows).to_rows()
    ticks = [averages.column(at).cast(pa.int64()).to_pylist() for at in range(2)]
    assert ticks == [[most - 2, -3], [most - 2, -3]]
    assert whole.a == most - 2
