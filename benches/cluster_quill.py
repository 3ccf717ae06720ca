"""Quill's evaluation (§6.3 to §6.5), scaled down: scans, aggregates, joins, windows and a shuffle.

    .venv/bin/python benches/cluster_quill.py                  # beside Spark, which needs Java 17
    .venv/bin/python benches/cluster_quill.py --rows 200000 --engines whimbrel --repeats 1 --out /dev/null

Two workers of one core each hold the tables in their memory, as in the paper: user visits and page rankings,
and events over thirty days. One engine after another runs all queries: a first run, and `--repeats` more, of
which the median counts. A number counts if the answer is that of Whimbrel's local runtime.

- `scan`: pages above a rank, 5, 50 and 95 % of them, to the client (Fig. 12 to 14); visits whose agent is
  like a pattern, alone and with other conditions (Fig. 17).
- `aggregate`: the revenue of each source, with few, many and very many groups (Fig. 18 to 21).
- `join`: the three plans of Fig. 4 (Fig. 22 and 23), and the plan that each engine chooses. Spark has no
  third one.
- `tumbling`, `hopping`: events of each kind in windows of time, all results to the client (Fig. 25 and 26).
- `shuffle`: pairs of integers move by the hash of the first one (§6.5); beside it, two processes that copy
  as many bytes to each other by Arrow Flight over TLS, and do nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import whimbrel as wb
from peer_clusters import OURS, Texts, checked, measure
from run import machine
from tpch import HERE, answer, middle

WORKERS = 2
KINDS = 25
DAYS = 30
GROUPS = {"few": 2_000, "many": 67_000, "very_many": 2_000_000}

SCAN = "select url, rank from rankings where rank > {rank}"
LIKE = "select count(*) as n, sum(revenue) as revenue from visits where agent like '%ab%9%'"
CONDITIONS = f"{LIKE} and duration > 100 and revenue < 900 and day between 14 and 300"
AGGREGATE = """
    select count(*) as sources, sum(revenue) as revenue, max(revenue) as most
    from (select source_{groups} as source, sum(revenue) as revenue from visits group by source_{groups}) t
"""
JOIN = """
    select {hint} source_many as source, sum(revenue) as revenue, sum(rank) as rank
    from rankings join visits on url = page
    where day between 14 and 21 group by source_many order by revenue desc, source limit 1
"""
SPARK_JOINS = {
    "both_sides_move": "/*+ shuffle_hash(rankings) */",
    "one_side_is_copied": "/*+ broadcast(visits) */",
}
JOINS = {
    "both_sides_move": "joins: redistribute both sides",
    "one_side_is_copied": "joins: broadcast one side",
    "one_side_is_copied_to_machines": "joins: broadcast one side to machines, redistribute both locally",
}
TUMBLING = {"day": "1 day", "hour": "1 hour", "minute": "1 minute", "second": "1 second"}
HOPPING = {"day_of_week": ("1 day", "7 days"), "hour_of_day": ("1 hour", "1 day")}


def write(folder: Path, rows: int) -> dict[str, str]:
    """Write the tables: so many visits, a tenth as many pages, and as many events and pairs as visits."""
    random = np.random.default_rng(7)
    pages = max(rows // 10, 1)
    address = np.char.add("http://example.org/page/", np.arange(pages).astype(str))
    letters = np.char.add("Mozilla/5.0 ", random.integers(0, 1 << 40, 4096).astype("U"))
    agents = np.array([f"{agent} {index:x} like ab" for index, agent in enumerate(letters)])
    begin = np.datetime64("2026-01-01T00:00:00", "us").astype(np.int64)
    times = np.sort(random.integers(0, DAYS * 86_400, rows)) * 1_000_000 + begin
    tables = {
        "rankings": {
            "url": address,
            "rank": random.permutation(pages).astype(np.int64),
            "duration": random.integers(0, 300, pages),
        },
        "visits": {
            **{f"source_{name}": random.integers(0, groups, rows) for name, groups in GROUPS.items()},
            "page": address[random.integers(0, pages, rows)],
            "day": random.integers(0, 365, rows),
            "revenue": random.integers(0, 1000, rows),
            "duration": random.integers(0, 300, rows),
            "agent": agents[random.integers(0, len(agents), rows)],
        },
        "events": {
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "kind": random.integers(0, KINDS, rows),
        },
        "pairs": {"a": random.integers(0, 1 << 40, rows), "b": random.integers(0, 1 << 40, rows)},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=1 << 17)
    return {name: str(folder / f"{name}.parquet") for name in tables}


def shared(rows: int) -> Texts:
    """Give the queries that have one text for all engines."""
    pages = max(rows // 10, 1)
    scans = {f"scan_{part}": SCAN.format(rank=pages - pages * part // 100 - 1) for part in (5, 50, 95)}
    aggregates = {f"aggregate_{groups}": AGGREGATE.format(groups=groups) for groups in GROUPS}
    return {
        **scans,
        "scan_like": LIKE,
        "scan_conditions": CONDITIONS,
        **aggregates,
        "join": JOIN.format(hint=""),
    }


def ours(rows: int) -> Texts:
    """Give the queries as Whimbrel runs them: a text in SQL, or a program over the tables."""
    # A strategy that is not among the candidates is the one that is chosen.
    joins = {
        f"join_{name}": f"lambda tables: pick(wb.sql({JOIN.format(hint='')!r}, shards={WORKERS}, on=cluster,"
        f" **tables).candidates(), {strategy!r})"
        for name, strategy in JOINS.items()
    }
    window = "select kind, count(*) as n from {windows} group by kind, window_start, window_end"
    tumbling = {
        f"tumbling_{name}": window.format(windows=f"tumble(table events, descriptor(at), interval '{size}')")
        for name, size in TUMBLING.items()
    }
    hopping = {
        f"hopping_{name}": window.format(
            windows=f"hop(table events, descriptor(at), interval '{hop}', interval '{size}')"
        )
        for name, (hop, size) in HOPPING.items()
    }
    return {**shared(rows), **joins, **tumbling, **hopping}


def sparks(rows: int) -> Texts:
    """Give the queries in Spark's SQL."""
    joins = {f"join_{name}": JOIN.format(hint=hint) for name, hint in SPARK_JOINS.items()}
    window = "select kind, count(*) as n from events group by kind, window(at, {lengths})"
    tumbling = {f"tumbling_{name}": window.format(lengths=f"'{size}'") for name, size in TUMBLING.items()}
    hopping = {
        f"hopping_{name}": window.format(lengths=f"'{size}', '{hop}'")
        for name, (hop, size) in HOPPING.items()
    }
    return {**shared(rows), **joins, **tumbling, **hopping}


