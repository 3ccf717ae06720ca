"""What the source and the sink share: the client's settings and errors, and a topic as it is now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import DataError, InvalidError, UnavailableError, WhimbrelError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

T = TypeVar("T")

Offsets = dict[int, int]
"""An offset for each partition."""

PATIENCE = 60.0
"""For how many seconds brokers that do not answer are asked again."""

FIRST_PATIENCE = 10.0
"""The same for the first question: if nobody answers it, most likely the address is wrong."""

# For how many seconds a topic that was just created, or whose broker was just started, may be unknown.
_UNKNOWN = 3.0
_PAUSE = 0.1
_REQUEST_TIMEOUT = 10.0
_REFRESH = 5.0
# For how many seconds the ends of partitions are good enough for whoever asks next.
_SHARED = 0.02
# About how much of a topic is held in memory at once, and how large an offset is before one was seen.
_OFFSETS = 100_000
_BYTES = 64 << 20
_UNSEEN_BYTES = 64 << 10
# The topic id that brokers give who know none.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

# What the client prints past Python is about what is tried again, and else is in an error.
_DEFAULTS = {"log_level": 2, "reconnect.backoff.max.ms": 1000}

# What passes while a broker starts, or another one takes its partitions over.
_PASSING = {
    "_ALL_BROKERS_DOWN",
    "_NOENT",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TRANSPORT",
    "_WAIT_COORD",
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_LEADER_EPOCH",
}


def confluent(module: str = "confluent_kafka") -> Any:
    """Import the client, which not every installation has."""
    return _import(module)


def pyarrow() -> Any:
    """Import pyarrow, which all formats but plain JSON take."""
    return _import("pyarrow")


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise InvalidError(f"{module} is not installed: pip install whimbrel[kafka]") from None


def settings(brokers: str, config: dict[str, Any] | None, **own: Any) -> dict[str, Any]:
    """
    Put together the settings of a client.

    ``own`` has those that a user may not change, with ``_`` for the dots of their names.
    """
    fixed = {"bootstrap.servers": brokers} | {name.replace("_", "."): value for name, value in own.items()}
    for name in config or {}:
        if name in fixed:
            raise InvalidError(f'config: "{name}" is what each result once depends on; leave it out')
    return _DEFAULTS | (config or {}) | fixed


def is_passing(error: KafkaError) -> bool:
    """Tell whether the same call may succeed after a moment."""
    return error.retriable() or error.name() in _PASSING


def refused(what: str, error: KafkaError) -> WhimbrelError:
    """Make the error of a call that the brokers refused for good."""
    if error.name() == "UNKNOWN_TOPIC_OR_PART":
        return DataError(f"{what}: it does not exist; create it, or mend its name")
    if "AUTH" in error.name():
        return InvalidError(f"{what}: {error.str()}; change config=, or what the brokers permit")
    return DataError(f"{what}: {error.str()} ({error.name()})")


def patiently(
    what: str,
    call: Callable[[], T],
    patience: float = PATIENCE,
    reason: Callable[[KafkaError], str] = lambda error: error.str(),
) -> T:
    """Make a call that brokers may refuse for a while; again until it succeeds or patience ends."""
    begun = time.monotonic()
    while True:
        try:
            return call()
        except confluent().KafkaException as raised:
            error = raised.args[0]
        waited = time.monotonic() - begun
        is_new = error.name() == "UNKNOWN_TOPIC_OR_PART" and waited < _UNKNOWN
        if not is_new and not is_passing(error):
            raise refused(what, error)
        if waited > patience:
            raise UnavailableError(f"{what}: {reason(error)}; begin again once the brokers answer")
        time.sleep(_PAUSE)


class Topic:
    """
    A topic as the brokers know it now.

    Several threads may use it. A topic that is deleted and created again under its name is another one: its
    offsets mean other messages.
    """

    def __init__(
        self, name: str, brokers: str, config: dict[str, Any] | None, patience: float = PATIENCE
    ) -> None:
        self.name = name
        self.brokers = brokers
        self._trouble = ""
        admin = confluent("confluent_kafka.admin")
        self._admin = admin.AdminClient({"error_cb": self._hear} | settings(brokers, config))
        self.offsets_at_once = _BYTES // _UNSEEN_BYTES
        self.identity, self.partitions = self._ask(self._describe, patience)
        self._looked = time.monotonic()
        self._ends: Offsets = {}
        self._asked = 0.0

    def __str__(self) -> str:
        return f'topic "{self.name}" at {self.brokers}'

    def look(self) -> None:
        """Look which partitions there are now, and that the topic is still the same."""
        identity, partitions = self._ask(self._describe)
        if identity != self.identity:
            raise DataError(
                f"{self} was deleted and created again: its messages are others than those that were read so "
                "far; begin a new job, with another folder for its state"
            )
        self.partitions, self._looked = partitions, time.monotonic()

    def is_stale(self) -> bool:
        """Tell whether nobody has looked for some seconds."""
        return time.monotonic() - self._looked > _REFRESH

    def learn_size(self, size: int, offsets: int) -> None:
        """Learn how many bytes so many offsets had."""
        if offsets > 0:
            self.offsets_at_once = max(1, min(_OFFSETS, _BYTES * offsets // max(1, size)))

    def ends(self) -> Offsets:
        """Find the ends of all partitions, of what is committed; shards that ask at once share an answer."""
        if time.monotonic() - self._asked > _SHARED:
            self._ends = self.latest(self.partitions)
            self._asked = time.monotonic()
        return self._ends

    def earliest(self, partitions: Iterable[int]) -> Offsets:
        """Find the offsets of the first messages that are there."""
        return self._offsets(partitions, confluent("confluent_kafka.admin").OffsetSpec.earliest())

    def latest(self, partitions: Iterable[int], *, committed: bool = True) -> Offsets:
        """Find the offsets behind the last messages: those that are committed, or all."""
        return self._offsets(partitions, confluent("confluent_kafka.admin").OffsetSpec.latest(), committed)

    def since(self, partitions: Iterable[int], milliseconds: int) -> Offsets:
        """Find the first offsets whose time is not before this one; the end where there is none."""
        spec = confluent("confluent_kafka.admin").OffsetSpec.for_timestamp(milliseconds)
        ends = self.latest(partitions)
        found = self._offsets(ends, spec)
        return {
            partition: ends[partition] if found[partition] < 0 else found[partition] for partition in ends
        }

    def _offsets(self, partitions: Iterable[int], spec: Any, committed: bool = True) -> Offsets:
        """Ask for one offset of each partition: one request for each broker."""
        client = confluent()
        level = client.IsolationLevel.READ_COMMITTED if committed else client.IsolationLevel.READ_UNCOMMITTED
        wanted = {client.TopicPartition(self.name, partition): spec for partition in partitions}
        if not wanted:
            return {}

        def ask() -> Offsets:
            answers = self._admin.list_offsets(
                wanted, isolation_level=level, request_timeout=_REQUEST_TIMEOUT
            )
            try:
                offsets = {asked.partition: answer.result().offset for asked, answer in answers.items()}
            except client.KafkaException:
                # The client goes on with the leaders that it once knew, unless it is told to look.
                error = self._admin.list_topics(self.name, _REQUEST_TIMEOUT).topics[self.name].error
                if error is not None:
                    raise client.KafkaException(error) from None
                raise
            # A connection that breaks may give neither an error nor an offset.
            if client.OFFSET_INVALID in offsets.values():
                raise client.KafkaException(client.KafkaError(client.KafkaError._TRANSPORT))
            return offsets

        return self._ask(ask)

    def _ask(self, call: Callable[[], T], patience: float = PATIENCE) -> T:
        return patiently(str(self), call, patience, self._reason)

    def _hear(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":
            self._trouble = error.str()

    def _reason(self, error: KafkaError) -> str:
        """Say why brokers do not answer; the error of a call tells only that it took too long."""
        self._admin.poll(0)
        return self._trouble or error.str()

    def _describe(self) -> tuple[str, list[int]]:
        """Ask for what identifies the topic, and its partitions."""
        names = confluent().TopicCollection([self.name])
        answers = self._admin.describe_topics(names, request_timeout=_REQUEST_TIMEOUT)
        description = answers[self.name].result()
        identity = str(description.topic_id)
        if identity == _NO_ID:
            identity = _result(self._admin.describe_cluster(request_timeout=_REQUEST_TIMEOUT)).cluster_id
        return identity, sorted(partition.id for partition in description.partitions)


def _result(answer: Future[T]) -> T:
    return answer.result()


def create_compacted(name: str, brokers: str, config: dict[str, Any] | None) -> None:
    """Create a topic that keeps the last message of each key, unless it is there."""
    admin = confluent("confluent_kafka.admin")
    client = admin.AdminClient(settings(brokers, config))
    # The last segment is never compacted, and each start of a job reads it.
    kept = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
    topic = admin.NewTopic(name, num_partitions=1, replication_factor=-1, config=kept)

    def create() -> None:
        try:
            client.create_topics([topic], request_timeout=_REQUEST_TIMEOUT)[name].result()
        except confluent().KafkaException as raised:
            if raised.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    patiently(f'topic "{name}" at {brokers}', create)
