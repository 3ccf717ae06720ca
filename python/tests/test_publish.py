"""One run of a query, whose result several others read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string"}


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that a thread of the query does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def counts(clicks: wb.ShardedStream) -> wb.ShardedStream:
    return clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))


def test_several_queries_read_one_result() -> None:
    seen: dict[str, list[Any]] = {"few": [], "many": [], "windows": []}
    with wb.live(SCHEMA, time="time") as clicks, counts(clicks).publish() as published:
        jobs = [
            published.query(lambda q: q.where(lambda e: e.n < 2)).subscribe(seen["few"].append),
            published.query(lambda q: q.where(lambda e: e.n >= 2)).subscribe(seen["many"].append),
            published.query(lambda q: q.tumbling(50).aggregate(of=wb.count(), total=wb.sum("n"))).subscribe(
                seen["windows"].append
            ),
        ]
        clicks.push([(1, "a"), (2, "b"), (15, "a")])
        clicks.advance(20)
        # Time goes on in what is published, too.
        until(lambda: len(seen["many"]) == 1 and len(seen["few"]) == 1)
        clicks.advance(200)
        until(lambda: len(seen["windows"]) == 1)
        clicks.close()
        assert all(job.wait(30) for job in jobs)
        assert published.job.wait(30)
    assert [(row.start, row.n) for row in seen["few"]] == [(20, 1)]
    assert [(row.start, row.n) for row in seen["many"]] == [(10, 2)]
    assert [(row.of, row.total) for row in seen["windows"]] == [(2, 3)]


def test_the_first_gets_all_and_a_late_one_what_comes_then() -> None:
    early: list[Any] = []
    late: list[Any] = []
    with wb.live(SCHEMA, time="time") as clicks, counts(clicks).publish() as published:
        clicks.push([(1, "a")])
        clicks.advance(10)
        until(lambda: published.job.rows_out == 1)
        first = published.subscribe(early.append)
        until(lambda: len(early) == 1)
        second = published.subscribe(late.append)
        clicks.push([(11, "a")])
        clicks.advance(20)
        until(lambda: len(late) == 1)
        first.stop()
        clicks.push([(21, "a")])
        clicks.close()
        assert second.wait(30)
    assert [row.start for row in late] == [20, 30]
    assert [row.start for row in early][:1] == [10]


def test_without_a_reader_it_goes_on() -> None:
    with wb.live(SCHEMA, time="time") as clicks, counts(clicks).publish() as published:
        with published.subscribe(print):
            clicks.push([(1, "a")])
        for at in range(10, 2000, 10):
            clicks.push([(at, "a")])
        clicks.close()
        assert published.job.wait(30)
        assert published.job.rows_out == 200


def test_a_result_in_shards() -> None:
    rows = [(i, "ab"[i % 2]) for i in range(100)]
    table = wb.from_rows(rows, schema=SCHEMA, time="time").reshard(3)
    published = table.query(lambda q: q.where(lambda e: e.item == "a")).publish()
    assert len(published.to_rows()) == 50
    assert published.job.wait(30)


def test_a_result_without_time_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="collect it, or maintain it"):
        wb.from_rows([(1, "a")], schema=SCHEMA).publish()


def test_who_reads_a_result_that_fails_fails_too() -> None:
    with wb.live(SCHEMA, time="time") as clicks:
        published = clicks.query(lambda q: q.select(x=lambda e: 10 // (e.time - 5), at="time")).publish()
        job = published.subscribe(lambda row: None)
        clicks.push([(1, "a"), (5, "b")])
        with pytest.raises(wb.DataError, match="publishes"):
            job.wait(30)
        with pytest.raises(wb.DataError, match="zero|division"):
            published.job.wait(30)


def test_who_reads_a_result_that_is_stopped_fails() -> None:
    with wb.live(SCHEMA, time="time") as clicks, counts(clicks).publish() as published:
        job = published.subscribe(print)
        clicks.push([(1, "a")])
        published.job.stop()
        with pytest.raises(wb.DataError, match="stopped"):
            job.wait(30)