def shuffle(path: str, repeats: int) -> dict[str, float]:
    """Move pairs by a hash; give the seconds and the bytes that went to the other worker."""
    with wb.cluster.start(WORKERS) as cluster:
        wb.read(path, shards=WORKERS).to_memory("pairs", on=cluster)
        moved = cluster.datasets["pairs"].rekey("a").redistribute(WORKERS)
        counted = moved.rekey().query(lambda q: q.aggregate(n=wb.count(), low=wb.min("b")))
        runs, moved_bytes = [], 0
        for _ in range(1 + repeats):
            start = time.perf_counter()
            job = counted.submit(on=cluster)
            rows = job.result().to_rows()
            runs.append(time.perf_counter() - start)
            moved_bytes = job.stats().moved_bytes
            assert len(rows) == WORKERS
    return {"seconds": middle(runs), "first": runs[0], "bytes": moved_bytes}


def copy_rate(rows: int, repeats: int) -> float:
    """Let two processes copy rows to each other by Arrow Flight over TLS; give the bytes of a second."""
    program = HERE / "peers" / "cluster" / "flight_copy.py"
    command = [sys.executable, program, str(rows), str(repeats)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_table(records: dict[str, list[dict]]) -> None:
    """Print the median of each query on each engine."""
    times = {
        engine: {record["query"]: middle(record["runs"]) for record in of if "runs" in record}
        for engine, of in records.items()
    }
    print(f"{'query':>36}" + "".join(f"{engine:>12}" for engine in records))
    for query in dict.fromkeys(record["query"] for of in records.values() for record in of):
        cells = [
            f"{times[engine][query]:12.3f}" if query in times[engine] else f"{'-':>12}" for engine in records
        ]
        print(f"{query:>36}" + "".join(cells))


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000, help="visits, events and pairs each")
    parser.add_argument("--engines", nargs="+", default=[OURS, "spark"], choices=[OURS, "spark"])
    parser.add_argument("--repeats", type=int, default=3, help="how often after the first run")
    parser.add_argument("--out", type=Path, default=HERE / "cluster_quill_results.json")
    return parser.parse_args()


def main() -> None:
    """Measure, print a table, and write the results."""
    arguments = arguments_of_command()
    rows, repeats = arguments.rows, arguments.repeats
    wb.config(progress=False)
    with tempfile.TemporaryDirectory() as folder:
        tables: dict[str, Any] = write(Path(folder), rows)
        texts = {OURS: ours(rows), "spark": sparks(rows)}
        plain = {query: sql for query, sql in texts[OURS].items() if not sql.startswith("lambda")}
        answers = {query: answer(wb.sql(sql, **tables).to_arrow()) for query, sql in plain.items()}
        answers.update({f"join_{name}": answers["join"] for name in JOINS})
        records = {}
        for engine in arguments.engines:
            print(f"{engine} ...", flush=True)
            found = measure(engine, tables, texts[engine], repeats, in_memory=True)
            records[engine] = checked(found, answers)
        moved = shuffle(tables["pairs"], repeats)
    failed = [record for record in records.get(OURS, []) if "error" in record]
    if failed:
        raise SystemExit(f"the cluster fails: {failed}")
    print_table(records)
    rate, copied = moved["bytes"] / moved["seconds"], copy_rate(rows, repeats)
    print(f"shuffle: {rate / 1e6:.0f} MB/s to other workers, {rate / copied:.2f} times a bare copy by Flight")
    document = {
        "machine": machine(),
        "rows": rows,
        "results": records,
        "shuffle": {**moved, "bytes_a_second": rate, "copy_bytes_a_second": copied, "ratio": rate / copied},
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
