"""What queries on functions take and cost: TPC-H from an S3 server on functions of this machine.

    tests/cloud .venv/bin/python benches/functions.py                        # scale factor 1, two functions
    tests/cloud .venv/bin/python benches/functions.py --scale 0.1 --turns 1 --queries 3 12 --out /dev/null
    tests/cloud .venv/bin/python benches/functions.py --sections model       # only that, beside what is there

- `tpch`: two functions beside the local runtime with as many threads, in turns, over the same tables in the
  same S3 server, planning included. The first run is given beside the median of the others.
- `small`: a query that reads little, on functions and here.
- `shuffle`: the reads of the exchanges of a query, beside those of Starling's formula, 2·s·r for each.
- `ablation`: TPC-H 12 with latencies as in the paper, and its remedies one after the other (Starling,
  Fig. 15).
- `scale_up`: what is expected of TPC-H on AWS Lambda over 1 TB and 10 TB, at today's prices. Tables are
  planned as if they had so many times their rows, and functions compute as those that were measured (section
  `model`). TPC-H 12 beside the paper's Fig. 14, all queries beside its Fig. 9, and the choice of the planner
  beside the best of an exhaustive sweep over the numbers of tasks.
- `model`: what was expected of each number of shards, after functions were calibrated with TPC-H 1, beside
  what happened, and how far the choice is from the best.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import whimbrel as wb
from run import machine
from tpch import HERE, TABLES, TPCH, answer, middle, same, text

sys.path.insert(0, str(HERE.parent / "python" / "tests"))
from fault_proxy import Fault, FaultProxy

SECTIONS = ("tpch", "model", "scale_up", "small", "shuffle", "ablation")
FUNCTIONS = 2
SMALL = "select count(*) as n, max(n_name) as last from nation"
SWEEP = (1, 2, 4, 8)

# What is planned: terabytes, and how many functions run at the same time (Starling, §6.1, had 5,000 at most).
SCALES = {1: 1000, 10: 5000}
# Tables that have the same rows at any scale.
FIXED = ("nation", "region")
# The geometric mean of the seconds of queries over 1 TB, read off, and those without (Starling, Fig. 9).
FIGURE_9 = 21.0
NOT_IN_FIGURE_9 = (11, 21, 22)
# How many tasks read tables in Fig. 14: one for each object.
OBJECTS_OF_FIGURE_14 = 890
# Seconds and dollars of Q12 at scale factor 1000, by joining tasks (Starling, Fig. 14, read off).
FIGURE_14 = {
    16: (28.0, 0.157),
    32: (17.0, 0.166),
    64: (13.0, 0.197),
    128: (11.0, 0.248),
    256: (10.8, 0.36),
}

# A request takes 15 ms (Starling, §5.1), and each hundredth a second and a half.
LATENCIES = {"GET": 0.015, "PUT": 0.05}
STRAGGLER = (100, 1.5)
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("none", {"parallel_reads": 1, "hedge": False, "pipelined": False}),
    ("parallel reads", {"hedge": False, "pipelined": False}),
    ("+ late reads", {"hedge": "reads", "pipelined": False}),
    ("+ late writes", {"pipelined": False}),
    ("+ pipelining", {}),
]

Row = dict[str, Any]


def timed(sql: str, **options: Any) -> tuple[Any, float, wb.Table]:
    """Run a query; return its folded answer, the seconds it took, and its result."""
    start = time.perf_counter()
    table = wb.sql(sql, **options).collect()
    folded = answer(table.to_arrow())
    return folded, time.perf_counter() - start, table


def compare(sql: str, functions: wb.functions.Functions, turns: int, tables: dict[str, str]) -> Row:
    """Run a query here and on functions in turns."""
    here, there, bill = [], [], None
    for _ in range(turns + 1):
        expected, seconds, _ = timed(sql, shards=FUNCTIONS, **tables)
        here.append(seconds)
        found, seconds, table = timed(sql, shards=FUNCTIONS, on=functions, **tables)
        there.append(seconds)
        bill = table.bill
        if not same(expected, found):
            raise SystemExit(f"functions answer {found}, and one process {expected}:\n{sql}")
    assert bill is not None
    requests = {"gets": bill.gets, "puts": bill.puts, "table_gets": bill.table_gets}
    return {"local": here, "functions": there, "dollars": bill.dollars, **requests}


def tpch(functions: wb.functions.Functions, numbers: list[int], turns: int, tables: dict[str, str]) -> Row:
    """Run the queries of TPC-H on functions and here."""
    print(
        f"{'query':>6} {'local':>8} {'':>8} {'functions':>9} {'':>8} {'ratio':>6} {'dollars':>10}", flush=True
    )
    results = []
    for number in numbers:
        result: Row = {"query": number, **compare(text(number), functions, turns, tables)}
        results.append(result)
        here, there = result["local"], result["functions"]
        print(
            f"{number:>6} {here[0]:8.3f} {middle(here):8.3f} {there[0]:9.3f} {middle(there):8.3f} "
            f"{middle(there) / middle(here):6.2f} {result['dollars']:10.6f}",
            flush=True,
        )
    local, there = (sum(middle(result[where]) for result in results) for where in ("local", "functions"))
    dollars = sum(result["dollars"] for result in results)
    total = {"local": local, "functions": there, "ratio": there / local, "dollars": dollars}
    print(f"{'total':>6} {'':>8} {local:8.3f} {'':>9} {there:8.3f} {there / local:6.2f} {dollars:10.6f}")
    return {"total": total, "results": results}


def small(turns: int, tables: dict[str, str]) -> Row:
    """Run a small query here, and with `on=functions`, which decides that it runs here, too."""
    with wb.functions.start(FUNCTIONS) as functions:
        result = compare(SMALL, functions, max(turns, 5), tables)
    more = (middle(result["functions"]) - middle(result["local"])) * 1000
    print(f"a small query takes {more:.1f} ms more with on=functions")
    return {"milliseconds_more": more} | result


def shuffle(bucket: str, tables: dict[str, str]) -> Row:
    """Count the reads of a query whose outputs all go through objects, beside Starling's formula."""
    settings: Row = {"bucket": bucket, "inline": False, "hedge": False, "pipelined": False, "small": 0}
    rows: list[Row] = []
    for name, combine in (("direct", False), ("combined", True)):
        with wb.functions.start(FUNCTIONS, combine=combine, **settings) as functions:
            query = wb.sql(text(12), shards=16, on=functions, **tables)
            bill = query.collect().bill
        assert bill is not None
        stages = functions._expect(query._plan).stages
        # Starling reads the index and the partition of every object.
        starling = sum(2 * a.tasks * b.tasks for a, b in zip(stages, stages[1:], strict=False))
        reads = bill.gets - bill.table_gets
        rows.append({"exchange": name, "gets": reads, "puts": bill.puts, "formula": bill.formula})
        print(f"TPC-H 12 in 16 shards, {name}: {reads} GETs, {bill.puts} PUTs; Starling's 2sr {starling}")
        rows[-1]["starling_gets"] = starling
    return {"rows": rows}


