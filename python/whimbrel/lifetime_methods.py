"""What a stream does to lifetimes besides windows: shift, chop, stitch, fill gaps, rules of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from ._types import Duration
from .errors import InvalidError
from .expressions import Expr, Untraceable
from .operands import to_native
from .projection import is_function
from .tracing import Udf, label, python_function, takes_two, trace, warn_untraced
from .window_methods import WindowMethods

if TYPE_CHECKING:
    from typing_extensions import Self


class LifetimeMethods(WindowMethods):
    """The methods of `Stream` that change lifetimes, and keep rows as they are."""

    __slots__ = ()

    def alter_lifetime(
        self,
        start: Duration | Callable[[Any], Any] | None = None,
        duration: Duration | float | Callable[..., Any] | None = None,
    ) -> Self:
        """
        Give every row another lifetime.

        Parameters
        ----------
        start
            How far to move the start (`Duration`), or a lambda that computes the new start from the old one,
            both in ticks; by default it stays. New starts have to keep the order of the old ones.
        duration
            The new length (`Duration`), ``math.inf`` for ever, or a lambda of the start, or of the start and
            the end, in ticks; by default it stays. It has to be positive; a row for which the lambda returns
            zero or less is dropped. With a lambda of the end, a row is handed on once its end is known.

        Returns
        -------
        Stream
            The same rows with new lifetimes.

        Raises
        ------
        InvalidError
            If the stream has no time, or a duration is not a positive whole number of ticks.
        DataError
            When run, if a new start comes before that of an earlier row.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3, "a"), (14, "b")], schema=["time", "item"], time="time")
        >>> clicks.query(lambda q: q.alter_lifetime(lambda s: s // 10 * 10, 10).select("item")).to_rows()
        [Row(start=0, end=10, item='a'), Row(start=10, end=20, item='b')]
        """
        return type(self)(self._plan.alter_lifetime(_start_rule(start), _duration_rule(duration)))

    def alter_duration(self, duration: Duration | float | Callable[..., Any]) -> Self:
        """
        Give every row another length of life; its start stays.

        Parameters
        ----------
        duration
            The new length, as in `alter_lifetime`.

        Returns
        -------
        Stream
            The same rows with new lifetimes.

        Raises
        ------
        InvalidError
            If the stream has no time, or the duration is not a positive whole number of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3, "a")], schema=["time", "item"], time="time")
        >>> clicks.query(lambda q: q.alter_duration(10).select("item")).to_rows()
        [Row(start=3, end=13, item='a')]
        """
        if duration is None:
            raise InvalidError("alter_duration needs a duration: a length, math.inf, or a lambda")
        if isinstance(duration, float) and math.isinf(duration) and duration > 0:
            return type(self)(self._plan.alter_duration(None))
        if not callable(duration) and not isinstance(duration, float):
            return type(self)(self._plan.alter_duration(duration))
        return self.alter_lifetime(None, duration)

    def with_start(self, name: str) -> Self:
        """
        Add the start of each row's lifetime as a column.

        Parameters
        ----------
        name
            The name of the new column.

        Returns
        -------
        Stream
            Shape ``(n, k + 1)``; the new column is the last, of the type of the stream's time.

        Raises
        ------
        InvalidError
            If the stream has no time, or there is a column of that name.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3, "a")], schema=["time", "item"], time="time")
        >>> clicks.query(lambda q: q.shift(10).with_start("at").select("item", "at")).to_rows()
        [Row(start=13, end=14, item='a', at=13)]
        """
        return type(self)(self._plan.with_start(name))

    def shift(self, by: Duration) -> Self:
        """
        Move lifetimes in time; their lengths stay.

        Parameters
        ----------
        by
            How far; negative is back.

        Returns
        -------
        Stream
            The same rows with new lifetimes.

        Raises
        ------
        InvalidError
            If the stream has no time, or the duration is not a whole number of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3, "a")], schema=["time", "item"], time="time")
        >>> clicks.query(lambda q: q.shift(10).select("item")).to_rows()
        [Row(start=13, end=14, item='a')]
        """
        return type(self)(self._plan.shift(by))

    def chop(self, period: Duration, *, offset: Duration = 0, zone: str | None = None) -> Self:
        """
        Cut lifetimes at every multiple of a period (Trill's `Chop`).

        What is alive at an instant stays the same: rows start anew at every beat. After `hopping` and
        `aggregate` it gives every window a row of its own, also where the next window holds the same.

        Parameters
        ----------
        period
            How far apart the beats are. Days and months are those of the calendar, as in `tumbling`.
        offset
            Where they lie: at ``offset``, ``offset + period``, and so on.
        zone
            As in `tumbling`.

        Returns
        -------
        Stream
            The same rows, in pieces. A row that never ends is cut as far as time has come.

        Raises
        ------
        InvalidError
            If the stream has no time, the period is not a positive whole number of ticks, or there is no such
            zone.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3, "a")], schema=["time", "ad"], time="time")
        >>> windows = clicks.query(lambda q: q.hopping(10, 5).aggregate(n=wb.count()))
        >>> windows.to_rows()
        [Row(start=5, end=15, n=1)]
        >>> windows.query(lambda q: q.chop(5)).to_rows()
        [Row(start=5, end=10, n=1), Row(start=10, end=15, n=1)]
        """
        return type(self)(self._plan.chop(period, offset, zone))

    def point_at_end(self) -> Self:
        """
        Turn every row into a point, of one tick, at the end of its lifetime.

        Returns
        -------
        Stream
            Rows whose end is never known are left out.

        Raises
        ------
        InvalidError
            If the stream has no time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([(3, 9, "a")], schema=["dep", "arr", "plane"], time="dep", end="arr")
        >>> flights.query(lambda q: q.point_at_end().select("plane")).to_rows()
        [Row(start=9, end=10, plane='a')]
        """
        return type(self)(self._plan.point_at_end())

    def extend(self, by: Duration) -> Self:
        """
        Let every row live longer, or shorter (Trill's `ExtendLifetime`).

        Parameters
        ----------
        by
            How much later lifetimes end; negative is earlier. A row whose lifetime would be empty vanishes.

        Returns
        -------
        Stream
            The same rows with lifetimes ``[start, end + by)``. A row that never ends stays so.

        Raises
        ------
        InvalidError
            If the stream has no time, or the duration is not a whole number of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(3, 5, "a"), (4, 9, "b")]
        >>> trips = wb.from_rows(rows, schema=["from", "to", "item"], time="from", end="to")
        >>> trips.query(lambda q: q.extend(2).select("item")).to_rows()
        [Row(start=3, end=7, item='a'), Row(start=4, end=11, item='b')]
        >>> trips.query(lambda q: q.extend(-2).select("item")).to_rows()
        [Row(start=4, end=7, item='b')]
        """
        return type(self)(self._plan.extend(by))

    def stitch(self) -> Self:
        """
        Put lifetimes of equal rows together that touch: the inverse of `chop` (Trill's `Stitch`).

        What is alive at an instant stays the same. Rows are equal if all of their columns are; on several
        shards, equal rows are put together where they lie in one shard.

        Returns
        -------
        Stream
            The same relation, with a row for each time that a value stays.

        Raises
        ------
        InvalidError
            If the stream has no time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(0, 5, "on"), (5, 9, "on"), (9, 12, "off"), (14, 15, "off")]
        >>> states = wb.from_rows(rows, schema=["from", "to", "state"], time="from", end="to")
        >>> states.query(lambda q: q.select("state").stitch()).to_rows()
        [Row(start=0, end=9, state='on'), Row(start=9, end=12, state='off'), Row(start=14, end=15,
        state='off')]
        """
        return type(self)(self._plan.stitch())

    def fill_gaps(
        self,
        period: Duration,
        *,
        values: Mapping[str, Any] | None = None,
        previous: Sequence[str] = (),
        linear: Sequence[str] = (),
        offset: Duration = 0,
        max_gap: Duration | None = None,
    ) -> Self:
        """
        Make rows where a key has none: zeros for empty windows, the last value, or a value between two.

        A gap of a key begins where one of its rows ends, and ends where the next starts. Each cell of the
        grid in it gets a row that lives as long as the cell. Before its first row a key has no gap.

        Parameters
        ----------
        period
            The length of a cell; that of the windows before it, for example.
        values
            What columns have in a gap, by their names.
        previous
            Columns that have the value of the key's previous row.
        linear
            Columns of numbers that have a value on the line from the previous row to the next. What comes
            later waits until that is there.
        offset
            Where the grid lies.
        max_gap
            After how long without a row a key is forgotten. By default it is not, and its gap is filled as
            far as time has come.

        Returns
        -------
        Stream
            The rows, and those of the gaps. A column that is not named is null there.

        Raises
        ------
        InvalidError
            If the stream has no time, a duration is not a positive whole number of ticks, or a value does not
            fit its column.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(3, "a"), (4, "a"), (35, "a"), (12, "b")]
        >>> clicks = wb.from_rows(sorted(rows), schema=["time", "item"], time="time").rekey("item")
        >>> counts = clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
        >>> filled = counts.query(lambda q: q.fill_gaps(10, values={"n": 0}, max_gap=20))
        >>> [(row.start, row.n) for row in filled.to_rows() if row.item == "a"]
        [(10, 2), (20, 0), (30, 0), (40, 1), (50, 0), (60, 0)]
        """
        constants = [(name, to_native(value)) for name, value in (values or {}).items()]
        filled = self._plan.fill_gaps(period, offset, max_gap, constants, list(previous), list(linear))
        return type(self)(filled)


def _start_rule(start: Any) -> tuple[str, Any]:
    if start is None:
        return ("keep", None)
    if is_function(start):
        return ("by", _of_instants(start, ["start"]))
    return ("shift", start)


def _duration_rule(duration: Any) -> tuple[str, Any]:
    if duration is None:
        return ("keep", None)
    if isinstance(duration, float) and math.isinf(duration) and duration > 0:
        return ("infinite", None)
    if not callable(duration):
        return ("constant", duration)
    if takes_two(duration):
        return ("by_lifetime", _of_instants(duration, ["start", "end"]))
    return ("by_start", _of_instants(duration, ["start"]))


def _of_instants(function: Any, names: list[str]) -> native.Expr:
    """Make the expression of a function of instants, in ticks."""
    schema = native.Schema.of([(name, "int64") for name in names])
    args = [native.Expr.column(name, schema) for name in names]
    if not isinstance(function, Udf):
        try:
            return to_native(trace(function, None, *(Expr(arg) for arg in args)))
        except Untraceable as reason:
            warn_untraced(function, reason)
    inner = python_function(function)
    return native.black_box(inner, args, "int64", label(inner))
