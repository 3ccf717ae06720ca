"""`wb.sql`: what can be a table, what comes out, what is said of what is wrong."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import whimbrel as wb

ROWS = [{"item": "a", "price": 1}, {"item": "b", "price": 2}, {"item": "a", "price": 3}]
TOTALS = [{"item": "a", "total": 4}, {"item": "b", "total": 2}]
QUERY = "select item, sum(price) as total from t group by item order by item"


def rows(query: str, **tables: Any) -> list[dict[str, Any]]:
    """What a query gives."""
    return [dict(row) for row in wb.sql(query, **tables).to_rows()]


def frame() -> pl.DataFrame:
    return pl.DataFrame(ROWS)


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        pd.DataFrame(ROWS),
        pa.Table.from_pylist(ROWS),
        wb.from_rows(ROWS),
        wb.from_rows(ROWS, shards=3),
    ],
    ids=["rows", "polars", "lazy", "pandas", "arrow", "stream", "shards"],
)
def test_what_can_be_a_table(table: object) -> None:
    assert rows(QUERY, t=table) == TOTALS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame().write_parquet(tmp_path / "t.parquet")
    frame().write_csv(tmp_path / "t.csv")
    frame().write_csv(tmp_path / "t.tsv", separator="\t")
    frame().write_ndjson(tmp_path / "t.jsonl")
    pyarrow.feather.write_feather(
        frame().to_arrow(compat_level=pl.CompatLevel.oldest()),
        tmp_path / "t.arrow",
        compression="uncompressed",
    )
    return tmp_path


SUFFIXES = ["parquet", "csv", "tsv", "jsonl", "arrow"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shards", [None, 1, 3])
def test_files_by_name(folder: Path, suffix: str, shards: int | None) -> None:
    path = folder / f"t.{suffix}"
    assert rows(QUERY.replace("from t", f"from '{path}'"), shards=shards) == TOTALS
    assert rows(QUERY, t=path, shards=shards) == TOTALS
    assert rows(f"select count(*) as n from '{path}'", shards=shards) == [{"n": 3}]


def test_patterns_and_folders(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(3):
        frame().write_parquet(many / f"part-{number}.parquet")
    for name in (many, f"{many}/*.parquet", f"{many}/part-?.parquet"):
        assert rows(f"select count(*) as n from '{name}'") == [{"n": 9}]


def test_formats_may_be_told(folder: Path) -> None:
    plain = folder / "plain.txt"
    plain.write_text("a;1\nb;2\n")
    made = f"""
        create external table t(item varchar, price bigint) stored as csv location '{plain}'
        with (header = false, delimiter = ';');
        select * from t order by item
    """
    assert rows(made) == [{"item": "a", "price": 1}, {"item": "b", "price": 2}]
    assert rows(f"select sum(price) as total from read_csv('{folder}/t.csv')") == [{"total": 6}]


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Files, and parts of files, which the standard library's server does not give."""

    def send_head(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, end = 0, len(content) - 1
        status = 200
        wanted = self.headers.get("Range")
        if wanted:
            start, _, last = wanted.removeprefix("bytes=").partition("-")
            first, end = int(start), min(int(last), end) if last else end
            status = 206
        part = content[first : end + 1]
        self.send_response(status)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    handler = functools.partial(Ranges, directory=str(folder))
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_address[1]}"
    served.shutdown()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_behind_urls(server: str, suffix: str) -> None:
    assert rows(QUERY.replace("from t", f"from '{server}/t.{suffix}'")) == TOTALS


def test_a_large_file_behind_a_url(server: str, folder: Path) -> None:
    pl.DataFrame({"a": range(300_000), "b": [str(n) for n in range(300_000)]}).write_parquet(
        folder / "large.parquet", row_group_size=50_000
    )
    for shards in (1, 3):
        query = f"select count(*) as n, sum(a) as s from '{server}/large.parquet'"
        assert rows(query, shards=shards) == [{"n": 300_000, "s": sum(range(300_000))}]


