"""Patterns of events: what `Stream.detect` looks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .expressions import Expr, Untraceable
from .operands import to_native
from .tracing import RowTracer, Udf, label, python_function, takes_two, trace, warn_untraced

__all__ = ["Pattern", "automaton", "event", "events_at_once"]


class Pattern:
    """
    A pattern of events: made by `event`, `events_at_once` and `automaton`, and put together by methods.

    Examples
    --------
    >>> import whimbrel as wb
    >>> up = wb.event(lambda e: e.step > 0)
    >>> down = wb.event(lambda e: e.step < 0)
    >>> peak = up.plus().then(down.plus())
    """

    __slots__ = ()

    def then(self, *following: Pattern) -> Pattern:
        """
        Let others follow, each right after the one before.

        Parameters
        ----------
        *following
            What follows, in this order.

        Examples
        --------
        >>> import whimbrel as wb
        >>> pair = wb.event(lambda e: e.what == "ad").then(wb.event(lambda e: e.what == "buy"))
        """
        # One list of parts, so that a pattern is not as deep as it is long.
        before = self.parts if isinstance(self, _Concat) else (self,)
        return _Concat((*before, *following))

    def __or__(self, other: Pattern) -> Pattern:
        """Match this pattern or another one."""
        before = self.parts if isinstance(self, _Or) else (self,)
        return _Or((*before, other))

    def star(self) -> Pattern:
        """
        Match any number of times, or not at all.

        Examples
        --------
        >>> import whimbrel as wb
        >>> anything = wb.event().star()
        """
        return self.times(0, None)

    def plus(self) -> Pattern:
        """
        Match once or more.

        Examples
        --------
        >>> import whimbrel as wb
        >>> several = wb.event().plus()
        """
        return self.times(1, None)

    def optional(self) -> Pattern:
        """
        Match once, or not at all.

        Examples
        --------
        >>> import whimbrel as wb
        >>> perhaps = wb.event().optional()
        """
        return self.times(0, 1)

    def times(self, least: int, most: int | None) -> Pattern:
        """
        Match a number of times.

        Parameters
        ----------
        least, most
            The least number of times, and the most; `None`: there is no limit.

        Raises
        ------
        InvalidError
            If the least number is negative, or more than the most.

        Examples
        --------
        >>> import whimbrel as wb
        >>> two_or_three = wb.event().times(2, 3)
        """
        if least < 0 or (most is not None and most < least):
            raise InvalidError(f"a pattern is repeated from {least} to {most} times; give a range, 0 or more")
        return _Repeat(self, least, most)

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        raise NotImplementedError


# Every walk over a pattern is recursive.
_MAX_DEPTH = 100


@dataclass(frozen=True)
class _Element(Pattern):
    condition: Any
    update: Mapping[str, Any]
    lists: bool

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        condition, update = resolver.element(self)
        return native.Pattern.element(condition, update, self.lists)


@dataclass(frozen=True)
class _Concat(Pattern):
    parts: tuple[Pattern, ...]

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        return native.Pattern.concat([part._resolve(resolver) for part in self.parts])


@dataclass(frozen=True)
class _Or(Pattern):
    parts: tuple[Pattern, ...]

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        return native.Pattern.alternatives([part._resolve(resolver) for part in self.parts])


@dataclass(frozen=True)
class _Repeat(Pattern):
    of: Pattern
    least: int
    most: int | None

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        return native.Pattern.repeat(self.of._resolve(resolver), self.least, self.most, True)


@dataclass(frozen=True)
class _Automaton(Pattern):
    arcs: tuple[tuple[int, int, _Element | None], ...]
    finals: tuple[int, ...]

    def _resolve(self, resolver: _Resolver) -> native.Pattern:
        arcs = [
            (start, end, None if element is None else resolver.element(element))
            for start, end, element in self.arcs
        ]
        lists = any(element is not None and element.lists for _, _, element in self.arcs)
        return native.Pattern.automaton(arcs, list(self.finals), lists)


def event(condition: Any = None, /, **update: Any) -> Pattern:
    """
    Match one event.

    Parameters
    ----------
    condition
        What has to hold: a lambda of the event, or of the event and the register; by default any event
        matches.
    **update
        New values for fields of the register: lambdas of the same, or constants.

    Returns
    -------
    Pattern
        For `Stream.detect`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> deposit = wb.event(lambda e: e.amount > 0, total=lambda e, register: register.total + e.amount)
    """
    return _Element(condition, update, lists=False)


def events_at_once(condition: Any = None, /, **update: Any) -> Pattern:
    """
    Match all events of one instant at once.

    Parameters
    ----------
    condition, **update
        As in `event`, but each column of the event is the list of its values at the instant. All parts of a
        pattern match lists, or all match single events.

    Returns
    -------
    Pattern
        For `Stream.detect`.

    Examples
    --------
    >>> import whimbrel as wb
    >>> crowd = wb.events_at_once(lambda e: wb.fn.array_length(e.user) > 100)
    """
    return _Element(condition, update, lists=True)


def automaton(arcs: Sequence[tuple[int, int, Pattern | None]], *, final: Sequence[int]) -> Pattern:
    """
    Write a pattern as an automaton, which starts in state 0.

    Parameters
    ----------
    arcs
        From which state, to which, and the event that it takes, made by `event` or `events_at_once`; `None`
        takes none.
    final
        The states in which the pattern has been found.

    Returns
    -------
    Pattern
        For `Stream.detect`; it cannot be part of another one.

    Raises
    ------
    InvalidError
        If an arc takes something else than one event.

    Examples
    --------
    >>> import whimbrel as wb
    >>> even = wb.automaton([(0, 1, wb.event()), (1, 0, wb.event())], final=[0])
    """
    checked: list[tuple[int, int, _Element | None]] = []
    for start, end, element in arcs:
        if element is not None and not isinstance(element, _Element):
            raise InvalidError(f"the arc from {start} to {end} has to take one event, wb.event(...), or None")
        checked.append((start, end, element))
    return _Automaton(tuple(checked), tuple(final))


class _Register:
    """The register, as a lambda sees it: its fields by name."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise InvalidError(native.missing_column(name, list(self._values)))
        return self._values[name]


