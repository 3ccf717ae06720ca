"""Measure how long a command takes from its start to its end, of which the query is the least part.

    .venv/bin/python benches/cold_start.py

The command `whimbrel` that the package brings takes turns with the shortest Python programs that do the same
with DuckDB and Polars, and with a Python that does nothing. All files have been read before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from run import machine

HERE = Path(__file__).resolve().parent
COMMAND = str(Path(sys.executable).parent / "whimbrel")
POLARS = "import polars as pl; print(pl.sql({sql!r}).collect())"
DUCKDB = "import duckdb; print(duckdb.sql({sql!r}))"


def queries(folder: Path) -> dict[str, tuple[str, str]]:
    """Write SQL for all engines, and for Polars, which has a function for what is a name elsewhere."""
    file = folder / "small.parquet"
    numbers = list(range(1000))
    pq.write_table(pa.table({"key": [n % 10 for n in numbers], "value": numbers}), file)
    totals = "select key, sum(value) as total from {} group by key order by key"
    return {
        "select 1": ("select 1", "select 1"),
        "small file": (totals.format(f"'{file}'"), totals.format(f"read_parquet('{file}')")),
    }


def commands(sql: str, polars: str) -> dict[str, list[str]]:
    """Make one command for each engine."""
    return {
        "python": [sys.executable, "-c", "pass"],
        "whimbrel": [COMMAND, "sql", sql],
        "duckdb": [sys.executable, "-c", DUCKDB.format(sql=sql)],
        "polars": [sys.executable, "-c", POLARS.format(sql=polars)],
    }


def milliseconds(command: list[str]) -> float:
    """Run a command once."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=HERE / "cold_start_results.json")
    arguments = parser.parse_args()
    results = []
    print(f"{'milliseconds':>12} {'engine':>10} {'best':>8} {'median':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (sql, polars) in queries(Path(folder)).items():
            engines = commands(sql, polars)
            rounds = [[milliseconds(c) for c in engines.values()] for _ in range(arguments.repeats + 1)]
            for engine, runs in zip(engines, zip(*rounds[1:], strict=True), strict=True):
                results.append({"query": name, "engine": engine, "milliseconds": runs})
                print(f"{name:>12} {engine:>10} {min(runs):8.1f} {statistics.median(runs):8.1f}")
    arguments.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
