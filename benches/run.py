"""Run the benchmark: Whimbrel and its peers, line by line, side by side; results as JSON and as a table.

    make bench                                      # everything, at 20 million events
    python benches/run.py --rows 200000 --out /dev/null      # a smoke test
    python benches/run.py --query sessions --update          # one line again; the others stay

Every measurement is a process of its own, and the engines take turns on each line. What is measured of each
engine is documented in its module under `engines/`. A number counts if all engines gave the same answer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from workloads import Line, lines

HERE = Path(__file__).resolve().parent
OURS = "whimbrel"
PEERS = ("polars", "duckdb", "differential", "esper")
SPECIAL = {
    "differential": ("DIFFERENTIAL_PEER", ("hopping", "join")),
    "esper": ("ESPER_PEER", ("pattern",)),
}
"""The variable that says where a peer has been built, and the queries that it is measured on."""


def engines_of(line: Line) -> list[str]:
    """List the engines that a line is measured on."""
    without = {
        engine
        for engine, (variable, queries) in SPECIAL.items()
        if line.query not in queries or variable not in os.environ
    }
    return [engine for engine in (OURS, *PEERS) if engine not in without]


def measure(engine: str, line: Line, threads: int, repeats: int) -> dict:
    """Measure in a process of its own; an engine that fails leaves its message."""
    workload = json.dumps(asdict(line))
    options = [f"--threads={threads}", f"--repeats={repeats}"]
    measurement = json_of_process([sys.executable, str(HERE / "measure.py"), engine, workload, *options])
    return {"engine": engine, "line": line.as_json(), "threads": threads, "when": now(), **measurement}


def json_of_process(
    command: list[str], environment: dict[str, str] | None = None, timeout: float | None = None
) -> dict:
    """Read the object that a process prints last; of one that fails, its last message as ``error``."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {timeout} seconds"}
    if process.returncode == 0:
        return json.loads(process.stdout.splitlines()[-1])
    messages = process.stderr.strip().splitlines()
    return {"error": messages[-1] if messages else f"exit status {process.returncode}"}


def differing(results: list[dict]) -> list[str]:
    """Report the answers to one line, if they are not all the same."""
    answers = {tuple(result["answer"]) for result in results if "answer" in result}
    if len(answers) <= 1:
        return []
    listed = ", ".join(f"{result['engine']} {result['answer']}" for result in results if "answer" in result)
    return [f"answers differ on {results[0]['line']['name']}: {listed}"]


def rate(result: dict | None) -> float | None:
    """Million events a second, in the best run."""
    return result["line"]["rows"] / result["seconds"] / 1e6 if result and "seconds" in result else None


def ratio(results: list[dict], of: str) -> str:
    """Format the speed-up over the best peer: in the best run, the median, or the first."""
    seconds = {result["engine"]: result[of] for result in results if of in result}
    peers = [value for engine, value in seconds.items() if engine != OURS]
    return f"{min(peers) / seconds[OURS]:6.2f}" if peers and OURS in seconds else f"{'-':>6}"


def table_row(results: list[dict]) -> str:
    """Format one line of the table: rates, ratios to the best peer, seconds of waiting for a core."""
    rates = {result["engine"]: rate(result) for result in results}
    ratios = " ".join(ratio(results, of) for of in ("seconds", "median", "first"))
    cells = " ".join(f"{value:12.1f}" if value else f"{'-':>12}" for value in map(rates.get, (OURS, *PEERS)))
    line, waited = results[0]["line"], sum(result.get("cpu_pressure_seconds") or 0 for result in results)
    return f"{line['name']:25} {results[0]['threads']:7} {line['rows']:11,} {cells} {ratios} {waited:9.1f}"


def now() -> str:
    """Tell the time to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def write(out: Path, measurements: list[dict], *, update: bool) -> None:
    """Write the results, a measurement a line; to update means to keep those of other lines."""
    kept: list[dict] = []
    if update:
        before = json.loads(out.read_text())["results"]
        new = {key_of(measurement): measurement for measurement in measurements}
        kept = [new.pop(key_of(result), result) for result in before]
        measurements = list(new.values())
    listed = ",\n".join(f"  {json.dumps(measurement)}" for measurement in kept + measurements)
    described = json.dumps(machine(), indent=1).replace("\n", "\n ")
    out.write_text(f'{{\n "machine": {described},\n "results": [\n{listed}\n ]\n}}\n')


def key_of(measurement: dict) -> tuple[str, str, int]:
    """Tell measurements apart."""
    return measurement["engine"], measurement["line"]["name"], measurement["threads"]


def machine() -> dict:
    """Describe where and with what the numbers were made."""
    versions = {}
    for package in (OURS, "polars", "duckdb", "datafusion", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    model = "unknown"
    if Path("/proc/cpuinfo").exists():
        named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = named[1] if named else model
    return {
        "when": now(),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000, help="events (default: 20 million)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3, help="how often, or for a second: the best counts")
    parser.add_argument(
        "--query", nargs="+", help="only lines whose names begin so: tumbling, 'text ends', …"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    parser.add_argument("--update", action="store_true", help="keep the other lines that are there")
    return parser.parse_args()


def main() -> None:
    """Measure, print the table as it grows, and write the results."""
    arguments = arguments_of_command()
    print(
        "million events a second in the best run; ratios to the best peer in the best run, the median and the"
    )
    print("first; waited: seconds in which some task on this machine waited for a core")
    columns = " ".join(f"{engine:>12}" for engine in (OURS, *PEERS))
    ratios = f"{'best':>6} {'median':>6} {'first':>6}"
    print(f"{'line':25} {'threads':>7} {'events':>11} {columns} {ratios} {'waited':>9}", flush=True)
    measurements, errors = [], []
    for threads in arguments.threads:
        for line in lines(arguments.rows):
            if arguments.query and not line.query.startswith(tuple(arguments.query)):
                continue
            results = [measure(engine, line, threads, arguments.repeats) for engine in engines_of(line)]
            measurements += results
            errors += differing(results)
            failures = (result for result in results if "error" in result)
            errors += [f"{failure['engine']}, {line.name}: {failure['error']}" for failure in failures]
            print(table_row(results), flush=True)
    write(arguments.out, measurements, update=arguments.update)
    print(f"written to {arguments.out}")
    if errors:
        raise SystemExit("\n".join(errors))


if __name__ == "__main__":
    main()
