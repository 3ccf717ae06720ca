"""Functions: processes on this machine, a folder or an S3 server for their objects, and faults."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fault_proxy import Fault, FaultProxy
from pyarrow import parquet

import whimbrel as wb

FLIGHTS = Path(__file__).parents[2] / "data" / "nyc_flights_2013.parquet"
S3 = os.environ.get("WHIMBREL_S3")
STRICT_S3 = os.environ.get("WHIMBREL_S3_STRICT")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are ended as on Unix")
on_s3 = pytest.mark.skipif(S3 is None, reason="no S3 server: run in tests/cloud")

# Half a second or more on two cores: a join of two aggregates over shards.
LONG = """
    select a.k, count(*) as c, sum(b.s) as s, min(b.low) as low, sum(a.digits) as digits
    from (select k, sum(length(md5(md5(text)))) as digits from rows group by k) a
    join (select k, sum(n) as s, min(md5(md5(text))) as low from rows group by k) b on a.k = b.k
    group by a.k
"""
GROUPS = "select k, count(*) as c, sum(n) as s, min(text) as low from rows group by k"


@pytest.fixture(scope="module")
def functions() -> Iterator[wb.functions.LocalFunctions]:
    with wb.functions.start(concurrency=2, small=0) as started:
        yield started


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of a million rows."""
    path = tmp_path_factory.mktemp("functions") / "rows.parquet"
    made = "select n, n * 7919 % 20011 as k, md5(n::varchar) as text from range(1000000) t(n)"
    wb.sql(made).to_storage(path)
    return str(path)


def values(rows: Any) -> list[tuple]:
    return sorted((tuple(dict(row).values()) for row in rows), key=str)


def by_carrier(flights: wb.ShardedStream) -> wb.ShardedStream:
    per_day = flights.rekey(lambda e: e.carrier).redistribute()
    return per_day.query(lambda q: q.tumbling("1d").aggregate(flights=wb.count(), late=wb.max("arr_delay")))


def test_a_query_comes_with_its_bill(functions: wb.functions.LocalFunctions, rows: str) -> None:
    table = wb.sql(GROUPS, on=functions, rows=rows, shards=4).collect()
    assert values(table) == values(wb.sql(GROUPS, rows=rows).to_rows())
    bill = table.bill
    assert bill is not None and bill.ran == "functions" and bill.invocations > 0 and bill.gb_seconds > 0
    assert bill.dollars == 0.0 and bill.prices == "own-machines"
    assert {a.outcome for a in bill.attempts if a.kind == "task"} == {"ended"}
    assert functions.last_bill == bill
    assert len(functions.pids) in (1, 2)
    assert wb.sql("select 1 as a").collect().bill is None


def test_dollars_are_those_of_the_price_sheet(rows: str) -> None:
    sheet = {"name": "mine", "date": "2026-01-01", "source": "none", "gb_second": 1.0, "invocation": 10.0}
    sheet |= {"get": 100.0, "put": 1000.0, "gb_month": 0.0}
    with wb.functions.start(2, small=0, inline=False, prices=sheet, pipelined=False) as functions:
        bill = wb.sql(GROUPS, on=functions, rows=rows, shards=3).collect().bill
    assert bill is not None
    expected = (bill.gb_seconds, 10.0 * bill.invocations, 100.0 * bill.gets, 1000.0 * bill.puts)
    assert (bill.compute_dollars, bill.invocation_dollars, bill.get_dollars, bill.put_dollars) == expected
    assert bill.dollars == pytest.approx(sum(expected))
    if not bill.hedged:
        assert (bill.gets - bill.table_gets, bill.puts) == bill.formula


@pytest.mark.parametrize("order", ["k desc, n", "text, n", "n"])
def test_sorts_have_the_order_of_one_process(
    functions: wb.functions.LocalFunctions, rows: str, order: str
) -> None:
    query = f"select k, n, text from rows order by {order}"
    plan = wb.sql(query, on=functions, rows=rows, shards=4)
    assert "in the order of shards" in plan.explain()
    assert functions.forecast(plan).stages[-1].tasks > 1, "no task reads the rows of all others"
    assert pa.table(plan.to_arrow()) == pa.table(wb.sql(query, rows=rows).to_arrow())


@pytest.mark.parametrize("shards", [1, 3])
def test_temporal_plans_are_those_of_one_process(functions: wb.functions.LocalFunctions, shards: int) -> None:
    with wb.config(shards=shards):
        plan = by_carrier(wb.read(FLIGHTS, time="sched_dep", shards=shards))
    assert values(plan.to_rows(on=functions)) == values(plan.to_rows())


def test_settings_take_functions(functions: wb.functions.LocalFunctions, rows: str) -> None:
    with wb.config(on=functions):
        table = wb.sql("select count(*) as n from rows", rows=rows).collect()
    assert values(table) == [(1_000_000,)]
    assert table.bill is not None


