"""What it costs to hear of results sooner: rates by the events between two punctuations (trill.txt, Fig. 4b).

    .venv/bin/python benches/latency.py                              # 20 million events
    .venv/bin/python benches/latency.py --rows 200000 --turns 1 --out /dev/null      # a smoke test

Events are those of `workloads.py`, in a table in memory. The ingress is told after how many rows to punctuate
(`punctuate_rows`), and each punctuation lets the query say what is final. One thread, which pushes the rows
itself; the settings take turns in one process. All settings have to give the same rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import whimbrel as wb
from run import HERE, machine
from workloads import Line, events

BETWEEN = (10, 100, 1_000, 10_000, 80_000, 1_000_000)
HOUR, TEN_MINUTES = 3_600, 600
"""In ticks, of which a second has one: windows of 36,000 events, a tenth of them new."""

Query = Callable[[wb.Stream], wb.Stream]

SUM = wb.sum(lambda e: e.value)
QUERIES: dict[str, Query] = {
    "filter": lambda q: q.where(lambda e: e.value < 500),
    "windowed count": lambda q: q.hopping(HOUR, hop=TEN_MINUTES).aggregate(n=wb.count()),
    "windowed sum, 10,000 keys": lambda q: q.hopping(HOUR, hop=TEN_MINUTES).aggregate(s=SUM),
    "tumbling sum, 10,000 keys": lambda q: q.tumbling(HOUR).aggregate(s=SUM),
}


def measure(name: str, table: pa.Table, turns: int) -> dict[int, list[float]]:
    """Run a query with all settings, in turns; give the seconds of each."""
    seconds: dict[int, list[float]] = {between: [] for between in BETWEEN}
    answers = set()
    for _ in range(turns):
        for between in BETWEEN:
            source = wb.from_arrow(table, time="t", punctuate_rows=between)
            plan = (source.rekey("key") if "keys" in name else source).query(QUERIES[name])
            begun = time.perf_counter()
            answers.add(plan.collect(runtime="library", progress=False).num_rows)
            seconds[between].append(time.perf_counter() - begun)
    if len(answers) != 1:
        raise SystemExit(f"the number of results depends on the punctuations: {sorted(answers)}")
    return seconds


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "latency_results.json")
    arguments = parser.parse_args()
    lines: dict[str, Any] = {}
    print("million events a second, median of the turns, by events between two punctuations")
    print(f"{'':28}" + "".join(f"{between:>12,}" for between in BETWEEN))
    table = events(Line("latency", 10_000, arguments.rows))
    for name in QUERIES:
        seconds = measure(name, table, arguments.turns)
        lines[name] = seconds
        rates = (arguments.rows / median(runs) / 1e6 for runs in seconds.values())
        print(f"{name:28}" + "".join(f"{rate:12.2f}" for rate in rates), flush=True)
    document = {"machine": machine(), "rows": arguments.rows, "lines": lines}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
