"""Early results of queries over tables are the results over what has been read, and the last one is final."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest
from random_queries import queries
from random_queries import tables as random_tables
from test_live_corpus import REASONS, SHARDS, TPCH_TABLES, Tables, multiset, tpch  # noqa: F401

import whimbrel as wb

TPCH = Path(__file__).parents[2] / "tests" / "tpch"
BATCH_ROWS = 7


def rows_of(table: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in table.to_rows()]


def planned(sql: str, tables: Tables, shards: int) -> wb.ShardedStream:
    """Plan a query, with tables in shards however small they are."""
    return wb.sql(f"set shard_rows = 0; {sql}", shards=shards, **tables)


def last_result(query: wb.ShardedStream, results: int = 5) -> list[dict[str, Any]]:
    """Take all results; give the last."""
    early = list(query.progressive(results=results, batch_rows=BATCH_ROWS))
    shares = [result.share for result in early]
    assert shares == sorted(set(shares))
    assert shares[-1] == 1.0
    return rows_of(early[-1].table)


def refused(error: wb.InvalidError) -> bool:
    return any(reason in str(error) for reason in REASONS)


def rows_in(share: float, rows: int, results: int) -> int:
    """How many rows of a table in one batch were read before a result."""
    ends = [*range(BATCH_ROWS, rows, BATCH_ROWS), rows]
    included = [end for end in ends if math.ceil(end / rows * results) / results <= share]
    return max(included, default=0)


NUMBERS = pa.table({"n": range(100), "k": [n % 7 for n in range(100)], "x": [n * 0.5 for n in range(100)]})
NAMES = pa.table({"k": range(5), "name": list("abcde")})


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) as c, sum(n) as s, min(x) as least, avg(x) as mean from numbers",
        "select k, count(*) as c, max(n) as most from numbers group by k",
        "select k, count(*) as c from numbers group by k having count(*) > 5 order by c desc, k limit 3",
        "select n, x from numbers where k = 3 order by x desc",
        "select n, x from numbers where k = 3 order by x desc limit 2 offset 1",
        "select name, sum(n) as s from numbers join names using (k) group by name",
        "select name, sum(n) as s from names left join numbers using (k) group by name order by name",
        "select k, n from numbers a where n = (select max(n) from numbers b where b.k = a.k)",
        "select count(*) as c from numbers where n > (select avg(n) from numbers)",
        "select distinct k from numbers union all select k from names",
        "select k, n, rank() over (partition by k order by n desc) as r from numbers qualify r <= 2",
        "select median(x) as m, string_agg(n::varchar, ',' order by n) as all_n from numbers where k = 1",
        "select a.n, b.n as m from numbers a join numbers b on b.n = a.n + 50",
        "select name from names where k not in (select k from numbers where n > 90)",
    ],
)
def test_each_result_is_that_over_the_rows_read_so_far(sql: str) -> None:
    found = list(wb.sql(sql, numbers=NUMBERS, names=NAMES).progressive(results=10, batch_rows=BATCH_ROWS))
    shares = [early.share for early in found]
    assert shares == ([part / 10 for part in range(1, 11)] if "where" not in sql else sorted(set(shares)))
    assert shares[-1] == 1.0
    for early in found:
        read = NUMBERS.slice(0, rows_in(early.share, NUMBERS.num_rows, 10))
        expected = wb.sql(sql, numbers=read, names=NAMES).collect()
        if "order by c" in sql or "order by x" in sql or "order by name" in sql:
            assert rows_of(early.table) == rows_of(expected)
        assert multiset(rows_of(early.table)) == multiset(rows_of(expected))
        assert early.table.schema == expected.schema


def test_random_queries_end_with_their_results() -> None:
    ended = 0
    for seed in range(6):
        tables = random_tables(seed)
        for sql in queries(seed, list(tables), 25):
            for shards in SHARDS:
                query = planned(sql, tables, shards)
                try:
                    found = last_result(query)
                except wb.InvalidError as error:
                    assert refused(error), f"seed {seed}: {sql}: {error}"
                    break
                assert multiset(found) == multiset(rows_of(query.collect())), f"seed {seed}, {shards}: {sql}"
                ended += 1
    assert ended > 300


def test_tpch_ends_with_its_results(tpch: Tables) -> None:  # noqa: F811
    for path in sorted(TPCH.glob("q*.sql")):
        for shards in (1, 2):
            query = planned(path.read_text(), tpch, shards)
            early = list(query.progressive(results=4))
            assert multiset(rows_of(early[-1].table)) == multiset(rows_of(query.collect())), path.name


def write(path: Path, table: pa.Table) -> None:
    """Write a file of the format that its suffix names."""
    match path.suffix:
        case ".parquet":
            parquet.write_table(table, path, row_group_size=20_000)
        case ".csv":
            csv.write_csv(table, path)
        case ".json":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        case _:
            with ipc.new_file(path, table.schema) as file:
                file.write_table(table, max_chunksize=20_000)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json", "arrow"])
def test_files_tell_how_much_was_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"numbers.{suffix}"
    write(path, pa.table({"n": range(300_000), "k": [n % 10 for n in range(300_000)]}))
    sql = f"select k, count(*) as c, sum(n) as s from '{path}' group by k order by k"
    for shards in (1, 2):
        query = planned(sql, {}, shards)
        early = list(query.progressive(results=5))
        assert len(early) >= 3, [result.share for result in early]
        assert rows_of(early[-1].table) == rows_of(query.collect())
        counts = [sum(row["c"] for row in rows_of(result.table)) for result in early]
        assert counts == sorted(counts)
        assert counts[-1] == 300_000
        for result, count in zip(early, counts, strict=True):
            assert count <= 300_000 * result.share + 65_536


def test_fluent_queries_have_early_results() -> None:
    numbers = wb.from_arrow(NUMBERS, shards=3)
    query = numbers.rekey("k").redistribute(2).query(lambda q: q.aggregate(total=wb.sum("n")))
    early = list(query.progressive(results=4, batch_rows=BATCH_ROWS))
    assert multiset(rows_of(early[-1].table)) == multiset(rows_of(query.collect()))


def test_a_query_without_tables_has_one_result() -> None:
    early = list(wb.sql("select 6 * 7 as answer").progressive())
    assert [(result.share, rows_of(result.table)) for result in early] == [(1.0, [{"answer": 42}])]


def test_an_empty_table_has_its_result() -> None:
    for sql in ("select count(*) as c from numbers", "select n from numbers"):
        query = wb.sql(sql, numbers=NUMBERS.slice(0, 0))
        early = list(query.progressive())
        assert [result.share for result in early] == [1.0]
        assert rows_of(early[0].table) == rows_of(query.collect())


def test_errors_of_the_query_come_with_its_results() -> None:
    results = wb.sql("select sum(1 / (n - 99)) as s from numbers", numbers=NUMBERS).progressive(
        batch_rows=BATCH_ROWS
    )
    with pytest.raises(wb.DataError, match=r"(?i)zero"):
        list(results)
    with pytest.raises(wb.DataError, match=r"(?i)zero"):
        next(results)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda: wb.sql("select n from l", l=wb.live({"n": "int64"})), "live source"),
        (lambda: wb.from_rows([(1, 2)], schema=["time", "n"], time="time"), "stream with time"),
        (lambda: wb.sql("select sum(n) as s from (select n from t limit 5)", t=NUMBERS), "limit"),
    ],
)
def test_what_has_no_early_results_says_why(query: Any, message: str) -> None:
    with pytest.raises(wb.InvalidError, match=message):
        query().progressive()


def test_a_number_of_results_that_makes_no_sense_is_refused() -> None:
    query = wb.sql("select count(*) as c from t", t=NUMBERS)
    for results in (0, -1, 2**40, 1.5):
        with pytest.raises(wb.InvalidError):
            query.progressive(results=results)  # type: ignore[arg-type]


def test_a_query_ends_when_nobody_wants_its_results() -> None:
    sql = "select n % 1000 as k, count(*) as c from range(50000000) t(n) group by k"
    for runtime in ("local", "library"):
        with wb.sql(sql).progressive(results=1000, runtime=runtime) as results:
            assert next(results).share < 0.1
        with pytest.raises(StopIteration):
            next(results)
        results = wb.sql(sql).progressive(results=1000, runtime=runtime)
        next(results)
        del results


def test_several_queries_at_once() -> None:
    random = Random(5)
    query = wb.sql("select k, sum(n) as s from numbers group by k", numbers=NUMBERS)
    running = [query.progressive(results=10, batch_rows=BATCH_ROWS) for _ in range(20)]
    taken = [0] * len(running)
    while running and min(taken) < 10:
        at = random.choice([i for i, count in enumerate(taken) if count < 10])
        assert next(running[at]).share == (taken[at] + 1) / 10
        taken[at] += 1
