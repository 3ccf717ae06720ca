"""Streams with a clock for each partition: the relation is that of the keyed stream, and nobody waits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

Query = Callable[[wb.Stream], wb.Stream]

QUERIES: dict[str, Query] = {
    "tumbling": lambda q: q.tumbling(20).aggregate(n=wb.count(), s=wb.sum("v"), last=wb.last("v")),
    "hopping": lambda q: q.hopping(30, 10).aggregate(n=wb.count(), most=wb.max("v")),
    "sliding": lambda q: q.sliding(15).aggregate(mean=wb.avg("v")),
    "session": lambda q: q.session(8).aggregate(n=wb.count()),
    "distinct": lambda q: q.sliding(9).select("device", "v").distinct(),
    "join": lambda q: q.sliding(9).join(q.sliding(5).select("device", w="v"), on="device"),
    "anti": lambda q: q.sliding(9).where_not_exists(q.where(lambda e: e.v > 7).sliding(6), on="device"),
    "right": lambda q: q.sliding(9).join(q.sliding(5).select("device", w="v"), on="device", how="right"),
    "full": lambda q: q.sliding(9).join(q.sliding(5).select("device", w="v"), on="device", how="full"),
    "union": lambda q: q.sliding(4).union(q.sliding(9).where(lambda e: e.v < 5)),
    "pairs": lambda q: q.consecutive_pairs(on="device").select("device", by=lambda e: e.v_next - e.v),
    "stitch": lambda q: q.alter_duration(5).chop(2).select("device", "v").stitch(),
}


def rows_of(devices: int, count: int, seed: int) -> list[tuple[int, str, int]]:
    """Rows in order within each device; devices are interleaved at random, far apart in time."""
    chance = random.Random(seed)
    clocks = {f"d{i}": chance.randrange(100) for i in range(devices)}
    rows = []
    for _ in range(count):
        device = chance.choice(list(clocks))
        clocks[device] += chance.choice([0, 1, 1, 2, 3, 12])
        rows.append((clocks[device], device, chance.randrange(10)))
    return rows


def source(rows: list[tuple[int, str, int]], **settings: Any) -> wb.ShardedStream:
    return wb.from_rows(rows, schema=["at", "device", "v"], time="at", **settings)


def multiset(stream: wb.ShardedStream) -> list[str]:
    return sorted(map(repr, stream.query(lambda q: q.stitch()).to_rows()))


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("shards", [1, 3])
def test_partitions_give_the_relation_of_the_keyed_stream(name: str, shards: int) -> None:
    for seed in range(3):
        rows = rows_of(devices=6, count=120, seed=seed)
        # Rows of one device and instant stay in their order.
        keyed = source(sorted(rows, key=lambda row: row[0]), shards=1).rekey("device").query(QUERIES[name])
        partitioned = source(rows, shards=shards, partition_by="device").query(QUERIES[name])
        assert partitioned.key == ["device"]
        assert multiset(partitioned) == multiset(keyed)


def test_a_slow_device_is_not_late_and_none_waits_for_it() -> None:
    live = wb.live({"at": "int64", "device": "string", "v": "int64"}, time="at", partition_by="device")
    seen: list[Any] = []
    windows = live.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    with windows.subscribe(seen.append) as job:
        live.push([(1, "slow", 1), (105, "fast", 1), (125, "fast", 1)])
        until = time.monotonic() + 60
        while not seen and time.monotonic() < until:
            time.sleep(0.01)
        assert [(row.start, row.device, row.n) for row in seen] == [(110, "fast", 1)]
        live.push([(2, "slow", 1), (14, "slow", 1)])
        live.close()
        job.wait(10)
        assert job.late_rows == 0
    assert sorted((row.start, row.device, row.n) for row in seen) == [
        (10, "slow", 2),
        (20, "slow", 1),
        (110, "fast", 1),
        (130, "fast", 1),
    ]


@pytest.mark.parametrize("step", [1, 3, 100])
def test_what_is_late_by_the_lag_does_not_depend_on_batches(step: int) -> None:
    rows = [(1, "a", 1), (50, "b", 1), (20, "a", 2), (41, "a", 3), (90, "b", 4), (60, "a", 5), (81, "a", 6)]
    settings: dict[str, Any] = {"partition_by": "device", "lag": 10, "disorder": "drop"}
    schema = {"at": "int64", "device": "string", "v": "int64"}
    live = wb.live(schema, time="at", **settings)
    for first in range(0, len(rows), step):
        live.push(rows[first : first + step])
    live.close()
    kept = [(row.device, row.v) for row in live.to_rows()]
    assert sorted(kept) == [("a", 1), ("a", 3), ("a", 6), ("b", 1), ("b", 4)]


def test_late_rows_within_a_partition_are_an_error_that_names_the_row() -> None:
    with pytest.raises(wb.DataError, match="row 1 is out of order"):
        source([(5, "a", 1), (9, "b", 1), (3, "a", 1)], partition_by="device").to_rows()


def test_merged_partitions_are_in_one_order() -> None:
    rows = rows_of(devices=5, count=200, seed=7)
    merged = source(rows, partition_by=["device"]).merge_partitions()
    starts = [row.at for row in merged.to_rows()]
    assert starts == sorted(starts)
    counts = merged.rekey().query(lambda q: q.tumbling(25).aggregate(n=wb.count()))
    expected = source(sorted(rows)).query(lambda q: q.tumbling(25).aggregate(n=wb.count()))
    assert counts.to_rows() == expected.to_rows()


def test_partitions_travel_as_bytes() -> None:
    stream = source(rows_of(4, 60, 1), shards=2, partition_by="device", lag=500).query(QUERIES["tumbling"])
    assert "a clock for each device, lag 500" in stream.explain()
    assert multiset(wb.from_bytes(stream.to_bytes())) == multiset(stream)


def refused(build: Callable[[], Any], match: str) -> None:
    with pytest.raises(wb.InvalidError, match=match):
        build()


def test_what_puts_partitions_together_is_refused() -> None:
    rows = source(rows_of(3, 20, 2), partition_by="device")
    together = "merge_partitions"
    refused(lambda: rows.rekey().query(lambda q: q.tumbling(9).aggregate(n=wb.count())), together)
    refused(lambda: rows.rekey().query(lambda q: q.session(9)), together)
    refused(lambda: rows.query(lambda q: q.join(q, on="v")), together)
    refused(lambda: rows.query(lambda q: q.clip(q, on="v")), together)
    refused(lambda: rows.rekey().query(lambda q: q.drop("device")), together)
    other = source(sorted(rows_of(3, 20, 2)))
    refused(lambda: rows.query(other, lambda q, o: q.union(o)), together)
    refused(lambda: rows.query(other, lambda q, o: q.join(o, on="device", suffix="_o")), together)


def test_settings_are_checked() -> None:
    refused(lambda: source([(1, "a", 1)], partition_by="devise"), "devise")
    refused(lambda: source([(1, "a", 1)], lag=5), "partition_by")
    refused(lambda: source([(1, "a", 1)], partition_by="device", lag=-5), "lag")
    refused(lambda: source([(1, "a", 1)], partition_by=[]).merge_partitions(), "one clock already")
    floats = [(1, 1.5)]
    refused(lambda: wb.from_rows(floats, schema=["at", "x"], time="at", partition_by="x"), "partitions apart")
    refused(lambda: wb.from_rows([{"v": 1}], partition_by="v"), "time=")
