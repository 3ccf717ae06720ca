"""Values on their way out of the engine, and tables and patterns at the edges of what they can be."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import whimbrel as wb


@pytest.mark.parametrize(
    ("zone", "instant"),
    [
        ("Asia/Tokyo", "9999-12-31 23:59:59+00"),
        ("America/New_York", "0001-01-01 00:00:00+00"),
    ],
)
def test_an_instant_whose_local_year_python_lacks_is_a_number(zone: str, instant: str) -> None:
    row = wb.sql(f"set timezone = '{zone}'; select timestamptz '{instant}' as x").to_rows()[0]
    assert isinstance(row.x, int)


def test_a_map_is_a_dict() -> None:
    pa = pytest.importorskip("pyarrow")
    assert wb.sql("select map {'a': 1, 'b': null} as m").to_rows()[0].m == {"a": 1, "b": None}
    pairs = pa.array([[([1], "x")], None], pa.map_(pa.list_(pa.int64()), pa.string()))
    assert [row.m for row in wb.from_arrow(pa.table({"m": pairs})).to_rows()] == [[([1], "x")], None]


def test_a_row_has_no_number_as_a_column() -> None:
    row: Any = wb.from_rows([{"a": 1}]).to_rows()[0]
    assert 1 not in row and None not in row and "a" in row


def test_the_head_of_a_table_is_a_count() -> None:
    table = wb.from_rows([{"a": 1}, {"a": 2}]).collect()
    assert len(table.head(2**70)) == 2 and len(table.head(0)) == 0
    wrongs: list[Any] = [-1, 1.5, "1"]
    for wrong in wrongs:
        with pytest.raises(wb.InvalidError, match="is no count"):
            table.head(wrong)


def test_tables_and_schemas_are_pickled() -> None:
    pa = pytest.importorskip("pyarrow")
    times = pa.array([1, 2], pa.timestamp("ns", "Asia/Tokyo"))
    table = wb.from_arrow(pa.table({"a": [1, None], "t": times, "s": [{"x": [1]}, None]})).collect()
    again = pickle.loads(pickle.dumps(table))
    assert again == table and again.to_arrow() == table.to_arrow()
    assert pickle.loads(pickle.dumps(table.schema)) == table.schema


def test_an_index_of_pandas_with_the_name_of_a_column_is_refused() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1]}, index=pd.Index([2], name="a"))
    with pytest.raises(wb.InvalidError, match='"a" is the name of a column and of the index'):
        wb.from_pandas(frame)


def test_wide_decimals_are_not_handed_to_polars() -> None:
    pa = pytest.importorskip("pyarrow")
    wide = wb.from_arrow(pa.table({"a": pa.array([1], pa.decimal256(50, 2))})).collect()
    with pytest.raises(wb.InvalidError, match="at most 38 digits"):
        wide.to_polars()


def test_a_pattern_is_as_long_as_wanted_and_not_too_deep() -> None:
    rows = wb.from_rows([(1, 5), (2, 6)], schema=["t", "a"], time="t")
    long = wb.event(lambda e: e.a > 5)
    for _ in range(300):
        long = long.then(wb.event(lambda e: e.a > 5))
    assert rows.query(lambda q: q.detect(long, within=10)).to_rows() == []
    deep = wb.event(lambda e: e.a > 5)
    for _ in range(5_000):
        deep = deep.plus()
    with pytest.raises(wb.InvalidError, match="more than 100 deep"):
        rows.query(lambda q: q.detect(deep, within=10))
