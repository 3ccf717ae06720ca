"""Deep and wide expressions and plans work, or are refused in words."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import whimbrel as wb

ROWS = [{"x": n, "f": n / 4, "s": str(n), "b": n % 2 == 0} for n in range(100)]


def rows() -> wb.ShardedStream:
    return wb.from_rows(ROWS)


def chain(symbol: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    return functools.reduce(symbol, parts)


@pytest.mark.parametrize("terms", [2, 63, 64, 65, 66, 1_000, 6_000])
@pytest.mark.parametrize("runtime", ["local", "library"])
def test_chains_of_and_and_or(terms: int, runtime: str) -> None:
    every = chain(operator.and_, [wb.col("x") != n for n in range(1, terms)])
    found = rows().query(lambda q: q.where(every).select("x")).to_rows(runtime=runtime)
    assert [row.x for row in found] == [n for n in range(100) if not 1 <= n < terms]
    some = chain(operator.or_, [wb.col("x") == 2 * n for n in range(terms)])
    found = rows().query(lambda q: q.where(some).select("x")).to_rows(runtime=runtime)
    assert [row.x for row in found] == list(range(0, min(100, 2 * terms), 2))


def test_chains_in_a_lambda_and_the_other_way_round() -> None:
    def every(e: Any) -> Any:
        return chain(operator.and_, [e.x != n for n in range(3_000)])

    assert rows().query(lambda q: q.where(every)).to_rows() == []
    backwards = functools.reduce(lambda rest, n: (wb.col("x") != n) & rest, range(3_000), wb.col("x") >= 0)
    assert rows().query(lambda q: q.where(backwards)).to_rows() == []
    mixed = chain(operator.or_, [(wb.col("x") == n) & (wb.col("f") > 3) for n in range(3_000)])
    assert len(rows().query(lambda q: q.where(mixed)).to_rows()) == 87


def test_a_very_long_chain_is_built_at_once_and_printed() -> None:
    every = chain(operator.and_, [wb.col("x") != n for n in range(100_000)])
    assert repr(every).count("&") == 99_999
    del every
    # A chain of numbers is as deep as it is long.
    with pytest.raises(wb.InvalidError, match="more than 1000 operators stand inside one another"):
        chain(operator.add, [wb.col("x")] * 100_000)


@pytest.mark.parametrize("symbol", [operator.add, operator.sub, operator.mul, operator.xor])
def test_deep_arithmetic_works_up_to_the_limit_and_is_refused_beyond(
    symbol: Callable[[Any, Any], Any],
) -> None:
    deep = chain(symbol, [wb.col("x"), *[wb.lit(0)] * 900])
    found = rows().query(lambda q: q.select(y=deep)).to_rows()
    assert len(found) == 100
    assert repr(deep)
    with pytest.raises(wb.InvalidError, match="with_columns"):
        chain(symbol, [wb.col("x"), *[wb.lit(0)] * 6_000])


NESTS: dict[str, Callable[[Any], Any]] = {
    "~": lambda e: ~e,
    "-": lambda e: -e,
    "abs": abs,
    "cast": lambda e: e.cast("int64"),
    "when": lambda e: wb.when(wb.col("b")).then(1).otherwise(e),
    "/": lambda e: e / 1,
    "//": lambda e: e // 1,
    "%": lambda e: e % 7,
    "**": lambda e: e**1,
    "fill_null": lambda e: e.fill_null(0),
    "reflected": lambda e: 1 + e,
    "isin": lambda e: e.isin([1, 2]).cast("int64"),
    "between": lambda e: e.between(1, 2).cast("int64"),
    "is_null": lambda e: e.is_null().cast("int64"),
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_every_operator_is_refused_beyond_the_limit(nest: Callable[[Any], Any]) -> None:
    expr = wb.col("x")
    with pytest.raises(wb.InvalidError, match="more than 1000 operators"):
        for _ in range(1_500):
            expr = nest(expr)


DEEP: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "//": (lambda e: e // 1, lambda x: x),
    "%": (lambda e: e % 1_000, lambda x: x),
    "**": (lambda e: e**1, lambda x: x),
    "fill_null": (lambda e: e.fill_null(0), lambda x: x),
    "fill_null of a sum": (lambda e: (e + 1).fill_null(0), lambda x: x + 50),
}


@pytest.mark.parametrize(("nest", "value"), DEEP.values(), ids=DEEP)
def test_deep_calls_are_run(nest: Callable[[Any], Any], value: Callable[[int], Any]) -> None:
    deep = wb.col("x")
    for _ in range(50):
        deep = nest(deep)
    found = rows().query(lambda q: q.select(y=deep)).to_rows()
    assert [row.y for row in found] == [value(n) for n in range(100)]


@pytest.mark.parametrize("twice", [lambda e: e + e, lambda e: e & e, lambda e: e.fill_null(e)])
def test_shared_parts_count_as_often_as_they_are_there(twice: Callable[[Any], Any]) -> None:
    expr = wb.col("x")
    with pytest.raises(wb.InvalidError, match="more than 1000000 operators and values"):
        for _ in range(40):
            expr = twice(expr)
            assert repr(expr)


def run(program: str) -> str:
    """Run a program of its own: what overflows its stack dies without a word."""
    program = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


STEPS = {
    "where": "q.where(wb.col('x') != {n})",
    "select": "q.select(x=wb.col('x') + 1)",
    "union": "q.union(one)",
    "with_columns": "q.with_columns(x=wb.col('x') + 1)",
    "limit": "q.limit(100 - {n} % 2)",
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("steps", [200, 3_000])
def test_plans_of_many_steps_run_or_are_refused(step: str, steps: int) -> None:
    run(f"""
        import whimbrel as wb

        rows = wb.from_rows([{{"x": n}} for n in range(100)])

        def many(q):
            one = q
            for n in range({steps}):
                q = {step.replace("{n}", "n")}
            return q

        try:
            query = rows.query(many)
            query.explain()
            query.to_rows()
        except wb.InvalidError as error:
            assert "steps" in str(error), error
            assert {steps} > 500
    """)
