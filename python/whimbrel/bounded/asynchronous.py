"""
The same for asyncio, on threads that wait in place of the event loop.

A call that is cancelled before its turn is never made. One that has begun ends by itself, and soon, for it is
bounded; its answer is thrown away, and what it writes is written.

asyncio is large, and the whole package imports this module: only who calls something here loads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from .._whimbrel import Bound, LatencyChart, Prediction
from ..attribute_errors import NearNames
from ..errors import InvalidError
from .database import Database, Query, Repaired, open
from .page import AsyncPage, Page

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_T = TypeVar("_T")


def open_async(url: str | PathLike[str], *, threads: int = 16, **options: Any) -> Opening:
    """
    Open a database for asyncio.

    Parameters
    ----------
    url
        As in `open`.
    threads
        How many calls can wait for the store at the same time.
    **options
        As in `open`.

    Returns
    -------
    Opening
        ``await`` it for an `AsyncDatabase`, or write ``async with``, which closes it.

    Examples
    --------
    >>> import asyncio
    >>> import whimbrel as wb
    >>> async def main():
    ...     async with wb.bounded.open_async("memory:") as db:
    ...         await db.execute("create table notes (id int primary key, text varchar(80))")
    ...         write = await db.prepare("insert into notes values (?, ?)")
    ...         await asyncio.gather(write(1, "one"), write(2, "two"))
    ...         page = await db.execute("select text from notes where id in (1, 2) order by id limit 2")
    ...         return [row.text for row in page]
    >>> asyncio.run(main())
    ['one', 'two']
    """
    return Opening(lambda: open(url, **options), threads)


class Opening(Awaitable["AsyncDatabase"]):
    """A database that is being opened: ``await`` it, or enter it with ``async with``."""

    __slots__ = ("_database", "_open", "_threads")

    def __init__(self, open: Callable[[], Database], threads: int) -> None:
        self._open = open
        self._threads = threads
        self._database: AsyncDatabase | None = None

    def __await__(self) -> Generator[Any, None, AsyncDatabase]:
        return self._opened().__await__()

    async def _opened(self) -> AsyncDatabase:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="whimbrel-bounded")
        try:
            return AsyncDatabase(await _run(pool, self._open), pool)
        except BaseException:
            pool.shutdown(wait=False)
            raise

    async def __aenter__(self) -> AsyncDatabase:
        self._database = await self
        return self._database

    async def __aexit__(self, *raised: object) -> None:
        if self._database is not None:
            await self._database.close()


class AsyncDatabase(NearNames):
    """A database for asyncio: `Database`, with methods to await. Made by `open_async`."""

    __slots__ = ("_database", "_pool")

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        self._database = database
        self._pool = pool

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._database!r}"

    async def execute(self, sql: str, /, *values: Any, **named: Any) -> Any:
        """Run a statement once, as `Database.execute`; rows come as an `AsyncPage`."""
        answer = await _run(self._pool, lambda: self._database.execute(sql, *values, **named))
        return _asynchronous(self._pool, answer)

    async def prepare(self, sql: str, /) -> AsyncQuery:
        """Compile a statement, as `Database.prepare`."""
        return AsyncQuery(await _run(self._pool, lambda: self._database.prepare(sql)), self._pool)

    def explain(self, sql: str, /) -> str:
        """Draw the plan of a statement, as `Database.explain`; the store is not asked."""
        return self._database.explain(sql)

    def tables(self) -> list[str]:
        """List the names of the tables."""
        return self._database.tables()

    async def refresh(self) -> None:
        """Read the schema again, as `Database.refresh`."""
        await _run(self._pool, self._database.refresh)

    async def repair(self, writes_take: float = 1.0) -> Repaired:
        """Take away what crashes left, as `Database.repair`."""
        return await _run(self._pool, lambda: self._database.repair(writes_take))

    async def measure(self, **options: Any) -> None:
        """Measure the latencies of the store, as `Database.measure`."""
        await _run(self._pool, lambda: self._database.measure(**options))

    async def chart(self, sql: str, slo: str, limit: str, values: Iterable[int]) -> LatencyChart:
        """Predict a latency against a limit, as `Database.chart`."""
        return await _run(self._pool, lambda: self._database.chart(sql, slo, limit, values))

    async def close(self) -> None:
        """Close the store, after the calls that are at work; those that wait for their turn are refused."""
        import asyncio

        await asyncio.to_thread(self._database.close)
        self._pool.shutdown(wait=False)


class AsyncQuery(NearNames):
    """A statement that is ready: ``page = await query(name="ann")``. Made by `AsyncDatabase.prepare`."""

    __slots__ = ("_pool", "_query")

    def __init__(self, query: Query, pool: ThreadPoolExecutor) -> None:
        self._query = query
        self._pool = pool

    def __repr__(self) -> str:
        return f"Async{self._query!r}"

    async def __call__(self, *values: Any, **named: Any) -> Any:
        """Call the statement, as `Query`: an `AsyncPage`, or the number of rows that were written."""
        answer = await _run(self._pool, lambda: self._query(*values, **named))
        return _asynchronous(self._pool, answer)

    async def resume(self, cursor: str, /, *values: Any, **named: Any) -> AsyncPage:
        """Read the page behind a cursor, as `Query.resume`."""
        page = await _run(self._pool, lambda: self._query.resume(cursor, *values, **named))
        return _asynchronous(self._pool, page)

    async def predict(self, slo: str, /) -> Prediction:
        """Predict whether a promise holds, as `Query.predict`."""
        return await _run(self._pool, lambda: self._query.predict(slo))

    @property
    def sql(self) -> str:
        """The statement, as it was written."""
        return self._query.sql

    @property
    def bound(self) -> Bound:
        """The most that a call can cost, as `Query.bound`."""
        return self._query.bound

    @property
    def parameters(self) -> list[str | None]:
        """The names of the parameters; none for one without a name."""
        return self._query.parameters

    def explain(self) -> str:
        """Draw the plan, as `Query.explain`."""
        return self._query.explain()


async def _run(pool: ThreadPoolExecutor, call: Callable[[], _T]) -> _T:
    import asyncio

    loop = asyncio.get_running_loop()
    try:
        answer = loop.run_in_executor(pool, call)
    except RuntimeError:
        # What a pool says that was shut down.
        raise InvalidError("the database is closed: open it again") from None
    return await answer


def _asynchronous(pool: ThreadPoolExecutor, answer: Any) -> Any:
    """Make the way to the next page one to await; other answers are what they are."""
    if not isinstance(answer, Page):
        return answer

    async def next(cursor: str) -> AsyncPage:
        return _asynchronous(pool, await _run(pool, lambda: answer._next(cursor)))

    return AsyncPage(answer._native, next)
