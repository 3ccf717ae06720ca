"""What early results of a query cost, and how soon the first one comes (trill.txt, Fig. 6b).

    .venv/bin/python benches/progressive.py                     # TPC-H at scale factor 10
    .venv/bin/python benches/progressive.py --scale 0.1 --turns 1 --out /dev/null     # a smoke test

Each query runs as a whole, as a batch does, and with 1, 10, 20 and 50 results, in turns in one process; the
median of the turns counts. A number counts if the last result is that of the batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import tpch
import whimbrel as wb
from run import HERE, machine

RESULTS = (1, 10, 20, 50)
POPULAR = """
    select l_suppkey, count(*) as n, sum(l_quantity) as quantity from lineitem
    group by l_suppkey order by n desc, l_suppkey limit 10
"""
QUERIES = {
    "popular suppliers": POPULAR,
    "by ship mode": "select l_shipmode, count(*) as n from lineitem group by l_shipmode order by n desc",
} | {f"TPC-H {n}": (tpch.TPCH / f"q{n:02}.sql").read_text() for n in (1, 3, 5, 6, 9, 12)}


def batch(query: wb.ShardedStream) -> tuple[float, pa.Table]:
    """Run a query as a whole; give its seconds and its result."""
    begun = time.perf_counter()
    table = query.to_arrow()
    return time.perf_counter() - begun, pa.table(table)


def progressive(query: wb.ShardedStream, results: int) -> tuple[float, float, int, pa.Table]:
    """Run a query with early results: the seconds to the first and to the last, how many, and the last."""
    begun = time.perf_counter()
    first, count, table = 0.0, 0, None
    for early in query.progressive(results=results):
        first = first or time.perf_counter() - begun
        count, table = count + 1, early.table
    return first, time.perf_counter() - begun, count, pa.table(table)


def measure(query: wb.ShardedStream, turns: int) -> dict[str, Any]:
    """Run a query in all ways, in turns."""
    whole: list[float] = []
    runs: dict[int, list[tuple[float, float, int]]] = {results: [] for results in RESULTS}
    for _ in range(turns):
        seconds, expected = batch(query)
        whole.append(seconds)
        for results in RESULTS:
            first, last, count, table = progressive(query, results)
            if table != expected:
                raise SystemExit("the last result is not that of the batch")
            runs[results].append((first, last, count))
    return {"batch": median(whole), "progressive": {n: summary(of) for n, of in runs.items()}}


def summary(runs: Iterable[tuple[float, float, int]]) -> dict[str, float]:
    """Give the medians of some runs."""
    first, last, count = zip(*runs, strict=True)
    return {"first": median(first), "total": median(last), "results": median(count)}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--scale", default="10")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "progressive_results.json")
    arguments = parser.parse_args()
    data = [sys.executable, tpch.TPCH / "data.py", arguments.scale]
    folder = subprocess.run(data, check=True, capture_output=True, text=True).stdout.strip()
    tables: dict[str, Any] = {name: f"{folder}/{name}.parquet" for name in tpch.TABLES}
    lines = {}
    print(f"{'seconds':18} {'batch':>7}" + "".join(f"   {f'{n} results':>15}" for n in RESULTS))
    for name, sql in QUERIES.items():
        line = measure(wb.sql(sql, shards=arguments.threads, **tables), arguments.turns)
        lines[name] = line
        cells = (f"   {run['first']:6.2f} … {run['total']:6.2f}" for run in line["progressive"].values())
        print(f"{name:18} {line['batch']:7.2f}" + "".join(cells), flush=True)
    document = {"machine": machine(), "scale": arguments.scale, "threads": arguments.threads, "lines": lines}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
