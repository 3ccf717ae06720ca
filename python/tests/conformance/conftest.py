"""The conformance cases, one test each: `python -m pytest python/tests/conformance --cases FILE`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BESIDE_THE_REPOSITORY = Path(__file__).parents[4] / "shared" / "conformance" / "trill_cases.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="FILE", help="conformance cases; by default those beside the repository"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    given = metafunc.config.getoption("--cases", default=None)
    path = Path(given) if given else BESIDE_THE_REPOSITORY
    if not given and not path.exists():
        nothing = pytest.param(
            None, marks=pytest.mark.skip(f"no conformance cases: {path} is not there; give --cases")
        )
        metafunc.parametrize("case", [nothing], ids=["no cases"])
        return
    cases = json.loads(path.read_text())["cases"]
    metafunc.parametrize("case", cases, ids=[case["id"] for case in cases])
