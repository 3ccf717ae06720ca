"""Jobs of a cluster that outlive their clients, virtual clusters, and datasets that applications share."""

from __future__ import annotations

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

COUNTS = "select k, count(*) as n, sum(length(md5(md5(text)))) as digits from rows group by k"


@pytest.fixture(scope="module")
def cluster() -> Iterator[wb.cluster.LocalCluster]:
    with wb.cluster.start(workers=4) as started:
        yield started


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files of a million rows together."""
    folder = tmp_path_factory.mktemp("jobs")
    made = "select n, n * 7919 % 1009 as k, md5(n::varchar) as text from range(1000000) t(n)"
    wb.sql(made).reshard(2).to_storage(folder)
    return f"{folder}/*.parquet"


def values(table: wb.Table) -> list[tuple]:
    return sorted(tuple(dict(row).values()) for row in table)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def run_elsewhere(program: str) -> str:
    """Run a program in another process; its output."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_job_outlives_its_client(cluster: wb.cluster.LocalCluster, rows: str) -> None:
    program = f"""
import whimbrel as wb
cluster = wb.cluster.connect({cluster.address!r})
print(wb.sql({COUNTS!r}, rows={rows!r}).submit(on=cluster).id)
"""
    job = wb.cluster.connect(cluster.address).job(run_elsewhere(program))
    assert job.wait(60)
    assert (job.status, job.error) == ("ended", None)
    expected = values(wb.sql(COUNTS, rows=rows).collect())
    assert values(job.result()) == expected
    assert values(job.result()) == expected, "the result stays"
    assert all(stage.ended == stage.channels for stage in job.progress)
    job.cancel()
    assert job.id not in cluster.jobs
    with pytest.raises(wb.DataError, match="no job"):
        job.result()
    with pytest.raises(wb.DataError, match="no job"):
        cluster.job("no such")


def test_a_job_says_what_it_has_done(cluster: wb.cluster.LocalCluster, rows: str) -> None:
    job = wb.sql(COUNTS, shards=2, rows=rows).submit(on=cluster)
    assert job.wait(60)
    stats = job.stats()
    assert stats.rows > 1_000_000 and stats.tasks > 0 and stats.lineage_bytes > 0 and stats.moved_bytes > 0
    assert (stats.replayed_rows, stats.replayed_tasks, stats.failures) == (0, 0, 0)
    runs = job.timeline()
    assert {run.worker for run in runs} <= {worker.name for worker in cluster.workers}
    assert all(run.ended and run.attempt == 0 and run.began <= run.seen for run in runs)
    assert sum(stage.rows for stage in job.progress) == stats.rows
    assert stats.activity.waits_for == "The query has ended."
    job.cancel()


def test_a_job_that_runs_says_what_its_operators_do(cluster: wb.cluster.LocalCluster, tmp_path: Path) -> None:
    # A pair of each two rows within a window: it takes a while.
    wb.sql("select n // 20000 as time, n % 2 as k, n from range(400000) t(n)").to_storage(tmp_path / "rows")
    rows = wb.read(tmp_path / "rows", time="time")
    pairs = rows.query(
        lambda q: q.tumbling(1).join(q.tumbling(1), on="k").where(lambda e: e.n * e.n_right % 7 == 3)
    )
    job = pairs.submit(on=cluster)
    wait_until(lambda: bool(job.stats().activity.operators), "no operator is seen")
    activity = job.stats().activity
    assert not activity.done and {"input", "join"} <= {operator.name for operator in activity.operators}
    job.cancel()


def test_a_result_is_computed_again_if_its_worker_is_lost(
    cluster: wb.cluster.LocalCluster, rows: str
) -> None:
    job = wb.sql(COUNTS, shards=2, rows=rows).submit(on=cluster)
    assert job.wait(60)
    expected = values(job.result())
    last = max(run.stage for run in job.timeline())
    holder = next(run.worker for run in job.timeline() if run.stage == last)
    os.kill(next(worker.pid for worker in cluster.workers if worker.name == holder), signal.SIGKILL)
    cluster.add(1)
    assert values(job.result()) == expected
    stats = job.stats()
    assert stats.failures == 1 and stats.replayed_rows > 0
    assert any(run.attempt == 1 for run in job.timeline())
    job.cancel()


def test_a_job_is_kept_for_its_time(cluster: wb.cluster.LocalCluster) -> None:
    job = wb.sql("select 1 as n").submit(on=cluster, keep="2s")
    assert job.wait(60)
    assert job.result().to_rows()[0].n == 1
    wait_until(lambda: job.id not in cluster.jobs, "the job is there for ever")


