"""Patterns of rows in SQL: against Python's regular expressions and plain loops, over tables and streams."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

LETTERS = "abc"
Rows = list[tuple[int, str, str]]


def tuples(query: Any) -> list[tuple[Any, ...]]:
    """The rows without their lifetimes."""
    return [tuple(row)[-len(query.columns) :] for row in query.to_rows()]


def any_pattern(chance: random.Random, depth: int) -> tuple[str, str, bool]:
    """A pattern as Python writes it and as SQL does, and whether it matches no row at all."""
    if depth == 0 or chance.random() < 0.2:
        which = chance.choice(LETTERS)
        return which, which.upper(), False
    text, sql, may_be_empty = any_pattern(chance, depth - 1)
    kind = chance.choice(["then", "then", "or", "repeat", "repeat"])
    if kind in ("then", "or"):
        other, other_sql, other_empty = any_pattern(chance, depth - 1)
        if kind == "then":
            return f"(?:{text})(?:{other})", f"({sql}) ({other_sql})", may_be_empty and other_empty
        return f"(?:{text}|{other})", f"({sql} | {other_sql})", may_be_empty or other_empty
    if may_be_empty:
        return text, sql, may_be_empty
    sign = chance.choice(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}"])
    reluctant = chance.choice(["", "?"]) if sign != "{2}" else ""
    return f"(?:{text}){sign}{reluctant}", f"({sql}){sign}{reluctant}", sign in ("*", "?", "{0,2}")


def rows_of(chance: random.Random, count: int = 50) -> Rows:
    times = sorted(chance.sample(range(200), count))
    return [(time, chance.choice("uv"), chance.choice(LETTERS)) for time in times]


def words(rows: Rows) -> Iterator[tuple[str, list[int], str]]:
    for key in "uv":
        own = [(at, what) for at, k, what in rows if k == key]
        yield key, [at for at, _ in own], "".join(what for _, what in own)


def matches(rows: Rows, text: str, skip: str) -> list[tuple[str, int, int, int, str]]:
    """Key, first and last time, length and letters of each match."""
    found = []
    for key, times, word in words(rows):
        at = 0
        while at < len(word):
            match = re.compile(text).match(word, at)
            if match is None:
                at += 1
                continue
            first, last = match.start(), match.end() - 1
            found.append((key, times[first], times[last], last + 1 - first, word[first : last + 1]))
            at = last + 1 if skip == "past last row" else first + 1
    return sorted(found)


@pytest.mark.parametrize("kind", ["table", "stream"])
@pytest.mark.parametrize("seed", range(15))
def test_patterns_are_those_of_regular_expressions(seed: int, kind: str) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        text, pattern, may_be_empty = any_pattern(chance, 4)
        if may_be_empty:
            text, pattern = f"(?:{text})a", f"({pattern}) A"
        rows, skip = rows_of(chance), chance.choice(["past last row", "to next row"])
        query = f"""
            select * from t match_recognize (
                partition by key order by at
                measures first(at) as began, last(at) as ended, count(*) as n,
                         array_to_string(array_agg(what), '') as word
                one row per match after match skip {skip}
                pattern ({pattern})
                define A as what = 'a', B as what = 'b', C as what = 'c'
            )"""
        defined = [f"{v} as what = '{v.lower()}'" for v in "ABC" if v in pattern]
        query = re.sub(r"define .*", "define " + ", ".join(defined), query)
        table = wb.from_rows(rows, schema=["at", "key", "what"], time="at" if kind == "stream" else None)
        assert sorted(tuples(wb.sql(query, t=table))) == matches(rows, text, skip), (pattern, skip)


# The quotes of Flink's documentation of its match_recognize, and the results that follow from its text.
FALLING = [12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]
AVERAGED = [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]


def quotes(prices: list[Any], kind: str) -> wb.ShardedStream:
    rows = [(at, "ACME", price) for at, price in enumerate(prices)]
    return wb.from_rows(rows, schema=["at", "symbol", "price"], time="at" if kind == "stream" else None)


def ask(clauses: str, table: wb.ShardedStream, select: str = "*") -> list[tuple[Any, ...]]:
    query = f"select {select} from ticker match_recognize ({clauses}) as m"
    return tuples(wb.sql(query, ticker=table))


@pytest.mark.parametrize("kind", ["table", "stream"])
class TestExamples:
    def test_a_falling_price(self, kind: str) -> None:
        clauses = """
            partition by symbol order by at
            measures start_row.at as started, last(price_down.at) as bottom, last(price_up.at) as ended
            one row per match after match skip to last price_up
            pattern (start_row price_down+ price_up)
            define price_down as (last(price_down.price, 1) is null and price_down.price < start_row.price)
                                 or price_down.price < last(price_down.price, 1),
                   price_up as price_up.price > last(price_down.price, 1)"""
        assert ask(clauses, quotes(FALLING, kind)) == [("ACME", 4, 7, 8)]

    def test_an_average_in_a_definition(self, kind: str) -> None:
        clauses = """
            partition by symbol order by at
            measures first(a.at) as started, last(a.at) as ended, avg(a.price) as mean, sum(a.price) as total
            one row per match after match skip past last row
            pattern (a+ b) define a as avg(a.price) < 15"""
        expected = [("ACME", 0, 3, 14.5, 58), ("ACME", 5, 10, 13.5, 81)]
        assert ask(clauses, quotes(AVERAGED, kind)) == expected

    def test_logical_and_physical_offsets(self, kind: str) -> None:
        clauses = """
            order by at
            measures first(a.price) as first, first(a.price, 1) as second, last(a.price) as last,
                     last(a.price, 2) as before, prev(last(a.price, 1), 1) as earlier,
                     prev(first(a.price), 1) as outside, last(b.price) as b, prev(b.price, 2) as third
            pattern (s a{4} b) define s as price = 17, b as b.price > prev(b.price)"""
        expected = [(19, 21, 18, 21, 21, 17, None, None)]
        rows = quotes([12, 17, 19, 21, 25, 18, 15], kind)
        assert ask(clauses, rows) == []
        rows = quotes([12, 17, 19, 21, 25, 18, 20], kind)
        expected = [(19, 21, 18, 21, 21, 17, 20, 25)]
        assert ask(clauses, rows) == expected

    def test_aggregates_and_nulls(self, kind: str) -> None:
        clauses = """
            order by at
            measures count(*) as n, count(price) as known, count(a.*) as n_a, count(b.price) as known_b,
                     sum(b.price) as total, min(price) as least, max(b.price) as greatest,
                     array_agg(a.price) as all_a, avg(b.price) as mean, match_number() as number,
                     classifier() as variable
            pattern (a b+) define a as a.at % 4 = 0, b as b.at % 4 > 0"""
        rows = quotes([1.5, None, 2.5, 4.0, None, None, None, None], kind)
        assert ask(clauses, rows) == [
            (4, 3, 1, 2, 6.5, 1.5, 4.0, [1.5], 3.25, 1, "b"),
            (4, 0, 1, 0, None, None, None, [None], None, 2, "b"),
        ]

    def test_all_rows_of_a_match(self, kind: str) -> None:
        clauses = """
            partition by symbol order by at
            measures classifier() as variable, match_number() as number, running sum(price) as so_far,
                     final sum(price) as total, last(down.price) as low, final last(down.price) as lowest
            all rows per match
            pattern (top down+ {- up -} up) define down as price < prev(price), up as price > prev(price)"""
        expected = [
            (4, "ACME", 25, "top", 1, 25, 121, None, 14),
            (5, "ACME", 18, "down", 1, 43, 121, 18, 14),
            (6, "ACME", 15, "down", 1, 58, 121, 15, 14),
            (7, "ACME", 14, "down", 1, 72, 121, 14, 14),
            (9, "ACME", 25, "up", 1, 121, 121, 14, 14),
        ]
        assert ask(clauses, quotes(FALLING, kind)) == expected

    def test_subsets_permutations_and_alternatives(self, kind: str) -> None:
        clauses = """
            order by at
            measures last(u.at) as u, count(u.price) as n, classifier() as last
            after match skip past last row
            pattern (permute(a, b, c)) subset u = (a, c), w = (b)
            define a as price = 1, b as price = 2, c as price = 3 and count(w.*) > 0"""
        assert ask(clauses, quotes([2, 3, 1, 1, 3, 2, 1, 2, 3], kind)) == [(2, 2, "a"), (8, 2, "c")]

    def test_where_the_next_match_begins(self, kind: str) -> None:
        def found(skip: str) -> list[tuple[Any, ...]]:
            clauses = f"""
                order by at measures first(at) as began, last(at) as ended
                after match skip {skip} pattern (a b b) define a as price = 1"""
            return ask(clauses, quotes([1, 1, 1, 5, 1, 5, 5], kind))

        assert found("past last row") == [(0, 2), (4, 6)]
        assert found("to next row") == [(0, 2), (1, 3), (2, 4), (4, 6)]
        assert found("to last b") == [(0, 2), (2, 4), (4, 6)]
        assert found("to b") == found("to last b")
        assert found("to first b") == [(0, 2), (1, 3), (2, 4), (4, 6)]

    def test_within(self, kind: str) -> None:
        clauses = """
            order by at measures first(at) as began, last(at) as ended
            pattern (a b* c) within 4 define a as price = 1, b as price = 2, c as price = 3"""
        assert ask(clauses, quotes([1, 2, 2, 3, 1, 2, 2, 2, 3], kind)) == [(0, 3)]

    def test_an_optional_row_and_a_parameter(self, kind: str) -> None:
        query = """
            select * from ticker match_recognize (
                order by at measures a.at as a, b.at as b
                pattern (a b? c) define a as price = ?, b as price = 2, c as price = 3)
            where a > ?"""
        assert tuples(wb.sql(query, parameters=[1, -1], ticker=quotes([1, 2, 3, 1, 3, 1, 1], kind))) == [
            (0, 1),
            (3, None),
        ]

    def test_names_of_variables_are_free(self, kind: str) -> None:
        clauses = """
            order by at measures event.at as event, register.at as register, "Up".at as up
            pattern (event register previous "Up") define "Up" as "Up".price > event.price"""
        assert ask(clauses, quotes([1, 2, 3, 4], kind)) == [(0, 1, 3)]


class TestPlaces:
    """Where a match_recognize may stand."""

    CLAUSES = """
        partition by symbol order by at measures last(at) as ended, count(*) as n
        pattern (a b+) define b as price < prev(price)"""

    def test_in_a_join_and_over_a_query(self) -> None:
        query = f"""
            with cheap as (select * from ticker where price < 25)
            select m.symbol, n, s.name
            from (select * from cheap where price > 0) match_recognize ({self.CLAUSES}) m
            join (values ('ACME', 'Acme')) s (symbol, name) on s.symbol = m.symbol
            where n > 2"""
        assert tuples(wb.sql(query, ticker=quotes(FALLING, "table"))) == [("ACME", 4, "Acme")]

    def test_matches_of_matches(self) -> None:
        query = f"""
            select * from (select * from ticker match_recognize ({self.CLAUSES})) match_recognize (
                order by ended measures count(*) as matches pattern (x+) define x as x.n > 1)"""
        assert tuples(wb.sql(query, ticker=quotes(FALLING, "table"))) == [(2,)]

    def test_windows_of_matches(self) -> None:
        query = f"""
            select window_end, count(*) as n
            from tumble((select * from ticker match_recognize ({self.CLAUSES})), ended, 8)
            group by window_end"""
        assert tuples(wb.sql(query, ticker=quotes(FALLING, "stream"))) == [(8, 1), (16, 1)]

    @pytest.mark.parametrize("shards", [1, 3])
    def test_in_several_shards_and_in_any_order(self, shards: int) -> None:
        chance = random.Random(7)
        rows = [(at, chance.randrange(100), chance.randrange(50)) for at in range(3000)]
        chance.shuffle(rows)
        query = """
            select * from t match_recognize (
                partition by key order by at desc
                measures first(down.at) as began, count(*) as n, match_number() as number
                pattern (top down{2,}) define down as price < prev(price))
            order by key, number"""
        table = wb.from_rows(rows, schema=["at", "key", "price"])
        expected = []
        for key in range(100):
            own = sorted((at, price) for at, k, price in rows if k == key)[::-1]
            at, number = 0, 0
            while at < len(own):
                end = at
                while end + 1 < len(own) and own[end + 1][1] < own[end][1]:
                    end += 1
                if end - at >= 2:
                    number += 1
                    expected.append((key, own[at + 1][0], end - at + 1, number))
                    at = end + 1
                else:
                    at += 1
        assert tuples(wb.sql(query, t=table, shards=shards)) == expected

    def test_a_plan_of_it_travels(self) -> None:
        for kind in ("table", "stream"):
            query = wb.sql(
                f"select * from ticker match_recognize ({self.CLAUSES})", ticker=quotes(FALLING, kind)
            )
            assert wb.from_bytes(query.to_bytes()).to_rows() == query.to_rows()


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("pattern (a*) define a as price > 1", "may match no row"),
        ("pattern (^ a) define a as price > 1", "anchors"),
        ("pattern (a) define b as price > 1", "no variable b"),
        ("pattern (a) define a as price > 1, a as price > 2", "twice"),
        ("pattern (a) define a as next(price) > 1", "next"),
        ("pattern (a) define a as price", "not boolean"),
        ("pattern (a) define a as c.price > 1", "c.price"),
        ("pattern (a b) define a as first(a.price + b.price) > 1", "several variables"),
        ("pattern (a) define a as a.price > (select 1)", "subquery"),
        ("pattern (a) define a as stddev(a.price) > 1", "no stddev"),
        ("pattern (a) define a as match_number() > 1", "match_number"),
        ("pattern (a{3,2}) define a as price > 1", "repeats nothing"),
        ("measures sum(distinct price) as s pattern (a) define a as price > 1", "distinct"),
        ("all rows per match with unmatched rows pattern (a) define a as price > 1", "without a match"),
        ("after match skip to last c pattern (a) define a as price > 1", "no variable c"),
        ("measures price as symbol, price as symbol pattern (a) define a as price > 1", "symbol"),
    ],
)
def test_what_is_refused(clauses: str, message: str) -> None:
    for kind in ("table", "stream"):
        with pytest.raises(wb.WhimbrelError, match=message):
            ask(f"order by at {clauses}", quotes(FALLING, kind))


def test_a_live_stream_has_one_order() -> None:
    for order in ("price", "at desc", "at, price"):
        query = f"select * from ticker match_recognize (order by {order} pattern (a) define a as price > 1)"
        with (
            wb.live({"at": "int64", "price": "int64"}, time="at") as ticker,
            pytest.raises(wb.InvalidError, match="price|order by"),
        ):
            wb.sql(query, ticker=ticker)


def test_nulls_are_where_other_orders_have_them() -> None:
    table = wb.from_rows([(2, 1), (None, 2), (1, 3)], schema={"at": "int64", "price": "int64"})
    for order, expected in [("at", [3, 1, 2]), ("at desc", [1, 3, 2]), ("at nulls first", [2, 3, 1])]:
        clauses = f"order by {order} measures array_agg(price) as prices pattern (a+) define a as price > 0"
        assert ask(clauses, table) == [(expected,)]


def test_an_empty_table() -> None:
    table = wb.from_arrow(pa.table({"at": pa.array([], "int64"), "price": pa.array([], "int64")}))
    assert ask("partition by price order by at pattern (a b) define b as price > 1", table) == []
