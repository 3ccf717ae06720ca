"""What sorts of a large table cost: all rows in one shard, or a range in each, beside DuckDB and Polars.

    .venv/bin/python benches/sorts.py                                       # TPC-H at scale factor 1
    .venv/bin/python benches/sorts.py --scale 0.1 --turns 1 --out /dev/null     # a smoke test

Each engine sorts `lineitem` of TPC-H, a Parquet file, into an Arrow table, in a process of its own for each
line. The order of every line is total, and a line counts if all engines have the same rows in the same order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import tpch
from run import HERE, machine

KEY = "l_orderkey, l_linenumber"
LINES = {
    "date": f"select {KEY}, l_shipdate from lineitem order by l_shipdate, {KEY}",
    "two integers": f"select {KEY}, l_extendedprice from lineitem order by l_partkey desc, l_suppkey, {KEY}",
    "text": f"select {KEY}, l_comment from lineitem order by l_comment, {KEY}",
    "stored order": f"select {KEY}, l_comment from lineitem order by {KEY}",
    "all columns": f"select * from lineitem order by l_extendedprice, {KEY}",
    "half of the rows": f"select {KEY} from lineitem where l_quantity > 25 order by l_shipdate desc, {KEY}",
}
ENGINES = ("one shard", "ranges", "chosen", "duckdb", "polars")


def whimbrel(sql: str, path: str, threads: int, strategy: str) -> Callable[[], Any] | None:
    """Sort with a strategy of the planner, or with the one that it chooses; none if there is no such way."""
    import whimbrel as wb

    ways = wb.sql(sql, lineitem=wb.read(path), shards=threads).candidates()
    if strategy == "chosen":
        return next(way.stream.to_arrow for way in ways if way.chosen)
    in_ranges = ("in the order of shards" in way.stream.explain() for way in ways)
    wanted = (way for way, ranges in zip(ways, in_ranges, strict=True) if ranges == (strategy == "ranges"))
    return next((way.stream.to_arrow for way in wanted), None)


def duckdb(sql: str, path: str, threads: int) -> Callable[[], Any]:
    """Sort with DuckDB."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    connection.execute(f"create view lineitem as from '{path}'")
    return lambda: connection.execute(sql).to_arrow_table()


def polars(sql: str, path: str, threads: int) -> Callable[[], Any]:
    """Sort with Polars."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars as pl

    return lambda: pl.SQLContext(lineitem=pl.scan_parquet(path)).execute(sql).collect().to_arrow()


def checksum(table: pa.Table) -> list[int]:
    """Fold a result into numbers that depend on the order of its rows."""
    keys = table["l_orderkey"].to_numpy() * 8 + table["l_linenumber"].to_numpy()
    return [len(keys), int(np.sum(keys * (np.arange(len(keys)) % 1009)))]


def run(engine: str, line: str, path: str, threads: int, turns: int) -> dict[str, Any] | None:
    """Sort some times, in this process."""
    sql = LINES[line]
    if engine == "duckdb":
        program = duckdb(sql, path, threads)
    elif engine == "polars":
        program = polars(sql, path, threads)
    else:
        program = whimbrel(sql, path, threads, engine)
    if program is None:
        return None
    seconds, answer = [], None
    for _ in range(turns):
        begun = time.perf_counter()
        table = pa.table(program())
        seconds.append(time.perf_counter() - begun)
        answer = checksum(table)
        del table
    return {"first": seconds[0], "median": median(seconds), "best": min(seconds), "answer": answer}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "sorts_results.json")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "LINE", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        engine, line, path = arguments.one
        print(json.dumps(run(engine, line, path, arguments.threads, arguments.turns)))
        return
    data = [sys.executable, tpch.TPCH / "data.py", arguments.scale]
    folder = subprocess.run(data, check=True, capture_output=True, text=True).stdout.strip()
    own = [sys.executable, __file__, "--threads", str(arguments.threads), "--turns", str(arguments.turns)]
    lines: dict[str, dict[str, Any]] = {}
    print("seconds: first run of a process, median")
    print(f"{'':18}" + "".join(f"{engine:>15}" for engine in ENGINES))
    for line in LINES:
        results = {}
        for engine in ENGINES:
            command = [*own, "--one", engine, line, f"{folder}/lineitem.parquet"]
            results[engine] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        measured = {engine: result for engine, result in results.items() if result}
        if len({tuple(result["answer"]) for result in measured.values()}) != 1:
            raise SystemExit(f"{line}: the answers differ: {measured}")
        cells = (
            f"{r['first']:8.2f} {r['median']:6.2f}" if (r := results[e]) else f"{'-':>15}" for e in ENGINES
        )
        print(f"{line:18}" + "".join(cells), flush=True)
        lines[line] = measured
    document = {"machine": machine(), "scale": arguments.scale, "threads": arguments.threads, "lines": lines}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
