"""What Kafka's client in Python costs: rows per second that a source reads and a sink writes, on one broker.

    tests/kafka .venv/bin/python benches/kafka_clients.py                           # a million messages
    tests/kafka .venv/bin/python benches/kafka_clients.py --rows 50000 --out /dev/null     # a smoke test

A message is a JSON object of three columns. Reading is that of `KafkaSource`, slice by slice as a job does;
the messages alone are what its client takes of that, and the rest is parsing. Writing is that of `KafkaSink`,
with a commit after every 100,000 rows. The first run is given beside the median of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import libversion
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import whimbrel as wb
from run import HERE, machine
from whimbrel._whimbrel import Table
from whimbrel.kafka_topics import KafkaSink, KafkaSource
from whimbrel.kafka_topics.reader import Reader

COLUMNS = {"time": "int64", "item": "string", "price": "float64"}
COMMIT_ROWS = 100_000


def tables(rows: int) -> list[wb.Table]:
    """Make the rows."""
    made = []
    for first in range(0, rows, COMMIT_ROWS):
        numbers = range(first, min(first + COMMIT_ROWS, rows))
        listed = [(n, f"item {n % 1000}", n / 8) for n in numbers]
        made.append(wb.Table(Table.from_rows(listed, list(COLUMNS), list(COLUMNS.values()))))
    return made


def write(brokers: str, topic: str, made: list[wb.Table]) -> None:
    """Write the rows, as a job of its own."""
    sink = KafkaSink(brokers, topic)
    sink.open(f"bench {time.time_ns()}", 1, made[0].schema)
    for epoch, table in enumerate(made, start=1):
        sink.write(table)
        sink.commit(epoch)


def slices(source: KafkaSource) -> Iterator[tuple[Any, Any]]:
    """Cut what is there as a job does."""
    shard, position = source.open(0), None
    while (end := shard.advance(position)) != position:
        yield position, end
        position = end


def read(source: KafkaSource) -> None:
    """Read all rows as tables."""
    shard = source.open(0)
    for start, end in slices(source):
        for table in shard.read(start, end):
            Table.from_arrow(table)


def read_messages(source: KafkaSource) -> None:
    """Read all messages, and make nothing of them."""
    reader = Reader(source._topic, None)
    for start, end in slices(source):
        if start:
            for _ in reader.read({0: start["0"]}, {0: end["0"]}):
                pass


def measure(name: str, turns: int, rows: int, run: Callable[[], Any]) -> dict[str, Any]:
    """Run several times; the first one apart."""
    seconds = []
    for _ in range(turns + 1):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    first, rest = rows / seconds[0], rows / median(seconds[1:])
    print(f"{name:20} {first:12,.0f} rows/s at first, then {rest:12,.0f}", flush=True)
    return {"first": round(first), "then": round(rest)}


def main() -> None:
    """Measure, print, and write the results."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "kafka_clients_results.json")
    arguments = parser.parse_args()
    brokers, rows = os.environ["WHIMBREL_KAFKA"], arguments.rows
    admin = AdminClient({"bootstrap.servers": brokers})
    names = [f"bench-{what}-{time.time_ns()}" for what in ("written", "read")]
    for created in admin.create_topics([NewTopic(name, 1) for name in names]).values():
        created.result()
    made = tables(rows)
    to_write, to_read = names
    write(brokers, to_read, made)
    source = KafkaSource(to_read, brokers=brokers, schema=COLUMNS)
    runs = {
        "write": lambda: write(brokers, to_write, made),
        "read": lambda: read(source),
        "read messages": lambda: read_messages(source),
    }
    results = {name: measure(name, arguments.turns, rows, run) for name, run in runs.items()}
    for part in ("first", "then"):
        client, whole = (1e6 / results[name][part] for name in ("read messages", "read"))
        print(f"{part}: {client:.2f} µs a message for the client, {whole - client:.2f} µs for parsing")
    report = {"machine": machine(), "librdkafka": libversion()[0], "rows": rows, "rows per second": results}
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
