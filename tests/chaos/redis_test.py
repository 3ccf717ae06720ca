"""The Redis is lost: for a moment, and for ever, with a replica that takes over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from extent import CASES, IS_LONG
from scenario import Scenario


@pytest.fixture
def replicated() -> Iterator[ChaosCluster]:
    """A cluster whose Redis has two replicas, one of which has all that is agreed on."""
    with ChaosCluster(3, replicas=2) as cluster:
        assert isinstance(cluster, ChaosCluster)
        yield cluster


@pytest.mark.parametrize("name", CASES if IS_LONG else ["join"])
def test_a_redis_that_is_started_again(all_cases: dict[str, Case], name: str) -> None:
    with ChaosCluster(2) as cluster:
        assert isinstance(cluster, ChaosCluster)
        workers = cluster.workers
        scenario = Scenario.begin(cluster, all_cases[name])
        cluster.redis.kill()
        cluster.redis.start()
        scenario.check_answer()
        assert cluster.workers == workers and scenario.job.stats().failures == 0


@pytest.mark.parametrize("name", CASES if IS_LONG else ["hopping", "sort"])
def test_a_replica_that_takes_over(replicated: ChaosCluster, all_cases: dict[str, Case], name: str) -> None:
    workers = replicated.workers
    scenario = Scenario.begin(replicated, all_cases[name])
    replicated.fail_over()
    scenario.check_answer()
    assert replicated.workers == workers and scenario.job.stats().failures == 0


def test_a_replica_that_takes_over_and_a_worker_that_is_killed(
    replicated: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    """What the lineage says of the worker is what the replica knows."""
    scenario = Scenario.begin(replicated, all_cases["join"], at="one_channel_ended")
    replicated.fail_over()
    scenario.kill(*scenario.busy())
    scenario.check()


def test_replicas_that_are_away_for_a_moment(replicated: ChaosCluster, all_cases: dict[str, Case]) -> None:
    """Nothing is agreed on meanwhile, and the job goes on with the first of them that is back."""
    scenario = Scenario.begin(replicated, all_cases["small_batches"])
    for replica in replicated.servers[1:]:
        replica.kill()
    time.sleep(1)
    replica = replicated.servers[1]
    replica.start()
    replica.follow(replicated.redis)
    scenario.check_answer()
