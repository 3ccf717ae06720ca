"""
A topic of Kafka as a source that can be read again.

Invariants:

- A position has the offset of every partition of the shard. It begins with where the partitions begin, before
  a message is read, so that the beginnings are found out once and not again after a crash.
- A partition that is in the second of two positions only begins there: there is nothing of it to read.
- What lies between two positions is the same whenever it is read: an end is never behind an open transaction,
  and batches are cut by messages and not by how they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from .._types import ArrowStream
from ..connectors import END, End, Position
from ..errors import DataError, InvalidError
from ..ingress import shard_count
from ..schema import Schema
from .client import FIRST_PATIENCE, Offsets, Topic
from .formats import Decoder, Format
from .reader import Reader

if TYPE_CHECKING:
    from confluent_kafka import Message

DeadLetter = Callable[[str, int, int, "bytes | None", DataError], object]
"""Called with topic, partition, offset, value and error of a message that is left out."""

_BATCH = 10_000


class KafkaSource:
    """
    A topic of Kafka, as `from_source` takes it; `kafka` makes a stream of one.

    Parameters
    ----------
    topic, brokers, schema, format, shards, start, bounded, on_error, dead_letter, config
        As in `kafka`.

    Attributes
    ----------
    name
        What identifies the topic: one that is deleted and created again has another.
    schema
        The columns.
    shards
        How many shards there are: partition ``p`` is in shard ``p % shards``.
    skipped
        How many messages were left out, since the process began.

    Raises
    ------
    InvalidError
        If an argument is wrong, or confluent-kafka is not installed.
    DataError
        If there is no such topic.
    UnavailableError
        If no broker answers for ten seconds.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = KafkaSource(
    ...     "clicks", brokers="localhost:9092", schema={"item": "string"}, on_error="skip"
    ... )  # doctest: +SKIP
    >>> stream = wb.from_source(clicks)  # doctest: +SKIP
    >>> clicks.skipped  # doctest: +SKIP
    0
    """

    def __init__(
        self,
        topic: str,
        *,
        brokers: str,
        schema: Any = None,
        format: Format = "json",
        shards: int = 1,
        start: Literal["earliest", "latest"] | datetime = "earliest",
        bounded: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        dead_letter: DeadLetter | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        _check_start(start)
        _check_errors(on_error, dead_letter)
        shard_count(shards)
        self._decoder = Decoder(format, schema)
        self._topic = Topic(topic, brokers, config, FIRST_PATIENCE)
        if shards > len(self._topic.partitions):
            raise InvalidError(
                f"{self._topic} has {len(self._topic.partitions)} partitions, and each shard reads at least "
                f"one: there cannot be {shards} shards"
            )
        self.name = f'Kafka topic "{topic}" {self._topic.identity}'
        self.schema = Schema(self._decoder.schema)
        self.shards = shards
        self.skipped = 0
        self._start: Literal["earliest", "latest"] | datetime = start
        self._bounded = bounded
        self._skips = on_error == "skip"
        self._dead_letter = dead_letter
        self._config = config

    def open(self, shard: int) -> KafkaShard:
        """Open a shard for one thread; it connects when it is used."""
        return KafkaShard(self, shard)

    def beginnings(self, partitions: list[int]) -> Offsets:
        """Find where partitions begin that are there when the job is begun."""
        if isinstance(self._start, datetime):
            return self._topic.since(partitions, int(self._start.timestamp() * 1000))
        if self._start == "latest":
            return self._topic.latest(partitions)
        return self._topic.earliest(partitions)

    def decode(self, messages: list[Message]) -> Iterator[ArrowStream]:
        """Make tables of messages; a batch is halved until one that cannot be read stands alone."""
        try:
            table = self._decoder.decode(messages)
        except DataError as error:
            if len(messages) == 1:
                self._leave_out(messages[0], error)
                return
        else:
            yield table
            return
        middle = len(messages) // 2
        yield from self.decode(messages[:middle])
        yield from self.decode(messages[middle:])

    def _leave_out(self, message: Message, error: DataError) -> None:
        topic, partition, offset = self._topic.name, message.partition(), message.offset()
        assert partition is not None and offset is not None
        if not self._skips:
            raise DataError(
                f'topic "{topic}", partition {partition}, offset {offset}: {error}; leave out what cannot '
                'be read by on_error="skip"'
            ) from error
        self.skipped += 1
        if self._dead_letter is not None:
            self._dead_letter(topic, partition, offset, message.value(), error)


class KafkaShard:
    """The partitions of a shard, for one thread: a `SourceShard`."""

    def __init__(self, source: KafkaSource, shard: int) -> None:
        self._source = source
        self._topic = source._topic
        self._shard = shard
        self._reader: Reader | None = None
        self._last: Offsets | None = None

    def advance(self, position: Position) -> Position | End:
        """Look what has come behind a position."""
        if position is None:
            return _position(self._source.beginnings(self._partitions()))
        at = _offsets(position)
        # A partition that is newer than the answer has nothing yet.
        ends = at | {partition: end for partition, end in self._topic.ends().items() if partition in at}
        lags = self._lags(at, ends)
        if any(lags.values()) or self._topic.is_stale():
            # The ends belong to the topic that was asked for if it is the same behind them.
            self._topic.look()
        new = [partition for partition in self._partitions() if partition not in at]
        if self._source._bounded and self._has_ended(at, ends):
            return END
        steps = shares(self._topic.offsets_at_once, lags)
        behind = {partition: offset + steps[partition] for partition, offset in at.items()}
        return _position(behind | self._topic.earliest(new))

    def read(self, start: Position, end: Position) -> Iterator[ArrowStream]:
        """Read what lies between two positions."""
        ends = _offsets(end)
        starts = ends | _offsets(start)
        if self._reader is None:
            self._reader = Reader(self._topic, self._source._config)
        if starts != ends:
            for messages in batches(self._reader.read(starts, ends)):
                yield from self._source.decode(messages)

    def _partitions(self) -> list[int]:
        return [each for each in self._topic.partitions if each % self._source.shards == self._shard]

    def _lags(self, at: Offsets, ends: Offsets) -> Offsets:
        for partition, offset in at.items():
            if offset > ends[partition]:
                self._topic.look()
                raise DataError(
                    f"{self._topic}, partition {partition}: it was read up to offset {offset} and ends at "
                    f"{ends[partition]}: messages were lost; begin a new job, with another folder for its "
                    "state"
                )
        return {partition: ends[partition] - offset for partition, offset in at.items()}

    def _has_ended(self, at: Offsets, ends: Offsets) -> bool:
        """Tell whether all was read that was there when this was first asked."""
        if self._last is None:
            self._last = ends
        return all(at[partition] >= end for partition, end in self._last.items())


def batches(parts: Iterable[list[Message]]) -> Iterator[list[Message]]:
    """Cut messages into batches of one size, however they came."""
    rest: list[Message] = []
    for part in parts:
        rest += part
        while len(rest) >= _BATCH:
            yield rest[:_BATCH]
            rest = rest[_BATCH:]
    if rest:
        yield rest


def shares(budget: int, wanted: Offsets) -> Offsets:
    """Share a budget evenly; what one does not need is for those that need more."""
    given: Offsets = {}
    for waiting, partition in zip(
        range(len(wanted), 0, -1), sorted(wanted, key=lambda p: wanted[p]), strict=True
    ):
        given[partition] = min(wanted[partition], -(-budget // waiting))
        budget -= given[partition]
    return given


def _position(offsets: Offsets) -> Position:
    return {str(partition): offset for partition, offset in offsets.items()}


def _offsets(position: Position) -> Offsets:
    return {int(partition): offset for partition, offset in (position or {}).items()}


def _check_start(start: Any) -> None:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidError(
                f"start={start!r} may mean any time zone; give it one, e.g. datetime.timezone.utc"
            )
    elif start not in ("earliest", "latest"):
        raise InvalidError(f'start is "earliest", "latest" or a datetime, not {start!r}')


def _check_errors(on_error: Any, dead_letter: Any) -> None:
    if on_error not in ("raise", "skip"):
        raise InvalidError(f'on_error is "raise" or "skip", not {on_error!r}')
    if dead_letter is not None and on_error == "raise":
        raise InvalidError('dead_letter= takes what is left out: give on_error="skip" too')
