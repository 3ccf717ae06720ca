"""The disks of workers: one that is full, and a folder that somebody has removed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import Case, in_order
from chaos_cluster import ChaosCluster
from scenario import Scenario
from waiting import until

import whimbrel as wb

pytestmark = pytest.mark.usefixtures("linux")

# What is sent is kept on the disk from the first byte on.
ON_DISK = ("--backup-memory", "1KB")

# A disk of the worker alone, which is gone with it.
SMALL_DISK = ("unshare", "--map-root-user", "--mount", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'


@pytest.fixture
def empty() -> Iterator[ChaosCluster]:
    """A cluster without workers."""
    with ChaosCluster(1) as cluster:
        assert isinstance(cluster, ChaosCluster)
        first = cluster.workers[0]
        cluster.kill(first)
        cluster.declared_dead(first)
        yield cluster


def test_a_full_disk_ends_the_query(empty: ChaosCluster, tmp_path: Path, all_cases: dict[str, Case]) -> None:
    if shutil.which("unshare") is None or subprocess.run([*SMALL_DISK, "true"], check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")
    small = (*SMALL_DISK, MOUNT, str(tmp_path))
    empty.add_as(*ON_DISK, "--folder", str(tmp_path), within=small)
    job = all_cases["sort"].plan(empty).submit(on=empty)
    with pytest.raises(wb.ResourceExhaustedError, match="No space left"):
        job.result()
    # The room that it took is free again, so a small query has enough of it.
    assert [row[0] for row in wb.sql("select count(*) from range(1000)", on=empty).to_rows()] == [1000]
    # Where there is room, the same query has its answer.
    empty.kill(empty.workers[0])
    empty.add(1)
    rows = all_cases["sort"].plan(empty).to_polars(on=empty)
    assert in_order(rows).equals(all_cases["sort"].answer)


def test_a_query_beyond_the_quota_ends(empty: ChaosCluster, all_cases: dict[str, Case]) -> None:
    empty.add_as(*ON_DISK, "--backup-disk", "2MB")
    job = all_cases["sort"].plan(empty).submit(on=empty)
    with pytest.raises(wb.ResourceExhaustedError, match="a quota of 2000000 bytes"):
        job.result()
    # The room that it took is free again.
    assert [row[0] for row in wb.sql("select count(*) from range(1000)", on=empty).to_rows()] == [1000]
    small = empty.workers[0]
    empty.kill(small)
    empty.declared_dead(small)
    empty.add_as(*ON_DISK, "--backup-disk", "2GB")
    rows = all_cases["sort"].plan(empty).to_polars(on=empty)
    assert in_order(rows).equals(all_cases["sort"].answer)


@pytest.mark.parametrize("name", ["sort", "window"])
def test_a_folder_that_is_removed(
    empty: ChaosCluster, tmp_path: Path, all_cases: dict[str, Case], name: str
) -> None:
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
        empty.add_as(*ON_DISK, "--folder", str(folder))
    for folder in folders:
        shutil.rmtree(folder)
    scenario = Scenario.begin(empty, all_cases[name], at="placed")
    until("a folder that is made again", lambda: any(folder.exists() for folder in folders))
    # Now there are open files in it.
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    scenario.check_answer()
    assert scenario.job.stats().spilled_bytes > 0 and scenario.job.stats().replayed_rows == 0
