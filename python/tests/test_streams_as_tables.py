"""SQL over streams with time: what speaks of more than one window is answered over a table, or refused."""

from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string", "price": "int64"}
ROWS = [(1, "a", 1), (4, "b", 2), (12, "a", 3), (14, "a", 5), (25, "b", 4)]
NAMES = [{"item": "a", "name": "A"}, {"item": "z", "name": "Z"}]

WINDOWS = "tumble(clicks, time, 10)"
COUNTS = f"(select window_start, window_end, item, count(*) as n from {WINDOWS} group by 1, 2, 3)"

OF_SEVERAL_INSTANTS = [
    f"select a.window_end, a.item, a.n - b.n as more from {COUNTS} a join {COUNTS} b "
    "on a.item = b.item and a.window_end = b.window_end + 10",
    f"select a.item, a.n, b.n as m from {COUNTS} a join {COUNTS} b on a.item = b.item",
    f"select c.time, w.n from clicks c join {COUNTS} w "
    "on c.item = w.item and c.time >= w.window_start and c.time < w.window_end",
    f"select item, count(*) as n from {WINDOWS} group by item",
    f"select window_end, item, count(*) as n from {WINDOWS} group by rollup (window_end, item)",
    f"select count(*) as n from {WINDOWS}",
    f"select max(window_end) as last from {WINDOWS}",
    f"select window_end / 20 as pair, count(*) as n from {WINDOWS} group by window_end / 20",
    f"select distinct item from {WINDOWS}",
    f"select window_end, item from {COUNTS} where n = (select max(n) from {COUNTS})",
    f"select item from {WINDOWS} except select item from names",
    "select item from clicks union select item from names",
    "select n.name, c.time from names n left join clicks c on n.item = c.item",
    "select name from names n where exists (select 1 from clicks c where c.item = n.item)",
    "select item, sum(price) as price from clicks group by item",
    "select c.time, d.time as other from clicks c join clicks d on c.item = d.item",
    f"select window_end, item, n from {COUNTS} order by n desc, window_end, item limit 2",
    "select window_end, item, row_number() over (partition by item order by n, window_end) as r "
    f"from {COUNTS}",
    "select window_end, count(*) as n from tumble((select time + 5 as time from clicks), time, 10) "
    "group by window_end",
    "select window_end, count(*) as n from tumble(clicks, price, 2) group by window_end",
    "select window_end, count(*) as n from tumble((select a.time from clicks a join clicks b "
    "on a.item = b.item and b.time between a.time and a.time + 3), time, 10) group by window_end",
    "select window_start, count(*) as n from session(clicks, time, 4, item) group by window_start",
]


def rows(query: str, clicks: Any, shards: int) -> list[str]:
    result = wb.sql(query, clicks=clicks, names=NAMES, shards=shards)
    assert not result.time
    return sorted(map(str, result.to_rows()))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("query", OF_SEVERAL_INSTANTS)
def test_a_stream_that_ends_is_the_table_of_its_rows(query: str, shards: int) -> None:
    timed = wb.from_rows(ROWS, schema=SCHEMA, time="time")
    assert rows(query, timed, shards) == rows(query, wb.from_rows(ROWS, schema=SCHEMA), shards)


@pytest.mark.parametrize("query", OF_SEVERAL_INSTANTS)
def test_a_stream_that_does_not_end_refuses(query: str) -> None:
    with wb.live(SCHEMA, time="time") as clicks, pytest.raises(wb.InvalidError):
        wb.sql(query, clicks=clicks, names=NAMES).subscribe(print)


def test_an_order_is_that_of_the_table() -> None:
    query = f"select window_end, item, n from {COUNTS} order by window_end desc, item"
    timed = wb.sql(query, clicks=wb.from_rows(ROWS, schema=SCHEMA, time="time")).to_rows()
    assert timed == wb.sql(query, clicks=wb.from_rows(ROWS, schema=SCHEMA)).to_rows()


