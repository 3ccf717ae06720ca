"""DuckDB over a native in-memory table. Loading the table is not measured; the fold of the result is."""

from __future__ import annotations

from functools import partial

import duckdb
import pyarrow as pa

from engines import Programs, timed
from workloads import HOP, MISSED, STEPS, WINDOW, Answer, Line

FOLD = "select count(*), coalesce(sum(n), 0), coalesce(sum(s), 0) from"

VALUES_OF_TEXT = "select 1, count(*), sum(value) from events where"

# Each step of a pattern is a row further on; its condition leaves out some of the last digits of `value`.
AHEAD = ", ".join(f"lead(value, {step}) over w as v{step}" for step in range(STEPS))
MATCHES = " and ".join(f"(v{step} + {step}) % 10 >= {MISSED}" for step in range(STEPS))

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
    "sessions": {
        "lag": f"""{FOLD} (
            select key, session, count(*) as n, sum(value) as s from (
                select key, value, sum(began) over (w rows unbounded preceding) as session
                from (select *, coalesce((t - lag(t) over w >= {{window}})::int, 1) as began
                      from events window w as (partition by key order by t, value))
                window w as (partition by key order by t, value)
            ) group by all)""",
    },
    "join": {
        "hash join": """select count(*), sum(a.value), sum(b.value) from events a, events b
            where a.key = b.key and a.value < 250 and b.value >= 750
                and b.t >= a.t and b.t < a.t + {window}""",
    },
    "pattern": {
        "lead": f"""select count(*), sum(t), sum(last) from (
            select t, {AHEAD}, lead(t, {STEPS - 1}) over w as last
            from events window w as (partition by key order by t, value))
            where {MATCHES} and last < t + {{window}}""",
    },
    "text contains": {"scan": f"{VALUES_OF_TEXT} contains(path, 'test')"},
    "text equals": {"scan": f"{VALUES_OF_TEXT} path = 'Makefile'"},
    "text starts": {"scan": f"{VALUES_OF_TEXT} starts_with(path, 'src/')"},
    "text ends": {"scan": f"{VALUES_OF_TEXT} ends_with(path, '.py')"},
    "text like": {"scan": f"{VALUES_OF_TEXT} path like '%src%test%'"},
    "text offset": {"scan": "select 1, count(*), sum(strpos(path, 'test')) from events"},
}


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the line's queries."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute("set preserve_insertion_order = false")
    connection.register("arrow_events", events)
    connection.execute("create table events as select * from arrow_events")

    def answer(query: str) -> Answer:
        row = connection.execute(query.format(window=line.window)).fetchone()
        assert row is not None, "an aggregate without keys has one row"
        # A sum over no rows is null.
        return Answer(*(int(value or 0) for value in row))

    return {name: timed(partial(answer, query)) for name, query in QUERIES[line.query].items()}
