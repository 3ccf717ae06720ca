"""What machine code for expressions is worth (trill.txt §4): the same queries with it and without.

    python benches/native.py                                              # 5 million rows
    python benches/native.py --rows 200000 --turns 1 --out /dev/null      # a smoke test

Each query computes one column of an expression in one shard and adds it up: over a table, and over a stream
of events with a time. Processes take turns, of which one has `WHIMBREL_NATIVE=never`; their answers have to
be equal. DuckDB, on one thread and with the table in its own format, is the third. The first run of a
process is given beside the median of the others.
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

import duckdb
import numpy as np
import pyarrow as pa

import whimbrel as wb
from run import HERE, machine

EXPRESSIONS = {
    "choice": "case when a > b then a * 2 when c < 50 then b - a else 0 end",
    "choice of floats": "case when x > 0.5 then x * y when y > 0.9 then y end",
    "choice by value": "case c % 5 when 0 then a when 1 then b when 2 then a + b when 3 then a - b end",
    "division": "(a + b) / (c + 1) % 1000 + a / 7",
    "bands": "case when x < 0.2 then 1 when x < 0.4 then 2 when x < 0.6 then 3 else 4 end",
}


TEXT = "select sum(v) as total, count(v) as n from (select {expression} as v from t)"

PEER = "duckdb"

# What runs, and what the environment of its process says.
RUNNERS = {"compiled": "worthwhile", "interpreted": "never", PEER: "never"}


def table(rows: int) -> pa.Table:
    """Draw rows, of which a tenth has a null in one column."""
    chance = np.random.default_rng(7)
    nulls = chance.random(rows) < 0.1
    return pa.table(
        {
            "at": np.arange(rows),
            "a": pa.array(chance.integers(0, 1_000, rows), mask=nulls),
            "b": chance.integers(0, 1_000, rows),
            "c": chance.integers(0, 100, rows),
            "x": chance.random(rows),
            "y": chance.random(rows),
        }
    )


def queries(rows: int) -> dict[str, Callable[[], pa.Table]]:
    """Give each query over the table, and over the same rows as events."""
    tables = {"table": wb.from_arrow(table(rows)), "stream": wb.from_arrow(table(rows), time="at")}
    return {
        f"{name}, {source}": wb.sql(TEXT.format(expression=expression), shards=1, t=of).to_arrow
        for name, expression in EXPRESSIONS.items()
        for source, of in tables.items()
    }


def peer_queries(rows: int) -> dict[str, Callable[[], pa.Table]]:
    """Give each query over the table as DuckDB runs it; it divides integers by `//`."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow", table(rows))
    connection.execute("create table t as select * from arrow")

    def of(expression: str) -> Callable[[], pa.Table]:
        text = TEXT.format(expression=expression.replace("/", "//"))
        return lambda: connection.execute(text).to_arrow_table()

    return {f"{name}, table": of(expression) for name, expression in EXPRESSIONS.items()}


def measure(runner: str, rows: int, repeats: int) -> dict[str, dict]:
    """Run each query some times; give the seconds of its runs, and its answer."""
    results = {}
    for name, run in (peer_queries(rows) if runner == PEER else queries(rows)).items():
        runs, values = [], []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            answer = run()
            runs.append(time.perf_counter() - start)
            values = [float(value) for value in answer.to_pylist()[0].values()]
        results[name] = {"runs": runs, "answer": values}
    return results


def in_process(runner: str, rows: int, repeats: int) -> dict[str, dict]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", runner, "--rows", str(rows), "--repeats", str(repeats)]
    environment = {**os.environ, "WHIMBREL_NATIVE": RUNNERS[runner]}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def compared(query: str, turns: list[dict[str, dict]], rows: int) -> dict:
    """Give the runs of a query by all that answer it, and print a line."""
    found = {name: [turn[name][query] for turn in turns if query in turn[name]] for name in RUNNERS}
    answers = [of["answer"] for each in found.values() for of in each]
    if not all(np.allclose(answer, answers[0], rtol=1e-9) for answer in answers):
        raise SystemExit(f"`{query}` has several answers: {answers}")
    runs = {name: [of["runs"] for of in each] for name, each in found.items() if each}
    rest = {name: median(run for of in each for run in of[1:]) for name, each in runs.items()}
    first = median(of[0] for of in runs["compiled"])
    cells = [rest["interpreted"], rest["compiled"], first, rest.get(PEER)]
    rates = [f"{rows / seconds / 1e6:.1f}" if seconds else "-" for seconds in cells]
    ratio = rest["interpreted"] / rest["compiled"]
    print(f"{query:>28}" + "".join(f"{rate:>14}" for rate in rates) + f"{ratio:>8.2f}")
    return {"query": query, "runs": runs, "ratio": ratio}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4, help="runs of a process behind the first")
    parser.add_argument("--out", type=Path, default=HERE / "native_results.json")
    parser.add_argument("--measure", choices=RUNNERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    wb.config(progress=False)
    rows, repeats = arguments.rows, arguments.repeats
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, rows, repeats)))
        return
    turns = [{name: in_process(name, rows, repeats) for name in RUNNERS} for _ in range(arguments.turns)]
    print(
        f"{'million rows a second':>28}{'interpreted':>14}{'compiled':>14}{'first':>14}{PEER:>14}{'ratio':>8}"
    )
    results = [compared(query, turns, rows) for query in turns[0]["compiled"]]
    document = {"machine": machine(), "rows": rows, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
