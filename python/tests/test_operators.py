"""Each operator, on a few rows that a person can check."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb


def lifetimes(stream: wb.ShardedStream) -> list[tuple[Any, ...]]:
    return [tuple(dict(row).values()) for row in stream.to_rows()]


def run(clicks: wb.ShardedStream, query: Callable[[wb.Stream], wb.Stream]) -> list[tuple[Any, ...]]:
    return lifetimes(clicks.query(query))


def test_select_forms(clicks: wb.ShardedStream) -> None:
    for query in (
        lambda q: q.select("item", double=lambda e: e.price * 2),
        lambda q: q.select(wb.col("item"), (wb.col("price") * 2).alias("double")),
        lambda q: q.select(lambda e: {"item": e.item, "double": e.price * 2}),
        lambda q: q.select({"item": "item", "double": lambda e: e.price * 2}),
        lambda q: q.select(["item", (wb.col("price") * 2).alias("double")]),
        lambda q: q.select(lambda e: [e.item, (e.price * 2).alias("double")]),
    ):
        stream = clicks.query(query)
        assert stream.columns == ["item", "double"]
        assert run(stream, lambda q: q)[0] == (1, 2, "a", 2.0)


def test_columns_are_added_replaced_and_dropped(clicks: wb.ShardedStream) -> None:
    stream = clicks.query(
        lambda q: q.with_columns(price=lambda e: e.price * 2, n=lambda e: e.time + 1).drop("time")
    )
    assert stream.columns == ["item", "price", "n"]
    assert run(stream, lambda q: q)[0] == (1, 2, "a", 2.0, 2)


def test_columns_are_renamed(clicks: wb.ShardedStream) -> None:
    stream = clicks.query(lambda q: q.rename({"price": "item", "item": "price"}))
    assert stream.columns == ["time", "price", "item"]
    assert run(stream, lambda q: q)[0] == (1, 2, 1, "a", 1.0)
    keyed = clicks.rekey("item").query(lambda q: q.rename({"price": "cost"}))
    assert (keyed.key, keyed.columns) == (["item"], ["time", "item", "cost"])
    with pytest.raises(wb.InvalidError, match='"item" is part of the key; rename it before rekey'):
        clicks.rekey("item").query(lambda q: q.rename({"item": "what"}))
    with pytest.raises(wb.InvalidError, match='two columns named "item"'):
        clicks.query(lambda q: q.rename({"price": "item"}))


def test_windows(clicks: wb.ShardedStream) -> None:
    count = {"n": wb.count()}
    assert run(clicks, lambda q: q.tumbling(10).aggregate(**count)) == [(10, 20, 3), (20, 30, 2), (30, 40, 1)]
    assert run(clicks, lambda q: q.tumbling(10, offset=3).aggregate(**count)) == [
        (3, 13, 1),
        (13, 23, 3),
        (23, 33, 1),
        (33, 43, 1),
    ]
    hopping = run(clicks, lambda q: q.hopping(20, hop=10).aggregate(**count))
    assert hopping == [(10, 20, 3), (20, 30, 5), (30, 40, 3), (40, 50, 1)]
    right = run(clicks, lambda q: q.tumbling(12, closed="right").aggregate(**count))
    assert right == [(12, 24, 4), (24, 36, 1), (36, 48, 1)]
    sliding = run(clicks, lambda q: q.sliding(3, closed="right").select("item"))
    assert sliding[0] == (1, 4, "a")
    assert run(clicks, lambda q: q.sliding(3).select("item"))[0] == (2, 5, "a")


def test_sessions_are_kept_per_key(clicks: wb.ShardedStream) -> None:
    per_item = run(clicks, lambda q: q.group_apply("item", lambda g: g.session(5).aggregate(n=wb.count())))
    assert ("a" in {row[2] for row in per_item}) and (4, 9, "a", 2) in per_item
    whole = run(clicks, lambda q: q.session(5, max_duration=100).aggregate(n=wb.count()).point_at_end())
    assert (9, 10, 3) in whole


def test_a_session_ends_at_its_cap() -> None:
    rows = wb.from_rows([(3,), (5,), (7,), (9,)], schema=["time"], time="time")
    ends = {
        cap: [
            row.end for row in rows.query(lambda q, cap=cap: q.session(4, max_duration=5, cap=cap)).to_rows()
        ]
        for cap in ("first", "grid")
    }
    assert ends == {"first": [8, 8, 8, 13], "grid": [10, 10, 10, 10]}
    with pytest.raises(wb.InvalidError, match='cap is "first" or "grid", not "week"'):
        rows.query(lambda q: q.session(4, max_duration=5, cap="week"))  # type: ignore[arg-type]


SESSION_AGGREGATES = [
    "key, window_start, window_end, count(*) as n, sum(v * 2) as total, min(text) as least",
    "window_end, key, avg(v) filter (where v % 2 = 1) as odd, max(v + length(text)) as longest",
    "key, count(distinct v) as n, stddev(v) as deviation",
    "key, window_end - window_start as lasts, count(*) as n",
    "key, window_start, sum(v + window_start) as late, first_value(text order by v) as least",
    "window_start, sum(v) as total",
]


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("columns", SESSION_AGGREGATES)
def test_aggregates_over_sessions_are_those_of_their_rows(columns: str, shards: int) -> None:
    rows = [(t // 3, [None, "a", "b"][t * t % 7 % 3], t * 7 % 11, "xyz"[t % 3]) for t in range(200)]
    rows = sorted(rows + [(t + 5 * (t % 4), *row) for t, *row in rows if t > 50], key=lambda row: row[0])
    events = wb.from_rows(rows, schema=["t", "key", "v", "text"], time="t")
    groups = [
        c for c in columns.split(", ") if c in ("key", "window_start", "window_end") or " as lasts" in c
    ]
    by = ", ".join(group.split(" as ")[0] for group in groups)

    def aggregates(source: str) -> list[tuple[Any, ...]]:
        query = f"select {columns} from {source} group by {by}"
        return sorted(lifetimes(wb.sql(query, shards=shards, events=events)), key=repr)

    as_they_come = aggregates("session(events, t, 3, key)")
    # A filter is not looked through: there the aggregate reads the rows of each session.
    kept = aggregates("(select * from session(events, t, 3, key) where v > -1) s")
    assert as_they_come == kept
    assert len(kept) > 2


def test_an_aggregate_over_sessions_of_a_column_that_doubles_many_times() -> None:
    events = wb.from_rows([(1, 3), (2, 4), (9, 5)], schema=["t", "v"], time="t")
    rows = "session(events, t, 3)"
    for _ in range(40):
        rows = f"(select window_start, v + v as v from {rows})"
    totals = wb.sql(f"select sum(v) as total from {rows} group by window_start", events=events)
    assert [row.total for row in totals.to_rows()] == [7 << 40, 5 << 40]


def test_lifetimes(clicks: wb.ShardedStream) -> None:
    first = clicks.query(lambda q: q.where(lambda e: e.time == 1).select("item"))
    assert run(first, lambda q: q.shift(4)) == [(5, 6, "a")]
    assert run(first, lambda q: q.shift(-1)) == [(0, 1, "a")]
    assert run(first, lambda q: q.alter_duration(7)) == [(1, 8, "a")]
    assert run(first, lambda q: q.alter_duration(math.inf)) == [(1, None, "a")]
    assert run(first, lambda q: q.alter_duration(lambda s: s + 2)) == [(1, 4, "a")]
    assert run(first, lambda q: q.alter_duration(lambda s, e: (e - s) * 3)) == [(1, 4, "a")]
    assert run(first, lambda q: q.alter_lifetime(lambda s: s * 10, 5)) == [(10, 15, "a")]
    assert run(first, lambda q: q.alter_lifetime(2)) == [(3, 4, "a")]
    with pytest.warns(wb.UntracedLambdaWarning):
        assert run(first, lambda q: q.alter_duration(lambda s: 3 if s < 5 else 4)) == [(1, 4, "a")]
    assert run(first, lambda q: q.alter_duration(9).clip(3)) == [(1, 4, "a")]
    assert run(first, lambda q: q.alter_duration(9).point_at_end()) == [(10, 11, "a")]


def test_aggregates(clicks: wb.ShardedStream) -> None:
    computed = clicks.query(
        lambda q: q.tumbling(100).aggregate(
            n=wb.count(),
            known=wb.count_non_null("price"),
            total=wb.sum(lambda e: e.price),
            mean=wb.mean("price"),
            low=wb.min("price"),
            high=wb.max(wb.col("price")),
            first=wb.first("item"),
            last=wb.last("item"),
            items=wb.count_distinct("item"),
            cheap=wb.count(where=lambda e: e.price < 2),
            dear=wb.sum("price", where=lambda e: e.price > 100),
        )
    )
    [row] = computed.to_rows()
    assert dict(row) == {
        "start": 100, "end": 200, "n": 6, "known": 5, "total": 10.5, "mean": 2.1, "low": 0.5, "high": 4.0,
        "first": "a", "last": "b", "items": 3, "cheap": 2, "dear": None,
    }  # fmt: skip


def test_groups(clicks: wb.ShardedStream) -> None:
    forms = ["item", ["item"], lambda e: e.item, lambda e: (e.item,), {"item": "item"}, wb.col("item")]
    for key in forms:
        counted = clicks.query(
            lambda q, key=key: q.group_apply(key, lambda g: g.tumbling(100).aggregate(n=wb.count()))
        )
        assert sorted(lifetimes(counted)) == [(100, 200, "a", 3), (100, 200, "b", 2), (100, 200, "c", 1)]
    nested = clicks.query(
        lambda q: q.group_apply(
            "item",
            lambda g: g.group_apply(
                {"dear": lambda e: e.price > 1}, lambda h: h.tumbling(100).aggregate(n=wb.count())
            ),
        )
    )
    assert (100, 200, "a", True, 1) in lifetimes(nested)


def test_joins(clicks: wb.ShardedStream) -> None:
    names = wb.from_rows(
        [(0, 10, "a", "A"), (2, 30, "b", "B")], schema=["s", "e", "item", "name"], time="s", end="e"
    )

    def joined(how: Any) -> list[Any]:
        both = clicks.query(names, lambda a, b: a.join(b, on="item", how=how).select("item", "name"))
        return sorted(lifetimes(both), key=str)

    inner = [(1, 2, "a", "A"), (27, 28, "b", "B"), (3, 4, "b", "B"), (4, 5, "a", "A")]
    assert joined("inner") == inner
    assert joined("left") == sorted([*inner, (12, 13, "a", None), (13, 14, "c", None)], key=str)
    assert (5, 10, "a", "A") in joined("full")
    assert clicks.query(names, lambda a, b: a.join(b, how="cross")).columns == [
        "time", "item", "price", "s", "e", "item_right", "name",
    ]  # fmt: skip
    assert len(clicks.query(names, lambda a, b: a.join(b, on="item", how="semi")).to_rows()) == 4
    assert len(clicks.query(names, lambda a, b: a.join(b, on="item", how="anti")).to_rows()) == 2
    other = clicks.query(
        names, lambda a, b: a.join(b, left_on=lambda e: e.item.upper(), right_on="name").select("e")
    )
    assert len(other.to_rows()) == 4


def test_exists(clicks: wb.ShardedStream) -> None:
    names = wb.from_rows([(0, 10, "a")], schema=["s", "e", "item"], time="s", end="e")
    held = clicks.query(
        names, lambda a, b: a.alter_duration(20).where_not_exists(b, on="item").select("item")
    )
    assert lifetimes(held)[0] == (3, 23, "b")
    assert (10, 21, "a") in lifetimes(held)
    kept = clicks.query(names, lambda a, b: a.alter_duration(20).where_exists(b, on="item").select("item"))
    assert lifetimes(kept) == [(1, 10, "a"), (4, 10, "a")]


def test_union_distinct_multicast(clicks: wb.ShardedStream) -> None:
    both = clicks.query(lambda q: q.multicast(lambda s: s.union(s)).select("item"))
    assert len(both.to_rows()) == 12
    assert len(both.query(lambda q: q.distinct()).to_rows()) == 6


def test_select_many() -> None:
    tags = wb.from_rows([{"t": 1, "x": "p q"}, {"t": 2, "x": ""}], time="t")
    split = tags.query(
        lambda q: q.select_many(lambda e: wb.fn.string_to_array(e.x, " "), "word").select("word")
    )
    assert ("p" in str(lifetimes(split))) and len(split.to_rows()) >= 2
    boxed = tags.query(
        lambda q: q.select_many(wb.udf(lambda e: e.x.split()), "word", returns="list[string]").select("word")
    )
    listed = tags.query(lambda q: q.select_many(lambda e: [e.t, e.t * 10], "n").select("n"))
    assert lifetimes(listed) == [(1, 2, 1), (1, 2, 10), (2, 3, 2), (2, 3, 20)]
    assert lifetimes(boxed) == [(1, 2, "p"), (1, 2, "q")]


def test_relations(items: wb.ShardedStream) -> None:
    def rows(query: Callable[[wb.Stream], wb.Stream]) -> list[Any]:
        return [tuple(dict(row).values()) for row in items.query(query).to_rows()]

    assert rows(lambda q: q.sort("group", descending=True)) == [("b", 2), ("a", 1)]
    assert rows(lambda q: q.sort(lambda e: -e.group).limit(1)) == [("b", 2)]
    assert rows(lambda q: q.limit(1, offset=1)) == [("b", 2)]
    assert rows(lambda q: q.aggregate(n=wb.count(), s=wb.sum("group"))) == [(2, 3)]
    assert rows(lambda q: q.join(q, on="item").select("item", g="group_right")) == [("a", 1), ("b", 2)]
    assert rows(lambda q: q.where(lambda e: e.group == 9)) == []


def test_a_bounded_relation_joins_a_stream(clicks: wb.ShardedStream, items: wb.ShardedStream) -> None:
    joined = clicks.query(items, lambda c, i: c.join(i, on="item").select("item", "group"))
    assert lifetimes(joined)[0] == (1, 2, "a", 1)
    assert len(joined.to_rows()) == 5


def test_edges_and_events() -> None:
    events = [wb.start_edge(1, 5), wb.interval(2, 9, 6), wb.punctuation(3), wb.end_edge(1, 4, 5)]
    stream = wb.from_events(events)
    assert stream.schema == {"value": "int64"}
    data = [event for event in stream.to_events() if event.kind != "punctuation"]
    assert [(e.kind, e.start, e.end, e.row["value"]) for e in data if e.row] == [
        ("start", 1, None, 5), ("interval", 2, 9, 6), ("end", 1, 4, 5),
    ]  # fmt: skip
    assert lifetimes(stream) == [(1, 4, 5), (2, 9, 6)]


def test_disorder() -> None:
    def starts(**settings: Any) -> list[Any]:
        rows = [(5, "a"), (9, "b"), (7, "c"), (1, "d")]
        stream = wb.from_rows(rows, schema=["t", "x"], time="t", **settings)
        return [(row.start, row.x) for row in stream.to_rows()]

    assert starts(disorder="drop") == [(5, "a"), (9, "b")]
    assert starts(disorder="drop", reorder_latency=2) == [(5, "a"), (7, "c"), (9, "b")]
    assert starts(disorder="drop", reorder_latency=8) == [(1, "d"), (5, "a"), (7, "c"), (9, "b")]


def test_relational_steps_are_of_each_group() -> None:
    rows = wb.from_rows([{"k": k, "v": v} for k, v in [("a", 3), ("a", 1), ("b", 2), ("b", 5), ("a", 2)]])

    def per_key(step: Any) -> list[tuple[Any, ...]]:
        result = rows.query(lambda q: q.group_apply("k", step))
        assert result.to_python().run().to_rows() == result.to_rows()
        return sorted(tuple(dict(row).values()) for row in result.to_rows())

    assert per_key(lambda g: g.sort("v").limit(1)) == [("a", 1), ("b", 2)]
    assert per_key(lambda g: g.sort("v").limit(1, offset=1)) == [("a", 2), ("b", 5)]
    assert len(per_key(lambda g: g.limit(2))) == 4
    assert per_key(lambda g: g.with_columns(s=wb.sum("v").over()).where(lambda e: e.v == 2)) == [
        ("a", 2, 6),
        ("b", 2, 7),
    ]


def test_a_cross_join_pairs_all_rows_whatever_their_keys() -> None:
    clicks = wb.from_rows([(1, "a"), (1, "b")], schema=["time", "item"], time="time").rekey("item")
    pairs = clicks.query(clicks, lambda a, b: a.join(b, how="cross")).to_rows()
    assert sorted((row.item, row.item_right) for row in pairs) == [
        ("a", "a"),
        ("a", "b"),
        ("b", "a"),
        ("b", "b"),
    ]