def ablation(server: str, bucket: str, turns: int, tables: dict[str, str]) -> Row:
    """Run TPC-H 12 over a slow store, with one remedy more in each step."""
    rows: list[Row] = []
    for number, (name, settings) in enumerate(STEPS):
        every, slow = STRAGGLER
        faults = [Fault(method, "/queries/", times=None, delay=delay) for method, delay in LATENCIES.items()]
        faults += [Fault(method, "/queries/", times=None, delay=slow, every=every) for method in LATENCIES]
        place = f"{bucket}-{number}"
        with (
            FaultProxy(server, faults) as proxy,
            wb.functions.start(
                8, bucket=place, s3=proxy.url, inline=False, combine=False, small=0,
                prices="aws-us-east-1-x86", **settings,
            ) as functions,
        ):  # fmt: skip
            runs, dollars = [], []
            for _ in range(turns + 1):
                _, seconds, table = timed(text(12), shards=16, on=functions, **tables)
                runs.append(seconds)
                assert table.bill is not None
                dollars.append(table.bill.dollars)
        rows.append({"step": name, "seconds": runs, "dollars": dollars})
        factor = middle(rows[0]["seconds"]) / middle(runs)
        print(f"{name:>16}: {middle(runs):6.2f} s, ${middle(dollars):.6f}, {factor:.2f} times", flush=True)
    return {"latencies": LATENCIES, "straggler": STRAGGLER, "rows": rows}


