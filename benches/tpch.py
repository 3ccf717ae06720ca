"""Run TPC-H on Whimbrel and its peers, query by query; results as JSON and as a table.

    .venv/bin/python benches/tpch.py                    # scale factor 1
    .venv/bin/python benches/tpch.py --scale 10 --queries 1 6 21
    .venv/bin/python benches/tpch.py --scale 0.1 --out /dev/null      # a smoke test

All engines read the same Parquet files, with the same number of threads, and run the same SQL
(`tests/tpch`). Every query is a process of its own on every engine, which opens the files and runs the query
several times. A run is measured from the text to a table in memory. The best run counts; the results have the
first run and the median too. The engines take turns on each query. A number counts if all engines gave the
same answer. An engine that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure import cpu_pressure_seconds
from run import json_of_process, machine

HERE = Path(__file__).resolve().parent
TPCH = HERE.parent / "tests" / "tpch"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
OURS = "whimbrel"
TIME_LIMIT_SECONDS = 600

Tables = dict[str, Any]
Program = Callable[[str], Any]
"""Runs a query and gives an Arrow table."""


def whimbrel(tables: Tables, threads: int) -> Program:
    """Whimbrel, with a shard a thread."""
    import whimbrel as wb

    # The package is imported when it is first used, and imports are not measured.
    run = wb.sql
    return lambda sql: run(sql, shards=threads, **tables).to_arrow()


def datafusion(tables: Tables, threads: int) -> Program:
    """DataFusion from its own wheel, as it comes, with a partition a thread."""
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(threads))
    for name, path in tables.items():
        context.register_parquet(name, path)
    return lambda sql: context.sql(sql).to_arrow_table()


def duckdb(tables: Tables, threads: int) -> Program:
    """DuckDB over views of the files."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    for name, path in tables.items():
        connection.execute(f"create view {name} as select * from '{path}'")
    return lambda sql: connection.execute(sql).to_arrow_table()


def polars(tables: Tables, threads: int) -> Program:
    """Polars' SQL over scans of the files; the variable for its threads is set before it is imported."""
    import polars as pl

    assert pl.thread_pool_size() == threads
    context = pl.SQLContext({name: pl.scan_parquet(path) for name, path in tables.items()})
    return lambda sql: context.execute(sql.rstrip().rstrip(";"), eager=True).to_arrow()


ENGINES = {OURS: whimbrel, "datafusion": datafusion, "duckdb": duckdb, "polars": polars}


def text(query: int) -> str:
    """Return a query without its comments."""
    lines = (TPCH / f"q{query:02}.sql").read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def answer(table: Any) -> list[float]:
    """Fold an answer: how many rows it has, and the sum of each column that holds numbers."""
    sums = []
    for column in table.columns:
        values = [value for value in column.to_pylist() if isinstance(value, (int, float, Decimal))]
        sums.append(float(sum(values)))
    return [float(table.num_rows), *sums]


def timed(program: Program, sql: str) -> tuple[Any, float]:
    """Run a query; return its table and the seconds it took."""
    start = time.perf_counter()
    table = program(sql)
    return table, time.perf_counter() - start


def measure(engine: str, query: int, tables: Tables, threads: int, repeats: int) -> dict:
    """Run once, and then `repeats` times more; return the best, the median and the first run."""
    if repeats < 0:
        raise ValueError(f"a number of repeats cannot be negative, as {repeats} is")
    program, sql = ENGINES[engine](tables, threads), text(query)
    before = cpu_pressure_seconds()
    table, seconds = timed(program, sql)
    runs = [seconds, *(timed(program, sql)[1] for _ in range(repeats))]
    after = cpu_pressure_seconds()
    pressure = None if before is None or after is None else after - before
    return {
        "seconds": min(runs),
        "median": statistics.median(runs),
        "first": runs[0],
        "runs": runs,
        "answer": answer(table),
        "cpu_pressure_seconds": pressure,
    }


def measured(engine: str, query: int, arguments: argparse.Namespace, folder: str) -> dict:
    """Measure in a process of its own; an engine that fails leaves its message."""
    command = [sys.executable, __file__, "--one", engine, "--queries", str(query), "--folder", folder]
    options = [f"--threads={arguments.threads}", f"--repeats={arguments.repeats}"]
    case = {"engine": engine, "query": query, "scale": arguments.scale, "threads": arguments.threads}
    environment = {**os.environ, "POLARS_MAX_THREADS": str(arguments.threads)}
    return {**case, **json_of_process([*command, *options], environment, TIME_LIMIT_SECONDS)}


