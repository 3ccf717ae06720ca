"""Aggregates of a user's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

mean = {
    "initial": lambda: (0, 0),
    "accumulate": lambda s, v: (s[0] + v, s[1] + 1),
    "result": lambda s: s[0] / s[1],
    "returns": "float64",
    "name": "mean_of_mine",
}
undone = {
    "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "deaccumulate": lambda s, v: (s[0] - v, s[1] - 1),
    "difference": lambda a, b: (a[0] - b[0], a[1] - b[1]),
}
MEANS = {"values": wb.aggregate_function(**mean), "states": wb.aggregate_function(**mean, **undone)}

WINDOWS: dict[str, Callable[[wb.Stream], wb.Stream]] = {
    "tumbling": lambda q: q.tumbling(10),
    "hopping": lambda q: q.hopping(20, hop=5),
    "sliding": lambda q: q.sliding(7),
    "session": lambda q: q.session(3),
    "points": lambda q: q,
    "forever": lambda q: q.alter_lifetime(None, float("inf")),
    "by key": lambda q: q.group_apply("k", lambda g: g.hopping(20, hop=10)),
}


def numbers() -> wb.ShardedStream:
    dice = random.Random(7)
    rows = [(t // 2, dice.randrange(3), dice.choice([None, 1, 2, 5, 9])) for t in range(300)]
    return wb.from_rows(rows, schema={"time": "int64", "k": "int64", "v": "int64"}, time="time")


@pytest.mark.parametrize("kept", MEANS)
@pytest.mark.parametrize("runtime", ["library", "local"])
@pytest.mark.parametrize("window", WINDOWS)
def test_it_is_the_built_in_one_in_every_window(window: str, kept: str, runtime: Any) -> None:
    mine = MEANS[kept]

    def both(q: wb.Stream) -> wb.Stream:
        return q.aggregate(
            mine=mine(lambda e: e.v, where=lambda e: e.v < 9), theirs=wb.mean("v", where=lambda e: e.v < 9)
        )

    def query(q: wb.Stream) -> wb.Stream:
        if window == "by key":
            return q.group_apply("k", lambda g: both(g.hopping(20, hop=10)))
        return both(WINDOWS[window](q))

    table = numbers().rekey("k").query(query).to_arrow(runtime=runtime)
    rows = wb.from_arrow(table).to_rows()
    assert len(rows) > 5
    assert any(row.mine is not None for row in rows)
    assert all(row.mine == pytest.approx(row.theirs) for row in rows)


@pytest.mark.parametrize("kept", MEANS)
def test_intervals_and_edges(kept: str) -> None:
    events = [
        wb.start_edge(0, {"v": 1}),
        wb.interval(1, 8, {"v": 3}),
        wb.start_edge(2, {"v": 1}),
        wb.end_edge(0, 5, {"v": 1}),
        wb.end_edge(2, 9, {"v": 1}),
    ]
    stream = wb.from_events(events, {"v": "int64"})
    rows = stream.query(lambda q: q.aggregate(m=MEANS[kept]("v"))).to_rows()
    assert [(row.start, row.end, row.m) for row in rows] == [
        (0, 1, 1.0),
        (1, 2, 2.0),
        (2, 5, pytest.approx(5 / 3)),
        (5, 8, 2.0),
        (8, 9, 1.0),
    ]


@pytest.mark.parametrize("kept", MEANS)
def test_relations(kept: str) -> None:
    table = wb.from_rows([{"k": n % 3, "v": n} for n in range(100)])
    query = table.rekey("k").query(lambda q: q.aggregate(mine=MEANS[kept]("v"), theirs=wb.mean("v")))
    rows = query.to_rows()
    assert len(rows) == 3
    assert all(row.mine == row.theirs for row in rows)


def test_states_may_be_any_object() -> None:
    texts = wb.aggregate_function(
        initial=list,
        accumulate=lambda s, v: [*s, v],
        result=lambda s: "".join(sorted(s)),
        returns="string",
    )
    stream = wb.from_rows([(0, "b"), (1, "a"), (12, "c")], schema=["time", "x"], time="time")
    rows = stream.query(lambda q: q.tumbling(10).aggregate(x=texts("x"))).to_rows()
    assert [row.x for row in rows] == ["ab", "c"]


def test_a_failure_names_the_aggregate_and_the_values() -> None:
    broken = wb.aggregate_function(
        initial=lambda: 0,
        accumulate=lambda s, v: s + 1 // v,
        result=lambda s: s,
        returns="int64",
        name="broken",
    )
    for time in ("t", None):
        stream = wb.from_rows([{"t": 1, "v": 4}, {"t": 2, "v": 0}], time=time)
        query = stream.query(lambda q: q.aggregate(x=broken("v")))
        with pytest.raises(
            wb.DataError, match=r"the aggregate broken failed in accumulate\(0, 0\)"
        ) as caught:
            query.to_rows()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_result_of_another_type() -> None:
    wrong = wb.aggregate_function(**{**mean, "returns": "int64", "result": lambda s: "many", "name": "wrong"})
    with pytest.raises(wb.DataError, match="the aggregate wrong failed.*holds 'many', which is no int64"):
        numbers().query(lambda q: q.tumbling(5).aggregate(x=wrong("v"))).to_rows()


def test_its_name_is_in_the_plan() -> None:
    query = numbers().query(lambda q: q.tumbling(5).aggregate(x=MEANS["states"]("v", where=wb.col("k") > 0)))
    assert "x = mean_of_mine(v) where k > 0" in query.explain()
    assert repr(MEANS["states"]) == "aggregate_function(mean_of_mine)"
    assert repr(MEANS["states"]("v")) == "mean_of_mine('v')"


def test_wrong_definitions() -> None:
    with pytest.raises(wb.InvalidError, match="go together"):
        wb.aggregate_function(**mean, combine=undone["combine"])
    with pytest.raises(wb.InvalidError, match="initial: 0 is no function"):
        wb.aggregate_function(**{**mean, "initial": 0})
    with pytest.raises(wb.InvalidError):
        wb.aggregate_function(**{**mean, "returns": "flaot64"})
