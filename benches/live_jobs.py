"""What a live job gains from more workers: the same windows as a job of one process, and on a cluster.

    python benches/live_jobs.py                          # 40 million events
    python benches/live_jobs.py --rows 2000000 --turns 1 --out /dev/null     # a smoke test

Each turn runs a job over Parquet files to its end, with a checkpoint every second: in this process with two
threads, on a cluster of one worker with two threads, and on one of two workers with one thread each, which
exchange rows by the network. All write the same results to a folder; their number is compared. Times are
those from the submission to the end, so they have the start of the job, and all its commits.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

import whimbrel as wb
from run import HERE, machine
from workloads import Line, events

WINDOW = 1_000_000
FILES = 4


def windows(folder: Path) -> wb.ShardedStream:
    """Count and sum the events of each key in tumbling windows."""
    keyed = wb.read(folder, time="t", shards=2).rekey(lambda e: e.key).redistribute(2)
    return keyed.query(lambda q: q.tumbling(WINDOW).aggregate(n=wb.count(), sum=wb.sum("value")))


def measure(folder: Path, cluster: wb.cluster.LocalCluster | None) -> tuple[float, int]:
    """Run the job; the seconds that it took, and how many rows came out."""
    with tempfile.TemporaryDirectory() as place:
        out, state = Path(place) / "out", Path(place) / "state"
        start = time.perf_counter()
        if cluster is None:
            windows(folder).run_forever(out, checkpoint=state, every="1s")
        else:
            windows(folder).run_forever(out, checkpoint=state, every="1s", on=cluster).wait()
        seconds = time.perf_counter() - start
        return seconds, wb.sql("select count(*) as n from t", t=wb.read(out)).to_rows()[0].n


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 10_000, 1_000_000])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "live_jobs_results.json")
    arguments = parser.parse_args()
    results = []
    print("keys, seconds (first and median): one process; one worker with two threads; two workers with one")
    with wb.cluster.start(1, threads=2) as one, wb.cluster.start(2, threads=1) as two:
        for keys in arguments.keys:
            with tempfile.TemporaryDirectory() as place:
                table = events(Line("tumbling", keys, arguments.rows))
                rows = -(-table.num_rows // FILES)
                for number in range(FILES):
                    pq.write_table(table.slice(number * rows, rows), Path(place) / f"{number}.parquet")
                turns = [
                    [measure(Path(place), cluster) for cluster in (None, one, two)]
                    for _ in range(arguments.turns)
                ]
            assert len({rows for turn in turns for _, rows in turn}) == 1, "the results differ"
            seconds = [[turn[run][0] for turn in turns] for run in range(3)]
            print(f"{keys:10,}", *(f"{runs[0]:8.2f} {median(runs):6.2f}" for runs in seconds), flush=True)
            names = ("one_process", "one_worker", "two_workers")
            results.append({"keys": keys, **dict(zip(names, seconds, strict=True))})
    found = {"machine": machine(), "rows": arguments.rows, "seconds": results}
    arguments.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
