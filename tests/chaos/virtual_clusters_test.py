"""Virtual clusters lose members: free workers take their places, and jobs go on there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from extent import IS_LONG
from scenario import Scenario
from waiting import until

import whimbrel as wb

pytestmark = pytest.mark.skipif(not IS_LONG, reason="a long run: make chaos")


@pytest.fixture
def small(cluster: ChaosCluster) -> Iterator[wb.cluster.Cluster]:
    """A virtual cluster of two of three workers."""
    small = cluster.create_cluster("small", workers=2)
    yield small
    for name in small.jobs:
        cluster.job(name).cancel()
    small.tear_down()


def names(cluster: wb.cluster.Cluster) -> set[str]:
    """Name the workers."""
    return {worker.name for worker in cluster.workers}


def member(scenario: Scenario, small: wb.cluster.Cluster) -> wb.cluster.Worker:
    """Choose a member on which the job runs."""
    running = {run.worker for run in scenario.job.timeline() if not run.ended}
    return next(worker for worker in small.workers if worker.name in running)


@pytest.mark.parametrize("name", ["join", "small_batches"])
def test_a_lost_member_is_replaced(
    cluster: ChaosCluster, all_cases: dict[str, Case], small: wb.cluster.Cluster, name: str
) -> None:
    (free,) = names(cluster) - names(small)
    scenario = Scenario.begin(cluster, all_cases[name], on=small)
    assert {run.worker for run in scenario.job.timeline()} <= names(small)
    scenario.kill(member(scenario, small))
    scenario.check(share=0.9)
    until("a free worker in the place of the lost one", lambda: free in names(small))
    assert len(small.workers) == 2
    ran = {run.worker for run in scenario.job.timeline()}
    assert ran <= names(small) | {scenario.victims[0].name}


def test_a_virtual_cluster_waits_for_a_free_worker(
    cluster: ChaosCluster, all_cases: dict[str, Case], small: wb.cluster.Cluster
) -> None:
    """All members are lost, and one that joins the cluster is taken for them."""
    scenario = Scenario.begin(cluster, all_cases["aggregate"], on=small)
    (free,) = names(cluster) - names(small)
    scenario.kill(*small.workers, *(worker for worker in cluster.workers if worker.name == free))
    cluster.declared_dead(*scenario.victims)
    cluster.add(1)
    scenario.check(share=1.0)
    assert names(small) == names(cluster)


def test_a_job_of_the_whole_cluster_does_not_take_members(
    cluster: ChaosCluster, all_cases: dict[str, Case], small: wb.cluster.Cluster
) -> None:
    """Its only worker is lost; it waits for a free one, however idle the members are."""
    members = names(small)
    scenario = Scenario.begin(cluster, all_cases["hopping"])
    scenario.kill(*(worker for worker in cluster.workers if worker.name not in members))
    cluster.declared_dead(*scenario.victims)
    assert scenario.job.status == "running"
    cluster.add(1)
    scenario.check(share=1.0)
    assert not members & {run.worker for run in scenario.job.timeline()}
