"""Measure one engine on one line, in a process of its own; `run.py` starts it and reads what it prints."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
from pathlib import Path

from workloads import Line

REPEAT_WITHIN_SECONDS = 60
PRESSURE = Path("/proc/pressure/cpu")


def cpu_pressure_seconds() -> float | None:
    """Seconds, since the machine started, in which some task waited for a core."""
    if not PRESSURE.exists():
        return None
    total = re.search(r"^some .*total=(\d+)", PRESSURE.read_text())
    return int(total[1]) / 1e6 if total else None


def measure(engine: str, line: Line, threads: int, repeats: int, at_least: float) -> dict:
    """Run every program of the engine some times and keep the best run; all answers have to agree."""
    from workloads import events

    programs = importlib.import_module(f"engines.{engine}_engine").programs(line, events(line), threads)
    before, seconds = cpu_pressure_seconds(), {}
    answers = set()
    for name, program in programs.items():
        runs = []
        while sum(runs) < (REPEAT_WITHIN_SECONDS if len(runs) < repeats else at_least):
            run = program()
            runs.append(run.seconds)
            answers.add(run.answer)
        seconds[name] = runs
    if len(answers) != 1:
        raise SystemExit(f"{engine} gives different answers to {line.name}: {sorted(answers)}")
    after = cpu_pressure_seconds()
    best = min(seconds, key=lambda name: min(seconds[name]))
    return {
        "engine": engine,
        "line": line.as_json(),
        "threads": threads,
        "seconds": min(seconds[best]),
        "median": statistics.median(seconds[best]),
        "first": seconds[best][0],
        "program": best,
        "runs": seconds,
        "answer": answers.pop(),
        "cpu_pressure_seconds": None if before is None or after is None else after - before,
    }


def main() -> None:
    """Read what to measure from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("line", help="a line of workloads.py as JSON: query, keys, rows")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    # The best of three runs of a short program is a matter of luck.
    parser.add_argument("--seconds", type=float, default=1, help="short programs are repeated for so long")
    arguments = parser.parse_args()
    # Read when the engine is imported, which happens in measure().
    os.environ["POLARS_MAX_THREADS"] = str(arguments.threads)
    line = Line(**json.loads(arguments.line))
    engine, threads, repeats = arguments.engine, arguments.threads, arguments.repeats
    print(json.dumps(measure(engine, line, threads, repeats, arguments.seconds)))


if __name__ == "__main__":
    main()
