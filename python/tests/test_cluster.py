"""The cluster: real processes, which are killed, stopped and started while queries run."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

FLIGHTS = Path(__file__).parents[2] / "data" / "nyc_flights_2013.parquet"

pytestmark = [
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server"),
    pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix"),
]

# `WHIMBREL_CHAOS=1000 pytest python/tests/test_cluster.py -k random` is the long run.
CHAOS = int(os.environ.get("WHIMBREL_CHAOS", "4"))

# Some seconds on two cores: a join of two aggregates over shards.
LONG = """
    select a.k, count(*) as c, sum(b.s) as s, min(b.low) as low, sum(a.digits) as digits
    from (select k, sum(length(md5(md5(text)))) as digits from rows group by k) a
    join (select k, sum(n) as s, min(md5(md5(text))) as low from rows group by k) b on a.k = b.k
    group by a.k
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[wb.cluster.LocalCluster]:
    with wb.cluster.start(workers=3) as started:
        yield started


def values(rows: list[Any]) -> list[tuple]:
    return sorted((tuple(dict(row).values()) for row in rows), key=str)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of three million rows."""
    path = tmp_path_factory.mktemp("cluster") / "rows.parquet"
    made = "select n, n * 7919 % 200003 as k, md5(n::varchar) as text from range(3000000) t(n)"
    wb.sql(made).to_storage(path)
    return str(path)


@pytest.fixture(scope="module")
def long_answer(rows: str) -> list[tuple]:
    return values(wb.sql(LONG, rows=rows).to_rows())


def during(
    query: Callable[[], list[Any]], act: Callable[[], None], then: Callable[[], None] = lambda: None
) -> list[tuple]:
    """Run a query, do something while it runs, and then something that may be after its end."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(query())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    act()
    was_running = thread.is_alive()
    then()
    thread.join(timeout=120)
    assert not thread.is_alive(), "the query hangs"
    if isinstance(result[0], BaseException):
        raise result[0]
    assert was_running, "the query had ended before anything was done to it"
    return values(result[0])


def test_a_query_runs_on_workers(cluster: wb.cluster.LocalCluster) -> None:
    assert len(cluster.workers) == 3
    assert len({worker.pid for worker in cluster.workers} | {os.getpid()}) == 4
    assert wb.sql("select 6 * 7 as answer", on=cluster).to_rows() == [
        wb.sql("select 6 * 7 as answer").to_rows()[0]
    ]
    table = [{"k": n % 3, "n": n} for n in range(100)]
    totals = "select k, sum(n) as s from t group by k"
    assert values(wb.sql(totals, on=cluster, t=table).to_rows()) == [(0, 1683), (1, 1617), (2, 1650)]
    assert cluster.jobs == []


def test_streams_run_on_workers(cluster: wb.cluster.LocalCluster) -> None:
    flights = wb.read(FLIGHTS, time="sched_dep", disorder="drop", shards=2)
    hourly = (
        flights.rekey("origin")
        .redistribute(3)
        .query(lambda q: q.hopping("2h", hop="1h").aggregate(n=wb.count(), late=wb.avg("dep_delay")))
    )
    assert values(hourly.to_rows(on=cluster)) == values(hourly.to_rows())
    with wb.config(on=cluster):
        assert hourly.to_polars().height == len(hourly.to_rows())


@pytest.mark.parametrize("seconds", [0.1, 0.4, 0.8])
def test_killed_workers_change_nothing(
    cluster: wb.cluster.LocalCluster, rows: str, long_answer: list[tuple], seconds: float
) -> None:
    def kill() -> None:
        time.sleep(seconds)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        cluster.add(1)

    assert during(lambda: wb.sql(LONG, on=cluster, rows=rows).to_rows(), kill) == long_answer
    assert cluster.jobs == []


@pytest.mark.parametrize("order", ["k desc, n", "text"])
def test_sorts_are_in_order_when_workers_are_killed(
    cluster: wb.cluster.LocalCluster, rows: str, order: str
) -> None:
    query = f"select k, n from rows order by {order}"
    plan = wb.sql(query, on=cluster, rows=rows)
    assert "in the order of shards" in plan.explain()
    tables: list[pa.Table] = []

    def run() -> list[Any]:
        tables.append(plan.to_arrow())
        return []

    def kill() -> None:
        time.sleep(0.1)
        os.kill(victim, signal.SIGKILL)

    victim = cluster.workers[0].pid
    during(run, kill, lambda: cluster.add(1))
    assert tables[0].equals(wb.sql(query, rows=rows).to_arrow())


