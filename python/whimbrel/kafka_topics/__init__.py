"""Topics of Apache Kafka, as sources and sinks of jobs that survive crashes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ..sharded import ShardedStream
from ..sources import from_source
from .formats import Format
from .sink import KafkaSink, sink_of_url
from .source import DeadLetter, KafkaShard, KafkaSource

__all__ = ["KafkaShard", "KafkaSink", "KafkaSource", "kafka", "sink_of_url"]


def kafka(
    topic: str,
    *,
    brokers: str,
    schema: Any = None,
    format: Format = "json",
    time: str | None = None,
    end: str | None = None,
    shards: int = 1,
    start: Literal["earliest", "latest"] | datetime = "earliest",
    bounded: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    dead_letter: DeadLetter | None = None,
    config: dict[str, Any] | None = None,
    **ingress: Any,
) -> ShardedStream:
    """
    Read a topic of Apache Kafka, also as the source of jobs that survive crashes.

    The offsets of what was read are kept with the state of the job, and not by the brokers. Messages of
    transactions are read once they are committed.

    Parameters
    ----------
    topic
        The topic.
    brokers
        Where brokers are: ``"host:port,host:port"``.
    schema
        The columns, as a mapping of names to types. Beside those of the payload there may be the columns
        ``_key`` (binary), ``_partition`` (int32), ``_offset`` (int64), ``_timestamp`` (timestamp[ms, UTC])
        and ``_topic`` (string), which are those of the message.
    format
        ``"json"``: a message is an object. ``"arrow"``: a message is an Arrow IPC stream, of any number of
        rows. ``"bytes"``: the columns are ``key`` and ``value``, both binary.
    time, end, **ingress
        As in `from_source`: with ``idle="30s"`` shards into which nothing is written hold nobody back. The
        rows of several partitions in one shard, and of several producers, are out of order:
        see ``shards``, ``reorder_latency`` and ``disorder``.
    shards
        How many shards there are, at most as many as partitions; partition ``p`` is in shard ``p % shards``.
        A shard reads what has come by partition and then by offset, so it is in order only if it has one
        partition: where rows have a time, let there be as many shards as partitions. A partition without
        messages holds up the time of the stream.
    start
        Where a job begins that is new: at the first message that is there (``"earliest"``), behind the last
        (``"latest"``), or at the first one of an instant, a `datetime` with a time zone. Partitions that are
        added later begin at their first message.
    bounded
        Whether the stream ends with what is there when it is begun.
    on_error
        What becomes of a message that cannot be read, or has no value: ``"raise"`` ends the query, and
        ``"skip"`` leaves it out.
    dead_letter
        Called with topic, partition, offset, value and error of each message that is left out; more than once
        if it is read again.
    config
        Settings of the client, such as ``security.protocol`` and ``sasl.password``.

    Returns
    -------
    ShardedStream
        The columns, in so many shards.

    Raises
    ------
    InvalidError
        If an argument is wrong, or confluent-kafka is not installed.
    DataError
        If there is no such topic; while it is read, if messages were deleted that are still to be read.
    UnavailableError
        If no broker answers for ten seconds; while it is read, for a minute.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.kafka(
    ...     "clicks", brokers="localhost:9092", schema={"time": "int64", "item": "string"}, time="time"
    ... )  # doctest: +SKIP
    >>> windows = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))  # doctest: +SKIP
    >>> job = windows.run_forever("kafka://localhost:9092/windows", checkpoint="state")  # doctest: +SKIP
    """
    source = KafkaSource(
        topic,
        brokers=brokers,
        schema=schema,
        format=format,
        shards=shards,
        start=start,
        bounded=bounded,
        on_error=on_error,
        dead_letter=dead_letter,
        config=config,
    )
    return from_source(source, time=time, end=end, **ingress)
