"""Plans over shards: the same answer for any number of shards, on both runtimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

ROWS = [{"time": n // 3, "item": f"i{n * 7 % 11}", "user": n * 13 % 5, "price": n % 4} for n in range(300)]


def source(shards: int) -> wb.ShardedStream:
    return wb.from_rows(ROWS, time="time", shards=shards)


def by_item(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    return s.rekey("item").redistribute(shards).query(lambda q: q.hopping(20, hop=5).aggregate(n=wb.count()))


def local_then_global(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    counted = s.rekey("item").query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
    return counted.redistribute(shards).query(lambda q: q.aggregate(n=wb.sum("n")))


def sampled(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    return s.query(lambda q: q.where(lambda e: e.user % 5 < 2).select("time", "item")).reshard(shards)


def broadcast_join(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    names = wb.from_rows([{"item": f"i{n}", "name": f"name {n}"} for n in range(0, 11, 2)])
    spread = s.reshard(shards)
    return spread.query(names.broadcast(shards), lambda a, b: a.join(b, on="item").select("name", "price"))


def hash_join(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    left = s.query(lambda q: q.sliding(5)).rekey("item").redistribute(shards)
    right = s.query(lambda q: q.where(lambda e: e.price == 3).sliding(5)).rekey("item").redistribute(shards)
    return left.query(right, lambda a, b: a.join(b).select("user", other="user_right"))


def theta_multicast(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    return s.multicast(lambda e: [e.price % shards, (e.price + 1) % shards], shards)


def twice(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    late = s.rekey("user").redistribute(shards).query(lambda q: q.sliding(10).aggregate(n=wb.count()))
    many = late.query(lambda q: q.where(lambda e: e.n > 5))
    kept = s.rekey("user").redistribute(shards).query(many, lambda a, b: a.where_not_exists(b))
    return (
        kept.rekey("item").redistribute(shards).query(lambda q: q.tumbling(10).aggregate(p=wb.avg("price")))
    )


def relational(s: wb.ShardedStream, shards: int) -> wb.ShardedStream:
    table = wb.from_rows(ROWS, shards=s.shards)
    return (
        table.rekey("item").redistribute(shards).query(lambda q: q.aggregate(n=wb.count(), p=wb.max("price")))
    )


PLANS = [by_item, local_then_global, sampled, broadcast_join, hash_join, theta_multicast, twice, relational]


def answer(stream: wb.ShardedStream, runtime: Any) -> Counter[Any]:
    return Counter(
        tuple(sorted(dict(row).items())) for row in stream.to_rows(runtime=runtime, progress=False)
    )


@pytest.mark.parametrize("plan", PLANS)
def test_library_equals_local_for_any_number_of_shards(plan: Callable[..., wb.ShardedStream]) -> None:
    expected = answer(plan(source(1), 1), "library")
    assert expected
    for shards in (1, 2, 3, 8):
        stream = plan(source(min(shards, 3)), shards)
        assert stream.shards == shards
        if plan is theta_multicast:
            expected = answer(plan(source(1), shards), "library")
        assert answer(stream, "local") == expected
        assert answer(stream, "library") == expected


@pytest.mark.parametrize("batch_rows", [1, 2, 7, 1000])
def test_results_do_not_depend_on_batches(batch_rows: int) -> None:
    stream = by_item(source(1), 2)
    assert stream.to_rows(batch_rows=batch_rows) == stream.to_rows()


def test_results_are_in_order_of_time() -> None:
    starts = by_item(source(2), 3).collect()["start"]
    assert starts == sorted(starts)


def test_to_memory_keeps_shards_key_and_time() -> None:
    stream = by_item(source(1), 3)
    kept = stream.to_memory()
    assert (kept.shards, kept.key, kept.time) == (3, ["item"], "int64")
    assert answer(kept.query(lambda q: q.select("item", "n")), "local") == answer(stream, "local")


def test_query_over_three_streams() -> None:
    streams = [wb.from_rows([{"n": n}]) for n in range(3)]
    union = streams[0].query(streams[1], streams[2], lambda a, b, c: a.union(b, c))
    assert [row.n for row in union.to_rows()] == [0, 1, 2]


def test_default_number_of_shards() -> None:
    one, three = wb.from_rows(ROWS), wb.from_rows(ROWS, shards=3)
    with wb.config(shards=5):
        assert one.rekey("item").redistribute().shards == 5
        assert three.rekey("item").redistribute().shards == 3
        assert one.reshard(2).shards == 2


def test_computed_keys() -> None:
    keyed = source(1).rekey(lambda e: e.user % 2)
    assert keyed.key == ["user % 2"]
    named = source(1).rekey({"odd": lambda e: e.user % 2})
    counted = named.query(lambda q: q.tumbling(100).aggregate(n=wb.count())).to_rows()
    assert {row.odd for row in counted} == {0, 1}
