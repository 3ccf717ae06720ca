"""The papers' ad-click programs, line for line, over a file of clicks.

    python examples/clicks.py usagov_clicks.parquet

The file has a click a row, with the columns `time`, `visitor` and `item`, as the clicks came in: some are
out of order. Rows with `is_heartbeat` are no clicks: they say what time it is. The clicks are pushed into a
live source, and every heartbeat moves its time on, ten seconds behind: so late may a click be. The two
programs run at the same time.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa

import whimbrel as wb

LATENCY = timedelta(seconds=10)

# Quill's X, Y and Z: who clicks more than X times in Y is a bot; counts are over windows of Z.
X, Y, Z = 20, "5m", "10m"


def sampled_counts(clicks: wb.ShardedStream) -> wb.ShardedStream:
    """Count the clicks on each ad over five minutes, for a 5 % sample of users (Trill §2.1).

    The paper's program::

        str.Where(e => e.UserId % 100 < 5)
           .Select(e => { e.AdId })
           .GroupApply(e => e.AdId, s => s.Window(5min).Aggregate(w => w.Count()));
    """
    return clicks.query(
        lambda s: (
            s.where(lambda e: wb.fn.left(e.visitor, 2) < "0d")
            .select(lambda e: e.item)
            .group_apply(lambda e: e.item, lambda g: g.sliding("5m").aggregate(n=wb.count()))
        )
    )


def sanitized_counts(clicks: wb.ShardedStream) -> wb.ShardedStream:
    """Count the clicks on each ad that are not those of bots (Quill §3.7).

    The paper's program::

        var w0 = ss0.ReKey(e => e.UserId).ReDistribute();
        var w1 = w0.Query(s => s.SlidingWindow(Y).Count().Where(c => c > X));
        var w2 = w0.Query(w1, (l, r) => l.WhereNotExists(r));
        var w3 = w2.ReKey(e => e.AdId).ReDistribute().Query(s => s.HoppingWindow(Z).Count());
    """
    w0 = clicks.rekey(lambda e: e.visitor).redistribute()
    w1 = w0.query(lambda s: s.sliding(Y).aggregate(c=wb.count()).where(lambda e: e.c > X))
    w2 = w0.query(w1, lambda l, r: l.where_not_exists(r))
    return (
        w2.rekey(lambda e: e.item)
        .redistribute()
        .query(lambda s: s.hopping(Z, hop="1m").aggregate(n=wb.count()))
    )


def read(path: Path) -> pa.Table:
    """Read what is needed of the file."""
    columns = ("time", "is_heartbeat", "visitor", "item")
    return wb.read(path).query(lambda q: q.select(*columns)).to_arrow(progress=False)


def feed(rows: pa.Table, source: wb.LiveStream) -> None:
    """Push clicks as they came in, and move time on at every heartbeat."""
    beats = [row for row, beat in enumerate(rows["is_heartbeat"].to_pylist()) if beat]
    clicks = rows.drop_columns("is_heartbeat")
    first, now = 0, None
    for beat in beats:
        source.push(clicks.slice(first, beat - first))
        heartbeat = clicks["time"][beat].as_py() - LATENCY
        now = heartbeat if now is None else max(now, heartbeat)
        source.advance(now)
        first = beat + 1
    source.push(clicks.slice(first))
    source.close()


def busiest(tables: list[pl.DataFrame], rows: int = 8) -> pl.DataFrame:
    """List the items with the highest counts, and when each had its highest."""
    counts = pl.concat(tables).sort("n", "start", descending=[True, False])
    return counts.group_by("item", maintain_order=True).first().select("item", "n", "start").head(rows)


def main() -> None:
    """Run both programs over a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="a Parquet, CSV or Arrow file of clicks")
    rows = read(parser.parse_args().file)
    schema = rows.drop_columns("is_heartbeat").schema
    source = wb.live(schema, time="time", disorder="drop", reorder_latency=LATENCY)
    programs: dict[str, Callable[[wb.ShardedStream], wb.ShardedStream]] = {
        "a 5 % sample of users, sliding windows of five minutes (Trill §2.1)": sampled_counts,
        "without bots, hopping windows of ten minutes (Quill §3.7)": sanitized_counts,
    }
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in programs}
    jobs = [
        program(source).subscribe(lambda t, name=name: found[name].append(t.to_polars()), form="tables")
        for name, program in programs.items()
    ]
    start = time.perf_counter()
    # If a query fails, pushing to it fails too; wait() raises the cause.
    with contextlib.suppress(wb.DataError):
        feed(rows, source)
    for job in jobs:
        job.wait()
    seconds = time.perf_counter() - start
    for name, tables in found.items():
        print(f"\nClicks on an item: {name}")
        for item, n, at in busiest(tables).rows():
            print(f"  {item:10} {n:5}  {at:%d %b %H:%M}")
    print(f"\n{rows.num_rows:,} rows in {seconds:.1f} s; {jobs[0].late_rows:,} clicks came too late")


if __name__ == "__main__":
    main()
