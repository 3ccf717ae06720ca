"""DataFusion's functions, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .expressions import Expr
from .operands import to_native


class Namespace:
    """Functions as attributes, named by those who make the calls."""

    _name: str
    _made_by: str

    def _names(self) -> list[str]:
        raise NotImplementedError

    def _call(self, name: str) -> Callable[..., Any]:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        call = self._call(name)
        call.__name__ = call.__qualname__ = name
        return call

    def __dir__(self) -> list[str]:
        return self._names()

    def __setattr__(self, name: str, value: object) -> None:
        raise InvalidError(f"functions cannot be added to {self._name}; use {self._made_by} for {name}")

    def __repr__(self) -> str:
        return f"<{len(dir(self))} functions: dir({self._name}) lists them>"


class Functions(Namespace):
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

    _name = "wb.fn"
    _made_by = "wb.udf"

    def _names(self) -> list[str]:
        return native.function_names()

    def _call(self, name: str) -> Callable[..., Expr]:
        return lambda *arguments: Expr(native.Expr.call(name, [to_native(each) for each in arguments]))


fn = Functions()
