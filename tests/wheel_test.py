"""A wheel works in an environment that has nothing else: `make wheel` builds one and runs this."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wheel_size import native_library, unpacked_size

ROOT = Path(__file__).resolve().parent.parent
WHEEL = os.environ.get("WHIMBREL_WHEEL", "")
# Before functions with the same instructions were kept once: 64 and 190 million.
PACKED_MAX, UNPACKED_MAX = 66_000_000, 195_000_000

pytestmark = pytest.mark.skipif(
    not WHEEL, reason="WHIMBREL_WHEEL names no wheel; `make wheel` builds and tests one"
)

WINDOWS = """
import whimbrel as wb

rows = [("UA", 0, 50), ("UA", 10, 70), ("B6", 20, 40)]
flights = wb.from_rows(rows, schema=["carrier", "dep", "arr"], time="dep", end="arr")
flying = flights.query(lambda q: q.group_apply("carrier", lambda g: g.aggregate(flying=wb.count())))
print([tuple(row) for row in flying.to_rows()])
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment in which only the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", ROOT / WHEEL]
    subprocess.run([folder / "bin" / "python", *install], check=True)
    return folder / "bin"


def output(*command: str | Path, cwd: Path) -> str:
    """What a command prints, outside of the repository and its environment."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(command, cwd=cwd, env=kept, check=True, capture_output=True, text=True).stdout


def test_a_program_runs(programs: Path, tmp_path: Path) -> None:
    printed = output(programs / "python", "-c", WINDOWS, cwd=tmp_path)
    assert sorted(ast.literal_eval(printed)) == [
        (0, 10, "UA", 1),
        (10, 50, "UA", 2),
        (20, 40, "B6", 1),
        (50, 70, "UA", 1),
    ]


def test_the_command_runs(programs: Path, tmp_path: Path) -> None:
    flights = ROOT / "data" / "nyc_flights_2013.parquet"
    query = f"select carrier, count(*) as flights from '{flights}' where carrier = 'UA' group by carrier"
    printed = output(programs / "whimbrel", "--format", "json", "sql", query, cwd=tmp_path)
    assert json.loads(printed) == {"carrier": "UA", "flights": 58665}


def test_types_and_licence_come_along(programs: Path, tmp_path: Path) -> None:
    listed = output(programs / "python", "-m", "pip", "show", "--files", "whimbrel", cwd=tmp_path)
    assert {"whimbrel/py.typed", "whimbrel/_whimbrel.pyi"} <= {line.strip() for line in listed.splitlines()}
    assert "LICENSE" in listed


def test_one_wheel_is_for_every_python(programs: Path) -> None:
    name, _ = native_library(ROOT / WHEEL)
    assert name == "whimbrel/_whimbrel.abi3.so"
    assert "-cp310-abi3-" in WHEEL


def test_it_does_not_grow() -> None:
    wheel = ROOT / WHEEL
    assert wheel.stat().st_size < PACKED_MAX
    assert unpacked_size(wheel) < UNPACKED_MAX
