"""
With recovery switched off, the faults of the other scenarios do what faults do: the job does not end.

Otherwise those scenarios would show nothing. Recovery is done under a lease, and here nobody gets it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from redis_server import recovery_off
from scenario import Scenario
from waiting import until

# How long a job is watched that cannot end; with recovery, it ends in less.
WATCHED = 4.0


def kill_one(scenario: Scenario) -> None:
    """Kill a worker."""
    scenario.kill(*scenario.busy())


def kill_two(scenario: Scenario) -> None:
    """Kill two workers at once."""
    scenario.kill(*scenario.busy(2))


def kill_all(scenario: Scenario) -> None:
    """Kill all workers; others come."""
    scenario.kill(*scenario.cluster.workers)
    scenario.cluster.add(2)


@pytest.mark.parametrize("fault", [kill_one, kill_two, kill_all], ids=lambda fault: fault.__name__)
def test_the_job_does_not_end_without_recovery(
    cluster: ChaosCluster, all_cases: dict[str, Case], fault: Callable[[Scenario], None]
) -> None:
    scenario = Scenario.begin(cluster, all_cases["join"])
    with recovery_off(cluster.redis.port, scenario.job.id):
        fault(scenario)
        cluster.declared_dead(*scenario.victims)
        assert not scenario.job.wait(WATCHED)
        assert not scenario.replaced()
    # Nothing was wrong but that.
    until("recovery", lambda: bool(scenario.replaced()))
    scenario.check(share=1.0)


def test_a_result_that_is_lost_does_not_come_without_recovery(
    cluster: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    scenario = Scenario.begin(cluster, all_cases["sort"], at="ended")
    with recovery_off(cluster.redis.port, scenario.job.id):
        last = max(scenario.job.timeline(), key=lambda run: run.stage)
        scenario.kill(next(worker for worker in cluster.workers if worker.name == last.worker))
        cluster.declared_dead(*scenario.victims)
        until("workers that have looked around", lambda: looked_around(scenario))
        assert not scenario.replaced()
    scenario.check_answer()
    assert scenario.replaced()


def looked_around(scenario: Scenario) -> bool:
    """Say whether the workers have done another job since, and would have recovered this one."""
    other = Scenario.begin(scenario.cluster, scenario.case, at="ended")
    other.check_answer()
    return True
