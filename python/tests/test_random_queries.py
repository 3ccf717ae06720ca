"""Random queries have DuckDB's answers. A failure says the seed of the tables and the SQL.

`WHIMBREL_RANDOM_SEEDS=100:400` tries other tables, `WHIMBREL_RANDOM_QUERIES=200` more queries on each.
"""

from __future__ import annotations

import math
import os
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from random_queries import queries, tables

import whimbrel as wb

FIRST, LAST = map(int, os.environ.get("WHIMBREL_RANDOM_SEEDS", "0:16").split(":"))
QUERIES = int(os.environ.get("WHIMBREL_RANDOM_QUERIES", "25"))

# What DataFusion refuses to run, with an error and not with a wrong answer: a window whose partition a filter
# makes equal to an expression.
REFUSED = "does not satisfy order requirements"

Row = tuple[Any, ...]


def plain(value: Any) -> Any:
    """Give a value that can be compared and sorted beside any other: numbers by their first nine digits."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float, Decimal)):
        number = float(value)
        return "nan" if math.isnan(number) else f"{number + 0.0:.9g}"
    return repr(value)


def multiset(rows: list[Row]) -> list[Row]:
    """Rows without their order."""
    return sorted(tuple(map(plain, row)) for row in rows)


def answer(sql: str, inputs: dict[str, pa.Table], shards: int) -> list[Row]:
    # Small as they are, tables are cut into shards.
    table = pa.table(wb.sql(f"set shard_rows = 0; {sql}", shards=shards, **inputs).to_arrow())
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_random_queries(seed: int) -> None:
    inputs = tables(seed)
    peer = duckdb.connect()
    for name, table in inputs.items():
        peer.register(f"{name}_arrow", table)
        peer.execute(f"create table {name} as select * from {name}_arrow")
    failures, refused = [], 0
    for i, sql in enumerate(queries(seed, list(inputs), QUERIES)):
        try:
            theirs = multiset(peer.execute(sql).fetchall())
        except duckdb.Error:
            refused += 1
            continue
        shards = 1 + (seed + i) % 3
        try:
            ours = multiset(answer(sql, inputs, shards))
        except wb.WhimbrelError as error:
            if REFUSED in str(error):
                continue
            failures.append(f"{sql}\n  {error}")
            continue
        if ours != theirs:
            failures.append(
                f"{sql}\n  ours   {ours[:5]} ({len(ours)} rows)\n  theirs {theirs[:5]} ({len(theirs)})"
            )
    told = "\n\n".join(failures[:10])
    assert not failures, f"tables {seed}, {len(failures)} of {QUERIES} queries:\n{told}"
    assert refused <= QUERIES // 5, "DuckDB has to understand most of what is generated"
