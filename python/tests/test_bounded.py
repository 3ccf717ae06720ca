"""Bounded databases from Python: values, pages, cursors, refusals, threads, asyncio."""

from __future__ import annotations

import asyncio
import string
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import whimbrel as wb
from whimbrel import _whimbrel
from whimbrel.bounded import AsyncPage, Database, Page

SCHEMA = """
    create table users (username varchar(20) primary key, town varchar(40));
    create table thoughts (owner varchar(20) references users, at int, text varchar(140),
        primary key (owner, at));
    create table follows (owner varchar(20) references users, target varchar(20) references users,
        approved boolean, primary key (owner, target), cardinality limit 5 (owner))
"""
THOUGHTS = "select at, text from thoughts where owner = :username order by at desc paginate 3"
STREAM = """select t.owner, t.text from follows f join thoughts t on t.owner = f.target
    where f.owner = :username and f.approved order by t.at desc limit 10"""


@pytest.fixture
def db() -> Iterator[Database]:
    with wb.bounded.open("memory:") as db:
        db.execute(SCHEMA)
        for user in ("ann", "bob", "cid"):
            db.execute("insert into users values (?, ?)", user, "Ghent")
        write = db.prepare("insert into thoughts values (:owner, :at, :text)")
        for at in range(10):
            assert write(owner="ann", at=at, text=f"thought {at}") == 1
        yield db


def test_statements_answer_pages_numbers_or_nothing(db: Database) -> None:
    assert db.execute("create table other (a int primary key)") is None
    assert db.execute("insert into other values (1), (2)") == 2
    assert db.execute("update other set a = a where a = 7") == 0
    assert db.execute("delete from other where a = ?", 1) == 1
    page = db.execute("select * from other limit 5")
    assert isinstance(page, Page)
    assert [*page] == [(2,)]
    assert db.tables() == ["follows", "other", "thoughts", "users"]
    assert "users" in repr(db)


def test_a_script_runs_statement_by_statement() -> None:
    db = wb.bounded.open("memory:")
    page = db.execute(
        "create table t (a int primary key); insert into t values (1), (2); select * from t paginate 1;"
    )
    assert [row.a for row in page] == [1]
    assert [row.a for row in page.next()] == [2]
    # Values are those of the last statement.
    with pytest.raises(wb.InvalidError, match="no value for parameter 1"):
        db.execute("insert into t values (?); insert into t values (?)", 3)
    assert db.execute("select * from t limit 5; insert into t values (?)", 3) == 1
    with pytest.raises(wb.InvalidError, match="no statement"):
        db.execute("  -- nothing")
    # An application says its schema every time it starts.
    assert db.execute("create table if not exists t (a int primary key)") is None
    with pytest.raises(wb.InvalidError, match="already"):
        db.execute("create table t (a int primary key)")


def test_rows_are_named_tuples(db: Database) -> None:
    page = db.prepare(THOUGHTS)(username="ann")
    at, text = page[0]
    assert (at, text) == (9, "thought 9") == page.first()
    assert page[0].text == "thought 9"
    assert page[0]._asdict() == {"at": 9, "text": "thought 9"}
    assert [row.at for row in page[1:]] == [8, 7]
    assert len(page) == 3
    assert page.columns == ["at", "text"]
    assert page.to_dicts()[2] == {"at": 7, "text": "thought 7"}
    assert repr(page).startswith("Page([Row(at=9, text='thought 9'), ") and repr(page).endswith(", …])")
    counted = db.execute("select count(*), max(target) as last from follows where owner = 'ann'")
    assert counted.first()._fields == ("_0", "last")
    assert counted.to_dicts() == [{"count(*)": 0, "last": None}]
    nothing = db.prepare(THOUGHTS)(username="nobody")
    assert not nothing and nothing.first() is None and nothing.cursor is None and nothing.next() is None


def test_pages_are_tables_to_others(db: Database) -> None:
    page = db.prepare(THOUGHTS)("ann")
    assert page.to_arrow().column_names == ["at", "text"]
    assert page.to_polars().equals(pl.DataFrame(page))
    assert pa.table(page)["at"].to_pylist() == [9, 8, 7]
    assert [*page.to_pandas()["text"]] == ["thought 9", "thought 8", "thought 7"]
    joined = wb.sql("select max(at) as last from page", page=page)
    assert joined.collect()["last"] == [9]


