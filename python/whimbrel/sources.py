"""Sources: where sharded streams come from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal

from . import _whimbrel as native
from . import events
from ._types import ArrowStream
from .connectors import ReplayableSource, ShardAdapter
from .errors import InvalidError
from .events import Event
from .ingress import Ingress, check_settings, shard_count
from .plan_builder import check_python_functions
from .rows import table_of_arrow, table_of_rows
from .schema import columns_of, schema_of
from .sharded import ShardedStream


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    time: str | None = None,
    end: str | None = None,
    shards: int | None = None,
    format: Literal["parquet", "csv", "json", "arrow"] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    ranges: tuple[str, Sequence[int]] | None = None,
    scale: float | None = None,
    **ingress: Any,
) -> ShardedStream:
    """
    Read Parquet, CSV, JSON lines or Arrow IPC files.

    Parameters
    ----------
    paths
        A path, a folder, a URL or a glob pattern (``"clicks-*.parquet"``), or several.
    time
        The column that holds the instant of a row, or the start of its lifetime: a timestamp of any unit, or
        an int64 as a logical clock. Without it, the result is a plain relation.
    end
        The column that holds the end of a row's lifetime; null where it is not known. Without it, a row lives
        for one tick.
    shards
        In how many shards to read, in parallel; each is a contiguous part of the files. By default one, so
        that a query without a key sees all rows.
    format
        What the files are; by default their suffixes tell.
    header
        Whether the first line of CSV files names the columns, as by default it does.
    delimiter
        What stands between the values of CSV files, by default a comma.
    ranges
        A column of integers and where each shard but the first begins, for Parquet files that were written
        about in order of it: ``("order", [1000, 2000])`` makes three shards. Files that are cut at the same
        values lie together: a join on these columns moves nothing. By default, shards are cut evenly
        between rows.
    scale
        Plan as if the files had so many times their rows, to see with ``explain`` what a query would take
        over tables that are not there yet. Integer columns with many values are taken for keys, and get more
        of them. Such a query does not run.
    **ingress
        How rows become events, each by name:

        ``disorder`` : ``"raise"`` (default), ``"adjust"`` or ``"drop"``
            What to do about a row that comes after a later one of its shard: raise `DataError`, let it start
            now if it is still alive (a point in time is not, and is dropped), or drop it. What is dropped is
            counted (`Subscription.late_rows`).
        ``reorder_latency`` : duration
            How long to wait for rows out of order before that; they are then sorted. By default 0.
        ``punctuate`` : duration, ``punctuate_rows`` : int
            Announce progress every so much time, or every so many rows; by default only as the engine needs
            it.
        ``on_completed`` : ``"end_of_stream"`` (default), ``"flush"`` or ``"nothing"``
            What the end of the input means: that nothing follows ever; that results up to the last time are
            final; or nothing at all.
        ``kind`` : str
            The column that says what a row is: ``"interval"``, ``"start"``, ``"end"``, ``"punctuation"`` or,
            with ``partition_by``, ``"low_watermark"``.
        ``partition_by`` : str or list of str
            Give each value of these columns (a device, a user) a clock of its own: its rows are in order
            among themselves, a slow one makes no other late, and none waits for it. The columns are the key;
            what follows is computed for each of them, until `ShardedStream.merge_partitions`.
        ``lag`` : duration
            With ``partition_by``, how far a partition may be behind the most advanced one: rows that are
            further behind are late. By default as far as it likes.
        ``batch_rows`` : int
            How many rows to gather before they are handed on, at most: less is a lower latency.

    Returns
    -------
    ShardedStream
        The files' columns. Nothing has been read but schemas.

    Raises
    ------
    InvalidError
        If there is no such column, or schemas differ.
    DataError
        If there is no such file, or one is broken.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    names = [os.fspath(path) for path in listed]
    cut = None if ranges is None else (ranges[0], list(ranges[1]))
    plan = native.files(names, shard_count(shards), format, header, delimiter, cut, scale)
    return ShardedStream(Ingress(time, end, **check_settings(ingress)).apply(plan))