def middle(runs: list[float]) -> float:
    """Give the median without the first run, which may have to read files, start functions, or connect."""
    return statistics.median(runs[1:] or runs)


def same(one: list[float], other: list[float]) -> bool:
    """Compare two folded answers; what are decimals for one are floats for another."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-2) for a, b in zip(one, other, strict=True)
    )


def errors_of(results: list[dict]) -> list[str]:
    """Report the engines that failed, or whose answer differs from that of the first engine."""
    expected = next((result["answer"] for result in results if "answer" in result), None)
    errors = []
    for result in results:
        where = f"{result['engine']}, query {result['query']}"
        if "error" in result:
            errors.append(f"{where}: {result['error']}")
        elif not same(result["answer"], expected or []):
            errors.append(f"{where}: the answer is {result['answer']}, and not {expected}")
    return errors


def table_row(name: str, seconds: dict[str, float | None], waited: float | None) -> str:
    """Format one line: seconds, the ratio to the best peer, seconds of waiting for a core."""
    peers = [value for engine, value in seconds.items() if engine != OURS and value is not None]
    whimbrel_seconds = seconds.get(OURS)
    ratio = f"{whimbrel_seconds / min(peers):7.2f}" if whimbrel_seconds and peers else f"{'-':>7}"
    cells = " ".join(f"{value:11.3f}" if value is not None else f"{'-':>11}" for value in seconds.values())
    return f"{name:>6} {cells} {ratio} {waited or 0:8.1f}"


def summary(results: list[dict], engines: list[str]) -> dict:
    """Add up what every engine could do, and the ratios to the best peer."""
    by_query: dict[int, dict[str, float]] = {}
    for result in results:
        if "seconds" in result:
            by_query.setdefault(result["query"], {})[result["engine"]] = result["seconds"]
    complete = {query: times for query, times in by_query.items() if len(times) == len(engines)}
    totals = {engine: sum(times[engine] for times in complete.values()) for engine in engines}
    ratios = {
        query: times[OURS] / min(value for engine, value in times.items() if engine != OURS)
        for query, times in complete.items()
        if OURS in times and len(times) > 1
    }
    worst = max(ratios, key=ratios.__getitem__, default=None)
    mean = statistics.geometric_mean(ratios.values()) if ratios else None
    return {
        "queries": sorted(complete),
        "total_seconds": totals,
        "ratio_to_best_peer": ratios,
        "worst_query": worst,
        "geometric_mean_ratio": mean,
    }


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="scale factor (default: 1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)))
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--out", type=Path, default=HERE / "tpch_results.json")
    parser.add_argument("--one", choices=list(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    arguments = arguments_of_command()
    if arguments.one:
        tables = {name: f"{arguments.folder}/{name}.parquet" for name in TABLES}
        one = measure(arguments.one, arguments.queries[0], tables, arguments.threads, arguments.repeats)
        print(json.dumps(one))
        return
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    engines = [engine for engine in arguments.engines if find_spec(engine)]
    print(
        f"TPC-H at scale factor {arguments.scale}, {arguments.threads} threads, best of {arguments.repeats}"
    )
    print("seconds; ratio: whimbrel to the best peer; waited: seconds in which some task waited for a core")
    columns = " ".join(f"{engine:>11}" for engine in engines)
    print(f"{'query':>6} {columns} {'ratio':>7} {'waited':>8}", flush=True)
    measurements, errors = [], []
    for query in arguments.queries:
        results = [measured(engine, query, arguments, folder) for engine in engines]
        measurements += results
        errors += errors_of(results)
        waited = sum(result.get("cpu_pressure_seconds") or 0 for result in results)
        seconds = {result["engine"]: result.get("seconds") for result in results}
        print(table_row(str(query), seconds, waited), flush=True)
    totals = summary(measurements, engines)
    print(table_row("total", totals["total_seconds"], None))
    document = {"machine": machine(), "summary": totals, "results": measurements}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")
    if errors:
        raise SystemExit("\n".join(errors))


if __name__ == "__main__":
    main()
