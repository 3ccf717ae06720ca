"""Databases, and statements over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike, fspath
from typing import Any, Literal, NamedTuple

from .. import _whimbrel as native
from .._whimbrel import Bound, LatencyChart, Prediction
from ..attribute_errors import NearNames
from ..errors import InvalidError
from .page import Page

Executor = Literal["parallel", "simple", "lazy"]


def open(
    url: str | PathLike[str],
    *,
    executor: Executor = "parallel",
    make_indexes: bool = True,
    most_requests: int = 10_000,
    cursor_key: bytes | None = None,
    conflict_timeout: float = 5.0,
) -> Database:
    """
    Open a database; one that is not there yet is made, and is empty.

    Parameters
    ----------
    url
        The path of a file, which one process at a time has open; ``memory:``, which is gone with the
        program; ``postgres://user@host/database?table=app``; ``redis://host:port,host:port?name=app``, a
        cluster.
    executor
        ``"parallel"``: all requests of a round at once; ``"simple"``: one after the other; ``"lazy"``: one
        after the other, and no more than the result needs (Armbrust et al. 2011, §7).
    make_indexes
        Whether `Database.prepare` makes the indexes that a statement needs. If not, it says which are
        missing.
    most_requests
        The most requests that a call may take; a query with a larger bound is refused.
    cursor_key
        32 bytes that cursors are signed with; without it, a key that the store keeps. Servers that share a
        store go on from each other's cursors either way.
    conflict_timeout
        For how many seconds a statement is tried again while others write the same rows, before it is a
        `ConflictError`.

    Returns
    -------
    Database
        Use it as a context manager, or call its `close`.

    Raises
    ------
    UnavailableError
        If the store does not answer, or another process has the file open.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.bounded.open("memory:") as db:
    ...     db.execute("create table notes (id int primary key, text varchar(80))")
    ...     db.execute("insert into notes values (?, ?)", 1, "hello")
    ...     db.execute("select text from notes where id = ?", 1).first()
    1
    Row(text='hello')
    """
    return Database(
        native.BoundedDatabase.open(
            fspath(url), executor, make_indexes, most_requests, cursor_key, conflict_timeout
        )
    )


class Repaired(NamedTuple):
    """What `Database.repair` has mended."""

    removed: int
    """Entries of indexes that had no row."""
    added: int
    """Entries that were missing."""
    settled: int
    """Unique keys that a writer had claimed, which was gone when its row was there."""
    duplicates: list[str]
    """Rows that have the same unique key, each with both primary keys: delete one, or change its key."""


class Database(NearNames):
    """
    A database: tables, and statements over them. Made by `open`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> db = wb.bounded.open("memory:")
    >>> db.execute('''
    ...     create table users (name varchar(20) primary key);
    ...     create table posts (author varchar(20) references users, at int, text varchar(140),
    ...         primary key (author, at));
    ...     insert into users values ('ann')
    ... ''')
    1
    >>> db.tables()
    ['posts', 'users']
    """

    __slots__ = ("_native",)

    def __init__(self, database: native.BoundedDatabase) -> None:
        self._native = database

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database(tables={self.tables()})"

    def execute(self, sql: str, /, *values: Any, **named: Any) -> Any:
        """
        Run a statement once: a change of the schema, a write or a query. `prepare` what runs often.

        Parameters
        ----------
        sql
            A statement, or several, ended by semicolons.
        *values, **named
            Values of its parameters; of several statements those of the last.

        Returns
        -------
        Page, int or None
            The rows of a query, the number of rows of a write, nothing for a change of the schema; of several
            statements that of the last.

        Raises
        ------
        InvalidError
            If the statement is wrong, or the values do not fit.
        UnboundedError
            If it has no bound.
        DataError
            If a row violates a constraint: a key, a reference, a cardinality limit.
        UnavailableError
            If the store is away; of a write nobody knows whether it was made.
        ConflictError
            If others wrote the same rows for longer than ``conflict_timeout``.
        """
        answer = self._native.execute(sql, values, named)

        def next(cursor: str) -> Page:
            return self.prepare(native.statements(sql)[-1]).resume(cursor, *values, **named)

        return None if answer is None else _result(answer, next)

    def prepare(self, sql: str, /) -> Query:
        """
        Compile a statement, and make the indexes that it needs, also on tables that have rows.

        Returns
        -------
        Query
            What to call. It stays right when the schema changes.

        Raises
        ------
        InvalidError
            If the statement is wrong.
        UnboundedError
            If it has no bound, or one above ``most_requests``.
        """
        return Query(self._native.prepare(sql), sql)

    def explain(self, sql: str, /) -> str:
        """
        Draw the plan of a statement, with the indexes that it would need, and its bound. Nothing is made.

        Raises
        ------
        InvalidError, UnboundedError
            As `prepare`.
        """
        return self._native.explain(sql)

    def measure(
        self,
        *,
        intervals: int = 10,
        samples: int = 2000,
        clients: int = 1,
        pause: float = 0.0,
        add: bool = False,
    ) -> None:
        """
        Measure the latencies of the store, and keep them in it for predictions.

        The store is driven with rounds of requests of many sizes, on rows of its own that are taken away
        again. Nothing else should use it meanwhile, unless it will later too.

        Parameters
        ----------
        intervals
            How many intervals of time: that a store is slower at times is seen between them.
        samples
            How often each size is measured in an interval.
        clients
            How many calls are under way at the same time.
        pause
            Seconds between intervals.
        add
            Keep the intervals that were measured before, too.

        Notes
        -----
        Armbrust et al. 2011, §6.1; but what is measured is a round of requests, as calls make them.
        """
        self._native.measure(intervals, samples, clients, pause, add)

    def chart(self, sql: str, slo: str, limit: str, values: Iterable[int]) -> LatencyChart:
        """
        Predict the latency of a query against a limit in it, to see how large it may be.

        Parameters
        ----------
        sql
            A query.
        slo
            What is promised: ``"99% under 50ms"``.
        limit
            ``"rows"``, the number after ``limit`` or ``paginate``; ``"subscriptions(owner)"``, a cardinality
            limit of the schema; ``"$2"``, the length of a list.
        values
            What is tried.

        Returns
        -------
        LatencyChart
            With ``largest``, the largest limit that keeps the promise, and ``svg``, a picture; a notebook
            shows it (Armbrust et al. 2011, §6.4).

        Examples
        --------
        >>> import whimbrel as wb
        >>> db = wb.bounded.open("memory:")
        >>> db.execute("create table notes (id int primary key, text varchar(80))")
        >>> db.measure(intervals=2, samples=50)
        >>> chart = db.chart("select * from notes limit 10", "50% under 10s", "rows", [10, 20])
        >>> chart.largest
        20
        """
        values = list(values)
        if wrong := [value for value in values if not isinstance(value, int) or not 0 < value < 2**63]:
            raise InvalidError(f"{wrong[0]!r} is no limit: it takes whole numbers of rows, one or more")
        return self._native.chart(sql, slo, limit, values)

    def tables(self) -> list[str]:
        """List the names of the tables."""
        return self._native.tables()

    def refresh(self) -> None:
        """Read the schema again, which another server may have changed. Writes do so by themselves."""
        self._native.refresh()

    def repair(self, writes_take: float = 1.0) -> Repaired:
        """
        Take away what crashes left in the indexes of a store that writes key by key, and name duplicates.

        Reads pass over what crashes left, at the price of a request each. Rows that have the same unique key
        are named, not mended: which of them stays, only you know.

        Parameters
        ----------
        writes_take
            Seconds; longer than any write that is at work now takes. What looks broken is looked at again
            after that time.
        """
        return Repaired(*self._native.repair(writes_take))

    def close(self) -> None:
        """Close the store. Statements of this database are refused from now on."""
        self._native.close()


class Query(NearNames):
    """
    A statement that is ready: call it with the values of its parameters. Made by `Database.prepare`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> db = wb.bounded.open("memory:")
    >>> db.execute("create table posts (author varchar(20), at int, text text, primary key (author, at))")
    >>> post = db.prepare("insert into posts values (:author, :at, :text)")
    >>> [post("ann", at, text=f"post {at}") for at in range(5)]
    [1, 1, 1, 1, 1]
    >>> recent = db.prepare("select at, text from posts where author = :author order by at desc paginate 2")
    >>> recent.bound.requests, recent.bound.rows
    (1, 2)
    >>> page = recent(author="ann")
    >>> [row.text for row in page]
    ['post 4', 'post 3']
    >>> [row.text for row in recent.resume(page.cursor)]
    ['post 2', 'post 1']
    """

    __slots__ = ("_native", "_sql")

    def __init__(self, query: native.BoundedQuery, sql: str) -> None:
        self._native = query
        self._sql = sql

    def __repr__(self) -> str:
        return f"Query({self._sql!r})"

    def __call__(self, *values: Any, **named: Any) -> Any:
        """
        Call the statement with the values of its parameters, by place or by name.

        Returns
        -------
        Page or int
            The rows of a query (the first page, if it has pages); the number of rows of a write.

        Raises
        ------
        InvalidError
            If the values do not fit.
        DataError
            If a row violates a constraint: a key, a reference, a cardinality limit.
        UnavailableError
            If the store is away; of a write nobody knows whether it was made.
        ConflictError
            If others wrote the same rows for longer than ``conflict_timeout``.
        """
        return _result(self._native.call(values, named, None), self._next(values, named))

    def resume(self, cursor: str, /, *values: Any, **named: Any) -> Page:
        """
        Read the page behind a cursor. The cursor carries the values of the first call, and no others fit it.

        A cursor cannot be changed or made up, but who holds one can read it, and with it the next page.
        Where a query is for one user alone, give the values again: the cursor of somebody else is then
        refused.

        Parameters
        ----------
        cursor
            A `Page.cursor` of this query, from any server that shares the store.
        *values, **named
            None, or the values of the first call.

        Raises
        ------
        InvalidError
            If the cursor was changed, or is of another query, of other values, or from before a change of the
            tables; if the values were too long for it (512 bytes) and are not given.
        """
        return Page(self._native.call(values, named, cursor), self._next(values, named))

    def _next(self, values: tuple[Any, ...], named: dict[str, Any]) -> Callable[[str], Page]:
        return lambda cursor: self.resume(cursor, *values, **named)

    def predict(self, slo: str, /) -> Prediction:
        """
        Predict whether a promise holds, from what `Database.measure` has kept in the store.

        Parameters
        ----------
        slo
            A share of the calls, and a time: ``"99% under 50ms"``.

        Returns
        -------
        Prediction
            Whether it ``holds``, the ``latency`` at that share in seconds, and how sure that is (Armbrust et
            al. 2011, §6). Printed, it says so in words.

        Raises
        ------
        DataError
            If the store was not measured.
        InvalidError
            If the promise makes no sense, or the query has no bound.

        Examples
        --------
        >>> import whimbrel as wb
        >>> db = wb.bounded.open("memory:")
        >>> db.execute("create table notes (id int primary key, text varchar(80))")
        >>> db.measure(intervals=2, samples=50)
        >>> find = db.prepare("select text from notes where id = ?")
        >>> find.predict("50% under 10s").rounds
        1
        """
        return self._native.predict(slo)

    @property
    def sql(self) -> str:
        """The statement, as it was written."""
        return self._sql

    @property
    def bound(self) -> Bound:
        """The most that a call can cost, whatever is in the store; of a write, of finding the rows."""
        return self._native.bound()

    @property
    def parameters(self) -> list[str | None]:
        """The names of the parameters; none for one without a name."""
        return self._native.parameters()

    def explain(self) -> str:
        """Draw the plan, the last step first, each with the most rows that come out of it; and the bound."""
        return self._native.explain()


def _result(answer: native.BoundedPage, next: Callable[[str], Page]) -> Page | int:
    """Tell what a statement wrote from what it read."""
    written = answer.written()
    return Page(answer, next) if written is None else written