def test_values_are_given_as_in_a_call(db: Database) -> None:
    query = db.prepare("select text from thoughts where owner = :owner and at = :at")
    assert query.parameters == ["owner", "at"]
    for page in (query("ann", 3), query("ann", at=3), query(at=3, owner="ann")):
        assert page.first().text == "thought 3"
    by_number = db.prepare("select text from thoughts where owner = $2 and at = $1")
    assert by_number.parameters == [None, None]
    assert by_number(3, "ann").first().text == "thought 3"
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((), {"owner": "ann"}, "no value for parameter :at"),
        (("ann", 3, 4), {}, "2 parameters, and 3 values"),
        (("ann", 3), {"at": 3}, "by its place already"),
        (("ann",), {"att": 3}, "did you mean :at?"),
        (("ann", "three"), {}, "parameter :at takes int32, and 'three' does not fit"),
        ((7, 3), {}, "parameter :owner takes string, and 7 does not fit"),
        (("ann", 2**40), {}, "does not fit"),
        (("ann", 0.5), {}, "does not fit"),
        (("ann", [3]), {}, "does not fit"),
    ]
    for values, named, message in wrong:
        with pytest.raises(wb.InvalidError, match=message.replace("?", r"\?")):
            query(*values, **named)
    with pytest.raises(wb.InvalidError, match="no parameters with names"):
        by_number(3, "ann", at=3)


def test_lists(db: Database) -> None:
    query = db.prepare("select username from users where username in (:names limit 3) order by username")
    assert query.bound.requests == 3
    for names in (["bob", "ann"], ("ann", "bob", "bob"), {"bob", "ann"}, (n for n in ("ann", "bob"))):
        assert [row.username for row in query(names=names)] == ["ann", "bob"]
    assert not query([])
    for names, message in (("ann", "is a list"), (7, "is a list"), (list("abcd"), "at most 3")):
        with pytest.raises(wb.InvalidError, match=message):
            query(names)


ZONE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("of", "given", "read"),
    [
        ("boolean", True, True),
        ("smallint", -7, -7),
        ("int", 2**31 - 1, 2**31 - 1),
        ("bigint", -(2**63), -(2**63)),
        ("double", 0.1, 0.1),
        ("double", 3, 3.0),
        ("decimal(10, 2)", Decimal("12345678.90"), Decimal("12345678.90")),
        ("decimal(10, 2)", 7, Decimal("7.00")),
        ("varchar(20)", "smörgås \N{SNOWMAN}", "smörgås \N{SNOWMAN}"),
        ("text", "", ""),
        ("varbinary(8)", b"\0\xff", b"\0\xff"),
        ("date", date(2026, 2, 28), date(2026, 2, 28)),
        ("timestamp", datetime(2026, 2, 28, 12, 30, 0, 7), datetime(2026, 2, 28, 12, 30, 0, 7)),
        ("timestamp", datetime(2026, 2, 28, 12, 30, tzinfo=ZONE), datetime(2026, 2, 28, 10, 30)),
        ("timestamp", date(2026, 2, 28), datetime(2026, 2, 28)),
        ("varchar(36)", uuid.UUID(int=7), str(uuid.UUID(int=7))),
        ("varbinary(16)", uuid.UUID(int=7), uuid.UUID(int=7).bytes),
    ],
)
def test_values_come_back_as_they_went(of: str, given: Any, read: Any) -> None:
    db = wb.bounded.open("memory:")
    db.execute(f"create table t (g int, v {of}, w {of}, n int, primary key (g, v, n))")
    db.execute("insert into t values (1, ?, ?, 1)", given, given)
    # In a record, in a key, and as a value that a cursor carries.
    query = db.prepare("select v, w from t where g = 1 and v = :v order by n paginate 1")
    page = query(v=given)
    assert page.first() == (read, read)
    assert type(page.first().w) is type(read)
    assert page.cursor is not None
    assert not query.resume(page.cursor)
    assert db.execute("update t set w = ? where g = 1 and v = ? and n = 1", None, given) == 1
    assert db.execute("select w from t where g = 1 and v = ? limit 1", given).first() == (None,)


