"""Iterables that feed live sources while a query runs.

A feed belongs to one live source and is started by the first query that reads the source. It pushes on a
thread of its own. An error of its iterable is raised where the query is waited for.
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


class _IterableError(Exception):
    """An error of the iterable, as the cause; others are errors of pushing."""


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
            for item in self._iterate():
                self._push(item)
            if not self._stopped:
                self._close()
        except _IterableError as failure:
            self.error = DataError(f"the iterable behind a live source failed: {failure.__cause__!r}")
            self.error.__cause__ = failure.__cause__
        except DataError:
            # Every query that read the source has ended; one that failed raises its own error.
            return
        except BaseException as error:
            self.error = error

    def _iterate(self) -> Iterator[Any]:
        """Yield the items; wrap an error of the iterable."""
        items = iter(self._items)
        while not self._stopped:
            try:
                item = next(items)
            except StopIteration:
                return
            except BaseException as error:
                raise _IterableError from error
            yield item

    def stop(self) -> None:
        """Push nothing more."""
        self._stopped = True


def register(source: int, feed: Feed) -> None:
    """Let the first query that reads this live source start the feed."""
    _waiting[source] = feed


def start(plan: native.Plan) -> list[Feed]:
    """Start the feeds of a plan's live sources that have not been started yet."""
    waiting = (_waiting.pop(source, None) for source in native.live_sources(plan))
    feeds = [feed for feed in waiting if feed is not None]
    for feed in feeds:
        feed.start()
    return feeds


def add_reader(plan: native.Plan, job: native.Job) -> None:
    """Remember that a job reads the live sources of its plan."""
    for source in native.live_sources(plan):
        _readers.setdefault(source, weakref.WeakSet()).add(job)


def raise_failure(source: int) -> None:
    """Raise the error of a job that read this live source, if one has failed."""
    for job in _readers.get(source, ()):
        if job.done():
            job.wait(0, None)


def forget_readers() -> None:
    """Forget the readers, which run in the parent process of this fork."""
    _readers.clear()


def check(feeds: list[Feed]) -> None:
    """Raise the error of a feed, if one has failed."""
    for feed in feeds:
        if feed.error is not None:
            raise feed.error


@contextlib.contextmanager
def running(plan: native.Plan) -> Iterator[Callable[[], None] | None]:
    """Feed a plan's live sources during a query; yield the function that the query polls for errors."""
    feeds = start(plan)
    try:
        yield (lambda: check(feeds)) if feeds else None
    finally:
        for feed in feeds:
            feed.stop()
