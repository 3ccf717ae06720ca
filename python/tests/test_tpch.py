"""TPC-H: all queries, at several numbers of shards, give DuckDB's answers.

Scale factor 0.1 unless `WHIMBREL_TPCH_SCALE` names another one.
"""

from __future__ import annotations

import datetime
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import whimbrel as wb

TPCH = Path(__file__).parents[2] / "tests" / "tpch"
SCALE = os.environ.get("WHIMBREL_TPCH_SCALE", "0.1")
SHARDS = (1, 2, 3, 8)
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

# The columns that each query orders by. Those without an order give one row.
ORDERS: dict[int, tuple[int, ...]] = {
    1: (0, 1),
    2: (0, 2, 1, 3),
    3: (1, 2),
    4: (0,),
    5: (1,),
    7: (0, 1, 2),
    8: (0,),
    9: (0, 1),
    10: (2,),
    11: (1,),
    12: (0,),
    13: (1, 0),
    15: (0,),
    16: (3, 0, 1, 2),
    18: (4, 3),
    20: (0,),
    21: (1, 0),
    22: (0,),
}

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """The path of each table."""
    if not (Path(sys.executable).parent / "tpchgen-cli").exists():
        pytest.skip("no data: tpchgen-cli is not installed")
    command = [sys.executable, TPCH / "data.py", SCALE]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {name: f"{folder}/{name}.parquet" for name in TABLES}


@pytest.fixture(scope="module")
def peer(tables: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """DuckDB over the same files."""
    connection = duckdb.connect()
    for name, path in tables.items():
        connection.execute(f"create view {name} as select * from '{path}'")
    return connection


def query(number: int) -> str:
    return (TPCH / f"q{number:02}.sql").read_text()


def same_value(ours: Any, theirs: Any) -> bool:
    """Decimals are exact; one whose peer is a float is as exact as its digits; floats are close."""
    if isinstance(ours, Decimal) and isinstance(theirs, float):
        digits = ours.as_tuple().exponent
        assert isinstance(digits, int)
        return abs(ours - Decimal(theirs)) <= Decimal(1).scaleb(digits)
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    if isinstance(ours, datetime.datetime) and not isinstance(theirs, datetime.datetime):
        return ours == datetime.datetime.combine(theirs, datetime.time())
    return ours == theirs


def same_rows(ours: list[Row], theirs: list[Row]) -> bool:
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same_value, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def in_groups(rows: list[Row], order: tuple[int, ...]) -> list[Row]:
    """Put rows that the order by leaves equal into an order of their own."""
    grouped = groupby(rows, key=lambda row: tuple(row[i] for i in order))
    return [row for _, group in grouped for row in sorted(group, key=repr)]


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("number", range(1, 23))
def test_answers_are_those_of_duckdb(
    number: int, shards: int, tables: dict[str, Any], peer: duckdb.DuckDBPyConnection
) -> None:
    sql, order = query(number), ORDERS.get(number, ())
    table = pa.table(wb.sql(sql, shards=shards, **tables).to_arrow())
    ours = [tuple(row.values()) for row in table.to_pylist()]
    theirs = peer.execute(sql).fetchall()
    assert theirs, "the data has to have an answer"
    assert same_rows(in_groups(ours, order), in_groups(theirs, order)), (ours[:3], theirs[:3])


@pytest.mark.parametrize("number", range(1, 23))
def test_every_way_to_run_a_query_has_the_same_answer(
    number: int, tables: dict[str, Any], peer: duckdb.DuckDBPyConnection
) -> None:
    sql, order = query(number), ORDERS.get(number, ())
    theirs = in_groups(peer.execute(sql).fetchall(), order)
    ways = wb.sql(sql, shards=3, **tables).candidates()
    assert [way.chosen for way in ways] == [True] + [False] * (len(ways) - 1)
    for way in ways:
        ours = [tuple(row.values()) for row in pa.table(way.stream.to_arrow()).to_pylist()]
        assert same_rows(in_groups(ours, order), theirs), (str(way), ours[:3], theirs[:3])


def test_a_wrong_answer_would_be_seen() -> None:
    assert same_rows([(Decimal("1.20"), 2.0)], [(1.2049, 2.0 + 1e-12)])
    assert not same_rows([(Decimal("1.20"),)], [(Decimal("1.21"),)])
    assert not same_rows([(Decimal("1.20"),)], [(1.23,)])
    assert not same_rows([(1,), (2,)], [(2,), (1,)])
    assert in_groups([(1, "b"), (1, "a"), (0, "c")], (0,)) == [(1, "a"), (1, "b"), (0, "c")]


@pytest.fixture(scope="module")
def functions() -> Iterator[wb.functions.LocalFunctions]:
    with wb.functions.start(concurrency=2, small=0) as started:
        yield started


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("number", range(1, 23))
def test_functions_have_the_same_answer(
    number: int,
    shards: int,
    tables: dict[str, Any],
    peer: duckdb.DuckDBPyConnection,
    functions: wb.functions.LocalFunctions,
) -> None:
    sql, order = query(number), ORDERS.get(number, ())
    result = wb.sql(sql, shards=shards, on=functions, **tables).collect()
    ours = [tuple(row.values()) for row in pa.table(result).to_pylist()]
    theirs = peer.execute(sql).fetchall()
    assert same_rows(in_groups(ours, order), in_groups(theirs, order)), (ours[:3], theirs[:3])
    assert result.bill is not None and result.bill.invocations > 0
