"""How the channels of a query are scheduled: all stages at once or one after the other, in turns or not.

    .venv/bin/python benches/cluster_schedules.py             # scale factor 1, two workers, a slow store
    .venv/bin/python benches/cluster_schedules.py --queries 3 --turns 1 --out /dev/null   # a smoke test

The files of TPC-H come from a store with 30 ms a request and limited bandwidth (`slow_store.py`), and the
schedules run in turns over them (Quokka, Fig. 7 and 8). Medians, in seconds; ratios are those to `dynamic`,
the schedule that a cluster has unless it is told otherwise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import whimbrel as wb
from run import machine
from tpch import HERE, TABLES, TPCH, answer, same, text

JOINS = (3, 5, 7, 8, 9, 10, 18, 21)

SCHEDULES = {
    "dynamic": {"pipelined": True, "dynamic": True},
    "in turns": {"pipelined": True, "dynamic": False},
    "stagewise": {"pipelined": False, "dynamic": False},
}


def measured(sql: str, cluster: wb.cluster.Cluster, turns: int, shards: int, tables: dict[str, str]) -> dict:
    """Run a query under all schedules in turns, and return the median of each."""
    seconds: dict[str, list[float]] = {name: [] for name in SCHEDULES}
    expected = None
    for _ in range(turns):
        for name, schedule in SCHEDULES.items():
            start = time.perf_counter()
            table = wb.sql(sql, shards=shards, on=cluster.scheduled(**schedule), **tables).to_arrow()
            seconds[name].append(time.perf_counter() - start)
            found = answer(table)
            if expected is not None and not same(expected, found):
                raise SystemExit(f"{name} answers {found}, not {expected}:\n{sql}")
            expected = found
    return {name: statistics.median(runs) for name, runs in seconds.items()}


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="scale factor (default: 1)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of each request (0.03)")
    parser.add_argument("--bandwidth", type=float, default=100.0, help="megabytes a second of all (100)")
    parser.add_argument("--queries", type=int, nargs="+", default=list(JOINS))
    parser.add_argument("--out", type=Path, default=HERE / "cluster_schedules_results.json")
    arguments = parser.parse_args()
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    serve = [sys.executable, HERE / "slow_store.py", folder, "--latency", str(arguments.latency)]
    serve += ["--bandwidth", str(arguments.bandwidth)]
    wb.config(progress=False)
    results = []
    with (
        subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as store,
        wb.cluster.start(arguments.workers, threads=2) as cluster,
    ):
        assert store.stdout is not None
        url = store.stdout.readline().strip()
        tables = {name: f"{url}/{name}.parquet" for name in TABLES}
        print(f"{'query':>6}" + "".join(f"{name:>12}" for name in SCHEDULES), flush=True)
        for number in arguments.queries:
            medians = measured(text(number), cluster, arguments.turns, arguments.shards, tables)
            results.append({"query": number, **medians})
            print(f"{number:>6}" + "".join(f"{seconds:12.2f}" for seconds in medians.values()), flush=True)
    ratios = {
        name: statistics.geometric_mean([row[name] / row["dynamic"] for row in results]) for name in SCHEDULES
    }
    print("ratio " + "".join(f"{ratio:12.2f}" for ratio in ratios.values()))
    settings = {name: getattr(arguments, name) for name in ("scale", "workers", "latency", "bandwidth")}
    document = {"machine": machine(), **settings, "queries": results, "ratios": ratios}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
