"""From a Python function of a row to an expression.

A function is *traced*: called once, with a row whose columns are expressions, so that what it returns is an
expression. Operations that Python does not let a class overload (``if``, ``and``, ``in``, ``is``, calls of
other libraries) are detected, and the function then runs as a *black box*: once for every row, on values.

Both ways give the same result. Tracing is refused when in doubt: a function that compares identities or
types, or that reads its row and returns a constant, is a black box.
"""

from __future__ import annotations

import dis
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from types import CodeType
from typing import Any

from . import _whimbrel as native
from .call_site import call_site
from .errors import InvalidError, UntracedLambdaWarning
from .expressions import Expr, Untraceable, state
from .operands import to_native

_IDENTITY_OPCODES = ("IS_OP", "IF_NONE", "IF_NOT_NONE")
_IDENTITY_NAMES = frozenset({"isinstance", "issubclass", "type", "id"})
_warned: set[tuple[str, int]] = set()


class RowTracer:
    """A row whose columns are expressions: the argument of a function that is traced."""

    __slots__ = ("_names", "_schema", "_touched")

    def __init__(self, schema: native.Schema) -> None:
        self._schema = schema
        self._names = schema.names()
        self._touched = False

    def __getattr__(self, name: str) -> Any:
        if name == "keys" and name not in self._names:
            return lambda: list(self._names)
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> Expr:
        self._touched = True
        if isinstance(key, int):
            key = self._names[key]
        if key not in self._names:
            raise InvalidError(native.missing_column(key, self._names))
        return Expr(self._column(key))

    def _column(self, name: str) -> native.Expr:
        return native.Expr.column(name, self._schema)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[Expr]:
        return (self[name] for name in self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Row({', '.join(self._names)})"


class SideTracer(RowTracer):
    """One of the two rows of a join condition."""

    __slots__ = ("_plans", "_side")

    def __init__(self, side: str, schema: native.Schema, plans: tuple[native.Plan, native.Plan]) -> None:
        super().__init__(schema)
        self._side = side
        self._plans = plans

    def _column(self, name: str) -> native.Expr:
        return native.Expr.column_of(self._side, name, *self._plans)


class Udf:
    """
    A Python function that expressions can call: the result of `udf`.

    Called with expressions, it is an expression; given where a row function is expected, it runs as a black
    box without a warning.
    """

    def __init__(self, function: Callable[..., Any], returns: Any, arrays: bool) -> None:
        if arrays and returns is None:
            raise InvalidError(
                f"{label(function)}: say what a function of arrays returns: "
                'wb.udf(function, returns="int64", arrays=True)'
            )
        functools.update_wrapper(self, function)
        self.function = function
        self.returns = returns
        self._over_arrays = ArrayFunction(function) if arrays else None

    @property
    def row_function(self) -> Callable[..., Any]:
        """The function, where it is called with rows."""
        if self._over_arrays is not None:
            raise InvalidError(
                f"{label(self.function)} takes arrays, not rows: call it with columns, lambda e: f(e.price)"
            )
        return self.function

    def __call__(self, *arguments: Any) -> Any:  # noqa: D102
        if not any(isinstance(argument, Expr) for argument in arguments):
            if self._over_arrays is not None and state.depth:
                raise InvalidError(f"{label(self.function)} takes arrays: give it at least one column")
            return self.function(*arguments)
        args = [to_native(argument) for argument in arguments]
        returns = self.returns
        if self._over_arrays is not None:
            function = self._over_arrays
            return Expr(native.black_box(function, args, returns, label(self.function), batches=True))
        if returns is None:
            returns = _infer_values(self.function, args)
        return Expr(native.black_box(self.function, args, returns, label(self.function)))

    def __repr__(self) -> str:
        return f"udf({label(self.function)})"


class ArrayFunction:
    """A function of arrays of pyarrow as the engine calls it: with a table of the arguments of a batch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if find_spec("pyarrow") is None:
            raise InvalidError("arrays=True hands over arrays of pyarrow: pip install pyarrow")
        self.function = function

    def __call__(self, table: native.Table) -> Any:
        """Call the function with the columns of a table; give a table with its result."""
        import pyarrow

        given = pyarrow.RecordBatchReader.from_stream(table).read_all()
        arrays = [without_views(column.combine_chunks()) for column in given.columns]
        result = self.function(*arrays)
        return pyarrow.table({"result": array_of_result(result)})


def array_of_result(result: Any) -> Any:
    """Give what a function of arrays returned as an array of pyarrow."""
    import pyarrow

    if isinstance(result, (pyarrow.Array, pyarrow.ChunkedArray)):
        return result
    if hasattr(result, "__arrow_c_stream__"):
        return pyarrow.chunked_array(result)
    if (
        isinstance(result, (list, tuple))
        or hasattr(result, "__arrow_c_array__")
        or hasattr(result, "__array__")
    ):
        return pyarrow.array(result)
    raise InvalidError(f"a function of arrays returned {type(result).__name__}: an array or a list is wanted")


def without_views(array: Any) -> Any:
    """Give strings their usual layout, which all functions of pyarrow take."""
    import pyarrow

    usual = {"string_view": pyarrow.string(), "binary_view": pyarrow.binary()}.get(str(array.type))
    return array if usual is None else array.cast(usual)


def udf(function: Callable[..., Any] | None = None, *, returns: Any = None, arrays: bool = False) -> Any:
    """
    Make a Python function callable in expressions.

    It is called once for every row, with values; or once for every batch, with arrays. It has to be
    deterministic, and the result of a row has to depend on that row alone.

    Parameters
    ----------
    function
        The function. Left out, `udf` is a decorator.
    returns
        The type of its results, as in `Expr.cast`; by default found by calling it once on sample values.
    arrays
        Whether it takes arrays of pyarrow, one for each argument, with the values of a batch of rows, and
        returns an array of as many results: of pyarrow, numpy, pandas, polars, or a list. `returns` has to be
        given.

    Returns
    -------
    Udf
        The function, which now takes expressions too.

    Raises
    ------
    InvalidError
        When it meets columns, if the type of its results can neither be found nor is given; if a function of
        arrays is given no type, or meets a row.

    Examples
    --------
    >>> import whimbrel as wb
    >>> @wb.udf(returns="int64")
    ... def digits(text):
    ...     return sum(c.isdigit() for c in text)
    >>> items = wb.from_rows([{"item": "a1"}, {"item": "b22"}])
    >>> items.query(lambda q: q.select(n=lambda e: digits(e.item))).to_rows()
    [Row(n=1), Row(n=2)]
    >>> import pyarrow.compute
    >>> length = wb.udf(pyarrow.compute.utf8_length, returns="int64", arrays=True)
    >>> items.query(lambda q: q.select(n=lambda e: length(e.item))).to_rows()
    [Row(n=2), Row(n=3)]
    """
    if function is None:
        return lambda function: Udf(function, returns, arrays)
    return Udf(function, returns, arrays)


def arity(function: Callable[..., Any]) -> int:
    """Count the positional arguments without defaults that a function takes; 1 if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def trace(function: Callable[..., Any], row: RowTracer | None, *extra: Any) -> Any:
    """Call a function on expressions; raise Untraceable if the result may differ from that on values."""
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        _refuse_identity(code)
    before, state.refused = state.refused, None
    state.depth += 1
    try:
        result = function(*(() if row is None else (row,)), *extra)
        refused = state.refused
    finally:
        state.depth -= 1
        state.refused = before
    if refused is not None:
        raise refused
    if row is not None and row._touched and not _has_expression(result):
        raise Untraceable("it looked at columns and returned a constant", "return an expression of them")
    if row is not None and not row._touched and isinstance(code, CodeType) and code.co_names:
        raise Untraceable(
            "it returns something that does not come from its row", "use wb.lit(...) for a constant"
        )
    return result


def _has_expression(result: Any) -> bool:
    if isinstance(result, Mapping):
        return any(_has_expression(part) for part in result.values())
    if isinstance(result, (list, tuple)):
        return any(_has_expression(part) for part in result)
    return isinstance(result, (Expr, RowTracer))


def _refuse_identity(code: CodeType) -> None:
    """Refuse code that compares identities or types: an expression is never None, and of one class."""
    identity = any(mark in op.opname for op in dis.get_instructions(code) for mark in _IDENTITY_OPCODES)
    if identity or _IDENTITY_NAMES.intersection(code.co_names):
        raise Untraceable("it asks what a value is (is, isinstance, type)", "use == None or .is_null()")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _refuse_identity(constant)


def label(function: Callable[..., Any]) -> str:
    """Name a function and its file and line, for plans and messages."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return name
    where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    return f"lambda at {where}" if name == "<lambda>" else f"{name} at {where}"


def warn_untraced(function: Callable[..., Any], reason: Untraceable) -> None:
    """Warn, once for each place, that a function runs as a black box: the reason and a faster way."""
    code = getattr(function, "__code__", None)
    site = (code.co_filename, code.co_firstlineno) if isinstance(code, CodeType) else call_site()
    if site in _warned:
        return
    _warned.add(site)
    message = (
        f"the {label(function)} runs as a black box, once for every row: {reason.what}. "
        f"Faster: {reason.instead}. To keep the black box without this warning, wrap it in wb.udf(...)"
    )
    warnings.warn_explicit(message, UntracedLambdaWarning, *site, registry=None)


def row_black_box(
    function: Callable[..., Any],
    schema: native.Schema,
    extra: tuple[Expr, ...] = (),
    returns: Any = None,
    *,
    truth: bool = False,
) -> tuple[native.Expr, Any]:
    """Make the call of a function on rows of a schema; give it with the type of its results."""
    names = schema.names()
    args = [native.Expr.column(name, schema) for name in names] + [to_native(part) for part in extra]
    if truth:
        returns = "bool"
    elif returns is None:
        returns = _infer_rows(function, schema, extra)
    return native.black_box(function, args, returns, label(function), names, truth), returns


def _infer_rows(function: Callable[..., Any], schema: native.Schema, extra: tuple[Expr, ...]) -> Any:
    rows = native.sample_rows(schema)
    # The only extra argument there is, is the lifetime's start, a number of ticks.
    return _infer(function, [(row, *(1 for _ in extra)) for row in rows])


def _infer_values(function: Callable[..., Any], args: list[native.Expr]) -> Any:
    kinds = [arg.dtype() for arg in args]
    if None in kinds:
        raise InvalidError(
            f"{label(function)}: the types of its arguments are not known here; say what it returns: "
            'wb.udf(function, returns="int64")'
        )
    schema = native.Schema.of([(str(position), kind) for position, kind in enumerate(kinds)])
    return _infer(function, [tuple(row[i] for i in range(len(args))) for row in native.sample_rows(schema)])


def _infer(function: Callable[..., Any], samples: list[tuple[Any, ...]]) -> Any:
    results: list[Any] = []
    failure: Exception | None = None
    for sample in samples:
        try:
            results.append(function(*sample))
        except Exception as error:
            failure = error
    values = [result for result in results if result is not None]
    if not values:
        cause = f" ({failure!r})" if failure else ""
        raise InvalidError(
            f"the {label(function)} runs as a black box and gives nothing on sample rows{cause}, so that the "
            'type of its results is not known; say it with returns="int64" or another type'
        ) from failure
    return native.infer_type(values)


def python_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the function itself, of one that was declared with `udf` too."""
    return function.function if isinstance(function, Udf) else function


def takes_two(function: Callable[..., Any]) -> bool:
    """Tell whether a function has two parameters."""
    return arity(python_function(function)) == 2
