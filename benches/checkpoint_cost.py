"""What it costs that a job survives crashes: the same windows with and without, in turns, in one process.

    python benches/checkpoint_cost.py                           # a million keys, 100 million events
    python benches/checkpoint_cost.py --rows 20000000 --turns 1 --out /dev/null     # a smoke test

Each turn runs the query once without a checkpoint, once as a job whose input is cut into epochs, and once as
a job that takes a checkpoint every second. A checkpoint costs what the third took longer than the second, by
the number of checkpoints; the overhead is that of epochs and of one checkpoint every ten seconds. Times are
those from the first result on: before it, a job compares its tables with those that its state was made of.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import whimbrel as wb
from run import HERE, machine
from workloads import Line, events

WINDOW = 1_000_000


@dataclass
class Run:
    """A run, from its first result on."""

    seconds: float
    checkpoints: int


def measure(query: wb.ShardedStream, every: str | None) -> Run:
    """Run the query to its end."""
    first: list[float] = []

    def on_table(*_: Any) -> None:
        if not first:
            first.append(time.perf_counter())

    if every is None:
        query.subscribe(on_table, form="tables").wait()
        return Run(time.perf_counter() - first[0], 0)
    with tempfile.TemporaryDirectory() as folder:
        job = query.subscribe(on_table, form="tables", checkpoint=folder, every=every)
        assert isinstance(job, wb.Job)
        seen = set()
        while not job.wait(0.05):
            seen.add(job.checkpointed_at)
        return Run(time.perf_counter() - first[0], len(seen - {None}))


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "checkpoint_cost_results.json")
    arguments = parser.parse_args()
    table = events(Line("tumbling", arguments.keys, arguments.rows))
    source = wb.from_arrow(table, time="t")
    keyed = source.rekey(lambda e: e.key).redistribute(2)
    query = keyed.query(lambda q: q.tumbling(WINDOW).aggregate(n=wb.count(), sum=wb.sum("value")))
    turns = []
    print("seconds without, in epochs, with a checkpoint every second (and how many there were)")
    for _ in range(arguments.turns):
        turn = [measure(query, every) for every in (None, "1h", "1s")]
        turns.append(turn)
        plain, epochs, saved = turn
        print(
            f"{plain.seconds:8.2f} {epochs.seconds:8.2f} {saved.seconds:8.2f} ({saved.checkpoints})",
            flush=True,
        )
    cut = median(epochs.seconds / plain.seconds - 1 for plain, epochs, _ in turns)
    each = median((saved.seconds - epochs.seconds) / max(saved.checkpoints, 1) for _, epochs, saved in turns)
    print(f"epochs {cut:.1%}, a checkpoint {each * 1e3:.0f} ms, every ten seconds {cut + each / 10:.1%}")
    results = {
        "epochs": cut,
        "checkpoint_seconds": each,
        "turns": [[asdict(run) for run in turn] for turn in turns],
    }
    document = {"machine": machine(), "keys": arguments.keys, "rows": arguments.rows, **results}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
