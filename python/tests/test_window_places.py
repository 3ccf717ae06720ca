"""Windows in SQL with offsets, closed right, or of sizes that are no multiple of the slide, beside Polars."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import whimbrel as wb

Counts = Counter[tuple[str, datetime, datetime]]

FIRST = datetime(2024, 2, 28, 21, 30)

HOPS = [
    # slide, size, offset: in minutes
    (10, 10, 0),
    (10, 30, 3),
    (10, 25, 0),
    (15, 40, -7),
    (30, 10, 12),
    (7, 7, 100),
]


@pytest.fixture(scope="module")
def clicks() -> pa.Table:
    """Clicks in order of time, many of them at an instant at which a window begins."""
    random = Random(7)
    times = sorted(FIRST + timedelta(minutes=random.randrange(600)) for _ in range(3000))
    items = [random.choice("abc") for _ in times]
    return pa.table({"at": pa.array(times, pa.timestamp("us")), "item": items})


def of_polars(clicks: pa.Table, slide: int, size: int, offset: int, closed: Any) -> Counts:
    frame = pl.DataFrame(clicks).group_by_dynamic(
        "at", every=f"{slide}m", period=f"{size}m", offset=f"{offset}m", closed=closed, group_by="item"
    )
    length = timedelta(minutes=size)
    rows = frame.agg(pl.len()).iter_rows()
    return Counter({(item, start, start + length): count for item, start, count in rows if count})


def by_hand(clicks: pa.Table, slide: int, size: int, offset: int, closed: str) -> Counts:
    every, length = timedelta(minutes=slide), timedelta(minutes=size)
    counts: Counts = Counter()
    for item, at in zip(clicks["item"].to_pylist(), clicks["at"].to_pylist(), strict=True):
        moved = at - timedelta(minutes=offset) - timedelta(microseconds=closed == "right")
        start = at - (moved - datetime(1970, 1, 1)) % every - timedelta(microseconds=closed == "right")
        while start + length > at or (closed == "right" and start + length == at):
            counts[item, start, start + length] += 1
            start -= every
    return counts


def later(counts: Counts, first: datetime) -> Counts:
    return Counter({window: count for window, count in counts.items() if window[1] >= first})


def of_sql(source: Any, windows: str, shards: int = 1) -> Counts:
    sql = f"""select item, window_start, window_end, count(*) as n from {windows}
              group by item, window_start, window_end"""
    rows = wb.sql(sql, clicks=source, shards=shards).to_rows()
    counts: Counts = Counter()
    for row in rows:
        counts[row.item, row.window_start.replace(tzinfo=None), row.window_end.replace(tzinfo=None)] = row.n
    assert len(counts) == len(rows)
    return counts


@pytest.mark.parametrize("closed", ["left", "right"])
@pytest.mark.parametrize(("slide", "size", "offset"), HOPS)
def test_windows_are_those_of_polars(
    clicks: pa.Table, slide: int, size: int, offset: int, closed: str
) -> None:
    expected = by_hand(clicks, slide, size, offset, closed)
    polars = of_polars(clicks, slide, size, offset, closed)
    # Polars leaves out windows that begin before the first row of an item.
    first = FIRST + timedelta(hours=1)
    assert later(polars, first) == later(expected, first)
    place = f"offset => interval '{offset} minutes', closed => '{closed}'"
    hop = f"hop(clicks, at, interval '{slide} minutes', interval '{size} minutes', {place})"
    for source in (clicks, wb.from_arrow(clicks, time="at")):
        for shards in (1, 3):
            assert of_sql(source, hop, shards) == expected
            if slide == size:
                tumble = f"tumble(clicks, at, interval '{size} minutes', {place})"
                assert of_sql(source, tumble, shards) == expected


@pytest.mark.parametrize("closed", ["left", "right"])
def test_days_begin_when_they_are_asked_to(clicks: pa.Table, closed: str) -> None:
    zoned = clicks.set_column(0, "at", clicks["at"].cast(pa.timestamp("us", "America/New_York")))
    windows = f"tumble(clicks, at, interval '1 day', offset => interval '6 hours', closed => '{closed}')"
    expected: Counts = Counter()
    for item, at in zip(zoned["item"].to_pylist(), zoned["at"].to_pylist(), strict=True):
        shown = at.replace(tzinfo=None) - timedelta(hours=6, microseconds=closed == "right")
        start = datetime(shown.year, shown.month, shown.day, 6)
        expected[item, start, start + timedelta(days=1)] += 1
    for source in (zoned, wb.from_arrow(zoned, time="at")):
        assert of_sql(source, windows) == expected


def test_a_program_has_the_same_windows(clicks: pa.Table) -> None:
    stream = wb.from_arrow(clicks, time="at")
    for windows in (
        "hop(clicks, at, interval '10 minutes', interval '25 minutes', offset => interval '3 minutes')",
        "hop(clicks, at, interval '10 minutes', interval '4 minutes', closed => 'right')",
        "tumble(clicks, at, interval '10 minutes', interval '3 minutes')",
    ):
        query = wb.sql(f"select window_end, count(*) as n from {windows} group by window_end", clicks=stream)
        assert query.to_python().run().to_rows() == query.to_rows()
