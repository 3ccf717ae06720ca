"""What a stream does to lifetimes: windows, sessions, and rules of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _whimbrel as native
from ._types import Duration
from .errors import InvalidError
from .expressions import Expr, Untraceable
from .operands import to_native
from .plan_builder import PlanBuilder
from .projection import is_function
from .tracing import Udf, label, python_function, takes_two, trace, warn_untraced

if TYPE_CHECKING:
    from typing_extensions import Self

Closed = Literal["left", "right"]


class LifetimeMethods(PlanBuilder):
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

    def tumbling(
        self,
        size: Duration,
        *,
        offset: Duration = 0,
        closed: Closed = "left",
        zone: str | None = None,
    ) -> Self:
        """
        Put every row into the one window of length `size` that it belongs to.

        ``hopping(size, hop=size)``: windows neither overlap nor leave gaps.

        Parameters
        ----------
        size
            Length of a window; positive. ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"`` and ``"1y"``, and several of
            one, are those of the calendar: a day is as long as it is in the zone, weeks begin on Mondays.
            ``"24h"`` and a `timedelta` are as long always.
        offset
            Shift of the windows' ends from time 0 (for timestamps, 1970-01-01 UTC), or from midnight.
        closed
            ``"left"``: windows ``[T - size, T)``, as in SQL. ``"right"``: windows ``(T - size, T]``, as in
            Trill.
        zone
            The time zone of days and months, ``"America/New_York"``. By default that of the stream's time.

        Returns
        -------
        Stream
            The same rows with lifetimes ``[T, T + size)``, where `T` is the end of the window: an aggregate
            of them is known when the window is complete. Those in a window of the calendar live until the
            next one ends.

        Raises
        ------
        InvalidError
            If the stream has no time, `size` is not a positive whole number of ticks, or there is no such
            zone.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3,), (9,), (10,)], schema=["time"], time="time")
        >>> clicks.query(lambda q: q.tumbling(10).aggregate(n=wb.count())).to_rows()
        [Row(start=10, end=20, n=2), Row(start=20, end=30, n=1)]

        Days in New York, of which one has 23 hours:

        >>> from datetime import datetime, timezone
        >>> utc = lambda day, hour: datetime(2024, 3, day, hour, tzinfo=timezone.utc)
        >>> visits = wb.from_rows([(utc(10, 4),), (utc(10, 5),), (utc(11, 3),)], schema=["at"], time="at")
        >>> days = visits.query(lambda q: q.tumbling("1d", zone="America/New_York").aggregate(n=wb.count()))
        >>> for row in days.to_rows():
        ...     print(f"{row.start:%d %H:%M} {row.n}")
        10 05:00 1
        11 04:00 2
        """
        return type(self)(self._plan.tumbling(size, offset, closed, zone))

    def hopping(
        self,
        size: Duration,
        hop: Duration,
        *,
        offset: Duration = 0,
        closed: Closed = "left",
        zone: str | None = None,
        snapped: bool = False,
    ) -> Self:
        """
        Put every row into all windows of length `size`, one every `hop`, that it belongs to.

        Parameters
        ----------
        size
            Length of a window; positive. If `hop` is days or months of the calendar, so many of them.
        hop
            Distance between windows; positive. Days and months are those of the calendar, as in `tumbling`.
            If it is longer than `size`, rows between two windows are in none, and vanish.
        offset, closed, zone
            As in `tumbling`.
        snapped
            Whether lifetimes end where windows end, too, as in Trill: an aggregate then changes there only,
            also if `size` is no multiple of `hop`. Not with a hop of the calendar.

        Returns
        -------
        Stream
            The same rows, once each, with lifetimes ``[T, T + size)``, where `T` is the end of the first
            window that the row belongs to. An aggregate alive at an instant is that of the `size` before.
            If `hop` is longer than `size`, lifetimes are ``[T, T + hop)``: the last window lasts until the
            next one ends.

        Raises
        ------
        InvalidError
            If the stream has no time, `size` or `hop` is not a positive whole number of ticks, `size` is no
            multiple of a `hop` of the calendar, or there is no such zone.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3,), (9,), (10,)], schema=["time"], time="time")
        >>> clicks.query(lambda q: q.hopping(20, hop=10).aggregate(n=wb.count())).to_rows()
        [Row(start=10, end=20, n=2), Row(start=20, end=30, n=3), Row(start=30, end=40, n=1)]
        """
        if snapped:
            if zone is not None:
                raise InvalidError("snapped= is for hops of a fixed length, which have no zone=")
            return type(self)(self._plan.hopping_snapped(size, hop, offset, closed))
        return type(self)(self._plan.hopping(size, hop, offset, closed, zone))

    def sliding(self, size: Duration, *, closed: Closed = "left") -> Self:
        """
        Let every row live for `size` from its start: a window that moves with every event.

        Parameters
        ----------
        size
            Length of the window; positive.
        closed
            ``"right"``: a row at `t` lives in ``[t, t + size)``, so that at the instant of an event the
            window ``(t - size, t]`` includes it. ``"left"``: from the tick after `t`, so that the window is
            ``[t - size, t)``.

        Returns
        -------
        Stream
            The same rows with new lifetimes.

        Raises
        ------
        InvalidError
            If the stream has no time, or `size` is not a positive whole number of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3,), (9,)], schema=["time"], time="time")
        >>> clicks.query(lambda q: q.sliding(10, closed="right").aggregate(n=wb.count())).to_rows()
        [Row(start=3, end=9, n=1), Row(start=9, end=13, n=2), Row(start=13, end=19, n=1)]
        """
        return type(self)(self._plan.sliding(size, closed))

    def session(
        self,
        timeout: Duration,
        *,
        max_duration: Duration | None = None,
        cap: Literal["first", "grid"] = "first",
        start: str | None = None,
    ) -> Self:
        """
        Let every row live until the end of its session: the last event before a pause, and the pause.

        Sessions are kept per key (of `ShardedStream.rekey` or `group_apply`). With `start`, sessions are
        windows: a row comes when its session has ended. Without it, a row comes at once, and an aggregate
        changes with each of them.

        Parameters
        ----------
        timeout
            The pause that ends a session; positive.
        max_duration
            A session ends at the latest so long after its first event, and the next event begins another. By
            default there is no such limit.
        cap
            ``"grid"``: a session ends at the latest at the first multiple of `max_duration` that is so long
            after its first event, or longer. So it lasts less than twice as long, and long sessions of all
            keys end at the same instants. It is the rule of Trill's `SessionTimeoutWindow`.
        start
            The name of a new last column with the first instant of the session. Rows are points at the end
            of their session then.

        Returns
        -------
        Stream
            The same rows with lifetimes ``[start, end of session)``; with `start`, ``[end of session, a tick
            later)``.

        Raises
        ------
        InvalidError
            If the stream has no time, a duration is not a positive whole number of ticks, `cap` is another
            word, or there is a column named `start` already.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3,), (5,), (20,)], schema=["time"], time="time")
        >>> clicks.query(lambda q: q.session(10).aggregate(n=wb.count()).point_at_end()).to_rows()
        [Row(start=5, end=6, n=1), Row(start=15, end=16, n=2), Row(start=30, end=31, n=1)]
        >>> n_and_first = {"n": wb.count(), "first": wb.min(lambda e: e.first)}
        >>> clicks.query(lambda q: q.session(10, start="first").aggregate(**n_and_first)).to_rows()
        [Row(start=15, end=16, n=2, first=3), Row(start=30, end=31, n=1, first=20)]
        """
        return type(self)(self._plan.session(timeout, max_duration, cap, start))

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

    def require_duration(self, duration: Duration | float) -> Self:
        """
        Assert that every row lives equally long (Trill's ``IsConstantDuration``).

        Of rows with a start and an end, it is not known that all of them are an hour long. If it is, windows
        and joins after it need no order of ends.

        Parameters
        ----------
        duration
            How long every row lives; ``math.inf``: it never ends.

        Returns
        -------
        Stream
            The same rows. The query ends with a `DataError` at a row of another duration.

        Raises
        ------
        InvalidError
            If the stream has no time, or the duration is not a positive whole number of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(3, 5, "a"), (4, 6, "b")]
        >>> trips = wb.from_rows(rows, schema=["from", "to", "item"], time="from", end="to")
        >>> trips.query(lambda q: q.require_duration(2).aggregate(n=wb.count())).to_rows()
        [Row(start=3, end=4, n=1), Row(start=4, end=5, n=2), Row(start=5, end=6, n=1)]
        """
        if duration == math.inf:
            return type(self)(self._plan.require_duration(None))
        if duration is None or isinstance(duration, float):
            raise InvalidError("require_duration: a duration is a number of ticks, a text, or math.inf")
        return type(self)(self._plan.require_duration(duration))

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

    def quantize(
        self,
        size: Duration,
        period: Duration | None = None,
        *,
        progress: Duration | None = None,
        offset: Duration = 0,
    ) -> Self:
        """
        Snap lifetimes to a grid, from the start of their window on (Trill's `QuantizeLifetime`).

        A row is alive from the beginning of the period that it starts in, so that a result stands at the
        start of its window and not, as after `tumbling`, at its end.

        Parameters
        ----------
        size
            The least length of a lifetime; at least `period`.
        period
            The distance of the instants at which lifetimes start and end; by default `size`.
        progress
            Start at multiples of this instead, a part of the period: then results come while a window is
            still open, and grow (progressive windows).
        offset
            Where the grid lies.

        Returns
        -------
        Stream
            The same rows with lifetimes that start and end on the grid.

        Raises
        ------
        InvalidError
            If the stream has no time, a duration is not a positive whole number of ticks, `size` is shorter
            than `period`, or `progress` does not divide it.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(3,), (9,), (10,)], schema=["time"], time="time")
        >>> clicks.query(lambda q: q.quantize(10).aggregate(n=wb.count())).to_rows()
        [Row(start=0, end=10, n=2), Row(start=10, end=20, n=1)]
        >>> clicks.query(lambda q: q.quantize(10, progress=5).aggregate(n=wb.count())).to_rows()
        [Row(start=0, end=5, n=1), Row(start=5, end=10, n=2), Row(start=10, end=20, n=1)]
        """
        return type(self)(self._plan.quantize(size, size if period is None else period, progress, offset))

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
