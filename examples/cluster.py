"""The same plans on a cluster whose workers are killed while they run.

    python examples/cluster.py                    # or: make cluster
    python examples/cluster.py --workers 3 --scale 0.1

Starts a Redis and some workers, which are processes of this machine, and runs the three plans of the flights
and some queries of TPC-H on them: undisturbed; while a worker is killed; and while one is stopped until it
has been declared dead, and then goes on. Every answer is compared with that of this process; the exit code is
1 if one differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flights
import whimbrel as wb

TPCH = Path(__file__).resolve().parent.parent / "tests" / "tpch"
QUERIES = (1, 3, 5, 18)

Cluster = wb.cluster.LocalCluster
Query = Callable[["Cluster | None"], wb.ShardedStream]
"""Plans a query for a cluster, or for this process."""


def flight_plans() -> dict[str, Query]:
    """Make the plans of `flights.py`, over the year."""
    year = flights.bounded(flights.flown())

    def planned(plan: Callable[[wb.ShardedStream], wb.ShardedStream]) -> Query:
        def query(cluster: Cluster | None) -> wb.ShardedStream:
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


def values(table: wb.Table) -> list[tuple[Any, ...]]:
    """List the rows in an order of their own; sums of floats may differ in their last digits."""

    def about(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, float) else value

    return sorted((tuple(map(about, dict(row).values())) for row in table), key=str)


def disturbed(run: Callable[[], wb.Table], after: float, act: Callable[[], None]) -> tuple[wb.Table, float]:
    """Run a query, and do something to the cluster while it runs."""
    timer = threading.Timer(after, act)
    timer.start()
    try:
        return measured(run)
    finally:
        timer.join()


def kill_one(cluster: Cluster) -> None:
    """Kill a worker; another is started in its place."""
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    cluster.add(1)


def stop_one(cluster: Cluster) -> None:
    """Stop a worker until it has been declared dead, and let it go on."""
    victim = cluster.workers[-1]
    os.kill(victim.pid, signal.SIGSTOP)
    while victim.name in {worker.name for worker in cluster.workers}:
        time.sleep(0.1)
    os.kill(victim.pid, signal.SIGCONT)
    while victim.pid not in {worker.pid for worker in cluster.workers}:
        time.sleep(0.1)


def run_on(cluster: Cluster, query: Query) -> tuple[bool, list[float]]:
    """Run a query here and on the cluster; tell whether all answers are equal, and the seconds of each."""
    expected, here = measured(query(None).collect)
    stream = query(cluster)

    def run() -> wb.Table:
        return stream.collect(on=cluster)

    run()
    peaceful, alone = measured(run)
    killed, with_kill = disturbed(run, alone / 2, lambda: kill_one(cluster))
    stopped, with_stop = disturbed(run, alone / 2, lambda: stop_one(cluster))
    right = all(values(answer) == values(expected) for answer in (peaceful, killed, stopped))
    return right, [here, alone, with_kill, with_stop]


def main() -> int:
    """Run everything, print a table, and tell whether all answers were right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4, help="how many workers (4)")
    parser.add_argument("--scale", default="1", help="the scale factor of TPC-H (1)")
    arguments = parser.parse_args()
    wb.config(progress=False)
    wrong = 0
    with wb.cluster.start(arguments.workers) as cluster:
        print(f"{len(cluster.workers)} workers: processes {', '.join(str(w.pid) for w in cluster.workers)}\n")
        print(f"{'seconds':22}{'here':>9}{'cluster':>9}{'killed':>9}{'stopped':>9}  answers")
        for name, query in (flight_plans() | tpch_queries(arguments.scale)).items():
            right, seconds = run_on(cluster, query)
            wrong += not right
            times = "".join(f"{each:9.2f}" for each in seconds)
            print(f"{name:22}{times}  {'equal' if right else 'DIFFERENT'}", flush=True)
    print("\nAll answers are those of one process." if not wrong else f"\n{wrong} answers differ.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
