"""TPC-DS: all 99 queries, at several numbers of shards, give DuckDB's answers.

Scale factor 0.1 unless `WHIMBREL_TPCDS_SCALE` names another one. At 0.1 three quarters of the queries have an
answer that is not empty; the others test that it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from test_tpch import Row, same_rows

import whimbrel as wb

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / ".venv" / "tpcds"
SCALE = os.environ.get("WHIMBREL_TPCDS_SCALE", "0.1")
SHARDS = (1, 2, 3)


@dataclass
class Data:
    """The folder of tables and queries, and DuckDB over the same files."""

    folder: Path
    tables: dict[str, Any]
    peer: duckdb.DuckDBPyConnection

    def query(self, number: int) -> str:
        return (self.folder / f"q{number:02}.sql").read_text()


@pytest.fixture(scope="module")
def data() -> Data:
    if not EXTENSION.exists():
        pytest.skip("no data: DuckDB's extension tpcds is not installed; run make test")
    command = [sys.executable, ROOT / "tests" / "tpcds" / "data.py", SCALE]
    environment = os.environ | {"PYTHONPATH": str(EXTENSION)}
    made = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    folder = Path(made.stdout.strip())
    tables = {path.stem: str(path) for path in folder.glob("*.parquet")}
    peer = duckdb.connect()
    for name, path in tables.items():
        peer.execute(f"create view {name} as select * from '{path}'")
    return Data(folder, tables, peer)


def in_some_order(rows: list[Row]) -> list[Row]:
    """Floats are close, not equal: only their first digits may decide on a place."""
    return sorted(
        rows, key=lambda row: [f"{value:.4g}" if isinstance(value, float) else repr(value) for value in row]
    )


def check(number: int, data: Data, **options: Any) -> None:
    sql = data.query(number)
    table = pa.table(wb.sql(sql, **options, **data.tables).to_arrow())
    ours = [tuple(row.values()) for row in table.to_pylist()]
    theirs = data.peer.execute(sql).fetchall()
    # Rows that the query's order leaves equal come in any.
    same = same_rows(ours, theirs) or same_rows(in_some_order(ours), in_some_order(theirs))
    assert same, (ours[:3], theirs[:3])


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("number", range(1, 100))
def test_answers_are_those_of_duckdb(number: int, shards: int, data: Data) -> None:
    check(number, data, shards=shards)


@pytest.fixture(scope="module")
def functions() -> Iterator[wb.functions.LocalFunctions]:
    with wb.functions.start(concurrency=2, small=0) as started:
        yield started


@pytest.mark.parametrize("number", range(1, 100))
def test_functions_have_the_same_answer(
    number: int, data: Data, functions: wb.functions.LocalFunctions
) -> None:
    check(number, data, shards=4, on=functions)


def test_the_data_has_answers(data: Data) -> None:
    answered = [number for number in range(1, 100) if data.peer.execute(data.query(number)).fetchone()]
    assert len(answered) > 70
