"""Results in memory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from . import _whimbrel as native
from . import attribute_errors
from .display import html_table, text_table
from .errors import InvalidError
from .schema import Schema

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from .function_bill import Bill

_PREVIEW = 10


class Table:
    """
    A table in memory, in Arrow's format.

    It hands itself over without a copy to any library that knows the Arrow PyCapsule interface
    (``polars.DataFrame(table)``, ``pyarrow.table(table)``, ``duckdb.sql("from table")``).

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.from_rows([{"item": "a", "price": 1.5}]).collect()
    ┌────────┬─────────┐
    │ item   │   price │
    │ string │ float64 │
    ├────────┼─────────┤
    │ a      │     1.5 │
    └────────┴─────────┘
    1 row, 2 columns
    """

    __slots__ = ("_bill", "_native")

    def __init__(self, table: native.Table, bill: Bill | None = None) -> None:
        self._native = table
        self._bill = bill

    @property
    def bill(self) -> Bill | None:
        """What it cost, if it is the result of a query that ran on functions."""
        return self._bill

    @property
    def schema(self) -> Schema:
        """The columns: a mapping of names to names of types."""
        return Schema(self._native.schema())

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.schema().names()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._native.num_rows()

    @property
    def nbytes(self) -> int:
        """How many bytes the columns take."""
        return self._native.nbytes()

    def __len__(self) -> int:
        return self._native.num_rows()

    def __iter__(self) -> Iterator[native.Row]:
        return iter(self._native.rows())

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.columns:
            raise InvalidError(native.missing_column(name, self.columns))
        return self._native.column(name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"a Table has no attribute {name!r}")
            raise AttributeError(attribute_errors.for_table(name, dir(Table), self.columns))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.schema == other.schema and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.schema().__arrow_c_schema__()

    def head(self, n: int = _PREVIEW) -> Table:
        """
        Take the first rows.

        Parameters
        ----------
        n
            How many.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.from_rows([{"item": "a"}, {"item": "b"}]).collect().head(1).to_dict()
        {'item': ['a']}
        """
        if not isinstance(n, int) or n < 0:
            raise InvalidError(f"{n!r:.60} is no count: a whole number that is not negative is wanted")
        return Table(self._native.slice(0, min(n, len(self))))

    def to_rows(self) -> list[native.Row]:
        """
        List the rows as objects: ``row.item``, ``row["item"]``, ``dict(row)``.

        Instants and durations are Python's, in microseconds: finer parts are cut off. `to_arrow` keeps them.
        """
        return self._native.rows()

    def to_dict(self) -> dict[str, list[Any]]:
        """List the values of each column."""
        return {name: self._native.column(name) for name in self.columns}

    def to_arrow(self) -> pyarrow.Table:
        """Hand over to pyarrow, without a copy."""
        # `pyarrow.table` would import pandas first, to ask whether this is a frame of it.
        return _import("pyarrow").RecordBatchReader.from_stream(self).read_all()

    def to_polars(self) -> polars.DataFrame:
        """Hand over to polars, without a copy where it can."""
        for name, dtype in self.schema.items():
            if dtype == "interval":
                raise InvalidError(
                    f'column "{name}" is interval, for which polars has no type; cast it to string'
                )
            if "decimal256" in dtype:
                raise InvalidError(
                    f'column "{name}" is {dtype}, and decimals of polars have at most 38 digits; cast it to '
                    "decimal[38, 0], float64 or string"
                )
        return _import("polars").DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to pandas."""
        pandas = _import("pandas")
        if find_spec("pyarrow") is None:
            return pandas.DataFrame(self.to_dict(), columns=self.columns)
        return _with_categories(self.to_arrow()).to_pandas()

    def __repr__(self) -> str:
        return f"{text_table(self._native.slice(0, _PREVIEW), more=len(self) > _PREVIEW)}\n{self._size()}"

    def _repr_html_(self) -> str:
        shown = min(len(self), _PREVIEW)
        return html_table(self._native.slice(0, shown), f"{self._size()}; {shown} shown")

    def _size(self) -> str:
        rows, columns = len(self), len(self.columns)
        return f"{rows:,} row{'' if rows == 1 else 's'}, {columns} column{'' if columns == 1 else 's'}"


def _with_categories(table: pyarrow.Table) -> pyarrow.Table:
    """Encode dictionaries again that pandas cannot take: those with a duplicate or a null."""
    import pyarrow

    for position, column in enumerate(table.columns):
        if not pyarrow.types.is_dictionary(column.type):
            continue
        dictionaries = [chunk.dictionary for chunk in column.chunks]
        if any(each.null_count or len(each.unique()) < len(each) for each in dictionaries):
            values = pyarrow.chunked_array([chunk.dictionary_decode() for chunk in column.chunks])
            table = table.set_column(position, table.field(position).name, values.dictionary_encode())
    return table


def _import(library: str) -> Any:
    try:
        return __import__(library)
    except ImportError:
        raise InvalidError(f"{library} is not installed: pip install {library}") from None
