"""Time that goes on while no rows come: idle shards, and rows that have the time of their arrival."""

from __future__ import annotations

import pathlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
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


class Partition:
    """A shard of a source that can be read again, into which a test puts rows."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def advance(self, position: int | None) -> int | None:
        return len(self.rows) or position

    def read(self, start: int | None, end: int) -> Iterator[Any]:
        yield wb.from_rows([{"time": time} for time in self.rows[start or 0 : end]]).collect()


class Topic:
    """A source of partitions."""

    name, schema = "topic", {"time": "int64"}

    def __init__(self, shards: int) -> None:
        self.partitions = [Partition() for _ in range(shards)]
        self.shards = shards

    def open(self, shard: int) -> Partition:
        return self.partitions[shard]


def test_idle_partitions_hold_nobody_back() -> None:
    topic, seen = Topic(3), []
    windows = counts(wb.from_source(topic, time="time", idle="50ms", disorder="drop"))
    with windows.subscribe(seen.append):
        topic.partitions[0].rows += [1, 5]
        topic.partitions[1].rows += [3, 25]
        # Only the first goes on; the third has never had a row.
        topic.partitions[0].rows += [31, 45]
        while len(seen) < 3:
            topic.partitions[0].rows.append(topic.partitions[0].rows[-1] + 1)
            time.sleep(0.02)
    assert [(row.start, row.n) for row in seen[:3]] == [(10, 3), (30, 1), (40, 1)]


def test_without_idle_everybody_waits() -> None:
    topic, seen = Topic(2), []
    with counts(wb.from_source(topic, time="time")).subscribe(seen.append):
        topic.partitions[0].rows += [1, 5, 31]
        time.sleep(0.3)
    assert seen == []


def test_an_idle_source_holds_no_other_back() -> None:
    left, right, seen = Topic(1), Topic(1), []
    sources = [wb.from_source(topic, time="time", idle="50ms", disorder="drop") for topic in (left, right)]
    windows = [source.query(lambda q: q.tumbling(10).aggregate(n=wb.count())) for source in sources]
    both = windows[0].query(windows[1], lambda a, b: a.union(b))
    with both.subscribe(seen.append):
        right.partitions[0].rows += [2]
        left.partitions[0].rows += [1]
        for at in range(20, 400, 5):
            left.partitions[0].rows.append(at)
            time.sleep(0.02)
            if len(seen) > 2:
                break
    assert Counter((row.start, row.n) for row in seen)[10, 1] == 2


def test_promises_of_idle_shards_are_on_the_tape(tmp_path: pathlib.Path) -> None:
    topic = Topic(2)
    windows = counts(wb.from_source(topic, time="time", idle="20ms", disorder="drop"))
    out, state = tmp_path / "out", tmp_path / "state"

    def ended() -> list[tuple[int, int]]:
        rows = wb.read(out).to_rows() if list(out.glob("*.parquet")) else []
        return sorted((row.start, row.n) for row in rows)

    topic.partitions[0].rows += [1, 5]
    with windows.run_forever(out, checkpoint=state, every="10ms", wait=False):
        while not ended():
            # Only the first partition goes on.
            topic.partitions[0].rows.append(topic.partitions[0].rows[-1] + 4)
            time.sleep(0.05)
    assert ended()[0] == (10, 3)
    # The second shard has promised that nothing so early will come.
    topic.partitions[1].rows += [2, 3, 5000]
    topic.partitions[0].rows += [5000]
    windows.run_forever(out, checkpoint=state, every="10ms", stop_when_idle="300ms")
    assert ended()[0] == (10, 3)


def test_idle_is_for_sources_that_are_read_with_a_time() -> None:
    with pytest.raises(wb.InvalidError, match="idle= says how to deal with time"):
        wb.from_source(Topic(1), idle="1s")
    with pytest.raises(wb.InvalidError, match="there is no setting idle="):
        wb.from_rows([{"time": 1}], time="time", idle="1s")
    with pytest.raises(wb.InvalidError, match="idle"):
        wb.from_source(Topic(1), time="time", idle="1 parsec")
