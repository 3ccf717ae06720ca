"""Pages: the rows of a call, and where the next ones begin."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from .. import _whimbrel as native
from .._whimbrel import Operations
from ..attribute_errors import NearNames
from ..table import Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Rows(NearNames, Sequence[Any]):
    """
    The rows of a call, as named tuples: what `Page` and `AsyncPage` have in common.

    They hand themselves over without a copy to any library that knows the Arrow PyCapsule interface.

    Examples
    --------
    >>> import whimbrel as wb
    >>> db = wb.bounded.open("memory:")
    >>> db.execute("create table users (name varchar(20) primary key, age int)")
    >>> db.execute("insert into users values ('ann', 44)")
    1
    >>> page = db.execute("select * from users where name = 'ann'")
    >>> for name, age in page:
    ...     print(name, age)
    ann 44
    >>> page
    Page([Row(name='ann', age=44)])
    >>> page.to_dicts()
    [{'name': 'ann', 'age': 44}]
    """

    __slots__ = ("_native", "_rows")

    def __init__(self, page: native.BoundedPage) -> None:
        self._native = page
        self._rows = [*map(_row_class(tuple(page.names()))._make, page.tuples())]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.names()

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; none if there is none. Letters, digits, ``-`` and ``_``."""
        return self._native.cursor()

    @property
    def spent(self) -> Operations:
        """What was asked of the store for this page; never more than the bound, but for what a crash left."""
        return self._native.spent()

    def first(self) -> Any:
        """Give the first row; none if there is none."""
        return self._rows[0] if self._rows else None

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self._rows[at]

    def __repr__(self) -> str:
        more = ", …" if self.cursor else ""
        return f"{type(self).__name__}([{', '.join(map(repr, self._rows))}{more}])"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.table().__arrow_c_stream__(requested_schema)

    def to_dicts(self) -> list[dict[str, Any]]:
        """List the rows as dicts, with the names of the columns as they are in SQL."""
        names = self.columns
        return [dict(zip(names, row, strict=True)) for row in self._rows]

    def to_arrow(self) -> pyarrow.Table:
        """Hand over to pyarrow, without a copy."""
        return Table(self._native.table()).to_arrow()

    def to_polars(self) -> polars.DataFrame:
        """Hand over to polars, without a copy where it can."""
        return Table(self._native.table()).to_polars()

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to pandas."""
        return Table(self._native.table()).to_pandas()


class Page(Rows):
    """
    The rows of a call, and the way to the next ones.

    Examples
    --------
    >>> import whimbrel as wb
    >>> db = wb.bounded.open("memory:")
    >>> db.execute("create table n (g int, i int, primary key (g, i))")
    >>> db.execute("insert into n values (1, 1), (1, 2), (1, 3)")
    3
    >>> page = db.prepare("select i from n where g = ? order by i paginate 2")(1)
    >>> while page is not None:
    ...     print([row.i for row in page], page.spent.requests)
    ...     page = page.next()
    [1, 2] 1
    [3] 1
    """

    __slots__ = ("_next",)

    def __init__(self, page: native.BoundedPage, next: Callable[[str], Page]) -> None:
        super().__init__(page)
        self._next = next

    def next(self) -> Page | None:
        """Read the next page; none if there is none."""
        return None if self.cursor is None else self._next(self.cursor)


class AsyncPage(Rows):
    """The rows of a call, and the way to the next ones, for asyncio."""

    __slots__ = ("_next",)

    def __init__(self, page: native.BoundedPage, next: Callable[[str], Awaitable[AsyncPage]]) -> None:
        super().__init__(page)
        self._next = next

    async def next(self) -> AsyncPage | None:
        """Read the next page; none if there is none."""
        return None if self.cursor is None else await self._next(self.cursor)


@lru_cache(maxsize=1024)
def _row_class(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names, rename=True)