def test_pages_and_cursors(db: Database) -> None:
    query = db.prepare(THOUGHTS)
    page = query(username="ann")
    seen = []
    while page is not None:
        seen += [row.at for row in page]
        assert page.spent.requests <= query.bound.requests
        assert page.spent.rounds <= query.bound.rounds
        # What comes while somebody reads moves nothing.
        db.execute("insert into thoughts values ('ann', ?, 'new')", 100 + len(seen))
        page = page.next()
    assert seen == [*range(9, -1, -1)]
    first = query(username="ann").cursor
    assert first is not None
    assert set(first) <= {*string.ascii_letters, *string.digits, "-", "_"}
    # The cursor carries the values; where they matter they are given again.
    again = query.resume(first, username="ann")
    assert [*again] == [*query.resume(first)]
    further = query.resume(first).next()
    assert further is not None and further[0].at < again[-1].at


def test_cursors_that_do_not_fit_are_refused(db: Database) -> None:
    query = db.prepare(THOUGHTS)
    cursor = query(username="ann").cursor
    assert cursor is not None
    changed = cursor[:30] + ("A" if cursor[30] != "A" else "B") + cursor[31:]
    for wrong, message in ((changed, "was changed"), ("", "cut off"), ("ä", "not one of ours")):
        with pytest.raises(wb.InvalidError, match=message):
            query.resume(wrong)
    with pytest.raises(wb.InvalidError, match="other parameters"):
        query.resume(cursor, username="bob")
    other = db.prepare(THOUGHTS.replace("at, text", "text"))
    with pytest.raises(wb.InvalidError, match="another query"):
        other.resume(cursor)
    with pytest.raises(wb.InvalidError, match="paginate"):
        db.prepare("select * from users where username = ?").resume(cursor)
    with wb.bounded.open("memory:") as elsewhere:
        elsewhere.execute(SCHEMA)
        with pytest.raises(wb.InvalidError, match="another key"):
            elsewhere.prepare(THOUGHTS).resume(cursor)
    db.execute("alter table thoughts add column mood varchar(10)")
    with pytest.raises(wb.InvalidError, match="change of the schema"):
        query.resume(cursor)


def test_long_values_are_not_carried(db: Database) -> None:
    query = db.prepare("select username from users where town in (? limit 50) order by username paginate 1")
    towns = ["Ghent", *(f"{'x' * 30}{n}" for n in range(30))]
    page = query(towns)
    assert page.cursor is not None and len(page.cursor) < 200
    with pytest.raises(wb.InvalidError, match="too long to be in the cursor"):
        query.resume(page.cursor)
    with pytest.raises(wb.InvalidError, match="other parameters"):
        query.resume(page.cursor, towns[:-1])
    assert query.resume(page.cursor, towns).first().username == "bob"
    further = page.next()
    assert further is not None and further.first().username == "bob"


def test_a_key_of_ones_own(tmp_path: Path) -> None:
    keys = [bytes([n]) * 32 for n in (1, 2)]
    cursors = []
    for key in (*keys, keys[0]):
        with wb.bounded.open(tmp_path / "app.redb", cursor_key=key) as db:
            db.execute("create table if not exists t (a int primary key)")
            db.execute("upsert into t values (1), (2)")
            query = db.prepare("select a from t order by a paginate 1")
            cursors.append(query().cursor)
            assert query.resume(cursors[-1]).first() == (2,)
    assert cursors[0] == cursors[2] != cursors[1]
    with pytest.raises(wb.InvalidError, match="32 bytes, not 3"):
        wb.bounded.open("memory:", cursor_key=b"key")


def test_bounds_and_plans(db: Database) -> None:
    query = db.prepare(STREAM)
    bound = query.bound
    assert (bound.requests, bound.rounds, bound.tuples, bound.rows) == (1 + 5, 2, 5 + 5 * 10, 10)
    assert bound.bytes and str(bound).startswith("at most 6 requests in 2 rounds")
    assert repr(bound).startswith("Bound(requests=6, rounds=2, tuples=55, ")
    assert bound == db.prepare(STREAM).bound
    assert "SortedIndexJoin(thoughts t" in query.explain()
    assert query.sql == STREAM and repr(query).startswith("Query('select t.owner")
    endless = db.prepare("select * from users where town = 'Ghent' allow unbounded 'a report'")
    assert endless.bound.requests is None or endless.bound.tuples is None
    assert "a report" in endless.explain()


