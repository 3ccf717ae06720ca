"""
Print what `make bench` has measured last, from the files that it writes.

    .venv/bin/python benches/report.py
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from run import OURS, rate

HERE = Path(__file__).resolve().parent


def read(name: str) -> dict[str, Any]:
    """Read a file of results."""
    return json.loads((HERE / name).read_text())


def peers() -> list[str]:
    """
    Print the lines beside their best peers.

    The rates are those of the best runs, in million events a second. The ratios are of the best runs, the
    medians and the first runs of the processes, each to the peer that was best at it.
    """
    written = [
        f"{'line':25} {'threads':>7} {'whimbrel':>9} {'best peer':>21} {'best':>6} {'median':>6} {'first':>6}"
    ]
    results = read("results.json")["results"]
    for (name, threads), group in groupby(results, key=lambda r: (r["line"]["name"], r["threads"])):
        measured = {result["engine"]: result for result in group if "seconds" in result}
        ours = measured.pop(OURS)
        best = max(measured.values(), key=lambda result: rate(result) or 0.0)
        ratios = (
            min(peer[of] for peer in measured.values()) / ours[of] for of in ("seconds", "median", "first")
        )
        peer = f"{best['engine']} {rate(best):7.1f}"
        cells = " ".join(f"{ratio:6.2f}" for ratio in ratios)
        written.append(f"{name:25} {threads:7} {rate(ours):9.1f} {peer:>21} {cells}")
    return written


def hopping() -> list[str]:
    """Print how many times as long hopping windows take as tumbling ones, of which a tenth as many end."""
    results = read("hopping_cost_results.json")["results"]
    header = f"{'keys':>9} {'threads':>7} {'times as long':>13}"
    return [header, *(f"{r['keys']:9,} {r['threads']:7} {r['ratio']:13.2f}" for r in results)]


def latency() -> list[str]:
    """Print million events a second on one thread with so many events between two punctuations, at best."""
    results = read("latency_results.json")
    steps = list(next(iter(results["lines"].values())))
    written = [f"{'line':25} " + " ".join(f"{int(step):>9,}" for step in steps)]
    for name, runs in results["lines"].items():
        rates = (results["rows"] / min(runs[step]) / 1e6 for step in steps)
        written.append(f"{name:25} " + " ".join(f"{each:9.1f}" for each in rates))
    return written


def chains() -> list[str]:
    """Print million rows a second of filters and aggregates, and the ratio to the best peer."""
    results = read("chains_results.json")
    engines = list(results["results"][0]["median"])
    ratios = list(results["results"][0]["ratio"])
    heads = " ".join(f"{head:>9}" for head in (*engines, *(f"{name}/" for name in ratios)))
    written = [f"{'line':27} {heads}"]
    for result in results["results"]:
        rates = [f"{results['rows'] / result['median'][engine] / 1e6:9.1f}" for engine in engines]
        cells = rates + [f"{result['ratio'][name]:9.2f}" for name in ratios]
        written.append(f"{result['line']:27} " + " ".join(cells))
    return written


def in_order() -> list[str]:
    """Print million rows a second of rows in the order of an id, and the ratio to the best peer."""
    results = read("sorted_results.json")
    engines = list(results["results"][0]["median"])
    written = [f"{'line':11} " + " ".join(f"{head:>9}" for head in (*engines, "ratio"))]
    for result in results["results"]:
        rates = [f"{results['rows'] / result['median'][engine] / 1e6:9.1f}" for engine in engines]
        written.append(f"{result['line']:11} " + " ".join([*rates, f"{result['ratio']:9.2f}"]))
    return written


def main() -> None:
    """Print all tables."""
    for table in (peers(), hopping(), latency(), chains(), in_order()):
        print("\n".join(table), end="\n\n")


if __name__ == "__main__":
    main()