def test_a_job_that_fails_says_why(cluster: wb.cluster.LocalCluster) -> None:
    job = wb.sql("select cast('x' || n as int) from range(10) t(n)").submit(on=cluster)
    with pytest.raises(wb.DataError, match="x0"):
        job.wait(60)
    assert job.status == "failed"
    assert isinstance(job.error, wb.DataError) and "x0" in str(job.error)
    with pytest.raises(wb.DataError, match="x0"):
        job.result()
    job.cancel()
    with pytest.raises(wb.InvalidError, match="on="):
        wb.sql("select 1").submit()


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_schedules_give_the_same_answer(
    cluster: wb.cluster.LocalCluster, rows: str, pipelined: bool, dynamic: bool
) -> None:
    scheduled = cluster.scheduled(pipelined=pipelined, dynamic=dynamic)
    expected = values(wb.sql(COUNTS, rows=rows).collect())
    assert values(wb.sql(COUNTS, shards=3, rows=rows).collect(on=scheduled)) == expected


def test_the_applications_of_quill(tmp_path: Path) -> None:
    """Figure 7 of the paper: one application computes, another one reads."""
    ads = "select n as time, n * 7919 % 13 as ad from range(10000) t(n)"
    wb.sql(ads).to_storage(tmp_path / "adinfo")
    expected = wb.sql("select n * 7919 % 13 as ad, count(*) as n from range(10000) t(n) group by 1")
    with wb.cluster.start(workers=4) as cluster:
        first = f"""
import whimbrel as wb
quill = wb.cluster.connect({cluster.address!r})
cluster1 = quill.create_cluster("cluster1", workers=2)
adinfo = cluster1.datasets.create("adinfo on disk", {str(tmp_path / "adinfo/*.parquet")!r})
adinfo = adinfo.reshard(2).to_memory("adinfo", on=cluster1)
counts = adinfo.rekey("ad").redistribute().query(lambda q: q.aggregate(n=wb.count()))
cluster2 = quill.create_cluster("cluster2", workers=1)
counts.redistribute(location=cluster2).to_memory("adcounts", on=cluster1)
quill.datasets.remove("adinfo")
cluster1.tear_down()
"""
        run_elsewhere(first)
        second = f"""
import whimbrel as wb
quill = wb.cluster.connect({cluster.address!r})
found, = [dataset for dataset in quill.datasets.search("adcounts")]
lines = []
quill.datasets[found.name].subscribe(lines.append).wait()
print(sorted((row.ad, row.n) for row in lines))
"""
        assert run_elsewhere(second) == str(values(expected.collect()))
        assert cluster.clusters == ["cluster2"]
        holder = {worker.name for worker in cluster.cluster("cluster2").workers}
        # Also the lineage of what was removed is there: the rows come again.
        victim = cluster.cluster("cluster2").workers[0]
        assert {victim.name} == holder
        os.kill(victim.pid, signal.SIGKILL)
        wait_until(
            lambda: victim.name not in {worker.name for worker in cluster.workers}, "the worker is there"
        )
        assert run_elsewhere(second) == str(values(expected.collect()))
        cluster.datasets.remove("adcounts")
        wait_until(lambda: cluster.jobs == [], "what nobody can read is there for ever")


def test_datasets_have_names(cluster: wb.cluster.LocalCluster, rows: str) -> None:
    datasets = cluster.datasets
    numbers = wb.from_rows([{"k": n % 3, "n": n} for n in range(30)]).rekey("k").redistribute(2)
    kept = numbers.to_memory("numbers", on=cluster)
    assert (kept.shards, "numbers" in datasets, len(datasets)) == (2, True, 1)
    with pytest.raises(wb.InvalidError, match="already"):
        numbers.to_memory("numbers", on=cluster)
    with pytest.raises(wb.InvalidError, match="already"):
        datasets.create("numbers", rows)
    with pytest.raises(wb.InvalidError, match="cluster"):
        numbers.to_memory("numbers")
    datasets.create("text", rows)
    assert [(dataset.name, dataset.kind) for dataset in datasets] == [
        ("numbers", "memory"),
        ("text", "storage"),
    ]
    assert datasets.search("ex")[0].name == "text"
    sums = datasets["numbers"].query(lambda q: q.aggregate(s=wb.sum("n")))
    assert values(sums.collect()) == values(sums.collect(on=cluster)) == [(0, 135), (1, 145), (2, 155)]
    joined = wb.sql(
        "select count(*) as c from rows join numbers using (n)",
        on=cluster,
        rows=datasets["text"],
        numbers=datasets["numbers"],
    )
    assert joined.to_rows()[0].c == 30
    with pytest.raises(wb.InvalidError, match="not be written"):
        kept.to_bytes()
    for name in ("numbers", "text"):
        datasets.remove(name)
        with pytest.raises(wb.InvalidError, match="no dataset"):
            datasets[name]
        with pytest.raises(wb.InvalidError, match="no dataset"):
            datasets.remove(name)
    with pytest.raises(wb.DataError, match="no job"):
        kept.to_rows()
    assert cluster.jobs == []


def test_streams_in_memory_keep_their_times(cluster: wb.cluster.LocalCluster) -> None:
    clicks = wb.from_rows([(t, t % 3) for t in range(100)], schema=["time", "item"], time="time")
    windows = clicks.rekey("item").redistribute(2).query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    kept = windows.to_memory("windows", on=cluster)
    assert kept.to_rows(on=cluster) == windows.to_rows()
    later = kept.query(lambda q: q.where(lambda e: e.n > 3))
    assert later.to_rows() == windows.query(lambda q: q.where(lambda e: e.n > 3)).to_rows()
    cluster.datasets.remove("windows")


