"""What the tests share: small streams, and the real data that may lie beside the repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whimbrel as wb
from whimbrel import _whimbrel as native

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a disk of so many kilobytes."""
    disk = tmp_path / "disk"

    def mount(kilobytes: int) -> Path:
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("only root may mount a small disk")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", "-l", str(disk)], check=True)


# Where every plan is written and read again before it runs.
THROUGH_BYTES = ("test_cases", "test_random_queries", "test_tpcds", "test_operators")


@pytest.fixture(autouse=True)
def through_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.module.__name__.rpartition(".")[2] not in THROUGH_BYTES:
        return

    def again(plan: native.Plan) -> native.Plan:
        try:
            return native.Plan.from_bytes(plan.to_bytes())
        except wb.InvalidError as error:
            # Live sources, and functions of Python.
            if re.search(r'in this process only|the function ".* at .*:\d+" belongs', str(error)):
                return plan
            raise

    def reading(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda plan, *options: run(again(plan), *options)

    for name in ("collect", "collect_events"):
        monkeypatch.setattr(native, name, reading(getattr(native, name)))
