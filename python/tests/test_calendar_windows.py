"""Windows of days and months: against DuckDB and Polars, as programs, and live."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from random import Random
from time import monotonic, sleep
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import whimbrel as wb

UTC = timezone.utc

# Zones whose clocks are never set at midnight. Where they are, DuckDB lets other days begin at one o'clock,
# and Polars panics.
ZONES_OF_PEERS = ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "Europe/Berlin"]

# Zones whose clocks skip a midnight, show one twice, go back over one, are set by half an hour, or leave out
# a day.
ZONES = [
    "+05:30",
    "America/Havana",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
]

# Sizes: ours, SQL's, and that of Polars, if it counts windows from where we do.
SIZES = [
    ("1d", "1 day", "1d"),
    ("3d", "3 days", "3d"),
    ("1w", "1 week", "1w"),
    ("2w", "2 weeks", None),
    ("1mo", "1 month", "1mo"),
    ("2mo", "2 months", "2mo"),
    ("1q", "3 months", "1q"),
    ("1y", "1 year", "1y"),
    ("5y", "5 years", None),
]


def instants(seed: int, zone: str) -> pa.Table:
    """Rows in order of time, many of them close to a midnight, in a zone."""
    random = Random(seed)
    first = datetime(1975, 1, 1, tzinfo=UTC)
    near = (timedelta(hours=random.randrange(24), seconds=random.choice([-1, 0, 1])) for _ in range(3000))
    times = sorted(first + timedelta(days=random.randrange(60 * 365)) + late for late in near)
    return pa.table({"at": pa.array(times, pa.timestamp("us", zone)), "n": list(range(len(times)))})


def windows_of_duckdb(rows: pa.Table, every: str, zone: str) -> Counter[datetime]:
    """How many rows are in the windows that start at an instant."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.register("rows", rows)
    start = f"epoch_us(time_bucket(interval '{every}', rows.at, '{zone}'))"
    counted = connection.execute(f"select {start}, count(*) from rows group by 1").fetchall()
    return Counter({datetime.fromtimestamp(0, UTC) + timedelta(microseconds=us): n for us, n in counted})


def windows_of_polars(rows: pa.Table, every: str) -> Counter[datetime]:
    frame = pl.DataFrame(rows).group_by_dynamic("at", every=every).agg(pl.len())
    starts = [start.astimezone(UTC) for start in frame["at"].dt.convert_time_zone("UTC")]
    return Counter(dict(zip(starts, frame["len"].to_list(), strict=True)))


def windows_of_sql(source: Any, every: str, more: str = "") -> Counter[datetime]:
    sql = (
        f"select window_start, window_end, count(*) as n from tumble(source, at, interval '{every}'{more}) "
        "group by window_start, window_end"
    )
    rows = wb.sql(sql, source=source).to_rows()
    ends = {row.window_start: row.window_end for row in rows}
    assert len(ends) == len(rows)
    return Counter({row.window_start.astimezone(UTC): row.n for row in rows})


def lifetimes(rows: list[Any]) -> list[tuple[datetime, datetime, int]]:
    return [(row.start.astimezone(UTC), row.end.astimezone(UTC), row.n) for row in rows]


def first_of(zone: ZoneInfo, shown: datetime) -> datetime:
    """Give the first instant at which clocks show this or more."""
    early, late = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    if late.astimezone(zone).replace(tzinfo=None) == shown:
        return late
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        if middle.astimezone(zone).utcoffset() == early.astimezone(zone).utcoffset():
            early = middle
        else:
            late = middle
    return late


def window_of(at: datetime, zone: ZoneInfo, size: str) -> tuple[datetime, datetime]:
    """Find the window of an instant, by the calendar of Python."""
    number, unit = int(size.rstrip("dwmoqy")), size.lstrip("0123456789")

    def first(window: int) -> datetime:
        if unit in "dw":
            days = window * number * (7 if unit == "w" else 1) - (3 if unit == "w" else 0)
            return first_of(zone, datetime(1970, 1, 1) + timedelta(days=days))
        years, month = divmod(window * number * {"mo": 1, "q": 3, "y": 12}[unit], 12)
        return first_of(zone, datetime(1970 + years, month + 1, 1))

    day = at.astimezone(zone).date()
    if unit in "dw":
        days = day.toordinal() - datetime(1970, 1, 1).toordinal() + (3 if unit == "w" else 0)
        window = days // (number * (7 if unit == "w" else 1))
    else:
        months = (day.year - 1970) * 12 + day.month - 1
        window = months // (number * {"mo": 1, "q": 3, "y": 12}[unit])
    while first(window + 1) <= at:
        window += 1
    return first(window), first(window + 1)