def test_small_queries_run_here(rows: str) -> None:
    with wb.functions.start(2) as functions:
        bill = wb.sql("select 6 * 7 as a", on=functions).collect().bill
        assert bill is not None and (bill.ran, bill.invocations) == ("coordinator", 0)
        assert functions.pids == []


def test_explain_shows_what_is_expected_and_the_choice(
    functions: wb.functions.LocalFunctions, rows: str
) -> None:
    query = wb.sql(GROUPS, on=functions, rows=rows)
    text = query.explain()
    assert "on functions" in text and "stage 0:" in text and "GETs" in text
    assert len(re.findall(r"^  \* \d+ shards( in stages of [\d, ]+ tasks)?:", text, re.MULTILINE)) == 1
    analyzed = query.explain(analyze=True)
    assert "happened:" in analyzed and "| was" in analyzed
    # The statements of SQL show the same, in Python and in the command.
    for statement, last in ((f"explain {GROUPS}", "stage 0:"), (f"explain analyze {GROUPS}", "happened:")):
        lines = [row.plan for row in wb.sql(statement, on=functions, rows=rows).to_rows()]
        assert any(last in line for line in lines) and any(" shards: " in line for line in lines)


def test_the_command_chooses_shows_and_bills(rows: str) -> None:
    command = [sys.executable, "-m", "whimbrel"]
    place = "functions?small=0&concurrency=4&prices=aws-us-east-1-x86"
    sql = f"select k % 7 as k, count(*) as n from '{rows}' group by 1 order by 1"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done

    expected = run("sql", "--format", "csv", sql).stdout
    done = run("sql", "--on", place, "--time", "--format", "csv", sql)
    assert done.stdout == expected and re.search(r"^\$\d.* GB-s ", done.stderr, re.MULTILINE)
    assert "stage 0:" in (text := run("explain", "--on", place, sql).stdout)
    assert len(re.findall(r"^  \* ", text, re.MULTILINE)) == 1 and "4 shards: " in text
    assert "happened:" in run("explain", "--analyze", "--on", place, sql).stdout
    fixed = run("explain", "--on", place, "--shards", "3", sql).stdout
    assert "3 tasks" in fixed and "shards: " not in fixed
    # Statements with effects are planned once.
    script = f"create table t as select distinct k from '{rows}'; insert into t values (-1); "
    assert (
        run("sql", "--on", place, "--format", "csv", f"{script} select min(k) as k from t").stdout
        == "k\n-1\n"
    )
    fast, cheap = (
        run("explain", "--on", f"{place}&{goal}", sql).stdout for goal in ("max_cost=1", "max_latency=1h")
    )
    chosen = re.compile(r"^  \* \d+ shards.*: ([\d.]+) s, \$([\d.]+)", re.MULTILINE)
    (seconds, dollars), (more_seconds, fewer_dollars) = (
        map(float, chosen.findall(text)[0]) for text in (fast, cheap)
    )
    assert seconds <= more_seconds and dollars >= fewer_dollars
    # What is only explained has cost nothing.
    done = run("sql", "--on", place, "--time", f"{sql}; explain {sql}")
    assert done.stderr.count("GB-s $") == 1
    done = subprocess.run([*command, "sql", "--on", "functions?speed=9", sql], capture_output=True, text=True)
    assert done.returncode != 0 and "unknown parameter" in done.stderr


def test_goals_choose_among_the_numbers_of_shards(rows: str) -> None:
    with wb.functions.start(8, small=0, prices="aws-us-east-1-x86") as functions:

        def chosen(**goal: Any) -> wb.functions.Choice:
            query = wb.sql(GROUPS, on=functions.within(**goal), rows=rows)
            (choice,) = (choice for choice in query.choices if choice.chosen)
            return choice

        fastest, cheapest = chosen(max_cost=1.0), chosen(max_latency="1h")
        assert fastest.seconds <= cheapest.seconds
        assert cheapest.dollars <= fastest.dollars
        knee = chosen(knee=True)
        assert cheapest.seconds >= knee.seconds >= fastest.seconds
    for wrong in ({}, {"max_cost": 1.0, "knee": True}, {"max_cost": -1.0}, {"max_latency": "soon"}):
        with pytest.raises(wb.InvalidError):
            functions.within(**wrong)  # type: ignore[arg-type]


