"""What it costs to write a stream as bytes and to read it again, beside an Avro library (trill.txt §4.2.1).

    python benches/serialization.py                                    # 2 million rows
    python benches/serialization.py --rows 100000 --out /dev/null      # a smoke test

Rows have a lifetime, a key, a number, a float and a text of some twenty characters. Whimbrel writes a stream
with its lifetimes in Arrow's format, in memory, and reads it back into a stream; the peer is the Avro writer
and reader of Polars, with the lifetimes as two columns. The engines take turns in one process; as many rows
have to be read as were written.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pyarrow as pa

import whimbrel as wb
from run import HERE, machine


def rows(count: int) -> pa.Table:
    """Draw rows that live from one to nine ticks."""
    chance = np.random.default_rng(7)
    start = np.arange(count) // 10
    words = np.array([f"user {number:08} of site {number % 97:04}" for number in range(10_000)])
    return pa.table(
        {
            "start": start,
            "end": start + chance.integers(1, 10, count),
            "key": chance.integers(0, 10_000, count),
            "value": chance.integers(0, 1_000, count),
            "share": chance.random(count),
            "text": words[chance.integers(0, len(words), count)],
        }
    )


def seconds(work: Callable[[], object]) -> float:
    """Time one run."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def engines(table: pa.Table) -> dict[str, tuple[Callable[[], bytes], Callable[[bytes], int]]]:
    """Give each engine's writer, and its reader, which counts the rows."""
    stream = wb.from_arrow(table, time="start", end="end").query(lambda q: q.where(lambda e: e.key >= 0))
    frame = pl.DataFrame(table)

    def write_arrow() -> bytes:
        file = io.BytesIO()
        stream.to_binary_stream([file])
        return file.getvalue()

    def read_arrow(data: bytes) -> int:
        read = wb.from_arrow(pa.ipc.open_stream(data).read_all(), time="start", end="end")
        return read.query(lambda q: q.where(lambda e: e.key >= 0)).collect().num_rows

    def write_avro() -> bytes:
        file = io.BytesIO()
        frame.write_avro(file)
        return file.getvalue()

    def read_avro(data: bytes) -> int:
        return pl.read_avro(io.BytesIO(data)).height

    return {"whimbrel": (write_arrow, read_arrow), "avro (polars)": (write_avro, read_avro)}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "serialization_results.json")
    arguments = parser.parse_args()
    table = rows(arguments.rows)
    results: dict[str, dict[str, list[float]]] = {}
    for _ in range(arguments.turns):
        for name, (write, read) in engines(table).items():
            data = write()
            if read(data) != arguments.rows:
                raise SystemExit(f"{name} reads other rows than it wrote")
            runs = results.setdefault(name, {"write": [], "read": []})
            runs["write"].append(seconds(write))
            runs["read"].append(seconds(lambda read=read, data=data: read(data)))
    print(f"million rows a second: best (median, first) of {arguments.turns}")
    for name, runs in results.items():
        for what, times in runs.items():
            best, middle, first = (arguments.rows / t / 1e6 for t in (min(times), median(times), times[0]))
            print(f"{name:14} {what:6} {best:8.1f} ({middle:.1f}, {first:.1f})")
    summary = {"machine": machine(), "rows": arguments.rows, "seconds": results}
    arguments.out.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