@pytest.mark.parametrize("zone", ZONES_OF_PEERS)
def test_windows_are_those_of_duckdb_and_polars(zone: str) -> None:
    for seed, (size, every, polars) in enumerate(SIZES):
        rows = instants(seed, zone)
        ours = windows_of_sql(wb.from_arrow(rows), every)
        assert ours == windows_of_duckdb(rows, every, zone), size
        if polars is not None:
            assert ours == windows_of_polars(rows, polars), size


@pytest.mark.parametrize("zone", ZONES)
def test_windows_are_the_same_in_sql_and_in_programs(zone: str) -> None:
    counts = {"n": wb.count()}
    for seed, (size, every, _) in enumerate(SIZES):
        rows = instants(seed, zone)
        table = windows_of_sql(wb.from_arrow(rows), every)
        if not zone.startswith("+"):
            own = (window_of(at, ZoneInfo(zone), size) for at in rows["at"].to_pylist())
            assert table == Counter(start for start, _ in own), size
        stream = wb.from_arrow(rows, time="at")
        assert windows_of_sql(stream, every) == table, size
        fluent = stream.query(lambda q, size=size: q.tumbling(size).aggregate(**counts)).to_rows()
        assert [row.n for row in fluent] == [table[start] for start in sorted(table)], size
        utc = rows.cast(pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]))
        instant = wb.from_arrow(utc, time="at")
        named = instant.query(lambda q, size=size: q.tumbling(size, zone=zone).aggregate(**counts)).to_rows()
        assert lifetimes(named) == lifetimes(fluent), size
        assert windows_of_sql(instant, every, f", zone => '{zone}'") == table, size


@pytest.mark.parametrize("zone", ["America/New_York", "America/Havana", "Pacific/Apia", None])
def test_hopping_windows_hold_what_their_instants_say(zone: str | None) -> None:
    rows = instants(1, zone or "UTC")
    if zone is None:
        rows = rows.set_column(0, "at", rows["at"].cast(pa.timestamp("us")))
    # Python compares instants of one zone by what clocks show.
    same = (lambda at: at) if zone is None else (lambda at: at.astimezone(UTC))
    times = [same(at) for at in rows["at"].to_pylist()]
    stream = wb.from_arrow(rows, time="at")
    slides = [
        ("1mo", "3mo", "1 month", "3 months"),
        ("1d", "2d", "1 day", "2 days"),
        ("1w", "4w", "1 week", "4 weeks"),
    ]
    for hop, size, slide, long in slides:
        sql = (
            "select window_start, window_end, count(*) as n, min(n) as a, max(n) as b "
            f"from hop(source, at, interval '{slide}', interval '{long}') group by window_start, window_end"
        )
        answers = [wb.sql(sql, source=source).to_rows() for source in (wb.from_arrow(rows), stream)]
        table, timed = (
            {(same(row.window_start), same(row.window_end)): row for row in answer} for answer in answers
        )
        assert table.keys() == timed.keys()
        for (start, end), row in list(table.items())[::50]:
            inside = [n for n, at in enumerate(times) if start <= at < end]
            assert (row.n, row.a, row.b) == (len(inside), inside[0], inside[-1])
            other = timed[start, end]
            assert (other.n, other.a, other.b) == (row.n, row.a, row.b)
        fluent = stream.query(
            lambda q, size=size, hop=hop: q.hopping(size, hop=hop).aggregate(n=wb.count()).chop(hop)
        )
        ends = {end: row.n for (_, end), row in table.items()}
        assert {same(row.start): row.n for row in fluent.to_rows()} == ends


