"""What a stream does to its rows: keep some, compute and drop columns, take lists apart.

It relies on `projection`, which makes expressions of what a call is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from ._types import RowFunction
from .aggregates import Over
from .errors import InvalidError
from .expressions import Expr
from .plan_builder import PlanBuilder
from .projection import START, Projection, expression_or_list, is_function, predicate, projection
from .tracing import takes_two

if TYPE_CHECKING:
    from typing_extensions import Self


class RowMethods(PlanBuilder):
    """The methods of `Stream` that choose rows and make columns, and keep lifetimes as they are."""

    __slots__ = ()

    def where(self, condition: RowFunction | Expr | str) -> Self:
        """
        Keep the rows for which a condition holds. Lifetimes stay.

        Parameters
        ----------
        condition
            A lambda of the row, an expression, or the name of a boolean column. Null counts as false.

        Returns
        -------
        Stream
            Shape ``(m, k)`` with ``m <= n``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist or the condition is not a boolean.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}, {"item": "b", "price": 3}])
        >>> clicks.query(lambda q: q.where(lambda e: e.price > 2)).to_rows()
        [Row(item='b', price=3)]
        """
        return type(self)(self._plan.where_(predicate(self._schema, condition)))

    def select(self, /, *columns: Any, returns: Any = None, **named: Any) -> Self:
        """
        Make new columns and drop all others. Lifetimes stay.

        Parameters
        ----------
        *columns
            Names of columns, expressions, or lambdas of the row that return an expression, a dict of names
            and expressions, or a list of these. A lambda of two arguments is given the start of the row's
            lifetime too.
        returns
            The type of what a lambda returns that runs as a black box; by default found on sample rows.
        **named
            Expressions, lambdas of the row, or names of columns, by the name of the new column.

        Returns
        -------
        Stream
            Shape ``(n, columns)``, in the same order. A computed column without a name is named after the
            first column that it refers to.

        Raises
        ------
        InvalidError
            If a column does not exist, two have one name, or types do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}, {"item": "b", "price": 3}])
        >>> clicks.query(lambda q: q.select("item", double=lambda e: e.price * 2)).to_rows()
        [Row(item='a', double=2), Row(item='b', double=6)]
        >>> clicks.query(
        ...     lambda q: q.select(lambda e: {"what": e.item.upper(), "cost": e.price + 0.5})
        ... ).to_rows()
        [Row(what='A', cost=1.5), Row(what='B', cost=3.5)]
        """
        plan, projected = self._project(columns, named, returns)
        return type(self)(plan.select(projected.columns))

    def with_columns(self, /, *columns: Any, returns: Any = None, **named: Any) -> Self:
        """
        Add columns, or replace those of the same name. Lifetimes stay.

        Parameters
        ----------
        *columns, returns, **named
            As in `select`; or aggregates over the rows around each row, `Aggregate.over`, by name.

        Returns
        -------
        Stream
            Shape ``(n, k + new)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, two new ones have one name, or types do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.with_columns(double=lambda e: e.price * 2)).to_rows()
        [Row(item='a', price=1, double=2)]
        """
        if any(isinstance(value, Over) for value in named.values()):
            return self._with_windows(columns, named)
        plan, projected = self._project(columns, named, returns)
        stream = type(self)(plan.with_columns(projected.columns))
        wanted = (*self.columns, *(column.name() for column in projected.columns))
        extra = [name for name in stream.columns if name not in wanted]
        return stream.drop(*extra) if extra else stream

    def _with_windows(self, columns: tuple[Any, ...], named: dict[str, Any]) -> Self:
        windows = [
            (name, value.resolve(self._schema)) for name, value in named.items() if isinstance(value, Over)
        ]
        if columns or len(windows) < len(named):
            raise InvalidError("what is computed over other rows needs a with_columns of its own")
        return type(self)(self._plan.with_windows(windows))

    def drop(self, *columns: str) -> Self:
        """
        Leave out columns.

        Parameters
        ----------
        *columns
            Their names.

        Returns
        -------
        Stream
            Shape ``(n, k - columns)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, or is part of the key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.drop("price")).to_rows()
        [Row(item='a')]
        """
        return type(self)(self._plan.drop(list(columns)))

    def rename(self, names: Mapping[str, str], /) -> Self:
        """
        Give columns other names. Lifetimes stay.

        Parameters
        ----------
        names
            The new name of each column that gets one, by its present name.

        Returns
        -------
        Stream
            Shape ``(n, k)``, in the same order.

        Raises
        ------
        InvalidError
            If a column does not exist, two have one name afterwards, or a column of the key would be renamed.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> clicks.query(lambda q: q.rename({"price": "cost"})).to_rows()
        [Row(item='a', cost=1)]
        """
        keys = [name for name in names if name in self.key]
        if keys:
            raise InvalidError(f'column "{keys[0]}" is part of the key; rename it before rekey')
        renamed = {
            name: Expr(native.Expr.column(name, self._schema).alias(new)) for name, new in names.items()
        }
        # A name that is no column stays at the end, where select raises the error.
        return self.select(*({name: name for name in self.columns} | renamed).values())

    def select_many(
        self,
        items: RowFunction | Expr | str,
        name: str | None = None,
        *,
        returns: Any = None,
        nulls: bool = False,
    ) -> Self:
        """
        Make one row of every element of a list. Lifetimes stay.

        Parameters
        ----------
        items
            The lists: a lambda of the row, which may return a list of expressions; an expression; or the name
            of a column.
        name
            The column of the elements; by default the list's own, which it replaces.
        returns
            The type of the lists that a black box makes, e.g. ``"list[int64]"``.
        nulls
            Whether a null list gives a row, with a null, as SQL's ``unnest`` does. Streams without a time
            only.

        Returns
        -------
        Stream
            A row for each element, with the row's other columns; none for an empty list, nor, by default, for
            a null one.

        Raises
        ------
        InvalidError
            If what is given is not a list.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "tags": ["x", "y"]}, {"item": "b", "tags": []}])
        >>> clicks.query(lambda q: q.select_many("tags", "tag")).to_rows()
        [Row(item='a', tag='x'), Row(item='a', tag='y')]
        """
        schema = self._schema
        expr = expression_or_list(schema, items, returns)
        source = expr.name()
        if source in schema.names():
            stream = type(self)(self._plan.select_many(expr, name or source, nulls))
            return stream.drop(source) if name not in (None, source) else stream
        return type(self)(self._plan.select_many(expr, name or expr.root() or "value", nulls))

    @property
    def _schema(self) -> native.Schema:
        return self._plan.schema()

    def _project(
        self, specs: tuple[Any, ...], named: dict[str, Any], returns: Any
    ) -> tuple[native.Plan, Projection]:
        """Make the projection, and the plan with the columns it needs: the start, a black box's struct."""
        plan, extra = self._plan, ()
        functions = [spec for spec in (*specs, *named.values()) if is_function(spec)]
        if any(takes_two(f) for f in functions):
            plan = plan.with_start(START)
            extra = (Expr(native.Expr.column(START, plan.schema())),)
            if not all(takes_two(f) for f in functions):
                raise InvalidError("either all lambdas of a call take the lifetime's start, or none")
        projected = projection(self._schema, specs, named, returns, extra)
        if projected.struct is not None:
            plan = plan.with_columns([projected.struct])
        return plan, projected
