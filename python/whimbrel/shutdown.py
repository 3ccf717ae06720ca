"""Queries in the background when Python exits, and when the process is forked.

At exit, a query whose sources have ended is waited for. Any other is reported by a warning, and its rows that
are not final yet are lost. A live source has ended once `close()` was called; one that an interrupt or an
exception dropped has not. After that, no thread of the engine calls Python any more.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import warnings
import weakref

from . import _whimbrel as native
from . import feeds
from .call_site import call_site

_jobs: weakref.WeakSet[native.DurableJob] = weakref.WeakSet()
_running: dict[native.Job, tuple[native.Plan, tuple[str, int]]] = {}


def remember(plan: native.Plan, job: native.Job) -> None:
    """Remember a query that runs in the background, and the line that started it."""
    for ended in [job for job in _running if job.done()]:
        forget(ended)
    _running[job] = plan, call_site()


def forget(job: native.Job) -> None:
    """Forget a query that has ended or was stopped."""
    _running.pop(job, None)


def remember_job(job: native.DurableJob) -> None:
    """Remember a job that survives the process."""
    _jobs.add(job)


def _at_exit() -> None:
    try:
        for durable in list(_jobs):
            _stop(durable)
        for job, (plan, site) in list(_running.items()):
            _end(job, plan, site)
    finally:
        # Threads of the engine have to leave Python before it exits.
        native.leave()


def _end(job: native.Job, plan: native.Plan, site: tuple[str, int]) -> None:
    """Wait for the end of a query whose sources end; warn of any other."""
    if not job.done() and not native.will_end(plan):
        message = (
            f"a subscription is still running as Python ends: what comes after {job.rows_out():,} rows is "
            "lost. Close its sources and call wait(), or call stop(), before the program ends"
        )
        warnings.warn_explicit(message, UserWarning, *site)
        return
    try:
        job.wait(None, None)
    except Exception as error:
        warnings.warn_explicit(f"a subscription failed as Python ended: {error}", UserWarning, *site)


def _stop(job: native.DurableJob) -> None:
    """Stop a job, which goes on when it is begun again."""
    job.cancel()
    with contextlib.suppress(Exception):
        job.wait(10, None)


def _in_child() -> None:
    """Forget the queries of the parent process."""
    native.forked()
    _jobs.clear()
    _running.clear()
    feeds.forget_readers()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
