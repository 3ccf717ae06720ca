"""What the scenarios share: the files that queries read, and clusters that are whole when one begins."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import Case, cases, write
from chaos_cluster import ChaosCluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot be done to processes here."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            missing = shutil.which("redis-server") is None
            item.add_marker(pytest.mark.skipif(missing, reason="there is no redis-server"))
            item.add_marker(pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix"))


@pytest.fixture(scope="session")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """The queries, over files that are written once."""
    folder = tmp_path_factory.mktemp("chaos")
    write(folder)
    return cases(folder)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[ChaosCluster]:
    """A cluster for all scenarios that leave its Redis alone."""
    with ChaosCluster() as started:
        assert isinstance(started, ChaosCluster)
        yield started


@pytest.fixture
def cluster(shared_cluster: ChaosCluster) -> Iterator[ChaosCluster]:
    """Three workers, none of which another scenario has harmed, and no jobs."""
    shared_cluster.in_full_strength()
    yield shared_cluster
    for name in shared_cluster.jobs:
        shared_cluster.job(name).cancel()


@pytest.fixture
def linux() -> None:
    """Skip what is done by means of Linux."""
    if sys.platform != "linux":
        pytest.skip("this is done by means of Linux")
