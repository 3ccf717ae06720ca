"""Expressions mean what the same Python means."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import whimbrel as wb

INTS = st.integers(-(2**31), 2**31)
FLOATS = st.floats(-1e6, 1e6, allow_nan=False)


def values(rows: list[dict[str, Any]], function: Callable[[Any], Any]) -> list[Any]:
    """Compute a function of rows in the engine."""
    return wb.from_rows(rows).query(lambda q: q.select(x=function)).collect(runtime="library")["x"]


@given(st.lists(st.tuples(INTS, INTS.filter(bool)), min_size=1, max_size=20))
def test_division_and_remainder_of_integers(pairs: list[tuple[int, int]]) -> None:
    rows = [{"a": a, "b": b} for a, b in pairs]
    assert values(rows, lambda e: e.a % e.b) == [a % b for a, b in pairs]
    assert values(rows, lambda e: e.a // e.b) == [a // b for a, b in pairs]
    assert values(rows, lambda e: e.a / e.b) == [a / b for a, b in pairs]
    assert values(rows, lambda e: e.a % 7) == [a % 7 for a, _ in pairs]
    assert values(rows, lambda e: e.a % -7) == [a % -7 for a, _ in pairs]
    assert values(rows, lambda e: 100 % e.b) == [100 % b for _, b in pairs]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_remainders_at_the_ends_of_integers(kind: str) -> None:
    ends = np.iinfo(kind)
    numbers = [ends.min, ends.min + 1, -100, -1, 0, 1, 100, ends.max - 1, ends.max]
    pairs = [(a, b) for a in numbers for b in numbers if b not in (0, -1)]
    table = pa.table(
        {name: pa.array(column, kind) for name, column in zip("ab", zip(*pairs, strict=True), strict=True)}
    )
    found = wb.from_arrow(table).query(
        lambda q: q.select(rest=lambda e: e.a % e.b, quotient=lambda e: e.a // e.b)
    )
    assert found.collect()["rest"] == [a % b for a, b in pairs]
    assert found.collect()["quotient"] == [a // b for a, b in pairs]


@given(FLOATS, FLOATS)
def test_arithmetic_of_floats(a: float, b: float) -> None:
    assume(abs(b) > 1e-3)
    rows = [{"a": a, "b": b}]
    assert values(rows, lambda e: e.a + e.b * 2 - 1) == [a + b * 2 - 1]
    assert values(rows, lambda e: e.a / e.b) == [a / b]
    assert values(rows, lambda e: -e.a) == [-a]
    assert values(rows, lambda e: abs(e.a)) == [abs(a)]
    assert values(rows, lambda e: e.a % e.b)[0] == pytest.approx(a % b, abs=1e-6) or abs(a % b - b) < 1e-6


@given(INTS, INTS)
def test_comparisons_and_logic(a: int, b: int) -> None:
    rows = [{"a": a, "b": b}]
    assert values(rows, lambda e: (e.a < e.b) | (e.a == e.b)) == [a <= b]
    assert values(rows, lambda e: ~(e.a >= e.b) & (e.a != 3)) == [a < b and a != 3]
    assert values(rows, lambda e: (e.a > e.b) ^ (e.a > 0)) == [(a > b) ^ (a > 0)]
    assert values(rows, lambda e: e.a & e.b) == [a & b]
    assert values(rows, lambda e: e.a | e.b) == [a | b]
    assert values(rows, lambda e: ~e.a) == [~a]
    assert values(rows, lambda e: e.a.between(0, 10)) == [0 <= a <= 10]
    assert values(rows, lambda e: e.a.isin([b, 1])) == [a in (b, 1)]


def test_power_and_shifts() -> None:
    assert values([{"a": 3}], lambda e: e.a**2) == [9]
    assert values([{"a": 3}], lambda e: e.a << 2) == [12]
    assert values([{"a": 12}], lambda e: e.a >> 2) == [3]


def test_strings() -> None:
    rows = [{"s": "Abc"}]
    assert values(rows, lambda e: e.s + "-" + e.s) == ["Abc-Abc"]
    assert values(rows, lambda e: "x" + e.s) == ["xAbc"]
    assert values(rows, lambda e: e.s.upper() + e.s.lower()) == ["ABCabc"]
    assert values(rows, lambda e: e.s.startswith("A") & e.s.endswith("c")) == [True]


def test_nulls() -> None:
    rows = [{"a": None, "b": 1}, {"a": 2, "b": 1}]
    assert values(rows, lambda e: e.a + e.b) == [None, 3]
    assert values(rows, lambda e: e.a == None) == [True, False]  # noqa: E711
    assert values(rows, lambda e: e.a != None) == [False, True]  # noqa: E711
    assert values(rows, lambda e: e.a.fill_null(0)) == [0, 2]


def test_times() -> None:
    noon = dt.datetime(2013, 5, 17, 12, 30, 15)
    rows = [{"t": noon, "u": noon + dt.timedelta(hours=3)}]
    assert values(rows, lambda e: e.t + dt.timedelta(minutes=5)) == [noon + dt.timedelta(minutes=5)]
    assert values(rows, lambda e: e.u - e.t) == [dt.timedelta(hours=3)]
    assert values(rows, lambda e: (e.u - e.t) > dt.timedelta(hours=2)) == [True]
    assert values(rows, lambda e: e.t < dt.datetime(2014, 1, 1)) == [True]
    parts = values(
        rows, lambda e: wb.fn.make_array(e.t.year, e.t.month, e.t.day, e.t.hour, e.t.minute, e.t.second)
    )
    assert parts == [[2013, 5, 17, 12, 30, 15]]


def test_conditions() -> None:
    rows = [{"a": n} for n in (-1, 0, 5)]
    sign = values(rows, lambda e: wb.when(e.a < 0).then("neg").when(e.a == 0).then("zero").otherwise("pos"))
    assert sign == ["neg", "zero", "pos"]
    assert values(rows, lambda e: wb.when(e.a > 0).then(e.a)) == [None, None, 5]


def test_casts() -> None:
    assert values([{"a": "12"}], lambda e: e.a.cast(int)) == [12]
    assert values([{"a": 1}], lambda e: e.a.cast("string")) == ["1"]
    assert values([{"a": "x"}], lambda e: e.a.cast("int64", strict=False)) == [None]
    with pytest.raises(wb.InvalidError, match="is no type"):
        wb.col("a").cast("integer64")


def test_structs_by_attribute_and_item() -> None:
    rows = [{"a": {"x": 1, "year": 5}}]
    assert values(rows, lambda e: e.a.x) == [1]
    assert values(rows, lambda e: e.a["x"]) == [1]
    assert values(rows, lambda e: e.a.year) == [5]


def test_all_functions_of_the_engine_can_be_called() -> None:
    assert values([{"a": 4.0}], lambda e: wb.fn.sqrt(e.a)) == [2.0]
    assert {"sqrt", "date_trunc", "regexp_like", "array_length", "coalesce"} <= set(dir(wb.fn))
    with pytest.raises(wb.InvalidError, match='did you mean "sqrt"'):
        wb.fn.sqrrt(wb.col("a"))


def test_names_of_columns() -> None:
    assert (wb.col("a") + wb.col("b")).name == "a"
    assert (wb.lit(1) + 1).name == "literal"
    assert (wb.col("a") + 1).alias("c").name == "c"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (wb.col("a") + wb.col("b") * 2, "a + b * 2"),
        ((wb.col("a") + wb.col("b")) * 2, "(a + b) * 2"),
        (wb.col("a") - (wb.col("b") - 1), "a - (b - 1)"),
        ((wb.col("a") > 1) & ~(wb.col("b") == "x"), '(a > 1) & ~(b == "x")'),
        (wb.col("a") % 10, "a % 10"),
        (wb.col("a").cast("int64") + 1, 'a.cast("int64") + 1'),
        (wb.fn.sqrt(wb.col("a")), "sqrt(a)"),
        (wb.col("a").isin([1, 2]) | wb.col("b").between(1, 2), "a.isin([1, 2]) | b.between(1, 2)"),
    ],
)
def test_texts_are_the_python_that_makes_them(expression: wb.Expr, text: str) -> None:
    assert repr(expression) == str(expression) == text
    assert repr(eval(text, {"a": wb.col("a"), "b": wb.col("b"), "sqrt": wb.fn.sqrt})) == text
