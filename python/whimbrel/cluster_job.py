"""Jobs of a cluster: queries that go on when their client is gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from . import _whimbrel as native
from .activity import Activity, operators_of
from .table import Table


@dataclass(frozen=True)
class Stage:
    """
    How far a stage of a job is.

    Attributes
    ----------
    channels
        How many channels it has.
    ended
        How many of them have ended.
    rows
        How many rows they have taken.
    """

    channels: int
    ended: int
    rows: int


@dataclass(frozen=True)
class JobStatistics:
    """
    What the channels of a job have done (Quokka, §III).

    Attributes
    ----------
    rows
        How many rows the channels have taken, each counted once in every channel that took it.
    replayed_rows
        How many of these had been taken before, by a run that was lost with its worker.
    tasks
        How many steps of channels have handed out something.
    replayed_tasks
        How many of these had been done before.
    failures
        How many workers were lost while they ran a channel.
    lineage_bytes
        How many bytes of the control store recovery stands on: the plan, where channels run, what they chose.
    moved_bytes
        How many bytes went from one worker to another.
    spilled_bytes
        How many bytes of messages were written to disks, as they did not fit into memory.
    late_rows
        How many rows came too late and were dropped.
    activity
        What the operators of the channels do that run now, and why nothing comes out. Its workers are asked;
        one that does not answer is left out.
    """

    rows: int
    replayed_rows: int
    tasks: int
    replayed_tasks: int
    failures: int
    lineage_bytes: int
    moved_bytes: int
    spilled_bytes: int
    late_rows: int
    activity: Activity


@dataclass(frozen=True)
class Run:
    """
    One run of a channel.

    Attributes
    ----------
    stage, channel
        Which channel of which stage.
    attempt
        How often the channel was begun before.
    worker
        The name of the worker.
    began
        When it began.
    seen
        When it was heard of last: its end, or shortly before it was lost.
    ended
        Whether it came to its end.
    rows
        How many rows it took.
    """

    stage: int
    channel: int
    attempt: int
    worker: str
    began: datetime
    seen: datetime
    ended: bool
    rows: int


class ClusterJob:
    """
    A query that runs on a cluster, whoever waits for it: the result of `ShardedStream.submit`.

    Any process that knows its `id` has the same job with ``wb.cluster.connect(address).job(id)``.
    """

    def __init__(self, job: native.ClusterJob) -> None:
        self._native = job

    @property
    def id(self) -> str:
        """The name of the job in its cluster."""
        return self._native.name()

    @property
    def status(self) -> Literal["running", "ended", "failed"]:
        """What has become of the job."""
        return self._native.status()[0]

    @property
    def error(self) -> Exception | None:
        """Why the job has failed, if it has."""
        return self._native.status()[1]

    @property
    def progress(self) -> list[Stage]:
        """How far each stage is, producers first."""
        return [Stage(*stage) for stage in self._native.progress()]

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait for the end of the job.

        Parameters
        ----------
        timeout
            For how many seconds at most.

        Returns
        -------
        bool
            Whether the job has ended.

        Raises
        ------
        WhimbrelError
            If the job has failed; the error is the one that one process gives.
        """
        return self._native.wait(timeout)

    def result(self) -> Table:
        """
        Wait for the result, and fetch it. It stays with the job.

        Returns
        -------
        Table
            As `ShardedStream.collect` gives it.

        Raises
        ------
        WhimbrelError
            If the job has failed; the error is the one that one process gives.
        DataError
            If the job is gone: it was cancelled, or its time is over.
        """
        # To run its plan on the job is to fetch its result.
        options = native.Options("local", 80_000, False, self._native)
        return Table(native.collect(self._native.plan(), options, None))

    def stats(self) -> JobStatistics:
        """
        Say what the channels have done so far, and what had to be done again.

        Returns
        -------
        JobStatistics
            Sums over all channels. What runs is counted about every second.
        """
        read, out, late, operators = self._native.activity()
        done = self.status != "running"
        activity = Activity(read, out, late, done, operators_of(operators))
        return JobStatistics(**self._native.statistics(), activity=activity)

    def timeline(self) -> list[Run]:
        """
        Say where and when the channels ran.

        Returns
        -------
        list of Run
            Each run of each channel.
        """

        def moment(milliseconds: int) -> datetime:
            return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)

        return [
            Run(stage, channel, attempt, worker, moment(began), moment(seen), ended, rows)
            for stage, channel, attempt, worker, began, seen, ended, rows in self._native.timeline()
        ]

    def cancel(self) -> None:
        """Stop the job if it runs, and remove it with its result."""
        self._native.cancel()

    def __repr__(self) -> str:
        return f"ClusterJob({self.id!r})"
