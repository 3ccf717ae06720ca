"""Pivots and unpivots, of streams and relations, against plain Python."""

from __future__ import annotations

import random
from typing import Any

import pytest

import whimbrel as wb

SCHEMA = ["time", "device", "what", "value"]


def readings(seed: int, count: int = 80) -> list[tuple[int, str, str, int | None]]:
    chance = random.Random(seed)
    times = sorted(chance.choices(range(60), k=count))
    value = [chance.choice([None, *range(9)]) for _ in times]
    return [(t, chance.choice("xy"), chance.choice("abc"), v) for t, v in zip(times, value, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_a_pivot_aggregates_the_rows_of_each_value(seed: int) -> None:
    rows = readings(seed)

    def wide(q: wb.Stream) -> wb.Stream:
        return q.tumbling(10).group_apply(
            "device",
            lambda g: g.pivot(
                "what",
                ["a", "b"],
                n=wb.count(),
                top=wb.max("value", where=lambda e: e.value > 2),
                low=wb.min("value", where=wb.col("value") > 2),
            ),
        )

    expected = []
    for end in range(10, 71, 10):
        for device in "xy":
            here = [r for r in rows if end - 10 <= r[0] < end and r[1] == device]
            columns: list[Any] = []
            for what in "ab":
                values = [v for _, _, w, v in here if w == what and v is not None and v > 2]
                columns += [sum(w == what for _, _, w, _ in here)]
                columns += [max(values, default=None), min(values, default=None)]
            if here:
                expected.append((end, end + 10, device, *columns))
    stream = wb.from_rows(rows, schema=SCHEMA, time="time")
    assert sorted(map(tuple, stream.query(wide).to_rows())) == sorted(expected)


def test_a_pivot_of_a_relation_with_names_for_values() -> None:
    table = wb.from_rows(readings(1), schema=SCHEMA)
    result = table.query(lambda q: q.pivot("what", {"first": "a", "other": "z"}, wb.count())).to_rows()
    assert [tuple(row) for row in result] == [(sum(r[2] == "a" for r in readings(1)), 0)]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("time", [None, "time"])
def test_an_unpivot_has_a_row_of_each_value(time: str | None, nulls: bool) -> None:
    rows = [(i, i % 3, None if i % 2 else i, 10 * i) for i in range(20)]
    table = wb.from_rows(rows, schema=dict.fromkeys(("time", "k", "a", "b"), "int64"), time=time)
    result = table.query(lambda q: q.unpivot("a", "b", name="what", value="n", nulls=nulls)).to_rows()
    expected = [
        (t, k, what, n) for t, k, a, b in rows for what, n in (("a", a), ("b", b)) if nulls or n is not None
    ]
    assert sorted((tuple(row)[-4:] for row in result), key=str) == sorted(expected, key=str)


def test_what_cannot_be_reshaped() -> None:
    table = wb.from_rows([(1, "a", 2)], schema=["n", "what", "value"])
    for query, message in [
        (lambda q: q.pivot("what", [], wb.count()), "values"),
        (lambda q: q.pivot("what", ["a"]), "one aggregate"),
        (lambda q: q.pivot("what", ["a"], wb.count(), n=wb.count()), "one aggregate"),
        (lambda q: q.pivot("wath", ["a"], wb.count()), "what"),
        (lambda q: q.unpivot(), "columns"),
        (lambda q: q.unpivot("x"), 'no column "x"'),
        (lambda q: q.unpivot("n", name="what"), '"what" already'),
        (lambda q: q.unpivot("n", "what", value="v"), "cast"),
    ]:
        with pytest.raises(wb.WhimbrelError, match=message):
            table.query(query).to_rows()
