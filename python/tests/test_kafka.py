"""Topics of Kafka: read again after crashes, written once."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import whimbrel as wb
from whimbrel import _whimbrel as native
from whimbrel.kafka_topics import KafkaShard, KafkaSink, KafkaSource, client, sink_of_url
from whimbrel.kafka_topics import source as source_module
from whimbrel.kafka_topics.source import shares

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

pa = pytest.importorskip("pyarrow")
ck = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
ck_admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.skipif(
    "WHIMBREL_KAFKA" not in os.environ, reason="WHIMBREL_KAFKA names no broker; see tests/kafka"
)

BROKERS = os.environ.get("WHIMBREL_KAFKA", "")
BROKER_PID = os.environ.get("WHIMBREL_KAFKA_PID")
PROGRAM = Path(__file__).parent / "programs" / "kafka_job.py"
KILLS = int(os.environ.get("WHIMBREL_KILLS", "16"))
ROW = {"n": "int64", "item": "string"}
NUMBERS = itertools.count()

needs_kills = pytest.mark.skipif(BROKER_PID is None, reason="WHIMBREL_KAFKA_PID names no broker to kill")


@pytest.fixture(scope="module")
def admin() -> AdminClient:
    return ck_admin.AdminClient({"bootstrap.servers": BROKERS})


@pytest.fixture(autouse=True)
def fresh_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was produced is seen by the next call, and not by one some milliseconds later."""
    monkeypatch.setattr(client, "_SHARED", 0)


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "gave up waiting"
        time.sleep(0.05)


def create(admin: AdminClient, name: str, partitions: int = 1, **config: str) -> str:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = ck_admin.NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([topic])[name].result()
    # A topic is known before its partitions have a leader.
    client.Topic(name, BROKERS, None).latest(range(partitions))
    return name


@pytest.fixture
def topic(admin: AdminClient) -> Callable[..., str]:
    return lambda partitions=1, **config: create(
        admin, f"test-{os.getpid()}-{next(NUMBERS)}", partitions, **config
    )


def row(n: int) -> bytes:
    return json.dumps({"n": n, "item": f"item {n % 3}"}).encode()