def test_stages_have_numbers_of_tasks_of_their_own(rows: str) -> None:
    with wb.functions.start(64, small=0, prices="aws-us-east-1-x86") as functions:
        table = wb.read(rows, scale=1000)
        query = wb.sql(GROUPS, on=functions, rows=table)
        (chosen,) = (choice for choice in query.choices if choice.chosen)
        assert len(set(chosen.tasks)) > 2 and max(chosen.tasks) <= 64, chosen
        others = [choice for choice in query.choices if choice != chosen]
        products = [choice.seconds * choice.dollars for choice in others]
        assert chosen.seconds * chosen.dollars < min(products)
        tasks = ", ".join(map(str, chosen.tasks))
        assert f"  * {chosen.shards} shards in stages of {tasks} tasks:" in query.explain()
        # A number that is given is that of all stages.
        fixed = functions._expect(wb.sql(GROUPS, on=functions, rows=table, shards=8)._plan)
        assert set(fixed.tasks) == {8, 1}
        stages = query._plan.stage_shards()
        plan = wb.sql(GROUPS, on=functions, rows=rows, shards=5)._plan
        assert len(stages) == len(plan.stage_shards())
        changed = wb.ShardedStream(plan.with_stage_shards([1, 2, 3][: len(stages)]))
        assert values(changed.to_rows(on=functions)) == values(wb.sql(GROUPS, rows=rows).to_rows())


CHOSEN = {
    "groups": GROUPS,
    "two joins": LONG,
    "distinct": "select count(*) as c from (select distinct k, n % 7 as d, left(text, 1) as t from rows)",
    "windows": """
        select k, n, row_number() over (partition by k order by n desc) as r from rows where n % 50 = 0
    """,
    "order": "select n, text from rows where k < 30 order by text, n",
    "not in": "select n from rows where n not in (select k * 3 from rows) and n < 100000",
    "scalar": "select k, n from rows where n > (select avg(n) + 499000 from rows)",
    "recursion": """
        with recursive r(i) as (select 1 union all select i + 1 from r where i < 9)
        select i, count(*) as c, sum(n) as s from r join rows on i = k % 10 group by i
    """,
}


@pytest.mark.parametrize("name", CHOSEN)
def test_queries_in_chosen_tasks_have_the_answers_of_one_process(name: str, rows: str) -> None:
    # Functions that begin at once and are slow: many of them are faster than one.
    rates = wb.functions.Rates(1e-4, 1e-4, 5e9, 2e8, 2e7)
    with wb.functions.start(8, small=0, prices="aws-us-east-1-x86", rates=rates) as functions:
        query = wb.sql(CHOSEN[name], on=functions.within(max_cost=1.0), rows=rows)
        (chosen,) = (choice for choice in query.choices if choice.chosen)
        assert len(set(chosen.tasks)) > 1, chosen
        assert values(query.to_rows()) == values(wb.sql(CHOSEN[name], rows=rows).to_rows())


def test_tables_that_are_planned_as_if_they_were_larger_do_not_run(
    functions: wb.functions.LocalFunctions, rows: str
) -> None:
    table = wb.read(rows, scale=1000)
    few, many = (functions._expect(wb.sql(GROUPS, rows=t, shards=2)._plan) for t in (rows, table))
    assert 500 < many.stages[0].source_bytes / few.stages[0].source_bytes < 1500
    for on in (None, functions):
        with pytest.raises(wb.InvalidError, match="leave out scale= to run the query"):
            wb.sql(GROUPS, rows=table, on=on, shards=2).collect()
    with pytest.raises(wb.InvalidError, match="leave out scale="):
        table.to_bytes()
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(wb.InvalidError, match="scale is a number above zero"):
            wb.read(rows, scale=wrong)