def test_a_dataset_is_computed_again_if_its_worker_is_lost(
    cluster: wb.cluster.LocalCluster, rows: str
) -> None:
    kept = wb.sql(COUNTS, shards=3, rows=rows).to_memory("counts", on=cluster)
    expected = values(kept.collect())
    victim = cluster.workers[0]
    os.kill(victim.pid, signal.SIGKILL)
    cluster.add(1)
    wait_until(lambda: victim.name not in {w.name for w in cluster.workers}, "the worker is there for ever")
    assert values(kept.collect()) == expected
    assert values(kept.collect(on=cluster)) == expected
    cluster.datasets.remove("counts")


def test_virtual_clusters_take_workers_and_give_them_back(cluster: wb.cluster.LocalCluster) -> None:
    three = cluster.create_cluster("three", workers=3)
    assert (three.name, len(three.workers), three.cores, cluster.cores) == ("three", 3, 3, 1)
    assert {worker.cluster for worker in three.workers} == {"three"}
    with pytest.raises(wb.DataError, match="free"):
        cluster.create_cluster("two", workers=2)
    with pytest.raises(wb.InvalidError, match="already"):
        cluster.create_cluster("three", workers=1)
    with pytest.raises(wb.InvalidError, match="no virtual cluster"):
        cluster.cluster("two")
    same = wb.cluster.connect(cluster.address + "?cluster=whimbrel&virtual=three")
    assert same.name == "three" and same.workers == three.workers
    job = wb.sql("select count(*) as n from range(1000)").submit(on=three)
    assert job.wait(60)
    assert {run.worker for run in job.timeline()} <= {worker.name for worker in three.workers}
    job.cancel()
    three.add_workers(1)
    with pytest.raises(wb.DataError, match="virtual cluster"):
        wb.sql("select 1", on=cluster).to_rows()
    three.tear_down()
    assert cluster.clusters == [] and all(worker.cluster is None for worker in cluster.workers)
    with pytest.raises(wb.InvalidError, match="only virtual"):
        cluster.tear_down()


def test_a_lost_member_is_replaced_by_a_free_worker(cluster: wb.cluster.LocalCluster) -> None:
    pair = cluster.create_cluster("pair", workers=2)
    lost = pair.workers[0]
    os.kill(lost.pid, signal.SIGKILL)
    wait_until(lambda: lost.name not in {w.name for w in pair.workers} and len(pair.workers) == 2, "no other")
    assert wb.sql("select 1 as n", on=pair).to_rows()[0].n == 1
    pair.tear_down()
    cluster.add(1)


def test_a_worker_that_drains_gets_nothing_new(cluster: wb.cluster.LocalCluster) -> None:
    cluster.add(1)
    drained = cluster.workers[0]
    cluster.drain(drained)
    assert {worker.name for worker in cluster.workers if worker.draining} == {drained.name}
    job = wb.from_rows([{"n": n} for n in range(100)]).reshard(8).submit(on=cluster)
    assert job.wait(60)
    assert drained.name not in {run.worker for run in job.timeline()}
    job.cancel()
    command = [sys.executable, "-m", "whimbrel", "cluster", "drain", cluster.address, drained.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "nothing to do" in done.stderr) == (0, True), done.stderr
    os.kill(drained.pid, signal.SIGTERM)
    wait_until(lambda: drained.name not in {w.name for w in cluster.workers}, "the worker is there for ever")
    with pytest.raises(wb.InvalidError, match="no worker"):
        cluster.drain("nobody")


def test_the_command_prints_what_a_cluster_does(cluster: wb.cluster.LocalCluster) -> None:
    job = wb.sql("select 1 as n").submit(on=cluster)
    assert job.wait(60)
    command = [sys.executable, "-m", "whimbrel", "cluster", "status", cluster.address]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"{job.id}  ended" in printed and all(worker.address in printed for worker in cluster.workers)
    job.cancel()


def test_rows_move_where_they_are_told(cluster: wb.cluster.LocalCluster) -> None:
    numbers = wb.from_rows([{"k": n % 5, "n": n} for n in range(100)]).rekey("k")
    moved = numbers.redistribute(2, location="small").query(lambda q: q.aggregate(s=wb.sum("n")))
    assert "at small" in moved.explain()
    assert len(moved.to_rows()) == 5, "in one process a location means nothing"
    with pytest.raises(wb.DataError, match="`small` has no workers"):
        moved.to_rows(on=cluster)
    small = cluster.create_cluster("small", workers=1)
    assert values(moved.collect(on=cluster)) == values(moved.collect())
    elsewhere = numbers.redistribute(2).query(lambda q: q.aggregate(s=wb.sum("n")))
    with pytest.raises(wb.InvalidError, match="location="):
        moved.query(elsewhere, lambda q, other: q.union(other)).to_rows(on=cluster)
    with pytest.raises(wb.InvalidError, match="location"):
        numbers.reshard(2, location="")
    small.tear_down()
