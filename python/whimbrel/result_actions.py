"""Actions that end: run a plan, and hand on its whole result (Quill, Table 2).

They rely on `runnable` for the settings of a run, and on `table`, which has a result in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import starmap
from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from . import feeds
from .display import text_table
from .errors import InvalidError
from .events import Event
from .function_bill import Bill
from .remote import RemoteRuntime
from .runnable import Runnable
from .settings import Runtime
from .table import Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class ResultActions(Runnable):
    """The actions that give a finished result: as a table, rows or events, on a terminal, or in files."""

    __slots__ = ()

    def collect(
        self,
        *,
        runtime: Runtime | None = None,
        progress: bool | None = None,
        batch_rows: int | None = None,
        on: RemoteRuntime | None = None,
    ) -> Table:
        """
        Run, and hold the result in memory.

        Parameters
        ----------
        runtime, progress, batch_rows, on
            As in `config`; by default its settings.

        Returns
        -------
        Table
            The rows of all shards, one shard after the other; with a time, each shard in order of it.

        Raises
        ------
        DataError
            If the input is out of order under ``disorder="raise"``, a file is broken, or a Python function
            fails.

        Examples
        --------
        >>> import whimbrel as wb
        >>> len(wb.from_rows([{"item": "a"}, {"item": "b"}]).collect())
        2
        """
        options = self._options(runtime, progress, batch_rows, on)
        with feeds.running(self._plan) as poll:
            table = native.collect(self._plan, options, poll)
        return Table(table, Bill.of(options.bill()))

    def to_arrow(self, **options: Any) -> pyarrow.Table | Table:
        """
        Run, and give the result to pyarrow, without a copy.

        Parameters
        ----------
        **options
            As in `collect`.

        Returns
        -------
        pyarrow.Table or Table
            As in `collect`. Where pyarrow is not installed, a `Table`, which has the same Arrow interface.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 3}])
        >>> clicks.to_arrow().num_rows
        1
        """
        table = self.collect(**options)
        try:
            return table.to_arrow()
        except InvalidError:
            return table

    def to_polars(self, **options: Any) -> polars.DataFrame:
        """
        Run, and give the result to polars.

        Parameters
        ----------
        **options
            As in `collect`.

        Returns
        -------
        polars.DataFrame
            As in `collect`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 3}])
        >>> clicks.to_polars()["price"].to_list()
        [3]
        """
        return self.collect(**options).to_polars()

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """
        Run, and give the result to pandas.

        Parameters
        ----------
        **options
            As in `collect`.

        Returns
        -------
        pandas.DataFrame
            As in `collect`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 3}])
        >>> clicks.to_pandas()["price"].tolist()
        [3]
        """
        return self.collect(**options).to_pandas()

    def to_rows(self, **options: Any) -> list[native.Row]:
        """
        Run, and list the result's rows.

        Parameters
        ----------
        **options
            As in `collect`.

        Returns
        -------
        list of Row
            Objects with ``row.item``, ``row["item"]``, ``dict(row)``.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 3}])
        >>> clicks.to_rows()[0].price
        3
        """
        return self.collect(**options).to_rows()

    def to_events(self, **options: Any) -> list[Event]:
        """
        Run, and list the events of the result: intervals, edges and punctuations.

        Parameters
        ----------
        **options
            As in `collect`.

        Returns
        -------
        list of Event
            The events of all shards, one shard after the other.

        Raises
        ------
        InvalidError
            If the stream has no time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_events([wb.start_edge(3, {"item": "a"}), wb.end_edge(3, 5, {"item": "a"})])
        >>> clicks.to_events()[:2]
        [Event(kind='start', start=3, end=None, row=Row(item='a')), Event(kind='end', start=3, end=5,
        row=Row(item='a'))]
        """
        self._require_time("use to_rows()")
        with feeds.running(self._plan) as poll:
            return list(starmap(Event, native.collect_events(self._plan, self._options(**options), poll)))

    def show(self, n: int = 10, **options: Any) -> None:
        """
        Run until there are `n` rows, and print them.

        Parameters
        ----------
        n
            How many rows.
        **options
            As in `collect`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.from_rows([{"item": "a"}, {"item": "b"}]).show(1)
        ┌────────┐
        │ item   │
        │ string │
        ├────────┤
        │ a      │
        │ …      │
        └────────┘
        """
        if n < 0:
            raise InvalidError(f"show takes a number of rows that is not negative, not {n}")
        with feeds.running(self._plan) as poll:
            table = native.head(self._plan, self._options(**options), n + 1, poll)
        print(text_table(table.slice(0, n), more=table.num_rows() > n))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.collect().__arrow_c_stream__(requested_schema)

    def to_storage(self, path: str | os.PathLike[str], *, replace: bool = False, **options: Any) -> list[str]:
        """
        Run, and write the result to Parquet files, one for each shard.

        Parameters
        ----------
        path
            The folder; it is made if it does not exist.
        replace
            Whether Parquet files that are in the folder already are removed once the new ones are complete;
            by default they are an error.
        **options
            As in `collect`.

        Returns
        -------
        list of str
            The paths of the files. ``wb.read(path + "/*.parquet", time="start", end="end")`` reads them.

        Raises
        ------
        InvalidError
            If there are Parquet files in the folder.
        DataError
            If a file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import whimbrel as wb
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = wb.from_rows([{"item": "a"}]).to_storage(folder)
        ...     wb.read(files).to_rows()
        [Row(item='a')]
        """
        with feeds.running(self._plan) as poll:
            return native.to_storage(self._plan, self._options(**options), os.fspath(path), replace, poll)

    def to_binary_stream(self, streams: Iterable[Any], **options: Any) -> None:
        """
        Run, and write the result to open files in Arrow's IPC streaming format, one for each shard.

        Parameters
        ----------
        streams
            As many binary file objects (anything with ``write``) as there are shards.
        **options
            As in `collect`.

        Raises
        ------
        InvalidError
            If there are not as many files as shards.

        Examples
        --------
        >>> import io
        >>> import whimbrel as wb
        >>> file = io.BytesIO()
        >>> wb.from_rows([{"item": "a"}]).to_binary_stream([file])
        >>> file.tell() > 0
        True
        """
        files = list(streams)
        shards = self._plan.properties()["shards"]
        if len(files) != shards:
            raise InvalidError(f"there are {shards} shards and {len(files)} files; give one for each shard")
        with feeds.running(self._plan) as poll:
            native.to_binary_stream(self._plan, self._options(**options), files, poll)
