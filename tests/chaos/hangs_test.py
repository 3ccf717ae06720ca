"""Workers hang: they are stopped, declared dead, and go on after that or never."""

from __future__ import annotations

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from extent import CASES, IS_LONG, SCHEDULES, Schedule, combinations, shown
from scenario import Scenario
from waiting import until

FEW = [("small_batches", SCHEDULES[0]), ("join", SCHEDULES[3])]


@pytest.mark.parametrize(("name", "schedule"), combinations(CASES, SCHEDULES) if IS_LONG else FEW, ids=shown)
def test_a_worker_that_comes_back(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str, schedule: Schedule
) -> None:
    """It goes on while others do what it was declared dead for."""
    scenario = Scenario.begin(cluster, all_cases[name], schedule=schedule)
    scenario.hang(*scenario.busy())
    until("recovery", scenario.is_recovering)
    cluster.wake(scenario.victims[0])
    scenario.check()
    until("a worker that registers again", lambda: cluster.has(scenario.victims[0].pid))
    assert scenario.victims[0].name not in {worker.name for worker in cluster.workers}


@pytest.mark.parametrize("name", CASES if IS_LONG else ["window"])
def test_a_worker_that_does_not_come_back(
    cluster: ChaosCluster, all_cases: dict[str, Case], name: str
) -> None:
    """Its connections stay open, and nothing comes."""
    scenario = Scenario.begin(cluster, all_cases[name])
    scenario.hang(*scenario.busy())
    scenario.check()


@pytest.mark.parametrize("name", CASES if IS_LONG else ["hopping"])
def test_one_hangs_and_one_is_killed(cluster: ChaosCluster, all_cases: dict[str, Case], name: str) -> None:
    scenario = Scenario.begin(cluster, all_cases[name])
    hangs, dies = scenario.busy(2)
    scenario.hang(hangs)
    scenario.kill(dies)
    cluster.declared_dead(hangs, dies)
    cluster.wake(hangs)
    scenario.check(share=0.95)


def test_all_workers_hang_and_come_back(cluster: ChaosCluster, all_cases: dict[str, Case]) -> None:
    """There is nobody who could declare them dead, and each of them finds out by itself."""
    scenario = Scenario.begin(cluster, all_cases["join"])
    scenario.hang(*cluster.workers)
    cluster.declared_dead(*scenario.victims)
    assert scenario.job.status == "running"
    for worker in scenario.victims:
        cluster.wake(worker)
    scenario.check(share=1.0)
