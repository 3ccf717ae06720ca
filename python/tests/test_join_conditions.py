"""Joins of streams with conditions, equal nulls, and rows of the right side, snapshot by snapshot."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import whimbrel as wb

Life = tuple[int, int, int | None, int]


def lives(seed: int) -> list[Life]:
    chance = random.Random(seed)
    starts = sorted(chance.randrange(40) for _ in range(25))
    keys = [None, 1, 2]
    return [(s, s + chance.randrange(1, 9), chance.choice(keys), chance.randrange(5)) for s in starts]


def source(rows: list[Life], value: str) -> wb.ShardedStream:
    schema = {"from": "int64", "to": "int64", "k": "int64", value: "int64"}
    stream = wb.from_rows(rows, schema=schema, time="from", end="to")
    return stream.query(lambda q: q.select("k", value))


def expected(left: list[Life], right: list[Life], how: str, *, nulls: bool, limit: int | None) -> Any:
    snapshots: dict[int, Counter[Any]] = {}
    for instant in range(60):
        mine = [(k, v) for s, e, k, v in left if s <= instant < e]
        theirs = [(k, v) for s, e, k, v in right if s <= instant < e]

        def partners(one: Any, other: Any) -> bool:
            equal = one[0] == other[0] and (nulls or one[0] is not None)
            return equal and (limit is None or one[1] + other[1] < limit)

        with_partner = [row for row in mine if any(partners(row, other) for other in theirs)]
        alone = [row for row in mine if row not in with_partner]
        rows: list[Any] = [(*row, other[1]) for row in mine for other in theirs if partners(row, other)]
        if how in ("left", "full"):
            rows += [(*row, None) for row in alone]
        if how in ("right", "full"):
            lonely = (other for other in theirs if not any(partners(row, other) for row in mine))
            rows += [(other[0], None, other[1]) for other in lonely]
        if how == "semi":
            rows = with_partner
        if how == "anti":
            rows = alone
        if how == "mark":
            rows = [(*row, row in with_partner) for row in mine]
        if rows:
            snapshots[instant] = Counter(rows)
    return snapshots


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti", "mark"])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("limit", [None, 4])
def test_join(how: Any, nulls: bool, limit: int | None) -> None:
    where = None if limit is None else lambda one, other: one.a + other.b < limit

    def join(one: wb.Stream, other: wb.Stream) -> wb.Stream:
        return one.join(other, on="k", how=how, nulls_equal=nulls, where=where)

    for seed in range(3):
        left, right = lives(seed), lives(seed + 100)
        found: dict[int, Counter[Any]] = {}
        for row in source(left, "a").query(source(right, "b"), join).to_rows():
            values = tuple(dict(row).values())[2:]
            for instant in range(row.start, row.end):
                found.setdefault(instant, Counter())[values] += 1
        assert found == expected(left, right, how, nulls=nulls, limit=limit)
