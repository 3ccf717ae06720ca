"""Sources and sinks that are written in Python, in jobs that survive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb


class Numbers:
    """A log of numbers, each at its own time, in some shards; it grows when it is told to."""

    def __init__(self, length: int, shards: int = 1, end: bool = True) -> None:
        self.name = "numbers"
        self.schema = {"time": "int64", "n": "int64"}
        self.shards = shards
        self.length = length
        self.end = end

    def open(self, shard: int) -> NumbersShard:
        return NumbersShard(self, shard)


class NumbersShard:
    """Every so many-th number. Positions are objects, as those of a log with partitions."""

    def __init__(self, numbers: Numbers, shard: int) -> None:
        self.numbers = numbers
        self.shard = shard

    def advance(self, position: Any) -> Any:
        start = self.shard if position is None else position["next"]
        if start >= self.numbers.length:
            return wb.END if self.numbers.end else position
        return {"next": min(start + 7 * self.numbers.shards, self.numbers.length + self.shard)}

    def read(self, start: Any, end: Any) -> Iterator[pa.Table]:
        first = self.shard if start is None else start["next"]
        numbers = range(first, min(end["next"], self.numbers.length), self.numbers.shards)
        for part in (numbers[:3], numbers[3:]):
            yield pa.table({"time": pa.array(part, "int32"), "n": pa.array(part, "int64")})


class Rows:
    """Keeps rows and the number of the last epoch, and fails when it is told to."""

    def __init__(self) -> None:
        self.rows: list[wb.Row] = []
        self.written: list[wb.Row] = []
        self.epoch: int | None = None
        self.generation = 0
        self.fails_at: int | None = None

    def open(self, job: str, generation: int, schema: wb.Schema) -> int | None:
        assert list(schema) == ["start", "end", "n", "sum"]
        assert generation > self.generation
        self.generation, self.written = generation, []
        return self.epoch

    def write(self, rows: wb.Table) -> None:
        self.written += list(rows)

    def commit(self, epoch: int) -> None:
        if self.fails_at is not None and len(self.rows) + len(self.written) >= self.fails_at:
            raise OSError("no room")
        self.rows += self.written
        self.written, self.epoch = [], epoch


def count(source: wb.ShardedStream) -> wb.ShardedStream:
    return source.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), sum=wb.sum("n")))


def windows(length: int) -> list[tuple[int, int, int, int]]:
    return [(t + 10, t + 20, 10, sum(range(t, t + 10))) for t in range(0, length, 10)]


def test_a_source_of_python_is_read_like_any_other() -> None:
    rows = count(wb.from_source(Numbers(40), time="time")).to_rows()
    assert sorted(tuple(dict(row).values()) for row in rows) == windows(40)
    relation = wb.from_source(Numbers(10, shards=3)).query(lambda q: q.select("n"))
    assert sorted(row.n for row in relation.to_rows()) == list(range(10))


def test_a_sink_of_python_has_each_row_once(tmp_path: Path) -> None:
    sink = Rows()
    for fails_at in (1, 3, None):
        sink.fails_at = fails_at
        source = wb.from_source(Numbers(60), time="time")

        def run(source: wb.ShardedStream = source) -> wb.Job:
            return count(source).run_forever(sink, checkpoint=tmp_path / "state", every="1ms")

        if fails_at is None:
            run()
        else:
            with pytest.raises(wb.DataError, match=r"the sink failed.*no room") as failed:
                run()
            assert isinstance(failed.value.__cause__, OSError)
    assert sorted(tuple(dict(row).values()) for row in sink.rows) == windows(60)


def test_a_source_of_another_name_is_refused(tmp_path: Path) -> None:
    numbers = Numbers(20)
    count(wb.from_source(numbers, time="time")).run_forever(Rows(), checkpoint=tmp_path / "state")
    numbers.name = "other numbers"
    with pytest.raises(wb.DataError, match="of another query or of other tables"):
        count(wb.from_source(numbers, time="time")).run_forever(Rows(), checkpoint=tmp_path / "state")


def test_errors_of_sources_say_whose_they_are(tmp_path: Path) -> None:
    class Broken(NumbersShard):
        def read(self, start: Any, end: Any) -> Iterator[pa.Table]:
            if start is not None:
                raise OSError("the log is gone")
            return super().read(start, end)

    numbers = Numbers(40)
    numbers.open = lambda shard: Broken(numbers, shard)  # type: ignore[method-assign]
    with pytest.raises(wb.DataError, match="the source numbers failed: OSError: the log is gone"):
        count(wb.from_source(numbers, time="time")).to_rows()
    numbers.schema = {"time": "int64", "m": "int64"}
    numbers.open = lambda shard: NumbersShard(numbers, shard)  # type: ignore[method-assign]
    with pytest.raises(wb.InvalidError, match="m"):
        wb.from_source(numbers, time="time").to_rows()
    with pytest.raises(wb.InvalidError, match="ReplayableSource"):
        wb.from_source(object())  # type: ignore[arg-type]
    with pytest.raises(wb.InvalidError, match="at least one"):
        wb.from_source(Numbers(1, shards=0))
    source = wb.from_rows([{"time": 1, "n": 1}], time="time")
    with pytest.raises(wb.InvalidError, match="format="):
        count(source).run_forever(Rows(), checkpoint=tmp_path / "state", format="parquet")


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 1), (1, 4)])
def test_a_job_keeps_its_number_of_shards(tmp_path: Path, first: int, second: int) -> None:
    root = tmp_path / "in"
    root.mkdir()

    def run(shards: int) -> wb.Job:
        with wb.config(shards=shards):
            clicks = wb.follow(root / "*.csv", time="time", schema={"time": "int64", "item": "string"})
            counts = (
                clicks.rekey("item").redistribute().query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
            )
            return counts.run_forever(
                tmp_path / "out", checkpoint=tmp_path / "state", every="1ms", stop_when_idle="50ms"
            )

    def write(day: int) -> None:
        lines = [f"{day * 10 + t},{'abcdef'[(t + day) % 6]}" for t in range(10)]
        (root / f"{day}.csv").write_text("\n".join(["time,item", *lines, ""]))

    for day, shards in enumerate([first, second, first]):
        write(day)
        run(shards)
    write(3)
    assert run(second).restored_from is not None
    rows = [tuple(dict(row).values()) for row in wb.read(tmp_path / "out").to_rows()]
    assert len(rows) == len(set(rows)) == 3 * 6
    assert sum(row[-1] for row in rows) == 30
