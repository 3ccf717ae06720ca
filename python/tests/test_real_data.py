"""Real data against other engines, where it is present."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import polars as pl
import pytest

import whimbrel as wb


def flights(real_data: Path) -> str:
    return str(real_data / "nyc_flights_2013.parquet")


@pytest.mark.parametrize("shards", [1, 3])
def test_departures_per_origin_over_tumbling_windows(real_data: Path, shards: int) -> None:
    stream = wb.read(flights(real_data), shards=shards).query(
        lambda q: q.where(lambda e: e.dep.is_not_null())
    )
    events = stream.with_time("dep", reorder_latency="2d").rekey("origin").redistribute(2)
    counted = events.query(lambda q: q.tumbling("1h").aggregate(n=wb.count())).to_polars()
    frame = pl.read_parquet(flights(real_data)).drop_nulls("dep")
    expected = frame.group_by(pl.col("dep").dt.truncate("1h"), "origin").agg(n=pl.len().cast(pl.Int64))
    ours = counted.select((pl.col("start") - pl.duration(hours=1)).alias("dep"), "origin", "n")
    assert ours.sort("dep", "origin").equals(expected.sort("dep", "origin"))


def test_hopping_counts_add_up(real_data: Path) -> None:
    path = real_data / "usagov_clicks.parquet"
    clicks = wb.read(path, time="time", disorder="adjust", reorder_latency="1d")
    per_item = clicks.rekey(lambda e: e.item).redistribute()
    counted = per_item.query(lambda q: q.hopping("5m", hop="1m").aggregate(n=wb.count())).to_polars()
    seconds = (pl.col("end") - pl.col("start")).dt.total_seconds()
    # Every click is alive for five minutes.
    assert counted.select((seconds * pl.col("n")).sum()).item() == len(wb.read(path).collect()) * 300


def test_aircraft_in_the_air(real_data: Path) -> None:
    known = wb.read(flights(real_data)).query(
        lambda q: q.where(lambda e: e.dep.is_not_null() & (e.arr > e.dep)).select("carrier", "dep", "arr")
    )
    flying = known.with_time("dep", "arr", reorder_latency="2d").rekey("carrier").redistribute(2)
    counted = flying.query(lambda q: q.aggregate(n=wb.count())).to_polars()
    rows = duckdb.query(
        f"""
        with steps as (
            select carrier, unnest([dep, arr]) t, unnest([1, -1]) d from '{flights(real_data)}'
            where dep is not null and arr > dep
        ), sums as (select carrier, t, sum(d) d from steps group by all),
        running as (select carrier, t, sum(d) over (partition by carrier order by t) n from sums)
        select carrier, max(n)::bigint peak from running group by all order by all
        """
    )
    assert rows is not None
    assert counted.group_by("carrier").agg(pl.max("n")).sort("carrier").rows() == rows.fetchall()
    alive = counted.select((pl.col("n") * (pl.col("end") - pl.col("start")).dt.total_seconds()).sum()).item()
    frame = pl.read_parquet(flights(real_data)).filter(pl.col("arr") > pl.col("dep"))
    assert alive == frame.select((pl.col("arr") - pl.col("dep")).dt.total_seconds().sum()).item()


def test_relational_queries(real_data: Path) -> None:
    table = wb.read(flights(real_data), shards=2).rekey("carrier").redistribute(3)
    ours = table.query(
        lambda q: q.where(lambda e: e.origin == "JFK").aggregate(
            n=wb.count(), delay=wb.avg("dep_delay"), far=wb.max("distance"), dests=wb.count_distinct("dest")
        )
    ).to_rows()
    rows = duckdb.query(
        f"""
        select carrier, count(*), avg(dep_delay), max(distance), count(distinct dest)
        from '{flights(real_data)}' where origin = 'JFK' group by all order by all
        """
    )
    assert rows is not None
    expected = rows.fetchall()
    for row, other in zip(sorted(ours, key=lambda row: row.carrier), expected, strict=True):
        assert (row.carrier, row.n, row.far, row.dests) == (other[0], other[1], other[3], other[4])
        assert math.isclose(row.delay, other[2])


def test_out_of_order_clicks_are_refused_with_their_row(real_data: Path) -> None:
    with pytest.raises(wb.DataError, match="row 39 is out of order"):
        wb.read(real_data / "usagov_clicks.parquet", time="time").collect()


def test_versions_as_intervals(real_data: Path) -> None:
    versions = wb.read(real_data / "opam_version_intervals.parquet")
    valid = versions.query(lambda q: q.where(lambda e: e.end.is_null() | (e.end > e.start)))
    stream = valid.with_time("start", "end", reorder_latency="10000d")
    counted = stream.query(lambda q: q.aggregate(n=wb.count())).collect()
    assert counted["end"][-1] is None
    still_valid = valid.query(lambda q: q.aggregate(n=wb.count(where=lambda e: e.end.is_null()))).to_rows()
    assert counted["n"][-1] == still_valid[0].n
