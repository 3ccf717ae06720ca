"""The same plans on a cluster whose workers are killed while they run.

    python examples/cluster.py                    # or: make cluster
    python examples/cluster.py --scale 0.1 --out cluster.html

Starts a Redis, a worker that is a process, and three that Ray hosts (without Ray, four processes). The three
plans of the flights and some queries of TPC-H run on them: undisturbed; while a worker is killed; and while
one is stopped until it has been declared dead, and then goes on. A live plan follows a folder that grows,
while its host and another of its workers are killed. Every answer is compared with that of this process;
the exit code is 1 if one differs. The page shows where each channel ran, and what ran again.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import flights
import whimbrel as wb
from cluster_page import Disturbed, write_page
from whimbrel.live_job import LiveJob

TPCH = Path(__file__).resolve().parent.parent / "tests" / "tpch"
QUERIES = (1, 3, 9, 18)

# A kill may come too late for a query of some milliseconds.
ATTEMPTS = 5

Query = Callable[["wb.cluster.Cluster | None"], wb.ShardedStream]
"""Plans a query for a cluster, or for this process."""


@dataclass
class Machine:
    """The cluster, and how many workers it is to have."""

    cluster: wb.cluster.LocalCluster
    workers: int

    def wait_for_workers(self) -> None:
        """Wait until all workers are there: Ray restarts its own, and others are started here."""
        until = time.monotonic() + 60
        while len(self.cluster.workers) < self.workers and time.monotonic() < until:
            time.sleep(0.05)

    def kill_one(self) -> None:
        """Kill the worker that registered first."""
        self._kill(self.cluster.workers[0].pid)

    def kill_host(self, job: LiveJob, attempt: int) -> None:
        """Kill the worker that hosts a live job, once it is the one of this attempt."""
        while job.attempt < attempt:
            time.sleep(0.05)
        self._kill(self._process(job.worker))

    def kill_member(self, job: LiveJob, attempt: int) -> None:
        """Kill a worker that runs a part of a live job's plan, and is not its host if there is another."""
        while job.attempt < attempt:
            time.sleep(0.05)
        self._kill(self._process(job.workers[-1]))

    def _process(self, name: str | None) -> int:
        return next(worker.pid for worker in self.cluster.workers if worker.name == name)

    def _kill(self, victim: int) -> None:
        os.kill(victim, signal.SIGKILL)
        if self.cluster.owns(victim):
            self.cluster.add(1)

    def stop_one(self) -> None:
        """Stop a worker until it has been declared dead, and let it go on."""
        victim = self.cluster.workers[-1]
        os.kill(victim.pid, signal.SIGSTOP)
        while victim.name in {worker.name for worker in self.cluster.workers}:
            time.sleep(0.05)
        os.kill(victim.pid, signal.SIGCONT)


def flight_plans() -> dict[str, Query]:
    """Make the plans of `flights.py`, over the year."""
    year = flights.bounded(flights.flown())

    def planned(plan: Callable[[wb.ShardedStream], wb.ShardedStream]) -> Query:
        def query(cluster: wb.cluster.Cluster | None) -> wb.ShardedStream:
            with wb.config(on=cluster):
                return plan(year)

        return query

    return {f"flights: {plan.__name__}": planned(plan) for plan in flights.PLANS}