def test_a_verdict_needs_no_index_to_be_made(db: Database) -> None:
    plan = db.explain("select * from users where town = ? limit 3")
    assert "new index on users: users_town" in plan and "at most 1 request " in plan
    assert "new index" in db.explain("select * from users where town = ? limit 3")
    assert db.explain("delete from users where username = 'x'").startswith("Delete users\n")
    with pytest.raises(wb.UnboundedError):
        db.explain("select * from users")


def test_returning(db: Database) -> None:
    page = db.execute(
        "update users set town = upper(town) where username = :name returning town as t", name="ann"
    )
    assert isinstance(page, Page) and page.first().t == "GHENT"
    gone = db.prepare("delete from thoughts where owner = ? and at = ? returning *")
    assert gone("ann", 3).to_dicts() == [{"owner": "ann", "at": 3, "text": "thought 3"}]
    assert not gone("ann", 3)


def test_refusals_have_fixes_that_a_program_can_use(db: Database) -> None:
    query = "select t.text from follows f join thoughts t on t.owner = f.target where f.target = :target"
    with pytest.raises(wb.UnboundedError) as raised:
        db.prepare(query)
    error = raised.value
    assert isinstance(error, wb.WhimbrelError)
    assert error.reason and "<-- no limit here" in error.drawing and "fix 1" in str(error)
    assert 1 <= len(error.fixes) <= 3
    for fix in error.fixes:
        assert fix.title in str(error) and str(fix.bound) in str(error) and fix.title in repr(fix)
        with wb.bounded.open("memory:") as trial:
            trial.execute(SCHEMA)
            *changes, rest = _whimbrel.statements(fix.paste)
            if fix.changes_schema and not rest.startswith("select"):
                changes, rest = [*changes, rest], query
            for change in changes:
                trial.execute(change)
            assert trial.prepare(rest).bound == fix.bound


def test_errors_say_what_to_do(db: Database) -> None:
    with pytest.raises(wb.InvalidError, match='did you mean "users"'):
        db.prepare("select * from user where username = ?")
    with pytest.raises(wb.InvalidError, match=r"(?s)usrname.*\^"):
        db.prepare("select usrname from users where username = ?")
    with pytest.raises(wb.DataError, match="already"):
        db.execute("insert into users values ('ann', 'x')")
    with pytest.raises(wb.DataError, match="refers to a row of users that is not there"):
        db.execute("insert into thoughts values ('nobody', 1, 'x')")
    with pytest.raises(wb.DataError, match="at most|takes 140"):
        db.execute("insert into thoughts values ('ann', 50, ?)", "x" * 141)
    db.execute("insert into users values ('d', ''), ('e', ''), ('f', ''), ('g', '')")
    follow = db.prepare("insert into follows values (?, ?, true)")
    for target in "bob", "cid", "d", "e", "f":
        follow("ann", target)
    with pytest.raises(wb.DataError, match="follows takes at most 5 rows with the same"):
        follow("ann", "g")
    with pytest.raises(wb.InvalidError, match="executor"):
        wb.bounded.open("memory:", executor="fast")  # type: ignore[arg-type]
    with pytest.raises(wb.InvalidError, match="mongo"):
        wb.bounded.open("mongo://localhost/app")
    with pytest.raises(wb.UnavailableError, match="no/such/folder"):
        wb.bounded.open("/no/such/folder/app.redb")


def test_options() -> None:
    with wb.bounded.open("memory:", make_indexes=False, most_requests=3, executor="lazy") as db:
        db.execute(SCHEMA)
        with pytest.raises(wb.InvalidError, match="create index on users"):
            db.prepare("select * from users where town = ? limit 2")
        with pytest.raises(wb.UnboundedError, match="one call may take 3"):
            db.prepare(STREAM)