def test_a_missing_file_behind_a_url(server: str) -> None:
    with pytest.raises(wb.DataError, match=r"nowhere\.parquet"):
        wb.sql(f"select * from '{server}/nowhere.parquet'")


def test_rows_that_a_change_hands_out() -> None:
    made = "create table t (k int primary key, v text); insert into t values (1, 'a')"
    assert rows(f"{made}; insert into t values (2, 'b') returning k + 1 as next, v") == [
        {"next": 3, "v": "b"}
    ]
    merged = "insert into t values (1, 'z') on conflict (k) do update set v = v || excluded.v returning v"
    assert rows(f"{made}; {merged}") == [{"v": "az"}]
    assert rows(f"{made}; delete from t") == [{"done": "1 row"}]


def test_statements_before_the_query() -> None:
    script = """
        create table t(a int, b varchar);
        insert into t values (1, 'x'), (2, null);
        create view v as select a * 10 as c from t where b is null;
        select * from v
    """
    assert rows(script) == [{"c": 20}]
    assert rows("create table t(a int); show tables") == [{"name": "t", "kind": "table"}]
    plan = wb.sql("explain select item from t", t=ROWS).to_rows()
    assert any("read" in row.plan for row in plan)


def test_a_query_is_a_stream_to_go_on_with() -> None:
    doubled = wb.sql("select item, price * 2 as price from t", t=ROWS)
    assert rows(QUERY, t=doubled.query(lambda q: q.where(lambda e: e.price > 2))) == [
        {"item": "a", "total": 6},
        {"item": "b", "total": 4},
    ]


def test_a_stream_with_time_is_aggregated_by_windows() -> None:
    clicks = wb.from_rows([(1, "a"), (3, "b"), (12, "a")], schema=["time", "item"], time="time")
    query = """
        select window_start, window_end, count(*) as n
        from tumble(table clicks, descriptor(time), 10) group by window_start, window_end
    """
    found = [(row.window_start, row.window_end, row.n) for row in wb.sql(query, clicks=clicks).to_rows()]
    assert found == [(0, 10, 2), (10, 20, 1)]


def test_a_timed_external_table(tmp_path: Path) -> None:
    path = tmp_path / "late.parquet"
    pq.write_table(pa.table({"time": pa.array([1_000_000, 4_000_000, 2_000_000], pa.timestamp("us"))}), path)
    script = f"""
        create external table late stored as parquet location '{path}'
            with (time = 'time', disorder = '5 seconds');
        select * from late
    """
    stream = wb.sql(script)
    assert stream.time == "timestamp[us]"
    assert [row.time.second for row in stream.to_rows()] == [1, 2, 4]


def test_the_place_of_a_mistake_is_shown() -> None:
    with pytest.raises(wb.InvalidError) as caught:
        wb.sql("select item,\n  prise from t", t=ROWS)
    assert str(caught.value) == (
        'column "prise" not found; did you mean "price"? columns: item, price\n'
        "line 2:   prise from t\n          ^^^^^"
    )


@pytest.mark.parametrize("wrong", [3, object(), None])
def test_what_is_no_table(wrong: object) -> None:
    with pytest.raises(wb.InvalidError, match="t is a .*, which is no table"):
        wb.sql("select 1", t=wrong)


def test_shards_have_to_be_some() -> None:
    with pytest.raises(wb.InvalidError, match="shards"):
        wb.sql("select 1", shards=0)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "int64"),
        (-(2**63) + 1, "int64"),
        (2**64 - 1, "uint64"),
        (1.5, "float64"),
        (float("inf"), "float64"),
        (1e-300, "float64"),
        (True, "bool"),
        ("it's; -- $1 ?", "string"),
        ("", "string"),
        (b"\x00'\xff", "binary"),
        (Decimal("-1.50"), "decimal"),
        (date(2024, 2, 29), "date"),
        (datetime(2024, 2, 29, 1, 2, 3, 456789), "timestamp"),
        (time(1, 2, 3, 4), "time"),
        ([1, 2, 3], "list[int64]"),
        (["a", "b'"], "list[string]"),
        ([], "list"),
    ],
)
@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("select $1 as v", lambda v: [v]),
        ("select ? as v", lambda v: [v]),
        ("select $v as v", lambda v: {"v": v}),
        ("select :v as v", lambda v: {"v": v}),
    ],
)
def test_parameters_are_values(value: Any, kind: str, text: str, wrap: Any) -> None:
    query = wb.sql(text, parameters=wrap(value))
    assert query.schema["v"].startswith(kind)
    found = query.to_rows()[0].v
    assert found == value and isinstance(found, type(value))


