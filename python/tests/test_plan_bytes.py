"""Plans as bytes: another process reads them and has the same rows; what cannot travel is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_tpch
from test_tpch import tables as tables  # a fixture

import whimbrel as wb

ROOT = Path(__file__).parents[2]
FLIGHTS = str(ROOT / "data" / "nyc_flights_2013.parquet")


def in_another_process(program: str, folder: Path) -> Any:
    """Run a program in another process, with its input in a folder; give what it assigns to `answer`."""
    lines = [
        "import pickle, sys, pathlib",
        "import whimbrel as wb",
        f"folder = pathlib.Path({str(folder)!r})",
        program,
        "sys.stdout.buffer.write(pickle.dumps(answer))",
    ]
    made = subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, cwd="/")
    return pickle.loads(made.stdout)


def rows(stream: wb.ShardedStream) -> list[dict[str, Any]]:
    return [dict(row) for row in stream.to_rows()]


READ = """
plans = {path.name: wb.from_bytes(path.read_bytes()) for path in folder.glob("*.plan")}
answer = {name: [dict(row) for row in plan.to_rows()] for name, plan in plans.items()}
"""


@pytest.mark.parametrize("shards", [1, 3])
def test_tpch_is_answered_by_another_process(shards: int, tables: dict[str, Any], tmp_path: Path) -> None:
    expected = {}
    for number in range(1, 23):
        query = wb.sql(test_tpch.query(number), shards=shards, **tables)
        (tmp_path / f"{number}.plan").write_bytes(query.to_bytes())
        expected[f"{number}.plan"] = rows(query)
    assert in_another_process(READ, tmp_path) == expected


def test_equal_queries_have_equal_bytes_in_every_process(tables: dict[str, Any], tmp_path: Path) -> None:
    numbers = range(1, 23)
    queries = [test_tpch.query(number) for number in numbers]
    here = [wb.sql(query, shards=2, **tables).to_bytes() for query in queries]
    plan = "list(reversed([wb.sql(query, shards=2, **tables).to_bytes() for query in reversed(queries)]))"
    there = in_another_process(f"tables, queries = {tables!r}, {queries!r}\nanswer = {plan}", tmp_path)
    assert [number for number, a, b in zip(numbers, here, there, strict=True) if a != b] == []


def windows() -> wb.ShardedStream:
    flights = wb.read(FLIGHTS, time="sched_dep", disorder="adjust", shards=2)
    return flights.rekey("carrier").redistribute().query(lambda q: q.tumbling("30d").aggregate(n=wb.count()))


def test_a_stream_over_files_travels(tmp_path: Path) -> None:
    (tmp_path / "job.plan").write_bytes(windows().to_bytes())
    assert in_another_process(READ, tmp_path)["job.plan"] == rows(windows())


def test_the_command_runs_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "job.plan"
    path.write_bytes(wb.sql("select 6 * 7 as answer").to_bytes())
    command = [str(Path(sys.executable).parent / "whimbrel"), "run", str(path), "--format", "csv"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "answer\n42\n"
    path.write_bytes(b"nothing of the kind")
    failed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert failed.returncode == 1 and "no plan" in failed.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda: wb.from_rows([{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
        lambda: wb.from_rows([(0, "a"), (70, "b")], schema=["time", "item"], time="time"),
        lambda: wb.from_events([wb.interval(1, 3, {"v": 1}), wb.start_edge(2, {"v": 2})], schema=["v"]),
        lambda: wb.sql("select n, n % 2 as odd from range(5) t(n)"),
    ],
)
def test_plans_are_pickled(make: Callable[[], wb.ShardedStream]) -> None:
    stream = make()
    again = pickle.loads(pickle.dumps(stream))
    assert isinstance(again, wb.ShardedStream)
    assert rows(again) == rows(stream)
    assert again.to_bytes() == stream.to_bytes()


def test_python_s_division_travels() -> None:
    numbers = wb.from_rows([{"a": -7}, {"a": 7}])
    divided = numbers.query(lambda q: q.select(div=lambda e: e.a // 2, mod=lambda e: e.a % 3))
    assert rows(wb.from_bytes(divided.to_bytes())) == [{"div": -4, "mod": 2}, {"div": 3, "mod": 1}]


@pytest.mark.filterwarnings("ignore::whimbrel.UntracedLambdaWarning")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda s: wb.live({"a": "int64"}), "in this process only"),
        (lambda s: s.query(lambda q: q.where(lambda e: hash(e.a) > 0)), "belongs to this process"),
    ],
)
def test_what_is_of_this_process_is_refused(
    make: Callable[[wb.ShardedStream], wb.ShardedStream], reason: str
) -> None:
    with pytest.raises(wb.InvalidError, match=reason):
        make(wb.from_rows([{"a": 1}])).to_bytes()


@pytest.mark.filterwarnings("ignore::whimbrel.UntracedLambdaWarning")
def test_functions_of_python_travel_if_both_sides_allow_it(tmp_path: Path) -> None:
    offset = 10
    table = wb.from_rows([{"a": -3}, {"a": 4}, {"a": None}])
    plan = table.query(
        lambda q: q.where(lambda e: hash(str(e.a)) != 0).select(b=lambda e: len(str(e.a)) + offset)
    )
    with pytest.raises(wb.InvalidError, match="cloudpickle"):
        plan.to_bytes()
    job = plan.to_bytes(python_functions="pickle")
    with pytest.raises(wb.InvalidError, match='with python_functions="pickle"'):
        wb.from_bytes(job)
    expected = rows(plan)
    assert rows(wb.from_bytes(job, python_functions="pickle")) == expected
    assert rows(pickle.loads(pickle.dumps(plan))) == expected
    (tmp_path / "job.bytes").write_bytes(job)
    there = (
        "plan = wb.from_bytes((folder / 'job.bytes').read_bytes(), python_functions='pickle')\n"
        "answer = [dict(row) for row in plan.to_rows()]"
    )
    assert in_another_process(there, tmp_path) == expected
    locked = threading.Lock()
    held = table.query(lambda q: q.select(b=lambda e: (locked, len(str(e.a)))[1]))
    with pytest.raises(wb.InvalidError, match="belongs to this process"):
        held.to_bytes(python_functions="pickle")
    with pytest.raises(wb.InvalidError, match='"refuse" or "pickle"'):
        plan.to_bytes(python_functions="yes")  # pyright: ignore[reportArgumentType]


def test_damaged_bytes_are_refused() -> None:
    job = windows().to_bytes()
    for damaged in (b"", b"WBPL", job[:5], job[:20], job[:-1], job[:60] + b"\0" + job[61:], job + b"\0"):
        with pytest.raises(wb.InvalidError, match="no plan|damaged|cut off"):
            wb.from_bytes(damaged)
    other = job[:4] + b"\xff\xff" + job[6:]
    with pytest.raises(wb.InvalidError, match="form 65535; this one reads form"):
        wb.from_bytes(other)


def test_a_file_that_has_changed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    job = wb.read(str(path)).to_bytes()
    assert rows(wb.from_bytes(job)) == [{"a": 1}]
    path.write_text("a\n1\n2\n")
    with pytest.raises(wb.DataError, match=r"t\.csv` has changed .*: it had 4 bytes, and has 6"):
        wb.from_bytes(job)
    path.write_text("a\n3\n")
    os.utime(path, (1, 1))
    with pytest.raises(wb.DataError, match=r"t\.csv` has been written again"):
        wb.from_bytes(job)
    path.unlink()
    with pytest.raises(wb.DataError, match=r"t\.csv"):
        wb.from_bytes(job)


def test_files_that_come_later_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    job = wb.read(str(tmp_path / "*.csv")).to_bytes()
    (tmp_path / "2.csv").write_text("a\n2\n")
    assert rows(wb.from_bytes(job)) == [{"a": 1}]


def test_a_password_is_not_written() -> None:
    with pytest.raises(wb.WhimbrelError) as caught:
        wb.read("https://ann:s3cret@localhost:1/x.csv").to_bytes()
    assert "s3cret" not in str(caught.value)


def test_what_is_read_twice_is_written_once() -> None:
    table = wb.from_rows([{"a": n} for n in range(10_000)])
    once = table.to_bytes()
    both = table.query(table, lambda left, right: left.union(right))
    for _ in range(10):
        both = both.query(both, lambda left, right: left.union(right))
    assert len(both.to_bytes()) < len(once) + 10_000