def test_days_begin_and_end_as_clocks_show_it() -> None:
    def starts(zone: str, *at: datetime) -> list[str]:
        stream = wb.from_rows([(instant,) for instant in at], schema=["at"], time="at")
        sql = f"select window_start from tumble(t, at, interval '1 day', '{zone}')"
        return [f"{row.window_start:%m-%d %H:%M}" for row in wb.sql(sql, t=stream).to_rows()]

    def utc(*at: int) -> datetime:
        year, month, day, hour, *minutes = at
        return datetime(year, month, day, hour, *minutes, tzinfo=UTC)

    # Midnight is skipped; it is shown twice; a day is left out.
    skipped = starts("America/Sao_Paulo", utc(2018, 11, 4, 2, 59), utc(2018, 11, 4, 12))
    assert skipped == ["11-03 03:00", "11-04 03:00"]
    twice = starts("America/Havana", utc(2024, 11, 3, 4, 30), utc(2024, 11, 3, 5, 30))
    assert twice == ["11-03 04:00"] * 2
    left_out = starts("Pacific/Apia", utc(2011, 12, 30, 9), utc(2011, 12, 30, 10))
    assert left_out == ["12-29 10:00", "12-30 10:00"]


def test_days_may_begin_later() -> None:
    new_york = ZoneInfo("America/New_York")
    at = [datetime(2024, 3, 10, 5, 59, tzinfo=new_york), datetime(2024, 3, 10, 6, tzinfo=new_york)]
    column = pa.array(at, pa.timestamp("us", "America/New_York"))
    stream = wb.from_arrow(pa.table({"at": column}), time="at")
    days = stream.query(lambda q: q.tumbling("1d", offset="6h").aggregate(n=wb.count())).to_rows()
    assert [row.start.astimezone(new_york) for row in days] == [
        datetime(2024, 3, day, 6, tzinfo=new_york) for day in (10, 11)
    ]
    right = stream.query(lambda q: q.tumbling("1d", offset="6h", closed="right").aggregate(n=wb.count()))
    assert [(row.start.astimezone(new_york).day, row.n) for row in right.to_rows()] == [(10, 2)]


