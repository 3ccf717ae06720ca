"""Reads messages between offsets, of several partitions at once.

Invariants:

- `_given` has the offset up to which messages of each partition were given away, `_fetched` the one up to
  which they were fetched; those in between are in `_ahead`. A read that begins where the last one ended goes
  on without asking for anything twice.
- A partition is read up to an end when its *position* has reached it. The last offsets may be no messages:
  marks of transactions, aborted messages, ones that were compacted away. The client says where it is by a
  message, or by the offset of an "end of partition".
- Whatever was read belongs to the topic that was asked for: this is looked up after reading, as the client
  itself goes on in a topic of the same name.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UnavailableError
from .client import PATIENCE, Offsets, Topic, confluent, is_passing, refused, settings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

# The client asks for a group, of which no use is made. A partition that is read from elsewhere waits until
# the request that is under way is answered.
_DEFAULTS = {"group.id": "whimbrel", "fetch.wait.max.ms": 100, "fetch.queue.backoff.ms": 20}
_FETCH = 10_000
_PAUSE = 1.0


class Reader:
    """Reads a topic for one thread at a time."""

    def __init__(self, topic: Topic, config: dict[str, Any] | None) -> None:
        self._topic = topic
        self._consumer: Consumer = confluent().Consumer(
            settings(
                topic.brokers,
                _DEFAULTS | (config or {}),
                auto_offset_reset="error",
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
            )
        )
        self._given: Offsets = {}
        self._fetched: Offsets = {}
        self._ahead: dict[int, list[Message]] = {}
        self._paused: list[int] = []

    def read(self, starts: Offsets, ends: Offsets) -> Iterator[list[Message]]:
        """
        Read the messages between two offsets of each partition, by partition and offset, as they come.

        Raises
        ------
        DataError
            If they are not there any more, or it is not the same topic any more.
        UnavailableError
            If nothing comes for a minute.
        """
        if starts != self._given:
            self._begin(starts, ends)
        self._resume()
        size = 0
        for partition in sorted(ends):
            while self._given[partition] < ends[partition]:
                if self._fetched[partition] == self._given[partition]:
                    self._fetch_more(ends)
                messages = self._give(partition, ends[partition])
                size += sum(map(len, messages))
                yield messages
        self._topic.look()
        self._topic.learn_size(size, sum(ends.values()) - sum(starts.values()))

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def _begin(self, starts: Offsets, ends: Offsets) -> None:
        """Go to where the partitions are to be read from."""
        self._given, self._fetched = dict(starts), dict(starts)
        self._ahead = {partition: [] for partition in starts}
        self._paused = []
        self._check(ends)
        partition_at = confluent().TopicPartition
        self._consumer.assign([partition_at(self._topic.name, *start) for start in starts.items()])

    def _lags(self, ends: Offsets) -> list[int]:
        return [partition for partition, end in ends.items() if self._fetched[partition] < end]

    def _fetch_more(self, ends: Offsets) -> None:
        """Wait until something comes."""
        until = time.monotonic() + PATIENCE
        while not self._fetch(ends):
            if time.monotonic() > until:
                raise UnavailableError(
                    f"{self._topic}: {self._missing(ends)} did not come; begin again later"
                )
            self._check(ends)
        self._pause(ends)

    def _fetch(self, ends: Offsets) -> bool:
        """Take what has come, or wait for it a moment; False if nothing came."""
        # With a timeout, `consume` would wait for as many messages as it may give.
        messages = self._consumer.consume(_FETCH, 0)
        if not messages:
            message = self._consumer.poll(_PAUSE)
            messages = [] if message is None else [message]
        errors = []
        for message in messages:
            if message.error() is None:
                partition: Any = message.partition()
                self._ahead[partition].append(message)
            else:
                errors.append(message)
        for partition, ahead in self._ahead.items():
            if ahead:
                self._fetched[partition] = max(self._fetched[partition], _offset(ahead[-1]) + 1)
        for message in errors:
            self._take_error(message, ends)
        return bool(messages)

    def _take_error(self, message: Message, ends: Offsets) -> None:
        """Learn where a partition is, or that it cannot be read."""
        error, partition, offset = message.error(), message.partition(), _offset(message)
        assert error is not None
        if error.name() == "_PARTITION_EOF" and partition is not None:
            self._fetched[partition] = max(self._fetched[partition], offset)
        elif error.name() == "_AUTO_OFFSET_RESET":
            # No error for a partition of which nothing is to be read.
            self._check(ends)
        elif not is_passing(error):
            raise refused(f"{self._topic}, partition {partition}, offset {offset}", error)

    def _check(self, ends: Offsets) -> None:
        """Raise an error if what is still to be read will never come."""
        self._topic.look()
        first, last = self._topic.earliest(ends), self._topic.latest(ends, committed=False)
        for partition in self._lags(ends):
            start, end = self._fetched[partition], ends[partition]
            wanted = f"{self._topic}, partition {partition}: offsets {start} to {end - 1} are to be read"
            if start < first[partition]:
                raise DataError(
                    f"{wanted}, and those before {first[partition]} were deleted; begin a new job, with "
                    "another folder for its state, and let the topic keep its messages for longer "
                    "(retention.ms)"
                )
            if end > last[partition]:
                raise DataError(
                    f"{wanted}, and it ends before {last[partition]}: messages were lost, or it is another "
                    "topic; begin a new job, with another folder for its state"
                )

    def _pause(self, ends: Offsets) -> None:
        """Let partitions wait that are far ahead while others are still to come."""
        most = self._topic.offsets_at_once
        far = [p for p, end in ends.items() if self._fetched[p] - end > most and p not in self._paused]
        if far:
            self._consumer.pause(self._partitions(far))
            self._paused += far

    def _resume(self) -> None:
        if self._paused:
            self._consumer.resume(self._partitions(self._paused))
            self._paused = []

    def _partitions(self, partitions: list[int]) -> list[Any]:
        return [confluent().TopicPartition(self._topic.name, partition) for partition in partitions]

    def _give(self, partition: int, end: int) -> list[Message]:
        """Give away what was fetched before an offset."""
        ahead = self._ahead[partition]
        count = bisect_left(ahead, end, key=_offset)
        given, self._ahead[partition] = ahead[:count], ahead[count:]
        self._given[partition] = min(self._fetched[partition], end)
        return given

    def _missing(self, ends: Offsets) -> str:
        partition = self._lags(ends)[0]
        return f"partition {partition}, offsets {self._fetched[partition]} to {ends[partition] - 1}"


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
