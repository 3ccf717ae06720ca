"""Compare hopping with tumbling windows: the same events, both queries in turns, in one process.

    python benches/hopping_cost.py                           # at 20 million events
    python benches/hopping_cost.py --rows 200000 --out /dev/null     # a smoke test

A window of 1000 ticks moves on every 100, so ten times as many windows end as tumbling ones. The ratio is the
median, over the turns, of what a hopping query took to what the tumbling one before it took.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median

from engines.whimbrel_engine import programs
from run import HERE, machine
from workloads import Line, events

KEYS = (10, 10_000, 1_000_000)


def seconds(keys: int, rows: int, threads: int, turns: int) -> list[list[float]]:
    """Time both queries in turns, once to warm up and then so many times: tumbling, hopping."""
    table = events(Line("tumbling", keys, rows))
    queries = [programs(Line(query, keys, rows), table, threads) for query in ("tumbling", "hopping")]
    both = [next(iter(query.values())) for query in queries]
    return [[run().seconds for run in both] for _ in range(turns + 1)][1:]


def main() -> None:
    """Measure, print a line a case, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=20_000_000, help="events (default: 20 million)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, default=HERE / "hopping_cost_results.json")
    arguments = parser.parse_args()
    print("milliseconds in the median; ratio: hopping to tumbling, in the median of the turns")
    print(f"{'keys':>9} {'threads':>7} {'tumbling':>9} {'hopping':>9} {'ratio':>6}")
    results = []
    for threads in arguments.threads:
        for keys in KEYS:
            turns = seconds(keys, arguments.rows, threads, arguments.turns)
            tumbling, hopping = (median(each) * 1e3 for each in zip(*turns, strict=True))
            ratio = median(hopping / tumbling for tumbling, hopping in turns)
            print(f"{keys:9,} {threads:7} {tumbling:9.1f} {hopping:9.1f} {ratio:6.2f}", flush=True)
            results.append({"keys": keys, "threads": threads, "ratio": ratio, "turns": turns})
    document = {"machine": machine(), "rows": arguments.rows, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
