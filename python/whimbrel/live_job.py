"""Live jobs of a cluster: queries that run for ever, and survive their hosts and their clients."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from . import _whimbrel as native
from .activity import Activity, operators_of


@dataclass(frozen=True)
class LiveProgress:
    """
    How far a live job is, as its host has said about every second.

    Attributes
    ----------
    restored_from
        The epoch of the checkpoint that its host went on from; None if that began at the beginning.
    epoch
        The last epoch that was read.
    committed
        The last epoch whose results are in the sink.
    checkpointed_at
        When its host has written a checkpoint last, in UTC.
    """

    restored_from: int | None
    epoch: int
    committed: int
    checkpointed_at: datetime | None


class LiveJob:
    """
    A job that a worker of a cluster hosts: the result of `ShardedStream.run_forever` with ``on=cluster``.

    Any process that knows its `id` has the same job with ``wb.cluster.connect(address).live_job(id)``.
    """

    def __init__(self, job: native.LiveJob) -> None:
        self._native = job

    @property
    def id(self) -> str:
        """The name of the job in its cluster."""
        return self._native.name()

    @property
    def status(self) -> Literal["running", "stopping", "stopped", "ended", "failed"]:
        """What has become of the job. One that no worker can host for the moment is running, too."""
        return self._native.status()[0]

    @property
    def error(self) -> Exception | None:
        """Why the job has failed; of a running one, what it lacks while it waits for memory or disk."""
        return self._native.status()[1]

    @property
    def worker(self) -> str | None:
        """The name of the worker that hosts it, or was its host last; None before there was one."""
        return self._native.host()[0]

    @property
    def workers(self) -> list[str]:
        """The names of the workers that run its plan, or ran it last; its host comes first."""
        return self._native.workers()

    @property
    def attempt(self) -> int:
        """How often it was begun, first and whenever a worker was lost; 0 before the first time."""
        return self._native.host()[1]

    @property
    def progress(self) -> LiveProgress | None:
        """How far it is; None before its first host has said so."""
        found = self._native.progress()
        if found is None:
            return None
        restored_from, epoch, committed, written = found
        when = None if written is None else datetime.fromtimestamp(written / 1000, timezone.utc)
        return LiveProgress(restored_from, epoch, committed, when)

    def stats(self) -> Activity:
        """
        Say what the job has done since it was begun last, operator by operator, and why nothing comes out.

        Its workers are asked. One that does not answer is left out: it is gone, or will be heard of again.

        Returns
        -------
        Activity
            As `Subscription.stats` gives it for a query of this process.
        """
        read, out, late, operators = self._native.activity()
        done = self.status not in ("running", "stopping")
        return Activity(read, out, late, done, operators_of(operators))

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the job is over: its sources have ended, or it was stopped.

        Parameters
        ----------
        timeout
            For how many seconds at most.

        Returns
        -------
        bool
            Whether the job is over.

        Raises
        ------
        WhimbrelError
            If the job has failed; the error is the one that one process gives.
        """
        return self._native.wait(timeout)

    def stop(self) -> None:
        """
        Ask for the job to be stopped; `wait` waits until it is.

        Its state stays: the same call of `ShardedStream.run_forever` goes on with it.
        """
        self._native.stop()

    def remove(self) -> None:
        """
        Remove a job that is over from its cluster; its results and its state stay.

        Raises
        ------
        DataError
            If it runs.
        """
        self._native.remove()

    def __repr__(self) -> str:
        return f"LiveJob({self.id!r})"
