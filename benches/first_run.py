"""Measure the first run of a query in a new process, on Whimbrel and its peers.

    .venv/bin/python benches/first_run.py      # windows over 20 million events, TPC-H at scale factor 10
    .venv/bin/python benches/first_run.py --rows 200000 --scale 0.1 --rounds 1 --out /dev/null  # a smoke test

Every run is a process of its own that runs its query once. Making events and opening files is not measured.
Files have been read before, so they are in the page cache. The engines take turns; the median of the rounds
counts. Peak memory is that of the process, with its events and its result. A measurement counts if all
engines have the same result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tpch
from run import OURS, machine
from workloads import lines

HERE = Path(__file__).resolve().parent
PEERS = ("polars", "duckdb")
QUERIES = [1, 2, 6, 9, 16, 22]

Command = Callable[[str], list[str]]
"""Gives the command that runs one line once on an engine, and prints what it found as JSON."""


def window_commands(rows: int, threads: int) -> dict[str, Command]:
    """Make the commands of the tumbling windows."""

    def command(line: dict) -> Command:
        options = [f"--threads={threads}", "--repeats=1", "--seconds=0"]
        return lambda engine: [sys.executable, str(HERE / "measure.py"), engine, json.dumps(line), *options]

    tumbling = [line for line in lines(rows) if line.query == "tumbling"]
    return {
        line.name: command({"query": line.query, "keys": line.keys, "rows": line.rows}) for line in tumbling
    }


def tpch_commands(scale: str, queries: list[int], threads: int) -> dict[str, Command]:
    """Make the commands of TPC-H, whose files are made if they are not there."""
    data = [sys.executable, tpch.TPCH / "data.py", scale]
    folder = subprocess.run(data, check=True, capture_output=True, text=True).stdout.strip()

    def command(query: int) -> Command:
        options = [f"--folder={folder}", f"--threads={threads}", "--repeats=0"]
        program = [sys.executable, str(HERE / "tpch.py"), f"--queries={query}", *options]
        return lambda engine: [*program, "--one", engine]

    return {f"TPC-H {query}": command(query) for query in queries}


def first(command: list[str], threads: int) -> dict:
    """Run a process; return the seconds of its first run, its folded result, and its peak memory in MB."""
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    measurement = json.loads(printed.splitlines()[-1])
    return {
        "seconds": measurement["first"],
        "answer": measurement["answer"],
        "peak_mb": usage.ru_maxrss / 1024,
    }


def measure(command: Command, rounds: int, threads: int) -> dict[str, list[dict]]:
    """Run a line on all engines in turns."""
    runs: dict[str, list[dict]] = {engine: [] for engine in (OURS, *PEERS)}
    for _ in range(rounds):
        for engine, of_engine in runs.items():
            of_engine.append(first(command(engine), threads))
    return runs


def differ(runs: dict[str, list[dict]]) -> bool:
    """Tell whether two runs have different results."""
    expected = runs[OURS][0]["answer"]
    return not all(tpch.same(run["answer"], expected) for of_engine in runs.values() for run in of_engine)


def table_row(name: str, seconds: dict[str, float], peak: dict[str, float]) -> str:
    """Format one line: seconds, the ratio to the best peer, and peak memory."""
    ratio = seconds[OURS] / min(seconds[peer] for peer in PEERS)
    cells = " ".join(f"{seconds[engine]:9.3f}" for engine in seconds)
    memory = " ".join(f"{peak[engine]:9.0f}" for engine in peak)
    return f"{name:25} {cells} {ratio:6.2f}   {memory}"


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000, help="events (default: 20 million)")
    parser.add_argument("--scale", default="10", help="scale factor of TPC-H (default: 10)")
    parser.add_argument("--queries", type=int, nargs="*", default=QUERIES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many processes counts")
    parser.add_argument("--out", type=Path, default=HERE / "first_run_results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    arguments = arguments_of_command()
    threads, rounds = arguments.threads, arguments.rounds
    commands = window_commands(arguments.rows, threads)
    if arguments.queries:
        commands |= tpch_commands(arguments.scale, arguments.queries, threads)
    engines: tuple[str, ...] = (OURS, *PEERS)
    print(f"first run of a process, {threads} threads: seconds, ratio to the best peer; peak memory in MB")
    columns = " ".join(f"{engine:>9}" for engine in engines)
    print(f"{'line':25} {columns} {'ratio':>6}   {columns}", flush=True)
    results, wrong = [], []
    totals: dict[str, float] = dict.fromkeys(engines, 0.0)
    for name, command in commands.items():
        runs = measure(command, rounds, threads)
        seconds = {engine: statistics.median(each["seconds"] for each in runs[engine]) for engine in engines}
        peak = {engine: statistics.median(each["peak_mb"] for each in runs[engine]) for engine in engines}
        totals = {engine: totals[engine] + seconds[engine] for engine in engines}
        results.append({"line": name, "seconds": seconds, "peak_mb": peak, "runs": runs})
        wrong += [name] * differ(runs)
        print(table_row(name, seconds, peak), flush=True)
    print(table_row("total", totals, dict.fromkeys(engines, float("nan"))))
    document = {"machine": machine(), "threads": threads, "scale": arguments.scale, "results": results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")
    if wrong:
        raise SystemExit(f"answers differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
