"""Live sources and subscriptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import whimbrel as wb

SCHEMA = {"time": "int64", "item": "string"}


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def counts(stream: wb.ShardedStream) -> wb.ShardedStream:
    return stream.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))


@pytest.mark.parametrize("runtime", ["local", "library"])
def test_results_come_as_they_become_final(runtime: Any) -> None:
    live = wb.live(SCHEMA, time="time")
    seen: list[Any] = []
    with counts(live).subscribe(seen.append, runtime=runtime) as subscription:
        live.push([(1, "a"), (5, "b")])
        live.push([{"time": 12, "item": "a"}])
        eventually(lambda: len(seen) == 1)
        assert seen == [{"start": 10, "end": 20, "n": 2}]
        live.advance(30)
        eventually(lambda: len(seen) == 2)
        live.push(pl.DataFrame({"time": [31], "item": ["z"]}))
        assert not subscription.done
        live.close()
        assert subscription.wait(10)
        assert subscription.done
    assert [row.n for row in seen] == [2, 1, 1]
    assert (subscription.rows_read, subscription.rows_out, subscription.late_rows) == (4, 3, 0)


def test_late_rows_are_counted_and_shown() -> None:
    live = wb.live(SCHEMA, time="time", disorder="drop", reorder_latency=5)
    seen: list[Any] = []
    late: list[Any] = []
    with counts(live).subscribe(seen.append, late=late.append) as subscription:
        live.push([(1, "a"), (20, "b"), (16, "c"), (3, "late")])
        live.close()
        assert subscription.wait(10)
    assert subscription.late_rows == 1
    assert [row.n for row in seen] == [1, 1, 1]
    assert [table["time"] for table in late] == [[3]]
    assert "1 late" in repr(subscription)


def test_forms_of_results() -> None:
    live = wb.live_events({"item": "string"})
    events: list[Any] = []
    tables: list[Any] = []
    with (
        live.subscribe(events.append, form="events") as first,
        live.subscribe(tables.append, form="tables") as second,
    ):
        live.push([wb.start_edge(1, {"item": "a"})])
        live.push([wb.end_edge(1, 4, {"item": "a"}), wb.punctuation(10)])
        live.close()
        assert first.wait(10) and second.wait(10)
    assert [event.kind for event in events if event.kind != "punctuation"] == ["start", "end"]
    assert [dict(row) for table in tables for row in table] == [{"start": 1, "end": 4, "item": "a"}]


def test_a_callback_that_fails_ends_the_query() -> None:
    def fail(row: Any) -> None:
        raise KeyError("no room")

    live = wb.live(SCHEMA, time="time")
    subscription = live.subscribe(fail)
    live.push([(1, "a"), (2, "b")])
    with pytest.raises(wb.DataError, match="subscribed failed.*KeyError") as caught:
        subscription.wait(10)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(wb.DataError, match="subscribed failed.*KeyError"):
        live.push([(3, "c")])


def test_stop_and_timeout() -> None:
    live = wb.live(SCHEMA, time="time")
    subscription = live.subscribe(print)
    assert subscription.wait(0.05) is False
    assert "running" in repr(subscription)
    subscription.stop()
    assert subscription.wait(10)
    assert "ended" in repr(subscription)


def test_iterables_feed_a_source() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        for n in range(25):
            yield {"time": n, "item": "x"}

    assert [row.n for row in counts(wb.live(rows(), time="time")).to_rows()] == [10, 10, 5]
    batches = (pl.DataFrame({"time": [n, n], "item": ["x", "y"]}) for n in range(25))
    assert [row.n for row in counts(wb.live(batches, time="time")).to_rows()] == [20, 20, 10]
    tuples = iter([(1, "a"), (2, "b")])
    assert len(wb.live(tuples, time="time", schema=SCHEMA).to_rows()) == 2


def test_an_iterable_that_fails_fails_the_query() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield {"time": 1, "item": "x"}
        raise OSError("the line is dead")

    with pytest.raises(wb.DataError, match="the line is dead") as caught:
        counts(wb.live(rows(), time="time")).collect()
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(wb.DataError, match="the line is dead"):
        counts(wb.live(rows(), time="time")).subscribe(print).wait(10)


def test_show_of_an_endless_source_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def forever() -> Iterator[dict[str, Any]]:
        n = 0
        while True:
            yield {"time": n, "item": "x"}
            n += 1

    wb.live(forever(), time="time").show(3)
    assert capsys.readouterr().out.count("│ x") == 3


def test_a_live_source_gives_what_a_table_gives(clicks: wb.ShardedStream) -> None:
    rows = [tuple(dict(row).values())[2:] for row in clicks.to_rows()]
    live = wb.live(clicks.schema, time="time")
    live.push(rows)
    live.close()
    assert counts(live).to_rows() == counts(clicks).to_rows()


def test_several_shards_and_instants() -> None:
    live = wb.live({"t": "timestamp[us]", "n": "int64"}, time="t", shards=2)
    live.push([(datetime(2020, 1, 1), 1)], shard=0)
    live.push([(datetime(2020, 1, 1), 2)], shard=1)
    live.advance(datetime(2020, 1, 2))
    live.advance(datetime(2020, 1, 3), shard=1)
    live.close()
    assert sorted(row.n for row in live.to_rows()) == [1, 2]


def test_wrong_pushes() -> None:
    live = wb.live(SCHEMA, time="time")
    with pytest.raises(wb.InvalidError, match="which is no int64"):
        live.push([("x", "a")])
    with pytest.raises(wb.InvalidError, match="no shard 1"):
        live.push([(1, "a")], shard=1)
    with pytest.raises(wb.InvalidError):
        live.push(pl.DataFrame({"other": [1]}))
    live.close()
    with pytest.raises(wb.DataError, match="closed"):
        live.push([(1, "a")])
    with pytest.raises(wb.InvalidError, match="no time to advance"):
        wb.live(SCHEMA).advance(5)
    with pytest.raises(wb.InvalidError, match="the iterable is empty"):
        wb.live(iter([]))
    with pytest.raises(wb.InvalidError, match="live takes a schema"):
        wb.live(5)
    with pytest.raises(wb.InvalidError, match="form is"):
        live.subscribe(print, form="lines")  # pyright: ignore[reportArgumentType]


def test_a_push_without_room_times_out_and_leaves_nothing_behind() -> None:
    release = threading.Event()
    live = wb.live(SCHEMA, time="time")
    seen: list[Any] = []

    def slow(row: Any) -> None:
        release.wait(30)
        seen.append(row.time)

    subscription = live.subscribe(slow)
    sent = 0
    with pytest.raises(wb.UnavailableError, match="no room for the rows within 0.2 s, and none was sent"):
        for sent in range(10_000):
            live.push([(sent, "a")], timeout=0.2)
    release.set()
    live.push([(sent, "b")], timeout=timedelta(seconds=30))
    live.close()
    assert subscription.wait(30)
    assert seen == list(range(sent + 1))


def test_no_value_is_lost() -> None:
    import pyarrow as pa

    for dtype, value in (
        ("int64", 2.5),
        ("bool", 5),
        ("decimal[5, 1]", Decimal("1.26")),
        ("float64", 2**53 + 1),
    ):
        source = wb.live({"v": dtype})
        with pytest.raises(wb.InvalidError, match='column "v".*would be another value'):
            source.push(pa.table({"v": [value]}))
    source = wb.live({"v": "int64"})
    source.push(pa.table({"v": [2.0, None]}))
    with pytest.raises(wb.InvalidError, match='column "w" is none of the source\'s: v'):
        source.push([{"w": 1}])
    with pytest.raises(wb.InvalidError, match="a row of 2 values for 1 columns"):
        source.push([(1, 2)])
    with pytest.raises(wb.InvalidError, match="its type is not known; give schema="):
        wb.live(iter([{"v": None}, {"v": 2.5}]))
    with pytest.raises(wb.InvalidError, match="no decimal"):
        wb.live({"v": "decimal[5, 1]"}).push([{"v": Decimal("1.26")}])


@pytest.mark.parametrize(
    "columns", ["window_start, window_end, k", "window_end, k", "k, window_end, window_start"]
)
def test_sessions_of_keys_may_leave_out_a_column(columns: str) -> None:
    source = wb.live({"time": "int64", "k": "string"}, time="time")
    query = f"""
        select {columns}, count(*) as n
        from session(table s partition by k, descriptor(time), 5) group by {columns}
    """
    found: list[tuple] = []
    job = wb.sql(query, s=source).subscribe(lambda row: found.append((row.window_end, row.k, row.n)))
    source.push([(1, "a"), (2, "b"), (4, "a"), (20, "a")])
    source.close()
    job.wait()
    assert sorted(found) == [(7, "b", 1), (9, "a", 2), (25, "a", 1)]