def tpch_queries(scale: str) -> dict[str, Query]:
    """Make some queries of TPC-H over files of this scale factor."""
    data = [sys.executable, TPCH / "data.py", scale]
    folder = Path(subprocess.run(data, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    tables: dict[str, Any] = {path.stem: str(path) for path in folder.glob("*.parquet")}

    def planned(number: int) -> Query:
        text = (TPCH / f"q{number:02}.sql").read_text()
        return lambda cluster: wb.sql(text, on=cluster, **tables)

    return {f"TPC-H {number}": planned(number) for number in QUERIES}


def measured(run: Callable[[], wb.Table]) -> tuple[wb.Table, float]:
    """Run a query, and say how many seconds it took."""
    start = time.perf_counter()
    table = run()
    return table, time.perf_counter() - start


def values(table: Iterable[wb.Row]) -> list[tuple[Any, ...]]:
    """List the rows in an order of their own; sums of floats may differ in their last digits."""

    def about(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, float) else value

    return sorted((tuple(map(about, dict(row).values())) for row in table), key=str)


def show_progress(job: wb.cluster.ClusterJob) -> None:
    """Wait for the end of a job; on a terminal, show meanwhile which of its stages have ended."""
    on_terminal = sys.stdout.isatty()
    while not job.wait(0.1):
        if on_terminal:
            stages = [f"{stage.ended}/{stage.channels}" for stage in job.progress]
            print(f"\r\033[K  channels ended, by stage: {'  '.join(stages)}", end="", flush=True)
    if on_terminal:
        print("\r\033[K", end="", flush=True)


def disturbed(
    name: str, stream: wb.ShardedStream, machine: Machine, after: float, act: Callable[[], None]
) -> Disturbed:
    """Run a query as a job, and do something to a worker while it runs; again if that came too late."""
    attempt = 0
    while True:
        attempt += 1
        start = time.perf_counter()
        job = stream.submit(on=machine.cluster)
        time.sleep(after / 2**attempt)
        act()
        show_progress(job)
        table = job.result()
        seconds = time.perf_counter() - start
        query = Disturbed(name, seconds, values(table), job.stats(), job.timeline())
        job.cancel()
        machine.wait_for_workers()
        if query.stats.failures > 0 or attempt == ATTEMPTS:
            return query


def live_plan(there: Machine) -> bool:
    """Count departures while months come and workers are killed; tell whether all final rows are right."""
    year = flights.flown().sort_by("dep")
    # Flights are waited for for a day.
    final = year["dep"][-1].as_py() - timedelta(days=1)

    def final_rows(table: wb.Table) -> list[tuple[Any, ...]]:
        return values([row for row in table if row.end <= final])

    expected = final_rows(flights.departures(flights.bounded(year)).collect())
    with tempfile.TemporaryDirectory() as place:
        root, months = Path(place), 12
        (root / "in").mkdir()
        start = time.perf_counter()

        def grow(month: int) -> None:
            rows = year.num_rows // months + 1
            pq.write_table(year.slice(month * rows, rows), root / "next.parquet")
            (root / "next.parquet").rename(root / "in" / f"{month:02}.parquet")

        grow(0)
        plan = flights.departures(wb.follow(root / "in", time="dep", end="arr", reorder_latency="1d"))
        job = plan.run_forever(root / "out", checkpoint=root / "state", every="200ms", on=there.cluster)
        for month in range(1, months):
            time.sleep(0.5)
            grow(month)
            if month == 3:
                there.kill_host(job, attempt=1)
            if month == 7:
                there.kill_member(job, attempt=2)
        until = time.monotonic() + 120
        found: list[tuple[Any, ...]] = []
        while len(found) < len(expected) and time.monotonic() < until:
            time.sleep(0.2)
            found = final_rows(wb.read(root / "out").collect())
        right = found == expected
        print(
            f"\nlive: {len(found):,} windows of {year.num_rows:,} flights in "
            f"{time.perf_counter() - start:.1f} s, on {len(job.workers)} workers, attempt {job.attempt}: "
            f"{'equal' if right else 'DIFFERENT'}"
        )
        job.stop()
        job.wait(60)
        return right


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """Start a cluster whose workers Ray hosts, but for one; without Ray, they are all processes."""
    try:
        import ray
    except ImportError:
        with wb.cluster.start(4) as cluster:
            yield Machine(cluster, 4)
        return
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.FATAL)
    try:
        with wb.cluster.start(1) as cluster, wb.cluster.ray(cluster.address, workers=3):
            yield Machine(cluster, 4)
    finally:
        ray.shutdown()


def main() -> int:
    """Run everything, print a table, write the page, and tell whether all answers were right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="the scale factor of TPC-H (1)")
    parser.add_argument("--out", type=Path, default=Path("cluster.html"), help="the page (cluster.html)")
    arguments = parser.parse_args()
    wb.config(progress=False)
    wrong, shown = 0, []
    with machine() as there:
        pids = ", ".join(str(worker.pid) for worker in there.cluster.workers)
        print(f"{there.workers} workers: processes {pids}\n")
        print(f"{'seconds':22}{'here':>8}{'cluster':>9}{'killed':>8}{'stopped':>9}", end="")
        print(f"{'rows':>12}{'again':>11}{'lineage':>12}  answers")
        for name, query in (flight_plans() | tpch_queries(arguments.scale)).items():
            expected, here = measured(query(None).collect)
            stream = query(there.cluster)
            stream.collect(on=there.cluster)
            alone_table, alone = measured(lambda stream=stream: stream.collect(on=there.cluster))
            killed = disturbed(f"{name}, a worker killed", stream, there, alone, there.kill_one)
            stopped = disturbed(f"{name}, a worker stopped", stream, there, alone, there.stop_one)
            answers = (values(alone_table), killed.answer, stopped.answer)
            right = all(answer == values(expected) for answer in answers)
            wrong += not right
            shown += [killed, stopped]
            times = f"{here:8.2f}{alone:9.2f}{killed.seconds:8.2f}{stopped.seconds:9.2f}"
            stats = killed.stats
            counts = (
                f"{stats.rows - stats.replayed_rows:12,}{stats.replayed_rows:11,}{stats.lineage_bytes:12,}"
            )
            print(f"{name:22}{times}{counts}  {'equal' if right else 'DIFFERENT'}", flush=True)
        wrong += not live_plan(there)
    write_page(arguments.out, shown)
    print(f"\nWhere each channel ran: {arguments.out}")
    print("All answers are those of one process." if not wrong else f"{wrong} answers differ.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