def test_two_pools_share_a_query(rows: str, tmp_path: Path) -> None:
    own_prices = {
        "name": "rack", "date": "2026-11-28", "source": "invoice",
        "gb_second": 1e-6, "invocation": 0.0, "get": 0.0, "put": 0.0, "gb_month": 0.0,
    }  # fmt: skip
    settings: dict[str, Any] = {"small": 0, "bucket": str(tmp_path)}
    expected = values(wb.sql(GROUPS, rows=rows).collect().to_rows())
    with (
        wb.functions.start(1, prices=own_prices, **settings) as own,
        wb.functions.start(3, prices="aws-us-east-1-x86", **settings) as cloud,
    ):
        both = wb.functions.pools(base=own, elastic=cloud)
        assert both.cores == 4
        query = wb.sql(GROUPS, shards=6, on=both, rows=rows)
        text = query.explain()
        assert "base pool alone:" in text and "elastic pool alone:" in text
        table = query.collect()
        assert values(table.to_rows()) == expected
        bill = table.bill
        assert bill is not None
        base, elastic = bill.pools
        assert (base.pool, base.prices, elastic.pool) == ("base", "rack", "elastic")
        assert base.invocations > 0 and elastic.invocations > 0
        assert base.invocations + elastic.invocations == bill.invocations
        assert base.dollars + elastic.dollars == pytest.approx(bill.compute_dollars + bill.invocation_dollars)
        assert base.alone < bill.dollars < elastic.alone
        assert {attempt.pool for attempt in bill.attempts} == {"base", "elastic"}

        patient = wb.functions.pools(base=own, elastic=cloud, wait=None).within(max_latency="1h")
        bill = wb.sql(GROUPS, shards=6, on=patient, rows=rows).collect().bill
        assert bill is not None and bill.pools[1].invocations == 0

        address = (
            f"functions://whimbrel?bucket={tmp_path}&endpoint={cloud.endpoint}&base={own.endpoint}&wait=1h"
        )
        command = [sys.executable, "-m", "whimbrel", "sql", "--on", address, "--format", "csv"]
        sql = "select max(n) as n from range(2000000) t(n)"
        done = subprocess.run([*command, sql], capture_output=True, text=True, timeout=120)
        assert done.stdout.split() == ["n", "1999999"], done.stderr

        # A base pool that is gone is done without.
        os.kill(own.pids[0], signal.SIGKILL)
        own.stop()
        assert values(wb.sql(GROUPS, shards=6, on=both, rows=rows).collect().to_rows()) == expected
    with pytest.raises(wb.InvalidError, match="one by one"):
        both.within(knee=True).calibrated()
    with pytest.raises(wb.InvalidError, match="several already"):
        wb.functions.pools(base=cloud, elastic=both)
    with pytest.raises(wb.InvalidError, match="base are functions"):
        wb.functions.pools(base=None, elastic=cloud)  # type: ignore[arg-type]
    with wb.functions.start(1) as other, pytest.raises(wb.InvalidError, match="share a bucket"):
        wb.functions.pools(base=other, elastic=cloud)


def test_a_query_takes_the_size_of_functions_that_serves_its_goal(rows: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"small": 0, "bucket": str(tmp_path), "prices": "aws-us-east-1-x86"}
    expected = values(wb.sql(GROUPS, rows=rows).to_rows())
    with wb.functions.start(2, memory=1769, **settings) as small, wb.functions.start(2, **settings) as large:
        either = wb.functions.sizes(large, small)
        query = wb.sql(GROUPS, on=either, rows=rows)
        # A task is one thread, and has a whole processor from 1769 MB on.
        assert "on functions of 1769 MB\n" in query.explain()
        table = query.collect()
        assert values(table.to_rows()) == expected and table.bill is not None
        assert small.pids and not large.pids
        # What does not fit into the memory of a function is written and read again, which takes time.
        large_table = wb.read(rows, scale=10_000)
        join = "select a.text, b.text from rows a join rows b using (n)"
        fastest = either.within(max_cost=1e6).forecast(wb.sql(join, shards=4, rows=large_table))
        assert fastest.memory == 3008 and fastest.text.startswith("on functions of 3008 MB\n")
        with pytest.raises(wb.InvalidError, match="several already"):
            wb.functions.sizes(either, small)
        with pytest.raises(wb.InvalidError, match="several already"):
            wb.functions.pools(base=small, elastic=either)
        with pytest.raises(wb.InvalidError, match="one by one"):
            either.calibrated()
    for wrong in ((), (None,), (small, 3)):
        with pytest.raises(wb.InvalidError, match="sizes are functions"):
            wb.functions.sizes(*wrong)  # type: ignore[arg-type]


def test_rates_are_measured_and_can_be_kept(functions: wb.functions.LocalFunctions, rows: str) -> None:
    assert functions.calibrated().rates.rows > 0
    calibrated = functions.calibrated(GROUPS, rows=rows)
    rates = calibrated.rates
    assert rates.invocation > 0 and rates.compute > 0 and rates.transfer > 0 and rates.latency >= 0
    assert rates.processors is None or 0 < rates.processors <= functions.cores
    with wb.functions.start(2, rates=rates) as again:
        assert again.rates == rates
    # What plans are chosen by stays.
    with wb.functions.start(4, small=0, prices="aws-us-east-1-x86") as priced:
        for goal, of in (
            (priced.within(max_latency="1h"), "dollars"),
            (priced.within(max_cost=1.0), "seconds"),
        ):
            choices = wb.sql(GROUPS, on=goal.calibrated(), rows=rows).choices
            (chosen,) = (choice for choice in choices if choice.chosen)
            assert getattr(chosen, of) == min(getattr(choice, of) for choice in choices)
    for wrong in ({"rows": 0.0}, {"invocation": -1.0}, {"latency": float("nan")}):
        with pytest.raises(wb.InvalidError, match="rates"):
            wb.functions.start(2, rates=replace(rates, **wrong))


def test_a_service_lives_as_long_as_anybody_has_it() -> None:
    functions = wb.functions.start(1, small=0).within(knee=True)
    assert len(wb.sql("select 1 as a", on=functions).to_rows()) == 1


