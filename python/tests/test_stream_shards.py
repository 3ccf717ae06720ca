"""SQL over streams in several shards: the answer is that of one shard, and all of them work."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

import whimbrel as wb
from whimbrel.query import Query

SCHEMA = {"time": "int64", "item": "string", "price": "int64"}

QUERIES = {
    "rows": "select item, price * 2 as twice from clicks where price > 30",
    "tumble": """
        select item, window_end, count(*) as n, sum(price) as s
        from tumble(clicks, time, 10) group by item, window_end""",
    "hop": """
        select item, window_start, max(price) as m
        from hop(clicks, time, 5, 10) group by item, window_start""",
    "cumulate": """
        select item, window_end, min(price) as m
        from cumulate(clicks, time, 5, 10) group by item, window_end""",
    "window without a key": """
        select window_end, count(distinct item) as n
        from tumble(clicks, time, 10) group by window_end""",
    "session": """
        select item, window_start, window_end, count(*) as n
        from session(clicks, time, 4, item) group by all""",
    "session rows": "select item, price, window_start from session(clicks, time, 4, item)",
    "session without a key": """
        select window_start, sum(price) as s
        from session(clicks, time, 2) group by window_start""",
    "by an expression": """
        select item || '!' as i, window_end, count(*) as n
        from tumble(clicks, time, 10) group by i, window_end""",
    "join": """
        select a.item, a.price, b.price as other from clicks a join orders b
        on a.item = b.item and b.time between a.time - 3 and a.time + 3""",
    "join of windows": """
        select a.item, a.window_end, n, m from
        (select item, window_end, count(*) as n from tumble(clicks, time, 10) group by item, window_end) a
        join (select item, window_end, max(price) as m from tumble(orders, time, 10) group by all) b
        on a.item = b.item and a.window_end = b.window_end""",
    "table": "select c.item, c.price, names.name from clicks c join names on c.item = names.item",
    "table, or none": """
        select c.item, c.price, names.name from clicks c left join names on c.item = names.item""",
    "every row of a table": """
        select c.item, c.price, names.name from clicks c right join names on c.item = names.item""",
    "in a table": "select item, price from clicks where item in (select item from names)",
    "not in a table": "select item, price from clicks where item not in (select item from names)",
    "a table without a key": """
        select c.item, names.name from clicks c join names on c.price + 60 > ascii(names.item)""",
    "union": """
        select item, window_end, count(*) as n from tumble(
            (select time, item, price from clicks union all select time, item, price from orders), time, 10)
        group by item, window_end""",
    "top": """
        select window_end, item, price from tumble(clicks, time, 10)
        qualify row_number() over (partition by window_end order by price desc, item) <= 2""",
    "pattern": """
        select * from clicks match_recognize (
            partition by item order by time
            measures first(up.price) as low, last(up.price) as high
            after match skip past last row
            pattern (down up+)
            define up as up.price > prev(up.price)) as found""",
    "parts of windows": """
        select window_end, count(*) as n, count(price) as m, sum(price) as s, min(price) as low,
            max(item) as high, sum(price) filter (where price > 50) as dear
        from tumble(clicks, time, 7) group by window_end""",
    "parts of windows that overlap": """
        select window_start, count(*) as n, sum(price) as s, max(price) as high
        from hop(clicks, time, 5, 15) group by window_start""",
    "parts of groups": """
        select item, window_start, count(*) as n, sum(price) as s
        from hop(clicks, time, 5, 15) where price <> 7 group by item, window_start""",
    "groups of groups": """
        select window_end, max(n) as m from
        (select item, window_end, count(*) as n from tumble(clicks, time, 10) group by item, window_end)
        group by window_end""",
}


def rows_of(seed: int, count: int = 120) -> list[tuple[int, str, int]]:
    chance = random.Random(seed)
    times = sorted(chance.choices(range(150), k=count))
    return [(t, chance.choice("abcdefg"), chance.randrange(100)) for t in times]


def streams(shards: int) -> dict[str, wb.ShardedStream]:
    clicks, orders = (
        wb.from_rows(rows_of(seed), schema=SCHEMA, time="time", shards=shards) for seed in (3, 4)
    )
    names = wb.from_rows([(item, item.upper()) for item in "abcd"], schema=["item", "name"])
    return {"clicks": clicks, "orders": orders, "names": names}


def planned(query: str, shards: int, **settings: Any) -> Query:
    settings |= {name: of for name, of in streams(shards).items() if name in query}
    return wb.sql(query, **settings)


def answer(query: str, shards: int, runtime: Any = "local") -> list[str]:
    return sorted(map(repr, planned(query, shards).to_rows(runtime=runtime)))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("shards", [2, 5])
def test_the_answer_is_that_of_one_shard(name: str, shards: int) -> None:
    expected = answer(QUERIES[name], 1)
    assert answer(QUERIES[name], shards) == expected
    assert answer(QUERIES[name], shards, "library") == expected
    assert len(expected) > 2


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("rows", "select item = clicks.item, twice"),
        ("session", "session 4 by item"),
        ("tumble", "aggregate by tumble.item"),
        ("join of windows", "join on item, window_end"),
        ("pattern", "match a pattern of rows by item"),
        ("table", "join on item"),
    ],
)
def test_the_work_is_done_in_the_shards_of_the_source(name: str, step: str) -> None:
    plan = planned(QUERIES[name], 3).explain()
    (line,) = [line for line in plan.splitlines() if line.strip().startswith(step)]
    assert line.endswith("| 3 shards"), plan


def test_rows_of_a_key_that_lie_together_do_not_move() -> None:
    clicks = streams(3)["clicks"].rekey(lambda e: e.item).redistribute()
    plan = wb.sql(QUERIES["session"], clicks=clicks).explain()
    assert plan.count("redistribute") == 1 and "redistribute by item into 3 shards" in plan, plan
    # Both sides of the join lie by the key of their aggregates.
    plan = planned(QUERIES["join of windows"], 3).explain()
    assert plan.count("redistribute") == 2, plan


@pytest.mark.parametrize("name", ["parts of windows", "parts of windows that overlap", "parts of groups"])
def test_windows_are_combined_before_they_move(name: str) -> None:
    lines = planned(QUERIES[name], 3).explain(analyze=True).splitlines()
    (move,) = (
        place for place, line in enumerate(lines) if "rows in fact" in line and "by" in lines[place + 1]
    )
    assert lines[move + 1].strip().startswith("combine by"), "\n".join(lines)


@pytest.mark.parametrize(("size", "hop"), [(10, 10), (15, 5), (4, 10), (7, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_windows_that_move_are_those_of_one_shard(size: int, hop: int, seed: int) -> None:
    def counts(shards: int, in_one: bool) -> list[str]:
        clicks = wb.from_rows(rows_of(seed), schema=SCHEMA, time="time", shards=shards)
        windows = clicks.query(lambda q: q.hopping(size, hop))
        calls = {"n": wb.count(), "s": wb.sum(wb.col("price")), "low": wb.min(wb.col("price"))}
        if in_one:
            counted = windows.reshard(1).query(lambda q: q.aggregate(**calls))
        else:
            moved = windows.rekey(lambda e: e.item).redistribute(shards)
            counted = moved.query(lambda q: q.group_apply("item", lambda g: g.aggregate(**calls)))
        return sorted(map(repr, counted.to_rows()))

    for in_one in (True, False):
        assert counts(3, in_one) == counts(1, in_one)
        assert len(counts(1, in_one)) > 2


def test_rows_that_are_in_every_shard_count_as_often() -> None:
    query = "select item, window_end, count(*) as n from tumble(clicks, time, 1000) group by item, window_end"
    once = wb.sql(query, clicks=streams(1)["clicks"]).to_rows()
    everywhere = wb.sql(query, clicks=streams(3)["clicks"].broadcast()).to_rows()
    assert sorted((row.item, row.n) for row in everywhere) == sorted((row.item, 3 * row.n) for row in once)


def test_live_rows_in_several_shards() -> None:
    rows = rows_of(5)
    expected = answer_of_rows(rows)
    seen: list[str] = []
    with wb.live(SCHEMA, time="time", shards=2) as clicks:
        query = wb.sql(QUERIES["session"], clicks=clicks)
        with query.subscribe(lambda row: seen.append(repr(tuple(row)[-4:]))) as subscription:
            for number, row in enumerate(rows):
                clicks.push([row], shard=number % 2)
            clicks.close()
            assert subscription.wait(30)
    assert sorted(seen) == expected


def answer_of_rows(rows: list[tuple[int, str, int]]) -> list[str]:
    clicks = wb.from_rows(rows, schema=SCHEMA, time="time")
    return sorted(repr(tuple(row)[-4:]) for row in wb.sql(QUERIES["session"], clicks=clicks).to_rows())


def test_end_edges_follow_their_start_edges() -> None:
    chance = random.Random(9)
    timed: list[tuple[int, wb.Event]] = []
    for number in range(60):
        start, row = chance.randrange(100), {"item": chance.choice("abcd"), "number": number}
        end = start + 1 + chance.randrange(20)
        timed += [(start, wb.start_edge(start, row)), (end, wb.end_edge(start, end, row))]
    events = [event for _, event in sorted(timed, key=lambda of: of[0])]
    schema = {"item": "string", "number": "int64"}

    def counts(shards: int) -> list[str]:
        stream = wb.from_events(events, schema).query(lambda q: q.select("item", "number")).reshard(shards)
        query = wb.sql("select item, count(*) as n from t group by item", t=stream)
        return sorted(map(repr, query.query(lambda q: q.stitch()).to_rows()))

    assert counts(3) == counts(1)


@pytest.mark.parametrize(
    "start", [partial(wb.cluster.start, workers=2), partial(wb.functions.start, small=0)]
)
def test_workers_and_functions_give_the_same(start: Any) -> None:
    with start() as machines:
        for query in QUERIES.values():
            rows = planned(query, 3, on=machines).to_rows()
            assert sorted(map(repr, rows)) == answer(query, 1), query
