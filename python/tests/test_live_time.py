"""Time that goes on while no rows come: idle shards, and rows that have the time of their arrival."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string"}


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that a clock does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def counts(stream: wb.ShardedStream) -> wb.ShardedStream:
    return stream.reshard(1).query(lambda q: q.tumbling(10).aggregate(n=wb.count()))


def test_an_idle_shard_holds_nobody_back() -> None:
    seen: list[Any] = []
    with (
        wb.live(SCHEMA, time="time", shards=3, idle="100ms", disorder="drop") as clicks,
        counts(clicks).subscribe(seen.append) as subscription,
    ):
        clicks.push([(1, "a")], shard=0)
        clicks.push([(2, "a")], shard=1)
        while len(seen) < 1:
            # The third shard has never had a row.
            clicks.push([(15, "b")], shard=0)
            clicks.push([(17, "b")], shard=1)
            time.sleep(0.01)
        assert tuple(seen[0]) == (10, 20, 2)
        assert clicks.push([(14, "late")], shard=2) is None
        until(lambda: subscription.late_rows == 1)


def test_the_slowest_shard_that_is_not_idle_counts() -> None:
    seen: list[Any] = []
    with (
        wb.live(SCHEMA, time="time", shards=3, idle="50ms") as clicks,
        counts(clicks).subscribe(seen.append),
    ):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            clicks.push([(8, "a")], shard=0)
            clicks.push([(100, "a")], shard=1)
            time.sleep(0.01)
        assert seen == []


def test_when_all_are_idle_time_stands_still() -> None:
    seen: list[Any] = []
    with (
        wb.live(SCHEMA, time="time", shards=2, idle="20ms") as clicks,
        counts(clicks).subscribe(seen.append) as subscription,
    ):
        clicks.push([(1, "a")], shard=0)
        time.sleep(0.2)
        clicks.push([(2, "a")], shard=0)
        clicks.close()
        assert subscription.wait(30)
        assert [tuple(row) for row in seen] == [(10, 20, 2)]


def test_rows_have_the_time_of_their_arrival() -> None:
    seen: list[Any] = []
    began = datetime.now(timezone.utc)
    with wb.live({"item": "string"}, arrival="at", latency="20ms", shards=2) as clicks:
        windows = clicks.reshard(1).query(lambda q: q.tumbling("100ms").aggregate(n=wb.count()))
        with windows.subscribe(seen.append):
            clicks.push([("a",), ("b",)], shard=0)
            clicks.push([("c",)], shard=1)
            # Nothing else is pushed, and the windows end all the same.
            until(lambda: sum(row.n for row in seen) == 3)
            assert began - timedelta(seconds=1) < seen[0].start < began + timedelta(seconds=30)
            with pytest.raises(wb.InvalidError, match="by itself"):
                clicks.advance(datetime.now(timezone.utc))


def test_arrivals_are_in_order_from_many_threads() -> None:
    from threading import Thread

    with wb.live({"n": "int64"}, arrival="at", latency="1ms") as stream:
        job = stream.query(lambda q: q.select("n", "at")).subscribe(lambda row: rows.append(row))
        rows: list[Any] = []
        threads = [Thread(target=lambda: [stream.push([(1,)]) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.close()
        assert job.wait(30)
        assert len(rows) == 800
        assert [row.at for row in rows] == sorted(row.at for row in rows)


def test_a_job_goes_on_with_the_times_of_its_log(tmp_path: pathlib.Path) -> None:
    def run(total: int) -> None:
        stream = wb.live({"n": "int64"}, arrival="at", latency="20ms", log=tmp_path / "log")
        stream.push([(1,), (2,)])
        query = stream.query(lambda q: q.tumbling("50ms").aggregate(total=wb.sum("n")))
        job = query.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", wait=False)
        until(lambda: sum(row.total for row in results()) >= total)
        job.stop()
        stream.close()
        assert sum(row.total for row in results()) == total

    def results() -> list[Any]:
        return wb.read(tmp_path / "out").to_rows() if any((tmp_path / "out").glob("*.parquet")) else []

    run(3)
    # The log was closed: whoever opens it again goes on after its end.
    with pytest.raises(wb.DataError, match="closed"):
        run(6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arrival": "time"}, "already"),
        ({"arrival": "at", "time": "time"}, "arrival"),
        ({"idle": "1s"}, "time="),
        ({"time": "time", "idle": "-1s"}, "idle"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        wb.live(SCHEMA, **settings)
