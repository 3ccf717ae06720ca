"""`emit changes within`: windows come early, are corrected by late rows, and are forgotten."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string", "price": "int64"}
TUMBLE = "tumble(c, time, 10)"
QUERIES = {
    "tumble": f"select window_end, item, count(*) as n, sum(price) as s from {TUMBLE} group by 1, 2",
    "hop": "select window_start, window_end, count(*) as n from hop(c, time, 5, 20) group by 1, 2",
    "cumulate": "select window_start, window_end, max(price) from cumulate(c, time, 5, 20) group by 1, 2",
    "uneven hop": """select window_start, window_end, count(*) as n
        from hop(c, time, 5, 12, closed => 'right') group by 1, 2""",
    "sparse hop": "select window_end, count(*) as n from hop(c, time, 7, 3, offset => 2) group by 1",
    "right": """select window_start, window_end, count(*) as n
        from tumble(c, time, 10, 3, closed => 'right') group by 1, 2""",
    "having": f"select window_end, item from {TUMBLE} group by 1, 2 having count(*) > 1",
    "distinct": f"select distinct window_end, item from {TUMBLE}",
    "median": f"select window_end, median(price) as m from {TUMBLE} group by window_end",
    "twice": f"""select window_end, max(n) as most from (
        select window_end, item, count(*) as n from {TUMBLE} group by 1, 2) group by window_end""",
    "first": f"""select window_end, item, n from (
        select window_end, item, n,
               row_number() over (partition by window_end order by n desc, item) as place
        from (select window_end, item, count(*) as n from {TUMBLE} group by 1, 2))
        where place = 1""",
    "join": f"""select a.window_end, a.n, b.item from
        (select window_end, count(*) as n from {TUMBLE} group by 1) as a
        left join (select window_end, item from {TUMBLE} where price > 7 group by 1, 2) as b
        on a.window_end = b.window_end""",
    "table": f"""select window_end, name, count(*) as n from {TUMBLE}
        join (values ('a', 'Ada'), ('b', 'Bob')) as names (key, name) on item = key group by 1, 2""",
    "nested": f"""with w as (select window_end as t, count(*) as n from {TUMBLE} group by 1)
        select window_end, sum(n) as s from tumble(w, t, 25) group by 1""",
    "nested hops": """with w as (select window_end as t, count(*) as n from hop(c, time, 5, 20) group by 1)
        select window_end, sum(n) as s from tumble(w, t, 20) group by 1""",
    "nested rows": """with w as (select item, price, window_end as t from hop(c, time, 5, 20))
        select window_end, item, sum(price) as s from hop(w, t, 10, 30) group by 1, 2""",
    "nested join": f"""with w as (select window_end as t, count(*) as n from {TUMBLE} group by 1),
        x as (select window_end, sum(n) as n from tumble(w, t, 10) group by 1)
        select x.window_end, x.n, w.n as m from x join w on x.window_end = w.t""",
    "events": f"""select a.time, a.item, w.n from c as a join
        (select window_end, count(*) as n from {TUMBLE} group by 1) as w on a.time = w.window_end""",
    "exists": """select a.time, a.item from c as a
        where exists (select 1 from tumble(c, time, 1) as w where w.window_end = a.time)""",
    "union": """select i, count(*) as n from
        (select time as i from c union all select window_end from tumble(c, time, 1)) group by 1""",
    "never": "select * from (select time, 1 as k from c) where k > 3",
    "only ends": f"select window_end from (select window_end, count(price) from {TUMBLE} group by 1)",
    "instants": "select time, count(*) as n from c group by time",
    "filter": "select time, item from c where price > 3",
}


def pieces(dice: random.Random) -> list[list[tuple[int, str, int]]]:
    """Make rows that go on in time, some of them late, in pieces that are pushed together."""
    rows, now = [], 0
    for _ in range(dice.randint(1, 120)):
        now += dice.choice([0, 0, 1, 1, 2, 30])
        late = dice.choice([0, 0, 0, 3, 8, 25])
        rows.append((now - late, dice.choice("abc"), dice.randint(0, 9)))
    cuts = []
    while rows:
        count = dice.randint(1, 6)
        cuts.append(rows[:count])
        rows = rows[count:]
    return cuts


def handed_out(sql: str, source: wb.LiveStream, pushed: list[Any]) -> tuple[list[dict[str, Any]], int]:
    """Feed a source; give what a query over it hands out, and how many rows came too late."""
    seen: list[dict[str, Any]] = []
    with wb.sql(sql, c=source).subscribe(lambda row: seen.append(dict(row))) as subscription:
        for rows in pushed:
            source.push(rows)
        source.close()
        assert subscription.wait(30)
        return seen, subscription.late_rows


def folded(changes: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Make the relation of its changes; no row ever goes that is not there."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for change, *row in (change.values() for change in changes):
        rows[tuple(row)] += change
        assert rows[tuple(row)] >= 0
    return +rows


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("lateness", [0, 5, 20])
def test_the_last_rows_are_the_final_ones(query: str, lateness: int) -> None:
    for seed in range(6):
        pushed = pieces(random.Random(f"{query} {lateness} {seed}"))
        sql = QUERIES[query]
        early, late = handed_out(
            f"{sql} emit changes within {lateness}", wb.live(SCHEMA, time="time"), pushed
        )
        source = wb.live(SCHEMA, time="time", reorder_latency=lateness, disorder="drop")
        final, dropped = handed_out(sql, source, pushed)
        assert folded(early) == Counter(tuple(list(row.values())[2:]) for row in final)
        assert late == dropped


@pytest.mark.parametrize(
    "form",
    [
        lambda c: c.query(lambda q: q.where(lambda e: e.price > 3)),
        lambda c: c.query(lambda q: q.select("item", price="time", time="price")),
        lambda c: c.query(lambda q: q.select("time", "item", "price").require_duration(1)),
    ],
)
def test_lateness_is_told_where_rows_come_in(form: Callable[[Any], Any]) -> None:
    pushed = pieces(random.Random(3))
    results = []
    for emit, source in (
        ("emit changes within 5", wb.live(SCHEMA, time="time")),
        ("emit final", wb.live(SCHEMA, time="time", reorder_latency=5, disorder="drop")),
    ):
        seen: list[dict[str, Any]] = []
        sql = f"select time, item, price from c union all select time, item, price from d {emit}"
        stream = wb.sql(sql, c=form(source), d=source)
        with stream.subscribe(lambda row, seen=seen: seen.append(dict(row))) as subscription:
            for rows in pushed:
                source.push(rows)
            source.close()
            assert subscription.wait(30)
            results.append((seen, subscription.late_rows))
    (early, late), (final, dropped) = results
    assert folded(early) == Counter(tuple(list(row.values())[2:]) for row in final)
    assert late == dropped


def test_a_duration_that_is_asserted_changes_no_answer() -> None:
    plain = wb.from_rows([(i, "ab"[i % 2], i) for i in range(6)], schema=["t", "k", "v"], time="t")
    required = plain.query(lambda q: q.require_duration(1))
    for sql in (
        "select count(*) as n from t",
        "select a.t, b.t as u from t a join t b on a.k = b.k and b.t between a.t and a.t + 2",
        "select t from t order by v limit 2",
        "select window_end, count(*) as n from tumble(t, t, 3) group by 1",
    ):
        assert wb.sql(sql, t=plain).to_rows() == wb.sql(sql, t=required).to_rows()


def test_a_source_needs_a_time_and_one_clock() -> None:
    sql = f"{QUERIES['tumble']} emit changes within 5"
    with pytest.raises(wb.InvalidError, match="live source without a time"):
        wb.sql(sql, c=wb.live(SCHEMA))
    with pytest.raises(wb.InvalidError, match="a clock for each item"):
        wb.sql(sql, c=wb.live(SCHEMA, time="time", partition_by="item"))
    with pytest.raises(wb.InvalidError, match="not negative"):
        wb.sql(f"{QUERIES['tumble']} emit changes within interval '-5'", c=wb.live(SCHEMA, time="time"))
    with pytest.raises(wb.InvalidError, match="which cannot tell time"):
        wb.live(SCHEMA).allow_lateness("item", 5, retention=10)


def test_instants_at_the_ends_of_time_are_refused() -> None:
    for end in (-(2**63), 2**63 - 1, 2**63 - 2):
        source = wb.live(SCHEMA, time="time")
        job = wb.sql("select time from c emit changes within 0", c=source).subscribe(lambda row: None)
        with pytest.raises(wb.DataError, match="at the end of all time"):
            source.push([(end, "a", 1)])
            source.close()
            job.wait(10)


def test_windows_of_the_calendar_are_kept_to_their_end() -> None:
    """The day on which clocks are set back has 25 hours."""
    sql = """select window_end, count(*) as n
        from tumble(c, time, interval '1' day, 'Europe/Berlin') group by window_end"""
    begin = datetime(2024, 10, 26, 22)
    pushed = [[(begin + timedelta(hours=hours),)] for hours in (0, 5, 24, 1, 25, 26, 23, 60)]
    schema = {"time": "timestamp[us, UTC]"}
    early, _ = handed_out(
        f"{sql} emit changes within interval '3' hour", wb.live(schema, time="time"), pushed
    )
    source = wb.live(schema, time="time", reorder_latency="3h", disorder="drop")
    final, _ = handed_out(sql, source, pushed)
    assert folded(early) == Counter(tuple(list(row.values())[2:]) for row in final)


def test_what_is_over_is_forgotten() -> None:
    source = wb.live(SCHEMA, time="time")
    sql = f"{QUERIES['tumble']} emit changes within interval '20'"
    kept = []
    with wb.sql(sql, c=source).subscribe(lambda row: None) as subscription:
        for step in range(60):
            source.push([(step * 50 + i, "abc"[i % 3], i) for i in range(50)])
            read = (step + 1) * 50
            while not any(o.rows_in == read for o in subscription.stats().operators):
                pass
            kept.append(max(operator.held for operator in subscription.stats().operators))
        source.close()
        assert subscription.wait(10)
    assert max(kept) < 200


def test_shards_are_gathered_first() -> None:
    source = wb.live(SCHEMA, time="time", shards=3)
    seen: list[dict[str, Any]] = []
    sql = f"{QUERIES['tumble']} emit changes within 1000"
    with wb.sql(sql, c=source).subscribe(lambda row: seen.append(dict(row))) as subscription:
        rows = [row for piece in pieces(random.Random(1)) for row in piece]
        for place, row in enumerate(rows):
            source.push([row], shard=place % 3)
        source.close()
        assert subscription.wait(10)
    table = wb.sql(QUERIES["tumble"], c=wb.from_rows(rows, schema=list(SCHEMA))).to_rows()
    assert folded(seen) == Counter(tuple(dict(row).values()) for row in table)


def test_a_bounded_stream_has_no_late_rows() -> None:
    rows = wb.from_rows([(5, "a", 1), (25, "a", 2), (27, "b", 3)], schema=list(SCHEMA), time="time")
    changes = wb.sql(f"{QUERIES['tumble']} emit changes within 0", c=rows).to_rows()
    assert sorted(row.window_end for row in changes) == [10, 30, 30]


def test_the_program_of_a_plan_says_it() -> None:
    source = wb.live(SCHEMA, time="time")
    stream = wb.sql(f"{QUERIES['hop']} emit changes within 7", c=source)
    assert '.allow_lateness("time", 7, retention=21)' in stream.to_python()
    assert "allow time to be 7 late" in stream.explain()


def test_late_rows_are_handed_over() -> None:
    source, late = wb.live(SCHEMA, time="time"), []
    sql = f"{QUERIES['tumble']} emit changes within 5"
    with wb.sql(sql, c=source).subscribe(
        lambda row: None, late=lambda table: late.extend(table.to_rows())
    ) as subscription:
        source.push([(30, "a", 1)])
        source.push([(24, "a", 2), (25, "b", 3)])
        source.close()
        assert subscription.wait(10)
    assert [row.time for row in late] == [24]


def test_it_goes_on_after_a_stop(tmp_path: Path) -> None:
    pushed = pieces(random.Random(7))
    log, state, out = tmp_path / "log", tmp_path / "state", tmp_path / "out"
    sql = f"{QUERIES['tumble']} emit changes within 20"
    half = len(pushed) // 2
    source = wb.live(SCHEMA, time="time", log=log)
    for part in (pushed[:half], pushed[half:]):
        for rows in part:
            source.push(rows)
        job = wb.sql(sql, c=source).run_forever(out, checkpoint=state, every="10ms", stop_when_idle="100ms")
        assert job is not None
    early = [dict(row) for row in wb.read(out).to_rows()]
    final, _ = handed_out(
        QUERIES["tumble"], wb.live(SCHEMA, time="time", reorder_latency=20, disorder="drop"), pushed
    )
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in early:
        change, *values = [value for name, value in row.items() if name not in ("start", "end")]
        counts[tuple(values)] += change
    assert +counts == Counter(tuple(list(row.values())[2:]) for row in final)


@pytest.mark.parametrize(
    ("sql", "why"),
    {
        "select window_end, count(*) from session(c, time, 6) group by 1": "tumble, hop, cumulate",
        "select count(*) from c": "every instant by itself",
        f"select a.item from {TUMBLE} a join d on a.window_end = d.time": "2 live sources",
        "select a.item from c a join c b on a.item = b.item and b.time between a.time and a.time + 5": (
            "joins of rows of one window"
        ),
        """select a.time from c a where exists (
            select 1 from c b where b.price = a.price and b.time between a.time and a.time + 5)""": (
            "joins of rows of one window"
        ),
        """select a.time from c a where a.price in (
            select b.price from c b where b.time between a.time - 5 and a.time)""": (
            "joins of rows of one window"
        ),
    }.items(),
)
def test_what_cannot_be_forgotten_is_refused(sql: str, why: str) -> None:
    read = [name for name in "cd" if f" {name}" in sql or f"({name}" in sql]
    sources: dict[str, Any] = {name: wb.live(SCHEMA, time="time") for name in read}
    with pytest.raises(wb.InvalidError, match=why):
        wb.sql(f"{sql} emit changes within 5", **sources)


def test_a_length_of_time_is_needed() -> None:
    source = wb.live(SCHEMA, time="time")
    for length in ("", "a", "interval", "interval x minute"):
        with pytest.raises(wb.InvalidError, match=r"length of time|within"):
            wb.sql(f"{QUERIES['tumble']} emit changes within {length}", c=source)
    with pytest.raises(wb.InvalidError, match="logical clock"):
        wb.sql(f"{QUERIES['tumble']} emit changes within interval '5' minute", c=source)
    assert wb.sql("select emit.within from c as emit", c=[{"within": 1}]).to_rows() == [{"within": 1}]
