"""Queries in the background when Python ends, and when the process is forked.

A query that will end by itself, because its sources end, is waited for. One that would not is named in a
warning: what it has not handed out yet is lost. After that no thread of the engine calls Python any more.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings

from . import _whimbrel as native
from . import feeds

_PACKAGE = os.path.dirname(__file__)
_running: dict[native.Job, tuple[native.Plan, tuple[str, int]]] = {}


def remember(plan: native.Plan, job: native.Job) -> None:
    """Remember a query that runs in the background, and who began it."""
    for each in [each for each in _running if each.done()]:
        forget(each)
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    _running[job] = plan, (frame.f_code.co_filename, frame.f_lineno)


def forget(job: native.Job) -> None:
    """Forget a query that has ended, or was stopped."""
    _running.pop(job, None)


def _at_exit() -> None:
    try:
        for job, (plan, site) in list(_running.items()):
            _end(job, plan, site)
    finally:
        # Threads of the engine that call Python are to be out of it before it ends.
        native.leave()


def _end(job: native.Job, plan: native.Plan, site: tuple[str, int]) -> None:
    """Wait for the end of a query, if it will come."""
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


def _in_child() -> None:
    """Forget what runs in the process that this one is a fork of."""
    native.forked()
    _running.clear()
    feeds.forget()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
