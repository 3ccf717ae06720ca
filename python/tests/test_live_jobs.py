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


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
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
    wait_until(lambda: job.progress is not None and job.progress.committed > 0, "nothing is committed")
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