def test_a_file_is_free_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "app.redb"
    db = wb.bounded.open(path)
    db.execute("create table t (a int primary key); insert into t values (1)")
    query = db.prepare("select a from t where a = ?")
    with pytest.raises(wb.UnavailableError):
        wb.bounded.open(path)
    db.close()
    db.close()
    # A statement that is still held keeps nothing open.
    with pytest.raises(wb.InvalidError, match="closed"):
        query(1)
    with pytest.raises(wb.InvalidError, match="closed"):
        db.execute("insert into t values (2)")
    with wb.bounded.open(f"file:{path}") as again:
        assert again.execute("select a from t where a = 1").first() == (1,)
        assert again.repair(0.0) == (0, 0, 0, [])
        again.refresh()


def test_an_index_is_made_over_rows_that_are_there(db: Database) -> None:
    query = db.prepare("select username from users where town = ? order by username limit 10")
    assert [row.username for row in query("Ghent")] == ["ann", "bob", "cid"]


def test_who_gives_up_says_so() -> None:
    db = wb.bounded.open("memory:", conflict_timeout=0.0)
    db.execute(
        "create table counters (name varchar(20) primary key, n int); insert into counters values ('all', 0)"
    )
    add = db.prepare("update counters set n = n + 1 where name = 'all'")
    conflicts = []

    def work() -> None:
        for _ in range(2000):
            try:
                add()
            except wb.ConflictError as error:
                conflicts.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # What was not acknowledged was not written.
    assert db.execute("select n from counters where name = 'all'").first() == (8000 - len(conflicts),)
    assert all("nothing was written" in conflict for conflict in conflicts)


def test_many_threads() -> None:
    db = wb.bounded.open("memory:")
    db.execute("create table counters (name varchar(20) primary key, n int)")
    db.execute(
        "create table log (worker int, at int, primary key (worker, at), cardinality limit 100 (worker))"
    )
    db.execute("insert into counters values ('all', 0)")
    add = db.prepare("update counters set n = n + 1 where name = 'all'")
    log = db.prepare("insert into log values (?, ?)")
    mine = db.prepare("select at from log where worker = ? order by at paginate 10")
    start = threading.Barrier(8)

    def work(worker: int) -> list[int]:
        start.wait()
        for at in range(25):
            log(worker, at)
            add()
        # Each has statements of its own beside those that all share, and one more index.
        own = db.prepare(f"select at from log where worker = {worker} and at >= ? order by at limit 50")
        assert len(own(0)) == 25
        page, seen = mine(worker), []
        while page is not None:
            seen += [row.at for row in page]
            page = page.next()
        return seen

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(work, range(8))] == [[*range(25)]] * 8
    assert db.execute("select n from counters where name = 'all'").first() == (8 * 25,)


def test_limits_hold_among_threads(tmp_path: Path) -> None:
    with wb.bounded.open(tmp_path / "limit.redb") as db:
        db.execute("create table t (g int, i int, primary key (g, i), cardinality limit 10 (g))")
        insert = db.prepare("insert into t values (1, ?)")

        def attempt(i: int) -> int:
            try:
                return insert(i)
            except wb.DataError:
                return 0

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(attempt, range(40))) == 10


def test_the_interpreter_is_free_while_the_store_works(tmp_path: Path) -> None:
    with wb.bounded.open(tmp_path / "app.redb") as db:
        db.execute("create table t (a int primary key)")
        insert = db.prepare("insert into t values (?)")
        done, ticks = threading.Event(), 0

        def write() -> None:
            for a in range(20):
                insert(a)
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        while not done.is_set():
            ticks += 1
            time.sleep(0)
        thread.join()
        assert ticks > 20