def model(functions: wb.functions.Functions, numbers: list[int], tables: dict[str, str]) -> Row:
    """Run queries in several numbers of shards, and see how far what is chosen is from the best."""
    functions = functions.calibrated(text(1), **tables)
    rates = asdict(functions.rates)
    print("calibrated: " + ", ".join(f"{name} {value:.3g}" for name, value in rates.items() if value))
    rows: list[Row] = []
    for number in numbers:
        points = []
        for shards in SWEEP:
            query = wb.sql(text(number), shards=shards, on=functions, **tables)
            expected = functions._expect(query._plan)
            bills = [query.collect().bill for _ in range(3)]
            seconds = statistics.median(bill.seconds for bill in bills if bill)
            memory = statistics.median(bill.gb_seconds for bill in bills if bill)
            points.append((shards, expected.seconds, expected.gb_seconds, seconds, memory))
        # Machines of one's own have no prices: the knee has the least product of seconds and memory.
        products = [seconds * memory for _, _, _, seconds, memory in points]
        chosen = min(range(len(points)), key=lambda place: points[place][1] * points[place][2])
        regret = products[chosen] / min(products)
        rows.append({"query": number, "points": points, "chosen": points[chosen][0], "regret": regret})
        shown = ", ".join(f"{p[0]}: {p[1]:.2f}/{p[3]:.2f}" for p in points)
        print(f"TPC-H {number}: seconds expected/taken {shown}; chosen {points[chosen][0]}, {regret:.2f}")
    return {"rates": rates, "rows": rows}


def lambdas(server: str, rates: Row, concurrency: int, **store: None) -> wb.functions.Functions:
    """Get functions of AWS Lambda that compute as those of this machine; nothing runs there.

    By default their bucket is new; ``reads=None, writes=None`` is one that serves any number of requests.
    """
    usual = wb.functions.connect(function="none", bucket="s3://whimbrel/none", s3=server).rates
    # What a function gets done that has this machine for itself.
    part = min(rates["processors"] or 1.0, 1.0)
    own = replace(usual, compute=rates["compute"] * part, rows=rates["rows"] * part, **store)
    settings: Row = {"function": "none", "bucket": "s3://whimbrel/none", "s3": server}
    return wb.functions.connect(**settings, concurrency=concurrency, rates=own)


def with_tasks(plan: Any, sources: int, others: int) -> Any:
    """Get the plan with so many tasks in each stage that reads a table, and in each of the others."""
    stages = plan.stage_shards()
    return plan.with_stage_shards([sources if reads_source else others for _, _, reads_source in stages])


def figure_14(functions: wb.functions.Functions, tables: Row) -> list[Row]:
    """Get what is expected of TPC-H 12 with the tasks that the paper's had, and its shuffles."""
    rows: list[Row] = []
    # In fewer shards, the smaller side of the join is broadcast.
    plan = wb.sql(text(12), shards=max(FIGURE_14), on=functions, **tables)._plan
    for shards, (seconds, dollars) in FIGURE_14.items():
        expected = functions._expect(with_tasks(plan, OBJECTS_OF_FIGURE_14, shards))
        rows.append({"shards": shards, "seconds": expected.seconds, "dollars": expected.dollars})
        print(
            f"TPC-H 12 over 1 TB, {shards:3} tasks that join: {expected.seconds:5.1f} s "
            f"${expected.dollars:.3f}; Starling {seconds:.1f} s ${dollars:.3f}",
            flush=True,
        )
    return rows


def sweep(functions: wb.functions.Functions, query: str, most: int, tables: Row) -> tuple[Row, int]:
    """Find the best numbers of tasks among all on a grid, for each way that a query is planned."""
    grid = sorted({min(round(2 ** (step / 2)), most) for step in range(2 * most.bit_length() + 1)})
    best: Row | None = None
    shapes: set[str] = set()
    count = 0
    for shards in grid:
        plan = wb.sql(query, shards=shards, on=functions, **tables)._plan
        # Plans that differ in the number of shards only are one.
        shape = with_tasks(plan, 2, 2).explain()
        if shape in shapes:
            continue
        shapes.add(shape)
        for sources in grid:
            for others in grid:
                expected = functions._expect(with_tasks(plan, sources, others))
                count += 1
                point = {"seconds": expected.seconds, "dollars": expected.dollars, "tasks": expected.tasks}
                if best is None or product(point) < product(best):
                    best = point
    assert best is not None
    return best, count


def product(point: Row) -> float:
    """Get what the knee has the least of."""
    return point["seconds"] * point["dollars"]


