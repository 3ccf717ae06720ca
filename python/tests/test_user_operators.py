"""Operators of a user's own over batches: columns, places, state, sharding, checkpoints, errors."""

from __future__ import annotations

import gc
import math
import threading
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

ROWS = [(n, "abc"[n * 7 % 3], n * 37 % 101) for n in range(500)]


class Totals:
    """The running total of each key."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def process(self, rows: pa.RecordBatch) -> dict[str, list[int]]:
        made = []
        for key, value in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True):
            self.totals[key] = self.totals.get(key, 0) + value
            made.append(self.totals[key])
        return {"total": made}


def events(rows: list[tuple] = ROWS) -> wb.ShardedStream:
    return wb.from_rows(rows, schema={"t": "int64", "k": "string", "v": "int64"}, time="t")


def totals(rows: list[tuple] = ROWS) -> list[tuple]:
    seen: dict[str, int] = {}
    expected = []
    for t, key, value in rows:
        seen[key] = seen.get(key, 0) + value
        expected.append((t, t + 1, key, seen[key]))
    return expected


def values(stream: wb.ShardedStream, **settings: Any) -> list[tuple]:
    return [tuple(dict(row).values()) for row in stream.to_rows(**settings)]


@pytest.mark.parametrize("runtime", ["library", "local"])
def test_a_row_is_made_of_each(runtime: Any) -> None:
    stream = events().rekey("k").query(lambda q: q.process(Totals, returns={"total": "int64"}))
    assert values(stream, runtime=runtime) == totals()
    assert "process with Totals, with k" in stream.explain()


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_state_for_each_key_makes_shards_equal(shards: int) -> None:
    moved = events().rekey("k").redistribute(shards)
    stream = moved.query(lambda q: q.process(Totals, returns={"total": "int64"}))
    assert sorted(values(stream)) == totals()


def test_rows_one_by_one() -> None:
    live = wb.live({"t": "int64", "k": "string", "v": "int64"}, time="t")
    got: list[Any] = []
    stream = live.rekey("k").query(lambda q: q.process(Totals, returns={"total": "int64"}))
    job = stream.subscribe(got.append)
    for row in ROWS[:200]:
        live.push([row])
    live.close()
    assert job.wait(60)
    assert sorted(tuple(dict(row).values())[:4] for row in got) == totals(ROWS[:200])


class Jumps:
    """A row for each value that is larger than the one before, and two for each that is twice as large."""

    last: int | None = None

    def process(self, rows: pa.RecordBatch) -> tuple[dict[str, list[int]], list[int]]:
        made, of = [], []
        for place, value in enumerate(rows["v"].to_pylist()):
            times = 0 if self.last is None or value <= self.last else 2 if value >= 2 * self.last else 1
            made += [value] * times
            of += [place] * times
            self.last = value
        return {"jump": made}, of


def test_rows_are_made_of_some_rows() -> None:
    expected, last = [], None
    for t, _, value in ROWS:
        if last is not None and value > last:
            expected += [(t, t + 1, value)] * (2 if value >= 2 * last else 1)
        last = value
    stream = events().query(lambda q: q.process(Jumps, returns={"jump": "int64"}, name="jumps"))
    assert values(stream) == expected
    counted = events().query(
        lambda q: q.process(Jumps, returns={"jump": "int64"}).tumbling(1000).aggregate(n=wb.count())
    )
    assert values(counted) == [(1000, 2000, len(expected))]


def test_windows_keep_their_lifetimes() -> None:
    class Doubled:
        def process(self, rows: pa.RecordBatch) -> pa.Table:
            return pa.table({"twice": pa.array([2 * n for n in rows["n"].to_pylist()])})

    windows = events().query(
        lambda q: q.tumbling(100).aggregate(n=wb.count()).process(Doubled, returns={"twice": "int32"})
    )
    assert values(windows) == [(start, start + 100, 200) for start in range(100, 600, 100)]


def test_filters_stay_above_and_columns_are_kept() -> None:
    stream = (
        events()
        .rekey("k")
        .query(
            lambda q: (
                q.process(Totals, returns={"total": "int64"}).where(lambda e: e.k == "b").select("total")
            )
        )
    )
    assert values(stream) == [(s, e, key, total) for s, e, key, total in totals() if key == "b"]


class Wrong:
    """An operator that gives what it is told to."""

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def process(self, rows: pa.RecordBatch) -> Any:
        return self.gives() if callable(self.gives) else self.gives


def fails() -> None:
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ({"x": [1]}, "gave 1 rows for 3, and did not say of which each is made"),
        (({"x": [1, 2]}, [0]), "gave 2 rows, and said of 1 of which they are made"),
        (({"x": [1, 2]}, [0, 3]), "made rows of such as are not among the 3 rows"),
        (({"x": [1, 2]}, [0, None]), "wrong failed"),
        (({"x": [1, 2]}, [1, 0]), "gave rows out of order"),
        (({"x": [1]}, [-1]), "wrong failed"),
        ({"y": [1, 2, 3]}, "wrong failed"),
        ({"x": [1, 2, 3], "y": [1, 2, 3]}, "wrong failed"),
        ({"x": ["a", "b", "c"]}, "wrong failed"),
        (None, "wrong failed"),
        ([1, 2, 3], "wrong failed"),
        (fails, "wrong failed"),
    ],
)
def test_what_is_wrong_is_said(gives: Any, message: str) -> None:
    three = events(ROWS[:3])
    stream = three.query(lambda q: q.process(lambda: Wrong(gives), returns={"x": "int64"}, name="wrong"))
    with pytest.raises(wb.DataError, match=message) as raised:
        stream.to_rows()
    if gives is fails:
        assert isinstance(raised.value.__cause__, LookupError)


def test_nothing_may_come_of_a_batch() -> None:
    none = events().query(lambda q: q.process(lambda: Wrong(({"x": []}, [])), returns={"x": "int64"}))
    assert none.to_rows() == []
    assert events([]).query(lambda q: q.process(Totals, returns={"total": "int64"})).to_rows() == []


def test_what_cannot_be_processed_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="process"):
        wb.from_rows([{"a": 1}]).query(lambda q: q.process(Totals, returns={"total": "int64"}))
    with pytest.raises(wb.InvalidError, match="no class"):
        events().query(lambda q: q.process(3, returns={"x": "int64"}))  # type: ignore[arg-type]
    with pytest.raises(wb.InvalidError, match="say what it returns"):
        events().query(lambda q: q.process(Totals, returns={}))
    with pytest.raises(wb.InvalidError, match="is a column of the key"):
        events().rekey("k").query(lambda q: q.process(Totals, returns={"k": "int64"}))
    with pytest.raises(wb.InvalidError, match="may be known only later"):
        events().query(lambda q: q.alter_duration(math.inf).process(Totals, returns={"total": "int64"}))
    with pytest.raises(wb.DataError, match="cannot start") as raised:
        events().query(lambda q: q.process(fails, returns={"x": "int64"}, name="wrong")).to_rows()
    assert isinstance(raised.value.__cause__, LookupError)
    with pytest.raises(wb.DataError, match="cannot start"):
        events().query(lambda q: q.process(dict, returns={"x": "int64"})).to_rows()


def test_a_plan_with_one_stays_here() -> None:
    stream = events().query(lambda q: q.process(Totals, returns={"total": "int64"}))
    with pytest.raises(wb.InvalidError, match="the operator Totals is an object of this process"):
        stream._plan.to_bytes(False)


def test_many_threads_at_once() -> None:
    stream = events().rekey("k").query(lambda q: q.process(Totals, returns={"total": "int64"}))
    results: list[list[tuple]] = []
    threads = [threading.Thread(target=lambda: results.append(values(stream))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [totals()] * 8


def test_nothing_is_left() -> None:
    def alive() -> int:
        gc.collect()
        return len([of for of in gc.get_objects() if isinstance(of, Totals)])

    before = alive()
    for _ in range(3):
        values(events().rekey("k").query(lambda q: q.process(Totals, returns={"total": "int64"})))
    assert alive() <= before
