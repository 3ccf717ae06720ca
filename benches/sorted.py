"""What it gains to say that rows come in the order of a column (trill.txt §6.2, Fig. 5d).

    .venv/bin/python benches/sorted.py                                      # 4 million rows
    .venv/bin/python benches/sorted.py --rows 200000 --turns 1 --out /dev/null      # a smoke test

Rows come in the order of an id, four of each. They are summed up by it, and joined with one row of each id,
where rows never end. `by hash` is the query without an assertion: rows move to the shard of the hash of
their id, and are looked up there. `sorted` has `require_sorted`: runs of an id are dealt out
(`reshard(together=…)`), and the join merges. DuckDB has native tables in memory and is told nothing; Polars
has frames whose ids are marked as sorted. Two threads. Each engine has a process of its own in each turn,
and all answers have to be equal.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from run import HERE, machine
from turns import in_process, measure, medians

THREADS = 2
OF_AN_ID = 4
ENGINES = ("by hash", "sorted", "duckdb", "polars")
LINES = ("sums by id", "join on id")

Query = Callable[[], pa.Table]


def tables(rows: int) -> tuple[pa.Table, pa.Table]:
    """Draw rows, and one row of each id."""
    chance = np.random.default_rng(7)
    ids = np.arange(rows) // OF_AN_ID
    values = pa.table({"at": np.arange(rows), "id": ids, "value": chance.integers(0, 1_000, rows)})
    single = np.arange(rows // OF_AN_ID)
    prices = pa.table(
        {"at": single * OF_AN_ID, "id": single, "price": chance.integers(0, 1_000, len(single))}
    )
    return values, prices


def whimbrel(rows: int, *, is_sorted: bool) -> dict[str, Query]:
    """Answer by streams with a time."""
    import whimbrel as wb

    values, prices = (wb.from_arrow(table, time="at") for table in tables(rows))
    if is_sorted:
        values, prices = (side.query(lambda q: q.require_sorted("id")) for side in (values, prices))
        by_id = values.reshard(THREADS, together="id")
    else:
        by_id = values.rekey("id").redistribute(THREADS)

    def sums(q: Any) -> Any:
        return q.group_apply("id", lambda g: g.tumbling(rows).aggregate(total=wb.sum("value"), n=wb.count()))

    def priced(values: Any, prices: Any) -> Any:
        forever = (side.alter_duration(math.inf) for side in (values, prices))
        return next(forever).join(next(forever), on="id").select("id", "value", "price")

    moved = [side.rekey("id").redistribute(THREADS) for side in (values, prices)]
    queries = (by_id.query(sums), moved[0].query(moved[1], priced))
    return {
        line: lambda query=query: query.collect(progress=False).to_arrow()
        for line, query in zip(LINES, queries, strict=True)
    }


def duckdb(rows: int) -> dict[str, Query]:
    """Answer with DuckDB."""
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    for name, table in zip(("v", "p"), tables(rows), strict=True):
        connection.register("arrow", table)
        connection.execute(f"create table {name} as select * from arrow")
    texts = (
        "select id, sum(value)::bigint as total, count(*) as n from v group by id",
        "select id, value, price from v join p using (id)",
    )
    return {
        line: lambda text=text: connection.execute(text).to_arrow_table()
        for line, text in zip(LINES, texts, strict=True)
    }


def polars(rows: int) -> dict[str, Query]:
    """Answer with Polars, which knows of the order."""
    import polars as pl

    values, prices = (pl.DataFrame(table).with_columns(pl.col("id").set_sorted()) for table in tables(rows))
    sums = values.lazy().group_by("id").agg(total=pl.col("value").sum(), n=pl.len())
    joined = values.lazy().join(prices.lazy(), on="id").select("id", "value", "price")
    return {
        line: lambda query=query: query.collect().to_arrow()
        for line, query in zip(LINES, (sums, joined), strict=True)
    }


def checksum(answer: pa.Table) -> list[int]:
    """Fold an answer: its rows, and the sum of each column of numbers but the times."""
    names = sorted(set(answer.column_names) - {"start", "end"})
    return [answer.num_rows, *(pc.call_function("sum", [answer[name]]).as_py() for name in names)]


def queries(engine: str, rows: int) -> dict[str, Query]:
    """Give what answers each line."""
    engines = {
        "by hash": lambda: whimbrel(rows, is_sorted=False),
        "sorted": lambda: whimbrel(rows, is_sorted=True),
        "duckdb": lambda: duckdb(rows),
        "polars": lambda: polars(rows),
    }
    return engines[engine]()


def compared(line: str, turns: list[dict[str, dict]], rows: int) -> dict:
    """Give the runs of a line by all engines, and print a row of the table."""
    found = {engine: [turn[engine][line] for turn in turns] for engine in ENGINES}
    answers = {str(of["answer"]) for each in found.values() for of in each}
    if len(answers) > 1:
        raise SystemExit(f"`{line}` has several answers: {answers}")
    measured = medians(found)
    rest = measured["median"]
    ratio = min(rest["duckdb"], rest["polars"]) / rest["sorted"]
    cells = [f"{rows / rest[engine] / 1e6:.1f}" for engine in ENGINES] + [f"{ratio:.2f}"]
    print(f"{line:>21}" + "".join(f"{cell:>10}" for cell in cells))
    return {"line": line, **measured, "ratio": ratio}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4, help="runs of a process behind the first")
    parser.add_argument("--out", type=Path, default=HERE / "sorted_results.json")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows, repeats = arguments.rows, arguments.repeats
    if arguments.measure:
        print(json.dumps(measure(queries(arguments.measure, rows), repeats, checksum)))
        return

    def one(engine: str) -> dict[str, dict]:
        return in_process(__file__, engine, rows, repeats, THREADS)

    turns = [{engine: one(engine) for engine in ENGINES} for _ in range(arguments.turns)]
    print(f"{'million rows a second':>21}" + "".join(f"{head:>10}" for head in (*ENGINES, "ratio")))
    results = [compared(line, turns, rows) for line in LINES]
    document = {"machine": machine(), "rows": rows, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}; the ratio is of `sorted` to the best peer")


if __name__ == "__main__":
    main()
