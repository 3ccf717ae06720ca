"""What the tests share: small streams, and the real data that may lie beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

import whimbrel as wb

BESIDE_THE_REPOSITORY = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def clicks() -> wb.ShardedStream:
    """Six clicks on a logical clock."""
    rows = [(1, "a", 1.0), (3, "b", 2.0), (4, "a", None), (12, "a", 4.0), (13, "c", 0.5), (27, "b", 3.0)]
    return wb.from_rows(rows, schema=["time", "item", "price"], time="time")


@pytest.fixture
def items() -> wb.ShardedStream:
    """A relation without a time."""
    return wb.from_rows([{"item": "a", "group": 1}, {"item": "b", "group": 2}])


@pytest.fixture
def real_data() -> Path:
    """The folder of real data, where it is present."""
    if not BESIDE_THE_REPOSITORY.is_dir():
        pytest.skip(f"no real data: {BESIDE_THE_REPOSITORY} is not there")
    return BESIDE_THE_REPOSITORY
