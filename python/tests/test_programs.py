"""Plans as programs: what is printed, run again, is the same plan, and edits that change the meaning are
refused.

A plan that was built step by step is rebuilt exactly. A plan that an SQL optimizer has made has qualified
columns, projections that only leave some out, and aggregates named after their texts, for which a program has
no words: it is the same query in other ones. So for these the program's plan is held against the plan that
running its text gives, and the answers of both against each other, row for row and type for type.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_queries import queries as random_queries
from random_queries import tables as tables_of

import whimbrel as wb
from whimbrel import _whimbrel as native

ROOT = Path(__file__).parents[2]
# One file tests the runner of such files, in words that only the runner knows.
SLT = sorted(path for path in (ROOT / "tests" / "slt").glob("*.slt") if path.stem != "runner")
TPCH = ROOT / "tests" / "tpch"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

CLICKS = wb.from_rows(
    [(0, "a", 1, 2.5), (1, "b", 2, 1.0), (2, "a", 2, 7.5), (30, "c", 1, 0.5)],
    schema=["time", "item", "user", "price"],
    time="time",
)
SALES = wb.from_rows([{"item": "a", "price": 5, "n": 1}, {"item": "b", "price": 7, "n": None}])
NAMES = wb.from_rows([{"item": "a", "name": "Apple"}, {"item": "c", "name": "Cider"}])


FLIGHT = {"dep": "timestamp[us]", "arr": "timestamp[us]", "origin": str, "tailnum": str, "carrier": str}
FLIGHT |= {"dep_delay": "float64", "arr_delay": "float64"}
CLICK = {"time": "timestamp[us]", "visitor": "string", "item": "string"}


def again(stream: wb.ShardedStream) -> wb.ShardedStream:
    """Print, run, and hold what comes out against what was printed."""
    program = stream.to_python()
    rebuilt = program.run()
    assert program.builds(rebuilt), f"another plan\n{program}\n{rebuilt.explain()}"
    assert str(rebuilt.to_python()) == str(program), f"printed again\n{program}\n{rebuilt.to_python()}"
    return rebuilt


def same_answer(stream: wb.ShardedStream) -> None:
    rebuilt = again(stream)
    assert dict(rebuilt.schema) == dict(stream.schema), stream.to_python()
    # Each gives its rows in an order of its own, where the query asks for none.
    ours, theirs = (sorted(map(repr, each.to_rows())) for each in (rebuilt, stream))
    assert ours == theirs, stream.to_python()


# The corpus.


def queries(path: Path) -> Iterator[wb.ShardedStream]:
    """All queries of a file, its statements run in between."""
    session = native.Session(1)
    for block in re.split(r"\n\s*\n", path.read_text()):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines or lines[0].startswith(("statement error", "query error")):
            continue
        planned = session.plan("\n".join(lines[1:]).split("\n----")[0])
        plan = planned.plan()
        if planned.kind() == "store" and plan is not None:
            session.store(planned, wb.ShardedStream(plan).collect()._native)
        if planned.kind() == "query" and plan is not None:
            yield wb.ShardedStream(plan)


# Constants and values that a program has no words for, and says so: maps and structs.
UNWRITTEN = r"no way to write the (constant|value) \[?\{"


@pytest.mark.parametrize("path", SLT, ids=lambda path: path.stem)
def test_every_query_of_the_corpus(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for stream in queries(path):
        # What a session counts, or makes at random, is no function of a row.
        if re.search(r"\b((next|curr)val|random)\(", stream.explain()):
            with pytest.raises(wb.InvalidError, match="gives another value every time"):
                stream.to_python().run()
            continue
        try:
            same_answer(stream)
        except wb.InvalidError as error:
            assert re.search(UNWRITTEN, str(error)), error


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    """The path of each table of TPC-H."""
    if not (Path(sys.executable).parent / "tpchgen-cli").exists():
        pytest.skip("no data: tpchgen-cli is not installed")
    command = [sys.executable, TPCH / "data.py", "0.01"]
    folder = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {name: f"{folder}/{name}.parquet" for name in TABLES}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(tables: dict[str, Any], number: int, shards: int) -> None:
    same_answer(wb.sql((TPCH / f"q{number:02}.sql").read_text(), shards=shards, **tables))


@pytest.mark.parametrize("seed", range(6))
def test_random_queries(seed: int) -> None:
    inputs = tables_of(seed)
    for sql in random_queries(seed, list(inputs), 25):
        with contextlib.suppress(NotAQuery):
            same_answer(planned(sql, inputs))


class NotAQuery(Exception):
    """What is made at random is not always SQL, or of kinds that fit, or can be run."""


def planned(sql: str, inputs: dict[str, Any]) -> wb.ShardedStream:
    try:
        stream = wb.sql(sql, **inputs)
        stream.collect(progress=False)
    except wb.WhimbrelError as error:
        raise NotAQuery from error
    return stream


EXAMPLES = {
    plan: (file, columns)
    for file, columns, plans in [
        ("flights", FLIGHT, ["departures", "in_the_air", "delays"]),
        ("clicks", CLICK, ["sampled_counts", "sanitized_counts"]),
    ]
    for plan in plans
}


@pytest.mark.parametrize("plan", EXAMPLES)
def test_examples(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    file, columns = EXAMPLES[plan]
    stream = getattr(importlib.import_module(file), plan)(wb.live(columns, time=next(iter(columns))))
    assert stream.to_python().builds(again(stream))
    assert stream.to_python().builds(stream)


PLANS = {
    "rows": CLICKS.query(
        lambda q: (
            q.where(lambda e: (e.price > 1) & ~e.item.isin(["b", "x"]) | e.user.is_null())
            .with_columns(double=lambda e: e.price * 2, item_2=lambda e: e.item + "!")
            .select("item", "double", big=lambda e: wb.when(e.double > 4).then("yes").otherwise("no"))
        )
    ),
    "names that Python has no attributes for": SALES.query(
        lambda q: q.select(**{"the item": lambda e: e.item, "from": "price", "_x": lambda e: e.n}).where(
            lambda e: (e["from"] > 1) & (e["the item"] != 'say "hi"\n')
        )
    ),
    "types": SALES.query(
        lambda q: q.select(
            small=lambda e: e.price.cast("int32"),
            tried=lambda e: e.item.cast("float64", strict=False),
            day=wb.lit(dt.date(2024, 2, 29)),
            at=wb.lit(dt.datetime(2024, 2, 29, 12, 30)),
            zoned=wb.lit("2024-02-29T12:00:00", "timestamp[ns, UTC]"),
            long=wb.lit(dt.timedelta(minutes=5)),
            month=wb.lit("1 month", "interval"),
            exact=wb.lit("1.50", "decimal[10, 2]"),
            nothing=wb.lit(None, "int8"),
            odd=wb.lit(float("nan")),
            bytes=wb.lit(b"\x00\xff"),
            clock=wb.lit("12:30:00", "time[us]"),
        )
    ),
    "functions": SALES.query(
        lambda q: q.select(
            root=lambda e: wb.fn.sqrt(e.price),
            rest=lambda e: e.price % 3 + e.price // 2 + wb.fn.mod(e.price, 2) + wb.fn.div(e.price, 2),
            loud=lambda e: e.item.upper(),
            like=lambda e: e.item.like("a%") | e.item.ilike("B_"),
            pair=lambda e: wb.fn.named_struct("x", e.price, "y", e.n),
        ).with_columns(x=lambda e: e.pair["x"], same=lambda e: e.rest.eq_missing(e.root))
    ),
    "tumbling": CLICKS.rekey("item").query(
        lambda q: q.tumbling(10).aggregate(n=wb.count(), most=wb.max("price"))
    ),
    "lifetimes": CLICKS.rekey("user").query(
        lambda q: (
            q.shift(5)
            .hopping(20, hop=5, offset=2)
            .sliding(7)
            .sliding(7, closed="right")
            .alter_duration(9)
            .clip(4)
            .chop(3, offset=1)
            .session(3, max_duration=30)
            .session(4, max_duration=30, cap="grid")
            .with_start("at")
            .alter_lifetime(lambda s: s + 1, lambda s, t: t - s)
            .point_at_end()
            .alter_lifetime(duration=float("inf"))
        )
    ),
    "groups": CLICKS.query(
        lambda q: q.group_apply(
            "item", lambda g: g.tumbling(10).aggregate(total=wb.sum("price", where=lambda e: e.price > 0))
        )
    ),
    "two streams": CLICKS.rekey("item").query(
        CLICKS.rekey("item"),
        lambda a, b: a.tumbling(10).join(b.tumbling(10), suffix="_2").where_not_exists(b.clip(3)).clip(a),
    ),
    "used twice": CLICKS.query(
        lambda q: q.where(lambda e: e.price > 1).multicast(lambda s: s.union(s.shift(5)))
    ),
    "moved": CLICKS.reshard(3)
    .rekey("item")
    .redistribute(4)
    .multicast(lambda e: e.user % 4, shards=4)
    .broadcast(2),
    "requirements": CLICKS.query(
        lambda q: q.require_sorted("user", "item").require_distinct_starts().require_duration(1)
    )
    .reshard(3, together=("item", "user"))
    .query(lambda q: q.tumbling(10).aggregate(n=wb.count())),
    "computed key": CLICKS.rekey(lambda e: {"bucket": e.user % 10})
    .redistribute(2)
    .query(lambda q: q.tumbling(10).aggregate(n=wb.count())),
    "co-located": CLICKS.rekey("item")
    .redistribute(3)
    .colocated("item")
    .query(NAMES.rekey("item").redistribute(3), lambda a, b: a.join(b, how="left", colocated=True)),
    "joins": SALES.query(
        NAMES,
        lambda a, b: (
            a.join(b, on="item", how="full")
            .join(b, left_on="item", right_on="name", how="anti", nulls_equal=True)
            .join(b, on="item", how="mark")
            .join(b, how="left", suffix="_3", where=lambda x, y: (x.price > 4) & (x.item < y.item))
        ),
    ),
    "relations": SALES.query(
        lambda q: (
            q.sort("price", "item", descending=[True, False], nulls_last=False).limit(5, offset=1).distinct()
        )
    ),
    "any aggregate": SALES.rekey("item").query(
        lambda q: q.aggregate(
            names=wb.agg.string_agg("item", wb.lit(","), order_by="price", descending=True),
            spread=wb.agg.stddev("price", where=lambda e: e.price > 0),
            different=wb.agg.sum("price", distinct=True),
        )
    ),
    "grouping sets": SALES.query(lambda q: q.aggregate(wb.rollup("item", "n"), total=wb.sum("price"))),
    "window functions": SALES.query(
        lambda q: q.with_columns(
            so_far=wb.sum("price").over("item", order_by="n", rows=(None, 0)),
            place=wb.agg.row_number().over(order_by=["price", lambda e: -e.n], descending=True),
        )
    ),
    "lists": wb.from_rows([{"k": 1, "tags": ["x", "y"]}, {"k": 2, "tags": None}]).query(
        lambda q: q.select_many("tags", "tag").select_many(lambda e: [e.k, e.k + 1], "either")
    ),
    "values": wb.values([(1, "a"), (2, None)], schema=["n", "s"]),
    "recursive": wb.values([{"n": 1}]).recursive(
        lambda known: known.query(lambda q: q.where(lambda e: e.n < 9).select(n=lambda e: e.n * 2)),
        distinct=True,
    ),
    "live": wb.live(
        {"at": "timestamp[us]", "item": "string"}, time="at", reorder_latency="5s", disorder="drop"
    ).query(lambda q: q.tumbling("1m").aggregate(n=wb.count())),
}


def test_a_list_in_the_place_of_another_column() -> None:
    same_answer(wb.sql("select * from fill_gaps(t, price, 1, item, values => {'n': 0})", t=SALES))
    prices = wb.from_rows([(3, "a"), (7, "a")], schema=["price", "item"])
    filled = wb.sql("select * from fill_gaps(t, price, 1, item)", t=prices)
    assert len(again(filled).to_rows()) == 5


@pytest.mark.parametrize("stream", PLANS.values(), ids=PLANS)
def test_what_was_built_is_rebuilt(stream: wb.ShardedStream) -> None:
    assert stream.to_python().builds(again(stream)), stream.to_python()
    assert stream.to_python().builds(stream), f"{stream.to_python()}\n{stream.explain()}"


def test_a_black_box_is_a_parameter() -> None:
    with pytest.warns(wb.UntracedLambdaWarning):
        odd = SALES.query(lambda q: q.where(lambda e: bool(str(e.price).endswith("5"))))
    assert again(odd).to_rows() == odd.to_rows()
    (name,) = odd.to_python().functions
    assert f"program(table: wb.ShardedStream, {name})" in odd.to_python()


def test_what_cannot_be_printed_says_so() -> None:
    best = wb.aggregate_function(
        initial=int, accumulate=lambda a, b: a + b, result=lambda a: a, returns="int64", name="best"
    )
    mine = SALES.query(lambda q: q.aggregate(x=best("price")))
    with pytest.raises(wb.InvalidError, match="no word for the aggregate best, which is a user's own"):
        mine.to_python()


# How it reads.


def reads(text: str, golden: str) -> None:
    """Compare with a file beside this one; `BLESS=1` writes the files anew."""
    path = Path(__file__).parent / "programs" / f"{golden}.txt"
    if os.environ.get("BLESS"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_ad_clicks_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clicks = pa.table({"time": [dt.datetime(2024, 1, 1)], "user": [7], "ad": ["shoe"]})
    pq.write_table(clicks, "clicks.parquet")
    plan = (
        wb.read("clicks.parquet", time="time")
        .query(lambda q: q.where(lambda e: e.user % 100 < 5))
        .rekey("ad")
        .redistribute(4)
        .query(lambda q: q.colocated("ad").hopping("5m", hop="1m").aggregate(clicks=wb.count()))
    )
    reads(plan.to_python(), "ad_clicks")


def test_a_query_of_tpch(tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(tables["orders"]).parent)
    files: dict[str, Any] = {name: f"{name}.parquet" for name in TABLES}
    text = (TPCH / "q03.sql").read_text()
    reads(wb.sql(text, shards=None, **files).to_python(), "tpch_3")


def test_windows_of_sql() -> None:
    text = """
        select item, price, avg(price) over (partition by item order by n rows 2 preceding) as recent
        from sales
    """
    reads(wb.sql(text, sales=SALES).to_python(), "recent")


def test_a_recursive_query() -> None:
    text = """
        with recursive powers(n) as (select 1 union all select n * 2 from powers where n < 9)
        select n from powers
    """
    reads(wb.sql(text).to_python(), "powers")


# What an edit may not do.


def refused(program: wb.Program, old: str, new: str) -> tuple[str, str]:
    """What is said about an edited program, and the line that it names."""
    assert old in program, program
    with pytest.raises(wb.InvalidError) as error:
        program.run(program.replace(old, new, 1))
    frames = [frame for frame in traceback.extract_tb(error.tb) if frame.filename.startswith("<program")]
    return str(error.value), frames[-1].line or ""


COUNTS = (
    CLICKS.rekey("item")
    .redistribute(3)
    .query(lambda q: q.colocated("item").tumbling(10).aggregate(n=wb.count()))
).to_python()

JOINED = (
    SALES.rekey("item")
    .redistribute(3)
    .query(NAMES.rekey("item").redistribute(3), lambda a, b: a.join(b, on="item", colocated=True))
).to_python()

COPIED = (
    SALES.reshard(3).query(NAMES.broadcast(3), lambda a, b: a.join(b, on="item", how="left", colocated=True))
).to_python()


def test_a_redistribution_that_is_left_out() -> None:
    said, line = refused(COUNTS, ".redistribute(3)", ".reshard(3)")
    assert said.startswith(
        "colocated: rows with equal item have to be in one shard, but they lie in no known way"
    )
    assert 'colocated("item")' in line
    assert COUNTS.run(COUNTS.replace(".redistribute(3)", "")).to_rows() == COUNTS.run().to_rows()


def test_a_key_that_is_changed() -> None:
    said, line = refused(COUNTS, '.rekey("item")', '.rekey("user")')
    assert 'they lie by user over 3 shards; add .rekey("item").redistribute() before' in said
    assert 'colocated("item")' in line
    said, line = refused(JOINED, '.rekey("item")', '.rekey("name")')
    assert "rows with equal item have to meet in one shard" in said
    assert "colocated=True" in line


def test_a_broadcast_of_the_side_that_is_kept() -> None:
    said, line = refused(COPIED, 'how="left"', 'how="full"')
    assert said.startswith("join: the right side is copied to every shard, so rows that the full join keeps")
    assert "colocated=True" in line
    # The two movements change places.
    moved = {"reshard(3)": "broadcast(3)", "broadcast(3)": "reshard(3)"}
    turned = re.sub(r"(reshard|broadcast)\(3\)", lambda found: moved[found[0]], COPIED)
    with pytest.raises(wb.InvalidError, match="the left side is copied to every shard"):
        COPIED.run(turned)
    inner = COPIED.run(turned.replace(', how="left"', ""))
    assert sorted(row.name for row in inner.to_rows()) == ["Apple"]


def test_another_source() -> None:
    one = wb.from_rows([(5, "z", 1, 2.0)], schema=["time", "item", "user", "price"], time="time")
    assert [row.item for row in COUNTS.run(table=one).to_rows()] == ["z"]
    with pytest.raises(wb.InvalidError, match="the program has no source tables; it has table"):
        COUNTS.run(tables=one)


# The command.


def test_the_command_prints_programs() -> None:
    command = [sys.executable, "-m", "whimbrel", "sql", "--as-python", "select 1 + 1 as two; select 'x' as y"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    first, second = printed.split("import whimbrel as wb\n")[1:]
    names: dict[str, Any] = {"wb": wb, "__name__": "program"}
    exec(second, names)
    assert "two=wb.lit(2)" in first
    assert names["result"].to_rows()[0].y == "x"
