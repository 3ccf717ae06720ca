"""Patterns of events: against Python's own regular expressions, and what they refuse."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

LETTERS = "abc"
Rows = list[tuple[int, str, str]]


def letter(which: str) -> wb.Pattern:
    return wb.event(lambda e: e.what == which)


def any_pattern(chance: random.Random, depth: int) -> tuple[str, wb.Pattern]:
    """A regular expression, as Python writes it and as the product does."""
    if depth == 0 or chance.random() < 0.25:
        which = chance.choice([*LETTERS, "."])
        return which, wb.event() if which == "." else letter(which)
    text, pattern = any_pattern(chance, depth - 1)
    kind = chance.choice(["then", "then", "or", "star", "plus", "optional", "times"])
    if kind in ("then", "or"):
        other, following = any_pattern(chance, depth - 1)
        if kind == "then":
            return f"(?:{text})(?:{other})", pattern.then(following)
        return f"(?:{text}|{other})", pattern | following
    if kind == "times":
        return f"(?:{text}){{1,2}}", pattern.times(1, 2)
    sign = {"star": "*", "plus": "+", "optional": "?"}[kind]
    return f"(?:{text}){sign}", getattr(pattern, kind)()


def rows_of(chance: random.Random, count: int = 60) -> Rows:
    times = sorted(chance.sample(range(200), count))
    return [(time, chance.choice("uv"), chance.choice(LETTERS)) for time in times]


def source(rows: Rows, **settings: Any) -> wb.ShardedStream:
    return wb.from_rows(rows, schema=["at", "key", "what"], time="at", **settings).rekey("key")


def matches(rows: Rows, text: str, within: int) -> Counter[tuple[int, int, str]]:
    """Every stretch of events of one key that the expression matches, and does so soon enough."""
    found: Counter[tuple[int, int, str]] = Counter()
    for key in "uv":
        events = [(at, what) for at, k, what in rows if k == key]
        for first in range(len(events)):
            for last in range(first, len(events)):
                began, ended = events[first][0], events[last][0]
                word = "".join(what for _, what in events[first : last + 1])
                if ended < began + within and re.fullmatch(text, word):
                    found[ended, began + within, key] += 1
    return found


@pytest.mark.parametrize("seed", range(40))
def test_detect_is_the_regular_expression(seed: int) -> None:
    chance = random.Random(seed)
    text, pattern = any_pattern(chance, 3)
    rows, within = rows_of(chance), chance.choice([9, 40, 500])
    for simultaneous in ("ordered", "kill", "absent"):
        stream = source(rows, shards=1).query(
            lambda q, rule=simultaneous: q.detect(pattern, within=within, simultaneous=rule)
        )
        found = Counter((row.start, row.end, row.key) for row in stream.to_rows())
        assert found == matches(rows, text, within), text


def test_shards_and_batches_make_no_difference() -> None:
    chance = random.Random(3)
    rows = rows_of(chance, 90)
    rise = letter("a").then(letter("b").star(), letter("c"))

    def query(q: wb.Stream) -> wb.Stream:
        return q.detect(rise, within=50)

    expected = sorted(map(repr, source(rows).query(query).to_rows()))
    assert expected
    for shards in (2, 3):
        spread = source(rows, shards=shards, reorder_latency=200).redistribute()
        assert sorted(map(repr, spread.query(query).to_rows())) == expected
    live = wb.live({"at": "int64", "key": "string", "what": "string"}, time="at")
    for row in rows:
        live.push([row])
    live.close()
    assert sorted(map(repr, live.rekey("key").query(query).to_rows())) == expected
    travelled = wb.from_bytes(source(rows).query(query).to_bytes())
    assert sorted(map(repr, travelled.to_rows())) == expected


def test_a_register_remembers() -> None:
    rows = [(1, "u", 5), (2, "u", 7), (3, "u", 6), (4, "u", 9), (5, "u", 11)]
    log = wb.from_rows(rows, schema=["at", "user", "price"], time="at").rekey("user")
    first = wb.event(low=lambda e: e.price, last=lambda e: e.price)
    higher = wb.event(
        lambda e, seen: e.price > seen.last, last=lambda e: e.price, steps=lambda e, seen: seen.steps + 1
    )
    found = log.query(
        lambda q: q.detect(
            first.then(higher.plus()), within=100, register={"low": 0, "last": 0, "steps": 0}
        ).where(lambda e: e.steps == 2)
    )
    assert [(row.start, row.user, row.low, row.last) for row in found.to_rows()] == [(5, "u", 6, 11)]


def test_functions_that_cannot_be_traced_run_as_black_boxes() -> None:
    rows = [(1, "u", "ab"), (2, "u", "b"), (3, "u", "xb")]
    log = wb.from_rows(rows, schema=["at", "user", "word"], time="at").rekey("user")
    ends = wb.event(
        wb.udf(lambda e: e.word.endswith("b"), returns="bool"),
        seen=wb.udf(lambda e, register: register.seen + e.word.upper(), returns="string"),
    )
    found = log.query(lambda q: q.detect(ends.times(2, 2), within=9, register={"seen": ""}))
    assert [row.seen for row in found.to_rows()] == ["ABB", "BXB"]


def test_lists_of_simultaneous_events() -> None:
    rows = [(1, "u", 1), (1, "u", 2), (2, "u", 3), (3, "u", 1), (3, "u", 1), (3, "u", 1)]
    log = wb.from_rows(rows, schema=["at", "user", "v"], time="at").rekey("user")
    several = wb.events_at_once(
        lambda e: wb.fn.array_length(e.v) > 1, n=lambda e, r: r.n + wb.fn.array_length(e.v)
    )
    pattern = several.then(wb.events_at_once().star(), several)
    found = log.query(lambda q: q.detect(pattern, within=9, register={"n": 0}))
    assert [(row.start, row.n) for row in found.to_rows()] == [(3, 5)]


def test_simultaneous_events_in_the_order_of_their_values() -> None:
    pattern = letter("a").then(letter("b"))
    for rows in ([(1, "u", "a"), (1, "u", "b")], [(1, "u", "b"), (1, "u", "a")]):
        ordered = source(rows).query(lambda q: q.detect(pattern, within=5))
        assert len(ordered.to_rows()) == 1
        killed = source(rows).query(lambda q: q.detect(pattern, within=5, simultaneous="kill"))
        assert killed.to_rows() == []


def test_an_automaton_without_overlap() -> None:
    rows = [(time, "u", what) for time, what in enumerate("aabab")]
    even = wb.automaton(
        [(0, 1, letter("a")), (1, 1, letter("a")), (1, 2, letter("b")), (2, 3, None)], final=[3]
    )
    found = source(rows).query(lambda q: q.detect(even, within=100, overlap=False))
    assert [(row.start, row.end) for row in found.to_rows()] == [(2, 100), (4, 103)]


def refusals() -> list[Callable[[wb.Stream], Any]]:
    one = wb.event()
    return [
        lambda q: q.detect(one, within=0),
        lambda q: q.detect(one, within=5, simultaneous="whatever"),  # pyright: ignore[reportArgumentType]
        lambda q: q.detect(wb.event(lambda e: e.nothing == 1), within=5),
        lambda q: q.detect(wb.event(lambda e: e.what), within=5),
        lambda q: q.detect(wb.event(lambda e, r: r.n > 1), within=5),
        lambda q: q.detect(wb.event(n=lambda e: e.at), within=5),
        lambda q: q.detect(wb.event(n=lambda e: e.what), within=5, register={"n": 0}),
        lambda q: q.detect(one, within=5, register={"n": None}),
        lambda q: q.detect(one, within=5, register={"key": 1}),
        lambda q: q.detect(one.then(wb.events_at_once()), within=5),
        lambda q: q.detect(one.then(wb.automaton([(0, 1, one)], final=[1])), within=5),
        lambda q: q.detect("a b", within=5),  # pyright: ignore[reportArgumentType]
        lambda q: q.detect(one.times(2, 1), within=5),
        lambda q: wb.automaton([(0, 1, one.star())], final=[1]),
    ]


@pytest.mark.parametrize("number", range(len(refusals())))
def test_what_makes_no_sense_is_refused(number: int) -> None:
    rows = source([(1, "u", "a")])
    with pytest.raises(wb.InvalidError):
        rows.query(lambda q: refusals()[number](q)).to_rows()
