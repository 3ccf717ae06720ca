"""Clients die and hang: what they wait for goes with them, and what they submitted stays."""

from __future__ import annotations

import os
import signal

import pytest
from cases import Case
from chaos_cluster import ChaosCluster, client
from extent import IS_LONG
from scenario import Scenario
from waiting import until

import whimbrel as wb

pytestmark = pytest.mark.skipif(not IS_LONG, reason="a long run: make chaos")

WAITING = """
import whimbrel as wb
try:
    wb.sql({sql!r}, on=wb.cluster.connect({address!r})).to_rows()
except wb.DataError as error:
    print(error)
"""

SUBMITTING = """
import time
import whimbrel as wb
job = wb.from_bytes({plan!r}).submit(on=wb.cluster.connect({address!r}))
print(job.id, flush=True)
time.sleep(3600)
"""

# Longer than any client is waited for.
ENDLESS = "select min(md5(md5(n::varchar))) as low from range(100000000000) t(n)"


def works(cluster: ChaosCluster, case: Case) -> None:
    """Assert that the cluster does the next job."""
    Scenario.begin(cluster, case).check_answer()


def test_a_client_that_dies_takes_its_query_with_it(
    cluster: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    waiting = client(WAITING.format(sql=ENDLESS, address=cluster.address))
    until("its query", lambda: cluster.jobs != [])
    waiting.kill()
    waiting.communicate()
    until("no query", lambda: cluster.jobs == [])
    works(cluster, all_cases["aggregate"])


def test_a_client_that_hangs_learns_that_its_query_is_gone(cluster: ChaosCluster) -> None:
    waiting = client(WAITING.format(sql=ENDLESS, address=cluster.address))
    try:
        until("its query", lambda: cluster.jobs != [])
        os.kill(waiting.pid, signal.SIGSTOP)
        until("no query", lambda: cluster.jobs == [])
        os.kill(waiting.pid, signal.SIGCONT)
        said, _ = waiting.communicate(timeout=60)
        assert "its client was not heard of" in said
    finally:
        waiting.kill()


def test_a_job_goes_on_without_its_client_and_without_a_worker(
    cluster: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    case = all_cases["join"]
    program = SUBMITTING.format(plan=case.plan(cluster).to_bytes(), address=cluster.address)
    submitting = client(program)
    assert submitting.stdout is not None
    id = submitting.stdout.readline().strip()
    scenario = Scenario(cluster, case, wb.cluster.connect(cluster.address).job(id))
    until("the job at work", lambda: scenario.is_at("reading"))
    submitting.kill()
    scenario.kill(*scenario.busy())
    submitting.communicate()
    scenario.check()


def test_a_client_that_dies_while_it_fetches_a_result_leaves_it_to_others(
    cluster: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    scenario = Scenario.begin(cluster, all_cases["sort"])
    fetching = client(
        "import whimbrel as wb\n"
        f"job = wb.cluster.connect({cluster.address!r}).job({scenario.job.id!r})\n"
        "print('fetching', flush=True)\n"
        "job.result()\n"
    )
    assert fetching.stdout is not None
    fetching.stdout.readline()
    assert scenario.job.status == "running", "the client could have fetched all of it"
    fetching.kill()
    fetching.communicate()
    scenario.check_answer()


def test_a_query_that_its_client_waits_for_survives_a_worker(
    cluster: ChaosCluster, all_cases: dict[str, Case]
) -> None:
    """The same faults as those of jobs; the client reads while the worker is lost."""
    waiting = client(
        "import whimbrel as wb\n"
        f"on = wb.cluster.connect({cluster.address!r})\n"
        f"stream = wb.from_bytes({all_cases['aggregate'].plan(cluster).to_bytes()!r})\n"
        "print(sorted(map(tuple, stream.to_polars(on=on).rows())))\n"
    )
    until("its query", lambda: cluster.jobs != [])
    scenario = Scenario(cluster, all_cases["aggregate"], cluster.job(cluster.jobs[0]))
    until("the query at work", lambda: scenario.is_at("reading"))
    scenario.kill(*scenario.busy())
    until("recovery", scenario.is_recovering)
    scenario.check_nothing_else_was_touched({worker.name for worker in scenario.victims})
    said, _ = waiting.communicate(timeout=90)
    assert said.strip() == str(sorted(all_cases["aggregate"].answer.rows()))
