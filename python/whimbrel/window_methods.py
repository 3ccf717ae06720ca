"""Windows of a stream: tumbling, hopping and sliding ones, sessions, and lifetimes on a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._types import Duration
from .errors import InvalidError
from .plan_builder import PlanBuilder

if TYPE_CHECKING:
    from typing_extensions import Self

Closed = Literal["left", "right"]


class WindowMethods(PlanBuilder):
    """The methods of `Stream` that give each row the lifetime of its window."""

    __slots__ = ()

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
