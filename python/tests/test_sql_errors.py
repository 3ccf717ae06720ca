"""Files that are missing, broken, of wrong columns, or that change: errors name the file and the column."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import whimbrel as wb

ROWS = pa.table({"item": ["a", "b", "c", "a"] * 2000, "price": [1.5, 2.5, None, 4.0] * 2000})
OTHER = pa.table({"item": ["x"] * 50, "cost": [1] * 50})
RETYPED = pa.table({"item": ["x"] * 50, "price": ["cheap"] * 50})

QUERY = "select item, sum(price) as total from t group by item order by item"


def write_parquet(table: pa.Table, path: Path) -> None:
    pyarrow.parquet.write_table(table, path, row_group_size=1000)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": write_parquet,
    "csv": lambda table, path: pyarrow.csv.write_csv(table, path),
    "arrow": lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed"),
}

FORMATS = pytest.mark.parametrize("suffix", WRITERS)


@pytest.fixture
def path(tmp_path: Path, suffix: str) -> Path:
    """A file of this format that is in order."""
    file = tmp_path / f"clicks.{suffix}"
    WRITERS[suffix](ROWS, file)
    return file


@FORMATS
def test_a_file_in_order(path: Path) -> None:
    expected = [("a", 11000.0), ("b", 5000.0), ("c", None)]
    rows = wb.sql(QUERY, t=path).to_rows()
    assert [(row.item, row.total) for row in rows] == expected


@FORMATS
def test_a_missing_file(tmp_path: Path, suffix: str) -> None:
    missing = tmp_path / f"nowhere.{suffix}"
    with pytest.raises((wb.DataError, wb.InvalidError), match=f"nowhere.{suffix}"):
        wb.sql(f"select * from '{missing}'")
    with pytest.raises((wb.DataError, wb.InvalidError), match=f"nowhere.{suffix}"):
        wb.sql("select * from t", t=missing)


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    with pytest.raises((wb.DataError, wb.InvalidError), match="part-"):
        wb.sql(f"select * from '{tmp_path}/part-*.parquet'")


def test_a_name_that_is_no_table() -> None:
    with pytest.raises(wb.InvalidError, match='(?s)no table "clicsk".*"clicks"'):
        wb.sql("select * from clicsk", clicks=[{"a": 1}])


@FORMATS
def test_an_empty_file(tmp_path: Path, suffix: str) -> None:
    empty = tmp_path / f"empty.{suffix}"
    empty.touch()
    with pytest.raises(wb.DataError, match=f"empty.{suffix}"):
        wb.sql("select * from t", t=empty).collect()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("keep", [0.05, 0.5, 0.99])
def test_a_truncated_file(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(wb.DataError, match=path.name):
        wb.sql(QUERY, t=path).collect()


@pytest.mark.parametrize("suffix", ["parquet"])
def test_a_damaged_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)
    path.write_bytes(bytes(content))
    with pytest.raises(wb.DataError, match=path.name):
        wb.sql(QUERY, t=path).collect()


@FORMATS
def test_a_file_that_is_something_else(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"noise.{suffix}"
    file.write_bytes(bytes(range(128, 256)) * 20)
    with pytest.raises(wb.DataError, match=f"noise.{suffix}"):
        wb.sql("select * from t", t=file).collect()


@FORMATS
@pytest.mark.parametrize(("other", "column"), [(OTHER, "cost|price"), (RETYPED, "price")])
def test_files_of_different_columns(path: Path, other: pa.Table, column: str, suffix: str) -> None:
    WRITERS[suffix](other, path.with_name(f"more.{suffix}"))
    with pytest.raises((wb.DataError, wb.InvalidError), match=f"(?s)(clicks|more).{suffix}") as caught:
        wb.sql(f"select * from '{path.parent}/*.{suffix}'").collect()
    assert any(name in str(caught.value) for name in column.split("|"))


def test_a_value_that_does_not_fit_its_column(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    numbers = "\n".join(str(number) for number in range(30_000))
    file.write_text(f"item,price\n{'x,1'}\n" + numbers.replace("\n", ",1\n") + ",1\nlast,cheap\n")
    with pytest.raises(wb.DataError, match=r"(?s)prices\.csv.*price|price.*prices\.csv") as caught:
        wb.sql("select sum(price) as total from t", t=file).collect()
    assert "cheap" in str(caught.value)


def test_a_row_with_too_few_values(tmp_path: Path) -> None:
    file = tmp_path / "ragged.csv"
    file.write_text("item,price\na,1\nb\n")
    with pytest.raises(wb.DataError, match=r"ragged\.csv"):
        wb.sql("select * from t", t=file).collect()


@FORMATS
@pytest.mark.parametrize("other", [OTHER, RETYPED, ROWS.slice(0, 500)])
def test_a_file_that_was_replaced_after_planning(path: Path, other: pa.Table, suffix: str) -> None:
    query = wb.sql(QUERY, t=path)
    WRITERS[suffix](other, path)
    with pytest.raises(wb.DataError, match=path.name) as caught:
        query.collect()
    if "price" not in other.column_names:
        assert "price" in str(caught.value)


@FORMATS
def test_a_file_that_was_truncated_after_planning(path: Path) -> None:
    query = wb.sql(QUERY, t=path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(wb.DataError, match=path.name):
        query.collect()


@FORMATS
def test_a_file_that_was_removed_after_planning(path: Path) -> None:
    query = wb.sql(QUERY, t=path)
    path.unlink()
    with pytest.raises(wb.DataError, match=path.name):
        query.collect()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select itme from t", '(?s)itme.*"item".*line 1: .*\n +\\^'),
        ("select item, sum(prize) from t group by item", '(?s)prize.*"price"'),
        ("selec item from t", "(?s)syntax.*line 1"),
        ("select item from t where", "(?s)syntax"),
        ("select item from t; select", "(?s)syntax|select"),
        ("select sum(item) from t", "sum"),
        ("select nosuch(item) from t", "nosuch"),
        ("select item, price from t group by item", "price"),
        ("select 1 +\n  itme\nfrom t", r"(?s)itme.*line 2:   itme\n +\^"),
    ],
)
def test_wrong_queries_point_at_the_place(sql: str, message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        wb.sql(sql, t=ROWS)


def test_a_value_that_cannot_be_cast() -> None:
    with pytest.raises(wb.DataError, match="(?i)'?a'?.*(int|cast)"):
        wb.sql("select cast(item as int) as n from t", t=ROWS).collect()


def test_what_is_no_table() -> None:
    with pytest.raises(wb.InvalidError, match="t is a float, which is no table"):
        wb.sql("select * from t", t=1.5)


def test_a_failed_query_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "clicks.parquet"
    write_parquet(ROWS, file)
    before = file.read_bytes()
    with pytest.raises(wb.WhimbrelError):
        wb.sql("select cast(item as int) as n from t", t=file).collect()
    assert file.read_bytes() == before
    assert wb.sql("select count(*) as n from t", t=file).to_rows()[0].n == ROWS.num_rows
