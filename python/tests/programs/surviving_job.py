"""Jobs that are killed at any moment: one process runs several, each with a folder of its own.

`surviving_job.py ROOT RUNTIME SHARDS MODE` begins or goes on with all of them; in mode `finish`, it ends once
nothing new has come for a while, and in mode `run` it runs until it is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import whimbrel as wb

ITEMS = ["a", "b", "c", "d", "e"]


def clicks(root: Path) -> wb.ShardedStream:
    """Clicks, in files that grow."""
    return wb.follow(root / "clicks", time="time", schema={"time": "int64", "item": "string", "n": "int64"})


def views(root: Path) -> wb.ShardedStream:
    """Views, in files that grow."""
    return wb.follow(root / "views", time="time", schema={"time": "int64", "item": "string", "n": "int64"})


def windows(root: Path, shards: int) -> wb.ShardedStream:
    """Count per item and window."""
    keyed = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    return keyed.query(lambda q: q.hopping(20, hop=5).aggregate(n=wb.count(), sum=wb.sum("n")))


def sessions(root: Path, shards: int) -> wb.ShardedStream:
    """Sum up sessions per item."""
    keyed = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    return keyed.query(lambda q: q.session(7).aggregate(n=wb.count(), first=wb.min("n")))


def joined(root: Path, shards: int) -> wb.ShardedStream:
    """Join clicks with the views of the last ten ticks."""
    left = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    right = views(root).rekey(lambda e: e.item).redistribute(shards)
    right = right.query(lambda q: q.alter_duration(10).select("item", seen="n"))
    return left.query(right, lambda q, r: q.join(r, on="item"))


def absent(root: Path, shards: int) -> wb.ShardedStream:
    """Find clicks without a view in the last four ticks."""
    left = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    right = views(root).rekey(lambda e: e.item).redistribute(shards)
    right = right.query(lambda q: q.alter_duration(4))
    return left.query(right, lambda q, r: q.where_not_exists(r, on="item"))


def changes(root: Path, shards: int) -> wb.ShardedStream:
    """Keep counts without time, as SQL's changes."""
    rows = wb.follow(root / "clicks", schema={"time": "int64", "item": "string", "n": "int64"})
    return wb.sql("select item, count(*) as n, sum(n) as s from c group by item emit changes", c=rows)


def enriched(root: Path, shards: int) -> wb.ShardedStream:
    """Join clicks with a table, which ends long before they do."""
    table = wb.from_rows([{"item": item, "price": len(item)} for item in ITEMS[:3]])
    left = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    return left.query(table.rekey(lambda e: e.item).redistribute(shards), lambda q, t: q.join(t, on="item"))


def history(root: Path, shards: int) -> wb.ShardedStream:
    """Count clicks and those of a past that ends."""
    past = wb.from_rows([{"time": t, "item": "a", "n": -t} for t in range(20)], time="time")
    both = clicks(root).query(past, lambda q, p: q.union(p)).rekey(lambda e: e.item).redistribute(shards)
    return both.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), sum=wb.sum("n")))


def in_order(rows: wb.ShardedStream) -> wb.ShardedStream:
    """Give rows, whose numbers grow, an id that some of them share."""
    return rows.query(lambda q: q.with_columns(id=lambda e: e.n // 40).require_sorted("id"))


def runs(root: Path, shards: int) -> wb.ShardedStream:
    """Sum up rows by an id in whose order they come."""
    dealt = in_order(clicks(root)).reshard(shards, together="id")
    return dealt.query(lambda q: q.group_apply("id", lambda g: g.tumbling(50).aggregate(sum=wb.sum("n"))))


def merged(root: Path, shards: int) -> wb.ShardedStream:
    """Join clicks with the views of the same id, in whose order both come."""
    left = in_order(clicks(root)).rekey("id").redistribute(shards)
    right = in_order(views(root)).rekey("id").redistribute(shards)
    right = right.query(lambda q: q.alter_duration(30).select("id", seen="n"))
    return left.query(right, lambda q, r: q.join(r, on="id"))


class Numbered:
    """Numbers the clicks of each item."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def process(self, rows: Any) -> dict[str, list[int]]:
        """Give the numbers of some clicks."""
        numbers = []
        for item in rows["item"].to_pylist():
            self.counts[item] = self.counts.get(item, 0) + 1
            numbers.append(self.counts[item])
        return {"number": numbers}


def numbered(root: Path, shards: int) -> wb.ShardedStream:
    """Number clicks with an operator of Python."""
    keyed = clicks(root).rekey(lambda e: e.item).redistribute(shards)
    return keyed.query(lambda q: q.process(Numbered, returns={"number": "int64"}))


JOBS = {
    "windows": windows,
    "numbered": numbered,
    "sessions": sessions,
    "joined": joined,
    "absent": absent,
    "changes": changes,
    "enriched": enriched,
    "history": history,
    "runs": runs,
    "merged": merged,
}


def main(root: Path, runtime: Literal["library", "local"], shards: int, finish: bool) -> None:
    """Run all jobs."""
    idle = "300ms" if finish else None
    running = [
        query(root, shards).run_forever(
            root / name / "out",
            checkpoint=root / name / "state",
            every="50ms",
            stop_when_idle=idle,
            runtime=runtime,
            wait=False,
        )
        for name, query in JOBS.items()
    ]
    print("running", flush=True)
    for job in running:
        job.wait()


if __name__ == "__main__":
    which: Literal["library", "local"] = "library" if sys.argv[2] == "library" else "local"
    main(Path(sys.argv[1]), which, int(sys.argv[3]), sys.argv[4] == "finish")
