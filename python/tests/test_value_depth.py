"""Values that are deep, or contain themselves, on their way into the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def in_itself(kind: type) -> Any:
    value: Any = kind()
    if kind is dict:
        value["a"] = value
    else:
        value.append(value)
    return value


WAYS_IN: list[Callable[[Any], Any]] = [
    lambda value: wb.from_rows([{"a": value}]),
    lambda value: wb.from_rows([(value,)], schema=["a"]),
    lambda value: wb.lit(value),
    lambda value: wb.values([{"a": value}]),
    lambda value: wb.col("a").isin([value]),
    lambda value: wb.sql("select $1 as a", parameters=[value]),
    lambda value: wb.sql("select $a as a", parameters={"a": value}),
    lambda value: wb.from_events([wb.interval(1, 2, {"a": value})]),
    lambda value: wb.from_rows([(1,)], schema=["a"]).query(lambda q: q.select(b=wb.lit(value))),
]


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    "value",
    [in_itself(list), in_itself(dict), nested(101), nested(50_000)],
    ids=["list", "dict", "deep", "deepest"],
)
def test_a_value_that_is_too_deep_is_refused(way: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(wb.InvalidError, match="100 deep inside one another, or one contains itself"):
        way(value)


def test_a_row_in_itself_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="contains itself"):
        wb.from_rows([in_itself(dict)])


def test_a_type_that_is_too_deep_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="at most 100 lists and structs"):
        wb.from_rows([], schema={"a": "list[" * 100_000 + "int64" + "]" * 100_000})


def test_a_value_of_some_depth_is_taken() -> None:
    assert wb.from_rows([{"a": nested(40)}]).to_rows()[0].a == nested(40)