def test_wrong_settings_are_refused() -> None:
    for wrong, why in [
        ({"hedge": "all"}, "hedge is"),
        ({"hedge": []}, "hedge is"),
        ({"prices": 3}, "prices are"),
        ({"memory": -1}, "memory is"),
        ({"memory": 10**12}, "memory is"),
        ({"small": -1}, "small is"),
        ({"bucket": "gopher://a"}, "no place for the objects"),
        ({"bucket": "relative"}, "no place for the objects"),
        ({"prices": "azure"}, "no price sheet"),
        ({"prices": {"name": "x"}}, "no price sheet"),
        ({"concurrency": 0}, "at least"),
        ({"timeout": "soon"}, "timeout"),
        ({"keep": "soon"}, "keep"),
    ]:
        settings = {"function": "f", "bucket": "/tmp/whimbrel", "endpoint": "http://127.0.0.1:1"} | wrong
        with pytest.raises(wb.InvalidError, match=why):
            wb.functions.connect(**settings)  # type: ignore[arg-type]


def test_a_region_has_to_be_known_for_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(wb.InvalidError, match="AWS_REGION"):
        wb.functions.connect(function="f", bucket="/tmp/whimbrel")


def test_a_service_that_is_not_there_is_an_error_with_its_address(tmp_path: Path, rows: str) -> None:
    functions = wb.functions.connect(
        function="f", bucket=str(tmp_path), endpoint="http://127.0.0.1:1", small=0
    )
    with pytest.raises(wb.DataError, match="no function service answers at http://127.0.0.1:1/"):
        wb.sql("select count(*) from rows", on=functions, rows=rows).to_rows()


def test_live_sources_are_refused_with_where_they_run(functions: wb.functions.LocalFunctions) -> None:
    clicks = wb.live({"item": "string"})
    with pytest.raises(wb.InvalidError, match="run it in this process"):
        wb.sql("select item from c", c=clicks).collect(on=functions)
    clicks.close()


def test_jobs_and_named_datasets_are_of_clusters(functions: wb.functions.LocalFunctions) -> None:
    with pytest.raises(wb.InvalidError, match="cluster"):
        wb.sql("select 1 as a").submit(on=functions)
    with pytest.raises(wb.InvalidError, match="cluster"):
        wb.sql("select 1 as a").to_memory("a", on=functions)


def test_errors_of_users_look_as_they_do_here(functions: wb.functions.LocalFunctions, rows: str) -> None:
    # One row is wrong: of several, each run names the one that it comes to first.
    wrong = "select sum(cast(case when n = 654321 then text else '1' end as int)) as s from rows"
    with pytest.raises(wb.DataError) as here:
        wb.sql(wrong, rows=rows).to_rows()
    with pytest.raises(wb.DataError) as there:
        wb.sql(wrong, on=functions, rows=rows, shards=2).to_rows()
    assert str(here.value) == str(there.value)
    assert functions.last_bill is not None and functions.last_bill.failures == 0


def test_a_file_that_has_changed_is_named(functions: wb.functions.LocalFunctions, tmp_path: Path) -> None:
    path = tmp_path / "changes.parquet"
    wb.sql("select n from range(200000) t(n)").to_storage(path)
    query = wb.sql("select sum(n) as s from t", on=functions, t=str(path), shards=2)
    wb.sql("select n from range(300000) t(n)").to_storage(path, replace=True)
    with pytest.raises(wb.DataError, match=r"changes\.parquet"):
        query.to_rows()