def produce(name: str, values: list[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
    producer = ck.Producer({"bootstrap.servers": BROKERS, "enable.idempotence": True})
    for value in values:
        producer.produce(name, value, key, partition)
    assert producer.flush(30) == 0


def transactional() -> Producer:
    name = f"test-{os.getpid()}-{next(NUMBERS)}"
    producer = ck.Producer({"bootstrap.servers": BROKERS, "transactional.id": name})
    producer.init_transactions(30)
    return producer


def cuts(shard: KafkaShard, position: Any = None) -> Iterator[tuple[Any, Any]]:
    """The slices that are there now."""
    while (end := shard.advance(position)) != position and end is not wb.END:
        yield position, end
        position = end


def read(shard: KafkaShard, slices: list[tuple[Any, Any]]) -> list[list[dict]]:
    """The batches of slices."""
    tables = itertools.chain.from_iterable(shard.read(*slice) for slice in slices)
    return [pa.table(table).to_pylist() for table in tables]


def read_all(source: KafkaSource) -> list[dict]:
    """The rows that are there now, of all shards."""
    rows: list[dict] = []
    for number in range(source.shards):
        shard = source.open(number)
        rows += itertools.chain.from_iterable(read(source.open(number), list(cuts(shard))))
    return rows


def numbers(source: KafkaSource) -> list[int]:
    return [each["n"] for each in read_all(source)]


def committed(name: str) -> list[dict]:
    """What a reader of committed messages finds in a topic, by partition."""
    schema = {"value": "binary", "key": "binary", "_partition": "int32"}
    return read_all(KafkaSource(name, brokers=BROKERS, format="bytes", schema=schema))


def committed_numbers(name: str) -> list[int]:
    return [json.loads(message["value"])["n"] for message in committed(name)]


def source_of(name: str, **options: Any) -> KafkaSource:
    settings: dict[str, Any] = {"schema": ROW} | options
    return KafkaSource(name, brokers=BROKERS, **settings)


def test_slices_are_the_same_when_they_are_read_again(topic: Callable[..., str]) -> None:
    name = topic(3)
    for partition in (0, 2):
        produce(name, [row(n) for n in range(partition * 1000, partition * 1000 + 25_000)], partition)
    source = source_of(name)
    source._topic.offsets_at_once = 7000
    shard, reader = source.open(0), source.open(0)
    slices, batches = [], []
    for slice in cuts(shard):
        slices.append(slice)
        batches += read(reader, [slice])
    assert slices[0] == (None, {"0": 0, "1": 0, "2": 0})
    assert len(slices) > 2
    assert sum(map(len, batches)) == 50_000
    late = [each["n"] for batch in batches for each in batch if each["n"] >= 25_000]
    assert late == list(range(25_000, 27_000))
    # All again, from the middle on, and one slice alone.
    assert read(source.open(0), slices) == batches
    again = source.open(0)
    assert read(again, slices[1:]) == batches
    assert read(again, slices[-1:]) == batches[-len(read(again, slices[-1:])) :]
    # What comes later goes on behind them.
    produce(name, [row(-1)], 1)
    assert read(reader, list(cuts(shard, slices[-1][1]))) == [[{"n": -1, "item": "item 2"}]]
    assert shard.advance({"0": 25_000, "1": 1, "2": 25_000}) == {"0": 25_000, "1": 1, "2": 25_000}


def test_shards_share_the_partitions(topic: Callable[..., str]) -> None:
    name = topic(5)
    for partition in range(5):
        produce(name, [row(partition)], partition)
    source = source_of(name, shards=2)
    assert source.open(1).advance(None) == {"1": 0, "3": 0}
    assert numbers(source) == [0, 2, 4, 1, 3]
    with pytest.raises(wb.InvalidError, match="has 5 partitions, .* there cannot be 6 shards"):
        source_of(name, shards=6)


def test_a_budget_is_shared() -> None:
    assert shares(100, {0: 10, 1: 1000, 2: 1000}) == {0: 10, 1: 45, 2: 45}
    assert shares(100, {0: 10, 1: 20}) == {0: 10, 1: 20}
    assert shares(1, {0: 5, 1: 5, 2: 0}) == {0: 1, 1: 0, 2: 0}
    assert shares(100, {}) == {}


def test_messages_of_transactions_are_read_once_they_are_committed(topic: Callable[..., str]) -> None:
    name, producer = topic(2), transactional()

    def transaction(first: int, end: str) -> None:
        producer.begin_transaction()
        for n in range(first, first + 10):
            producer.produce(name, row(n), partition=0)
        producer.flush()
        getattr(producer, end)()

    transaction(0, "commit_transaction")
    transaction(10, "abort_transaction")
    transaction(20, "commit_transaction")
    transaction(30, "abort_transaction")
    # The last offset is the mark of a transaction, and what is before it was aborted.
    wait_until(lambda: client.Topic(name, BROKERS, None).latest([0]) == {0: 44})
    source = source_of(name)
    shard = source.open(0)
    slices = list(cuts(shard))
    assert slices[-1][1] == {"0": 44, "1": 0}
    assert [each["n"] for batch in read(shard, slices) for each in batch] == [*range(10), *range(20, 30)]
    # Any two offsets are the bounds of a slice, also in the middle of what is no message.
    for end in range(45):
        between = read(shard, [({"0": 0, "1": 0}, {"0": end, "1": 0})])
        # Ten offsets and a mark for each transaction.
        expected = [n for n in (*range(10), *range(20, 30)) if n + n // 10 < end]
        assert [each["n"] for batch in between for each in batch] == expected
    producer.begin_transaction()
    producer.produce(name, row(99), partition=0)
    producer.flush()
    assert shard.advance(slices[-1][1]) == slices[-1][1]
    producer.commit_transaction()
    wait_until(lambda: shard.advance(slices[-1][1]) != slices[-1][1])
    assert [batch[0]["n"] for batch in read(shard, list(cuts(shard, slices[-1][1])))] == [99]


def test_what_was_compacted_away_is_not_waited_for(topic: Callable[..., str]) -> None:
    name = topic(1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    source = source_of(name)
    for n in range(20):
        produce(name, [row(n)], key=b"same")

    def is_compacted() -> bool:
        time.sleep(0.2)
        produce(name, [row(100)], key=b"other")
        return len(read_all(source)) < 20

    wait_until(is_compacted)
    slices = list(cuts(source.open(0)))
    assert len(read_all(source)) < slices[-1][1]["0"]
    shard = source.open(0)
    # An end in the middle of what is gone.
    read(shard, [({"0": 0}, {"0": 5})])
    read(shard, [({"0": 5}, {"0": 15})])


def test_partitions_that_are_added_begin_at_their_beginning(
    topic: Callable[..., str], admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(1)
    produce(name, [row(0)])
    source = source_of(name, start="latest")
    shard, reader = source.open(0), source.open(0)
    beginning = shard.advance(None)
    assert beginning == {"0": 1}
    admin.create_partitions([ck_admin.NewPartitions(name, 3)])[name].result()
    wait_until(lambda: len(client.Topic(name, BROKERS, None).partitions) == 3)
    produce(name, [row(1)], 2)
    # Not looked up with every call, and soon.
    assert shard.advance(beginning) == beginning
    monkeypatch.setattr(client, "_REFRESH", 0)
    slices = list(cuts(shard, beginning))
    assert slices[0] == (beginning, {"0": 1, "1": 0, "2": 0})
    assert read(reader, [(None, beginning), *slices]) == [[{"n": 1, "item": "item 1"}]]
    assert read(source.open(0), slices[1:]) == [[{"n": 1, "item": "item 1"}]]


def test_a_topic_that_is_created_again_is_another_one(topic: Callable[..., str], admin: AdminClient) -> None:
    name = topic()
    produce(name, [row(n) for n in range(10)])
    source = source_of(name)
    shard, reader, late = source.open(0), source.open(0), source.open(0)
    slices = list(cuts(shard))
    assert len(read(reader, slices)[0]) == 10
    admin.delete_topics([name])[name].result()
    with pytest.raises(wb.DataError, match="it does not exist"):
        wait_until(lambda: shard.advance(slices[-1][1]) is None)
    time.sleep(1.5)
    create(admin, name)
    produce(name, [row(n) for n in range(100, 120)])
    with pytest.raises(wb.DataError, match="was deleted and created again"):
        shard.advance(slices[-1][1])
    # The client itself would go on in the topic that is there now.
    for open in (reader, late):
        with pytest.raises(wb.DataError, match="was deleted and created again"):
            read(open, [({"0": 10}, {"0": 15})])
    assert source_of(name).name != source.name


def test_messages_that_were_deleted_are_an_error(topic: Callable[..., str], admin: AdminClient) -> None:
    name = topic(2)
    produce(name, [row(n) for n in range(10)])
    source = source_of(name)
    shard = source.open(0)
    slices = list(cuts(shard))
    admin.delete_records([ck.TopicPartition(name, 0, 5)])[ck.TopicPartition(name, 0, 5)].result()
    deleted = r"partition 0: offsets 0 to 9 are to be read, and those before 5 were deleted; .*retention\.ms"
    with pytest.raises(wb.DataError, match=deleted):
        read(shard, slices)
    assert source.open(0).advance(None) == {"0": 5, "1": 0}
    assert len(read(shard, [({"0": 5, "1": 0}, {"0": 10, "1": 0})])[0]) == 5
    # While it is read.
    produce(name, [row(n) for n in range(10)])
    admin.delete_records([ck.TopicPartition(name, 0, 18)])[ck.TopicPartition(name, 0, 18)].result()
    with pytest.raises(wb.DataError, match="those before 18 were deleted"):
        read(source.open(0), [({"0": 17, "1": 0}, {"0": 20, "1": 0})])
    # Nothing is to be read of it.
    produce(name, [row(7)], 1)
    assert read(source.open(0), [({"0": 1, "1": 0}, {"0": 1, "1": 1})]) == [[{"n": 7, "item": "item 1"}]]
    with pytest.raises(wb.DataError, match=r"offsets 18 to 98 are to be read, and it ends before 20"):
        read(shard, [({"0": 18, "1": 0}, {"0": 99, "1": 0})])
    with pytest.raises(wb.DataError, match="it was read up to offset 99 and ends at 20"):
        shard.advance({"0": 99, "1": 0})


def test_a_partition_that_is_far_ahead_waits(topic: Callable[..., str]) -> None:
    name = topic(2)
    produce(name, [row(n) for n in range(20_000)], 0)
    produce(name, [row(n) for n in range(10)], 1)
    source = source_of(name)
    shard = source.open(0)
    source._topic.offsets_at_once = 50
    found = [each["n"] for end in range(1, 11) for each in read_step(shard, end)]
    assert found == [each for n in range(10) for each in (*range(n * 2000, n * 2000 + 2000), n)]


def read_step(shard: KafkaShard, step: int) -> list[dict]:
    """A slice of many messages of one partition and of one of the other."""
    bounds = [{"0": at * 2000, "1": at} for at in (step - 1, step)]
    shard._topic.offsets_at_once = 50
    return [each for batch in read(shard, [(bounds[0], bounds[1])]) for each in batch]


def test_what_cannot_be_read_ends_the_query_or_is_left_out(topic: Callable[..., str]) -> None:
    name = topic()
    values: list[bytes | None] = [row(n) for n in range(100)]
    values[3], values[50], values[99] = b"{no json", None, b'{"n": "many"}'
    produce(name, values)
    source = source_of(name)
    with pytest.raises(wb.DataError, match=rf'topic "{name}", partition 0, offset 3: .*on_error="skip"'):
        read_all(source)
    with pytest.raises(wb.DataError, match=r"partition 0, offset 50: it has no value"):
        read(source.open(0), [({"0": 40}, {"0": 60})])
    letters = []
    source = source_of(name, on_error="skip", dead_letter=lambda *letter: letters.append(letter))
    shard = source.open(0)
    slices = list(cuts(shard))
    batches = read(shard, slices)
    found = [each["n"] for batch in batches for each in batch]
    assert found == [n for n in range(100) if n not in (3, 50, 99)]
    assert [letter[:4] for letter in letters] == [(name, 0, n, values[n]) for n in (3, 50, 99)]
    assert all(isinstance(letter[4], wb.DataError) for letter in letters)
    assert source.skipped == 3
    assert read(source.open(0), slices) == batches


def test_the_fields_of_a_message_are_columns_if_they_are_named(topic: Callable[..., str]) -> None:
    name = topic(2)
    before = datetime.now(timezone.utc).replace(microsecond=0)
    produce(name, [row(7)], 1, key=b"k")
    schema = {
        "_topic": "string",
        "n": "int64",
        "_key": "binary",
        "_offset": "int64",
        "_partition": "int32",
        "_timestamp": "timestamp[ms, UTC]",
    }
    source = source_of(name, schema=schema)
    (found,) = read_all(source)
    assert list(found) == list(source.schema) == list(schema)
    assert found.pop("_timestamp") >= before
    assert found == {"_topic": name, "n": 7, "_key": b"k", "_offset": 0, "_partition": 1}
    with pytest.raises(wb.InvalidError, match='column "_offset" of a message is int64, not string'):
        source_of(name, schema={"n": "int64", "_offset": "string"})
    with pytest.raises(wb.InvalidError, match="no column is of the payload"):
        source_of(name, schema={"_offset": "int64"})


def test_messages_of_bytes(topic: Callable[..., str]) -> None:
    name = topic()
    produce(name, [b"a", None], key=b"k")
    produce(name, [b""])
    assert read_all(source_of(name, format="bytes", schema=None)) == [
        {"key": b"k", "value": b"a"},
        {"key": b"k", "value": None},
        {"key": None, "value": b""},
    ]
    with pytest.raises(wb.InvalidError, match='messages of bytes have no column "n"'):
        source_of(name, format="bytes")


def test_messages_of_arrow(topic: Callable[..., str]) -> None:
    name = topic()
    table = pa.table({"item": ["a", "b"], "n": [1, 2], "more": [0.5, 1.5]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    stream_bytes = sink.getvalue().to_pybytes()
    produce(name, [stream_bytes, b"nonsense", stream_bytes[: len(stream_bytes) // 2]])
    source = source_of(name, format="arrow", schema=ROW | {"_offset": "int64"}, on_error="skip")
    assert read_all(source) == [{"n": 1, "item": "a", "_offset": 0}, {"n": 2, "item": "b", "_offset": 0}]
    assert source.skipped == 2
    with pytest.raises(wb.DataError, match=r"offset 0: it is no Arrow IPC stream with .*absent"):
        read_all(source_of(name, format="arrow", schema={"absent": "int64"}))


def test_a_job_may_begin_late(topic: Callable[..., str]) -> None:
    name = topic(2)
    produce(name, [row(1)])
    time.sleep(0.01)
    middle = datetime.now(timezone.utc)
    time.sleep(0.01)
    produce(name, [row(2), row(3)])
    assert source_of(name, start="latest").open(0).advance(None) == {"0": 3, "1": 0}
    assert source_of(name, start=middle).open(0).advance(None) == {"0": 1, "1": 0}
    assert numbers(source_of(name, start=middle)) == [2, 3]
    with pytest.raises(wb.InvalidError, match="may mean any time zone"):
        source_of(name, start=datetime(2026, 1, 1))


def test_a_stream_may_end_with_what_is_there(topic: Callable[..., str]) -> None:
    name = topic()
    produce(name, [row(1), row(2)])
    shard = source_of(name, bounded=True).open(0)
    position = shard.advance(shard.advance(None))
    produce(name, [row(3)])
    assert position == {"0": 2}
    assert shard.advance(position) is wb.END
    assert source_of(topic(), bounded=True).open(0).advance({"0": 0}) is wb.END


def test_calls_that_are_wrong_are_refused(topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    name = topic()
    with pytest.raises(wb.DataError, match='topic "absent" at .*: it does not exist; create it'):
        source_of("absent")
    with pytest.raises(wb.InvalidError, match="give them with schema="):
        source_of(name, schema=None)
    with pytest.raises(wb.InvalidError, match="format is one of"):
        source_of(name, format="xml")
    with pytest.raises(wb.InvalidError, match="shards has to be at least 1"):
        source_of(name, shards=0)
    with pytest.raises(wb.InvalidError, match="on_error is"):
        source_of(name, on_error="ignore")
    with pytest.raises(wb.InvalidError, match='give on_error="skip" too'):
        source_of(name, dead_letter=print)
    with pytest.raises(wb.InvalidError, match='config: "isolation.level"'):
        source = source_of(name, config={"isolation.level": "read_uncommitted"})
        read(source.open(0), [({"0": 0}, {"0": 1})])
    monkeypatch.setattr(source_module, "FIRST_PATIENCE", 0.1)
    monkeypatch.setattr(client, "_REQUEST_TIMEOUT", 0.5)
    with pytest.raises(wb.UnavailableError, match="begin again once the brokers answer"):
        KafkaSource(name, brokers="127.0.0.1:1", schema=ROW)


def test_a_name_tells_no_secret(topic: Callable[..., str]) -> None:
    source = source_of(topic(), config={"sasl.password": "secret", "sasl.username": "ann"})
    assert "secret" not in source.name and "ann" not in source.name


def table_of(rows: list[int]) -> wb.Table:
    return wb.Table(native.Table.from_rows([(n, f"item {n}") for n in rows], list(ROW), list(ROW.values())))


def opened(name: str, generation: int, job: str = "job", **options: Any) -> tuple[KafkaSink, int | None]:
    sink = KafkaSink(BROKERS, name, **options)
    return sink, sink.open(job, generation, table_of([1]).schema)


def test_a_sink_commits_rows_and_its_epoch_together(topic: Callable[..., str]) -> None:
    name = topic(3)
    sink, epoch = opened(name, 1)
    assert epoch is None
    sink.write(table_of([1, 2]))
    sink.write(table_of([3]))
    time.sleep(0.1)
    assert committed(name) == []
    sink.commit(7)
    assert sorted(committed_numbers(name)) == [1, 2, 3]
    sink.commit(9)
    sink.write(table_of([4]))
    # The next run has what was committed, and the rest never was.
    sink, epoch = opened(name, 2)
    assert epoch == 9
    assert opened(name, 3)[1] == 9
    assert opened(name, 1, job="another")[1] is None
    assert sorted(committed_numbers(name)) == [1, 2, 3]


def test_a_job_that_has_committed_nothing_begins_anew(topic: Callable[..., str]) -> None:
    name = topic()
    sink, epoch = opened(name, 1)
    sink.write(table_of([1]))
    assert epoch is None
    assert opened(name, 2)[1] is None
    assert committed(name) == []


def test_keys_and_forms_of_messages(topic: Callable[..., str]) -> None:
    name = topic()
    sink, _ = opened(name, 1, key="item")
    sink.write(table_of([1]))
    sink.commit(1)
    sink, _ = opened(name, 2, key="n")
    sink.write(table_of([2]))
    sink.commit(2)
    found = committed(name)
    assert [message["key"] for message in found] == [b"item 1", b"2"]
    assert json.loads(found[0]["value"]) == {"n": 1, "item": "item 1"}
    with pytest.raises(wb.InvalidError, match='"absent"'):
        opened(name, 3, key="absent")
    with pytest.raises(wb.InvalidError, match="so no key="):
        KafkaSink(BROKERS, name, format="arrow", key="n")
    with pytest.raises(wb.InvalidError, match='format is "json" or "arrow"'):
        KafkaSink(BROKERS, name, format="bytes")  # type: ignore[arg-type]
    with pytest.raises(wb.InvalidError, match='config: "transactional.id"'):
        KafkaSink(BROKERS, name, config={"transactional.id": "x"})
    with pytest.raises(wb.DataError, match='topic "absent" at .* does not exist'):
        opened("absent", 1)


def test_many_rows_of_arrow_are_several_messages(topic: Callable[..., str]) -> None:
    name = topic()
    sink, _ = opened(name, 1, format="arrow")
    rows = list(range(200_000))
    sink.write(table_of(rows))
    sink.commit(1)
    assert len(committed(name)) > 2
    assert numbers(source_of(name, format="arrow")) == rows


def test_an_older_run_cannot_commit_any_more(topic: Callable[..., str]) -> None:
    name = topic()
    older, _ = opened(name, 1)
    older.write(table_of([1]))
    older.commit(1)
    older.write(table_of([2]))
    newer, epoch = opened(name, 2)
    assert epoch == 1
    with pytest.raises(wb.DataError, match="another process goes on with this job; run 1 of it stops"):
        older.commit(2)
    newer.write(table_of([3]))
    # The older one is begun again, too late.
    with pytest.raises(wb.DataError, match="another process goes on with this job"):
        opened(name, 1)
    newer.commit(2)
    with pytest.raises(wb.DataError, match="another process goes on with this job"):
        older.open("job", 1, table_of([1]).schema)
    newer.write(table_of([4]))
    newer.commit(3)
    assert committed_numbers(name) == [1, 3, 4]


def test_an_older_run_that_writes_learns_that_it_was_replaced(topic: Callable[..., str]) -> None:
    name = topic()
    older, _ = opened(name, 1)
    older.write(table_of([1]))
    newer, _ = opened(name, 2)
    with pytest.raises(wb.DataError, match="another process goes on"):
        for _ in range(200):
            older.write(table_of([2]))
            time.sleep(0.05)
        older.commit(1)
    newer.write(table_of([3]))
    newer.commit(1)
    assert committed_numbers(name) == [3]


class Interrupted:
    """A producer whose commits fail, before or after they were made."""

    def __init__(self, producer: Any, *, is_made: bool) -> None:
        self._producer = producer
        self._is_made = is_made

    def commit_transaction(self, timeout: float) -> None:
        if self._is_made:
            self._producer.commit_transaction(timeout)
        raise ck.KafkaException(ck.KafkaError(ck.KafkaError._FENCED, "the reply was lost", True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


@pytest.mark.parametrize("is_made", [True, False])
def test_a_commit_without_an_answer(topic: Callable[..., str], is_made: bool) -> None:
    name = topic()
    sink, _ = opened(name, 1)
    sink.write(table_of([1]))
    sink._producer = Interrupted(sink._producer, is_made=is_made)  # type: ignore[assignment]
    if is_made:
        sink.commit(1)
        sink.write(table_of([2]))
        sink.commit(2)
        assert committed_numbers(name) == [1, 2]
    else:
        with pytest.raises(wb.UnavailableError, match="were not written: .*begin the job again"):
            sink.commit(1)
        assert committed(name) == []
        assert opened(name, 2)[1] is None


def test_another_job_does_not_hide_progress(topic: Callable[..., str]) -> None:
    name = topic()
    other, _ = opened(name, 1, job="other", config={"transaction.timeout.ms": 3000})
    # Its record of progress is written and not committed: it holds up readers of committed messages.
    other._begin()
    other._write_progress(1)
    assert other._producer is not None
    other._producer.flush()
    begun = time.monotonic()
    sink, _ = opened(name, 1)
    sink.commit(5)
    assert opened(name, 2)[1] == 5
    assert time.monotonic() - begun > 1


def kill_broker() -> None:
    assert BROKER_PID is not None
    os.kill(int(Path(BROKER_PID).read_text()), signal.SIGKILL)


@needs_kills
def test_a_broker_that_is_killed_loses_and_doubles_nothing(topic: Callable[..., str]) -> None:
    name, chance = topic(), random.Random(1)
    generation, epoch = 1, 0
    sink, _ = opened(name, generation)
    source = source_of(name)
    shard, reader, position, found = source.open(0), source.open(0), None, []
    for _ in range(3):
        killer = threading.Timer(chance.random(), kill_broker)
        killer.start()
        enough = epoch + 50
        while killer.is_alive() or epoch < enough:
            try:
                sink.write(table_of(list(range(epoch * 10, epoch * 10 + 10))))
                sink.commit(epoch + 1)
                epoch += 1
            except wb.UnavailableError:
                generation += 1
                sink, last = opened(name, generation)
                epoch = last or 0
            # A reader goes through it, too.
            if (end := shard.advance(position)) != position:
                found += itertools.chain.from_iterable(read(reader, [(position, end)]))
                position = end
    expected = list(range(epoch * 10))
    assert committed_numbers(name) == expected
    found += itertools.chain.from_iterable(read(reader, list(cuts(shard, position))))
    assert [each["n"] for each in found] == expected


def test_addresses_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of_url("kafka://one:9092,two:9092/a%20topic?key=item&format=json")
    assert (sink._brokers, sink._topic) == ("one:9092,two:9092", "a topic")
    for url, match in [
        ("kafka://one:9092", "names no topic"),
        ("kafka://one:9092/", "names no topic"),
        ("kafka:///topic", "names no topic"),
        ("kafka://one:9092/a/b", "names no topic"),
        ("kafka://one:9092/topic?keys=x", 'there is no option "keys"; there are key and format'),
        ("kafka://one:9092/topic?key=x&key=y", "given twice"),
        ("kafka://one:9092/topic?format=xml", 'format is "json" or "arrow"'),
        ("kafka://ann:secret@one:9092/topic", "config="),
    ]:
        with pytest.raises(wb.InvalidError, match=match) as caught:
            sink_of_url(url)
        assert "secret" not in str(caught.value)


def test_the_client_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(wb.InvalidError, match=r"is not installed: pip install whimbrel\[kafka\]"):
        KafkaSink("one:9092", "topic")


def start(root: Path, clicks: str, windows: str, finish: bool = False) -> subprocess.Popen:
    """Begin or go on with the job of a folder."""
    mode = "finish" if finish else "run"
    command = [sys.executable, str(PROGRAM), str(root), BROKERS, clicks, windows, mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(root: Path, clicks: str, windows: str) -> None:
    """Run a job until it has read everything."""
    process = start(root, clicks, windows, finish=True)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


class Clicks:
    """Clicks that are produced while a job reads them; a tenth of the transactions is aborted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.random = random.Random(KILLS)
        self.clock = 0
        self.producer = transactional()

    def grow(self) -> None:
        self.producer.begin_transaction()
        for at in range(self.random.randrange(1, 30)):
            click = {"time": self.clock + at // 3, "item": self.random.choice("abcde"), "n": self.clock}
            self.producer.produce(self.name, json.dumps(click), partition=self.random.randrange(2))
        self.producer.flush()
        if self.random.random() < 0.1:
            self.producer.abort_transaction()
        else:
            self.producer.commit_transaction()
        self.clock += 10


def windows_of(name: str) -> list[tuple]:
    return sorted(tuple(json.loads(message["value"]).values()) for message in committed(name))


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix")
def test_killed_jobs_give_what_undisturbed_ones_give(topic: Callable[..., str], tmp_path: Path) -> None:
    clicks, killed, undisturbed = Clicks(topic(2)), topic(2), topic()
    chance = random.Random(KILLS)
    for _ in range(KILLS):
        clicks.grow()
        process = start(tmp_path / "killed", clicks.name, killed)
        assert process.stdout is not None
        process.stdout.readline()
        until = time.monotonic() + chance.random() * 2
        while time.monotonic() < until:
            clicks.grow()
            time.sleep(0.02)
        if chance.random() < 0.2:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            process.send_signal(signal.SIGCONT)
        process.kill()
        _, errors = process.communicate()
        assert "Error" not in errors, errors
    disturbed = windows_of(killed)
    finish(tmp_path / "killed", clicks.name, killed)
    finish(tmp_path / "undisturbed", clicks.name, undisturbed)
    assert windows_of(killed) == windows_of(undisturbed)
    assert len(disturbed) > KILLS


@needs_kills
def test_a_job_outlives_its_broker(topic: Callable[..., str], tmp_path: Path) -> None:
    clicks, windows, undisturbed = Clicks(topic(2)), topic(), topic()
    for _ in range(2):
        process = start(tmp_path / "killed", clicks.name, windows)
        for _ in range(20):
            clicks.grow()
        kill_broker()
        client.Topic(clicks.name, BROKERS, None).look()
        clicks.producer = transactional()
        clicks.grow()
        process.kill()
        process.communicate()
    finish(tmp_path / "killed", clicks.name, windows)
    finish(tmp_path / "undisturbed", clicks.name, undisturbed)
    assert windows_of(windows) == windows_of(undisturbed) != []