def test_a_parameter_may_be_null() -> None:
    assert wb.sql("select $1 is null as n, coalesce($1, 5) as v", parameters=[None]).to_rows() == [
        {"n": True, "v": 5}
    ]


def test_parameters_in_all_places() -> None:
    clicks = [{"item": "a", "price": n} for n in range(10)]
    text = """
        create table dear as select * from clicks where price >= ?;
        select item, price + ? as more from dear where item in (?, 'b') order by price limit ?
    """
    assert [row.more for row in wb.sql(text, parameters=[3, 100, "a", 2], clicks=clicks).to_rows()] == [
        103,
        104,
    ]
    query = wb.sql(
        "select count(*) as n from clicks where price < :most and price <> :most - 1",
        parameters={"most": 5},
        clicks=clicks,
    )
    assert query.to_rows()[0].n == 4
    assert [way.stream.to_rows()[0].n for way in query.candidates()] == [4] * len(query.candidates())
    listed = "select ? < any([1, null]) as less, ? = any(?) as among, ? > all(?) as greater"
    rows = wb.sql(listed, parameters=[0, 2, [1, 2], 3, [1, 2]]).to_rows()
    assert rows == [{"less": True, "among": True, "greater": True}]
    prepared = "prepare p as select $1 + 1 as n; execute p($1)"
    assert wb.sql(prepared, parameters=[41]).to_rows() == [{"n": 42}]


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("select $2", [1], "there is no parameter 2; 1 were given"),
        ("select ?, ?", [1], "there is no parameter 2; 1 were given"),
        ("select $x", {"y": 1}, "there is no parameter x; there are: y"),
        ("select 1", [1], "no place for the parameter 1"),
        ("select $a", {"a": 1, "b": 2}, "no place for the parameter b"),
        ("select $1", {1}, "parameters is a list of values"),
        ("select $1", "x", "parameters is a list of values"),
        ("select $1", [{"a": 1}], "a parameter cannot be a"),
        ("select $1", [object()], "object"),
    ],
)
def test_parameters_without_a_place_and_places_without_a_value(
    text: str, parameters: Any, message: str
) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        wb.sql(text, parameters=parameters)


def test_arithmetic_of_one_side_is_computed_below_a_join() -> None:
    decimal = "decimal[15, 2]"
    lines = wb.from_rows(
        [(i % 7, Decimal(i), Decimal(i % 10) / 100, i) for i in range(50)],
        schema={"o": "int64", "price": decimal, "discount": decimal, "n": "int64"},
    )
    orders = wb.from_rows([(i, f"order {i}") for i in range(7)], schema={"id": "int64", "name": "string"})
    sql = "select name, {} as amount from lines join orders on o = id"
    moved = wb.sql(sql.format("price * (1 - discount)"), lines=lines, orders=orders)
    assert "__early_0 = " in moved.explain()
    expected = [(f"order {i % 7}", Decimal(i) * (1 - Decimal(i % 10) / 100)) for i in range(50)]
    assert sorted((row.name, row.amount) for row in moved.to_rows()) == sorted(expected)
    # A sum of integers may be too large, and a column that is read anyway would be carried beside the result.
    for kept in ("n * n + n", "price * (1 - discount) as a, price, discount, price"):
        assert "__early" not in wb.sql(sql.format(kept), lines=lines, orders=orders).explain()
