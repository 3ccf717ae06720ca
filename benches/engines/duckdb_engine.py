"""DuckDB over a native in-memory table. Loading the table is not measured; the fold of the result is."""

from __future__ import annotations

from functools import partial

import duckdb
import pyarrow as pa

from engines import Programs, timed
from workloads import HOP, WINDOW, Answer, Line

FOLD = "select count(*), coalesce(sum(n), 0), coalesce(sum(s), 0) from"

QUERIES = {
    "filter": {"scan": "select 1, count(*), sum(value) from events where value < 500"},
    "projection": {"scan": "select 1, count(x), sum(x) from (select value * 2 + key as x from events)"},
    "tumbling": {
        "group by": f"""{FOLD} (
            select key, t // {WINDOW} as w, count(*) as n, sum(value) as s from events group by all)""",
    },
    "hopping": {
        "a row a window": f"""{FOLD} (
            select key, t // {HOP} + k as w, count(*) as n, sum(value) as s
            from events, range(1, {WINDOW // HOP} + 1) as hops(k) group by all)""",
        "panes": f"""{FOLD} (
            select key, pane + k as w, sum(n) as n, sum(s) as s
            from (select key, t // {HOP} as pane, count(*) as n, sum(value) as s from events group by all),
                 range(1, {WINDOW // HOP} + 1) as hops(k) group by all)""",
    },
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's queries."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute("set preserve_insertion_order = false")
    connection.register("arrow_events", events)
    connection.execute("create table events as select * from arrow_events")

    def answer(query: str) -> Answer:
        row = connection.execute(query).fetchone()
        assert row is not None, "an aggregate without keys has one row"
        return Answer(*(int(value) for value in row))

    return {name: timed(partial(answer, query)) for name, query in QUERIES[line.query].items()}
