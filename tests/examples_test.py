"""The examples run, and their plans find what a few lines of Polars find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
CLICKS = ROOT.parent / "shared" / "data" / "usagov_clicks.parquet"

sys.path.insert(0, str(EXAMPLES))
import flights  # noqa: E402

LAST = pl.datetime(2013, 2, 1)


@pytest.fixture(scope="module")
def january() -> pl.DataFrame:
    """The flights of a month."""
    frame = pl.DataFrame(flights.flown())
    return frame.filter(pl.col("sched_dep") < LAST)


def test_departures_are_those_of_each_window(january: pl.DataFrame) -> None:
    found = flights.departures(flights.bounded(january.to_arrow())).to_polars()
    sample = january.filter(
        pl.col("tailnum").map_elements(sampled, return_dtype=pl.Boolean), pl.col("tailnum").is_not_null()
    )
    hops = pl.concat(
        sample.select("origin", at=pl.col("dep").dt.truncate("10m") + pl.duration(minutes=10 * (k + 1)))
        for k in range(6)
    )
    expected = hops.group_by("at", "origin").agg(departures=pl.len().cast(pl.Int64))
    # A row may stand for several windows in which the count stays the same.
    at = pl.datetime_ranges("start", "end", "10m", closed="left").alias("at")
    each = found.select(at, "origin", "departures").explode("at")
    order = ["at", "origin"]
    assert each.sort(order).rows() == expected.select(each.columns).sort(order).rows()


def sampled(tailnum: str) -> bool:
    import hashlib

    return hashlib.md5(tailnum.encode()).hexdigest() < "0d"


def test_the_air_holds_those_that_have_left_and_not_landed(january: pl.DataFrame) -> None:
    found = flights.in_the_air(flights.bounded(january.to_arrow())).to_polars()
    for instant in [
        pl.datetime(2013, 1, 5, 14, 3),
        pl.datetime(2013, 1, 20, 22),
        pl.datetime(2013, 1, 31, 9),
    ]:
        alive = january.filter(pl.col("dep") <= instant, pl.col("arr") > instant)
        expected = alive.group_by("carrier").agg(flying=pl.len().cast(pl.Int64)).sort("carrier")
        told = found.filter(pl.col("start") <= instant, pl.col("end") > instant)
        assert told.select("carrier", "flying").sort("carrier").rows() == expected.rows()


def test_delays_leave_out_troubled_aircraft(january: pl.DataFrame) -> None:
    found = flights.delays(flights.bounded(january.to_arrow())).to_polars()
    day = pl.duration(hours=24)
    late = january.filter(pl.col("dep_delay") > 30).select("tailnum", late="dep")
    # A late departure counts from the microsecond after it for 24 hours.
    before = (
        january.with_row_index("flight_number")
        .join(late, on="tailnum")
        .filter(pl.col("late") < pl.col("dep"), pl.col("late") + day >= pl.col("dep"))
        .group_by("flight_number")
        .len()
        .filter(pl.col("len") > 2)
    )
    sound = january.with_row_index("flight_number").join(before, on="flight_number", how="anti")
    instant = pl.datetime(2013, 1, 31, 20)
    window = sound.filter(pl.col("dep") < instant, pl.col("dep") >= instant - pl.duration(hours=6))
    expected = window.group_by("carrier").agg(
        delay=pl.col("dep_delay").mean().round(6), flights=pl.len().cast(pl.Int64)
    )
    told = found.filter(pl.col("start") <= instant, pl.col("end") > instant)
    told = told.select("carrier", pl.col("delay").round(6), "flights")
    assert told.sort("carrier").rows() == expected.sort("carrier").rows()


def test_live_plans_find_what_bounded_plans_find(january: pl.DataFrame) -> None:
    import whimbrel as wb

    few = january.filter(pl.col("sched_dep") < pl.datetime(2013, 1, 4)).to_arrow()
    for plan in flights.PLANS:
        source = wb.live(few.schema, time="dep", end="arr", reorder_latency="1d")
        tables: list[pl.DataFrame] = []
        job = plan(source).subscribe(
            lambda table, tables=tables: tables.append(table.to_polars()), form="tables"
        )
        for first in range(0, few.num_rows, 97):
            source.push(few.slice(first, 97))
        source.close()
        job.wait()
        expected = plan(flights.bounded(few)).to_polars()
        order = expected.columns
        assert pl.concat(tables).sort(order).equals(expected.sort(order)), plan.__name__


def run(*command: str | Path) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_runs(tmp_path: Path) -> None:
    page = tmp_path / "flights.html"
    printed = run(EXAMPLES / "flights.py", "--days", "1", "--speed", "200000", "--no-progress", "--out", page)
    assert "came too late" in printed
    assert str(page) in printed
    html = page.read_text()
    # Each for a wide window and for a phone.
    assert html.count("<svg") == 2 * 4
    # Nothing is fetched when the page is looked at.
    assert "http" not in html


def test_the_clicks_program_runs() -> None:
    if not CLICKS.exists():
        pytest.skip(f"no file of clicks at {CLICKS.relative_to(ROOT.parent)} beside the repository")
    assert "clicks came too late" in run(EXAMPLES / "clicks.py", CLICKS)


def test_the_benchmark_engines_agree() -> None:
    command = [
        ROOT / "benches" / "run.py",
        "--rows",
        "40000",
        "--threads",
        "1",
        "--repeats",
        "1",
        "--out",
        "/dev/null",
    ]
    assert "hopping" in run(*command)
