"""Queries, and waits for queries, inside of the functions that queries call."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

import pytest

import whimbrel as wb

RUNTIMES: list[Literal["library", "local"]] = ["library", "local"]


def rows_of_a_query(x: int) -> int:
    return len(wb.sql("select * from range(3)").to_rows()) + x


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_function_of_a_query_runs_queries(runtime: Literal["library", "local"]) -> None:
    within = wb.udf(rows_of_a_query, returns="int64")
    rows = wb.from_rows([{"a": 1}, {"a": 2}]).query(lambda q: q.select(b=within(wb.col("a"))))
    assert [row.b for row in rows.to_rows(runtime=runtime)] == [4, 5]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_callback_runs_queries(runtime: Literal["library", "local"]) -> None:
    found: list[int] = []
    rows = wb.from_rows([{"a": 1}, {"a": 2}])
    with rows.subscribe(lambda row: found.append(rows_of_a_query(row.a)), runtime=runtime) as query:
        assert query.wait(60)
    assert found == [4, 5]


def folder_of(path: Path) -> Path:
    folder = path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("t,a\n1,2\n3,4\n")
    return folder


@pytest.mark.parametrize("form", ["rows", "tables"])
def test_the_callback_of_a_job_cannot_wait_for_it(tmp_path: Path, form: Literal["rows", "tables"]) -> None:
    told: list[str] = []

    def callback(epoch: int, result: Any) -> None:
        with pytest.raises(wb.InvalidError) as raised:
            job.wait()
        told.append(str(raised.value))

    source = wb.follow(folder_of(tmp_path), time="t")
    job = source.subscribe(callback, checkpoint=tmp_path / "s", stop_when_idle="300ms", form=form)
    assert job.wait(60)
    assert told and all("it would wait for itself" in text for text in told)


def test_the_callback_of_a_job_stops_it(tmp_path: Path) -> None:
    source = wb.follow(folder_of(tmp_path), time="t")
    job = source.subscribe(lambda epoch, row: job.stop(), checkpoint=tmp_path / "s")
    assert job.wait(60)


def test_a_sink_cannot_wait_for_its_job(tmp_path: Path) -> None:
    class Waits:
        def open(self, job: str, generation: int, schema: wb.Schema) -> int | None:
            return None

        def write(self, rows: wb.Table) -> None:
            running.wait()

        def commit(self, epoch: int) -> None:
            pass

    source = wb.follow(folder_of(tmp_path), time="t")
    running = source.run_forever(Waits(), checkpoint=tmp_path / "s", stop_when_idle="300ms", wait=False)
    with pytest.raises(wb.WhimbrelError, match="it would wait for itself"):
        running.wait(60)


def test_a_function_of_a_query_cannot_wait_for_it() -> None:
    program = """
    import whimbrel as wb

    def waits(a):
        job.wait()
        return a

    live = wb.live({"a": "int64"})
    job = live.query(lambda q: q.select(b=wb.udf(waits, returns="int64")(wb.col("a")))).subscribe(print)
    live.push([(1,)])
    live.close()
    try:
        job.wait(60)
    except wb.DataError as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "cannot wait for a query that runs in the background" in done.stdout
    assert done.returncode == 0
