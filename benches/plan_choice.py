"""Compare the plan that the shard planner chooses with the best one (Quill, §6.3.2 and §6.3.3).

    .venv/bin/python benches/plan_choice.py                       # ten million visits
    .venv/bin/python benches/plan_choice.py --rows 1000000 --groups 2000 100000 --out /dev/null

The paper's queries over user visits and rankings: revenue per source, from two thousand to ten million
groups, and the join of both for a week of visits. Every way that the planner knows is run, in one process, at
2 and 4 shards; the ways take turns, and the best time of each counts. The fastest of twenty was lucky, too:
if it is not the chosen one, both take turns once more, and the ratio is the median of what one took to the
other. All ways have to give the same number of rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import whimbrel as wb
from run import machine

HERE = Path(__file__).resolve().parent
AGGREGATE = "select source, sum(revenue) as revenue from visits group by source"
JOIN = """
select source, avg(rank * 1.0) as rank, sum(revenue) as revenue
from rankings join visits on rankings.url = visits.url
where day between 14 and 21 group by source order by revenue desc limit 1
"""


def data(folder: Path, rows: int, groups: int) -> dict[str, str]:
    """Write visits with so many sources, and a ranking of a tenth as many pages."""
    random = np.random.default_rng(groups)
    visits = pa.table(
        {
            "source": random.integers(0, groups, rows),
            "url": random.integers(0, rows // 10, rows),
            "day": random.integers(0, 365, rows).astype(np.int32),
            "revenue": random.integers(0, 1000, rows),
        }
    )
    rankings = pa.table(
        {"url": random.permutation(rows // 10), "rank": random.integers(0, 10_000, rows // 10)}
    )
    for name, table in {"visits": visits, "rankings": rankings}.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 17)
    return {name: str(folder / f"{name}.parquet") for name in ("visits", "rankings")}


def in_turns(ways: list[wb.Candidate], rounds: int) -> list[list[float]]:
    """Run ways one after the other, some times; give the seconds of each."""
    seconds: list[list[float]] = [[] for _ in ways]
    sizes = set()
    for _ in range(rounds):
        for way, runs in zip(ways, seconds, strict=True):
            start = time.perf_counter()
            sizes.add(len(way.stream.collect()))
            runs.append(time.perf_counter() - start)
    assert len(sizes) == 1, f"the ways have answers of {sizes} rows"
    return seconds


def measured(sql: str, tables: dict[str, Any], shards: int, repeats: int) -> dict[str, Any]:
    """Run every way, and the chosen and the best one again."""
    ways = wb.sql(sql, shards=shards, **tables).candidates()
    seconds = [min(runs) for runs in in_turns(ways, repeats)]
    best = min(range(len(ways)), key=seconds.__getitem__)
    # The chosen way comes first; where it is the best, nothing is to be decided.
    again = in_turns([ways[0], ways[best]], 3 * repeats) if best else [[seconds[0]], [seconds[0]]]
    chosen, fastest = again
    return {
        "ways": [
            {"strategy": w.strategy, "cost": w.cost, "bytes_moved": w.bytes_moved, "seconds": took}
            for w, took in zip(ways, seconds, strict=True)
        ],
        "chosen": min(chosen),
        "best": min(fastest),
        "best_way": ways[best].strategy,
        "ratio": statistics.median(c / f for c, f in zip(chosen, fastest, strict=True)),
    }


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, nargs="+", default=[2000, 67_000, 1_000_000, 10_000_000])
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "plan_choice_results.json")
    arguments = parser.parse_args()
    results = []
    print("seconds; ratio: the chosen way's to the best's")
    print(f"{'query':>10} {'groups':>10} {'shards':>6} {'chosen':>8} {'best':>8} {'ratio':>6}  best way")
    for groups in arguments.groups:
        with tempfile.TemporaryDirectory() as folder:
            tables = data(Path(folder), arguments.rows, groups)
            for name, sql in {"aggregate": AGGREGATE, "join": JOIN}.items():
                for shards in arguments.shards:
                    found = measured(sql, tables, shards, arguments.repeats)
                    results.append({"query": name, "groups": groups, "shards": shards, **found})
                    print(
                        f"{name:>10} {groups:>10} {shards:>6} {found['chosen']:8.3f} "
                        f"{found['best']:8.3f} {found['ratio']:6.2f}  {found['best_way']}",
                        flush=True,
                    )
    arguments.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