def test_lengths_that_are_always_the_same() -> None:
    at = pa.array([datetime(2024, 3, 10, 12, tzinfo=UTC)], pa.timestamp("us", "America/New_York"))
    stream = wb.from_arrow(pa.table({"at": at}), time="at")
    for size in ["24h", timedelta(days=1)]:
        row = stream.query(lambda q, size=size: q.tumbling(size)).to_rows()[0]
        assert row.start.astimezone(UTC) == datetime(2024, 3, 11, tzinfo=UTC)
    row = stream.query(lambda q: q.tumbling("1d")).to_rows()[0]
    assert row.start.astimezone(UTC) == datetime(2024, 3, 11, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "query",
    [
        lambda q: q.tumbling("1mo"),
        lambda q: q.tumbling("1d", zone="Asia/Tokyo", offset="6h", closed="right"),
        lambda q: q.tumbling("1w"),
        lambda q: q.tumbling("24h"),
        lambda q: q.tumbling("1w", zone="UTC"),
        lambda q: q.hopping("1y", hop="1q"),
        lambda q: q.hopping("3d", hop="1d", zone="Asia/Tokyo"),
        lambda q: q.hopping("48h", hop="24h", offset="1h"),
        lambda q: q.hopping("3mo", hop="1mo").aggregate(n=wb.count()).chop("1mo"),
        lambda q: q.tumbling("1mo").chop("1d", zone="Asia/Tokyo"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", None])
def test_windows_are_programs(query: Any, zone: str | None) -> None:
    kind = pa.timestamp("us", zone)
    stream = wb.from_arrow(pa.table({"at": pa.array([datetime(2024, 3, 10)], kind), "n": [1]}), time="at")
    try:
        plan = stream.query(query)
    except wb.InvalidError as refused:
        assert zone is None and "what clocks show" in str(refused)
        return
    program = plan.to_python()
    rebuilt = program.run()
    assert program.builds(rebuilt), f"another plan\n{program}\n{rebuilt.explain()}"


def test_changes_come_to_what_a_table_says() -> None:
    rows = instants(3, "America/New_York").slice(0, 300)
    windows = "tumble(source, at, interval '1 month')"
    sql = f"select window_start, count(*) as n from {windows} group by window_start"
    of_table = wb.sql(sql, source=wb.from_arrow(rows)).to_rows()
    table = Counter((row.window_start, row.n) for row in of_table)
    changes: Counter[Any] = Counter()
    for row in wb.sql(f"{sql} emit changes", source=wb.from_arrow(rows, time="at")).to_rows():
        changes[row.window_start, row.n] += row.change
    assert +changes == table and not -changes


def test_a_window_is_handed_out_when_it_is_over() -> None:
    source = wb.live({"at": "timestamp[us, UTC]", "n": "int64"}, time="at")
    seen: list[Any] = []
    windows = "tumble(source, at, interval '1 month', zone => 'America/New_York')"
    sql = f"select window_start, sum(n) as n from {windows} group by window_start"
    february = (datetime(2024, 2, 1, 5, tzinfo=UTC), 2)

    def record(row: Any) -> None:
        seen.append((row.window_start.astimezone(UTC), row.n))

    with wb.sql(sql, source=source).subscribe(record) as subscription:
        source.push([(datetime(2024, 2, 1, 4, tzinfo=UTC), 1), (datetime(2024, 3, 1, 4, tzinfo=UTC), 2)])
        source.advance(datetime(2024, 3, 1, 5, 0, 1, tzinfo=UTC))
        deadline = monotonic() + 10
        while february not in seen and monotonic() < deadline:
            sleep(0.01)
        assert seen == [(datetime(2024, 1, 1, 5, tzinfo=UTC), 1), february]
        source.close()
        assert subscription.wait(10)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda q: q.tumbling("1mo1d"), "months only"),
        (lambda q: q.tumbling("1d12h"), "whole days, or hours"),
        (lambda q: q.tumbling("1h", zone="UTC"), "as long in every zone"),
        (lambda q: q.tumbling("1d", zone="Nowhere/Land"), "no time zone"),
        (lambda q: q.hopping("1mo", hop="1d"), "both in days"),
        (lambda q: q.hopping("2d", hop="1h"), "both in hours"),
        (lambda q: q.sliding("1mo"), "differ in length"),
        (lambda q: q.session("1y"), "differ in length"),
        (lambda q: q.shift("1q"), "differ in length"),
        (lambda q: q.tumbling("1M"), 'a month is "mo"'),
        (lambda q: q.tumbling("0mo"), "is no duration"),
        (lambda q: q.tumbling("-1mo"), "negative"),
    ],
)
def test_what_is_no_window(query: Any, message: str) -> None:
    at = pa.array([datetime(2024, 3, 10, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))
    with pytest.raises(wb.InvalidError, match=message):
        wb.from_arrow(pa.table({"at": at}), time="at").query(query)


def test_windows_at_the_ends_of_time() -> None:
    late = pa.array([2**63 - 3], pa.int64()).cast(pa.timestamp("ns", "Europe/Berlin"))
    for source in (wb.from_arrow(pa.table({"at": late})), wb.from_arrow(pa.table({"at": late}), time="at")):
        with pytest.raises(wb.DataError, match="cannot tell time"):
            wb.sql("select * from tumble(t, at, interval '1 month')", t=source).to_rows()


@pytest.mark.parametrize("zone", [None, "America/New_York", "Europe/Berlin"])
@pytest.mark.parametrize(
    ("step", "size"), [("1 month", "3 months"), ("1 day", "1 month"), ("2 days", "8 days")]
)
def test_cumulated_windows_of_a_stream_are_those_of_a_table(zone: str | None, step: str, size: str) -> None:
    chance = Random(3)
    first = datetime(2024, 1, 1, tzinfo=UTC)
    times = sorted(first + timedelta(minutes=chance.randrange(500_000)) for _ in range(300))
    table = pa.table({"at": pa.array(times, pa.timestamp("us", zone)), "n": range(300)})
    query = f"""
        select window_start, window_end, count(*) as n, sum(n) as s
        from cumulate(events, at, interval '{step}', interval '{size}') group by window_start, window_end
    """
    of_table, of_stream = (
        sorted(tuple(row)[-4:] for row in wb.sql(query, events=events).to_rows())
        for events in (table, wb.from_arrow(table, time="at"))
    )
    assert of_stream == of_table