def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with wb.bounded.open_async(tmp_path / "app.redb") as db:
            assert await db.execute(SCHEMA) is None
            await db.execute("insert into users values ('ann', 'Ghent')")
            write = await db.prepare("insert into thoughts values (:owner, :at, 'x')")
            assert await asyncio.gather(*(write(owner="ann", at=at) for at in range(20))) == [1] * 20
            query = await db.prepare(THOUGHTS)
            assert (query.bound.requests, query.parameters, query.sql) == (1, ["username"], THOUGHTS)
            assert "IndexScan" in query.explain() and repr(query).startswith("AsyncQuery(")
            page, seen = await query(username="ann"), []
            assert isinstance(page, AsyncPage) and "AsyncPage([Row(" in repr(page)
            assert page.cursor is not None
            assert [*await query.resume(page.cursor)] == [*(await page.next() or ())]
            while page is not None:
                seen += [row.at for row in page]
                page = await page.next()
            assert seen == [*range(19, -1, -1)]
            with pytest.raises(wb.DataError):
                await write("nobody", 1)
            with pytest.raises(wb.UnboundedError):
                await db.prepare("select * from thoughts")
            assert db.tables() == ["follows", "thoughts", "users"] and "AsyncDatabase" in repr(db)
            await db.refresh()
            assert await db.repair(0.0) == (0, 0, 0, [])
        with pytest.raises((wb.InvalidError, RuntimeError)):
            await write("ann", 100)
        again = await wb.bounded.open_async(tmp_path / "app.redb", threads=1, executor="simple")
        async with again:
            assert len(await again.execute("select at from thoughts where owner = 'ann' limit 50")) == 20

    asyncio.run(main())


def test_what_is_cancelled_before_its_turn_is_not_done() -> None:
    async def main() -> None:
        async with wb.bounded.open_async("memory:", threads=1) as db:
            await db.execute("create table t (a int primary key)")
            insert = await db.prepare("insert into t values (?)")
            blocked = threading.Event()
            waiting = asyncio.get_running_loop().run_in_executor(db._pool, blocked.wait)
            task = asyncio.create_task(insert(1))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            blocked.set()
            await waiting
            assert not await db.execute("select a from t where a = 1")

    asyncio.run(main())


def test_a_latency_is_predicted(db: Database) -> None:
    stream = db.prepare(STREAM)
    with pytest.raises(wb.DataError, match="measure"):
        stream.predict("50% under 10s")
    db.measure(intervals=2, samples=30)
    db.measure(intervals=1, samples=30, add=True)
    said = stream.predict("50% under 10s")
    assert said.holds and said.rounds == 2 and len(said.intervals) == 3
    assert 0 < said.latency <= said.worst < 10 and said.band[0] <= said.latency <= said.band[1]
    assert "50% under 10s" in str(said) and "holds=True" in repr(said)
    lines = db.execute(f"explain slo '50% under 10s' {STREAM.replace(':username', '?')}")
    assert any("bound" in row.plan for row in lines)
    chart = db.chart(STREAM, "50% under 10s", "rows", range(10, 31, 10))
    assert chart.largest == 30 and [rows for rows, _ in chart.points] == [10, 20, 30]
    assert chart.svg.startswith("<svg")
    with pytest.raises(wb.InvalidError, match="promise"):
        stream.predict("often")
    with pytest.raises(wb.InvalidError, match="at least one"):
        db.chart(STREAM, "50% under 10s", "rows", [])


def test_limits_of_a_chart_are_whole_numbers() -> None:
    db = wb.bounded.open("memory:")
    db.execute("create table notes (id int primary key)")
    with pytest.raises(wb.InvalidError, match="-1 is no limit"):
        db.chart("select * from notes limit 10", "50% under 10s", "rows", [-1])


def test_an_asynchronous_database_that_was_closed_says_so() -> None:
    async def main() -> None:
        db = await wb.bounded.open_async("memory:")
        await db.close()
        with pytest.raises(wb.InvalidError, match="closed"):
            await db.execute("create table notes (id int primary key)")

    asyncio.run(main())


def test_decimals_of_python_are_compared_exactly() -> None:
    db = wb.bounded.open("memory:")
    db.execute("create table d (id int primary key, p decimal(10, 2))")
    db.execute("insert into d values (1, 9.99), (2, 10.00)")
    below = db.prepare("select id from d where p < ? order by p limit 5")
    assert [row.id for row in below(Decimal("9.9949"))] == [1]
    assert [row.id for row in below(9.99)] == []
    assert db.execute("delete from d where id = 1 and p = ?", Decimal("9.9949")) == 0
    assert [row.id for row in db.execute("select id from d where id = ?::int", 2)] == [2]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout: float) -> None:
    with pytest.raises(wb.InvalidError, match="conflict_timeout is a number of seconds that is not negative"):
        wb.bounded.open("memory:", conflict_timeout=timeout)
