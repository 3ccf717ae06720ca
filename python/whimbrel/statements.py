"""SQL: text to sharded streams."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .function_plans import Choice
from .ingress import shard_count
from .query import Query
from .remote import RemoteRuntime
from .settings import current_remote
from .sharded import ShardedStream
from .sources import from_arrow, from_pandas, from_polars, from_rows, read


def sql(
    text: str,
    *,
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    shards: int | None = None,
    on: RemoteRuntime | None = None,
    **tables: Any,
) -> Query:
    """
    Plan a query in SQL.

    Parameters
    ----------
    text
        A query. Files are tables under their paths (``from 'clicks.parquet'``). Statements may precede it,
        each ended by a semicolon: ``create view``, ``create table``, ``create external table``, …
        A query that ends in ``emit changes`` returns the changes of its result (`ShardedStream.changes`); in
        ``emit final``, the default, rows that are final.
    parameters
        Values of the placeholders; a value is never parsed as SQL. A list for ``$1``, ``$2`` or ``?``, a dict
        for ``$name`` or ``:name``.
    shards
        The number of shards to read files in and to maintain results of live sources in; on a cluster, by
        default as many as it has threads; on functions, as many as serve their goal (`Functions.within`).
    on
        The cluster, or the functions, on which the query runs; by default those of `config`, or this process.
    **tables
        Tables by name: sharded streams, paths of files, polars, pandas and Arrow tables, lists of dicts.

    Returns
    -------
    Query
        A sharded stream of the query's columns, in one shard, and its candidate plans. Nothing has run but
        the preceding statements.

    Raises
    ------
    InvalidError
        If the text is wrong; the message shows where. If a placeholder has no value, or a value no
        placeholder.
    DataError
        If there is no such file, or one is broken.

    Examples
    --------
    >>> import whimbrel as wb
    >>> clicks = [{"item": "a", "price": 1}, {"item": "b", "price": 2}, {"item": "a", "price": 3}]
    >>> totals = "select item, sum(price) as total from clicks group by item order by item"
    >>> wb.sql(totals, clicks=clicks).show()
    ┌────────┬───────┐
    │ item   │ total │
    │ string │ int64 │
    ├────────┼───────┤
    │ a      │     4 │
    │ b      │     2 │
    └────────┴───────┘
    >>> dear = "select item from clicks where price > :price"
    >>> wb.sql(dear, parameters={"price": 2}, clicks=clicks).to_rows()
    [Row(item='a')]
    """
    _check_text(text)
    values = _values(parameters)
    if on is not None and not isinstance(on, RemoteRuntime):
        raise InvalidError(f"on= is a cluster or functions, not {on!r:.60}")
    remote = on or current_remote()
    *preceding, query = native.statements(text) or [""]
    # Where a runtime chooses the number of shards, the planner cuts files into as many.
    shards_of_files = remote.cores if shards is None and remote is not None else shards
    session = native.Session(shard_count(shards), None if remote is None else remote._native)
    for name, table in tables.items():
        session.register(name, stream_of(table, name, shards_of_files)._plan)
    for statement in preceding:
        _execute(session, statement, values)
    result = _result(session, query, values, on)
    if values is not None:
        values.all_read()
    return result


def _check_text(text: str) -> None:
    """Refuse what is no text, or has no form in UTF-8."""
    if not isinstance(text, str):
        raise InvalidError(f"a statement of SQL is a text, not {text!r:.60}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"the statement has half of a surrogate pair, which is no character, at {error.start + 1}"
        ) from None


def _values(parameters: Sequence[Any] | Mapping[str, Any] | None) -> native.Parameters | None:
    """Make the values of the placeholders."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        for name in parameters:
            if not isinstance(name, str):
                raise InvalidError(
                    f"a parameter has a text as its name, not {name!r:.60}; give a list of values for $1, $2 "
                    "or ?"
                )
        return native.Parameters([], list(parameters.items()))
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise InvalidError(
            "parameters is a list of values for $1, $2 or ?, or a dict for $name or :name, "
            f"not {parameters!r:.60}"
        )
    return native.Parameters(list(parameters), [])


def stream_of(table: Any, name: str = "this", shards: int | None = None) -> ShardedStream:
    """Make a sharded stream of a stream, a path, rows, or a table of another library."""
    if isinstance(table, ShardedStream):
        return table
    if isinstance(table, str | os.PathLike):
        return read(table, shards=shards)
    kind = type(table).__module__.partition(".")[0]
    if kind == "polars":
        return from_polars(table)
    if kind == "pandas":
        return from_pandas(table)
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        return from_arrow(table)
    if isinstance(table, Sequence) and table and all(isinstance(path, str | os.PathLike) for path in table):
        return read(table, shards=shards)
    if isinstance(table, Sequence):
        return from_rows(table)
    raise InvalidError(
        f"{name} is a {type(table).__name__}, which is no table; give a sharded stream, a path, an Arrow, "
        "polars or pandas table, or a list of rows"
    )


def _execute(session: native.Session, statement: str, values: native.Parameters | None) -> None:
    planned = session.plan(statement, values)
    if planned.kind() == "store":
        _store(session, planned)


def _result(
    session: native.Session, statement: str, values: native.Parameters | None, on: RemoteRuntime | None
) -> Query:
    def materialized(rows: ShardedStream) -> Query:
        return Query(rows._plan, lambda: [("by cost", rows._plan, float("nan"), 0.0, 0.0, True)])

    unread = None if values is None else values.copy()
    planned = session.plan(statement, values)

    def query() -> Query:
        plan = planned.plan()
        assert plan is not None, "a query has a plan"
        query = Query(plan, lambda: session.candidates(statement, unread and unread.copy()))
        query._on = on
        query._choices = [
            Choice(shards, seconds, dollars, gb_seconds, tuple(tasks), chosen)
            for shards, seconds, dollars, gb_seconds, tasks, chosen in planned.choices()
        ]
        query._choices_text = planned.choices_text()
        return query

    match planned.kind():
        case "query":
            return query()
        case "explain" | "analyze" as kind:
            text = query().explain(analyze=kind == "analyze")
            return materialized(from_rows([{"plan": line} for line in text.splitlines()]))
        case "table":
            table = planned.table()
            assert table is not None, "what a statement returns is a table"
            return materialized(from_arrow(table))
        case "store":
            summary, returned = _store(session, planned)
            return materialized(from_rows([{"done": summary}]) if returned is None else from_arrow(returned))
        case "done":
            return materialized(from_rows([{"done": planned.done()}]))
        case _:
            raise InvalidError("copy … to writes files: use .to_storage(), or the command line")


def _store(session: native.Session, planned: native.Planned) -> tuple[str, native.Table | None]:
    plan = planned.plan()
    assert plan is not None, "what is stored has a plan"
    return session.store(planned, ShardedStream(plan).collect()._native)
