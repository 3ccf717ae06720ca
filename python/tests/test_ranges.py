"""Files that lie in order of a column, cut by its ranges: a row is in one shard, and joins move nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whimbrel as wb

BOUNDS = [-3, 40]


def write(path: Path, keys: list[int], group: int, kind: pa.DataType | None = None) -> str:
    """Write rows with these keys, so many a row group, numbered in the order of the file."""
    table = pa.table({"n": pa.array(range(len(keys))), "key": pa.array(keys, kind or pa.int64())})
    pq.write_table(table, path, row_group_size=group)
    return str(path)


def rows(stream: wb.ShardedStream) -> list[str]:
    return sorted(map(str, stream.to_rows()))


@pytest.fixture
def orders(tmp_path: Path) -> str:
    return write(tmp_path / "orders.parquet", list(range(-60, 60)), 10)


@pytest.fixture
def items(tmp_path: Path) -> str:
    """About in order: row groups touch, and a key may be in two of them."""
    source = random.Random(7)
    keys = sorted(source.randrange(-60, 60) for _ in range(500))
    return write(tmp_path / "items.parquet", keys, 37)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
@pytest.mark.parametrize("group", [1, 3, 7, 1000])
@pytest.mark.parametrize("bounds", [[], [0], BOUNDS, [-100, 0, 3_000_000_000]])
def test_every_row_is_in_the_shard_of_its_key(
    tmp_path: Path, kind: pa.DataType, group: int, bounds: list[int]
) -> None:
    source = random.Random(1)
    keys = [source.randrange(-60, 60) for _ in range(300)]
    path = write(tmp_path / "keys.parquet", keys, group, kind)
    shards = wb.read(path, ranges=("key", bounds))
    assert rows(shards) == rows(wb.read(path))
    # Each shard counts its own rows.
    own = shards.query(lambda q: q.aggregate(least=wb.min("key"), most=wb.max("key"), n=wb.count()))
    edges = [float("-inf"), *bounds, float("inf")]
    expected = []
    for begin, end in zip(edges, edges[1:], strict=False):
        of_shard = [key for key in keys if begin <= key < end]
        expected.append((min(of_shard, default=None), max(of_shard, default=None), len(of_shard)))
    assert [(row.least, row.most, row.n) for row in own.to_rows()] == expected


def test_filters_and_other_columns(items: str) -> None:
    cut = wb.read(items, ranges=("key", BOUNDS))
    for wanted in [
        lambda q: q.where(lambda e: e.n % 7 == 0),
        lambda q: q.where(lambda e: e.key > 35).select("n"),
    ]:
        assert rows(cut.query(wanted)) == rows(wb.read(items).query(wanted))


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_joins_of_the_fluent_program(orders: str, items: str, how: str) -> None:
    def joined(left: wb.ShardedStream, right: wb.ShardedStream, **options: object) -> list[str]:
        return rows(left.query(right, lambda o, i: o.join(i, on="key", how=how, **options)))

    cut = [wb.read(path, ranges=("key", BOUNDS)) for path in (orders, items)]
    assert joined(*cut, colocated=True) == joined(wb.read(orders), wb.read(items))


def test_what_is_cut_elsewhere_does_not_lie_together(orders: str, items: str) -> None:
    left, right = wb.read(orders, ranges=("key", BOUNDS)), wb.read(items, ranges=("key", [-3, 41]))
    with pytest.raises(wb.InvalidError, match="left side lies by ranges of key"):
        left.query(right, lambda o, i: o.join(i, on="key", colocated=True))
    hashed = wb.read(items).rekey("key").redistribute(3)
    with pytest.raises(wb.InvalidError, match="right side by key"):
        left.query(hashed, lambda o, i: o.join(i, on="key", colocated=True))


QUERIES = [
    "select o.n, i.n from orders o join items i on o.key = i.key",
    "select o.n from orders o where exists (select * from items i where i.key = o.key and i.n % 2 = 0)",
    "select o.n from orders o where not exists (select * from items i where i.key = o.key)",
    "select o.n, i.n from orders o left join items i on i.key = o.key and i.n % 3 = 0",
    "select o.n, i.n from orders o full join items i on i.key = o.key and i.n % 3 = 0",
    "select a.n, b.n from items a join items b on a.key = b.key where a.n < b.n",
    "select key, count(*), sum(n) from items group by key",
    "select key % 5, count(distinct key) from items group by key % 5",
    "select key, n, row_number() over (partition by key order by n) from items",
    "select o.n from orders o where o.key in (select key from items group by key having count(*) > 4)",
]


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("shards", [2, 3])
def test_sql_has_the_same_answer(orders: str, items: str, sql: str, shards: int) -> None:
    def answer(shards: int) -> list[str]:
        return rows(wb.sql(f"set shard_rows = 0; {sql}", shards=shards, orders=orders, items=items))

    assert answer(shards) == answer(1)


def test_the_planner_moves_nothing_that_lies_together(orders: str, items: str) -> None:
    tables: dict[str, Any] = {"orders": orders, "items": items}
    query = wb.sql(f"set shard_rows = 0; {QUERIES[0]}", shards=2, **tables)
    assert "by ranges of key" in query.explain()
    assert "redistribute" not in query.explain() and "broadcast" not in query.explain()
    assert 'ranges=("key", [' in query.to_python()
    grouped = wb.sql(f"set shard_rows = 0; {QUERIES[6]}", shards=2, **tables)
    assert "redistribute" not in grouped.explain()
    # A column without order, and one that nothing is joined or grouped by, cut nothing.
    for sql in ("select n % 3, count(*) from items group by n % 3", "select * from items where key > 3"):
        assert "ranges" not in wb.sql(f"set shard_rows = 0; {sql}", shards=2, **tables).explain()


def test_files_in_no_order_are_cut_evenly(tmp_path: Path) -> None:
    source = random.Random(3)
    path = write(tmp_path / "t.parquet", [source.randrange(100) for _ in range(100)], 10)
    query = wb.sql("set shard_rows = 0; select key, count(*) as n from t group by key", shards=2, t=path)
    assert "ranges" not in query.explain()


@pytest.mark.parametrize("keys", [[5] * 100, [1] * 80 + list(range(20))])
def test_a_column_of_few_values_cuts_nothing(tmp_path: Path, keys: list[int]) -> None:
    path = write(tmp_path / "t.parquet", sorted(keys), 10)
    query = wb.sql("set shard_rows = 0; select key, count(*) as n from t group by key", shards=2, t=path)
    assert "ranges" not in query.explain()
    assert sum(row.n for row in query.to_rows()) == 100


def test_what_cannot_be_cut_is_refused(tmp_path: Path, orders: str) -> None:
    with pytest.raises(wb.InvalidError, match="there are 3 ranges for 2 shards"):
        wb.read(orders, shards=2, ranges=("key", BOUNDS))
    with pytest.raises(wb.InvalidError, match="bounds of ranges have to ascend"):
        wb.read(orders, ranges=("key", [4, 4]))
    with pytest.raises(wb.InvalidError, match="key"):
        wb.read(orders, ranges=("kye", BOUNDS))
    texts = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"key": ["a"]}), texts)
    with pytest.raises(wb.InvalidError, match="int32 or int64"):
        wb.read(str(texts), ranges=("key", [1]))
    nulls = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"key": pa.array([1, None])}), nulls)
    with pytest.raises(wb.InvalidError, match="without nulls"):
        wb.read(str(nulls), ranges=("key", [1]))
    (tmp_path / "t.csv").write_text("key\n1\n")
    with pytest.raises(wb.InvalidError, match="local Parquet files"):
        wb.read(str(tmp_path / "t.csv"), ranges=("key", [1]))
