"""What the author of a query asserts of its rows: checked, and used by what follows."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb


def until(condition: Callable[[], Any]) -> None:
    """Wait for something that a thread of the query does."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ascending(rows: int, seed: int, keys: int = 40) -> list[tuple[int, int | None, int]]:
    """Rows whose times and keys never decrease; the keys of the last ones are null."""
    dice = random.Random(seed)
    times = sorted(dice.randrange(100) for _ in range(rows))
    known = sorted(dice.randrange(keys) for _ in range(rows - 3))
    return [(t, k, n) for n, (t, k) in enumerate(zip(times, [*known, None, None, None], strict=True))]


def stream(rows: list[tuple[int, int | None, int]], value: str) -> wb.ShardedStream:
    return wb.from_rows(rows, schema={"at": "int64", "id": "int64", value: "int64"}, time="at")


def plain(q: Any) -> Any:
    return q


def sorted_by_id(q: Any) -> Any:
    return q.require_sorted("id")


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
@pytest.mark.parametrize("lifetime", [math.inf, 1, 20])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_join_of_sorted_streams_is_the_same_join(how: Any, lifetime: float, shards: int) -> None:
    def both(required: Callable[[Any], Any]) -> list[Any]:
        def joined(a: Any, b: Any) -> Any:
            a, b = (required(side).alter_duration(lifetime) for side in (a, b))
            return a.join(b, on="id", how=how)

        moved = left, right
        if shards > 1:
            moved = left.rekey("id").redistribute(shards), right.rekey("id").redistribute(shards)
        return sorted(moved[0].query(moved[1], joined).to_rows(), key=repr)

    for seed in range(4):
        left, right = stream(ascending(60, seed), "a"), stream(ascending(50, seed + 100), "b")
        assert both(sorted_by_id) == both(plain)


KEYS = {
    "int8": pa.array([-128, -1, -1, 0, 127, None], pa.int8()),
    "uint64": pa.array([0, 1, 1, 1 << 63, (1 << 64) - 1], pa.uint64()),
    "bool": pa.array([False, False, True, None]),
    "float64": pa.array([-math.inf, -0.0, 0.0, 0.0, math.inf, math.nan, -math.nan, None]),
    "decimal": pa.array([Decimal("-1.50"), Decimal("0.00"), Decimal("0.00"), Decimal("7.25"), None]),
    "date": pa.array([date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 1)]),
    "text": pa.array(["", "a", "a", "a text that is long enough", "ä", None]),
    "view": pa.array(["", "a", "a", "a text that is long enough", "ä"], pa.string_view()),
    "dictionary": pa.array(["x", "x", "y", "z"]).dictionary_encode(),
    "bytes": pa.array([b"", b"\x00", b"\x00", b"\xff"]),
}


@pytest.mark.parametrize("nulls_equal", [False, True])
@pytest.mark.parametrize("name", KEYS)
def test_sorted_keys_of_any_type_are_merged(name: str, nulls_equal: bool) -> None:
    key = KEYS[name]
    rows = wb.from_arrow(pa.table({"at": range(len(key)), "id": key, "n": range(len(key))}), time="at")

    def joined(required: Callable[[Any], Any]) -> wb.ShardedStream:
        def with_itself(q: Any) -> Any:
            every = required(q).alter_duration(math.inf)
            return every.join(every.select("id", m="n"), on="id", nulls_equal=nulls_equal)

        return rows.query(with_itself)

    assert "merge join" in joined(sorted_by_id).explain()
    assert "merge join" not in joined(plain).explain()
    assert sorted(map(repr, joined(sorted_by_id).to_rows())) == sorted(map(repr, joined(plain).to_rows()))


def test_a_join_of_sorted_streams_keeps_one_key() -> None:
    schema = {"at": "int64", "id": "int64"}
    with wb.live(schema, time="at") as orders, wb.live(schema, time="at") as bills:

        def paid(orders: Any, bills: Any) -> Any:
            orders, bills = (side.require_sorted("id").alter_duration(math.inf) for side in (orders, bills))
            return orders.join(bills, on="id")

        seen: list[Any] = []
        with orders.query(bills, paid).subscribe(seen.append, runtime="library") as subscription:
            for batch in range(50):
                rows = [(batch, batch * 20 + n) for n in range(20)]
                orders.push(rows)
                bills.push(rows)
            until(lambda: subscription.stats().rows_read == 2000)
            join = next(o for o in subscription.stats().operators if o.name == "merge_join")
            assert join.held <= 40
            orders.close()
            bills.close()
            assert subscription.wait(30)
        assert len([row for row in seen if row.end is None]) == 1000


def test_rows_that_are_out_of_order_end_the_query() -> None:
    rows = wb.from_rows([(1, "b"), (3, "a")], schema=["at", "item"], time="at")
    with pytest.raises(wb.DataError, match="a row at 3 has item = a after one with b"):
        rows.query(lambda q: q.require_sorted("item")).collect()
    together = [(1, "b", 1), (1, "a", 2)]
    same_instant = wb.from_rows(together, schema=["at", "item", "n"], time="at")
    with pytest.raises(wb.DataError, match="come in the order of item"):
        same_instant.query(lambda q: q.require_sorted("item")).collect()
    assert len(same_instant.query(lambda q: q.require_sorted("n")).to_rows()) == 2
    with pytest.raises(wb.DataError, match="two rows start at 1;"):
        same_instant.query(lambda q: q.require_distinct_starts()).collect()


