"""The same query over live sources: its last snapshot is the batch answer, or it is refused with a reason.

The corpus is TPC-H, the SQL logic tests and the generated queries, each in several numbers of shards. Rows
are fed in batches of random sizes, those of different tables in random turns, to random shards of their
sources; some tables are there from the beginning.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from random_queries import queries
from random_queries import tables as random_tables

import whimbrel as wb

TESTS = Path(__file__).parents[2] / "tests"
TPCH_TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

# Why a result is not kept up to date. Everything else has to be.
REASONS = (
    "unbounded sort",
    "which rows a limit keeps is open",
    "a recursive query",
    "distinct on",
    "is another value each time",
)

# Topics whose queries are about something else than rows of tables.
NOT_ABOUT_ROWS = ("errors.slt", "emit.slt")

# In how many shards results are kept up to date.
SHARDS = (1, 2, 3)

KEPT: list[str] = []
REFUSED: list[tuple[str | None, str]] = []

Tables = dict[str, pa.Table]


def plain(value: Any) -> str:
    """Give a value that can be compared: numbers by their first nine digits."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        number = float(value)
        return "nan" if math.isnan(number) else f"{number + 0.0:.9g}"
    if isinstance(value, list):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {plain(v)}' for k, v in value.items())}}}"
    return repr(value)


