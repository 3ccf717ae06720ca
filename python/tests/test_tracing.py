"""Lambdas are traced where that keeps their meaning, and run as black boxes where it would not."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

ROWS = [{"a": 1, "b": 2.5, "s": "x"}, {"a": -4, "b": 0.0, "s": "yz"}, {"a": 7, "b": 9.0, "s": ""}]


def both(function: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Compute a function in the engine, and in Python."""
    stream = wb.from_rows(ROWS)
    engine = stream.query(lambda q: q.select(x=function)).collect()["x"]
    return engine, [function(row) for row in stream.to_rows()]


def is_traced(function: Callable[[Any], Any]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = wb.from_rows(ROWS).query(lambda q: q.select(x=function)).explain()
    untraced = [w for w in caught if issubclass(w.category, wb.UntracedLambdaWarning)]
    return not untraced and " at test_tracing.py:" not in plan


@pytest.mark.parametrize(
    "function",
    [
        lambda e: e.a + e.b,
        lambda e: e["a"] * 2,
        lambda e: e.a % 3,
        lambda e: (e.a > 0) & (e.b > 1),
        lambda e: e.s + "!",
        lambda e: e.s.upper(),
        lambda e: abs(e.a) ** 2,
    ],
)
def test_traced(function: Callable[[Any], Any]) -> None:
    assert is_traced(function)
    engine, python = both(function)
    assert engine == python


@pytest.mark.parametrize(
    "function",
    [
        lambda e: e.a if e.a > 0 else -e.a,
        lambda e: e.a > 0 and e.b > 1,
        lambda e: not e.a > 0,
        lambda e: e.a in (1, 7),
        lambda e: -5 < e.a < 5,
        lambda e: e.a is None,
        lambda e: e.a is None or e.a > 3,
        lambda e: isinstance(e.a, int),
        lambda e: math.floor(e.b),
        lambda e: round(e.b),
        lambda e: len(e.s),
        lambda e: f"{e.a}-{e.s}",
        lambda e: str(e.a),
        lambda e: e.s.strip().title(),
        lambda e: e.s[:1],
        lambda e: {1: "one"}.get(e.a, "other"),
        lambda e: max(e.a, 2),
        lambda e: [n for n in range(3) if n < e.a],
        lambda e: "x" in e.s,
        lambda e: int(e.b) + e.a,
    ],
)
def test_black_boxes_give_what_python_gives(function: Callable[[Any], Any]) -> None:
    assert not is_traced(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wb.UntracedLambdaWarning)
        engine, python = both(function)
    assert engine == python


def test_a_refusal_that_the_function_catches_is_not_lost() -> None:
    def careful(e: Any) -> Any:
        try:
            return float(e.b) + e.a
        except TypeError:
            return e.a

    with pytest.warns(wb.UntracedLambdaWarning):
        engine, python = both(careful)
    assert engine == python


def test_a_constant_that_is_no_constant_is_not_traced() -> None:
    with pytest.warns(wb.UntracedLambdaWarning, match="does not come from its row"):
        wb.from_rows(ROWS).query(lambda q: q.where(lambda e: random.random() < 2))


def test_constants_are_traced() -> None:
    assert is_traced(lambda e: 5)
    engine, _ = both(lambda e: 5)
    assert engine == [5, 5, 5]


def test_one_warning_for_each_place() -> None:
    stream = wb.from_rows(ROWS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            stream.query(lambda q: q.where(lambda e: e.a > 0 and e.b > 1))
        stream.query(lambda q: q.where(lambda e: e.a > 0 and e.b > 2))
    messages = [str(w.message) for w in caught]
    assert len(messages) == 2
    assert all("black box" in m and "Faster: use & | ~" in m and "test_tracing.py" in m for m in messages)
    assert all(w.filename.endswith("test_tracing.py") for w in caught)


def test_udf_is_a_black_box_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = wb.from_rows(ROWS).query(
            lambda q: q.where(wb.udf(lambda e: e.a > 0 and e.b > 1)).select("a")
        )
        assert stream.collect()["a"] == [1, 7]


def test_rows_offer_attributes_items_and_dict() -> None:
    seen: list[Any] = []

    def look(e: Any) -> bool:
        seen.append((e.a, e["b"], e[2], dict(e), list(e), "a" in e, len(e)))
        return True

    wb.from_rows(ROWS[:1]).query(lambda q: q.where(wb.udf(look))).collect()
    assert seen == [(1, 2.5, "x", ROWS[0], [1, 2.5, "x"], True, 3)]


def test_traced_rows_offer_dict_too() -> None:
    rows = wb.from_rows(ROWS).query(lambda q: q.select(lambda e: dict(e, a=e.a * 2))).to_rows()
    assert [dict(row) for row in rows] == [dict(row, a=row["a"] * 2) for row in ROWS]


def test_a_column_named_keys_is_a_column() -> None:
    stream = wb.from_rows([{"keys": 3}])
    assert stream.to_rows()[0].keys == 3
    assert stream.query(lambda q: q.select(x=lambda e: e.keys + 1)).collect()["x"] == [4]


def test_a_black_box_that_returns_a_dict_makes_columns_and_runs_once_a_row() -> None:
    calls: list[int] = []

    def parts(e: Any) -> dict[str, Any]:
        calls.append(e.a)
        return {"sign": "-" if e.a < 0 else "+", "size": float(abs(e.a))}

    rows = [dict(row, t=t) for t, row in enumerate(ROWS)]
    stream = wb.from_rows(rows, time="t").query(lambda q: q.select(wb.udf(parts)))
    assert stream.schema == {"sign": "string", "size": "float64"}
    calls.clear()
    assert [(row.sign, row.size) for row in stream.to_rows()] == [("+", 1.0), ("-", 4.0), ("+", 7.0)]
    assert len(calls) == 3


def test_the_type_of_results_is_found_or_given() -> None:
    stream = wb.from_rows(ROWS)
    assert stream.query(lambda q: q.select(x=wb.udf(lambda e: len(e.s)))).schema == {"x": "int64"}
    assert stream.query(lambda q: q.select(wb.udf(lambda e: 1), returns="float64")).schema == {
        "value": "float64"
    }
    with pytest.raises(wb.InvalidError, match="returns="):
        stream.query(lambda q: q.select(x=wb.udf(lambda e: None)))
    assert (
        stream.query(lambda q: q.select(x=wb.udf(lambda e: None, returns="int64"))).collect()["x"]
        == [None] * 3
    )


def test_a_result_that_does_not_fit_its_type_says_where() -> None:
    stream = wb.from_rows(ROWS).query(lambda q: q.select(x=wb.udf(lambda e: e.s, returns="int64")))
    with pytest.raises(wb.DataError, match="test_tracing.py"):
        stream.collect()


def test_errors_of_black_boxes_have_their_cause() -> None:
    stream = wb.from_rows(ROWS).query(lambda q: q.select(x=wb.udf(lambda e: 1 // (e.a - 7), returns="int64")))
    with pytest.raises(wb.DataError, match="test_tracing.py.*ZeroDivisionError") as caught:
        stream.collect()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_udf_takes_expressions_and_values() -> None:
    @wb.udf(returns="int64")
    def digits(text: str, base: int) -> int:
        return sum(c.isdigit() for c in text) * base

    assert digits("a1b2", 10) == 20
    stream = wb.from_rows([{"s": "a1"}, {"s": "22"}])
    assert stream.query(lambda q: q.select(n=lambda e: digits(e.s, 10))).collect()["n"] == [10, 20]


def test_black_boxes_as_keys_and_aggregates() -> None:
    stream = wb.from_rows(ROWS)
    counted = stream.query(
        lambda q: q.group_apply(
            {"long": wb.udf(lambda e: len(e.s) > 1)},
            lambda g: g.aggregate(n=wb.sum(wb.udf(lambda e: len(e.s)))),
        )
    )
    assert sorted(tuple(dict(row).values()) for row in counted.to_rows()) == [(False, 1), (True, 2)]


def test_lambdas_of_two_arguments_get_the_start(clicks: wb.ShardedStream) -> None:
    stream = clicks.query(
        lambda q: q.select(late=lambda e, start: start - e.time, at=lambda e, start: start + 1)
    )
    assert stream.collect()["at"] == [2, 4, 5, 13, 14, 28]
    assert stream.columns == ["late", "at"]


def test_a_lambda_that_returns_several_where_one_is_wanted() -> None:
    with pytest.raises(wb.InvalidError, match="one value is wanted"):
        wb.from_rows(ROWS).query(lambda q: q.aggregate(n=wb.sum(lambda e: (e.a, e.b))))


def test_functions_of_arrays_are_called_once_a_batch() -> None:
    np = pytest.importorskip("numpy")
    calls = []

    @wb.udf(returns="float64", arrays=True)
    def weighted(price: Any, item: Any) -> Any:
        calls.append(len(price))
        return np.asarray(price) * np.array([len(text.as_py()) for text in item])

    rows = [{"price": float(i), "item": "x" * (i % 4)} for i in range(1000)]
    stream = wb.from_rows(rows).query(lambda q: q.select(w=lambda e: weighted(e.price, e.item)))
    assert stream.collect()["w"] == [i * (i % 4) for i in range(1000)]
    assert len(calls) < 10
    assert sum(calls) == 1000


def test_functions_of_arrays_may_give_any_arrays() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    makers: list[Any] = [
        lambda array: array,
        lambda array: array.to_pylist(),
        pl.Series,
        lambda array: pa.chunked_array([array]),
    ]
    stream = wb.from_rows([{"n": 1}, {"n": None}, {"n": 3}], schema={"n": "int64"})
    for make in makers:
        function = wb.udf(make, returns="int64", arrays=True)
        same = stream.query(lambda q, function=function: q.select(n=lambda e: function(e.n)))
        assert same.collect()["n"] == [1, None, 3]
    floats = wb.udf(lambda a: a, returns="float64", arrays=True)
    assert stream.query(lambda q: q.select(n=lambda e: floats(e.n))).collect()["n"] == [1.0, None, 3.0]


def test_functions_of_arrays_on_streams_and_in_conditions() -> None:
    even = wb.udf(lambda a: [n % 2 == 0 for n in a.to_pylist()], returns="bool", arrays=True)
    events = wb.from_rows([(t, t) for t in range(100)], schema=["time", "n"], time="time")
    windows = events.query(lambda q: q.where(lambda e: even(e.n)).tumbling(10).aggregate(n=wb.count()))
    assert [row.n for row in windows.to_rows()] == [5] * 10
    lists = wb.udf(lambda a: [[n] * n for n in a.to_pylist()], returns="list<int64>", arrays=True)
    few = wb.from_rows([{"n": 0}, {"n": 2}])
    repeated = few.query(lambda q: q.select_many(lambda e: lists(e.n), "m"))
    assert [row.m for row in repeated.to_rows()] == [2, 2]


def test_functions_of_arrays_say_what_is_wrong() -> None:
    stream = wb.from_rows([{"n": 1}, {"n": 2}])
    with pytest.raises(wb.InvalidError, match="say what a function of arrays returns"):
        wb.udf(lambda a: a, arrays=True)
    with pytest.raises(wb.InvalidError, match="give it at least one column"):
        stream.query(lambda q: q.select(x=lambda e: wb.udf(lambda a: a, returns="int64", arrays=True)(4)))
    with pytest.raises(wb.InvalidError, match="takes arrays, not rows"):
        stream.query(lambda q: q.select(x=wb.udf(lambda a: a, returns="int64", arrays=True)))
    for function, why in [
        (lambda a: a[:1], "1 values for 2 rows"),
        (lambda a: 1 // 0, "ZeroDivisionError"),
        (lambda a: 7, "."),
        (lambda a: ["x", "y"], "."),
        (lambda a: {1, 2}, "returned set: an array or a list is wanted"),
        (lambda a: "12", "returned str"),
    ]:
        wrong = wb.udf(function, returns="int64", arrays=True)
        with pytest.raises(wb.WhimbrelError, match=why):
            stream.query(lambda q, wrong=wrong: q.select(x=lambda e: wrong(e.n))).collect()
