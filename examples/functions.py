"""TPC-H and the flights on functions that are killed while they run, with a bill for each query.

    tests/cloud .venv/bin/python examples/functions.py        # or: make functions
    python examples/functions.py --embedded --scale 0.1       # needs no S3 server and no emulator

Starts a pool of emulators of AWS Lambda over an S3 server. The queries of TPC-H and the three plans of the
flights run on them: undisturbed; and while a function is killed and some objects come late. Every answer is
compared with that of this process. The exit code is 1 if one differs, or if objects are left behind. The page
shows what each attempt did, what each query cost, and what one costs and takes in several numbers of shards.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import flights
import whimbrel as wb
from cluster import TPCH, measured, values
from functions_page import Curve, Point, Ran, costs, requests, seconds, troubles, write_page
from functions_places import DELAY, LATE, Place, embedded, emulated, what_is_missing

# A kill may come too late for a query of some milliseconds.
ATTEMPTS = 3

SHARDS = (1, 2, 4, 8)

# Names and widths; those below zero are aligned to the left.
COLUMNS = (
    *(("query", -21), ("here", 7), ("  functions", -12), ("seconds", 8)),
    *(("all", 10), ("compute", 10), ("invoked", 9), ("GETs", 8), ("PUTs", 8), ("stored", 8)),
    *(("reads", 15), ("writes", 13), ("tables", 8), ("lost", 6), ("twice", 6), ("hedged", 7)),
)

Query = Callable[["wb.functions.Functions | None"], wb.ShardedStream]
"""Plans a query for functions, or for this process."""

# -------------------------------------------------------------------------------------------- the queries


def make_tables(scale: str) -> dict[str, str]:
    """Get the files of the tables of TPC-H at a scale factor; the first time, they are made."""
    data = [sys.executable, TPCH / "data.py", scale]
    folder = Path(subprocess.run(data, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    return {path.stem: str(path) for path in sorted(folder.glob("*.parquet"))}


def tpch_text(number: int) -> str:
    """Read a query of TPC-H."""
    return (TPCH / f"q{number:02}.sql").read_text()


def tpch_query(number: int, here: dict[str, str], there: dict[str, str]) -> Query:
    """Make a query of TPC-H, over files of this machine, or the same ones where functions read them."""

    def query(on: wb.functions.Functions | None) -> wb.ShardedStream:
        tables: dict[str, Any] = dict(here if on is None else there)
        return wb.sql(tpch_text(number), on=on, **tables)

    return query


def flight_query(plan: Callable[[wb.ShardedStream], wb.ShardedStream], there: str) -> Query:
    """Make a plan of `flights.py` over the file; functions read it in as many shards as there are of them."""

    def query(on: wb.functions.Functions | None) -> wb.ShardedStream:
        with wb.config(on=on):
            year = wb.read(flights.DATA) if on is None else wb.read(there, shards=on.cores)
            flown = year.query(lambda q: q.where(lambda e: e.dep.is_not_null() & e.arr.is_not_null()))
            return plan(flown.with_time("dep", "arr", reorder_latency="1d"))

    return query


# ------------------------------------------------------------------------------------------ running them


def watched(place: Place, stream: wb.ShardedStream, kill_after: float | None = None) -> wb.Table:
    """Run a query on functions; kill one so many seconds after it has begun.

    On a terminal, it shows meanwhile how many tasks of each stage have ended, and how many run.
    """
    on_terminal, began = sys.stdout.isatty(), None
    with ThreadPoolExecutor(1) as executor:
        table = executor.submit(stream.collect, on=place.functions)
        while not wait([table], 0.01).done:
            stages = place.functions.progress
            # Until the query has begun, these are the stages of the one before, none of which runs.
            if began is None and any(stage.running for stage in stages):
                began = time.monotonic()
            is_due = kill_after is not None and began is not None and time.monotonic() >= began + kill_after
            if is_due and place.kill_one():
                kill_after = None
            if on_terminal:
                line = "  ".join(f"{stage.ended}+{stage.running}/{stage.tasks}" for stage in stages)
                print(f"\r\033[K  tasks, by stage: {line}", end="", flush=True)
    if on_terminal:
        print("\r\033[K", end="", flush=True)
    return table.result()


def bill_of(table: wb.Table) -> wb.functions.Bill:
    """Get the bill of a query that ran on functions."""
    assert table.bill is not None, "a query on functions has a bill"
    return table.bill


def disturbed(
    place: Place, stream: wb.ShardedStream, usual: float, expected: list[tuple[Any, ...]]
) -> tuple[wb.functions.Bill, bool]:
    """Run a query while a function is killed and objects come late; again if the kill came too late.

    Returns the bill, and whether all answers were right.
    """
    attempt, is_right = 0, True
    while True:
        attempt += 1
        with place.slow():
            table = watched(place, stream, random.uniform(0, usual / 2**attempt))
        place.revive()
        is_right = is_right and values(table) == expected
        bill = bill_of(table)
        if bill.failures > 0 or attempt == ATTEMPTS:
            return bill, is_right


def run(name: str, query: Query, place: Place, with_faults: bool) -> Ran:
    """Run a query here and on functions, and compare."""
    table, here = measured(query(None).collect)
    expected = values(table)
    stream = query(place.functions)
    table = watched(place, stream)
    alone, is_right = bill_of(table), values(table) == expected
    if not with_faults:
        return Ran(name, here, alone, None, is_right)
    bill, is_still_right = disturbed(place, stream, alone.seconds, expected)
    return Ran(name, here, alone, bill, is_right and is_still_right)


def measure_curve(number: int, place: Place, tables: dict[str, Any]) -> Curve:
    """Run a query of TPC-H in several numbers of shards; what is expected of each is in its explanation."""
    text = tpch_text(number)
    print(f"\nTPC-H {number}: shards, and seconds and dollars as expected and as measured\n")
    points = []
    for shards in SHARDS:
        stream = wb.sql(text, shards=shards, on=place.functions, **tables)
        took, dollars = map(float, re.findall(r"expected: ([\d.]+) s, \$([\d.]+)", stream.explain())[-1])
        bill = bill_of(watched(place, stream))
        points.append(Point(shards, (took, dollars), (bill.seconds, bill.dollars)))
        cells = [f"{took:9.2f} s  ${cost:.6f}" for took, cost in (points[-1].expected, points[-1].measured)]
        print(f"  {shards:2}{''.join(cells)}", flush=True)
    plan = wb.sql(text, on=place.functions, **tables).explain()
    chosen = re.search(r"^  \* (\d+) shards:", plan, re.MULTILINE)
    return Curve(f"TPC-H {number}", plan, None if chosen is None else int(chosen[1]), points)


# ----------------------------------------------------------------------------------------- what is printed


def print_line(cells: Sequence[str], end: str) -> None:
    """Print a line of the table, and a word after it."""
    padded = [
        cell.ljust(-width) if width < 0 else cell.rjust(width)
        for (_, width), cell in zip(COLUMNS, cells, strict=True)
    ]
    print(f"{''.join(padded)}  {end}", flush=True)


def print_bills(name: str, here: str, how: str, bills: Sequence[wb.functions.Bill], end: str = "") -> None:
    """Print what queries took, and cost, in millionths of a dollar."""
    cells = [name, here, f"  {how}", seconds(bills), *costs(bills), *requests(bills), *troubles(bills)]
    print_line(cells, end)


def print_ran(query: Ran) -> None:
    """Print the bills of a query."""
    answers = "equal" if query.is_right else "DIFFERENT"
    here = f"{query.here:.2f}"
    if query.disturbed is None:
        print_bills(query.name, here, "alone", [query.alone], answers)
        return
    print_bills(query.name, here, "alone", [query.alone])
    print_bills("", "", "disturbed", [query.disturbed], answers)


def print_totals(queries: Sequence[Ran], proxy_is_there: bool) -> None:
    """Print the bills of all queries, and which of them were spared."""
    here = f"{sum(query.here for query in queries):.2f}"
    print_bills("all", here, "alone", [query.alone for query in queries])
    bills = {query.name: query.disturbed for query in queries if query.disturbed is not None}
    if not bills:
        return
    print_bills("", "", "disturbed", list(bills.values()))
    spared = [name for name, bill in bills.items() if bill.failures == 0]
    if spared:
        print(f"\nNothing was killed in time: {', '.join(spared)}")
    if proxy_is_there:
        print(f"\n{sum(fault.fired for fault in LATE):,} requests were answered {DELAY} s late.")


def count_left(place: Place, queries: Sequence[Ran]) -> int:
    """Count the objects that queries have left, and remove them."""
    # What was overtaken may still be at work; when it has ended, its query removes what it has written.
    bills = [bill for query in queries for bill in (query.alone, query.disturbed) if bill is not None]
    time.sleep(min(30, max((a.end - a.start for bill in bills for a in bill.attempts), default=0)))
    objects, size = place.functions.sweep("0s")
    print(f"Left behind in the bucket: {objects} objects, {size:,} bytes")
    return objects


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = range(1, 23)
    parser.add_argument("--scale", default="1", help="the scale factor of TPC-H (1)")
    parser.add_argument("--functions", type=int, default=4, help="how many run at the same time (4)")
    parser.add_argument("--queries", type=int, nargs="*", choices=numbers, default=numbers, metavar="N")
    parser.add_argument("--curve", type=int, choices=numbers, default=12, metavar="N")
    parser.add_argument("--out", type=Path, default=Path("functions.html"), help="the page (functions.html)")
    parser.add_argument("--no-faults", action="store_true", help="kill nothing, delay nothing")
    parser.add_argument("--embedded", action="store_true", help="on a service and a folder of this machine")
    arguments = parser.parse_args()
    if arguments.functions < 1:
        parser.error("--functions is at least 1")
    return arguments


def main() -> int:
    """Run everything, print bills, write the page, and tell whether all answers were right."""
    arguments = parse_arguments()
    if not arguments.embedded and (missing := what_is_missing()):
        print(*missing, "Run `make functions`, which has all of it; or give --embedded.", sep="\n")
        return 2
    wb.config(progress=False)
    size, with_faults = arguments.functions, not arguments.no_faults
    with embedded(size) if arguments.embedded else emulated(size, with_faults) as place:
        here = make_tables(arguments.scale)
        print(f"On {place.name}; uploading tables of scale factor {arguments.scale}")
        there = {name: place.functions.upload(path) for name, path in here.items()}
        year = place.functions.upload(flights.DATA)
        queries = {f"TPC-H {n}": tpch_query(n, here, there) for n in arguments.queries}
        queries |= {f"flights: {plan.__name__}": flight_query(plan, year) for plan in flights.PLANS}
        print("\nDollars are millionths; reads and writes stand beside the formula, which sends each once.\n")
        print_line([name for name, _ in COLUMNS], "answers")
        ran = []
        for name, query in queries.items():
            ran.append(run(name, query, place, with_faults))
            print_ran(ran[-1])
        print_totals(ran, place.proxy is not None)
        curve = measure_curve(arguments.curve, place, there)
        print()
        left = count_left(place, ran)
    write_page(arguments.out, ran, curve, place.name)
    wrong = sum(not query.is_right for query in ran)
    print(f"Attempts, bills and the curve: {arguments.out}")
    print("All answers are those of one process." if not wrong else f"The answers of {wrong} queries differ.")
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
