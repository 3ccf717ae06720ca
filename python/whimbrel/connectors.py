"""Sources and sinks of your own, for jobs that survive crashes.

A source that can be read again names what it has by *positions*, which are JSON values of its own choice: the
offset in a log, or one for each partition. A job keeps the positions between which each of its epochs lies,
and reads the same rows again after a crash. A sink keeps the number of the last epoch together with its rows,
so that it can say what it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from . import _whimbrel as native
from ._types import ArrowStream
from .rows import table_of_arrow
from .schema import Schema
from .table import Table

Position = Any
"""A JSON value that says how far a shard has been read; None is its beginning."""


class End(Enum):
    """What `SourceShard.advance` returns when nothing will come any more: `END`."""

    END = "end"


END = End.END


class SourceShard(Protocol):
    """
    One shard of a `ReplayableSource`, as one thread sees it.

    Positions are compared by their JSON: ``advance`` returns an equal one if there is nothing new.
    """

    def advance(self, position: Position) -> Position | End:
        """
        Look what has come behind a position, and do not wait for it.

        Parameters
        ----------
        position
            How far the shard has been read; None at its beginning.

        Returns
        -------
        JSON value or End
            How far it can be read now: about as much as memory holds well. `END` if nothing is there, and
            nothing will come any more.
        """
        ...

    def read(self, start: Position, end: Position) -> Iterable[ArrowStream]:
        """
        Read what lies between two positions, of which `advance` made the second from the first.

        Parameters
        ----------
        start, end
            The positions; a start of None is the beginning.

        Returns
        -------
        iterable of tables
            The rows, in batches; the same ones in the same order whenever this is called. Raise an error if
            they are gone or were changed.
        """
        ...


@runtime_checkable
class ReplayableSource(Protocol):
    """
    A source that can be read again: what `from_source` takes.

    Attributes
    ----------
    name
        What identifies it; a job whose source has another name than when it was begun is refused.
    schema
        The columns: a mapping of names to types, or any object with ``__arrow_c_schema__``.
    shards
        How many shards there are; each is read in order.
    """

    name: str
    schema: Any
    shards: int

    def open(self, shard: int) -> SourceShard:
        """
        Open a shard for one thread: one looks what has come, another reads it.

        Parameters
        ----------
        shard
            Its number, from 0 on.

        Returns
        -------
        SourceShard
            The shard; it is used by one thread at a time, not always by the one that opened it.
        """
        ...


@runtime_checkable
class JobSink(Protocol):
    """Takes the results of a job: what `ShardedStream.run_forever` takes as ``to``."""

    def open(self, job: str, generation: int, schema: Schema) -> int | None:
        """
        Take the sink over, so that runs of a lower generation cannot commit any more.

        Parameters
        ----------
        job
            What identifies the job.
        generation
            How often the job has been begun.
        schema
            The columns of the result.

        Returns
        -------
        int or None
            The last epoch that is committed; None if the job has committed nothing here.
        """
        ...

    def write(self, rows: Table) -> None:
        """Take rows of the epochs behind the last commit; nobody may see them yet."""
        ...

    def commit(self, epoch: int) -> None:
        """Commit all that was written, as the epochs up to this one: all of it or nothing."""
        ...


def sink_at(url: str) -> JobSink | None:
    """Open the sink of a URL; None if the engine itself has one for it."""
    if not url.startswith("kafka://"):
        return None
    from .kafka_topics import sink_of_url

    return sink_of_url(url)


class SinkAdapter:
    """A sink as the engine drives it: with tables and schemas of its own."""

    def __init__(self, sink: JobSink, called: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._open = called(sink.open)
        self._write = called(sink.write)
        self._commit = called(sink.commit)

    def open(self, job: str, generation: int, schema: native.Schema) -> int | None:
        """Take the sink over."""
        return self._open(job, generation, Schema(schema))

    def write(self, rows: native.Table) -> None:
        """Take rows."""
        self._write(Table(rows))

    def commit(self, epoch: int) -> None:
        """Commit what was written."""
        self._commit(epoch)


class ShardAdapter:
    """A shard as the engine drives it: positions and slices are bytes."""

    def __init__(self, shard: SourceShard) -> None:
        self._shard = shard
        self._position: Position = None
        self._has_ended = False

    def cut(self) -> bytes | bool:
        """Name the slice that comes next; False if there is nothing new, True if nothing will come."""
        if self._has_ended:
            return True
        end = self._shard.advance(self._position)
        if isinstance(end, End):
            self._has_ended = True
            return _dump([self._position])
        if _dump(end) == _dump(self._position):
            return False
        start, self._position = self._position, end
        return _dump([start, end])

    def position(self) -> bytes:
        """Say where the last slice ends."""
        return _dump([self._position, self._has_ended])

    def seek(self, position: bytes | None) -> None:
        """Go on behind a position."""
        self._position, self._has_ended = (None, False) if position is None else json.loads(position)

    def skip(self, cut: bytes) -> None:
        """Go on behind a slice that was cut before."""
        self._position = json.loads(cut)[-1]
        self._has_ended = len(json.loads(cut)) == 1

    def read(self, cut: bytes) -> Iterator[native.Table] | None:
        """Read a slice; None for the one that says that the shard has ended."""
        bounds = json.loads(cut)
        if len(bounds) == 1:
            return None
        return map(table_of_arrow, self._shard.read(*bounds))


def _dump(position: Position) -> bytes:
    return json.dumps(position, sort_keys=True, separators=(",", ":")).encode()
