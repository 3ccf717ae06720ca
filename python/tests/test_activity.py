"""What a running query says of itself: rows, times, and why nothing comes out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

import whimbrel as wb
from whimbrel.activity import Operator

SCHEMA = {"time": "int64", "item": "string", "price": "int64"}


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that a thread of the query does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def operator(subscription: wb.Subscription, name: str) -> Operator:
    """An operator of a query, once it has begun to run: not all stages begin at the same time."""

    def found() -> Operator | None:
        return next((o for o in subscription.stats().operators if o.name == name), None)

    until(found)
    operator = found()
    assert operator
    return operator


@pytest.mark.parametrize("runtime", ["library", "local"])
def test_windows_wait_for_their_end(runtime: Any) -> None:
    with wb.live(SCHEMA, time="time") as clicks:
        seen: list[Any] = []
        query = clicks.query(lambda q: q.where(lambda e: e.price > 1).tumbling(10).aggregate(n=wb.count()))
        with query.subscribe(seen.append, runtime=runtime) as subscription:
            assert subscription.stats().waits_for == "No row has been read yet."
            clicks.push([(1, "a", 1), (3, "b", 2), (4, "b", 3)])
            until(lambda: subscription.stats().rows_read == 3)
            until(lambda: operator(subscription, "aggregate").rows_in == 2)
            passed = operator(subscription, "where")
            assert (passed.rows_in, passed.rows, passed.latest) == (3, 2, 4)
            assert "aggregate has taken 2 rows" in subscription.stats().waits_for
            clicks.push([(25, "a", 9)])
            clicks.advance(30)
            until(lambda: len(seen) == 2)
            until(lambda: operator(subscription, "input").frontier == 30)
            assert "Time has come to 30" in subscription.stats().waits_for
            clicks.close()
            assert subscription.wait(30)
            done = subscription.stats()
            assert done.done and done.waits_for == "The query has ended."
            assert done.operators[0].frontier == math.inf
            assert "aggregate" in repr(done) and "4 rows read" in repr(done)


def test_a_filter_that_lets_nothing_pass() -> None:
    with (
        wb.live(SCHEMA, time="time") as clicks,
        clicks.query(lambda q: q.where(lambda e: e.price > 100)).subscribe(print) as subscription,
    ):
        clicks.push([(1, "a", 1), (3, "b", 2)])
        until(lambda: operator(subscription, "where").rows_in == 2)
        assert subscription.stats().waits_for == "The condition of where has let none of 2 rows pass."


def test_a_join_keeps_rows_and_a_slow_shard_holds_all_back() -> None:
    with wb.live(SCHEMA, time="time", shards=2) as clicks:
        both = clicks.query(lambda q: q.sliding(100).join(q.sliding(100), on="item"))
        with both.reshard(1).subscribe(lambda row: None) as subscription:
            clicks.push([(1, "a", 1), (3, "b", 2)], shard=0)
            clicks.advance(10, shard=0)
            until(lambda: operator(subscription, "join").held == 4)
            assert operator(subscription, "join").oldest == 2
            assert operator(subscription, "join").bytes > 4 * 8
            assert operator(subscription, "join").frontier is None
            clicks.advance(7, shard=1)
            until(lambda: operator(subscription, "join").frontier == 8)
            for shard in (0, 1):
                clicks.advance(200, shard=shard)
            until(lambda: operator(subscription, "join").held == 0)
            assert operator(subscription, "join").oldest is None


def alive(stream: wb.Stream) -> wb.Stream:
    """The rows, each for 100 ticks."""
    return stream.sliding(100, closed="right")


LATE = lambda e: e.price > 5  # noqa: E731

KEPT: list[tuple[str, Callable[[wb.Stream], wb.Stream], int, int | None]] = [
    ("chop", lambda q: alive(q).chop(30), 3, 1),
    ("stitch", lambda q: alive(q).stitch(), 3, 1),
    ("session", lambda q: q.session(50), 3, 1),
    ("point_at_end", lambda q: alive(q).point_at_end(), 3, 1),
    ("exists", lambda q: alive(q).where_not_exists(q.where(LATE), on="item"), 3, 1),
    ("exists", lambda q: alive(q).where_exists(alive(q.where(LATE)), on="item"), 4, 1),
    ("clip", lambda q: alive(q).clip(q.where(LATE), on="item"), 2, 3),
    ("aggregate", lambda q: alive(q).aggregate(n=wb.count()), 1, 1),
    ("aggregate", lambda q: alive(q).aggregate(m=wb.max("price")), 1, 1),
    ("aggregate", lambda q: q.group_apply("item", lambda g: alive(g).aggregate(n=wb.count())), 2, 1),
    ("aggregate", lambda q: q.alter_duration(lambda s: s % 7 + 90).aggregate(n=wb.count()), 1, None),
    ("fill_gaps", lambda q: q.fill_gaps(100, previous=["item", "price"]), 1, 25),
    ("extend_lifetime", lambda q: alive(q).extend(-40), 0, None),
    ("detect", lambda q: q.detect(wb.event(LATE).then(wb.event(LATE)), within=100), 1, 25),
]
"""An operator, a query with it, and what it keeps of three rows when time has come to 30."""


@pytest.mark.parametrize(("name", "query", "held", "oldest"), KEPT)
def test_operators_say_what_they_keep(
    name: str, query: Callable[[wb.Stream], wb.Stream], held: int, oldest: int | None
) -> None:
    with wb.live(SCHEMA, time="time") as clicks, clicks.query(query).subscribe(print) as subscription:
        clicks.push([(1, "a", 1), (3, "b", 2), (25, "a", 9)])
        clicks.advance(30)
        until(lambda: operator(subscription, name).reached == 30)
        found = operator(subscription, name)
        assert (found.held, found.oldest) == (held, oldest)
        assert (found.bytes > 0) == (held > 0)


def test_a_function_may_ask_what_its_query_has_done() -> None:
    seen: list[int] = []
    running: list[wb.Subscription] = []

    def asking(price: int) -> int:
        seen.append(len(running[0].stats().operators) if running else 0)
        return price

    with wb.live(SCHEMA, time="time") as clicks:
        query = clicks.query(lambda q: q.select(price=wb.udf(asking, returns="int64")(wb.col("price"))))
        with query.subscribe(print) as subscription:
            running.append(subscription)
            clicks.push([(1, "a", 1)])
            clicks.advance(5)
            until(lambda: seen)


def test_times_are_those_of_the_stream() -> None:
    zone = timezone.utc
    with (
        wb.live({"at": "timestamp[us, UTC]", "n": "int64"}, time="at") as stream,
        stream.query(lambda q: q.select("n")).subscribe(print) as subscription,
    ):
        stream.push([(datetime(2024, 5, 1, tzinfo=zone), 1)])
        until(lambda: subscription.stats().operators and operator(subscription, "input").rows == 1)
        assert operator(subscription, "input").latest == datetime(2024, 5, 1, tzinfo=zone)


def test_relations_have_no_operators() -> None:
    rows = wb.from_rows([(1, "a", 1)], schema=list(SCHEMA))
    with rows.subscribe(print) as subscription:
        assert subscription.wait(30)
        assert subscription.stats().operators == ()
        assert subscription.stats().rows_out == 1


def test_partitions_count_together() -> None:
    settings: dict[str, Any] = {"partition_by": "item", "lag": 20, "disorder": "drop"}
    with wb.live(SCHEMA, time="time", **settings) as clicks:
        query = clicks.query(lambda q: alive(q).aggregate(n=wb.count()))
        with query.subscribe(print) as subscription:
            clicks.push([(40, "a", 1), (25, "b", 2), (41, "b", 3), (45, "a", 4), (44, "c", 5)])
            until(lambda: operator(subscription, "input").rows == 5)
            counted = operator(subscription, "aggregate")
            assert (counted.rows_in, counted.held, counted.oldest) == (5, 3, 25)
            assert operator(subscription, "input").frontier == 25
