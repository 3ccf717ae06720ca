"""Datasets in the memory of workers that are lost: whoever reads them does not notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cases import Case, in_order
from chaos_cluster import ChaosCluster
from extent import IS_LONG
from scenario import Scenario

import whimbrel as wb

pytestmark = pytest.mark.skipif(not IS_LONG, reason="a long run: make chaos")

NAME = "kept"


@pytest.fixture
def kept(cluster: ChaosCluster, all_cases: dict[str, Case]) -> Iterator[Scenario]:
    """A dataset, as the job whose result it is."""
    case = all_cases["small_batches"]
    before = set(cluster.jobs)
    case.plan(cluster).to_memory(NAME, on=cluster)
    (job,) = set(cluster.jobs) - before
    yield Scenario(cluster, case, cluster.job(job))
    cluster.datasets.remove(NAME)


def holder(kept: Scenario) -> wb.cluster.Worker:
    """Find a worker that has a part of the dataset."""
    last = max(kept.job.timeline(), key=lambda run: (run.stage, run.attempt))
    return next(worker for worker in kept.cluster.workers if worker.name == last.worker)


def test_a_dataset_whose_worker_is_killed(kept: Scenario) -> None:
    kept.kill(holder(kept))
    dataset = kept.cluster.datasets[NAME]
    assert in_order(dataset.to_polars(on=kept.cluster)).equals(kept.case.answer)
    # This process reads it as well.
    assert in_order(dataset.to_polars()).equals(kept.case.answer)
    assert kept.replaced(), "the fault has hit nothing"
    stats = kept.job.stats()
    assert stats.failures == 1 and stats.replayed_rows > 0, stats


def test_a_dataset_that_is_lost_while_a_job_reads_it(kept: Scenario) -> None:
    sql = "select a.n % 10 as k, count(*) as c, min(md5(md5(a.text || b.text))) as low from a, b group by 1"

    def plan(on: wb.cluster.Cluster | None) -> wb.ShardedStream:
        rows = kept.cluster.datasets[NAME].query(lambda q: q.select("n", "text"))
        return wb.sql(sql, on=on, a=rows, b=rows.query(lambda q: q.where(wb.col("n") % 97 == 0)))

    reader = Scenario.begin(kept.cluster, Case("reader", plan))
    kept.kill(holder(kept))
    reader.victims = kept.victims
    reader.check(share=1.0, counted=False)
    assert kept.replaced(), "the fault has hit nothing"


def test_a_dataset_all_of_whose_workers_are_killed(kept: Scenario) -> None:
    cluster = kept.cluster
    kept.kill(*cluster.workers)
    cluster.declared_dead(*kept.victims)
    cluster.add(2)
    assert in_order(cluster.datasets[NAME].to_polars(on=cluster)).equals(kept.case.answer)
    assert kept.replaced(), "the fault has hit nothing"