class _EventTracer(RowTracer):
    """The event, whose columns are those of a pattern."""

    __slots__ = ("_columns",)

    def __init__(self, schema: native.Schema, columns: native.PatternColumns) -> None:
        super().__init__(schema)
        self._columns = columns

    def _column(self, name: str) -> native.Expr:
        return self._columns.event(name)


class _Resolver:
    """Makes the expressions of a pattern, over the columns of a plan and a register."""

    def __init__(self, plan: native.Plan, fields: list[tuple[str, native.Expr]]) -> None:
        self._schema = plan.schema()
        self._fields = fields
        self._columns = {lists: native.PatternColumns(plan, fields, lists) for lists in (False, True)}

    def element(self, element: _Element) -> tuple[native.Expr | None, list[tuple[int, native.Expr]]]:
        """Make the condition and the updates of an element."""
        condition = element.condition
        if condition is not None:
            condition = self._expression(condition, element.lists, "bool")
        numbers = {name: number for number, (name, _) in enumerate(self._fields)}
        update = []
        for name, value in element.update.items():
            if name not in numbers:
                raise InvalidError(
                    f"the register has no field {name}; give its first value: detect(..., register={{...}})"
                )
            kind = self._fields[numbers[name]][1].dtype()
            update.append((numbers[name], self._expression(value, element.lists, kind)))
        return condition, update

    def _expression(self, spec: Any, lists: bool, returns: str | None) -> native.Expr:
        if not callable(spec) or isinstance(spec, Expr):
            return to_native(spec)
        function = python_function(spec)
        if not isinstance(spec, Udf):
            try:
                return self._traced(function, lists)
            except Untraceable as reason:
                warn_untraced(function, reason)
        return self._black_box(function, lists, returns)

    def _traced(self, function: Callable[..., Any], lists: bool) -> native.Expr:
        columns = self._columns[lists]
        row = _EventTracer(self._schema, columns)
        register = _Register({name: Expr(columns.register(name)) for name, _ in self._fields})
        result = trace(function, None, *((row, register) if takes_two(function) else (row,)))
        if row._touched and not isinstance(result, Expr):
            raise Untraceable("it looked at the event and returned a constant", "return an expression of it")
        return to_native(result)

    def _black_box(self, function: Callable[..., Any], lists: bool, returns: str | None) -> native.Expr:
        columns, names = self._columns[lists], self._schema.names()
        fields = [name for name, _ in self._fields]

        def call(row: Any, *values: Any) -> Any:
            if takes_two(function):
                return function(row, _Register(dict(zip(fields, values, strict=True))))
            return function(row)

        args = [columns.event(name) for name in names] + [columns.register(name) for name in fields]
        truth = returns == "bool"
        return native.black_box(call, args, returns, label(function), names, truth)


def resolve(
    pattern: Pattern, plan: native.Plan, register: Mapping[str, Any]
) -> tuple[native.Pattern, list[tuple[str, native.Expr]]]:
    """Make the pattern over the columns of a plan, and its register."""
    if not isinstance(pattern, Pattern):
        raise InvalidError(f"a pattern is made with wb.event(...), not {type(pattern).__name__}")
    fields = [(name, to_native(value)) for name, value in register.items()]
    for name, value in fields:
        if value.dtype() in (None, "null"):
            raise InvalidError(
                f'the type of {name} in the register is not known; give wb.lit(None, "string")'
            )
    if _depth(pattern) > _MAX_DEPTH:
        raise InvalidError(f"patterns are more than {_MAX_DEPTH} deep inside one another; write it flatter")
    return pattern._resolve(_Resolver(plan, fields)), fields


def _depth(pattern: Pattern) -> int:
    """Count how many patterns are inside one another at most."""
    deepest, waiting = 0, [(pattern, 1)]
    while waiting:
        outer, depth = waiting.pop()
        deepest = max(deepest, depth)
        match outer:
            case _Concat(parts) | _Or(parts):
                waiting += [(part, depth + 1) for part in parts if isinstance(part, Pattern)]
            case _Repeat(of):
                waiting.append((of, depth + 1))
            case _:
                pass
    return deepest