def test_what_keeps_instants_apart_stays_a_stream() -> None:
    for query in (
        f"select window_end, item, count(*) as n from {WINDOWS} group by window_end, item",
        f"select window_end, item, row_number() over (partition by window_end order by n) as r from {COUNTS}",
        f"select a.item, a.n, b.n as m from {COUNTS} a join {COUNTS} b "
        "on a.item = b.item and a.window_end = b.window_end",
        f"select a.item, b.n as m from {COUNTS} a left join {COUNTS} b "
        "on a.item = b.item and a.window_start = b.window_end - 10",
        f"select distinct window_end, item from {WINDOWS}",
        "select c.time, n.name from clicks c left join names n on c.item = n.item",
        "select time, count(*) as n from clicks group by time",
    ):
        assert wb.sql(query, clicks=wb.from_rows(ROWS, schema=SCHEMA, time="time"), names=NAMES).time, query


def test_the_column_of_a_window_is_the_time_of_the_stream() -> None:
    query = "select window_end, count(*) as n from tumble(clicks, price, 2) group by window_end"
    refused = pytest.raises(
        wb.InvalidError, match='"price" is not the time at which these rows come, "time" is'
    )
    with wb.live(SCHEMA, time="time") as clicks, refused:
        wb.sql(query, clicks=clicks)


def test_a_view_over_windows_may_have_an_order() -> None:
    view = f"create view counts as select * from {COUNTS};"
    query = f"{view} select item, n from counts order by n desc, item limit 2"
    timed = wb.sql(query, clicks=wb.from_rows(ROWS, schema=SCHEMA, time="time")).to_rows()
    assert list(map(str, timed)) == ["Row(item='a', n=2)", "Row(item='a', n=1)"]


def told(stream: wb.ShardedStream) -> list[str]:
    return list(map(str, stream.to_rows()))


def test_columns_called_as_lifetimes_are_kept() -> None:
    trips = wb.from_rows([(1, 100, 7)], schema=["time", "start", "end"], time="time")
    assert told(trips) == ["Row(start=1, end=2, time=1, start_1=100, end_1=7)"]
    assert told(wb.sql('select "end" from trips', trips=trips)) == ["Row(start=1, end=2, end_1=7)"]
    assert trips.rekey("start").to_memory().key == ["start_1"]
    kept = wb.from_rows([(1, 5, "x")], schema=["start", "end", "item"], time="start", end="end")
    assert told(kept) == ["Row(start=1, end=5, item='x')"]
    moved = kept.query(lambda q: q.tumbling(10))
    assert told(moved) == ["Row(start=10, end=20, start_1=1, end_1=5, item='x')"]


def test_products_that_are_too_large_fail_on_streams_too() -> None:
    large = wb.from_rows([(1, 2**62)], schema=["time", "v"], time="time")
    with pytest.raises(wb.DataError, match="too large"):
        wb.sql("select v * 4 as v from large", large=large).to_rows()
    with pytest.raises(wb.DataError, match="too large"):
        large.query(lambda q: q.where(lambda e: e.v * 4 > 0)).to_rows()


def test_arguments_of_windows_have_names() -> None:
    def windows(call: str, time: str | None = None) -> list[str]:
        query = (
            f"select window_start, window_end, count(*) as n from {call} group by window_start, window_end"
        )
        result = wb.sql(query, clicks=wb.from_rows(ROWS, schema=SCHEMA, time=time))
        return sorted(str((row.window_start, row.window_end, row.n)) for row in result.to_rows())

    for named, plain in (
        ("tumble(data => table clicks, timecol => descriptor(time), size => 10)", "tumble(clicks, time, 10)"),
        ("hop(clicks, time, size => 10, slide => 5)", "hop(clicks, time, 5, 10)"),
        ("session(table clicks partition by item, descriptor(time), 5)", "session(clicks, time, 5, item)"),
        (
            "session(table clicks partition by (item, price), descriptor(time), 5)",
            "session(clicks, time, 5, item, price)",
        ),
    ):
        assert windows(named) == windows(plain) == windows(named, time="time") == windows(plain, time="time")
    with pytest.raises(wb.InvalidError, match="there is no argument length"):
        windows("tumble(clicks, time, length => 10)")
