"""What a chain of a filter, computed columns and grouped aggregates costs, over a table and over a stream.

    .venv/bin/python benches/chains.py                                      # 10 million rows
    .venv/bin/python benches/chains.py --rows 200000 --turns 1 --out /dev/null      # a smoke test

The queries are those that the lines of `run.py` do not ask: several columns, floats and texts, keys of
several columns and of text, several aggregates. One thread. Whimbrel answers each over an Arrow table, and
over the same rows as events with a time, in one window; DuckDB has a native table in memory, Polars a frame
over the same Arrow columns. Each engine has a process of its own in each turn, and all answers have to be
equal.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from run import HERE, machine
from turns import in_process, measure, medians

LINES = {
    "integers": "select sum(a * 2 + b * 3 - k) as s from t where a > b",
    "floats": "select sum(x * y * (1 - x) + y) as s from t where x < 0.5 and y > 0.25",
    "five aggregates": """select sum(x * (1 - y)) as s, avg(x) as m, sum(a * b) as p, min(a - b) as low,
        max(a + b) as high from t where a between 100 and 800""",
    "five aggregates, 1,000 keys": """select k, sum(x * (1 - y)) as s, avg(x) as m, sum(a * b) as p,
        min(a - b) as low, max(a + b) as high from t where a between 100 and 800 group by k""",
    "most rows pass": "select k, sum(x) as s, count(*) as n from t where b % 10 <> 3 group by k",
    "two keys": "select k, c, sum(x) as s, count(*) as n from t where b > 10 group by k, c",
    "key of text": "select s, sum(x) as total, count(*) as n from t group by s",
    "two keys of text": """select s, u, sum(x) as total, count(*) as n from t where s <> 'device 7'
        group by s, u""",
}
ENGINES = ("table", "stream", "duckdb", "polars")


def table(rows: int) -> pa.Table:
    """Draw rows."""
    chance = np.random.default_rng(7)

    def texts(values: list[str]) -> pa.Array:
        return pa.array(values).take(pa.array(chance.integers(0, len(values), rows)))

    return pa.table(
        {
            "at": np.arange(rows),
            "k": chance.integers(0, 1_000, rows),
            "a": chance.integers(0, 1_000, rows),
            "b": chance.integers(0, 1_000, rows),
            "c": chance.integers(0, 10, rows),
            "x": chance.random(rows),
            "y": chance.random(rows),
            "s": texts([f"device {number}" for number in range(1_000)]),
            "u": texts(["de", "fr", "it", "uk", "us"]),
        }
    )


def whimbrel(rows: int, *, is_stream: bool) -> Callable[[str], Callable[[], pa.Table]]:
    """Answer on the thread that asks; over a stream in one window."""
    import whimbrel as wb

    source = wb.from_arrow(table(rows), time="at" if is_stream else None)

    def of(text: str) -> Callable[[], pa.Table]:
        if is_stream:
            text = text.replace("from t", f"from tumble(t, at, {rows})")
            text += ", window_end" if "group by" in text else " group by window_end"
        query = wb.sql(text, shards=1, t=source)
        return lambda: query.collect(runtime="library", progress=False).to_arrow()

    return of


def duckdb(rows: int) -> Callable[[str], Callable[[], pa.Table]]:
    """Answer with DuckDB."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow", table(rows))
    connection.execute("create table t as select * from arrow")
    return lambda text: lambda: connection.execute(text).to_arrow_table()


def polars(rows: int) -> Callable[[str], Callable[[], pa.Table]]:
    """Answer with Polars."""
    import polars as pl

    context = pl.SQLContext(t=pl.DataFrame(table(rows)).lazy())
    return lambda text: lambda: context.execute(text).collect().to_arrow()


def checksum(answer: pa.Table) -> list[float]:
    """Fold an answer: its rows, and the sum of each column of numbers by name."""
    times = ("start", "end", "window_end")
    names = sorted(name for name in answer.column_names if name not in times)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    numbers = [name for name in names if not any(is_text(answer[name].type) for is_text in texts)]
    sums = (pc.call_function("sum", [answer[name].cast(pa.float64())]).as_py() for name in numbers)
    return [float(answer.num_rows), *map(float, sums)]


def queries(engine: str, rows: int) -> dict[str, Callable[[], pa.Table]]:
    """Give what answers each line."""
    engines = {
        "table": lambda: whimbrel(rows, is_stream=False),
        "stream": lambda: whimbrel(rows, is_stream=True),
        "duckdb": lambda: duckdb(rows),
        "polars": lambda: polars(rows),
    }
    of = engines[engine]()
    return {name: of(text) for name, text in LINES.items()}


def compared(line: str, turns: list[dict[str, dict]], rows: int) -> dict:
    """Give the runs of a line by all engines, and print a row of the table."""
    found = {engine: [turn[engine][line] for turn in turns] for engine in ENGINES}
    answers = [of["answer"] for each in found.values() for of in each]
    if not all(np.allclose(answer, answers[0], rtol=1e-9) for answer in answers):
        raise SystemExit(f"`{line}` has several answers: {answers}")
    measured = medians(found)
    rest = measured["median"]
    peer = min(rest["duckdb"], rest["polars"])
    ratios = {engine: peer / rest[engine] for engine in ("table", "stream")}
    cells = [f"{rows / rest[engine] / 1e6:.1f}" for engine in ENGINES]
    cells += [f"{ratio:.2f}" for ratio in ratios.values()]
    print(f"{line:>28}" + "".join(f"{cell:>10}" for cell in cells))
    return {"line": line, **measured, "ratio": ratios}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4, help="runs of a process behind the first")
    parser.add_argument("--out", type=Path, default=HERE / "chains_results.json")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows, repeats = arguments.rows, arguments.repeats
    if arguments.measure:
        print(json.dumps(measure(queries(arguments.measure, rows), repeats, checksum)))
        return

    def one(engine: str) -> dict[str, dict]:
        return in_process(__file__, engine, rows, repeats, 1)

    turns = [{engine: one(engine) for engine in ENGINES} for _ in range(arguments.turns)]
    heads = (*ENGINES, "table/", "stream/")
    print(f"{'million rows a second':>28}" + "".join(f"{head:>10}" for head in heads))
    results = [compared(line, turns, rows) for line in LINES]
    document = {"machine": machine(), "rows": rows, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}; a ratio is to the best peer")


if __name__ == "__main__":
    main()
