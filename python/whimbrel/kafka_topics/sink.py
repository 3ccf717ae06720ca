"""
A topic of Kafka as the sink of a job.

Invariants:

- The rows of a commit and a record of progress are one transaction. The record says job, generation and
  epoch, and is kept in a topic beside that of the rows, which keeps the last one of each job.
- A run first looks whether a later one is there, then takes the producer's name over, which aborts what
  another run has not committed, and only then reads what is committed. It writes its generation at once, so
  that a run that it has replaced learns of it whatever becomes of its own commits.
- Whether a commit went through that gave no answer, the record says.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import DataError, InternalError, InvalidError, UnavailableError, WhimbrelError
from ..schema import Schema
from ..table import Table
from .client import FIRST_PATIENCE, PATIENCE, Topic, confluent, create_compacted, patiently, refused, settings
from .formats import Encoder
from .reader import Reader

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

_PAUSE = 0.1
_PROGRESS = "-whimbrel-progress"


@dataclass(frozen=True, order=True)
class Progress:
    """What a run of a job has committed; epoch 0 if nothing yet."""

    generation: int
    epoch: int
    rows: int

    def to_json(self) -> bytes:
        """Write the value of a record."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def of_json(value: bytes) -> Progress:
        """Read the value of a record."""
        return Progress(**json.loads(value))


_NOTHING = Progress(generation=0, epoch=0, rows=0)


