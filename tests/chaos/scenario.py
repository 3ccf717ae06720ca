"""
A scenario: a job runs, a fault hits it at a point of its life, and nobody can tell from the answer.

What every scenario asserts is here: that the fault has hit, that the answer is that of one process, and that
no more was done again than what was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field

from cases import Case, in_order
from chaos_cluster import ChaosCluster
from extent import Schedule
from waiting import LIMIT, until

import whimbrel as wb

# The points of a job's life at which faults hit it, by names.
POINTS = ("placed", "reading", "one_channel_ended", "one_stage_ended", "ended")


@dataclass
class Scenario:
    """
    A job that is to be harmed.

    Attributes
    ----------
    cluster
        Where it runs.
    case
        What it computes.
    job
        The job.
    victims
        The workers that were lost.
    """

    cluster: ChaosCluster
    case: Case
    job: wb.cluster.ClusterJob
    victims: list[wb.cluster.Worker] = field(default_factory=list)

    @staticmethod
    def begin(
        cluster: ChaosCluster,
        case: Case,
        *,
        at: str = "reading",
        on: wb.cluster.Cluster | None = None,
        schedule: Schedule | None = None,
    ) -> Scenario:
        """
        Submit a job, and wait until it is at a point of its life.

        Parameters
        ----------
        cluster
            Where it runs.
        case
            What it computes.
        at
            One of `POINTS`.
        on
            A virtual cluster, if it is to run there.
        schedule
            Its schedule; by default that of the cluster.

        Returns
        -------
        Scenario
            The scenario.
        """
        on = cluster if on is None else on
        assert len(case.answer) > 0
        stream = case.plan(on)
        job = stream.submit(on=on.scheduled(**(schedule or {})))
        scenario = Scenario(cluster, case, job)
        if at != "placed":
            until(f"{case.name} at the point {at!r}", lambda: scenario.is_at(at))
        return scenario

    def is_at(self, point: str) -> bool:
        """Say whether the job is at a point, or behind it."""
        status, error = self.job.status, self.job.error
        if error is not None:
            raise error
        if point == "ended" or status == "ended":
            return status == "ended"
        stages = self.job.progress
        return {
            "reading": any(not run.ended and run.rows > 0 for run in self.job.timeline()),
            "one_channel_ended": any(stage.ended > 0 for stage in stages),
            "one_stage_ended": any(stage.ended == stage.channels for stage in stages),
        }[point]

    def busy(self, workers: int = 1) -> list[wb.cluster.Worker]:
        """
        Find the workers that have most to lose.

        Parameters
        ----------
        workers
            How many.

        Returns
        -------
        list of Worker
            Those on which channels have taken most rows.
        """
        taken = dict.fromkeys((worker.name for worker in self.cluster.workers), 0)
        for run in self.job.timeline():
            if run.worker in taken:
                taken[run.worker] += run.rows
        return sorted(self.cluster.workers, key=lambda worker: -taken[worker.name])[:workers]

    def kill(self, *workers: wb.cluster.Worker) -> None:
        """Kill workers, all at once."""
        for worker in workers:
            self.victims.append(worker)
            self.cluster.kill(worker)

    def hang(self, *workers: wb.cluster.Worker) -> None:
        """Stop workers, all at once, for so long that they are declared dead."""
        for worker in workers:
            self.victims.append(worker)
            self.cluster.hang(worker)

    def replaced(self) -> list[wb.cluster.Run]:
        """List the runs of channels that had been begun before."""
        return [run for run in self.job.timeline() if run.attempt > 0]

    def is_recovering(self) -> bool:
        """Say whether a channel that was lost has begun again, and has not ended yet."""
        with contextlib.suppress(wb.DataError):
            return any(not run.ended for run in self.replaced())
        return False

    def check_answer(self, seconds: float = LIMIT) -> None:
        """Assert that the job ends, with the answer of one process."""
        assert self.job.wait(seconds), f"{self.case.name} hangs: {self.job.progress}, {self.job.timeline()}"
        assert in_order(self.job.result().to_polars()).equals(self.case.answer)

    def check(self, *, share: float = 0.6, counted: bool = True) -> None:
        """
        Assert what every scenario is about.

        Parameters
        ----------
        share
            Which part of its rows the job may have taken again at most: without lineage it would be all.
        counted
            Whether the fault has hit after work was counted, so that statistics show it.
        """
        self.check_answer()
        stats, lost = self.job.stats(), {worker.name for worker in self.victims}
        assert self.replaced(), "the fault has hit nothing"
        self.check_nothing_else_was_touched(lost)
        undisturbed = stats.rows - stats.replayed_rows
        assert stats.replayed_rows <= share * undisturbed, stats
        if counted:
            assert 1 <= stats.failures <= len(lost), stats
            assert stats.replayed_rows > 0, stats

    def check_nothing_else_was_touched(self, lost: Collection[str]) -> None:
        """Assert that each run that was replaced ran on a worker that was lost."""
        runs = {(run.stage, run.channel, run.attempt): run for run in self.job.timeline()}
        for (stage, channel, attempt), run in runs.items():
            if (stage, channel, attempt + 1) in runs:
                assert run.worker in lost, f"{run} was begun again, and {lost} were lost"
