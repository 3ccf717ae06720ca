"""Links are cut: between two workers, between a worker and all others, and between a worker and the Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import Case
from chaos_cluster import ChaosCluster
from link import Link
from live_job import LiveScenario
from scenario import Scenario
from waiting import until

import whimbrel as wb

pytestmark = pytest.mark.usefixtures("linux")

# Workers listen on the first address, and are found by the second one, where a link has the same port.
OWN, SEEN = "127.0.0.1", "127.0.0.2"

# A job does without a worker that others cannot reach, and ends long before this many seconds.
STUCK = 40.0

Linked = tuple[ChaosCluster, dict[str, Link]]


@pytest.fixture
def linked() -> Iterator[Linked]:
    """Three workers, and the link to each by its name."""
    links: dict[str, Link] = {}
    with ChaosCluster(1) as cluster:
        assert isinstance(cluster, ChaosCluster)
        first = cluster.workers[0]
        for _ in range(3):
            worker = cluster.add_as("--listen", f"{OWN}:0", "--host", SEEN)
            port = int(worker.address.rpartition(":")[2])
            links[worker.name] = Link(SEEN, port, (OWN, port))
        cluster.kill(first)
        cluster.declared_dead(first)
        try:
            yield cluster, links
        finally:
            for link in links.values():
                link.close()


def between(linked: Linked) -> tuple[tuple[wb.cluster.Worker, Link], tuple[wb.cluster.Worker, Link]]:
    """Choose two workers, with the links to them."""
    cluster, links = linked
    one, other = cluster.workers[:2]
    return (one, links[one.name]), (other, links[other.name])


def cut(linked: Linked) -> None:
    """Cut the link between two workers, in both directions."""
    (one, to_one), (other, to_other) = between(linked)
    to_one.cut([other.pid])
    to_other.cut([one.pid])


@pytest.mark.parametrize("name", ["small_batches", "window"])
def test_a_link_between_two_workers_that_is_mended(
    linked: Linked, all_cases: dict[str, Case], name: str
) -> None:
    scenario = Scenario.begin(linked[0], all_cases[name])
    cut(linked)
    (_, to_one), (_, to_other) = between(linked)
    until("a connection that is refused", lambda: to_one.refused + to_other.refused > 4)
    to_one.mend()
    to_other.mend()
    scenario.check_answer()
    # Nobody was lost: both go on with the number at which they were.
    assert scenario.job.stats().failures == 0 and scenario.job.stats().replayed_rows == 0


def test_a_link_between_two_workers_that_stays_cut(linked: Linked, all_cases: dict[str, Case]) -> None:
    scenario = Scenario.begin(linked[0], all_cases["small_batches"])
    cut(linked)
    scenario.check_answer(STUCK)


def test_a_worker_that_falls_silent_and_speaks_again(linked: Linked, all_cases: dict[str, Case]) -> None:
    """It says to the Redis that it is alive, and nothing to its peers; connections to it stay open."""
    cluster, links = linked
    scenario = Scenario.begin(cluster, all_cases["small_batches"])
    link = links[cluster.workers[0].name]
    link.silence()
    # Peers notice, give their connections up and try new ones.
    until("peers that try again", lambda: link.withheld >= 6)
    link.mend()
    scenario.check_answer()
    assert scenario.job.stats().replayed_rows == 0


def test_a_worker_that_stays_silent(linked: Linked, all_cases: dict[str, Case]) -> None:
    cluster, links = linked
    scenario = Scenario.begin(cluster, all_cases["window"])
    job = scenario.job
    until("a channel with the result", lambda: len(job.progress) - 1 in {run.stage for run in job.timeline()})
    # Whoever reads a result connects to the worker that has it.
    holders = {run.worker for run in job.timeline() if run.stage == len(job.progress) - 1}
    links[next(name for name in links if name not in holders)].silence()
    scenario.check_answer(STUCK)


def test_a_worker_without_the_redis(all_cases: dict[str, Case]) -> None:
    """It is declared dead while it works, and what it still sends does no harm."""
    with ChaosCluster(2) as cluster:
        assert isinstance(cluster, ChaosCluster)
        link = Link(SEEN, 0, (OWN, cluster.redis.port))
        worker = cluster.add_as(address=f"redis://{SEEN}:{link.port}")
        scenario = Scenario.begin(cluster, all_cases["join"])
        until("a channel on it", lambda: worker.name in {run.worker for run in scenario.job.timeline()})
        link.cut()
        scenario.victims.append(worker)
        cluster.declared_dead(worker)
        scenario.check_answer()
        assert not cluster.has(worker.pid)
        link.mend()
        until("a worker that registers again", lambda: cluster.has(worker.pid))
        Scenario.begin(cluster, all_cases["aggregate"]).check_answer()
        link.close()


def between_host_and_member(linked: Linked, live: LiveScenario) -> tuple[Link, Link, list[int]]:
    """Find the links to the host of a live job and to another of its workers, and their processes."""
    cluster, links = linked
    host, member = live.job.workers[:2]
    pids = {worker.name: worker.pid for worker in cluster.workers}
    return links[host], links[member], [pids[host], pids[member]]


def test_a_live_job_whose_link_is_mended(linked: Linked, tmp_path: Path) -> None:
    live = LiveScenario(linked[0], tmp_path)
    live.wait_for_results(attempt=1)
    to_host, to_member, (host, member) = between_host_and_member(linked, live)
    to_host.cut([member])
    to_member.cut([host])
    until("a connection that is cut", lambda: to_host.refused + to_member.refused > 0)
    to_host.mend()
    to_member.mend()
    live.wait_for_results(attempt=1)
    live.check_results()


def test_a_live_job_whose_link_stays_cut(linked: Linked, tmp_path: Path) -> None:
    live = LiveScenario(linked[0], tmp_path)
    live.wait_for_results(attempt=1)
    to_host, to_member, (host, member) = between_host_and_member(linked, live)
    to_host.cut([member])
    to_member.cut([host])
    live.wait_for_results(attempt=2)
    assert live.job.workers == [live.job.worker], "the host goes on alone"
    live.check_results()
