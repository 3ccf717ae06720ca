"""Expressions over the columns of a stream.

An expression is a value: it does nothing until a query runs. Inside a lambda, ``e.price`` is an expression;
outside, `col` makes one.

It relies on `expression_methods` for all methods that have a name.
"""

from __future__ import annotations

from threading import local
from typing import Any, NoReturn

from . import _whimbrel as native
from . import attribute_errors
from .expression_methods import ExpressionMethods
from .operands import to_native


class Untraceable(TypeError, AttributeError):
    """A Python operation that has no expression; raised while a lambda is traced."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what}; {instead}")
        self.what = what
        self.instead = instead


class Tracing(local):
    """The state of tracing: the depth of nested traces, and the first operation that was refused."""

    depth = 0
    refused: Untraceable | None = None


state = Tracing()


class Expr(ExpressionMethods):
    """
    A column computed from the columns of a stream.

    Made by `col`, `lit`, `when`, the functions in `fn`, and by the operators ``+ - * / // % **``, ``== != <
    <= > >=``, ``& | ~ ^`` (``and``, ``or`` and ``not`` cannot be overloaded in Python) and ``abs``. Operators
    mean what they mean in Python: ``/`` never cuts, ``%`` has the sign of the divisor, ``+`` joins strings,
    ``== None`` asks for null. A null operand makes a null result, as in SQL.

    Examples
    --------
    >>> import whimbrel as wb
    >>> (wb.col("price") * 2 + 1) > 10
    price * 2 + 1 > 10
    >>> wb.col("item").isin(["a", "b"]) & wb.col("price").is_not_null()
    item.isin(["a", "b"]) & price.is_not_null()
    """

    __slots__ = ()

    def _expr(self, made: native.Expr) -> Expr:
        return Expr(made)

    # Operators.

    def _binary(self, symbol: str, other: Any) -> Expr:
        return Expr(self._native.binary(symbol, to_native(other)))

    def _reflected(self, symbol: str, other: Any) -> Expr:
        return Expr(to_native(other).binary(symbol, self._native))

    def __add__(self, other: Any) -> Expr:
        return self._binary("+", other)

    def __radd__(self, other: Any) -> Expr:
        return self._reflected("+", other)

    def __sub__(self, other: Any) -> Expr:
        return self._binary("-", other)

    def __rsub__(self, other: Any) -> Expr:
        return self._reflected("-", other)

    def __mul__(self, other: Any) -> Expr:
        return self._binary("*", other)

    def __rmul__(self, other: Any) -> Expr:
        return self._reflected("*", other)

    def __truediv__(self, other: Any) -> Expr:
        return self._binary("/", other)

    def __rtruediv__(self, other: Any) -> Expr:
        return self._reflected("/", other)

    def __floordiv__(self, other: Any) -> Expr:
        return self._binary("//", other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return self._reflected("//", other)

    def __mod__(self, other: Any) -> Expr:
        return self._binary("%", other)

    def __rmod__(self, other: Any) -> Expr:
        if isinstance(other, str):
            raise _refusal("% of a string", "use wb.fn.concat(...)")
        return self._reflected("%", other)

    def __pow__(self, other: Any) -> Expr:
        return self._binary("**", other)

    def __rpow__(self, other: Any) -> Expr:
        return self._reflected("**", other)

    def __and__(self, other: Any) -> Expr:
        return self._binary("&", other)

    def __rand__(self, other: Any) -> Expr:
        return self._reflected("&", other)

    def __or__(self, other: Any) -> Expr:
        return self._binary("|", other)

    def __ror__(self, other: Any) -> Expr:
        return self._reflected("|", other)

    def __xor__(self, other: Any) -> Expr:
        return self._binary("^", other)

    def __rxor__(self, other: Any) -> Expr:
        return self._reflected("^", other)

    def __lshift__(self, other: Any) -> Expr:
        return self._binary("<<", other)

    def __rshift__(self, other: Any) -> Expr:
        return self._binary(">>", other)

    def __lt__(self, other: Any) -> Expr:
        return self._binary("<", other)

    def __le__(self, other: Any) -> Expr:
        return self._binary("<=", other)

    def __gt__(self, other: Any) -> Expr:
        return self._binary(">", other)

    def __ge__(self, other: Any) -> Expr:
        return self._binary(">=", other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.is_null() if other is None else self._binary("==", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.is_not_null() if other is None else self._binary("!=", other)

    def __invert__(self) -> Expr:
        return Expr(self._native.invert())

    def __neg__(self) -> Expr:
        return Expr(self._native.negative())

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return Expr(native.Expr.call("abs", [self._native]))

    def __getitem__(self, key: Any) -> Expr:
        if isinstance(key, str):
            return Expr(self._native.field(key))
        raise _refusal(
            "indexing by position", "use wb.fn.array_element(list, i + 1) or wb.fn.substr(text, i + 1, 1)"
        )

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._native.fields():
            return Expr(self._native.field(name))
        raise _refusal(
            f"the attribute .{name}",
            attribute_errors.for_expression(name, dir(Expr), native.function_names()),
        )

    # Protocols of Python whose results are no expressions.

    def __bool__(self) -> bool:
        raise _refusal(
            "an expression has no truth value (if, and, or, not, in, chained comparisons)",
            "use & | ~, .isin([...]), .between(a, b) or wb.when(...).then(...).otherwise(...)",
        )

    def __contains__(self, item: object) -> bool:
        raise _refusal("'in' of a column", "use wb.fn.contains(text, part) or wb.fn.array_has(list, item)")

    def __iter__(self) -> NoReturn:
        raise _refusal("iterating over a column", "use .select_many(...) or the array functions in wb.fn")

    def __len__(self) -> int:
        raise _refusal("len() of a column", "use wb.fn.length(text) or wb.fn.array_length(list)")

    def __hash__(self) -> int:
        raise _refusal(
            "an expression as a key of a dict or an element of a set",
            "use wb.when(...).then(...).otherwise(...)",
        )

    def __int__(self) -> int:
        raise _refusal("int() of a column", 'use .cast("int64")')

    def __index__(self) -> int:
        raise _refusal("a column as an index", "use the functions in wb.fn")

    def __float__(self) -> float:
        raise _refusal(
            "float() or a math function of a column", 'use .cast("float64") or the functions in wb.fn'
        )

    def __complex__(self) -> complex:
        raise _refusal("complex() of a column", "there are no complex columns")

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise _refusal("round() of a column", "use wb.fn.round(x), which rounds halves away from zero")

    def __trunc__(self) -> NoReturn:
        raise _refusal("trunc() of a column", "use wb.fn.trunc(x)")

    def __floor__(self) -> NoReturn:
        raise _refusal("floor() of a column", "use wb.fn.floor(x)")

    def __ceil__(self) -> NoReturn:
        raise _refusal("ceil() of a column", "use wb.fn.ceil(x)")

    def __divmod__(self, other: object) -> NoReturn:
        raise _refusal("divmod() of a column", "use // and %")

    def __rdivmod__(self, other: object) -> NoReturn:
        raise _refusal("divmod() of a column", "use // and %")

    def __call__(self, *arguments: object, **named: object) -> NoReturn:  # noqa: D102
        raise _refusal("calling a column", "look for the function among wb.fn")

    def __repr__(self) -> str:
        return self._native.text()

    def __str__(self) -> str:
        if state.depth:
            raise _refusal("the text of a column", 'use wb.fn.concat(...) or .cast("string")')
        return self._native.text()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def _refusal(what: str, instead: str) -> Untraceable:
    refusal = Untraceable(what, instead)
    # Recorded, because the lambda may catch the error and return a wrong result.
    state.refused = state.refused or refusal
    return refusal


def col(name: str) -> Expr:
    """
    Refer to a column by its name.

    Parameters
    ----------
    name
        The column's name. It is looked up when the expression meets a stream.

    Returns
    -------
    Expr
        The column's values.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.col("price") > 10
    price > 10
    """
    return Expr(native.Expr.column(name))


def lit(value: Any, dtype: Any = None) -> Expr:
    """
    Make a constant column.

    Constants in operators become expressions by themselves; elsewhere, `lit` makes them.

    Parameters
    ----------
    value
        A Python value, or `None` for null.
    dtype
        The type, as in `Expr.cast`; by default, the type of the value.

    Returns
    -------
    Expr
        The same value for every row.

    Raises
    ------
    InvalidError
        If the value is of no type that a column can have, or not of the type given.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.lit(1) + wb.col("price")
    1 + price
    """
    return Expr(native.Expr.literal(value, dtype))
