"""What it costs to run a query in other processes: TPC-H on a cluster of this machine and in one process.

    .venv/bin/python benches/cluster.py                       # scale factor 1, two workers
    .venv/bin/python benches/cluster.py --scale 0.1 --turns 1 --out /dev/null      # a smoke test

Workers with one thread each are compared with the local runtime with as many threads. Both run in turns over
the same files, planning included. The first run is given beside the median of the others; the ratio is that
of the medians. The line `empty` is a query without rows: what a job costs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import whimbrel as wb
from run import machine
from tpch import HERE, TABLES, TPCH, answer, middle, same, text

EMPTY = "select 1 as n where false"

Runs = list[float]


def timed(sql: str, cluster: wb.cluster.Cluster | None, shards: int, tables: dict[str, str]) -> tuple:
    """Run a query, here or on a cluster; return its folded answer and the seconds it took."""
    start = time.perf_counter()
    table = wb.sql(sql, shards=shards, on=cluster, **tables).to_arrow()
    return answer(table), time.perf_counter() - start


def compare(
    sql: str, cluster: wb.cluster.Cluster, turns: int, shards: int, tables: dict[str, str]
) -> tuple[Runs, Runs]:
    """Run a query here and there in turns; return the seconds of both."""
    here, there = [], []
    for _ in range(turns + 1):
        expected, seconds = timed(sql, None, shards, tables)
        here.append(seconds)
        found, seconds = timed(sql, cluster, shards, tables)
        there.append(seconds)
        if not same(expected, found):
            raise SystemExit(f"the cluster answers {found}, and one process {expected}:\n{sql}")
    return here, there


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="scale factor (default: 1)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="how often both run after their first time")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)))
    parser.add_argument("--out", type=Path, default=HERE / "cluster_results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    arguments = arguments_of_command()
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    files = {name: f"{folder}/{name}.parquet" for name in TABLES}
    wb.config(progress=False)
    print(f"TPC-H at scale factor {arguments.scale}, seconds: first run, median of {arguments.turns} others")
    print(f"{'query':>6} {'local':>8} {'':>8} {'cluster':>8} {'':>8} {'ratio':>6}", flush=True)
    results = []
    with wb.cluster.start(arguments.workers) as cluster:
        cases = [("empty", EMPTY, {})] + [(str(q), text(q), files) for q in arguments.queries]
        for name, sql, tables in cases:
            here, there = compare(sql, cluster, arguments.turns, arguments.workers, tables)
            results.append({"query": name, "local": here, "cluster": there})
            times = (here[0], middle(here), there[0], middle(there), middle(there) / middle(here))
            print(
                f"{name:>6} {times[0]:8.3f} {times[1]:8.3f} {times[2]:8.3f} {times[3]:8.3f} {times[4]:6.2f}"
            )
    queries = [result for result in results if result["query"] != "empty"]
    local, there = (sum(middle(result[where]) for result in queries) for where in ("local", "cluster"))
    print(f"{'total':>6} {'':>8} {local:8.3f} {'':>8} {there:8.3f} {there / local:6.2f}")
    total = {"local": local, "cluster": there, "ratio": there / local}
    document = {"machine": machine(), "scale": arguments.scale, "total": total, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
