"""Measuring engines in processes of their own, in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pyarrow as pa


def measure(
    queries: dict[str, Callable[[], pa.Table]], repeats: int, checksum: Callable[[pa.Table], Any]
) -> dict[str, dict]:
    """Run each query once, and so often again; give the seconds of its runs, and its answer folded."""
    results = {}
    for line, run in queries.items():
        runs, answer = [], None
        for _ in range(repeats + 1):
            start = time.perf_counter()
            found = run()
            runs.append(time.perf_counter() - start)
            answer = checksum(found)
        results[line] = {"runs": runs, "answer": answer}
    return results


def in_process(script: str, engine: str, rows: int, repeats: int, threads: int) -> dict[str, dict]:
    """Let a script measure an engine, by ``--measure``, in a process of its own."""
    command = [sys.executable, script, "--measure", engine, "--rows", str(rows), "--repeats", str(repeats)]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def medians(found: dict[str, list[dict]]) -> dict[str, dict[str, Any]]:
    """Give the runs of each engine in each turn, and the medians of the first ones and of the others."""
    runs = {engine: [of["runs"] for of in turns] for engine, turns in found.items()}
    rest = {engine: median(run for of in each for run in of[1:]) for engine, each in runs.items()}
    first = {engine: median(of[0] for of in each) for engine, each in runs.items()}
    return {"runs": runs, "median": rest, "first": first}
