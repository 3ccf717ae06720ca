"""Run TPC-H on Whimbrel's cluster and on its peers: Spark, Sail and Daft, two workers of one core each.

    .venv/bin/python benches/cluster_peers.py               # scale factor 1
    .venv/bin/python benches/cluster_peers.py --scale 0.1 --engines whimbrel --out /dev/null    # a smoke test

Every peer has a Python environment of its own (`peer_clusters.py`). One engine after
another runs all queries: a first run, and `--repeats` more, of which the median counts. A number counts if
the answer is that of Whimbrel's local runtime. Queries that an engine cannot run are left out of the
comparison with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import whimbrel as wb
from peer_clusters import OURS, PACKAGES, checked, measure
from run import machine
from tpch import HERE, TABLES, TPCH, answer, middle, text

COUNT = "select count(*) as n from region"

# Four texts are changed where Daft refuses decimals.
DAFT_TEXTS = {
    1: [("(1 - l_discount)", "(1 - cast(l_discount as double))")],
    8: [("(1 - l_discount)", "(1 - cast(l_discount as double))"), ("else 0", "else 0.0")],
    9: [("(1 - l_discount)", "(1 - cast(l_discount as double))")],
    14: [("(1 - l_discount)", "(1 - cast(l_discount as double))"), ("else 0", "else 0.0")],
}


def text_for(engine: str, query: int) -> str:
    """Give the text of a query for an engine."""
    sql = text(query).rstrip().rstrip(";")
    for old, new in DAFT_TEXTS.get(query, []) if engine == "daft" else []:
        if old not in sql:
            raise SystemExit(f"query {query} has no {old} any more: mend the texts for Daft")
        sql = sql.replace(old, new)
    return sql


def comparison(records: dict[str, list[dict]]) -> dict[str, dict]:
    """Sum up, for every peer, the queries that it answers."""
    times = {
        engine: {record["query"]: record for record in of if "runs" in record and record["query"] != "count"}
        for engine, of in records.items()
    }
    totals = {}
    for engine, queries in times.items():
        shared = [query for query in queries if query in times[OURS]]
        own, ours = (sum(middle(times[e][q]["runs"]) for q in shared) for e in (engine, OURS))
        first, ours_first = (sum(times[e][q]["runs"][0] for q in shared) for e in (engine, OURS))
        totals[engine] = {
            "queries": len(shared),
            "seconds": own,
            "whimbrel": ours,
            "ratio": own / ours,
            "first": first,
            "first_ratio": first / ours_first,
        }
    return totals


def print_table(records: dict[str, list[dict]]) -> None:
    """Print the median of each query on each engine."""
    print(f"{'query':>6}" + "".join(f"{engine:>12}" for engine in records))
    for rows in zip(*records.values(), strict=True):
        cells = [f"{middle(row['runs']):12.3f}" if "runs" in row else f"{'failed':>12}" for row in rows]
        print(f"{rows[0]['query']:>6}" + "".join(cells))


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="scale factor (default: 1)")
    parser.add_argument("--engines", nargs="+", default=[OURS, *PACKAGES], choices=[OURS, *PACKAGES])
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)))
    parser.add_argument("--repeats", type=int, default=3, help="how often after the first run")
    parser.add_argument("--out", type=Path, default=HERE / "cluster_peers_results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, print a table, and write the results."""
    arguments = arguments_of_command()
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    wb.config(progress=False)
    tables: dict[str, Any] = {name: str(folder / f"{name}.parquet") for name in TABLES}
    local = {"count": COUNT, **{query: text(query) for query in arguments.queries}}
    answers = {query: answer(wb.sql(sql, **tables).to_arrow()) for query, sql in local.items()}
    records = {}
    for engine in arguments.engines:
        print(f"{engine} ...", flush=True)
        texts = {"count": COUNT, **{query: text_for(engine, query) for query in arguments.queries}}
        records[engine] = checked(measure(engine, tables, texts, arguments.repeats), answers)
    failed = [record for record in records.get(OURS, []) if "error" in record]
    if failed:
        raise SystemExit(f"the cluster fails: {failed}")
    print(
        f"TPC-H at scale factor {arguments.scale}: seconds, median of {arguments.repeats} after the first run"
    )
    print_table(records)
    totals = comparison(records) if OURS in records else {}
    for engine, total in totals.items():
        print(
            f"{engine}: {total['queries']} queries in {total['seconds']:.2f} s, {total['ratio']:.2f} times"
            f" Whimbrel's {total['whimbrel']:.2f}"
            f" (first runs: {total['first']:.2f} s, {total['first_ratio']:.2f} times)"
        )
    document = {
        "machine": machine(),
        "packages": PACKAGES,
        "scale": arguments.scale,
        "totals": totals,
        "results": records,
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
