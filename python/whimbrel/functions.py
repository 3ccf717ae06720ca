"""DataFusion's functions, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .expressions import Expr, to_native


class Functions:
    """
    All of DataFusion's scalar functions, as attributes: ``wb.fn.sqrt(e.x)``.

    ``dir(wb.fn)`` lists them; https://datafusion.apache.org/user-guide/sql/scalar_functions.html describes
    them. Arguments are expressions and constants. Besides, ``mod`` and ``div`` are SQL's ``%`` and ``/`` of
    whole numbers, whose results are cut towards zero.

    Raises
    ------
    InvalidError
        If there is no function of that name; the message has the nearest one.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.fn.sqrt(wb.col("x") + 1)
    sqrt(x + 1)
    >>> wb.fn.sqroot(wb.col("x"))
    Traceback (most recent call last):
        ...
    whimbrel.errors.InvalidError: there is no function "sqroot"; did you mean "sqrt"? dir(wb.fn) lists them
    all
    """

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Expr:
            return Expr(native.Expr.call(name, [to_native(argument) for argument in arguments]))

        call.__name__ = call.__qualname__ = name
        return call

    def __dir__(self) -> list[str]:
        return native.function_names()

    def __setattr__(self, name: str, value: object) -> None:
        raise InvalidError(f"functions cannot be added to wb.fn; use wb.udf for {name}")

    def __repr__(self) -> str:
        return f"<{len(dir(self))} functions: dir(wb.fn) lists them>"


fn = Functions()
