"""Window functions over streams: the rows of one window, live and as a table."""

from __future__ import annotations

import random
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string", "price": "int64"}

TOP = """
    select window_end, item, price, place from (
        select *, row_number() over (partition by window_end order by price desc, item) as place
        from tumble(clicks, time, 10))
    where place <= 2"""
TOP_OF_COUNTS = """
    select window_end, item, n, rank() over (partition by window_end order by n desc) as place
    from (select window_end, item, count(*) as n from tumble(clicks, time, 10) group by item, window_end)
    qualify place <= 2"""
SHARES = """
    select window_end, item, price, sum(price) over (partition by window_end) as total,
           lag(price) over (partition by window_end, item order by price) as before
    from tumble(clicks, time, 10)"""
OVERLAPPING = """
    select window_end, item, price,
           row_number() over (partition by window_end order by price desc, item) as place
    from hop(clicks, time, 5, 10)"""


def rows_of(seed: int) -> list[tuple[int, str, int]]:
    chance = random.Random(seed)
    times = sorted(chance.choices(range(80), k=60))
    return [(t, chance.choice("abcd"), chance.randrange(100)) for t in times]


@pytest.mark.parametrize("query", [TOP, TOP_OF_COUNTS, SHARES, OVERLAPPING])
@pytest.mark.parametrize("step", [1, 7, 60])
def test_live_as_over_a_table(query: str, step: int) -> None:
    rows = rows_of(step)
    expected = sorted(map(tuple, wb.sql(query, clicks=wb.from_rows(rows, schema=SCHEMA)).to_rows()), key=str)
    seen: list[Any] = []
    with wb.live(SCHEMA, time="time") as clicks:
        live = wb.sql(query, clicks=clicks)
        width = len(live.columns)
        with live.subscribe(lambda row: seen.append(tuple(row)[-width:])) as subscription:
            for first in range(0, len(rows), step):
                clicks.push(rows[first : first + step])
            clicks.close()
            assert subscription.wait(30)
    assert sorted(seen, key=str) == expected


def test_the_first_rows_of_a_window_come_when_it_ends() -> None:
    seen: list[Any] = []
    with wb.live(SCHEMA, time="time") as clicks, wb.sql(TOP, clicks=clicks).subscribe(seen.append) as job:
        clicks.push([(1, "a", 5), (2, "b", 7), (3, "c", 9), (11, "z", 1)])
        # The next window has not ended, and neither has that of these rows as a relation.
        clicks.advance(12)
        while len(seen) < 2 and not job.wait(0.01):
            pass
        assert [tuple(row)[2:] for row in seen] == [(10, "c", 9, 1), (10, "b", 7, 2)]


def test_over_on_a_stream_in_a_program() -> None:
    rows = [(0, "a", 3), (1, "b", 5), (12, "a", 1)]
    stream = wb.from_rows(rows, schema=SCHEMA, time="time")

    def ranked(q: wb.Stream) -> wb.Stream:
        return q.tumbling(10).with_columns(place=wb.agg.row_number().over(order_by="price", descending=True))

    result = [tuple(row) for row in stream.query(ranked).to_rows()]
    assert sorted(result) == [(10, 20, 0, "a", 3, 2), (10, 20, 1, "b", 5, 1), (20, 30, 12, "a", 1, 1)]


@pytest.mark.parametrize(
    "over", ["over (order by price)", "over (partition by item)", "over (partition by item order by time)"]
)
def test_a_window_function_over_all_instants_is_refused_live(over: str) -> None:
    with (
        wb.live(SCHEMA, time="time") as clicks,
        pytest.raises(wb.InvalidError, match="window_end|emit changes"),
    ):
        wb.sql(f"select row_number() {over} as n from tumble(clicks, time, 10)", clicks=clicks)
