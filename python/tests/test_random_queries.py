"""Random queries have DuckDB's answers. A failure says the seed of the tables and the SQL.

`WHIMBREL_RANDOM_SEEDS=100:400` tries other tables, `WHIMBREL_RANDOM_QUERIES=200` more queries on each.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from random_queries import clauses, limited, queries, tables, wide

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


def answer(
    sql: str, inputs: dict[str, pa.Table], shards: int, on: wb.functions.Functions | None = None
) -> list[Row]:
    # Small as they are, tables are cut into shards.
    table = pa.table(wb.sql(f"set shard_rows = 0; {sql}", shards=shards, on=on, **inputs).to_arrow())
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def duckdb_with(inputs: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    peer = duckdb.connect()
    for name, table in inputs.items():
        peer.register(f"{name}_arrow", table)
        peer.execute(f"create table {name} as select * from {name}_arrow")
    return peer


@pytest.fixture(scope="module")
def functions() -> Iterator[wb.functions.LocalFunctions]:
    with wb.functions.start(concurrency=2, small=0) as started:
        yield started


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_random_queries(seed: int, functions: wb.functions.LocalFunctions) -> None:
    inputs = tables(seed)
    peer = duckdb_with(inputs)
    failures, refused = [], 0
    for i, sql in enumerate(queries(seed, list(inputs), QUERIES)):
        try:
            theirs = multiset(peer.execute(sql).fetchall())
        except duckdb.Error:
            refused += 1
            continue
        shards = 1 + (seed + i) % 3
        try:
            # Every tenth runs on functions.
            ours = multiset(answer(sql, inputs, shards, functions if i % 10 == 0 else None))
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


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_a_limit_without_an_order_takes_as_many_rows_of_the_query(seed: int) -> None:
    inputs = tables(seed)
    peer = duckdb_with(inputs)
    failures = []
    for i, (sql, limit, offset, cut) in enumerate(limited(seed, list(inputs), QUERIES)):
        try:
            whole = Counter(multiset(peer.execute(sql).fetchall()))
            rows = Counter(multiset(answer(cut, inputs, 1 + (seed + i) % 3)))
        except duckdb.Error:
            continue
        except wb.WhimbrelError as error:
            if REFUSED not in str(error):
                failures.append(f"{cut}\n  {error}")
            continue
        expected = min(limit, max(0, whole.total() - offset))
        if rows.total() != expected or rows - whole:
            failures.append(f"{cut}\n  {rows.total()} rows, not {expected}; not of the query: {rows - whole}")
    assert not failures, f"tables {seed}:\n" + "\n\n".join(failures[:10])


@pytest.mark.parametrize("seed", range(FIRST, LAST, 4))
def test_wide_and_deep_queries(seed: int) -> None:
    inputs = tables(seed)
    peer = duckdb_with(inputs)
    for i, sql in enumerate(wide(seed, list(inputs))):
        try:
            theirs = multiset(peer.execute(sql).fetchall())
        except duckdb.Error:
            continue
        ours = multiset(answer(sql, inputs, 1 + (seed + i) % 3))
        if " limit " in sql:
            assert len(ours) == len(theirs), sql
        else:
            assert ours == theirs, sql


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_a_clause_works_or_is_refused(seed: int) -> None:
    inputs = tables(seed)
    peer = duckdb_with(inputs)
    failures = []
    for i, sql in enumerate(clauses(seed, QUERIES)):
        try:
            ours = answer(sql, inputs, 1 + (seed + i) % 3)
        except wb.InvalidError:
            continue
        try:
            theirs = peer.execute(sql).fetchall()
        except duckdb.Error as error:
            failures.append(f"{sql}\n  DuckDB: {error}")
            continue
        open_choice = "limit" in sql or "fetch" in sql or "distinct on" in sql
        same = len(ours) == len(theirs) if open_choice else multiset(ours) == multiset(theirs)
        if not same:
            failures.append(
                f"{sql}\n  ours   {ours[:5]} ({len(ours)})\n  theirs {theirs[:5]} ({len(theirs)})"
            )
    assert not failures, f"tables {seed}:\n" + "\n\n".join(failures[:10])
