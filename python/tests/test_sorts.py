"""Sorts by columns of all types have DuckDB's order, and rows that are equal stay as they came."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import whimbrel as wb

Values = Callable[[random.Random], Any]

KINDS: dict[str, tuple[pa.DataType, Values]] = {
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "int64": (pa.int64(), lambda r: r.choice([-(2**63), 2**63 - 1, -1, 0, 1, r.randrange(10**6)])),
    "uint64": (pa.uint64(), lambda r: r.choice([0, 2**64 - 1, r.randrange(2**40)])),
    "float64": (pa.float64(), lambda r: r.choice([float("nan"), float("inf"), -0.0, 0.0, r.gauss(0, 1)])),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "text": (
        pa.string(),
        lambda r: r.choice(["", "a", "a\0", "ab", "z" * 40, f"{'x' * 300}{r.randrange(9)}"]),
    ),
    "bytes": (pa.binary(), lambda r: bytes(r.choices(range(256), k=r.randrange(6)))),
    "decimal": (pa.decimal128(15, 2), lambda r: Decimal(r.randrange(-(10**9), 10**9)) / 100),
    "date": (pa.date32(), lambda r: r.randrange(-10_000, 20_000)),
    "list": (pa.list_(pa.int64()), lambda r: [r.randrange(3) for _ in range(r.randrange(4))]),
}


def column(kind: str, rows: int, source: random.Random) -> pa.Array:
    """Make values of a kind, one in ten of them null."""
    type_, value = KINDS[kind]
    storage = pa.int32() if type_ == pa.date32() else type_
    return pa.array([None if source.random() < 0.1 else value(source) for _ in range(rows)], storage).cast(
        type_
    )


@pytest.mark.parametrize("seed", range(40))
def test_sorts_have_the_order_of_duckdb(seed: int) -> None:
    source = random.Random(seed)
    kinds = source.sample(sorted(KINDS), source.randrange(1, 4))
    rows = source.choice([0, 1, 2, 50, 3000, 20_000])
    columns = {f"c{place}": column(kind, rows, source) for place, kind in enumerate(kinds)}
    t = pa.table(columns | {"id": pa.array(range(rows), pa.int64())})
    order = ", ".join(
        f"{name} {source.choice(['asc', 'desc'])} nulls {source.choice(['first', 'last'])}"
        for name in columns
    )
    query = f"select * from t order by {order}, id"
    relation = duckdb.sql(query)
    assert relation is not None
    expected = relation.to_arrow_table()["id"].to_pylist()
    for shards in (1, 3):
        assert pa.table(wb.sql(query, t=t, shards=shards).to_arrow())["id"].to_pylist() == expected
    # Without the last column, rows that are equal keep their order.
    assert [row.id for row in wb.sql(f"select * from t order by {order}", t=t).to_rows()] == expected
