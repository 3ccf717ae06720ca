"""Compare numbers of shards: the same query over the same events, on all cores, with ever more shards.

    python benches/shard_count.py                            # at 20 million events
    python benches/shard_count.py --rows 200000 --turns 1 --out /dev/null     # a smoke test

A job keeps the number of shards that it was begun with. Who wants to give it a larger machine later begins
with more shards than there are cores; this says what that costs. The query counts and sums the events of each
key in tumbling windows of 1000 ticks. The turns go through all numbers of shards, so that whatever else the
machine does is in each; the ratio is the median, over the turns, to what the fewest shards took.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa

import whimbrel as wb
from engines import timed
from engines.whimbrel_engine import COUNT_AND_SUM, by_turns, fold_windows
from run import HERE, machine
from workloads import WINDOW, Answer, Line, events

KEYS = (10_000, 1_000_000)


def answer(table: pa.Table, cores: int, shards: int) -> Answer:
    """Run the query in so many shards."""
    source = wb.from_arrow(table, time="t", shards=cores).rekey(lambda e: e.key).redistribute(shards)
    windows = source.query(lambda q: q.tumbling(WINDOW).aggregate(**COUNT_AND_SUM))
    return fold_windows(WINDOW, windows.collect(runtime="local", progress=False))


def seconds(keys: int, rows: int, shards: list[int], turns: int) -> list[list[float]]:
    """Time all numbers of shards in turns, once to warm up and then so many times."""
    cores = os.cpu_count() or 1
    table = by_turns(events(Line("tumbling", keys, rows)), cores)
    queries = [timed(partial(answer, table, cores, count)) for count in shards]
    measured = [[run() for run in queries] for _ in range(turns + 1)][1:]
    answers = {run.answer for turn in measured for run in turn}
    assert len(answers) == 1, answers
    return [[run.seconds for run in turn] for turn in measured]


def main() -> None:
    """Measure, print a line a case, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=20_000_000, help="events (default: 20 million)")
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "shard_count_results.json")
    arguments = parser.parse_args()
    print("milliseconds in the median; ratio: to the fewest shards, in the median of the turns")
    print(f"{'keys':>9} {'shards':>6} {'ms':>8} {'ratio':>6}")
    results = []
    for keys in KEYS:
        turns = seconds(keys, arguments.rows, arguments.shards, arguments.turns)
        for at, shards in enumerate(arguments.shards):
            took = [turn[at] for turn in turns]
            ratio = median(turn[at] / turn[0] for turn in turns)
            print(f"{keys:9,} {shards:6} {median(took) * 1e3:8.1f} {ratio:6.2f}", flush=True)
            results.append({"keys": keys, "shards": shards, "ratio": ratio, "seconds": took})
    document = {"machine": machine(), "rows": arguments.rows, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
