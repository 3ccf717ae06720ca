"""Tables in from and out to other libraries."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whimbrel as wb

UTC = dt.timezone.utc
ROWS: list[dict[str, Any]] = [
    {
        "bool": True,
        "int": 2**40,
        "float": 0.5,
        "string": "é",
        "bytes": b"\x00x",
        "date": dt.date(2013, 5, 17),
        "naive": dt.datetime(2013, 5, 17, 1, 2, 3, 4),
        "aware": dt.datetime(2013, 5, 17, 1, 2, 3, 4, tzinfo=UTC),
        "time": dt.time(1, 2, 3, 4),
        "delta": dt.timedelta(days=-1, microseconds=5),
        "decimal": decimal.Decimal("1.25"),
        "list": [1, None, 3],
        "struct": {"a": 1, "b": "x"},
    },
]
ROWS.append(dict.fromkeys(ROWS[0]))


def test_python_values_come_back_as_they_were() -> None:
    assert [dict(row) for row in wb.from_rows(ROWS).to_rows()] == ROWS


@pytest.mark.parametrize("make", [pa.Table.from_pylist, pl.DataFrame], ids=["pyarrow", "polars"])
def test_tables_of_other_libraries_come_in(make: Callable[[Any], Any]) -> None:
    assert [dict(row) for row in wb.from_arrow(make(ROWS)).to_rows()] == ROWS


def test_from_polars_and_back() -> None:
    frame = pl.DataFrame({"t": [1, 2, 3], "x": ["a", None, "c"]})
    assert wb.from_polars(frame).to_polars().equals(frame)
    assert wb.from_polars(frame.lazy()).to_polars().equals(frame)
    assert pl.DataFrame(wb.from_polars(frame)).equals(frame)


def test_from_pandas_and_back() -> None:
    frame = pd.DataFrame({"t": [1, 2, 3], "x": ["a", None, "c"]})
    pd.testing.assert_frame_equal(wb.from_pandas(frame).to_pandas(), frame)
    indexed = frame.set_index("t")
    assert wb.from_pandas(indexed).columns == ["t", "x"]
    assert wb.from_pandas(frame[frame.t > 1]).columns == ["t", "x"]


def test_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"t": [1, 2], "x": ["a", None]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(pd.DataFrame, "__arrow_c_stream__", _no_pyarrow)
    stream = wb.from_pandas(frame)
    assert [dict(row) for row in stream.to_rows()] == [{"t": 1, "x": "a"}, {"t": 2, "x": None}]
    assert stream.to_pandas().equals(frame)
    assert isinstance(stream.to_arrow(), wb.Table)


def _no_pyarrow(self: Any, requested_schema: object = None) -> object:
    raise ImportError("pyarrow")


def test_to_arrow_is_pyarrow_where_it_is_installed() -> None:
    table = wb.from_rows(ROWS).to_arrow()
    assert isinstance(table, pa.Table)
    assert pa.table(table).to_pylist() == ROWS


def test_a_stream_is_a_table_for_whoever_speaks_arrow() -> None:
    stream = wb.from_rows([{"a": 1}, {"a": 2}])
    assert pa.table(stream)["a"].to_pylist() == [1, 2]
    relation = duckdb.query("select sum(a) from stream")
    assert relation is not None and relation.fetchall() == [(3,)]


def test_arrow_comes_in_without_a_copy() -> None:
    column = pa.array(range(1000), type=pa.int64())
    batch = pa.record_batch({"a": column})
    out = pa.table(wb.from_arrow(pa.table({"a": column})).collect(runtime="library"))["a"].chunk(0)
    assert out.buffers()[1].address == column.buffers()[1].address
    assert wb.from_arrow(batch).collect()["a"] == list(range(1000))


def test_schemas() -> None:
    schema = wb.from_rows(ROWS).schema
    assert pa.schema(schema) == pa.schema(pa.table(wb.from_rows(ROWS)).schema)
    assert list(schema) == list(ROWS[0])
    assert schema["aware"] == "timestamp[us, UTC]"
    for name in [
        "int64",
        "string",
        "timestamp[ns]",
        "list[int64]",
        "struct[a: int64, b: list[string]]",
        "decimal[9, 2]",
    ]:
        assert wb.from_rows([], schema={"x": name}).schema == {"x": name}
    for kind, name in [(int, "int64"), (str, "string"), (dt.datetime, "timestamp[us]"), (pa.int8(), "int8")]:
        assert wb.from_rows([], schema={"x": kind}).schema == {"x": name}
    assert wb.live(pa.schema({"a": pa.int32()})).schema == {"a": "int32"}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_all_units_and_zones(unit: str, zone: str | None) -> None:
    kind = pa.timestamp(unit, zone)  # pyright: ignore[reportCallIssue, reportArgumentType]
    naive = dt.datetime(2013, 5, 17, 12)
    given = pa.array([naive if zone is None else naive.replace(tzinfo=UTC)], type=kind)
    stream = wb.from_arrow(pa.table({"t": given}), time="t")
    assert stream.time == (f"timestamp[{unit}]" if zone is None else f"timestamp[{unit}, {zone}]")
    row = stream.query(lambda q: q.tumbling("1h").aggregate(n=wb.count())).to_rows()[0]
    expected = naive + dt.timedelta(hours=1)
    assert row.start == (expected if zone is None else expected.replace(tzinfo=UTC))
    assert pa.table(stream.collect()).schema.field("start").type == kind


def test_other_rows() -> None:
    import collections
    import dataclasses

    @dataclasses.dataclass
    class Click:
        item: str
        price: float

    Pair = collections.namedtuple("Pair", ["item", "price"])
    for rows in ([Click("a", 1.5)], [Pair("a", 1.5)], [{"item": "a", "price": 1.5}]):
        assert [dict(row) for row in wb.from_rows(rows).to_rows()] == [{"item": "a", "price": 1.5}]
    numbers = wb.from_rows([{"x": np_value} for np_value in pd.Series([1, 2])])
    assert numbers.schema == {"x": "int64"}


def test_tables() -> None:
    table = wb.from_rows([{"a": n, "b": str(n)} for n in range(25)]).collect()
    assert (len(table), table.num_rows, table.columns) == (25, 25, ["a", "b"])
    assert table["a"] == list(range(25))
    assert table.head(2).to_dict() == {"a": [0, 1], "b": ["0", "1"]}
    assert [row.a for row in table] == list(range(25))
    assert table == wb.from_arrow(table).collect()
    assert table != table.head(3)
    assert table.nbytes > 0
    with pytest.raises(wb.InvalidError, match='"c" not found'):
        table["c"]


def test_binary_streams_are_arrow_ipc() -> None:
    files = [io.BytesIO(), io.BytesIO()]
    rows = wb.from_rows([{"a": n} for n in range(10)], shards=2)
    rows.to_binary_stream(files)
    tables = [pyarrow.ipc.open_stream(file.getvalue()).read_all() for file in files]
    assert [n for table in tables for n in table["a"].to_pylist()] == list(range(10))


def test_storage_and_back(tmp_path: Any, clicks: wb.ShardedStream) -> None:
    counted = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    paths = counted.to_storage(tmp_path / "counts")
    assert len(paths) == counted.shards
    again = wb.read(str(tmp_path / "counts" / "*.parquet"), time="start", end="end")
    assert [(r.start, r.end, r.n) for r in again.to_rows()] == [
        (r.start, r.end, r.n) for r in counted.to_rows()
    ]
    with pytest.raises(wb.InvalidError, match="already"):
        counted.to_storage(tmp_path / "counts")
    assert counted.to_storage(tmp_path / "counts", replace=True) == paths


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_files_of_all_formats(tmp_path: Any, suffix: str) -> None:
    frame = pl.DataFrame({"t": [1, 2, 3], "x": ["a", "b", "c"]})
    path = tmp_path / f"x.{suffix}"
    {"parquet": frame.write_parquet, "csv": frame.write_csv, "arrow": frame.write_ipc}[suffix](path)
    assert [(r.t, r.x) for r in wb.read(path).to_rows()] == [(1, "a"), (2, "b"), (3, "c")]
    assert [r.start for r in wb.read([path], time="t").to_rows()] == [1, 2, 3]


scalars = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
texts = st.one_of(st.none(), st.text(max_size=8))
instants = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)).map(lambda t: t.replace(fold=0))
times = st.one_of(st.none(), instants)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(scalars, st.floats(), texts, times, st.lists(scalars, max_size=3)), min_size=1, max_size=20
    )
)
def test_any_rows_go_in_and_come_out(rows: list[tuple[Any, ...]]) -> None:
    schema = {"i": "int64", "f": "float64", "s": "string", "t": "timestamp[us]", "l": "list[int64]"}
    out = [tuple(row[name] for name in schema) for row in wb.from_rows(rows, schema=schema).to_rows()]
    assert repr(out) == repr(rows)


def test_intervals_are_told_in_words() -> None:
    day = wb.sql("select interval '1 day' as i")
    assert "1 day" in day.to_rows()[0].i
    day.show()
    with pytest.raises(wb.InvalidError, match='"i" is interval, for which polars has no type'):
        day.to_polars()


def test_a_column_of_polars_needs_a_type() -> None:
    with pytest.raises(wb.InvalidError, match='column "a" has no type, only nulls'):
        wb.from_polars(pl.DataFrame({"a": [None, None]}))
