"""Clusters that are interrupted, forked, stopped and asked for what cannot be."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import whimbrel as wb

pytestmark = [
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up as on Linux"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[wb.cluster.LocalCluster]:
    with wb.cluster.start(workers=2) as started:
        yield started


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@pytest.mark.parametrize("keep", ["0s", "400d"])
def test_results_are_kept_for_a_second_to_a_year(cluster: wb.cluster.LocalCluster, keep: str) -> None:
    with pytest.raises(wb.InvalidError, match="a second at least and a year at most"):
        wb.sql("select 1 as n").submit(on=cluster, keep=keep)
    job = wb.sql("select 2 as n").submit(on=cluster)
    assert job.wait(30)
    job.cancel()


def test_a_virtual_cluster_with_a_live_job_stays(cluster: wb.cluster.LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("time,k\n1,a\n")
    group = cluster.create_cluster("live", workers=1)
    windows = wb.follow(tmp_path / "in", time="time").query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    job = windows.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", on=group)
    with pytest.raises(wb.DataError, match="runs the live job"):
        group.tear_down()
    job.stop()
    assert job.wait(30)
    group.tear_down()


PROGRAM = """
import os, sys, whimbrel as wb
cluster = wb.cluster.connect(sys.argv[1])
slow = "select count(*) as n from range(60000) a(x), range(60000) b(y) where x*y%7=3"
print("begun", flush=True)
try:
    if sys.argv[2] == "dataset":
        wb.sql(slow).to_memory("never", on=cluster)
    else:
        wb.sql(slow, on=cluster).to_rows()
except KeyboardInterrupt:
    print(wb.sql("select 1 as n", on=cluster).to_rows())
"""


@pytest.mark.parametrize("work", ["query", "dataset"])
def test_an_interrupt_ends_what_runs(cluster: wb.cluster.LocalCluster, work: str) -> None:
    command = [sys.executable, "-c", PROGRAM, cluster.address, work]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None and program.stdout.readline() == "begun\n"
    wait_until(lambda: cluster.jobs != [], "the query does not begin")
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=60)[0] == "[Row(n=1)]\n"
    wait_until(lambda: cluster.jobs == [], "the query goes on")
    assert "never" not in [dataset.name for dataset in cluster.datasets]


def test_forked_processes_say_that_they_are(cluster: wb.cluster.LocalCluster) -> None:
    program = """
import os, sys, whimbrel as wb
cluster = wb.cluster.connect(sys.argv[1])
print(wb.sql("select 1 as n", on=cluster).to_rows(), flush=True)
if (child := os.fork()) == 0:
    try:
        wb.sql("select 1 as n", on=cluster).to_rows()
    except wb.InvalidError as error:
        print(error, flush=True)
    print(wb.sql("select 2 as n", on=wb.cluster.connect(sys.argv[1])).to_rows(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(wb.sql("select 3 as n", on=cluster).to_rows())
"""
    command = [sys.executable, "-c", program, cluster.address]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=90).stdout.splitlines()
    assert lines[0] == "[Row(n=1)]" and lines[2:] == ["[Row(n=2)]", "[Row(n=3)]"], lines
    assert "is a fork; connect again" in lines[1]


def test_a_cluster_that_was_stopped_says_so() -> None:
    with wb.cluster.start(workers=1) as cluster:
        assert repr(cluster).startswith("LocalCluster(1 workers")
    assert repr(cluster).startswith("LocalCluster(stopped")
    for work in (lambda: cluster.workers, lambda: cluster.add(1), lambda: wb.sql("select 1", on=cluster)):
        with pytest.raises(wb.InvalidError, match="was stopped"):
            work()


def test_a_cluster_ends_with_its_program_and_not_with_an_interrupt() -> None:
    program = """
import os, signal, whimbrel as wb
cluster = wb.cluster.start(workers=1)
print([process.pid for process in cluster._processes], flush=True)
try:
    os.killpg(0, signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    print(wb.sql("select 1 as n", on=cluster).to_rows(), flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, start_new_session=True
    )
    pids, answer = ended.stdout.splitlines()
    assert answer == "[Row(n=1)]", ended
    assert [pid for pid in pids.strip("[]").split(", ") if Path(f"/proc/{pid}/cmdline").exists()] == []


def test_passwords_are_not_shown() -> None:
    with wb.cluster.start(workers=1) as cluster:
        port = cluster.address.rpartition(":")[2]
        shown = repr(wb.cluster.connect(f"redis://:@127.0.0.1:{port}"))
    assert shown == f"Cluster('redis://…@127.0.0.1:{port}')"


def test_a_worker_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    numbers = pa.table({"n": range(10)})
    with wb.cluster.start(workers=1) as started:
        command = [sys.executable, "-m", "whimbrel", "worker", started.address, "--folder", str(tmp_path)]
        # Nobody listens under the address of this one.
        hidden = subprocess.Popen([*command, "--listen", "127.0.0.1:0", "--host", "127.0.0.2"])
        try:
            wait_until(lambda: len(started.workers) == 2, "the worker does not come")
            with pytest.raises(wb.UnavailableError, match="is alive, but cannot be reached"):
                wb.from_arrow(numbers, shards=2).to_rows(on=started)
        finally:
            hidden.kill()
            hidden.wait()


def test_statistics_are_those_of_the_end(cluster: wb.cluster.LocalCluster) -> None:
    rows = 1_000_000
    moved = wb.from_arrow(pa.table({"n": range(rows)}), shards=2).rekey("n").redistribute(2)
    counted = moved.rekey().query(lambda q: q.aggregate(n=wb.count()))
    for _ in range(5):
        job = counted.submit(on=cluster)
        assert sum(row["n"] for row in job.result().to_rows()) == rows
        # Each row is read, and taken once more where it is counted.
        assert job.stats().rows == 2 * rows
        job.cancel()
