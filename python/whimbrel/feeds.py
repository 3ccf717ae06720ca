"""Iterables that feed live sources while a query runs.

A feed is bound to one live source and started by the first query that reads the source. It pushes on a thread
of its own; what its iterable raises is raised to whoever waits for the query.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _whimbrel as native
from .errors import DataError

_waiting: dict[int, Feed] = {}
_readers: dict[int, weakref.WeakSet[native.Job]] = {}


class _Failed(Exception):
    """The iterable has raised its cause."""


class Feed(threading.Thread):
    """Pushes what an iterable yields into a live source."""

    def __init__(self, items: Iterable[Any], push: Callable[[Any], None], close: Callable[[], None]) -> None:
        super().__init__(name="whimbrel-feed", daemon=True)
        self._items = items
        self._push = push
        self._close = close
        self._stopped = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Push until the iterable ends, fails, or nobody reads any more."""
        try:
            for item in self._each():
                self._push(item)
            if not self._stopped:
                self._close()
        except _Failed as failure:
            self.error = DataError(f"the iterable behind a live source failed: {failure.__cause__!r}")
            self.error.__cause__ = failure.__cause__
        except DataError:
            # Every query that read the source is over; if one has failed, it is the one to say so.
            return
        except BaseException as error:
            self.error = error

    def _each(self) -> Iterator[Any]:
        """Yield the items; what the iterable raises is told from what pushing raises."""
        items = iter(self._items)
        while not self._stopped:
            try:
                item = next(items)
            except StopIteration:
                return
            except BaseException as error:
                raise _Failed from error
            yield item

    def stop(self) -> None:
        """Push nothing more."""
        self._stopped = True


def register(source: int, feed: Feed) -> None:
    """Let the first query that reads this live source start the feed."""
    _waiting[source] = feed


def start(plan: native.Plan) -> list[Feed]:
    """Start the feeds of a plan's live sources that have not been started yet."""
    found = (_waiting.pop(source, None) for source in native.live_sources(plan))
    feeds = [feed for feed in found if feed is not None]
    for feed in feeds:
        feed.start()
    return feeds


def reads(plan: native.Plan, job: native.Job) -> None:
    """Remember that a job reads the live sources of its plan."""
    for source in native.live_sources(plan):
        _readers.setdefault(source, weakref.WeakSet()).add(job)


def raise_failure(source: int) -> None:
    """Raise why a job that read this live source has failed, if one has."""
    for job in _readers.get(source, ()):
        if job.done():
            job.wait(0, None)


def forget() -> None:
    """Forget the readers, which are in the process that this one is a fork of."""
    _readers.clear()


def check(feeds: list[Feed]) -> None:
    """Raise what an iterable has raised."""
    for feed in feeds:
        if feed.error is not None:
            raise feed.error


@contextlib.contextmanager
def running(plan: native.Plan) -> Iterator[Callable[[], None] | None]:
    """Feed a plan's live sources during a query; give what the query has to call now and then."""
    feeds = start(plan)
    try:
        yield (lambda: check(feeds)) if feeds else None
    finally:
        for feed in feeds:
            feed.stop()
