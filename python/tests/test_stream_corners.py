"""Streams at their corners: edges for intervals, floats that are no numbers, instants at the ends of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"v": "int64"}
INTERVALS = [wb.interval(10, 20, {"v": 1}), wb.interval(12, 14, {"v": 2}), wb.interval(15, 17, {"v": 3})]
EDGES = [
    wb.start_edge(10, {"v": 1}),
    wb.start_edge(12, {"v": 2}),
    wb.end_edge(12, 14, {"v": 2}),
    wb.interval(15, 17, {"v": 3}),
    wb.end_edge(10, 20, {"v": 1}),
]


def rows(stream: wb.ShardedStream) -> list[tuple[Any, ...]]:
    return [tuple(dict(row).values()) for row in stream.to_rows()]


def pushed(
    schema: dict[str, str], events: list[wb.Event], query: Callable[[wb.Stream], wb.Stream]
) -> list[tuple[Any, ...]]:
    """Push events one by one, and read whole lifetimes."""
    live = wb.live_events(schema)
    seen: list[Any] = []
    with live.query(query).subscribe(seen.append, runtime="library") as subscription:
        for event in events:
            live.push([event])
        live.close()
        assert subscription.wait(10)
    return [tuple(dict(row).values()) for row in seen]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (lambda s, e: (e - s) // 2, [(10, 15, 1), (12, 13, 2), (15, 16, 3)]),
        (lambda s, e: e - s + 7, [(10, 27, 1), (12, 21, 2), (15, 24, 3)]),
        (lambda s, e: e - s - 2, [(10, 18, 1)]),
        (lambda s, e: e - s, [(10, 20, 1), (12, 14, 2), (15, 17, 3)]),
    ],
)
def test_new_lifetimes_do_not_depend_on_how_rows_come(duration: Any, expected: list[Any]) -> None:
    def query(q: wb.Stream) -> wb.Stream:
        return q.alter_lifetime(None, duration)

    for events in (INTERVALS, EDGES):
        assert rows(wb.from_events(events, SCHEMA).query(query)) == expected
        assert sorted(pushed(SCHEMA, events, query)) == expected


def test_pieces_of_hopping_windows() -> None:
    points = wb.from_rows([(1,), (7,)], schema=["time"], time="time")
    counted = points.query(lambda q: q.hopping(9, hop=6).chop(6).aggregate(n=wb.count()))
    assert rows(counted) == [(6, 12, 1), (12, 15, 2), (15, 18, 1), (18, 21, 1)]


def test_a_sum_that_is_too_large_leaves_no_trace() -> None:
    values = [(1, 1.5e308), (2, 1.5e308), (15, 0.5), (25, math.inf), (45, 0.25), (55, math.nan), (75, 1.0)]
    stream = wb.from_rows(values, schema=["time", "v"], time="time")

    def query(q: wb.Stream) -> wb.Stream:
        return q.hopping(20, hop=10).aggregate(total=wb.sum("v"))

    sums = [row.total for row in stream.query(query).to_rows()]
    expected = ["inf", "inf", "inf", "inf", "0.25", "nan", "nan", "1.0"]
    assert [str(total) for total in sums] == expected
    live = wb.live({"time": "int64", "v": "float64"}, time="time")
    seen: list[Any] = []
    with live.query(query).subscribe(seen.append, runtime="library") as subscription:
        for row in values:
            live.push([row])
        live.close()
        assert subscription.wait(10)
    assert [str(row.total) for row in seen] == expected


def test_equal_floats_are_one_key() -> None:
    values = [(1, 0.0), (2, -0.0), (3, math.nan), (4, -math.nan), (5, 1.0)]
    stream = wb.from_rows(values, schema=["time", "v"], time="time")
    counted = stream.query(
        lambda q: q.group_apply("v", lambda g: g.tumbling(10).aggregate(n=wb.count()))
    ).to_rows()
    assert sorted((str(row.v), row.n) for row in counted) == [("0.0", 2), ("1.0", 1), ("nan", 2)]
    window = stream.query(lambda q: q.tumbling(10).select("v").distinct())
    assert len(window.to_rows()) == 3
    [row] = stream.query(lambda q: q.tumbling(10).aggregate(n=wb.count_distinct("v"))).to_rows()
    assert row.n == 3
    both = stream.query(
        stream, lambda a, b: a.tumbling(10).join(b.tumbling(10), on="v").aggregate(n=wb.count())
    )
    assert [row.n for row in both.to_rows()] == [2 * 2 + 2 * 2 + 1]


def test_an_end_edge_that_ends_nothing_is_refused() -> None:
    def count(q: wb.Stream) -> wb.Stream:
        return q.aggregate(n=wb.count())

    orphan = [wb.start_edge(1, {"v": 5}), wb.end_edge(1, 4, {"v": 6})]
    told = r"the end edge at 4 of the row \(v: 6\) that began at 1 ends no row"
    with pytest.raises(wb.DataError, match=told):
        wb.from_events(orphan, SCHEMA).query(count).to_rows()
    with pytest.raises(wb.DataError, match=told):
        pushed(SCHEMA, orphan, count)


def test_instants_at_the_ends_of_time() -> None:
    last = 2**63 - 2

    def at(*times: int) -> wb.ShardedStream:
        return wb.from_rows([(time,) for time in times], schema=["t"], time="t")

    assert [row.start for row in at(-(2**63) + 1, last - 1).to_rows()] == [-(2**63) + 1, last - 1]
    for time in (-(2**63), last, last + 1):
        with pytest.raises(wb.DataError, match="at the end of all time"):
            at(time).to_rows()
    late = at(last - 3)
    for query in (
        lambda q: q.shift(3),
        lambda q: q.tumbling(1000),
        lambda q: q.alter_duration(100),
        lambda q: q.alter_lifetime(lambda s: s + 5, 1),
        lambda q: q.alter_duration(lambda s: s),
    ):
        with pytest.raises(wb.DataError):
            late.query(query).to_rows()
    assert [row.end for row in late.query(lambda q: q.alter_duration(math.inf)).to_rows()] == [None]
