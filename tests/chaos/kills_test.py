"""Workers are killed: one, several at once, during recovery, and all of them."""

from __future__ import annotations

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from extent import CASES, IS_LONG, SCHEDULES, Schedule, combinations, shown
from scenario import POINTS, Scenario
from waiting import until


@pytest.mark.parametrize(("name", "schedule"), combinations(CASES, SCHEDULES), ids=shown)
def test_a_killed_worker(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str, schedule: Schedule
) -> None:
    scenario = Scenario.begin(cluster, all_cases[name], schedule=schedule)
    scenario.kill(*scenario.busy())
    scenario.check()


@pytest.mark.parametrize("name", CASES if IS_LONG else ["window"])
@pytest.mark.parametrize("at", [point for point in POINTS if point != "reading"])
def test_a_killed_worker_at_each_point_of_a_job(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str, at: str
) -> None:
    scenario = Scenario.begin(cluster, all_cases[name], at=at)
    # A worker that has a part of the result, or will have.
    last = max(scenario.job.timeline(), key=lambda run: run.stage, default=None)
    holders = [worker for worker in cluster.workers if last is not None and worker.name == last.worker]
    scenario.kill(*(holders or cluster.workers[:1]))
    # Once the job has ended, only what its result is made of is kept, and more has to be done again.
    if at == "ended":
        until("recovery", scenario.is_recovering)
        scenario.check_answer()
    else:
        scenario.check(counted=False)


@pytest.mark.parametrize("name", CASES if IS_LONG else ["join"])
def test_two_workers_killed_at_once(cluster: ChaosCluster, all_cases: dict[str, Case], name: str) -> None:
    scenario = Scenario.begin(cluster, all_cases[name])
    scenario.kill(*scenario.busy(2))
    scenario.check(share=0.95)


@pytest.mark.parametrize("name", CASES if IS_LONG else ["hopping"])
def test_a_worker_killed_while_another_is_recovered(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str
) -> None:
    scenario = Scenario.begin(cluster, all_cases[name])
    scenario.kill(*scenario.busy())
    until("recovery", scenario.is_recovering)
    heirs = {run.worker for run in scenario.replaced() if not run.ended}
    scenario.kill(next(worker for worker in cluster.workers if worker.name in heirs))
    # What the second one had taken over is done for the third time.
    scenario.check(share=1.5)
    assert max(run.attempt for run in scenario.replaced()) >= 2


@pytest.mark.parametrize("name", CASES if IS_LONG else ["sort"])
def test_all_workers_killed_and_new_ones(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str
) -> None:
    scenario = Scenario.begin(cluster, all_cases[name])
    scenario.kill(*cluster.workers)
    cluster.declared_dead(*scenario.victims)
    assert cluster.workers == [] and scenario.job.status == "running"
    cluster.add(2)
    scenario.check(share=1.0)


def test_workers_killed_one_after_the_other(cluster: ChaosCluster, all_cases: dict[str, Case]) -> None:
    """As often as there are workers, so that none of those that began is left."""
    scenario = Scenario.begin(cluster, all_cases["aggregate"])
    for lost, worker in enumerate(list(cluster.workers), start=1):
        scenario.kill(worker)
        cluster.add(1)
        cluster.declared_dead(worker)
        until("the next recovery", lambda lost=lost: recovered(scenario) >= lost or has_ended(scenario))
    scenario.check(share=3.0, counted=False)


def recovered(scenario: Scenario) -> int:
    """Count the workers whose channels were begun again."""
    runs = scenario.job.timeline()
    again = {(run.stage, run.channel, run.attempt - 1) for run in runs if run.attempt > 0}
    return len({run.worker for run in runs if (run.stage, run.channel, run.attempt) in again})


def has_ended(scenario: Scenario) -> bool:
    """Say whether the job was faster than the faults."""
    return scenario.job.status == "ended"