def follow(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    time: str | None = None,
    end: str | None = None,
    schema: Any = None,
    format: Literal["parquet", "csv", "json", "arrow"] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    idle: str | timedelta | None = None,
    **ingress: Any,
) -> ShardedStream:
    r"""
    Read files as they come and grow: a stream that does not end.

    New files are read as they appear, in the order of their names where several do. CSV files and JSON lines
    are read as they get longer, line by line, also while they are renamed by a rotation of logs. Parquet,
    Arrow and compressed files are read once and as a whole: write them under a name that begins with ``_`` or
    ``.`` or ends in ``.tmp`` or ``.partial``, which is left alone, and rename them when they are complete.

    Parameters
    ----------
    paths
        A folder, a glob pattern (``"clicks-*.csv"``) or a URL of an object store with one, or several.
    schema
        The columns, as a mapping of names to types; by default those of the first file that is there.
    time, end, format, header, delimiter, **ingress
        As in `read`. The rows of several files are often out of order: see ``reorder_latency`` and
        ``disorder``.
    idle
        As in `from_source`: after how long without news the files hold back no other source of the query.

    Returns
    -------
    ShardedStream
        The files' columns, in one shard.

    Raises
    ------
    InvalidError
        If no file is there and no schema is given.
    DataError
        If a file is broken or has other columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import whimbrel as wb
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = pathlib.Path(folder.name) / "clicks.csv"
    >>> _ = log.write_text("time,item\n1,a\n2,b\n3,half a l")
    >>> rows = []
    >>> with wb.follow(log).query(lambda q: q.select("item")).subscribe(rows.append):
    ...     while len(rows) < 2:
    ...         pass
    >>> rows
    [Row(item='a'), Row(item='b')]
    >>> folder.cleanup()
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    names = [os.fspath(path) for path in listed]
    columns = None if schema is None else schema_of(schema)
    plan = native.follow(names, columns, format, header, delimiter)
    return ShardedStream(Ingress(time, end, idle=idle, **check_settings(ingress)).apply(plan))


def from_source(
    source: ReplayableSource,
    *,
    time: str | None = None,
    end: str | None = None,
    idle: str | timedelta | None = None,
    **ingress: Any,
) -> ShardedStream:
    """
    Read a source of your own that can be read again: a stream that jobs survive with.

    Parameters
    ----------
    source
        The source.
    time, end, **ingress
        As in `read`.
    idle
        After how long without news a shard holds nobody back: it then counts as having come as far as the
        slowest of the others that are not idle, in this source and in others of the query with ``idle=``.
        Rows that come into it later may be late. When all are idle, time stands still.

    Returns
    -------
    ShardedStream
        Its columns, in its shards.

    Raises
    ------
    InvalidError
        If the source lacks something, or there is no such column.

    Examples
    --------
    >>> import pyarrow, tempfile
    >>> import whimbrel as wb
    >>> class Squares:
    ...     name, schema, shards = "squares", {"n": "int64", "square": "int64"}, 1
    ...
    ...     def open(self, shard):
    ...         return self
    ...
    ...     def advance(self, position):
    ...         position = position or 0
    ...         return min(position + 2, 5) if position < 5 else wb.END
    ...
    ...     def read(self, start, end):
    ...         numbers = range(start or 0, end)
    ...         yield pyarrow.table({"n": numbers, "square": [n * n for n in numbers]})
    >>> squares = wb.from_source(Squares())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     job = squares.run_forever(folder + "/out", checkpoint=folder + "/state")
    ...     wb.read(folder + "/out").query(lambda q: q.select("square")).collect()["square"]
    [0, 1, 4, 9, 16]
    """
    if not isinstance(source, ReplayableSource):
        raise InvalidError(
            f"{type(source).__name__} is no source that can be read again; it needs name, schema, shards and "
            "open(shard): see whimbrel.ReplayableSource"
        )
    if source.shards < 1:
        raise InvalidError(f"{source.name} has {source.shards} shards; a source has at least one")

    def open_shard(shard: int) -> ShardAdapter:
        return ShardAdapter(source.open(shard))

    plan = native.replayable_source(source.name, schema_of(source.schema), source.shards, open_shard)
    return ShardedStream(Ingress(time, end, idle=idle, **check_settings(ingress)).apply(plan))


def from_bytes(data: bytes, *, python_functions: Literal["refuse", "pickle"] = "refuse") -> ShardedStream:
    """
    Read a plan that `ShardedStream.to_bytes` wrote, here or in another process.

    Parameters
    ----------
    data
        The bytes.
    python_functions
        What happens to pickled functions of Python in them: ``"refuse"``, or ``"pickle"``, which runs code of
        whoever wrote the bytes.

    Returns
    -------
    ShardedStream
        The plan, over the same tables and files.

    Raises
    ------
    InvalidError
        If the bytes are no plan, are damaged, or another release wrote them.
    DataError
        If a file of the plan is missing, or has changed since.

    Examples
    --------
    >>> import whimbrel as wb
    >>> job = wb.sql("select n, n * n as square from range(3) t(n)").to_bytes()
    >>> wb.from_bytes(job).to_rows()
    [Row(n=0, square=0), Row(n=1, square=1), Row(n=2, square=4)]
    """
    return ShardedStream(native.Plan.from_bytes(data, check_python_functions(python_functions)))


def from_arrow(
    table: ArrowStream,
    *,
    time: str | None = None,
    end: str | None = None,
    shards: int | None = None,
    **ingress: Any,
) -> ShardedStream:
    """
    Take a table from any library that knows the Arrow PyCapsule interface, without a copy.

    Parameters
    ----------
    table
        A table of pyarrow, polars, pandas, DuckDB, …: an object with ``__arrow_c_stream__`` or
        ``__arrow_c_array__``.
    time, end, shards, **ingress
        As in `read`.

    Returns
    -------
    ShardedStream
        The table's columns.

    Raises
    ------
    InvalidError
        If the object is no table, or there is no such column.

    Examples
    --------
    >>> import polars as pl
    >>> import whimbrel as wb
    >>> wb.from_arrow(pl.DataFrame({"time": [1, 2], "item": ["a", "b"]}), time="time").to_rows()
    [Row(start=1, end=2, time=1, item='a'), Row(start=2, end=3, time=2, item='b')]
    """
    if not (hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")):
        raise InvalidError(
            f"a {type(table).__name__} is no Arrow table; give an object with __arrow_c_stream__ "
            "(pyarrow, polars, pandas, DuckDB), or rows to wb.from_rows"
        )
    return _memory(table_of_arrow(table), Ingress(time, end, **check_settings(ingress)), shards)


def from_polars(
    frame: Any, *, time: str | None = None, end: str | None = None, shards: int | None = None, **ingress: Any
) -> ShardedStream:
    """
    Take a polars data frame, without a copy; a lazy one is collected.

    Parameters
    ----------
    frame
        A ``polars.DataFrame`` or ``polars.LazyFrame``.
    time, end, shards, **ingress
        As in `read`.

    Returns
    -------
    ShardedStream
        The frame's columns.

    Raises
    ------
    InvalidError
        If there is no such column.

    Examples
    --------
    >>> import polars as pl
    >>> import whimbrel as wb
    >>> wb.from_polars(pl.LazyFrame({"item": ["a"]})).to_rows()
    [Row(item='a')]
    """
    if hasattr(frame, "collect"):
        frame = frame.collect()
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        raise InvalidError(f"a {type(frame).__name__} is no polars data frame")
    return from_arrow(frame, time=time, end=end, shards=shards, **ingress)


def from_pandas(
    frame: Any, *, time: str | None = None, end: str | None = None, shards: int | None = None, **ingress: Any
) -> ShardedStream:
    """
    Take a pandas data frame; a named index becomes a column, any other is left out.

    Parameters
    ----------
    frame
        A ``pandas.DataFrame``.
    time, end, shards, **ingress
        As in `read`.

    Returns
    -------
    ShardedStream
        The frame's columns.

    Raises
    ------
    InvalidError
        If there is no such column, or a column has no Arrow type.

    Examples
    --------
    >>> import pandas as pd
    >>> import whimbrel as wb
    >>> wb.from_pandas(pd.DataFrame({"item": ["a"]})).to_rows()
    [Row(item='a')]
    """
    if not hasattr(frame, "index") or not hasattr(frame, "reset_index"):
        raise InvalidError(f"a {type(frame).__name__} is no pandas data frame")
    named = any(name is not None for name in frame.index.names)
    doubled = [name for name in frame.index.names if name is not None and name in frame.columns]
    if doubled:
        raise InvalidError(
            f'"{doubled[0]}" is the name of a column and of the index; rename one, or leave the index out '
            "with frame.reset_index(drop=True)"
        )
    frame = frame.reset_index(drop=not named)
    try:
        table = table_of_arrow(frame)
    except ImportError:
        # pandas exports itself by means of pyarrow; without it, values are converted one by one.
        missing = frame.isna()
        columns = {
            c: [None if m else v for v, m in zip(frame[c], missing[c], strict=True)] for c in frame.columns
        }
        rows = list(zip(*columns.values(), strict=True))
        table = native.Table.from_rows(rows, [str(name) for name in columns], [None] * len(columns))
    return _memory(table, Ingress(time, end, **check_settings(ingress)), shards)


def from_rows(
    rows: Iterable[Any],
    schema: Any = None,
    *,
    time: str | None = None,
    end: str | None = None,
    shards: int | None = None,
    **ingress: Any,
) -> ShardedStream:
    """
    Take rows from any iterable.

    Parameters
    ----------
    rows
        Dicts, tuples, dataclass instances, or other objects with attributes.
    schema
        The columns: names (``["time", "item"]``), or names and types (``{"time": "timestamp[us]", "item":
        str}``). Names are needed for tuples; types that are not given are found by looking at all rows.
    time, end, shards, **ingress
        As in `read`.

    Returns
    -------
    ShardedStream
        The columns of the schema, or all keys of the dicts in order of appearance.

    Raises
    ------
    InvalidError
        If the columns are not known, or a value does not fit its column.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.from_rows([{"item": "a"}, {"item": "b", "price": 2}]).to_rows()
    [Row(item='a', price=None), Row(item='b', price=2)]
    >>> wb.from_rows([("a", 1)], schema={"item": str, "price": "float64"}).to_rows()
    [Row(item='a', price=1.0)]
    """
    return _memory(table_of_rows(list(rows), schema), Ingress(time, end, **check_settings(ingress)), shards)


def values(rows: Iterable[Any], schema: Any = None) -> ShardedStream:
    """
    Write rows into the plan itself, as SQL's ``values`` does. For a handful of rows; `from_rows` takes many.

    Parameters
    ----------
    rows, schema
        As in `from_rows`. A single empty dict is the row without columns that ``select 1`` selects from.

    Returns
    -------
    ShardedStream
        The rows, in one shard, without a time.

    Raises
    ------
    InvalidError
        As in `from_rows`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.values([(1, "a"), (2, None)], schema=["n", "s"]).to_rows()
    [Row(n=1, s='a'), Row(n=2, s=None)]
    >>> wb.values([{}]).query(lambda q: q.select(answer=wb.lit(42))).to_rows()
    [Row(answer=42)]
    """
    listed = list(rows)
    if schema is None and listed == [{}]:
        return ShardedStream(native.literal_rows())
    return ShardedStream(native.literal_rows(table_of_rows(listed, schema)))


def from_events(
    given: Iterable[Event], schema: Any = None, *, shards: int | None = None, **ingress: Any
) -> ShardedStream:
    """
    Take a temporal stream event by event: intervals, edges and punctuations.

    Parameters
    ----------
    given
        Events made by `interval`, `start_edge`, `end_edge`, `punctuation` and, with ``partition_by=``,
        `low_watermark`, in order of when they become known.
    schema
        The payload's columns, as in `from_rows`.
    shards, **ingress
        As in `read`.

    Returns
    -------
    ShardedStream
        The payload's columns.

    Raises
    ------
    InvalidError
        If something is no event, or a value has no column or does not fit it.

    Examples
    --------
    >>> import whimbrel as wb
    >>> moods = wb.from_events([wb.start_edge(1, {"mood": "glad"}), wb.end_edge(1, 4, {"mood": "glad"})])
    >>> moods.to_rows()
    [Row(start=1, end=4, mood='glad')]
    >>> wb.from_events([wb.interval(1, 3, (1, 5))], schema=["v", "w"]).to_rows()
    [Row(start=1, end=3, v=1, w=5)]
    """
    listed = list(given)
    columns = _event_columns(listed, schema)
    names, types = [name for name, _ in columns], [dtype for _, dtype in columns]
    payload = names[3:]
    table = native.Table.from_rows([events.event_row(event, payload) for event in listed], names, types)
    return _memory(table, Ingress(events.START, events.END, events.KIND, **check_settings(ingress)), shards)


def _memory(table: native.Table, ingress: Ingress, shards: int | None) -> ShardedStream:
    return ShardedStream(ingress.apply(native.memory(table, shard_count(shards) or 1)))


def _event_columns(listed: list[Event], schema: Any) -> list[tuple[str, Any]]:
    for position, event in enumerate(listed):
        if not isinstance(event, Event):
            raise InvalidError(
                f"event {position} is a {type(event).__name__}; "
                "make events with wb.interval(start, end, row), …"
            )
    if schema is None:
        names: dict[str, None] = {}
        for event in listed:
            if isinstance(event.row, tuple):
                raise InvalidError('tuples have no names; give them with schema=["v", "w"]')
            names.update(dict.fromkeys(() if event.row is None else event.row.keys()))
        schema = list(names)
    # Punctuations at the end of time are integers on any clock.
    times = [
        time for event in listed for time in (event.start, event.end) if time not in (None, events.INFINITY)
    ]
    clock = native.infer_type(times) if times else "int64"
    return [(events.START, clock), (events.END, clock), (events.KIND, "string"), *columns_of(schema)]
