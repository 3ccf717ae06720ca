"""Expressions over the columns of a stream.

An expression is a value: it does nothing until a query runs. Inside a lambda, ``e.price`` is an expression;
outside, `col` makes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import local
from typing import Any, NoReturn

from . import _whimbrel as native
from . import attribute_errors
from .errors import InvalidError

Value = Any
"""An expression, or a constant that becomes one."""


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


def to_native(value: Any) -> native.Expr:
    """Make the native expression of an expression or constant."""
    if isinstance(value, Expr):
        return value._native
    if isinstance(value, When):
        raise InvalidError("when(...) has no value yet: go on with .then(value)")
    return native.Expr.literal(value)


class Expr:
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

    __slots__ = ("_native",)

    _native: native.Expr

    def __init__(self, native_expr: native.Expr) -> None:
        self._native = native_expr

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

    # Methods.

    @property
    def name(self) -> str:
        """
        The name that this expression gives its column.

        Its alias if it has one, else the first column that it refers to, else ``"literal"``.

        Examples
        --------
        >>> import whimbrel as wb
        >>> (wb.col("price") * 2).name, (wb.col("price") * 2).alias("double").name
        ('price', 'double')
        """
        return self._native.name() or self._native.root() or "literal"

    def alias(self, name: str) -> Expr:
        """
        Name the column that this expression makes.

        Parameters
        ----------
        name
            The name.

        Examples
        --------
        >>> import whimbrel as wb
        >>> (wb.col("price") * 2).alias("double").name
        'double'
        """
        return Expr(self._native.alias(name))

    def is_null(self) -> Expr:
        """
        Tell whether the value is null. Never null itself.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").is_null()
        price.is_null()
        """
        return Expr(self._native.is_null())

    def is_not_null(self) -> Expr:
        """
        Tell whether the value is not null. Never null itself.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").is_not_null()
        price.is_not_null()
        """
        return Expr(self._native.is_not_null())

    def fill_null(self, value: Value) -> Expr:
        """
        Replace nulls.

        Parameters
        ----------
        value
            What to put in their place: a constant or an expression.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").fill_null(0)
        coalesce(price, 0)
        """
        return Expr(native.Expr.call("coalesce", [self._native, to_native(value)]))

    def cast(self, dtype: Any, *, strict: bool = True) -> Expr:
        """
        Convert to another type.

        Parameters
        ----------
        dtype
            A type's name (``"int64"``, ``"timestamp[us, UTC]"``), a Python class (`int`, `datetime`), or a
            type object of pyarrow.
        strict
            Whether a value that cannot be converted is an error (the default) or becomes null.

        Raises
        ------
        InvalidError
            If there is no such type.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").cast("int64")
        price.cast("int64")
        """
        return Expr(self._native.cast(dtype, strict))

    def isin(self, values: Iterable[Any]) -> Expr:
        """
        Tell whether the value is one of several.

        Parameters
        ----------
        values
            Constants or expressions.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").isin(["a", "b"])
        item.isin(["a", "b"])
        """
        return Expr(self._native.isin([to_native(value) for value in values]))

    def between(self, low: Value, high: Value) -> Expr:
        """
        Tell whether ``low <= value <= high``.

        Parameters
        ----------
        low, high
            Constants or expressions, both included.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").between(1, 10)
        price.between(1, 10)
        """
        return Expr(self._native.between(to_native(low), to_native(high)))

    def eq_missing(self, other: Value) -> Expr:
        """
        Tell whether two values are equal, where null equals null. Never null itself.

        Parameters
        ----------
        other
            A constant or an expression.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").eq_missing(wb.col("paid"))
        price.eq_missing(paid)
        """
        return self._binary("eq_missing", other)

    def ne_missing(self, other: Value) -> Expr:
        """
        Tell whether two values differ, where null equals null. Never null itself.

        Parameters
        ----------
        other
            A constant or an expression.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").ne_missing(wb.col("paid"))
        price.ne_missing(paid)
        """
        return self._binary("ne_missing", other)

    def like(self, pattern: Value, *, escape: str | None = None) -> Expr:
        """
        Tell whether a string has the form of an SQL pattern: ``%`` is any text, ``_`` any character.

        Parameters
        ----------
        pattern
            A string or an expression.
        escape
            The character before a ``%`` or ``_`` that is meant literally.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").like("%shoe%")
        item.like("%shoe%")
        """
        return Expr(self._native.like(to_native(pattern), escape, False))

    def ilike(self, pattern: Value, *, escape: str | None = None) -> Expr:
        """
        Tell whether a string has the form of an SQL pattern, whatever the case of its letters.

        Parameters
        ----------
        pattern, escape
            As in `like`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").ilike("%shoe%")
        item.ilike("%shoe%")
        """
        return Expr(self._native.like(to_native(pattern), escape, True))

    # The most frequent methods of strings and attributes of datetimes, so that lambdas with them are traced.

    def upper(self) -> Expr:
        """
        Turn a string to upper case.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").upper()
        upper(item)
        """
        return Expr(native.Expr.call("upper", [self._native]))

    def lower(self) -> Expr:
        """
        Turn a string to lower case.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").lower()
        lower(item)
        """
        return Expr(native.Expr.call("lower", [self._native]))

    def startswith(self, prefix: Value) -> Expr:
        """
        Tell whether a string begins with another.

        Parameters
        ----------
        prefix
            A string or an expression.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").startswith("a")
        starts_with(item, "a")
        """
        return Expr(native.Expr.call("starts_with", [self._native, to_native(prefix)]))

    def endswith(self, suffix: Value) -> Expr:
        """
        Tell whether a string ends with another.

        Parameters
        ----------
        suffix
            A string or an expression.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").endswith("z")
        ends_with(item, "z")
        """
        return Expr(native.Expr.call("ends_with", [self._native, to_native(suffix)]))

    def _date_part(self, part: str) -> Expr:
        if part in self._native.fields():
            return Expr(self._native.field(part))
        return Expr(native.Expr.call("date_part", [native.Expr.literal(part), self._native]).cast("int64"))

    @property
    def year(self) -> Expr:
        """The year of a date or timestamp."""
        return self._date_part("year")

    @property
    def month(self) -> Expr:
        """The month of a date or timestamp, 1 to 12."""
        return self._date_part("month")

    @property
    def day(self) -> Expr:
        """The day of the month of a date or timestamp, 1 to 31."""
        return self._date_part("day")

    @property
    def hour(self) -> Expr:
        """The hour of a timestamp, 0 to 23."""
        return self._date_part("hour")

    @property
    def minute(self) -> Expr:
        """The minute of a timestamp, 0 to 59."""
        return self._date_part("minute")

    @property
    def second(self) -> Expr:
        """The whole second of a timestamp, 0 to 59."""
        return self._date_part("second")


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


class When(attribute_errors.NearNames):
    """A condition without a value yet: the result of `when`."""

    __slots__ = ("_branches", "_condition")

    def __init__(self, condition: Value, branches: tuple[tuple[native.Expr, native.Expr], ...] = ()) -> None:
        self._condition = to_native(condition)
        self._branches = branches

    def then(self, value: Value) -> Then:
        """
        Give the value for rows for which the condition holds.

        Parameters
        ----------
        value
            A constant or an expression.
        """
        return Then((*self._branches, (self._condition, to_native(value))))


class Then(Expr):
    """An expression with conditions: goes on with `when`, ends with `otherwise`; without it, null."""

    __slots__ = ("_branches",)

    def __init__(self, branches: tuple[tuple[native.Expr, native.Expr], ...]) -> None:
        super().__init__(native.Expr.case(list(branches)))
        self._branches = branches

    def when(self, condition: Value) -> When:
        """
        Add a condition for the rows for which no earlier one holds.

        Parameters
        ----------
        condition
            An expression of booleans.
        """
        return When(condition, self._branches)

    def otherwise(self, value: Value) -> Expr:
        """
        Give the value for all other rows.

        Parameters
        ----------
        value
            A constant or an expression.
        """
        return Expr(native.Expr.case(list(self._branches), to_native(value)))


def when(condition: Value) -> When:
    """
    Choose a value by conditions: ``if``, ``elif``, ``else`` for columns.

    Parameters
    ----------
    condition
        An expression of booleans. A null counts as false.

    Returns
    -------
    When
        Go on with ``.then(value)``, then ``.when(…).then(…)`` any number of times, then
        ``.otherwise(value)``.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.when(wb.col("delay") > 15).then("late").otherwise("on time")
    when(delay > 15).then("late").otherwise("on time")
    """
    return When(condition)