def test_what_cannot_be_asserted_is_refused() -> None:
    relation = wb.from_rows([{"item": "a"}])
    rows = wb.from_rows([(1, "b")], schema=["at", "item"], time="at")
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("needs a stream with time", lambda: relation.query(lambda q: q.require_sorted("item"))),
        ("needs a stream with time", lambda: relation.query(lambda q: q.require_distinct_starts())),
        ("name a column", lambda: rows.query(lambda q: q.require_sorted())),
        ("colour", lambda: rows.query(lambda q: q.require_sorted("colour"))),
        (
            "before group_apply",
            lambda: rows.query(lambda q: q.group_apply("item", lambda g: g.require_sorted("at"))),
        ),
        ("require_sorted", lambda: rows.reshard(2, together="item")),
        ("scope", lambda: rows.query(sorted_item).reshard(2, together="item", scope="local")),
        ("one shard", lambda: rows.reshard(2).query(sorted_item).reshard(2, together="item")),
        ("colour", lambda: rows.query(sorted_item).reshard(2, together="colour")),
    ]
    for message, make in refused:
        with pytest.raises(wb.InvalidError, match=message):
            make()


def sorted_item(q: Any) -> Any:
    return q.require_sorted("item")


def test_runs_of_equal_rows_stay_together() -> None:
    rows = stream(ascending(500, 7), "n")
    dealt = rows.query(sorted_by_id).reshard(3, together="id")
    assert dealt.shards == 3

    def counts(q: Any) -> Any:
        return q.colocated("id").group_apply("id", lambda g: g.tumbling(50).aggregate(n=wb.count()))

    assert sorted(dealt.query(counts).to_rows(), key=repr) == sorted(rows.query(counts).to_rows(), key=repr)
    shard = dealt.query(lambda q: q.with_columns(shard=lambda e: e.n % 2)).to_rows()
    assert sorted(row.n for row in shard) == list(range(500))
    with pytest.raises(wb.InvalidError, match="by runs of id over 3 shards"):
        dealt.query(lambda q: q.colocated("n"))
    # Runs of another stream may lie elsewhere.
    with pytest.raises(wb.InvalidError, match="runs of id and the right side by runs of id"):
        dealt.query(dealt, lambda a, b: a.sliding(5).join(b.sliding(5), on="id", colocated=True))


def test_the_order_survives_what_keeps_it() -> None:
    rows = stream(ascending(50, 3), "n").query(sorted_by_id)

    def order(made: wb.ShardedStream) -> list[str]:
        return made._plan.properties()["sorted"]

    assert order(rows) == ["id"]
    assert order(rows.query(lambda q: q.where(lambda e: e.n > 3).tumbling(10))) == ["id"]
    assert order(rows.query(lambda q: q.select("n", order="id"))) == ["order"]
    assert order(rows.rekey("id").redistribute(4)) == ["id"]
    assert order(rows.query(rows, lambda a, b: a.sliding(5).join(b.sliding(5), on="id"))) == ["id"]
    for lost in (
        rows.query(lambda q: q.select("n")),
        rows.query(lambda q: q.union(q)),
        rows.rekey("id").redistribute(4).reshard(2),
        rows.query(lambda q: q.group_apply("id", lambda g: g.tumbling(5).aggregate(n=wb.count()))),
        rows.query(lambda q: q.clip(q)),
    ):
        assert order(lost) == []


def test_results_come_with_the_row_where_no_two_start_together() -> None:
    with wb.live({"at": "int64", "price": "int64"}, time="at") as ticks:
        seen: list[Any] = []
        query = ticks.query(lambda q: q.require_distinct_starts().sliding(5).aggregate(n=wb.count()))
        with query.subscribe(seen.append, runtime="library"):
            ticks.push([(1, 10)])
            ticks.push([(4, 20)])
            # Without the promise another row might start at 4, too.
            until(lambda: [(row.start, row.end, row.n) for row in seen] == [(2, 5, 1)])
            ticks.close()


def test_requirements_are_part_of_the_program() -> None:
    rows = stream(ascending(50, 3), "n")
    dealt = rows.query(lambda q: q.require_sorted("id", "n").require_distinct_starts()).reshard(
        3, together=("id", "n")
    )
    text = str(dealt.to_python())
    assert '.require_sorted("id", "n").require_distinct_starts()' in text
    assert '.reshard(3, together=("id", "n"))' in text
    assert "require the order of id, n" in dealt.explain()
    assert "reshard runs of id, n" in dealt.explain()
    copied = wb.ShardedStream(type(dealt._plan).unpickle(dealt._plan.to_bytes(True)))
    assert copied.explain() == dealt.explain()
