"""What is computed of an expression by name: nulls, types, comparisons, and the text and dates of its values.

It relies on `operands` for what the methods take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from .operands import Operand, Value, to_native

if TYPE_CHECKING:
    from .expressions import Expr


class ExpressionMethods(Operand):
    """The methods of `Expr` that have a name; what Python has syntax for is in `Expr` itself."""

    __slots__ = ()

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
        return self._expr(self._native.alias(name))

    def is_null(self) -> Expr:
        """
        Tell whether the value is null. Never null itself.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").is_null()
        price.is_null()
        """
        return self._expr(self._native.is_null())

    def is_not_null(self) -> Expr:
        """
        Tell whether the value is not null. Never null itself.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("price").is_not_null()
        price.is_not_null()
        """
        return self._expr(self._native.is_not_null())

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
        return self._expr(native.Expr.call("coalesce", [self._native, to_native(value)]))

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
        return self._expr(self._native.cast(dtype, strict))

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
        return self._expr(self._native.isin([to_native(value) for value in values]))

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
        return self._expr(self._native.between(to_native(low), to_native(high)))

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
        return self._expr(self._native.binary("eq_missing", to_native(other)))

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
        return self._expr(self._native.binary("ne_missing", to_native(other)))

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
        return self._expr(self._native.like(to_native(pattern), escape, False))

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
        return self._expr(self._native.like(to_native(pattern), escape, True))

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
        return self._expr(native.Expr.call("upper", [self._native]))

    def lower(self) -> Expr:
        """
        Turn a string to lower case.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.col("item").lower()
        lower(item)
        """
        return self._expr(native.Expr.call("lower", [self._native]))

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
        return self._expr(native.Expr.call("starts_with", [self._native, to_native(prefix)]))

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
        return self._expr(native.Expr.call("ends_with", [self._native, to_native(suffix)]))

    def _date_part(self, part: str) -> Expr:
        if part in self._native.fields():
            return self._expr(self._native.field(part))
        return self._expr(
            native.Expr.call("date_part", [native.Expr.literal(part), self._native]).cast("int64")
        )

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