def multiset(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows without their order."""
    return sorted([plain(value) for value in row.values()] for row in rows)


def rows_of(stream: wb.ShardedStream) -> list[dict[str, Any]]:
    return [dict(row) for row in stream.to_rows()]


def live(tables: Tables, random: Random, shards: int = 1) -> dict[str, Any]:
    """Make live sources of most tables, fed already: whoever reads them gets batch after batch."""
    growing = [name for name in tables if random.random() < 0.8]
    streams = {name: wb.live(tables[name].schema, shards=random.randint(1, shards)) for name in growing}
    batches = []
    for name in growing:
        table, at = tables[name], 0
        while at < table.num_rows:
            rows = random.randint(1, max(2, table.num_rows // 4))
            batches.append((name, table.slice(at, rows)))
            at += rows
    random.shuffle(batches)
    for name, batch in batches:
        streams[name].push(batch, shard=random.randrange(streams[name].shards))
    for stream in streams.values():
        stream.close()
    return tables | streams


def last_snapshot(sql: str, tables: Tables, random: Random, shards: int) -> list[dict[str, Any]]:
    """Run a query incrementally to the end."""
    KEPT.append(sql)
    # Small as they are, tables are cut into shards.
    query = wb.sql(f"set shard_rows = 0; {sql}", shards=shards, **live(tables, random, shards))
    view = query.maintain()
    assert view.wait(60)
    return view.snapshot()


def refusal(error: wb.InvalidError) -> str | None:
    return next((reason for reason in REASONS if reason in str(error)), None)


def unordered(sql: str) -> str:
    """Take off the order by at the end, where no limit follows it and nothing else needs it."""
    if re.search(r"\bdistinct\s+on\b", sql, flags=re.I):
        return sql
    return re.sub(r"\border\s+by\s+(?:(?!\b(?:limit|fetch|offset|order)\b)[^()])*$", "", sql, flags=re.I)


def check(sql: str, tables: Tables, expected: list[dict[str, Any]], random: Random) -> str | None:
    """Say what is wrong with a query over live sources, if anything is."""
    for shards in SHARDS:
        try:
            found = last_snapshot(unordered(sql), tables, random, shards)
        except wb.InvalidError as error:
            reason = refusal(error)
            REFUSED.append((reason, sql))
            return None if reason else f"refused: {error}"
        except wb.WhimbrelError as error:
            return f"failed: {error}"
        if multiset(found) != multiset(expected):
            return (
                f"in {shards} shards live {multiset(found)[:5]} ({len(found)} rows), "
                f"batch {multiset(expected)[:5]} ({len(expected)})"
            )
    return None


@pytest.fixture(scope="module")
def tpch() -> Tables:
    if not (Path(sys.executable).parent / "tpchgen-cli").exists():
        pytest.skip("no data: tpchgen-cli is not installed")
    command = [sys.executable, TESTS / "tpch" / "data.py", "0.01"]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {name: parquet.read_table(f"{folder}/{name}.parquet") for name in TPCH_TABLES}


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, shards: int, tpch: Tables) -> None:
    sql = (TESTS / "tpch" / f"q{number:02}.sql").read_text()
    used = {name: table for name, table in tpch.items() if re.search(rf"\b{name}\b", sql)}
    expected = rows_of(wb.sql(sql, **used))
    # All of TPC-H is kept up to date.
    found = last_snapshot(unordered(sql), used, Random(number), shards)
    assert multiset(found) == multiset(expected)
    # Who waits for the end gets the rows in their order.
    sources = live(used, Random(number), shards)
    in_order = rows_of(wb.sql(f"set shard_rows = 0; {sql}", shards=shards, **sources))
    assert [list(map(plain, row.values())) for row in in_order] == [
        list(map(plain, row.values())) for row in expected
    ]


@pytest.mark.parametrize("seed", range(8))
def test_random_queries(seed: int) -> None:
    tables = random_tables(seed)
    wrong = []
    for number, sql in enumerate(queries(seed, list(tables), 25)):
        try:
            expected = rows_of(wb.sql(sql, **tables))
        except wb.WhimbrelError:
            continue
        problem = check(sql, tables, expected, Random(seed * 1000 + number))
        if problem:
            wrong.append(f"{sql}\n  {problem}")
    assert not wrong, f"{len(wrong)} queries of seed {seed}:\n" + "\n\n".join(wrong[:10])


def records(path: Path) -> Iterator[tuple[str, str]]:
    """Give the statements that succeed, and the queries, of a file of SQL logic tests."""
    for block in re.split(r"\n\s*\n", path.read_text()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines and lines[0] in ("statement ok",) or lines and lines[0].startswith("query"):
            body = lines[1:]
            sql = body[: body.index("----")] if "----" in body else body
            yield lines[0].split()[0], "\n".join(sql)


@pytest.mark.parametrize("path", sorted((TESTS / "slt").glob("*.slt")), ids=lambda path: path.stem)
def test_logic_tests(path: Path) -> None:
    if path.name in NOT_ABOUT_ROWS:
        pytest.skip("it has no answers")
    done: list[str] = []
    wrong = []
    tables: Tables | None = None
    for number, (kind, sql) in enumerate(records(path)):
        if kind == "statement":
            done.append(sql)
            tables = None
            continue
        if not re.match(r"(?is)\s*(select|with|values|from|\()", sql):
            continue
        tables = tables if tables is not None else contents(done)
        views = [s for s in done if re.match(r"(?is)\s*create\s+(or\s+replace\s+)?view", s)]
        try:
            expected = rows_of(wb.sql(";\n".join([*views, sql]), **tables))
        except wb.WhimbrelError:
            continue
        problem = check(";\n".join([*views, sql]), tables, expected, Random(number))
        # A live answer is one at every instant: a sum may be too large until rows come that make it smaller.
        if problem and "a sum is too large for its type" not in problem:
            wrong.append(f"{sql}\n  {problem}")
    assert not wrong, f"{len(wrong)} queries of {path.name}:\n" + "\n\n".join(wrong[:10])


def contents(statements: list[str]) -> Tables:
    """Give the tables that statements leave behind."""
    script = ";\n".join(statements)
    made = re.findall(r"(?is)create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?(\w+)", script)
    found = {}
    for name in dict.fromkeys(made):
        try:
            found[name] = pa.table(wb.sql(f"{script};\nselect * from {name}").to_arrow())
        except wb.WhimbrelError:
            continue  # It was dropped.
    return found
