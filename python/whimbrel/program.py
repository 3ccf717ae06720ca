"""Programs: plans as text that a person reads, edits and runs again."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from traceback import walk_tb
from types import CodeType
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError, WhimbrelError
from .expressions import Expr
from .operands import to_native

_numbers = count(1)


class Program(str):
    """
    The text of a Python program that builds a plan: the result of `ShardedStream.to_python`.

    Attributes
    ----------
    sources
        The streams that its function is given first, by name: tables in memory and live sources.
    functions
        The functions that it is given after them, by name: black boxes.
    """

    sources: dict[str, Any]
    functions: dict[str, Callable[..., Expr]]
    _native: native.Program

    def __new__(cls, program: native.Program, stream: Callable[[native.Plan], Any]) -> Program:
        """Take the text and what belongs to it."""
        self = super().__new__(cls, program.text())
        self.sources = {name: stream(plan) for name, plan in program.sources()}
        self.functions = {name: _callable(function) for name, function in program.functions()}
        self._native = program
        return self

    def __repr__(self) -> str:
        return str(self)

    def run(self, text: str | None = None, /, **sources: Any) -> Any:
        """
        Build the plan that the program, or an edited text of it, describes.

        Parameters
        ----------
        text
            The text to run; by default the program's own.
        **sources
            Other streams in the places of the program's own, by name.

        Returns
        -------
        ShardedStream
            The result. Nothing has been computed.

        Raises
        ------
        InvalidError
            If there is no source of a name, or the text gives no stream; if a step of it is wrong, the
            message names its line.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}, {"item": "b", "price": 3}])
        >>> program = clicks.query(lambda q: q.where(lambda e: e.price > 2)).to_python()
        >>> program.run(program.replace("> 2", "< 2")).to_rows()
        [Row(item='a', price=1)]
        """
        text = str(self) if text is None else text
        unknown = [name for name in sources if name not in self.sources]
        if unknown:
            raise InvalidError(
                f"the program has no source {unknown[0]}; it has {', '.join(self.sources) or 'none'}"
            )
        # So that a traceback shows the lines that it came from.
        file = f"<program {next(_numbers)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        try:
            return self._result(compile(text, file, "exec"), sources)
        except WhimbrelError as error:
            _name_line(error, file)
            raise

    def _result(self, code: CodeType, sources: dict[str, Any]) -> Any:
        names: dict[str, Any] = {"__name__": "program"}
        exec(code, names)
        if self.sources or self.functions:
            if "program" not in names:
                raise InvalidError("the text has no function program(…)")
            return names["program"](**{**self.sources, **sources}, **self.functions)
        result = self._native.result()
        if result not in names:
            raise InvalidError(f"the text has no variable {result}, which held the result")
        return names[result]

    def builds(self, stream: Any) -> bool:
        """
        Tell whether a plan is the one that the program builds.

        Parameters
        ----------
        stream
            A sharded stream.

        Returns
        -------
        bool
            Whether the two are equal, step for step, over the same sources.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "price": 1}])
        >>> dear = clicks.query(lambda q: q.where(lambda e: e.price > 2))
        >>> program = dear.to_python()
        >>> program.builds(dear), program.builds(program.run()), program.builds(clicks)
        (True, True, False)
        """
        return self._native.builds(stream._plan)


def _name_line(error: WhimbrelError, file: str) -> None:
    """Add to a message the line of the program that it is about."""
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if lines:
        text = linecache.getline(file, lines[-1]).strip()
        error.args = (f"{error}\nin line {lines[-1]} of the program: {text}",)


def _callable(function: native.Function) -> Callable[..., Expr]:
    def call(*arguments: Any) -> Expr:
        return Expr(function.call([to_native(argument) for argument in arguments]))

    return call
