"""What is done to lifetimes, and sequences of events, against a few slow lines of Python."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

import whimbrel as wb

Life = tuple[int, int, int]
"""The start and the end of a lifetime, and a value."""


def lives(seed: int, count: int = 60) -> list[Life]:
    chance = random.Random(seed)
    starts = (chance.randrange(-40, 80) for _ in range(count))
    return sorted((start, start + chance.choice([1, 1, 2, 5, 17]), chance.randrange(4)) for start in starts)


def source(rows: Iterable[Life]) -> wb.ShardedStream:
    events = [wb.interval(start, end, {"v": v}) for start, end, v in rows]
    return wb.from_events(events, {"v": "int64"})


def edges(rows: Iterable[Life]) -> wb.ShardedStream:
    """The same as start edges and end edges."""
    events: list[tuple[int, wb.Event]] = []
    for start, end, v in rows:
        events += [(start, wb.start_edge(start, {"v": v})), (end, wb.end_edge(start, end, {"v": v}))]
    return wb.from_events([event for _, event in sorted(events, key=lambda e: e[0])], {"v": "int64"})


def snapshots(rows: Iterable[Life]) -> dict[int, Counter[int]]:
    """The values that are alive at each instant."""
    alive: dict[int, Counter[int]] = {}
    for start, end, v in rows:
        for instant in range(start, end):
            alive.setdefault(instant, Counter())[v] += 1
    return alive


def result(stream: wb.ShardedStream) -> list[Life]:
    return [(row.start, row.end, row.v) for row in stream.to_rows()]


@pytest.mark.parametrize("by", [1, 7, -1, -3, -20])
def test_extended(by: int) -> None:
    for seed in range(4):
        rows = lives(seed)
        expected = [(start, end + by, v) for start, end, v in rows if end + by > start]
        for given in (source(rows), edges(rows)):
            assert sorted(result(given.query(lambda q: q.extend(by)))) == sorted(expected)


def test_extended_points_keep_a_constant_length() -> None:
    points = wb.from_rows([(3,), (5,)], schema=["at"], time="at")
    windows = points.query(lambda q: q.extend(9).aggregate(n=wb.count()))
    assert [tuple(row) for row in windows.to_rows()] == [(3, 5, 1), (5, 13, 2), (13, 15, 1)]


def test_stitched() -> None:
    for seed in range(6):
        rows = lives(seed)
        for given in (source(rows), edges(rows)):
            stitched = result(given.query(lambda q: q.chop(3).stitch()))
            assert snapshots(stitched) == snapshots(rows)
            ends = Counter((end, v) for _, end, v in stitched)
            assert all((start, v) not in ends for start, _, v in stitched)


@pytest.mark.parametrize(("size", "period", "progress", "offset"), [(10, 10, None, 0), (20, 5, None, 3)])
def test_quantized(size: int, period: int, progress: int | None, offset: int) -> None:
    def down(time: int, step: int, offset: int) -> int:
        return (time - offset) // step * step + offset

    for seed in range(4):
        rows = lives(seed)
        expected = [
            (
                down(start, progress or period, offset),
                down(max(end + period - 1, start + size), period, offset + size),
                v,
            )
            for start, end, v in rows
        ]
        for given in (source(rows), edges(rows)):
            quantized = given.query(lambda q: q.quantize(size, period, progress=progress, offset=offset))
            assert sorted(result(quantized)) == sorted(expected)


@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize(("size", "hop", "offset"), [(3, 10, 0), (1, 7, 5), (10, 10, 2), (9, 4, 0)])
def test_hopping_windows_with_gaps(size: int, hop: int, offset: int, closed: Any) -> None:
    times = list(range(-30, 60))
    rows = wb.from_rows([(time,) for time in times], schema=["at"], time="at")
    windows = rows.query(
        lambda q: q.hopping(size, hop, offset=offset, closed=closed, snapped=True).chop(hop, offset=offset)
    )
    counts = windows.query(lambda q: q.aggregate(n=wb.count())).to_rows()
    for row in counts:
        end = row.start if (row.start - offset) % hop == 0 else None
        assert end is not None
        inside = [t for t in times if (end - size <= t < end if closed == "left" else end - size < t <= end)]
        assert row.n == len(inside)
    total = sum(row.n for row in counts)
    assert total > 0


def test_followed_by_is_the_next_one() -> None:
    for seed in range(5):
        chance = random.Random(seed)
        rows = sorted((chance.randrange(100), chance.choice("ab"), chance.randrange(3)) for _ in range(60))
        log = wb.from_rows(rows, schema=["at", "what", "user"], time="at")
        pairs = log.query(
            lambda q: (
                q.where(lambda e: e.what == "a")
                .followed_by(q.where(lambda e: e.what == "b"), on="user", within=9)
                .select("user", "at", "at_right")
            )
        )
        expected = []
        for at, what, user in rows:
            later = [t for t, w, u in rows if w == "b" and u == user and t > at]
            if what == "a" and later and min(later) - at <= 9:
                expected += [(user, at, t) for t in later if t == min(later)]
        assert Counter((row.user, row.at, row.at_right) for row in pairs.to_rows()) == Counter(expected)


def test_sessions_between_two_events() -> None:
    rows = [(1, "x"), (2, "in"), (3, "x"), (4, "in"), (6, "out"), (7, "x"), (8, "out"), (9, "in"), (11, "x")]
    log = wb.from_rows(rows, schema=["at", "what"], time="at")
    sessions = log.query(lambda q: q.sessions_between(lambda e: e.what == "in", lambda e: e.what == "out"))
    assert [(row.at, row.what) for row in sessions.to_rows()] == [
        (2, "in"),
        (3, "x"),
        (4, "in"),
        (6, "out"),
        (9, "in"),
        (11, "x"),
    ]
    assert {row.end for row in sessions.to_rows()} == {7, None}


def test_sequences_on_a_timestamp() -> None:
    from datetime import datetime, timedelta

    start = datetime(2024, 3, 1)
    rows = [(start + timedelta(minutes=m), m) for m in (0, 4, 5, 30)]
    log = wb.from_rows(rows, schema=["at", "m"], time="at")
    pairs = log.query(lambda q: q.consecutive_pairs(within="10m").select("m", "m_next"))
    assert [(row.m, row.m_next) for row in pairs.to_rows()] == [(0, 4), (4, 5)]
    longer = log.query(lambda q: q.extend("5m").aggregate(n=wb.count()))
    assert max(row.n for row in longer.to_rows()) == 3


def test_gaps_are_filled() -> None:
    rows = [(3, "a"), (12, "b"), (35, "a"), (91, "a"), (94, "b")]
    clicks = wb.from_rows(rows, schema=["at", "item"], time="at").rekey("item")
    counts = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), last=wb.last("at")))
    filled = counts.query(lambda q: q.fill_gaps(10, values={"n": 0}, previous=["last"], max_gap=30))
    found = sorted((row.item, row.start, row.n, row.last) for row in filled.to_rows())
    assert found == [
        ("a", 10, 1, 3),
        ("a", 20, 0, 3),
        ("a", 30, 0, 3),
        ("a", 40, 1, 35),
        ("a", 50, 0, 35),
        ("a", 60, 0, 35),
        ("a", 70, 0, 35),
        ("a", 100, 1, 91),
        ("a", 110, 0, 91),
        ("a", 120, 0, 91),
        ("a", 130, 0, 91),
        ("b", 20, 1, 12),
        ("b", 30, 0, 12),
        ("b", 40, 0, 12),
        ("b", 50, 0, 12),
        ("b", 100, 1, 94),
        ("b", 110, 0, 94),
        ("b", 120, 0, 94),
        ("b", 130, 0, 94),
    ]
    line = counts.query(lambda q: q.fill_gaps(10, values={"n": 0}, linear=["last"], max_gap=100))
    between = [row.last for row in line.to_rows() if row.item == "a" and 10 <= row.start <= 40]
    assert between == [3, 14, 24, 35]


def test_long_gaps_are_filled_in_order() -> None:
    """A gap has more cells than a batch has rows, and rows of another key lie between them."""
    cells = 200_000
    rows = [(0, "a"), (7, "b"), (cells, "a"), (cells + 1, "b")]
    filled = wb.from_rows(rows, ["t", "k"], time="t").rekey("k").query(lambda q: q.fill_gaps(1))
    table = filled.to_polars()
    assert table["start"].is_sorted()
    for key, first in (("a", 0), ("b", 7)):
        assert table.filter(table["k"] == key)["start"].to_list() == list(range(first, cells + 2))


def test_rows_that_end_out_of_order_are_cut() -> None:
    rows = [(t, t % 3) for t in range(2000)]
    sessions = wb.from_rows(rows, ["t", "k"], time="t").rekey("k")
    cut = sessions.query(lambda q: q.session(10**6).chop(500).aggregate(n=wb.count()))
    whole = sessions.query(lambda q: q.session(10**6).aggregate(n=wb.count()))
    assert relation(cut.to_rows()) == relation(whole.to_rows())


def relation(rows: list[wb.Row]) -> dict[tuple, list[tuple[int, int]]]:
    """List by how much the number of each row changes, and when."""
    changes: dict[tuple, dict[int, int]] = {}
    for start, end, *values in rows:
        of = changes.setdefault(tuple(values), {})
        of[start] = of.get(start, 0) + 1
        of[end] = of.get(end, 0) - 1
    return {row: sorted((t, by) for t, by in of.items() if by) for row, of in changes.items()}


def test_what_makes_no_sense_is_refused() -> None:
    rows = source(lives(1))
    relation = wb.from_rows([{"v": 1}])
    for refused in (
        lambda: relation.query(lambda q: q.extend(3)),
        lambda: relation.query(lambda q: q.stitch()),
        lambda: rows.query(lambda q: q.quantize(10, 7, progress=3)),
        lambda: rows.query(lambda q: q.quantize(5, 10)),
        lambda: rows.query(lambda q: q.quantize(0)),
        lambda: rows.query(lambda q: q.extend("5m")),
        lambda: rows.query(lambda q: q.followed_by(q, within=0)),
        lambda: rows.query(lambda q: q.fill_gaps(0)),
        lambda: rows.query(lambda q: q.fill_gaps(5, values={"w": 1})),
        lambda: rows.query(lambda q: q.fill_gaps(5, values={"v": "text"})),
        lambda: rows.rekey("v").query(lambda q: q.fill_gaps(5, values={"v": 1})),
    ):
        with pytest.raises(wb.InvalidError):
            refused()


def test_a_required_duration_is_checked_and_kept() -> None:
    rows = [(3, 5, "a"), (4, 6, "b"), (9, 11, "c")]
    trips = wb.from_rows(rows, schema=["from", "to", "item"], time="from", end="to")
    required = trips.query(lambda q: q.require_duration(2).sliding(4).aggregate(n=wb.count()))
    assert required.to_rows() == trips.query(lambda q: q.sliding(4).aggregate(n=wb.count())).to_rows()
    counted = trips.query(lambda q: q.require_duration(2).aggregate(n=wb.count()))
    assert counted.to_rows() == trips.query(lambda q: q.aggregate(n=wb.count())).to_rows()
    assert ".require_duration(2)" in counted.to_python()
    wrong = trips.query(lambda q: q.require_duration(3).select("item"))
    with pytest.raises(wb.DataError, match="starts at 3 ends at 5; it was said to end at 6"):
        wrong.collect()
    with pytest.raises(wb.DataError, match="starts at 3 ends at 5; it was said to never end"):
        trips.query(lambda q: q.require_duration(math.inf).select("item")).collect()
    forever = trips.query(lambda q: q.alter_duration(math.inf).require_duration(math.inf).select("item"))
    assert [row.end for row in forever.to_rows()] == [None, None, None]
    for duration in (0, -1, "5m"):
        with pytest.raises(wb.InvalidError, match="require_duration"):
            trips.query(lambda q, duration=duration: q.require_duration(duration))
