"""Values on their way out of the engine, and tables and patterns at the edges of what they can be."""

from __future__ import annotations

from typing import Any

import pytest

import whimbrel as wb


def test_the_head_of_a_table_is_a_count() -> None:
    table = wb.from_rows([{"a": 1}, {"a": 2}]).collect()
    assert len(table.head(2**70)) == 2 and len(table.head(0)) == 0
    wrongs: list[Any] = [-1, 1.5, "1"]
    for wrong in wrongs:
        with pytest.raises(wb.InvalidError, match="is no count"):
            table.head(wrong)


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
