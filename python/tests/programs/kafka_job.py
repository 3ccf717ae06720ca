"""A job from Kafka to Kafka that is killed at any moment.

`kafka_job.py ROOT BROKERS CLICKS WINDOWS MODE` begins or goes on with it; in mode `finish`, it ends once
nothing new has come for a while, and in mode `run` it runs until it is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import whimbrel as wb


def windows(brokers: str, topic: str) -> wb.ShardedStream:
    """Count clicks per item and window."""
    schema = {"time": "int64", "item": "string", "n": "int64"}
    clicks = wb.kafka(topic, brokers=brokers, schema=schema, time="time", shards=2)
    keyed = clicks.rekey(lambda e: e.item).redistribute(2)
    return keyed.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), sum=wb.sum("n")))


def main(root: Path, brokers: str, clicks: str, to: str, finish: bool) -> None:
    """Run the job."""
    job = windows(brokers, clicks).run_forever(
        f"kafka://{brokers}/{to}?key=item",
        checkpoint=root / "state",
        every="50ms",
        stop_when_idle="2s" if finish else None,
        wait=False,
    )
    print("running", flush=True)
    job.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5], finish=sys.argv[5] == "finish")
