"""What a stream does with sequences of events: patterns, pairs of events, and sessions between two events.

It relies on `patterns` for what is looked for, and on the methods of rows, lifetimes and joins, of which
sessions are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import patterns
from ._types import Duration, Key, RowFunction
from .expressions import Expr
from .join_methods import JoinMethods, key_pairs
from .lifetime_methods import LifetimeMethods
from .patterns import Pattern
from .row_methods import RowMethods
from .user_operators import native_operator

if TYPE_CHECKING:
    from typing_extensions import Self


class SequenceMethods(RowMethods, LifetimeMethods, JoinMethods):
    """The methods of `Stream` that look at which event follows which, per key."""

    __slots__ = ()

    def detect(
        self,
        pattern: Pattern,
        *,
        within: Duration,
        register: Mapping[str, Any] | None = None,
        overlap: bool = True,
        simultaneous: Literal["ordered", "kill", "absent"] = "ordered",
    ) -> Self:
        """
        Find sequences of events, per key: a regular expression over them, or an automaton (Trill's `Detect`).

        An instance of the pattern begins with every event. Each event of the key has to be the next one of
        the instance, or the instance is over; so it is after `within`.

        Parameters
        ----------
        pattern
            What is looked for, made with `event`.
        within
            How long after its first event an instance is given up.
        register
            What an instance remembers: fields with the values that they have before its first event, which
            the parts of the pattern read and change. A null has no type: write ``wb.lit(None, "string")``.
        overlap
            Whether an instance begins while another one of the key is alive.
        simultaneous
            What events of one key and instant mean. ``"ordered"``: they follow one another in the order of
            their values; ``"kill"``: they end all instances, as in Trill; ``"absent"``: there are none, so
            that matches come at once.

        Returns
        -------
        Stream
            A row for each match: the key's columns, then the register. It lives from the last event of the
            match until `within` after the first.

        Raises
        ------
        InvalidError
            If the stream has no time, an expression does not fit, or a field of the register has no type.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "u", 5), (2, "v", 3), (3, "u", 7), (4, "u", 9), (5, "v", 2)]
        >>> log = wb.from_rows(rows, schema=["at", "user", "price"], time="at")
        >>> rise = wb.event(last=lambda e: e.price).then(
        ...     wb.event(
        ...         lambda e, seen: e.price > seen.last, last=lambda e: e.price, n=lambda e, seen: seen.n + 1
        ...     )
        ... )
        >>> found = log.rekey("user").query(lambda q: q.detect(rise, within=10, register={"last": 0, "n": 1}))
        >>> found.to_rows()
        [Row(start=3, end=11, user='u', last=7, n=2), Row(start=4, end=13, user='u', last=9, n=2)]
        """
        resolved, fields = patterns.resolve(pattern, self._plan, register or {})
        return type(self)(self._plan.detect(resolved, fields, within, overlap, simultaneous))

    def process(
        self, operator: Callable[[], Any], *, returns: Mapping[str, Any], name: str | None = None
    ) -> Self:
        """
        Run an operator of your own over the rows, batch by batch, with a state.

        `operator` is called once, in each shard, and makes an object. Its method ``process(rows)`` is called
        with the next rows, a `pyarrow.RecordBatch` in the order of their starts. It returns columns, a dict
        or a table: as many rows as it was given, one made of each; or a pair of columns and of places, which
        say of which of the rows each is made, in ascending order. Python's lock is taken once a batch.

        Parameters
        ----------
        operator
            A class, or another function that makes an object with a method ``process(rows)``.
        returns
            The columns that it makes, and their types as in `Expr.cast`.
        name
            Its name in plans and messages; by default that of the class.

        Returns
        -------
        Stream
            The columns of the current key, and those that were made. A row has the lifetime of the row that
            it is made of.

        Raises
        ------
        InvalidError
            If the stream has no time, its rows do not carry their ends, or a type is unknown.

        Notes
        -----
        How rows are cut into batches is not determined: what is made of a row may depend on the rows before
        it, and on nothing else. Rows of one instant have no order. Where results are to be the same in any
        number of shards, the object keeps a state for each key, and the rows of a key are in one shard.
        The object is pickled where a query is checkpointed. What it raises comes out as the cause of a
        `DataError`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> class Smooth:
        ...     def __init__(self):
        ...         self.last = {}
        ...
        ...     def process(self, rows):
        ...         smooth = []
        ...         for sensor, value in zip(rows["sensor"].to_pylist(), rows["value"].to_pylist()):
        ...             self.last[sensor] = (self.last.get(sensor, value) + value) / 2
        ...             smooth.append(self.last[sensor])
        ...         return {"smooth": smooth}
        >>> readings = [(1, "a", 4.0), (2, "b", 1.0), (3, "a", 8.0), (4, "a", 6.0)]
        >>> log = wb.from_rows(readings, schema=["at", "sensor", "value"], time="at").rekey("sensor")
        >>> log.query(lambda q: q.process(Smooth, returns={"smooth": "float64"})).to_rows()
        [Row(start=1, end=2, sensor='a', smooth=4.0), Row(start=2, end=3, sensor='b', smooth=1.0),
         Row(start=3, end=4, sensor='a', smooth=6.0), Row(start=4, end=5, sensor='a', smooth=6.0)]
        """
        return type(self)(self._plan.process(native_operator(operator, returns, name)))

    def followed_by(
        self,
        other: Self,
        on: Key | None = None,
        *,
        left_on: Key | None = None,
        right_on: Key | None = None,
        within: Duration | None = None,
        suffix: str = "_right",
    ) -> Self:
        """
        Pair every event with the first one of another stream that comes later (`FollowedByImmediate`).

        Parameters
        ----------
        other
            The events that follow.
        on, left_on, right_on
            What has to be equal in both events; by default the current key, and without one nothing.
        within
            How much later they may come, at most; by default as late as they like.
        suffix
            Put after the names of columns of `other` that the left side has too.

        Returns
        -------
        Stream
            The columns of both, as a join gives them. A pair is alive for one tick, from the later event on.

        Raises
        ------
        InvalidError
            If a stream has no time, a column does not exist, or the duration is not a positive whole number
            of ticks.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "u", "ad"), (3, "u", "buy"), (4, "v", "ad"), (9, "u", "buy")]
        >>> log = wb.from_rows(rows, schema=["at", "user", "what"], time="at")
        >>> def bought(q):
        ...     ads, buys = q.where(lambda e: e.what == "ad"), q.where(lambda e: e.what == "buy")
        ...     return ads.followed_by(buys, on="user", within=5).select("user", "at", "at_right")
        >>> log.query(bought).to_rows()
        [Row(start=3, end=4, user='u', at=1, at_right=3)]
        """
        pairs = key_pairs(self, other, on, left_on, right_on)
        return type(self)(self._plan.followed_by(other._plan, pairs, within, suffix))

    def consecutive_pairs(
        self, on: Key | None = None, *, within: Duration | None = None, suffix: str = "_next"
    ) -> Self:
        """
        Pair every event with the next one (Trill's `ConsecutivePairs`).

        Parameters
        ----------
        on
            What has to be equal in both events; by default the current key.
        within
            How much later the next one may come, at most.
        suffix
            Put after the names of the columns of the later event.

        Returns
        -------
        Stream
            The columns of the earlier event, then those of the later. A pair is alive for one tick, from the
            later event on. Events of one instant are each paired with each of the next.

        Raises
        ------
        InvalidError
            As `followed_by`.

        Examples
        --------
        >>> import whimbrel as wb
        >>> power = wb.from_rows([(1, 10), (4, 30), (6, 20)], schema=["at", "watt"], time="at")
        >>> steps = power.query(lambda q: q.consecutive_pairs().select(by=lambda e: e.watt_next - e.watt))
        >>> steps.to_rows()
        [Row(start=4, end=5, by=20), Row(start=6, end=7, by=-10)]
        """
        return self.followed_by(self, on, within=within, suffix=suffix)

    def sessions_between(
        self,
        opens: RowFunction | Expr | str,
        closes: RowFunction | Expr | str,
        *,
        on: Key | None = None,
    ) -> Self:
        """
        Keep the events of sessions, each alive until its session ends (Trill's `Sessionize`).

        A session is open from an event that satisfies `opens` until the next one that satisfies `closes`,
        both included.

        Parameters
        ----------
        opens, closes
            What opens a session, and what closes it, as in `where`.
        on
            What has to be equal in the events of a session; by default the current key.

        Returns
        -------
        Stream
            The events within sessions. All of a session are alive at the instant of its last one. Events
            outside of sessions are left out; a session that nobody closes stays open.

        Raises
        ------
        InvalidError
            If the stream has no time, or a column does not exist.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(1, "noise"), (2, "on"), (3, "noise"), (5, "off"), (6, "noise")]
        >>> log = wb.from_rows(rows, schema=["at", "what"], time="at")
        >>> def sizes(q):
        ...     sessions = q.sessions_between(lambda e: e.what == "on", lambda e: e.what == "off")
        ...     return sessions.aggregate(n=wb.count())
        >>> log.query(sizes).to_rows()
        [Row(start=2, end=3, n=1), Row(start=3, end=5, n=2), Row(start=5, end=6, n=3)]
        """
        forever = float("inf")
        closing = self.where(closes)
        # An event is still alive at the instant at which its session ends.
        after_close = closing.alter_lifetime(lambda s: s + 1)
        sessions = self.where(opens).alter_duration(forever).clip(after_close, on=on)
        inside = self.where_exists(sessions, on=on)
        return inside.alter_duration(forever).clip(after_close, on=on)
