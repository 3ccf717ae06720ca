"""What a lost worker costs: queries during which one of four workers is killed, beside undisturbed ones.

    .venv/bin/python benches/cluster_failures.py                      # scale factor 10, at half of each query
    .venv/bin/python benches/cluster_failures.py --scale 1 --queries 9 18 --out /dev/null   # a smoke test

Each query runs undisturbed, and then again with a worker killed at a part of that time; another worker is
started at once. `overhead` is what the killed one took beyond the undisturbed one without the lease, after
which a worker is taken for dead; a query that began again from zero would have the part itself (0.5).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import whimbrel as wb
from run import machine
from tpch import HERE, TABLES, TPCH, answer, same, text

# Seconds after which a worker that is not heard of is declared dead (WORKER_LEASE).
LEASE = 3.0


def timed(sql: str, cluster: wb.cluster.LocalCluster, shards: int, tables: dict[str, Any]) -> tuple:
    """Run a query as a job; return its folded answer, the seconds, and its statistics."""
    start = time.perf_counter()
    job = wb.sql(sql, shards=shards, **tables).submit(on=cluster)
    job.wait()
    table = job.result().to_arrow()
    seconds = time.perf_counter() - start
    stats = job.stats()
    job.cancel()
    return answer(table), seconds, stats


def killed(
    sql: str, cluster: wb.cluster.LocalCluster, after: float, shards: int, tables: dict[str, Any]
) -> tuple:
    """Run a query, and kill a worker some seconds after it began."""

    def kill() -> None:
        os.kill(cluster.workers[0].pid, signal.SIGKILL)

    timer = threading.Timer(after, kill)
    timer.start()
    try:
        return timed(sql, cluster, shards, tables)
    finally:
        timer.join()
        cluster.add(1)


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="10", help="scale factor (default: 10)")
    parser.add_argument("--part", type=float, default=0.5, help="when the worker is killed (0.5)")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 3, 5, 7, 8, 9, 10, 13, 18, 21])
    parser.add_argument("--out", type=Path, default=HERE / "cluster_failures_results.json")
    arguments = parser.parse_args()
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    tables = {name: f"{folder}/{name}.parquet" for name in TABLES}
    wb.config(progress=False)
    results = []
    print(f"{'query':>6}{'undisturbed':>13}{'killed':>9}{'ratio':>8}{'overhead':>10}{'rows again':>13}")
    with wb.cluster.start(4) as cluster:
        for number in arguments.queries:
            timed(text(number), cluster, 4, tables)
            expected, alone, _ = timed(text(number), cluster, 4, tables)
            found, seconds, stats = killed(text(number), cluster, alone * arguments.part, 4, tables)
            if not same(expected, found):
                raise SystemExit(f"query {number} answers {found}, not {expected}")
            ratio = seconds / (alone + LEASE)
            results.append(
                {
                    "query": number,
                    "undisturbed": alone,
                    "killed": seconds,
                    "ratio": ratio,
                    "overhead": (seconds - alone - LEASE) / alone,
                    "replayed_rows": stats.replayed_rows,
                    "failures": stats.failures,
                }
            )
            row = results[-1]
            print(
                f"{number:>6}{alone:13.2f}{seconds:9.2f}{ratio:8.2f}{row['overhead']:10.2f}"
                f"{stats.replayed_rows:13,}",
                flush=True,
            )
    ratio = statistics.geometric_mean([row["ratio"] for row in results])
    print(f"to the undisturbed time plus the lease, geometric mean: {ratio:.2f}")
    settings = {"scale": arguments.scale, "part": arguments.part, "lease": LEASE}
    document = {"machine": machine(), **settings, "queries": results, "ratio": ratio}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
