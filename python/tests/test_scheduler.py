"""Queries that take turns on the threads of a scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whimbrel as wb


@pytest.fixture(params=[1, 3])
def scheduler(request: pytest.FixtureRequest) -> wb.Scheduler:
    return wb.Scheduler(threads=request.param)


def sensor() -> wb.LiveStream:
    return wb.live({"time": "int64", "value": "int64"}, time="time")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_queries_that_wait_take_no_thread(scheduler: wb.Scheduler) -> None:
    before = threads()
    seen: list[Any] = []
    sensors = [sensor() for _ in range(100)]
    queries = [s.query(lambda q: q.tumbling(10).aggregate(n=wb.count())) for s in sensors]
    running = [query.subscribe(seen.append, runtime=scheduler) for query in queries]
    assert scheduler.queries == 100
    for _ in range(20):
        for number, s in enumerate(sensors):
            s.push([(number, 1)])
    assert threads() <= before + 5
    for s in sensors:
        s.close()
    for job in running:
        job.wait()
    assert sorted(row.start for row in seen) == sorted(number // 10 * 10 + 10 for number in range(100))
    assert all(row.n == 20 for row in seen) and scheduler.queries == 0


PROGRAMS: list[Callable[[wb.ShardedStream], wb.ShardedStream]] = [
    lambda s: s.query(lambda q: q.where(lambda e: e.v > 3).select(double=lambda e: e.v * 2)),
    lambda s: s.rekey("k").redistribute(3).query(lambda q: q.tumbling(10).aggregate(total=wb.sum("v"))),
    lambda s: wb.sql("select a.k, a.v, b.v as w from s a join s b on a.k = b.k and a.t = b.t", s=s),
    lambda s: wb.sql("select k, count(*) as n from s group by k order by k", s=wb.from_arrow(s.to_arrow())),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_answers_are_those_of_other_runtimes(
    program: Callable[[wb.ShardedStream], wb.ShardedStream], scheduler: wb.Scheduler
) -> None:
    rows = [(n, n % 7, n % 5) for n in range(200)]
    query = program(wb.from_rows(rows, ["t", "k", "v"], time="t", shards=2))
    expected = sorted(map(tuple, query.to_rows(runtime="library")))
    assert sorted(map(tuple, query.to_rows(runtime=scheduler))) == expected
    with wb.config(runtime=scheduler):
        assert sorted(map(tuple, query.to_rows())) == expected


def test_a_query_that_fails_leaves_others_alone(scheduler: wb.Scheduler) -> None:
    good, bad = sensor(), sensor()
    seen: list[Any] = []
    goes_on = good.subscribe(seen.append, runtime=scheduler)

    def refuse(row: wb.Row) -> None:
        raise ValueError(f"no {row.value}")

    fails = bad.subscribe(refuse, runtime=scheduler)
    divides = wb.sql("select 1 / (v - v) as w from t", t=wb.from_rows([(1,)], ["v"]))
    with pytest.raises(wb.DataError, match="zero"):
        divides.to_rows(runtime=scheduler)
    bad.push([(1, 7)])
    bad.close()
    with pytest.raises(wb.DataError, match="ValueError: no 7"):
        fails.wait()
    good.push([(1, 2)])
    good.close()
    goes_on.wait()
    assert [row.value for row in seen] == [2] and scheduler.queries == 0


def test_a_query_that_is_stopped_gives_its_place_back(scheduler: wb.Scheduler) -> None:
    source = sensor()
    job = source.subscribe(print, runtime=scheduler)
    assert scheduler.queries == 1 and not job.done
    job.stop()
    job.wait()
    assert scheduler.queries == 0
    with sensor().subscribe(print, runtime=scheduler):
        assert scheduler.queries == 1


def test_a_function_of_a_query_may_run_another_one(scheduler: wb.Scheduler) -> None:
    source = sensor()
    seen: list[int] = []

    def look_up(row: wb.Row) -> None:
        (found,) = wb.sql(f"select {row.value} + 1 as n").to_rows(runtime=scheduler)
        seen.append(found.n)

    job = source.subscribe(look_up, runtime=scheduler)
    source.push([(1, 5), (2, 6)])
    source.close()
    job.wait()
    assert seen == [6, 7]


def test_a_query_that_computes_for_long_does_not_hold_up_others() -> None:
    scheduler = wb.Scheduler(threads=1)
    long = wb.sql("select count(*) as n from range(200000000) as t(i) where i % 3 = 1")
    answers: list[int] = []
    computes = threading.Thread(target=lambda: answers.append(long.to_rows(runtime=scheduler)[0].n))
    computes.start()
    for value in range(10):
        source = sensor()
        seen: list[Any] = []
        job = source.subscribe(seen.append, runtime=scheduler)
        source.push([(1, value)])
        source.close()
        job.wait()
        assert [row.value for row in seen] == [value]
    computes.join()
    assert answers == [66666667]


def test_jobs_with_checkpoints_run_on_it(scheduler: wb.Scheduler, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("t,v\n" + "".join(f"{n},{n % 3}\n" for n in range(100)))
    source = wb.read(f"{tmp_path}/in/*.csv", time="t")
    counts = source.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    job = counts.run_forever(f"{tmp_path}/out", checkpoint=f"{tmp_path}/state", runtime=scheduler)
    job.wait()
    assert sum(row.n for row in wb.read(f"{tmp_path}/out/*.parquet").to_rows()) == 100


def test_what_is_no_runtime_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="at least one thread"):
        wb.Scheduler(threads=0)
    runtime: Any = 2
    with pytest.raises(wb.InvalidError, match="a Scheduler, not 2"):
        wb.sql("select 1").to_rows(runtime=runtime)


FORK = """
import os, sys
import whimbrel as wb

scheduler = wb.Scheduler(threads=2)
assert len(wb.sql("select 1 as n").to_rows(runtime=scheduler)) == 1
sys.stdout.flush()
if (child := os.fork()) == 0:
    try:
        wb.sql("select 1 as n").to_rows(runtime=scheduler)
    except wb.InvalidError as error:
        print(error)
    print(wb.sql("select 2 as n").to_rows(runtime=wb.Scheduler(threads=1)))
    sys.exit()
os.waitpid(child, 0)
# The process ends while queries wait.
sensor = wb.live({"time": "int64"}, time="time")
job = sensor.subscribe(print, runtime=scheduler)
print("end")
"""


def test_a_fork_has_none_of_its_threads_and_a_process_ends_while_queries_wait() -> None:
    command = [sys.executable, "-c", FORK]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = ended.stdout.splitlines()
    assert "is a fork; make a scheduler here" in lines[0]
    assert lines[1:] == ["[Row(n=2)]", "end"], ended
