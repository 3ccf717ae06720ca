"""What crosses the boundary to the engine and back: values as they are, errors of our own classes."""

from __future__ import annotations

import copy
import ctypes
import pickle
from collections import namedtuple
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import whimbrel as wb

# Panics.


class Broken:
    """Arrow data whose array is not what its schema says."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        import pyarrow as pa

        schema, _ = pa.array([{"a": "x"}]).__arrow_c_array__()
        _, array = pa.array([1]).__arrow_c_array__()
        return schema, array


BROKEN: Any = Broken()
NUMBER: Any = 5


def test_a_panic_is_an_internal_error() -> None:
    with pytest.raises(wb.WhimbrelError):
        wb.from_arrow(BROKEN).to_rows()
    # As PyO3 raises it: the class is called with the message.
    panic = ctypes.pythonapi.PyErr_SetObject
    panic.argtypes = [ctypes.py_object, ctypes.py_object]
    panic.restype = None
    kind = _panic_exception()
    told = "the engine panicked: at work. This is a bug in Whimbrel: please report it"
    with pytest.raises(wb.InternalError) as raised:
        raise kind("at work")
    assert str(raised.value) == told
    with pytest.raises(wb.InternalError) as raised:
        panic(kind, ("at work",))
    assert str(raised.value) == told


def _panic_exception() -> Any:
    classes = [each for each in BaseException.__subclasses__() if each.__name__ == "PanicException"]
    mine = [each for each in classes if isinstance(each("x"), wb.InternalError)]
    assert mine, "the native half has not replaced its PanicException"
    return mine[0]


# Rows.


def a_row() -> Any:
    return wb.from_rows([{"item": "a", "price": 1.5, "none": None}]).to_rows()[0]


def test_a_row_unpacks_into_its_values() -> None:
    item, price, none = a_row()
    assert (item, price, none) == ("a", 1.5, None)
    assert list(a_row()) == ["a", 1.5, None] and tuple(a_row())[0] == "a"
    assert dict(a_row()) == {"item": "a", "price": 1.5, "none": None} == {**a_row()}
    assert "item" in a_row() and "a" not in a_row() and len(a_row()) == 3
    assert sorted(a_row().keys()) == ["item", "none", "price"]


def test_a_traced_row_unpacks_as_a_row_of_values_does() -> None:
    def traced(e: Any) -> Any:
        item, price = e
        return item, price * 2

    clicks = wb.from_rows([{"item": "a", "price": 1.5}])
    assert clicks.query(lambda q: q.select(traced)).to_rows() == [{"item": "a", "price": 3.0}]

    @wb.udf(returns="float64")
    def black(row: Any) -> Any:
        _, price = row
        return price * 2

    assert clicks.query(lambda q: q.select(x=black)).to_rows() == [{"x": 3.0}]


VALUES = {
    "text": "a",
    "whole": 2**63 - 1,
    "float": float("inf"),
    "none": None,
    "list": [1, None, 3],
    "empty": [],
    "struct": {"a": 1, "b": ["x"]},
    "bytes": b"\x00\xff",
    "day": date(2024, 2, 29),
    "instant": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=timezone.utc),
    "length": timedelta(days=-1, microseconds=3),
    "decimal": Decimal("1.50"),
    "truth": True,
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_rows_are_pickled_by_value(protocol: int) -> None:
    [row] = wb.from_rows([VALUES]).to_rows()
    again = pickle.loads(pickle.dumps(row, protocol))
    assert isinstance(again, wb.Row) and again == row and dict(again) == VALUES
    assert pickle.loads(pickle.dumps(again, protocol)) == row
    assert copy.copy(row) == row and copy.deepcopy(row) == row
    assert again.day == VALUES["day"] and again[0] == "a" and repr(again) == repr(row)
    many = wb.from_rows([{"n": n, "s": "x" * 100} for n in range(10_000)]).to_rows()
    assert len(pickle.dumps(many[:10], protocol)) < 3_000


def test_a_row_is_made_of_names_and_values() -> None:
    assert wb.Row(["a", "b"], [1, "x"]) == {"a": 1, "b": "x"}
    with pytest.raises(wb.InvalidError, match="1 values for the columns a, b"):
        wb.Row(["a", "b"], [1])


@pytest.mark.parametrize(
    ("thing", "remedy"),
    [
        (lambda: wb.live({"a": "int64"}), "give the plan a table or files"),
        (lambda: wb.col("a") + 1, "send the function"),
    ],
)
def test_what_cannot_be_pickled_says_what_to_do(thing: Callable[[], Any], remedy: str) -> None:
    made = thing()
    with pytest.raises(wb.InvalidError, match=remedy):
        pickle.dumps(made)
    assert repr(copy.copy(made)) == repr(made)
    if not isinstance(made, wb.LiveStream):
        assert repr(copy.deepcopy(made)) == repr(made)


# Rows that come in.


def test_no_value_of_an_event_is_lost() -> None:
    rows = wb.from_events([wb.interval(1, 3, (1, 5))], schema=["v", "w"]).to_rows()
    assert rows == [{"start": 1, "end": 3, "v": 1, "w": 5}]
    point = namedtuple("point", ["w", "v"])
    assert wb.from_events([wb.interval(1, 3, point(1, 5))], schema=["v", "w"]).to_rows()[0].v == 5
    assert wb.from_events([wb.interval(1, 3, point(1, 5))]).to_rows()[0].v == 5
    assert wb.from_events([wb.interval(1, 3, 7)]).to_rows()[0].value == 7
    assert wb.from_events([wb.interval(1, 3, 7)], schema=["v"]).to_rows()[0].v == 7
    assert wb.from_events([wb.interval(1, 3, [1, 5])], schema=["v"]).to_rows()[0].v == [1, 5]
    edges = [wb.start_edge(1, (1, "a")), wb.end_edge(1, 4, (1, "a")), wb.punctuation(9)]
    assert wb.from_events(edges, schema={"v": int, "w": str}).to_rows()[0].w == "a"


@pytest.mark.parametrize(
    ("event", "schema", "message"),
    [
        ((1, 5), None, "tuples have no names"),
        ((1, 5), ["v"], r"\(1, 5\) has 2 values, and there are 1 columns: v"),
        ((1,), ["v", "w"], r"has 1 values, and there are 2 columns"),
        ({"v": 1, "x": 2}, ["v", "w"], '"x", which is none of: v, w'),
        (7, ["v", "w"], '"value", which is none of: v, w'),
    ],
)
def test_a_value_of_an_event_without_a_column(event: Any, schema: Any, message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        wb.from_events([wb.interval(1, 3, event)], schema=schema)
    if schema is not None:
        live = wb.live_events(dict.fromkeys(schema, "int64"))
        with pytest.raises(wb.InvalidError, match=message):
            live.push([wb.interval(1, 3, event)])


def test_events_that_were_reported_are_taken_again() -> None:
    events = wb.from_events([wb.start_edge(1, (1, "a")), wb.end_edge(1, 4, (1, "a"))], schema=["v", "w"])
    again = wb.from_events(events.to_events())
    assert again.to_rows() == events.to_rows() == [{"start": 1, "end": 4, "v": 1, "w": "a"}]


def test_events_are_pushed_as_they_are_given() -> None:
    live = wb.live_events({"v": "int64", "w": "string"})
    live.push([wb.interval(1, 3, (1, "a")), wb.interval(2, 4, {"w": "b"})])
    live.close()
    assert [(row.v, row.w) for row in live.to_rows()] == [(1, "a"), (None, "b")]


@pytest.mark.parametrize("rows", [[(1, 2, 3)], [[1, 2, 3]], [{"a": 1, "c": 3}]])
def test_a_value_of_a_row_without_a_column(rows: list[Any]) -> None:
    with pytest.raises(wb.InvalidError, match='a row of 3 values for 2 columns: a, b|"c" is none of'):
        wb.from_rows(rows, schema=["a", "b"])
    with pytest.raises(wb.InvalidError, match='a row of 3 values for 2 columns: a, b|"c" is none of'):
        wb.values(rows, schema=["a", "b"])


def test_a_row_is_pushed_again() -> None:
    live = wb.live({"item": "string", "price": "float64"})
    [row] = wb.from_rows([{"item": "a", "price": 1.5}]).to_rows()
    live.push(row)
    live.push([row, pickle.loads(pickle.dumps(row))])
    live.close()
    assert live.to_rows() == [row] * 3


# Errors.


@pytest.mark.parametrize(
    "call",
    [
        lambda: wb.from_rows([1, 2]),
        lambda: wb.from_rows([None]),
        lambda: wb.from_rows([object()], schema=["a"]),
        lambda: wb.from_rows([{"a": 2**70}]),
        lambda: wb.from_rows([{"a": 2**70}], schema={"a": "int64"}),
        lambda: wb.from_rows([{"a": -(2**64)}]),
        lambda: wb.lit(2**70),
        lambda: wb.col("a") + 2**70,
        lambda: wb.from_events([wb.interval(1, 2**70, {"a": 1})]),
        lambda: wb.from_rows([{"t": 1}], time="t").query(lambda q: q.tumbling(2**70)),
        lambda: wb.from_rows([{"t": 1}], time="t").query(lambda q: q.tumbling(timedelta.max)),
        lambda: wb.from_rows([{"t": 1}], time="t").query(lambda q: q.limit(-1)),
        lambda: wb.from_rows([{"a": 1}]).query(lambda q: q.limit(-1)),
        lambda: wb.from_rows([{"a": 1}]).query(lambda q: q.limit(2**70)),
        lambda: wb.from_rows([{"a": 1}]).query(lambda q: q.limit(1, -1)),
        lambda: wb.from_rows([{"a": 1}]).rekey("a").redistribute(2**70),
        lambda: wb.from_rows([{"a": 1}], shards=2**70),
        lambda: wb.from_rows([{"t": 1}], time="t", punctuate_rows=-1),
        lambda: wb.from_rows([{"t": 1}], time="t", batch_rows=2**70),
        lambda: wb.from_rows([{"a": 1}]).to_rows(batch_rows=2**70),
        lambda: wb.from_rows([{"a": 1}]).show(2**70),
        lambda: wb.live({"t": "int64"}, time="t").advance(2**70),
        lambda: wb.from_polars(5),
        lambda: wb.from_pandas(5),
        lambda: wb.from_arrow(NUMBER),
        lambda: wb.from_arrow(BROKEN),
        lambda: wb.sql("select 1", parameters=NUMBER),
        lambda: wb.sql("select $1", parameters=[object()]),
    ],
)
def test_errors_are_of_our_own_classes(call: Callable[[], Any]) -> None:
    with pytest.raises(wb.WhimbrelError):
        call()


def test_seconds_that_are_no_number() -> None:
    live = wb.live({"t": "int64"}, time="t")
    with live.subscribe(lambda row: None) as subscription:
        assert subscription.wait(float("nan")) is False
        assert subscription.wait(-1) is False


# Values of other libraries.


def test_numbers_of_numpy_are_durations() -> None:
    np = pytest.importorskip("numpy")
    clock = wb.from_rows([{"t": 3}], time="t")
    for ten in (np.int64(10), np.uint8(10), np.int32(10)):
        assert clock.query(lambda q, ten=ten: q.tumbling(ten)).to_rows()[0].start == 10
    day = wb.from_rows([{"t": datetime(2024, 1, 1)}], time="t")
    for length in (np.timedelta64(1, "D"), np.timedelta64(24, "h"), np.timedelta64(86_400 * 10**9, "ns")):
        assert day.query(lambda q, length=length: q.tumbling(length)).to_rows()[0].start == datetime(
            2024, 1, 2
        )
    nanos = wb.from_rows([{"t": 5}], schema={"t": "timestamp[ns]"}, time="t")
    assert nanos.query(lambda q: q.tumbling(np.timedelta64(1, "ns"))).collect().num_rows == 1
    for wrong in (np.timedelta64("NaT"), np.timedelta64(1, "M"), np.bool_(True), np.float64(1.5), 1.5, True):
        with pytest.raises(wb.InvalidError):
            clock.query(lambda q, wrong=wrong: q.tumbling(wrong))


def test_lengths_of_pandas_have_their_nanoseconds() -> None:
    pd = pytest.importorskip("pandas")
    nanos = wb.from_rows([{"t": 5}], schema={"t": "timestamp[ns]"}, time="t")
    shifted = nanos.query(lambda q: q.shift(pd.Timedelta(3, "ns")).with_start("s"))
    assert shifted.query(lambda q: q.select(s=lambda e: e.s.cast("int64"))).to_rows()[0].s == 8


def test_instants_of_numpy_and_pandas() -> None:
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    instant = datetime(2024, 1, 2, 3, 4, 5)
    for unit in ("s", "ms", "us", "ns"):
        rows = wb.from_rows([{"t": np.datetime64(instant, unit)}, {"t": np.datetime64("NaT")}])
        assert rows.schema == {"t": "timestamp[us]"}
        assert [row.t for row in rows.to_rows()] == [instant, None]
        rows = wb.from_rows([(np.datetime64(instant, unit),)], schema={"t": "timestamp[ms]"})
        assert rows.to_rows()[0].t == instant
    assert wb.from_rows([{"d": np.datetime64("2024-01-02")}]).to_rows()[0].d == date(2024, 1, 2)
    assert wb.from_rows([{"d": np.timedelta64(90, "s")}]).to_rows()[0].d == timedelta(seconds=90)
    assert wb.from_rows([{"t": pd.NaT}, {"t": pd.Timestamp(instant)}]).to_rows()[1].t == instant
    assert wb.from_rows([{"n": pd.NA}, {"n": 1}]).to_rows()[0].n is None
    with pytest.raises(wb.InvalidError, match="parts of a microsecond"):
        wb.from_rows([{"t": np.datetime64(1, "ns")}])


def test_objects_of_polars_are_refused() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1], "o": pl.Series([object()], dtype=pl.Object)})
    for take in (wb.from_polars, wb.from_arrow, lambda frame: wb.sql("from t", t=frame)):
        with pytest.raises(wb.InvalidError, match='"o" holds Python objects'):
            take(frame)
    with pytest.raises(wb.InvalidError, match='"o" holds Python objects'):
        wb.live({"a": "int64", "o": "string"}).push(frame)


def test_mixed_columns_of_pandas_are_refused_in_words() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(wb.InvalidError, match="cannot be taken as an Arrow table"):
        wb.from_pandas(pd.DataFrame({"a": [1, "x", object()]}))


@pytest.mark.parametrize("values", [["a", "b", "a"], ["a", None, "b"], [None, None, "a"]])
def test_dictionaries_become_categories(values: list[Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    keys = pa.array([0, 1, 2, None, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, pa.array(values))
    frame = wb.from_arrow(pa.table({"c": column, "n": [1, 2, 3, 4, 5]})).to_pandas()
    assert str(frame["c"].dtype) == "category"
    expected = [values[0], values[1], values[2], None, values[1]]
    assert [None if each != each else each for each in frame["c"].astype(object)] == expected


# Functions that a query calls.


@pytest.mark.parametrize("form", ["rows", "tables", "events"])
@pytest.mark.parametrize("runtime", ["local", "library"])
def test_a_query_does_not_wait_for_itself(form: Any, runtime: Any) -> None:
    live = wb.live({"t": "int64"}, time="t")
    waited: list[Any] = []

    def callback(_: Any) -> None:
        waited.append(subscription.wait())

    subscription = live.subscribe(callback, form=form, runtime=runtime)
    live.push([(1,)])
    live.close()
    with pytest.raises(wb.DataError, match="it would wait for itself"):
        subscription.wait()
    assert waited == []


def test_a_query_may_wait_for_another_one() -> None:
    first, second = wb.live({"t": "int64"}, time="t"), wb.live({"t": "int64"}, time="t")
    seen: list[Any] = []
    inner = first.subscribe(seen.append)
    outer = second.subscribe(lambda row: seen.append(inner.wait()))
    first.push([(1,)])
    first.close()
    second.push([(2,)])
    second.close()
    assert outer.wait() and [seen[0].t, seen[1]] == [1, True]


def test_a_view_does_not_wait_for_itself() -> None:
    live = wb.live({"item": "string"})
    counts = wb.sql("select item, count(*) as n from c group by item", c=live)
    view = counts.maintain(lambda table: view.wait())
    live.push([("a",)])
    live.close()
    with pytest.raises(wb.DataError, match="it would wait for itself"):
        view.wait()
