"""Live jobs of a cluster, as Python sees them; crates/cluster tests what happens when processes fail."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import whimbrel as wb

pytestmark = [
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server"),
    pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[wb.cluster.LocalCluster]:
    with wb.cluster.start(workers=2) as started:
        yield started


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def windows(root: Path) -> wb.ShardedStream:
    clicks = wb.follow(root / "in", time="time")
    return clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))


def grow(root: Path, first: int, last: int) -> None:
    (root / "in").mkdir(exist_ok=True)
    rows = "".join(f"{time},a\n" for time in range(first, last))
    (root / "in" / f"{first:06}.csv").write_text("time,item\n" + rows)


def has_committed(job: wb.cluster.LiveJob) -> bool:
    return job.progress is not None and job.progress.committed > 0


def results(root: Path) -> list[tuple]:
    return sorted(tuple(dict(row).values()) for row in wb.read(root / "out").to_rows())


def test_a_live_job_outlives_its_client_and_its_host(
    cluster: wb.cluster.LocalCluster, tmp_path: Path
) -> None:
    grow(tmp_path, 0, 100)
    program = f"""
import whimbrel as wb
clicks = wb.follow({str(tmp_path / "in")!r}, time="time")
windows = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
cluster = wb.cluster.connect({cluster.address!r})
root = {str(tmp_path)!r}
print(windows.run_forever(root + "/out", checkpoint=root + "/state", every="50ms", on=cluster).id)
"""
    client = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert client.returncode == 0, client.stderr
    job = wb.cluster.connect(cluster.address).live_job(client.stdout.strip())
    assert job.id in cluster.live_jobs
    wait_until(lambda: job.progress is not None and job.progress.checkpointed_at is not None, "no checkpoint")
    (host,) = [worker for worker in cluster.workers if worker.name == job.worker]
    os.kill(host.pid, signal.SIGKILL)
    cluster.add(1)
    grow(tmp_path, 100, 202)
    wait_until(lambda: job.attempt > 1, "nobody takes it over")
    wait_until(lambda: (tmp_path / "out").exists() and len(results(tmp_path)) == 20, "results are missing")
    assert job.worker != host.name
    assert job.worker in job.workers
    assert host.name not in job.workers
    assert (job.status, job.error) == ("running", None)
    assert not job.wait(0)
    with pytest.raises(wb.DataError, match="stop it first"):
        job.remove()
    job.stop()
    assert job.wait(60)
    assert job.status == "stopped"
    assert results(tmp_path) == [(end, end + 10, 10) for end in range(10, 210, 10)]
    job.remove()
    with pytest.raises(wb.DataError, match="no live job"):
        cluster.live_job(job.id)


def by_item(root: Path) -> wb.ShardedStream:
    clicks = wb.follow(root / "in" / "*.csv", time="time").rekey(lambda e: e.item).redistribute(2)
    return clicks.query(lambda q: q.tumbling(1000).group_apply("item", lambda g: g.aggregate(n=wb.count())))


@pytest.mark.parametrize("plan", [windows, by_item])
def test_a_live_job_says_what_its_operators_do(
    cluster: wb.cluster.LocalCluster, tmp_path: Path, plan: Callable[[Path], wb.ShardedStream]
) -> None:
    grow(tmp_path, 0, 100)
    job = plan(tmp_path).run_forever(
        tmp_path / "out", checkpoint=tmp_path / "state", every="50ms", on=cluster
    )
    elsewhere = wb.cluster.connect(cluster.address).live_job(job.id)
    wait_until(lambda: elsewhere.stats().rows_read == 100, "the rows are not read")
    wait_until(lambda: any(o.name == "aggregate" for o in elsewhere.stats().operators), "no aggregate")
    stats = elsewhere.stats()
    # Rows that move wait before that: they are combined.
    assert any(o.held > 0 and o.bytes > 0 for o in stats.operators)
    assert not stats.done and stats.late_rows == 0
    assert "rows read" in repr(stats) and stats.waits_for.endswith(".")
    job.stop()
    assert job.wait(60)
    assert elsewhere.stats().done
    job.remove()


def test_a_live_job_that_fails_has_an_error(cluster: wb.cluster.LocalCluster, tmp_path: Path) -> None:
    grow(tmp_path, 0, 100)
    job = windows(tmp_path).run_forever(tmp_path / "out", checkpoint=tmp_path / "state", on=cluster)
    (tmp_path / "in" / "bad.csv").write_text("time,item\nnever,a\n")
    with pytest.raises(wb.DataError):
        job.wait(60)
    assert job.status == "failed"
    assert isinstance(job.error, wb.DataError)
    assert job.attempt == 1


def test_what_workers_do_not_reach_is_refused(cluster: wb.cluster.LocalCluster, tmp_path: Path) -> None:
    place = {"checkpoint": tmp_path / "state", "on": cluster}
    for log in (None, tmp_path / "log"):
        source = wb.live({"time": "int64"}, time="time", log=log)
        counts = source.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
        with pytest.raises(wb.InvalidError):
            counts.run_forever(tmp_path / "out", **place)
    grow(tmp_path, 0, 10)
    for sink in ("kafka://localhost:9092/topic", "nonsense://x"):
        with pytest.raises(wb.InvalidError):
            windows(tmp_path).run_forever(sink, **place)


def test_a_full_disk_is_waited_for(
    cluster: wb.cluster.LocalCluster, small_disk: Callable[[int], Path], tmp_path: Path
) -> None:
    disk = small_disk(512)
    grow(tmp_path, 0, 100)
    job = windows(tmp_path).run_forever(disk / "out", checkpoint=disk / "state", every="50ms", on=cluster)
    wait_until(lambda: has_committed(job), "nothing is committed")
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1024)
    grow(tmp_path, 100, 200)
    wait_until(lambda: job.error is not None, "it does not wait")
    assert job.status == "running"
    assert isinstance(job.error, wb.ResourceExhaustedError)
    assert "No space left" in str(job.error)
    filler.unlink()
    wait_until(lambda: job.error is None, "it waits for ever")
    grow(tmp_path, 200, 222)
    wait_until(lambda: len(results(disk)) == 22, "results are missing")
    job.stop()
    job.wait()
    assert results(disk) == [(start, start + 10, 10) for start in range(10, 230, 10)]


class PostgresLink:
    """A way to the PostgreSQL of the tests that can be cut: a link to its socket."""

    def __init__(self, folder: Path) -> None:
        self.server = os.environ["WHIMBREL_POSTGRES"]
        self._socket = Path(parse_qs(urlsplit(self.server).query)["host"][0]) / ".s.PGSQL.5432"
        self._link = folder / self._socket.name
        self.name = f"link{os.getpid()}"
        self.url = f"postgres:///postgres?host={folder}&user=postgres&application_name={self.name}"
        folder.mkdir()
        self.mend()

    def rows(self, query: str) -> list[list[str]]:
        command = ["psql", self.server, "--no-psqlrc", "--tuples-only", "--no-align", "--command", query]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [line.split("|") for line in out.splitlines()]

    def mend(self) -> None:
        self._link.symlink_to(self._socket)

    def cut(self) -> None:
        self._link.unlink()
        self.rows(
            f"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{self.name}'"
        )


@pytest.mark.skipif("WHIMBREL_POSTGRES" not in os.environ, reason="WHIMBREL_POSTGRES names no server")
def test_a_database_that_was_reached_once_is_waited_for(
    cluster: wb.cluster.LocalCluster, tmp_path: Path
) -> None:
    postgres = PostgresLink(tmp_path / "socket")
    table = f"live_{os.getpid()}"

    def start(name: str, sink: str | Path) -> wb.cluster.LiveJob:
        return windows(tmp_path).run_forever(sink, checkpoint=tmp_path / name, every="50ms", on=cluster)

    grow(tmp_path, 0, 100)
    job = start("state", f"{postgres.url}&table={table}")
    unwanted = start("state of the unwanted", f"{postgres.url}&table={table}_unwanted")
    wait_until(lambda: has_committed(job) and has_committed(unwanted), "nothing is committed")
    postgres.cut()
    grow(tmp_path, 100, 222)
    (tmp_path / "nowhere").mkdir()
    unreachable = start("state of none", f"postgres:///postgres?host={tmp_path / 'nowhere'}&table={table}")
    # Two more on each worker: those that wait keep nobody waiting.
    others = [start(f"state {number}", tmp_path / f"out {number}") for number in range(4)]
    for other in others:
        wait_until(lambda other=other: has_committed(other), "it waits")
        other.stop()
        assert other.wait(30)
    unwanted.stop()
    assert unwanted.wait(30)
    assert unwanted.status == "stopped"
    wait_until(lambda: job.error is not None, "it does not wait", seconds=120)
    assert job.status == "running"
    assert isinstance(job.error, wb.UnavailableError)
    with pytest.raises(wb.UnavailableError, match="No such file"):
        unreachable.wait(120)
    assert unreachable.status == "failed"
    postgres.mend()
    rows = [[str(start), "10"] for start in range(10, 230, 10)]
    query = f"select start, n from {table} order by start"
    wait_until(lambda: postgres.rows(query) == rows, "results are missing")
    wait_until(lambda: job.error is None, "it has an error for ever")
    job.stop()
    assert job.wait(60)
    assert job.status == "stopped"
    assert postgres.rows(query) == rows
