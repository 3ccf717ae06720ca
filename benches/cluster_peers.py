"""Run TPC-H on Whimbrel's cluster and on its peers: Spark, Sail and Daft, two workers of one core each.

    .venv/bin/python benches/cluster_peers.py               # scale factor 1
    .venv/bin/python benches/cluster_peers.py --scale 0.1 --engines whimbrel --out /dev/null    # a smoke test

Every peer has a Python environment of its own below `~/.cache/whimbrel/peers`, made the first time (some
hundred megabytes each; Spark needs Java 17). What is deployed of each is documented in
`benches/peers/cluster/engine.py`. One engine after another runs all queries: a first run, and `--repeats`
more, of which the median counts. A number counts if the answer is that of Whimbrel's local runtime. Queries
that an engine cannot run are left out of the comparison with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import whimbrel as wb
from run import machine
from tpch import HERE, TABLES, TPCH, answer, middle, same, text

ENGINE = HERE / "peers" / "cluster" / "engine.py"
ENVIRONMENTS = Path.home() / ".cache" / "whimbrel" / "peers"
PACKAGES = {
    "spark": ["pyspark==4.3.0", "pyarrow==26.0.1", "pandas==3.1.1"],
    "sail": ["pysail==0.7.2", "pyspark-client==4.2.0", "pyarrow==26.0.1", "pandas==3.1.1"],
    "daft": ["daft==0.7.26", "ray==2.60.0", "pyarrow==25.0.1", "pandas==3.1.1"],
}
OURS = "whimbrel"


def python_of(engine: str) -> str:
    """Give the interpreter of an engine's environment, which is made if it is not there."""
    if engine == OURS:
        return sys.executable
    folder = ENVIRONMENTS / engine
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists() or complete.read_text().split() != PACKAGES[engine]:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[engine]], check=True)
        complete.write_text("\n".join(PACKAGES[engine]))
    return str(python)


def expected(queries: list[int], folder: Path) -> dict[int, list[float]]:
    """Answer the queries on the local runtime."""
    tables: dict[str, Any] = {name: str(folder / f"{name}.parquet") for name in TABLES}
    return {query: answer(wb.sql(text(query), **tables).to_arrow()) for query in queries}


def measure(engine: str, folder: Path, queries: list[int], repeats: int) -> list[dict]:
    """Run an engine on all queries; give a record for each."""
    command = [python_of(engine), str(ENGINE), engine, str(folder), f"--repeats={repeats}", "--queries"]
    # The engine's own environment comes first in what it starts itself.
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        [*command, *map(str, queries)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    records = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    if len(records) != 1 + len(queries):
        raise SystemExit(f"{engine} ended early:\n{process.stderr[-2000:]}")
    return records


def checked(records: list[dict], answers: dict[int, list[float]]) -> list[dict]:
    """Replace the times of a wrong answer by an error."""
    return [
        {"query": record["query"], "error": f"a wrong answer: {record['answer']}"}
        if "answer" in record and not same(record["answer"], answers[record["query"]])
        else record
        for record in records
    ]


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
    answers = expected(arguments.queries, folder)
    records = {}
    for engine in arguments.engines:
        print(f"{engine} ...", flush=True)
        records[engine] = checked(measure(engine, folder, arguments.queries, arguments.repeats), answers)
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