def test_a_worker_that_comes_back_does_no_harm(
    cluster: wb.cluster.LocalCluster, rows: str, long_answer: list[tuple]
) -> None:
    stopped = cluster.workers[0]

    def stop() -> None:
        time.sleep(0.3)
        os.kill(stopped.pid, signal.SIGSTOP)
        while stopped.name in {worker.name for worker in cluster.workers}:
            time.sleep(0.1)
        os.kill(stopped.pid, signal.SIGCONT)

    try:
        assert during(lambda: wb.sql(LONG, on=cluster, rows=rows).to_rows(), stop) == long_answer
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    # It registers again, under another name.
    while len(cluster.workers) < 3:
        time.sleep(0.1)
    assert stopped.pid in {worker.pid for worker in cluster.workers}


QUERIES = (
    LONG,
    "select n % 7 as k, count(*) as c, min(md5(md5(md5(text)))) as low from rows group by 1",
    "select k, n, text from rows where md5(md5(text)) like '00%' order by n desc",
    "select a.n, b.k from rows a join rows b on a.n = b.k where md5(md5(a.text)) < '01' and b.n % 11 = 0",
    "select n, sum(length(md5(text))) over (partition by k order by n) as s from rows where n % 5 = 0",
    "select count(distinct md5(text)) as c, max(md5(md5(text))) as high from rows where n % 2 = 0",
)


def test_random_faults_change_nothing(cluster: wb.cluster.LocalCluster, rows: str) -> None:
    chance = random.Random(CHAOS)
    expected = {sql: values(wb.sql(sql, rows=rows).to_rows()) for sql in QUERIES}
    over = threading.Event()

    def harm() -> None:
        while not over.wait(chance.random() * 1.5):
            victim = chance.choice(cluster.workers)
            if chance.random() < 0.5:
                os.kill(victim.pid, signal.SIGKILL)
                cluster.add(1)
            else:
                os.kill(victim.pid, signal.SIGSTOP)
                over.wait(chance.random() * 5)
                os.kill(victim.pid, signal.SIGCONT)

    harming = threading.Thread(target=harm)
    harming.start()
    try:
        for number in range(CHAOS):
            sql = QUERIES[number % len(QUERIES)]
            assert values(wb.sql(sql, on=cluster, rows=rows).to_rows()) == expected[sql], sql
    finally:
        over.set()
        harming.join()


def test_redis_may_be_away_for_a_moment(rows: str, long_answer: list[tuple]) -> None:
    with wb.cluster.start(workers=2) as cluster:
        names = {worker.name for worker in cluster.workers}
        redis = cluster._processes[0]

        def restart() -> None:
            time.sleep(0.2)
            redis.kill()
            redis.wait()
            time.sleep(0.3)
            cluster._processes[0] = subprocess.Popen(redis.args, stdout=subprocess.DEVNULL)

        assert during(lambda: wb.sql(LONG, on=cluster, rows=rows).to_rows(), restart) == long_answer
        assert {worker.name for worker in cluster.workers} == names


def test_errors_are_those_of_one_process(cluster: wb.cluster.LocalCluster) -> None:
    with pytest.raises(wb.DataError, match="x0"):
        wb.sql("select cast('x' || n as int) from range(10) t(n)", on=cluster).to_rows()
    with pytest.raises(wb.InvalidError, match="does not"):
        wb.live({"n": "int64"}).to_rows(on=cluster)
    with pytest.raises(wb.InvalidError, match="no address of a cluster"):
        wb.cluster.connect("http://localhost")
    with pytest.raises(wb.InvalidError, match="at least one"):
        wb.cluster.start(workers=0)
    with pytest.raises(wb.InvalidError, match="Python"):
        numbers = wb.from_rows([{"n": 1}])
        numbers.query(lambda q: q.select(m=wb.udf(add_one, returns="int64"))).to_rows(on=cluster)


def add_one(row: wb.Row) -> int:
    return row.n + 1


def test_a_client_that_is_lost_leaves_nothing(cluster: wb.cluster.LocalCluster, rows: str) -> None:
    program = f"""
import whimbrel as wb
wb.sql({LONG!r}, on=wb.cluster.connect({cluster.address!r}), rows={rows!r}).to_rows()
"""
    client = subprocess.Popen([sys.executable, "-c", program])
    while not cluster.jobs:
        time.sleep(0.02)
    client.kill()
    client.wait()
    until = time.monotonic() + 30
    while cluster.jobs and time.monotonic() < until:
        time.sleep(0.1)
    assert cluster.jobs == []


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_hosts_workers_and_restarts_them(rows: str, long_answer: list[tuple]) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        with (
            wb.cluster.start(workers=1) as cluster,
            wb.cluster.ray(cluster.address, workers=2, backup_memory=1 << 20, backup_disk=1 << 30) as hosted,
        ):
            assert set(hosted.pids) < {worker.pid for worker in cluster.workers}
            victim = hosted.pids[0]

            def kill() -> None:
                time.sleep(0.3)
                os.kill(victim, signal.SIGKILL)

            assert during(lambda: wb.sql(LONG, on=cluster, rows=rows).to_rows(), kill) == long_answer
            while victim in hosted.pids or len(cluster.workers) < 3:
                time.sleep(0.1)
    finally:
        ray.shutdown()
