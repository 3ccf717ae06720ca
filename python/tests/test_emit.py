"""`emit changes` and `emit final`: when the rows of a query over a live source are handed out."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string"}
EVENTS = [(1, "a"), (2, "b"), (7, "a"), (12, "a"), (3, "b"), (31, "a")]
WINDOWS = {
    "tumble": "select window_start, item, count(*) as n from tumble(c, time, 10) group by window_start, item",
    "hop": "select window_start, window_end, count(*) as n from hop(c, time, 5, 10) group by 1, 2",
    "uneven": "select window_end, count(*) as n from hop(c, time, 5, 7, offset => 1) group by 1",
    "right": "select window_end, count(*) as n from tumble(c, time, 5, closed => 'right') group by 1",
    "cumulate": "select window_start, window_end, count(*) as n from cumulate(c, time, 5, 10) group by 1, 2",
    "session": "select window_start, window_end, count(*) as n from session(c, time, 6) group by 1, 2",
}


def handed_out(sql: str, source: wb.LiveStream) -> list[dict[str, Any]]:
    """Feed a source event by event; give what a query over it hands out."""
    seen: list[dict[str, Any]] = []
    with wb.sql(sql, c=source).subscribe(lambda row: seen.append(dict(row))) as subscription:
        for event in EVENTS:
            source.push([event])
        source.close()
        assert subscription.wait(10)
    return seen


def folded(changes: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Make the relation of its changes; no row ever goes that is not there."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for change, *row in (change.values() for change in changes):
        rows[tuple(row)] += change
        assert rows[tuple(row)] >= 0
    return +rows


def table(sql: str) -> Counter[tuple[Any, ...]]:
    rows = [dict(zip(SCHEMA, event, strict=True)) for event in EVENTS]
    return Counter(tuple(dict(row).values()) for row in wb.sql(sql, c=rows).to_rows())


def test_final_windows_are_handed_out_once() -> None:
    stream = wb.live(SCHEMA, time="time", disorder="drop", reorder_latency=20)
    seen = handed_out(WINDOWS["tumble"] + " emit final", stream)
    rows = Counter(tuple(list(row.values())[2:]) for row in seen)
    assert rows == table(WINDOWS["tumble"])
    assert set(rows.values()) == {1}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("time", ["time", None])
def test_changes_come_early_and_are_corrected(window: str, time: str | None) -> None:
    """One answer everywhere: the early rows, corrected, are the rows of a table."""
    seen = handed_out(WINDOWS[window] + " emit changes", wb.live(SCHEMA, time=time))
    assert seen[0]["change"] == 1
    assert any(row["change"] == -1 for row in seen)
    assert folded(seen) == table(WINDOWS[window])


def test_a_late_row_corrects_what_was_said() -> None:
    sql = "select window_end, count(*) as n from tumble(c, time, 10) group by window_end EMIT CHANGES;"
    seen = handed_out(sql, wb.live(SCHEMA, time="time"))
    # (3, "b") comes after the window has passed.
    assert {"change": -1, "window_end": 10, "n": 3} in seen
    assert {"change": 1, "window_end": 10, "n": 4} in seen


def test_without_emit_changes_it_is_told_what_comes() -> None:
    sql = "select item, count(*) as n from c group by item"
    with pytest.warns(UserWarning, match=r"none is final.*\.changes\(\).*emit changes"):
        assert handed_out(sql, wb.live(SCHEMA)) == [{"item": "a", "n": 4}, {"item": "b", "n": 2}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # These rows stay.
        assert len(handed_out("select item from c where time > 5", wb.live(SCHEMA))) == 3
        assert handed_out(sql + " emit changes", wb.live(SCHEMA))


def test_an_aggregate_of_instants_is_not_what_is_meant() -> None:
    stream = wb.live(SCHEMA, time="time")
    for sql in ("select item, count(*) from c group by item", "select distinct item from c"):
        with pytest.raises(wb.InvalidError, match="every instant by itself.*tumble.*emit changes"):
            wb.sql(sql, c=stream)
    assert wb.sql("select time, count(*) from c group by time", c=stream).time == "int64"


def test_a_table_at_rest_has_come() -> None:
    rows = [{"item": "a"}, {"item": "a"}]
    assert wb.sql("select item, count(*) as n from c group by item emit changes", c=rows).to_rows() == [
        {"change": 1, "item": "a", "n": 2}
    ]


def test_what_has_no_changes() -> None:
    stream = wb.live(SCHEMA, time="time")
    for sql, why in {
        "select item from c order by item emit changes": "unbounded sort",
        "select item from c limit 1 emit changes": "add order by",
        "create view v as select 1 as one emit changes; select * from v": "stands after a query",
    }.items():
        with pytest.raises(wb.InvalidError, match=why):
            wb.sql(sql, c=stream)
    windows = stream.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    with pytest.raises(wb.InvalidError, match="c is a query over time already"):
        wb.sql("select n from c emit changes", c=windows)
    # Two words that could be names stay names.
    assert wb.sql("select emit.final from c as emit", c=[{"final": 1}]).to_rows() == [{"final": 1}]


def test_views_are_kept_up_to_date() -> None:
    prices, clicks = wb.live({"item": "string", "price": "int64"}), wb.live({"item": "string"})
    sql = "select item, count(*) * max(price) as worth from clicks join prices using (item) group by item"
    told: list[wb.Table] = []
    with wb.sql(sql, clicks=clicks, prices=prices).maintain(told.append) as view:
        clicks.push([("a",), ("b",), ("a",)])
        prices.push([("a", 5)])
        prices.push([("b", 1), ("a", 7)])
        for source in (clicks, prices):
            source.close()
        assert view.wait(10)
    assert sorted(view.snapshot(), key=str) == [{"item": "a", "worth": 28}, {"item": "b", "worth": 1}]
    assert next(iter(told[0].schema)) == "change"
    with pytest.raises(wb.InvalidError, match="subscribe to it"):
        wb.live(SCHEMA, time="time").maintain()


def test_tables_at_rest_meet_live_sources() -> None:
    clicks = wb.live({"item": "string"})
    prices = [{"item": "a", "price": 5}, {"item": "b", "price": 1}]
    sql = (
        "select sum(price) as worth from clicks join prices using (item) "
        "where price < (select max(price) * 2 from prices)"
    )
    with wb.sql(sql, clicks=clicks, prices=prices).maintain() as view:
        clicks.push([("a",), ("b",), ("c",), ("a",)])
        clicks.close()
        assert view.wait(10)
    assert view.snapshot() == [{"worth": 11}]


CHEAP = "select c.item, count(*) as n, sum(p.price) as spent from c join p on c.item = p.item group by c.item"
PRICES = [("a", 5), ("b", 2), ("a", 7)]


def test_a_stream_with_time_does_not_meet_one_without() -> None:
    with pytest.raises(wb.InvalidError, match="which came first; give it its time column.*emit changes"):
        wb.sql(CHEAP, c=wb.live(SCHEMA, time="time"), p=wb.live({"item": "string", "price": "int64"}))


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_with_emit_changes_it_does(shards: int) -> None:
    """Both are tables of what has arrived; the last rows are those of a join of tables."""
    clicks = wb.live(SCHEMA, time="time", shards=2)
    prices = wb.live({"item": "string", "price": "int64"}, shards=shards)
    seen: list[dict[str, Any]] = []
    changes = wb.sql(f"{CHEAP} emit changes", shards=shards, c=clicks, p=prices)
    with changes.subscribe(lambda row: seen.append(dict(row))) as subscription:
        for turn, event in enumerate(EVENTS):
            clicks.push([event], shard=turn % 2)
        for turn, price in enumerate(PRICES):
            prices.push([price], shard=turn % shards)
        clicks.close()
        prices.close()
        assert subscription.wait(10)
    tables = {
        "c": [dict(zip(SCHEMA, event, strict=True)) for event in EVENTS],
        "p": [{"item": item, "price": price} for item, price in PRICES],
    }
    assert folded(seen) == Counter(tuple(dict(row).values()) for row in wb.sql(CHEAP, **tables).to_rows())


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_change_together(shards: int) -> None:
    """Money moves from account to account, each time in one push: there is never more nor less of it."""
    moves = wb.live({"account": "int64", "amount": "int64"}, shards=shards)
    balances = (
        moves.rekey("account").redistribute(shards).query(lambda q: q.aggregate(amount=wb.sum("amount")))
    )
    totals: set[int] = set()
    with balances.maintain(
        lambda changes: totals.add(sum(row.change * row.amount for row in changes))
    ) as view:
        for n in range(60):
            moves.push([(n % 7, n), (n * 3 % 5, -n)], shard=n % shards)
        moves.close()
        assert view.wait(10)
    assert totals == {0}
    assert sum(row["amount"] for row in view.snapshot()) == 0


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_windows_are_corrected_in_shards(shards: int) -> None:
    sql = f"set shard_rows = 0; {WINDOWS['hop']} emit changes"
    source = wb.live(SCHEMA, time="time", shards=shards)
    seen: list[dict[str, Any]] = []
    with wb.sql(sql, shards=shards, c=source).subscribe(lambda row: seen.append(dict(row))) as subscription:
        for turn, event in enumerate(EVENTS):
            source.push([event], shard=turn % shards)
        source.close()
        assert subscription.wait(10)
    assert folded(seen) == table(WINDOWS["hop"])