def kill_some(functions: wb.functions.LocalFunctions, running: threading.Thread) -> None:
    killed = 0
    while running.is_alive() and killed < 3:
        time.sleep(0.1)
        for pid in functions.pids[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1


def test_long_messages_are_cut(functions: wb.functions.LocalFunctions) -> None:
    query = "select cast(repeat('x', 7000000) || n as int) as i from range(1) t(n)"
    with pytest.raises(wb.DataError, match="Int32") as raised:
        wb.sql(query, on=functions).to_rows()
    assert len(str(raised.value)) < 100_000


@pytest.mark.parametrize("name", ["größe.csv", "50%.csv", "a#b.csv", "a[1].csv", "*.csv", "x=1 (2).csv"])
def test_any_name_is_uploaded(functions: wb.functions.LocalFunctions, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x\n1\n2\n3\n")
    (tmp_path / "other.csv").write_text("x\n10\n")
    functions.upload(tmp_path / "other.csv")
    url = functions.upload(tmp_path / name)
    rows = wb.sql("select sum(x) as s from t", t=url, on=functions).to_rows()
    assert [row.s for row in rows] == [6]


def test_dictionaries_with_too_many_values_together(
    functions: wb.functions.LocalFunctions, tmp_path: Path
) -> None:
    for number in range(3):
        keys = pa.array([row % 100 for row in range(5000)], pa.int8())
        words = pa.array([f"v{number}-{value}" for value in range(100)])
        table = pa.table({"d": pa.DictionaryArray.from_arrays(keys, words)})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    files = wb.read(str(tmp_path / "*.parquet"), shards=1)
    assert values(files.to_rows(on=functions)) == values(files.to_rows())


def test_kept_outputs_do_not_overload_an_invocation(tmp_path: Path) -> None:
    """Tasks that read much share no invocation, wherever that comes from."""
    rows = "(select distinct repeat(md5(n::varchar), 4) as k from range(200000) t(n))"
    first, second = f"select count(*) as c from {rows}", f"select max(md5(k)) as m from {rows}"
    with wb.functions.start(
        2, small=0, pipelined=False, bucket=str(tmp_path / "bucket"), keep="1h"
    ) as functions:
        for query in (first, second):
            bill = wb.sql(f"set shard_rows=0; {query}", on=functions, shards=8).collect(on=functions).bill
        assert bill is not None and bill.kept == 8
        began = {attempt.start for attempt in bill.attempts if attempt.outcome == "ended"}
        assert len(began) >= 8, "each of the tasks was invoked by itself"


def test_too_little_memory_is_what_the_error_says(tmp_path: Path) -> None:
    large = "select distinct repeat(md5(n::varchar), 99) as s from range(300000) t(n)"
    memory = pytest.raises(wb.ResourceExhaustedError, match=r"it took \d+ MB of memory, and has 128 MB")
    with wb.functions.start(1, small=0, memory=128, bucket=str(tmp_path / "bucket")) as functions, memory:
        wb.sql(f"select max(length(s)) from ({large})", on=functions).to_rows()


def test_queries_that_fail_leave_nothing(tmp_path: Path) -> None:
    """Functions still write when the program ends, which waits for them."""
    bucket = tmp_path / "bucket"
    query = """
        select max(length(s)) as m
        from (
            select distinct repeat(md5(n::varchar), 40) as s, if(n = 999, cast('x' || n as int), 1) as c
            from range(200000) t(n)
        )
    """
    with wb.functions.start(3, small=0, bucket=str(bucket)) as functions:
        program = f"""
import whimbrel as wb
functions = wb.functions.connect(
    function="whimbrel", endpoint={functions.endpoint!r}, bucket={str(bucket)!r}, concurrency=3, small=0,
    inline=False,
)
try:
    wb.sql("set shard_rows=0;" + {query!r}, on=functions, shards=3).collect(on=functions)
except wb.DataError:
    print("failed")
"""
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ended.stdout == "failed\n", ended.stderr
        assert [path for path in bucket.rglob("*") if path.is_file()] == []


def test_functions_that_are_killed_change_nothing(rows: str) -> None:
    expected = values(wb.sql(LONG, rows=rows).to_rows())
    with wb.functions.start(2, small=0) as functions:
        query = wb.sql(LONG, on=functions, rows=rows, shards=6)
        result: list[wb.Table] = []
        # A kill may find a function between two invocations.
        while not any(table.bill and table.bill.failures for table in result) and len(result) < 5:
            thread = threading.Thread(target=lambda: result.append(query.collect()))
            thread.start()
            kill_some(functions, thread)
            thread.join()
            assert values(result[-1]) == expected
        assert result[-1].bill and result[-1].bill.failures > 0
        assert functions.sweep("0s") == (0, 0)


def test_a_function_that_hangs_is_overtaken(rows: str) -> None:
    # Eight like tasks, the last of which hangs until it is of no use any more.
    with wb.functions.start(3, small=0, timeout="30s") as functions:
        wb.sql(GROUPS, on=functions, rows=rows, shards=3).collect()
        stopped = functions.pids[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            query = wb.sql("select sum(length(md5(text))) as s from rows", on=functions, rows=rows, shards=12)
            result = query.collect()
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert values(result) == [(32_000_000,)]
        assert result.bill is not None and result.bill.duplicates == 1 and result.bill.seconds < 30
        # What hung may have been the one that was waited for longest; nobody waits for it.
        assert "late" in {attempt.outcome for attempt in result.bill.attempts}


def test_a_coordinator_that_was_killed_goes_on_from_what_is_kept(rows: str, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    program = f"""
import whimbrel as wb
with wb.functions.start(2, small=0, keep="1h", bucket={str(bucket)!r}) as functions:
    print("ready", flush=True)
    wb.sql({LONG!r}, on=functions, rows={rows!r}, shards=6).to_rows()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    until = time.monotonic() + 60
    while not list(bucket.rglob("manifest")):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    process.kill()
    process.wait()
    with wb.functions.start(2, small=0, keep="1h", bucket=str(bucket)) as functions:
        result = wb.sql(LONG, on=functions, rows=rows, shards=6).collect()
        assert values(result) == values(wb.sql(LONG, rows=rows).to_rows())
        assert result.bill is not None and result.bill.kept > 0
        functions.sweep("0s")
    assert [path for path in bucket.rglob("*") if path.is_file()] == []


def test_ctrl_c_leaves_nothing(rows: str, tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    # It has to be interrupted before it ends, also on a fast machine.
    longer = LONG.replace("md5(text)", "md5(md5(md5(md5(text))))")
    program = f"""
import whimbrel as wb
with wb.functions.start(2, small=0, inline=False, bucket={str(bucket)!r}) as functions:
    print("ready", flush=True)
    try:
        wb.sql({longer!r}, on=functions, rows={rows!r}, shards=6).to_rows()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        # Attempts that still run may write once more, and are cleaned up after.
        import time
        time.sleep(6)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    until = time.monotonic() + 60
    while not any(path.is_file() for path in bucket.rglob("*")):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "interrupted" in out, err
    assert [path for path in bucket.rglob("*") if path.is_file()] == []


def test_kept_outputs_serve_the_next_client(rows: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"small": 0, "keep": "1h", "bucket": str(tmp_path / "bucket")}
    with wb.functions.start(2, **settings) as functions:
        first = wb.sql(GROUPS, on=functions, rows=rows, shards=3).collect()
    with wb.functions.start(2, **settings) as functions:
        second = wb.sql(GROUPS, on=functions, rows=rows, shards=3).collect()
        assert functions.pids == []
        assert second.bill is not None and second.bill.kept > 0 and second.bill.invocations == 0
        assert values(second) == values(first)
        objects, size = functions.sweep("0s")
        assert objects > 0 and size > 0


def test_the_command_runs_queries_on_functions(rows: str) -> None:
    command = [sys.executable, "-m", "whimbrel", "sql", "--on", "functions", "--format", "json"]
    asked = [*command, f"select count(*) as n, sum(n) as s from '{rows}'"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"n": 1_000_000, "s": 499999500000}


def test_a_function_alone_says_who_starts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whimbrel", "function"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "started by a function service" in done.stderr


SERVICE_FAULTS: dict[str, list[Fault]] = {
    "lost answers": [Fault("POST", lose_response=True, times=2)],
    "cut answers": [Fault("POST", cut_after=50, times=2)],
    "full": [Fault("POST", status=429, times=5)],
    "broken": [Fault("POST", status=500, times=2)],
    "late": [Fault("POST", delay=1.0, times=2)],
}


@pytest.mark.parametrize("name", SERVICE_FAULTS)
def test_faults_of_the_function_service_change_nothing(name: str, rows: str, tmp_path: Path) -> None:
    faults = SERVICE_FAULTS[name]
    with wb.functions.start(2, small=0) as service, FaultProxy(service.endpoint, faults) as proxy:
        functions = wb.functions.connect(
            function="whimbrel",
            endpoint=proxy.url,
            bucket=str(tmp_path / "bucket"),
            concurrency=2,
            small=0,
            inline=False,
        )
        result = wb.sql(GROUPS, on=functions, rows=rows, shards=6).collect()
        assert values(result) == values(wb.sql(GROUPS, rows=rows).to_rows())
        assert all(fault.fired > 0 for fault in faults), faults
        # Work whose answer was lost was done, and its object is found.
        assert functions.sweep("0s") == (0, 0)


# Object stores over the network.


def through(proxy: FaultProxy, path: str, **settings: Any) -> wb.functions.LocalFunctions:
    return wb.functions.start(
        2, small=0, inline=False, bucket=f"s3://whimbrel/{path}", s3=proxy.url, **settings
    )


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what `s3=` sets within the test."""
    monkeypatch.setenv("AWS_ENDPOINT", "")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")


@on_s3
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("server", [S3, STRICT_S3])
def test_tables_and_objects_in_a_bucket(server: str | None, rows: str) -> None:
    if server is None:
        pytest.skip("this server is not there")
    with wb.functions.start(2, small=0, bucket="s3://whimbrel/tables", s3=server, inline=False) as functions:
        table = functions.upload(rows)
        # A stream is stored as a folder.
        assert table == "s3://whimbrel/tables/tables/rows.parquet/"
        result = wb.sql(GROUPS, on=functions, rows=table, shards=3).collect()
        assert values(result) == values(wb.sql(GROUPS, rows=rows).to_rows())
        bill = result.bill
        assert bill is not None and bill.table_gets > 0 and bill.written_bytes > 0
        assert functions.sweep("0s") == (0, 0)


@on_s3
@pytest.mark.usefixtures("environment")
def test_a_task_opens_the_objects_that_it_reads(rows: str, tmp_path: Path) -> None:
    assert S3 is not None
    parts, count = tmp_path / "parts", 12
    parts.mkdir()
    for part in range(count):
        some = wb.sql(f"select * from rows where n % {count} = {part}", rows=rows)
        some.to_polars().write_parquet(parts / f"{part:02}.parquet")
    with wb.functions.start(2, small=0, bucket="s3://whimbrel/parts", s3=S3) as functions:
        query = wb.sql(GROUPS, on=functions, rows=functions.upload(str(parts)), shards=4)
        result = query.collect()
        assert values(result) == values(wb.sql(GROUPS, rows=rows).to_rows())
        assert result.bill is not None
        # Two requests open an object, and two read it. Three tasks begin within one that another reads.
        requests = functions._expect(query._plan).stages[0].gets
        assert requests == 2 * count + 2 * (count + 3)
        assert 3 * count < result.bill.table_gets <= requests + 2 * 3


FAULTS: dict[str, list[Fault]] = {
    "slow first bytes": [Fault("GET", "/queries/", delay=1.0, times=2)],
    "slow bodies": [Fault("GET", "/queries/", bytes_per_second=100_000, times=2)],
    "refused": [
        Fault("GET", "/queries/", status=503, times=3),
        Fault("PUT", "/queries/", status=503, times=2),
    ],
    "conflicts": [Fault("PUT", "/queries/", status=409, times=2)],
    "cut": [Fault("GET", "/queries/", cut_after=1000, times=3)],
    "lost answers": [Fault("PUT", "/queries/", lose_response=True, times=2)],
    "late visibility": [Fault("GET", "/queries/", hide_for=0.3, times=2)],
    "broken": [Fault("GET", "/queries/", status=500, times=3)],
}


@on_s3
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_store_change_nothing(name: str, rows: str) -> None:
    assert S3 is not None
    expected = values(wb.sql(GROUPS, rows=rows).to_rows())
    faults = FAULTS[name]
    with FaultProxy(S3, faults) as proxy, through(proxy, f"faults-{name.replace(' ', '-')}") as functions:
        result = wb.sql(GROUPS, on=functions, rows=rows, shards=4).collect()
        assert values(result) == expected
        assert all(fault.fired > 0 for fault in faults), faults
        assert functions.sweep("0s") == (0, 0)


@on_s3
@pytest.mark.usefixtures("environment")
def test_late_requests_are_sent_twice_within_the_budget(rows: str) -> None:
    server, delay = S3 or "", 2.0

    def seconds(hedge: bool) -> tuple[float, wb.functions.Bill]:
        slow = Fault("GET", "/queries/", delay=delay, times=1)
        with FaultProxy(server, [slow]) as proxy, through(proxy, f"hedge-{hedge}", hedge=hedge) as functions:
            bill = wb.sql(GROUPS, on=functions, rows=rows, shards=4).collect().bill
        assert slow.fired == 1 and bill is not None
        return bill.seconds, bill

    undisturbed, hedged = seconds(hedge=False), seconds(hedge=True)
    # With the remedy off, the query waits for the slow request.
    assert undisturbed[1].hedged == 0 and undisturbed[0] > delay
    assert 1 <= hedged[1].hedged <= 2 + 0.35 * (hedged[1].gets + hedged[1].puts)
    assert hedged[0] < undisturbed[0]


@on_s3
@pytest.mark.usefixtures("environment")
def test_requests_on_the_wire_are_those_of_the_bill(rows: str) -> None:
    assert S3 is not None
    with FaultProxy(S3) as proxy, through(proxy, "counted", hedge=False, pipelined=False) as functions:
        bill = wb.sql(GROUPS, on=functions, rows=rows, shards=4).collect().bill
        assert bill is not None
        own = [request for request in proxy.requests if "/counted/" in request.path]
        sent = (sum(r.method == "GET" for r in own), sum(r.method == "PUT" for r in own))
        assert sent == (bill.gets, bill.puts) == bill.formula


def test_forked_processes_say_that_they_are(tmp_path: Path) -> None:
    program = f"""
import os, whimbrel as wb
with wb.functions.start(1, small=0, bucket={str(tmp_path / "bucket")!r}) as functions:
    functions.upload({str(FLIGHTS)!r})
    if (child := os.fork()) == 0:
        for work in (lambda: wb.sql("select 1 as a", on=functions).to_rows(), lambda: functions.sweep()):
            try:
                work()
            except wb.InvalidError as error:
                print(error, flush=True)
        functions.stop()
        os._exit(0)
    os.waitpid(child, 0)
    print(wb.sql("select 1 as a", on=functions).to_rows())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    *children, last = ended.stdout.splitlines()
    assert len(children) == 2 and all("is a fork; connect again" in line for line in children), ended
    assert last == "[Row(a=1)]", ended