def expected_at_scale(functions: wb.functions.Functions, number: int, most: int, tables: Row) -> Row:
    """Get what is expected of a query as it is planned, beside the best of a sweep."""
    start = time.perf_counter()
    query = wb.sql(text(number), on=functions, **tables)
    planning = time.perf_counter() - start
    expected = functions._expect(query._plan)
    own: Row = {"seconds": expected.seconds, "dollars": expected.dollars, "tasks": expected.tasks}
    best, plans = sweep(functions, text(number), most, tables)
    regret = product(own) / product(best)
    print(
        f"TPC-H {number:2}: {own['seconds']:6.1f} s ${own['dollars']:.3f} in {own['tasks']}; best of {plans} "
        f"{best['seconds']:6.1f} s ${best['dollars']:.3f}, {regret:.2f}; planned in {planning:.2f} s",
        flush=True,
    )
    return {"query": number, "planning": planning, **own, "best": best, "plans": plans, "regret": regret}


def scale_up(server: str, scale: float, rates: Row, numbers: list[int], urls: dict[str, str]) -> Row:
    """Ask what queries are expected to take on AWS Lambda with tables that are larger; nothing runs."""
    results: Row = {"starling": {"figure_9": FIGURE_9, "figure_14": FIGURE_14}, "scales": []}
    for terabytes, concurrency in SCALES.items():
        functions = lambdas(server, rates, concurrency)
        factor = 1000 * terabytes / scale
        tables: Row = {name: wb.read(url, scale=1 if name in FIXED else factor) for name, url in urls.items()}
        print(f"over {terabytes} TB, on up to {concurrency} functions:")
        rows = [expected_at_scale(functions, number, concurrency, tables) for number in numbers]
        of_figure = [row for row in rows if row["query"] not in NOT_IN_FIGURE_9]
        means = {
            kind: statistics.geometric_mean(row[kind] for row in of_figure) for kind in ("seconds", "dollars")
        }
        dollars = sum(row["dollars"] for row in rows)
        print(
            f"{terabytes} TB, all queries: ${dollars:.2f}; geometric mean of {len(of_figure)}: "
            f"{means['seconds']:.1f} s ${means['dollars']:.3f}; Starling {FIGURE_9} s at 1 TB"
        )
        result: Row = {"terabytes": terabytes, "concurrency": concurrency, "rows": rows}
        result |= {"dollars": dollars, "means": means}
        results["scales"].append(result)
        if terabytes == 1:
            # Starling's bucket served 40,000 reads a second: Fig. 14 has 455,000 of them in 11 seconds.
            used = lambdas(server, rates, concurrency, reads=None, writes=None)
            results["figure_14"] = figure_14(used, tables)
    return results


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", default="1", help="scale factor (default: 1)")
    parser.add_argument("--turns", type=int, default=3, help="how often all run after their first time")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)))
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--out", type=Path, default=HERE / "functions_results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, print the tables as they grow, and write the results."""
    arguments = arguments_of_command()
    server = os.environ.get("WHIMBREL_S3")
    if server is None:
        raise SystemExit("no S3 server: run it in tests/cloud")
    command = [sys.executable, TPCH / "data.py", arguments.scale]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    wb.config(progress=False)
    known = json.loads(arguments.out.read_text()) if arguments.out.is_file() else {}
    measured: Row = {}
    bucket = f"s3://whimbrel/bench-{arguments.scale}"
    prices = "aws-us-east-1-x86"
    with wb.functions.start(FUNCTIONS, bucket=bucket, s3=server, small=0, prices=prices) as functions:
        tables = {name: functions.upload(f"{folder}/{name}.parquet") for name in TABLES}
        measurements: dict[str, Callable[[], Row]] = {
            "tpch": lambda: tpch(functions, arguments.queries, arguments.turns, tables),
            "model": lambda: model(functions, arguments.queries, tables),
            "scale_up": lambda: scale_up(
                server,
                float(arguments.scale),
                {**known, **measured}["model"]["rates"],
                arguments.queries,
                tables,
            ),
            "small": lambda: small(arguments.turns, tables),
            "shuffle": lambda: shuffle(bucket, tables),
            "ablation": lambda: ablation(server, bucket, arguments.turns, tables),
        }
        for name in SECTIONS:
            if name in arguments.sections:
                measured[name] = measurements[name]()
    is_part = len(measured) < len(SECTIONS)
    document = {**(known if is_part else {}), "machine": machine(), "scale": arguments.scale, **measured}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
