"""Errors say what happened, where, and what to do; nothing is lost by them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import whimbrel as wb


def inside(clicks: wb.ShardedStream) -> Any:
    """Give the stream that a query works on."""
    found: list[Any] = []
    clicks.query(lambda q: found.append(q) or q)
    return found[0]


@pytest.mark.parametrize(
    "query",
    [
        lambda q: q.where(lambda e: e.itme == "a"),
        lambda q: q.where(wb.col("itme") == "a"),
        lambda q: q.select("itme"),
        lambda q: q.drop("itme"),
        lambda q: q.rename({"itme": "what"}),
        lambda q: q.aggregate(n=wb.sum("itme")),
        lambda q: q.group_apply("itme", lambda g: g.aggregate(n=wb.count())),
        lambda q: q.join(q, on="itme"),
    ],
)
def test_a_wrong_column_gets_the_nearest_right_one(
    clicks: wb.ShardedStream, query: Callable[[Any], Any]
) -> None:
    with pytest.raises(
        wb.InvalidError, match='"itme" not found; did you mean .*"item".* columns: time, item, price'
    ):
        clicks.query(query)


def test_a_wrong_key_or_time_column(clicks: wb.ShardedStream) -> None:
    with pytest.raises(wb.InvalidError, match='"itme" not found; did you mean'):
        clicks.rekey("itme")
    with pytest.raises(wb.InvalidError, match='"tiem" not found; did you mean .*"time"'):
        wb.from_rows([{"time": 1}], time="tiem")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda q: q.where(lambda e: e.price), "where: price is float64, not boolean"),
        (lambda q: q.aggregate(n=wb.sum("item")), r"sum\(item\)"),
        (lambda q: q.select(x=lambda e: e.item * 2), r"item \* 2"),
        (lambda q: q.select_many("item"), "item is .*, not a list"),
        (lambda q: q.join(q, on=lambda e: {"k": e.item}, how="outer"), "how is one of inner, left"),
        (lambda q: q.union(q.select("item")), "price|time"),
        (lambda q: q.select("item", item=lambda e: e.price), '"item"'),
        (lambda q: q.aggregate(), "at least one aggregate"),
        (lambda q: q.aggregate(n=5), "not an aggregate"),
        (lambda q: q.sort("item"), "sort"),
        (lambda q: None, "has to return a stream, not NoneType; is a return missing"),
        (lambda q: q.join(5, on="item"), "a stream is wanted"),
        (lambda q: q.join(q, on="item", left_on="item"), "either on="),
        (lambda q: q.join(q, left_on="item"), "go together"),
    ],
)
def test_wrong_calls(clicks: wb.ShardedStream, query: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        clicks.query(query)


@pytest.mark.parametrize("verb", ["tumbling", "sliding", "session", "alter_duration", "clip"])
@pytest.mark.parametrize("length", [0, -5])
def test_windows_of_no_length(clicks: wb.ShardedStream, verb: str, length: int) -> None:
    with pytest.raises(wb.InvalidError, match="positive|duration"):
        clicks.query(lambda q: getattr(q, verb)(length))


@pytest.mark.parametrize(
    ("length", "message"),
    [
        ("5m", "logical clock"),
        ("five", "five"),
        (timedelta(seconds=1), "logical clock"),
        (1.5, "1.5 is no duration"),
        (True, "True is no duration"),
        (None, "None is no duration"),
    ],
)
def test_bad_durations_on_a_logical_clock(clicks: wb.ShardedStream, length: Any, message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        clicks.query(lambda q: q.tumbling(length))


@pytest.mark.parametrize("length", [5, "5", "5 parsecs", "1ns", "0s", "-1m", timedelta(0)])
def test_bad_durations_on_timestamps(length: Any) -> None:
    import datetime

    stream = wb.from_rows([{"t": datetime.datetime(2020, 1, 1)}], time="t")
    with pytest.raises(wb.InvalidError):
        stream.query(lambda q: q.tumbling(length))


def test_a_window_that_is_closed_on_both_sides(clicks: wb.ShardedStream) -> None:
    with pytest.raises(wb.InvalidError, match="closed is"):
        clicks.query(lambda q: q.hopping(10, hop=5, closed="both"))  # pyright: ignore[reportArgumentType]


def test_temporal_verbs_need_a_time(items: wb.ShardedStream) -> None:
    for query in (lambda q: q.tumbling(5), lambda q: q.shift(1), lambda q: q.point_at_end()):
        with pytest.raises(wb.InvalidError, match="time="):
            items.query(query)
    with pytest.raises(wb.InvalidError, match="no time"):
        items.to_events()


def test_unsorted_rows_under_raise_lose_nothing() -> None:
    rows = [(1, "a"), (9, "b"), (5, "c")]
    stream = wb.from_rows(rows, schema=["t", "x"], time="t")
    with pytest.raises(wb.DataError, match="disorder|reorder") as caught:
        stream.collect()
    assert "5" in str(caught.value)
    mended = wb.from_rows(rows, schema=["t", "x"], time="t", reorder_latency=4)
    assert [row.x for row in mended.to_rows()] == ["a", "c", "b"]


def test_a_truncated_parquet_file(tmp_path: Path) -> None:
    import polars

    good = tmp_path / "good.parquet"
    polars.DataFrame({"t": range(1000)}).write_parquet(good)
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(wb.DataError, match=r"bad\.parquet.*truncated|truncated.*bad\.parquet"):
        wb.read(bad).collect()
    assert len(wb.read(good).collect()) == 1000


def test_files_that_are_not_there_or_differ(tmp_path: Path) -> None:
    import polars

    with pytest.raises(wb.DataError, match="nothing-here"):
        wb.read(tmp_path / "nothing-here-*.parquet")
    polars.DataFrame({"a": [1]}).write_parquet(tmp_path / "1.parquet")
    polars.DataFrame({"b": ["x"]}).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(wb.WhimbrelError, match=r"2\.parquet"):
        wb.read(tmp_path / "*.parquet").collect()


def test_wrong_settings_of_sources() -> None:
    rows = [{"t": 1}]
    with pytest.raises(wb.InvalidError, match="no setting disordr="):
        wb.from_rows(rows, time="t", disordr="drop")
    with pytest.raises(wb.InvalidError, match="disorder is one of raise, adjust, drop"):
        wb.from_rows(rows, time="t", disorder="throw")
    with pytest.raises(wb.InvalidError, match="give the column with time="):
        wb.from_rows(rows, disorder="drop")
    with pytest.raises(wb.InvalidError, match="at least 1"):
        wb.from_rows(rows, shards=0)
    with pytest.raises(wb.InvalidError, match="reorder_latency"):
        wb.from_rows(rows, time="t", reorder_latency=-1)
    with pytest.raises(wb.InvalidError, match="cannot tell time"):
        wb.from_rows([{"t": "noon"}], time="t")


def test_rows_that_make_no_table() -> None:
    with pytest.raises(wb.InvalidError, match="row 1 holds a string where the rows before hold int64"):
        wb.from_rows([{"a": 1}, {"a": "x"}])
    with pytest.raises(wb.InvalidError, match="column \"a\": row 0 holds 'x', which is no int64"):
        wb.from_rows([{"a": "x"}], schema={"a": "int64"})
    with pytest.raises(wb.InvalidError, match="tuples have no names"):
        wb.from_rows([(1, 2)])
    with pytest.raises(wb.InvalidError, match="no rows"):
        wb.from_rows([])
    with pytest.raises(wb.InvalidError, match="is no Arrow table"):
        wb.from_arrow([1, 2])  # pyright: ignore[reportArgumentType]
    with pytest.raises(wb.InvalidError, match="event 0 is a int"):
        wb.from_events([5])  # pyright: ignore[reportArgumentType]


def test_shards_that_do_not_meet(clicks: wb.ShardedStream) -> None:
    two = clicks.reshard(2)
    with pytest.raises(wb.InvalidError, match=r"1 shards and the right one 2"):
        clicks.query(two, lambda a, b: a.union(b))
    with pytest.raises(wb.InvalidError, match="rekey"):
        clicks.redistribute(2)
    with pytest.raises(wb.InvalidError, match="2 shards and 1 files"):
        two.to_binary_stream([object()])


def test_settings() -> None:
    with pytest.raises(wb.InvalidError, match="runtime is"):
        wb.config(runtime="cluster")  # pyright: ignore[reportArgumentType]
    with pytest.raises(wb.InvalidError, match="shards has to be at least 1"):
        wb.config(shards=0)
    with wb.config(shards=3, batch_rows=7) as settings:
        assert wb.from_rows([{"a": 1}]).reshard().shards == 3
        assert "shards=3" in repr(settings)
    assert "shards=None" in repr(wb.config())


def test_the_kinds_of_errors() -> None:
    for kind in (
        wb.InvalidError,
        wb.DataError,
        wb.ResourceExhaustedError,
        wb.UnavailableError,
        wb.ConflictError,
        wb.InternalError,
    ):
        assert issubclass(kind, wb.WhimbrelError)
    assert issubclass(wb.InvalidError, ValueError)


def test_messages_show_dates_where_time_is_a_timestamp() -> None:
    early, late = datetime(2013, 1, 1, 5, 17), datetime(2013, 1, 1, 5, 18)
    with pytest.raises(
        wb.DataError, match="its time is 2013-01-01T05:17:00, after the time 2013-01-01T05:18:00"
    ):
        wb.from_rows([{"t": late}, {"t": early}], time="t").to_rows()
    with pytest.raises(
        wb.DataError, match="ends at 2013-01-01T05:17:00, not after its start 2013-01-01T05:18:00"
    ):
        wb.from_rows([{"t": late, "u": early}], time="t", end="u").to_rows()
    minute = 60_000_000
    backwards = wb.from_rows([{"t": early}, {"t": late}], time="t").query(
        lambda q: q.alter_lifetime(lambda s: 3 * (1_357_017_480_000_000 + minute) - 2 * s, "1m")
    )
    with pytest.raises(wb.DataError, match="moved a row to 2013-01-01T05:21:00, before 2013-01-01T05:23:00"):
        backwards.to_rows()
    with pytest.raises(wb.DataError, match="its time is 1, after the time 2"):
        wb.from_rows([{"t": 2}, {"t": 1}], time="t").to_rows()


def bounded_query(_: object) -> wb.bounded.Query:
    db = wb.bounded.open("memory:")
    db.execute("create table t (id int primary key)")
    return db.prepare("select * from t where id = ?")


@pytest.mark.parametrize(
    ("thing", "name", "message"),
    [
        (lambda s: s, "filter", r"use .query\(lambda q: q.where"),
        (lambda s: s, "where", r"use .query\(lambda q: q.where"),
        (lambda s: s, "group_by", r"use .rekey\(key\).query\(lambda q: q.aggregate"),
        (lambda s: s, "collet", r"did you mean .collect\?"),
        (lambda s: s, "order_by", r"use .query\(lambda q: q.sort"),
        (inside, "filter", r"use .where\(lambda e"),
        (inside, "group_by", r"use .group_apply\(key, lambda g"),
        (inside, "to_rows", r"it is what the lambda of .query\(…\) works on"),
        (inside, "agregate", r"did you mean .aggregate\?"),
        (lambda s: s.collect(), "item", r"use table\['item'\]"),
        (lambda s: s.collect(), "to_list", r"use .to_rows\(\)"),
        (lambda s: s.collect(), "num_row", r"did you mean .num_rows\?"),
        (lambda s: wb.col("x"), "is_in", r"use .isin\("),
        (lambda s: wb.col("x"), "sqrt", r"use the function wb.fn.sqrt"),
        (lambda s: wb.col("x"), "strip", r"use wb.fn.btrim"),
        (lambda s: wb.col("x"), "is_nul", r"did you mean .is_null\?"),
        (lambda s: wb, "read_csv", r"use wb.read\(path\)"),
        (lambda s: wb, "from_row", r"did you mean wb.from_rows\?"),
        (lambda s: wb, "averge", r"did you mean wb.a"),
        (lambda s: wb, "row_number", r"use wb.agg.row_number"),
        (lambda s: wb, "to_timestamp", r"use wb.fn.to_timestamp"),
        (lambda s: s, "wher", r"did you mean .query\(lambda q: q.where\(…\)\)\?"),
        (lambda s: s, "filtr", r"use .query\(lambda q: q.where"),
        (inside, "filtr", r"use .where\(lambda e"),
        (lambda s: s.collect(), "filter", r"wb.from_arrow\(table\).query\(lambda q: q.where"),
        (lambda s: s.collect(), "sort", r"wb.from_arrow\(table\).query\(lambda q: q.sort"),
        (lambda s: wb.sum("a"), "filter", r"use the argument where="),
        (lambda s: wb.sum("a"), "where", r"use the argument where="),
        (lambda s: s.subscribe(print), "wai", r"did you mean .wait\?"),
        (lambda s: s.subscribe(print), "cancel", r"use .stop\(\)"),
        (lambda s: wb.from_rows([{"a": 1}]).maintain(), "snapshoot", r"did you mean .snapshot\?"),
        (lambda s: wb.from_rows([{"a": 1}]).maintain(), "to_rows", r"use .snapshot\(\)"),
        (lambda s: wb.bounded, "opn", r"did you mean wb.bounded.open\?"),
        (lambda s: wb.bounded, "connect", r"use wb.bounded.open"),
        (lambda s: wb.cluster, "connct", r"did you mean wb.cluster.connect\?"),
        (lambda s: wb.bounded.open("memory:"), "prepar", r"did you mean .prepare\?"),
        (lambda s: wb.bounded.open("memory:"), "query", r"use .execute\(sql"),
        (bounded_query, "execute", r"use a call of it"),
        (lambda s: bounded_query(s)(1), "to_rows", r"use the page itself"),
        (lambda s: bounded_query(s)(1), "curser", r"did you mean .cursor\?"),
    ],
)
def test_a_wrong_attribute_gets_the_right_one(
    clicks: wb.ShardedStream, thing: Callable[[Any], Any], name: str, message: str
) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(thing(clicks), name)


def test_a_wrong_setting_gets_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"config has no argument shard=; did you mean shards=\?"):
        wb.config(shard=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"config has no argument theads=; there are runtime=, shards="):
        wb.config(theads=1)  # pyright: ignore[reportCallIssue]


def test_attributes_that_libraries_look_for_are_not_there(clicks: wb.ShardedStream) -> None:
    for thing in (clicks, inside(clicks), clicks.collect(), wb.col("x"), wb, wb.sum("x"), wb.bounded):
        for name in ("_ipython_display_", "__array__", "__dataframe__", "_repr_png_"):
            assert not hasattr(thing, name), (thing, name)