class KafkaSink:
    """
    A topic of Kafka that takes the results of a job: each once, for readers with ``read_committed``.

    Every commit is a transaction. How far a job has come is kept in a topic beside it, with the name of the
    topic and ``-whimbrel-progress``; it is made if it is not there, and compacted.

    Parameters
    ----------
    brokers
        Where brokers are: ``"host:port,host:port"``.
    topic
        The topic, which has to be there.
    format
        ``"json"``: a message is a row, as an object. ``"arrow"``: a message is an Arrow IPC stream with many
        rows.
    key
        The column that is the key of a message of JSON: a string, binary or an integer. By default messages
        have none.
    config
        Settings of the client, such as ``security.protocol``, ``sasl.password`` and
        ``transaction.timeout.ms``.

    Raises
    ------
    InvalidError
        If an argument is wrong, or confluent-kafka is not installed.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = wb.kafka("clicks", brokers="localhost:9092", schema={"item": "string"})  # doctest: +SKIP
    >>> sink = KafkaSink("localhost:9092", "items", key="item")  # doctest: +SKIP
    >>> job = clicks.run_forever(sink, checkpoint="state")  # doctest: +SKIP
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        *,
        format: Literal["json", "arrow"] = "json",
        key: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        confluent()
        self._brokers = brokers
        self._topic = topic
        self._encoder = Encoder(format, key)
        self._config = {"transaction.timeout.ms": 30_000, **(config or {})}
        # Checked now, and not when the job has computed its first result.
        self._settings("")
        self._job = ""
        self._generation = 0
        self._producer: Producer | None = None
        self._in_transaction = False
        self._rows = 0

    def open(self, job: str, generation: int, schema: Schema) -> int | None:
        """Take the topic over, and say which epoch was committed last."""
        self._encoder.check(dict(schema))
        self._job, self._generation = job, generation
        Topic(self._topic, self._brokers, self._config, FIRST_PATIENCE)
        create_compacted(self._topic + _PROGRESS, self._brokers, self._config)
        progress = self._take_over()
        self.commit(progress.epoch)
        return progress.epoch or None

    def write(self, rows: Table) -> None:
        """Take rows; readers with ``read_committed`` see them once they are committed."""
        try:
            self._begin()
            for key, value in self._encoder.encode(rows):
                self._produce(self._topic, key, value)
        except confluent().KafkaException as raised:
            self._take_over()
            raise self._failed(raised.args[0]) from raised
        self._rows += len(rows)

    def commit(self, epoch: int) -> None:
        """Commit what was written, as the epochs up to this one."""
        try:
            self._begin()
            self._write_progress(epoch)
            self._commit_transaction()
        except confluent().KafkaException as raised:
            progress = self._take_over()
            if (progress.generation, progress.epoch) != (self._generation, epoch):
                raise self._failed(raised.args[0]) from raised

    def _take_over(self) -> Progress:
        """Abort what is not committed, and read what is."""
        self._drop()
        # Asked before as well: a run that was replaced leaves the later one alone.
        self._refuse_later(self._read_progress(committed=True))
        producer = confluent().Producer(self._settings(self._job))
        patiently(f'producer for topic "{self._topic}" at {self._brokers}', producer.init_transactions)
        self._producer = producer
        # To the very end: behind an open transaction of another job there may be records of this one.
        progress = self._read_progress(committed=False)
        self._refuse_later(progress)
        return progress

    def _read_progress(self, *, committed: bool) -> Progress:
        """Read what runs have committed last: up to the first open transaction, or to the very end."""
        topic = Topic(self._topic + _PROGRESS, self._brokers, self._config)
        starts, ends = topic.earliest(topic.partitions), topic.latest(topic.partitions, committed=committed)
        reader = Reader(topic, self._config)
        messages = chain.from_iterable(reader.read(starts, ends))
        values = [message.value() for message in messages if message.key() == self._job.encode()]
        reader.close()
        return max((Progress.of_json(value) for value in values if value is not None), default=_NOTHING)

    def _refuse_later(self, progress: Progress) -> None:
        if progress.generation > self._generation:
            raise DataError(
                f'topic "{self._topic}": another process goes on with this job; run {self._generation} of it '
                f"stops, as there is run {progress.generation}"
            )

    def _settings(self, job: str) -> dict[str, Any]:
        name = f"whimbrel/{job}/{self._topic}"
        return settings(
            self._brokers, self._config, transactional_id=name, enable_idempotence=True, acks="all"
        )

    def _begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if self._producer is None:
            raise InternalError("a sink is used before it is open")
        if not self._in_transaction:
            self._producer.begin_transaction()
            self._in_transaction = True

    def _produce(self, topic: str, key: bytes | None, value: bytes) -> None:
        assert self._producer is not None
        while True:
            try:
                return self._producer.produce(topic, value, key)
            except BufferError:
                self._producer.poll(_PAUSE)

    def _write_progress(self, epoch: int) -> None:
        record = Progress(self._generation, epoch, self._rows)
        self._produce(self._topic + _PROGRESS, self._job.encode(), record.to_json())

    def _commit_transaction(self) -> None:
        """Commit; again while the client says that this is right."""
        assert self._producer is not None
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._producer.commit_transaction(PATIENCE)
                break
            except confluent().KafkaException as raised:
                if not raised.args[0].retriable() or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)
        self._in_transaction, self._rows = False, 0

    def _failed(self, error: KafkaError) -> WhimbrelError:
        """Make the error of a transaction that was not committed."""
        what = f'topic "{self._topic}" at {self._brokers}: the rows since the last commit were not written'
        if error.name() == "MSG_SIZE_TOO_LARGE":
            return DataError(f"{what}: {error.str()}; raise message.max.bytes in config= and for the topic")
        if "AUTH" in error.name():
            return refused(what, error)
        return UnavailableError(f"{what}: {error.str()}; begin the job again, it goes on from its checkpoint")

    def _drop(self) -> None:
        """Let go of the producer, and of what it has not sent."""
        if self._producer is not None:
            self._producer.purge()
        self._producer, self._in_transaction, self._rows = None, False, 0


def sink_of_url(url: str) -> KafkaSink:
    """
    Make the sink of an address, ``kafka://host:port,host:port/topic?key=column&format=json``.

    Raises
    ------
    InvalidError
        If it names no brokers or topic, has another option, or a password.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InvalidError(
            "the address of a topic holds no user or password; make a KafkaSink, and give them as config="
            '{"sasl.username": …, "sasl.password": …}'
        )
    topic = unquote(parts.path.removeprefix("/"))
    if not parts.netloc or not topic or "/" in topic or parts.fragment:
        raise InvalidError(f"{url} names no topic; write kafka://host:port/topic")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options: dict[str, Any] = dict(pairs)
    for name, _ in pairs:
        if name not in ("key", "format"):
            raise InvalidError(f'{url}: there is no option "{name}"; there are key and format')
    if len(options) < len(pairs):
        raise InvalidError(f"{url}: an option is given twice")
    return KafkaSink(parts.netloc, topic, **options)
