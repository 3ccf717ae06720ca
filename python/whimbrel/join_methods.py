"""What a stream does with other streams: unite and join them, and keep or end rows by those of another.

It relies on `projection` for the columns of keys, and on `tracing` for conditions of two rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from . import _whimbrel as native
from ._types import Duration, Key
from .errors import InvalidError
from .expressions import Untraceable
from .operands import to_native
from .plan_builder import PlanBuilder
from .projection import key_columns
from .tracing import SideTracer, label, trace

if TYPE_CHECKING:
    from typing_extensions import Self

How = Literal["inner", "left", "right", "full", "cross", "semi", "anti", "mark"]


class JoinMethods(PlanBuilder):
    """The methods of `Stream` over two streams and more."""

    __slots__ = ()

    def union(self, *others: Self) -> Self:
        """
        Unite streams: each snapshot has the rows of all of them.

        Parameters
        ----------
        *others
            Streams of the same columns.

        Returns
        -------
        Stream
            All rows, in order of time; among rows of the same time, those of this stream come first.

        Raises
        ------
        InvalidError
            If the columns differ.

        Examples
        --------
        >>> import whimbrel as wb
        >>> a, b = wb.from_rows([{"item": "a"}]), wb.from_rows([{"item": "b"}])
        >>> a.query(b, lambda l, r: l.union(r)).to_rows()
        [Row(item='a'), Row(item='b')]
        """
        plan = self._plan
        for other in others:
            plan = plan.union(_plan_of(other))
        return type(self)(plan)

    def join(
        self,
        other: Self,
        on: Key | None = None,
        *,
        left_on: Key | None = None,
        right_on: Key | None = None,
        how: How = "inner",
        suffix: str = "_right",
        where: Callable[[Any, Any], Any] | None = None,
        nulls_equal: bool = False,
        null_aware: bool = False,
        colocated: bool = False,
    ) -> Self:
        """
        Join every snapshot with that of another stream.

        Parameters
        ----------
        other
            The right side.
        on, left_on, right_on
            What has to be equal, on both sides or on each: names of columns or lambdas of the row. By default
            the current key, if both sides have one.
        how
            ``"inner"``; ``"left"``, ``"right"`` or ``"full"``, where what has no partner gets nulls for as
            long; ``"cross"``, every row with every row; ``"semi"`` and ``"anti"``, the left rows with and
            without a partner; ``"mark"``, all left rows, and in the column ``mark`` whether they have one.
        suffix
            Put after the names of right columns that the left side has too. The right side's keys of the same
            name are left out.
        where
            A further condition of partners: a lambda of the left and the right row.
        nulls_equal
            Whether a null equals a null.
        null_aware
            With ``how="anti"``, as SQL's ``not in``: a null on the right side leaves no row.
        colocated
            Whether to require that rows that match are in one shard, so that the result is the join of all
            shards. They are if both sides are redistributed by the join's key, in the same order and into as
            many shards. They are too if one side is broadcast, and the join keeps no row of that side that
            has no partner.

        Returns
        -------
        Stream
            The columns of the left side, then those of the right. A row lives while both its rows do.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key; if `colocated` is required and
            the plan does not ensure it.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows(
        ...     [(1, 4, "a"), (2, 9, "b")], schema=["from", "to", "item"], time="from", end="to"
        ... )
        >>> prices = wb.from_rows(
        ...     [(0, 3, "a", 7), (3, 9, "a", 8)], schema=["s", "e", "item", "price"], time="s", end="e"
        ... )
        >>> both = clicks.query(prices, lambda l, r: l.join(r, on="item").select("item", "price"))
        >>> both.to_rows()
        [Row(start=1, end=3, item='a', price=7), Row(start=3, end=4, item='a', price=8)]
        >>> bids = wb.from_rows([{"item": "a", "bid": 5}, {"item": "b", "bid": 9}])
        >>> asks = wb.from_rows([{"item": "a", "ask": 4}, {"item": "b", "ask": 12}])
        >>> bids.query(
        ...     asks, lambda l, r: l.join(r, on="item", how="left", where=lambda b, a: b.bid >= a.ask)
        ... ).to_rows()
        [Row(item='a', bid=5, ask=4), Row(item='b', bid=9, ask=None)]
        """
        if how == "cross" and not (on is left_on is right_on is None):
            raise InvalidError('a cross join has no key; leave out on=, or how="cross"')
        pairs = key_pairs(self, other, on, left_on, right_on)
        condition = None if where is None else _join_condition(where, self._plan, other._plan)
        plan = self._plan.join(other._plan, pairs, how, suffix, condition, nulls_equal, null_aware, colocated)
        return type(self)(plan)

    def where_exists(
        self, other: Self, on: Key | None = None, *, left_on: Key | None = None, right_on: Key | None = None
    ) -> Self:
        """
        Keep rows while a row of equal key is alive in another stream.

        Parameters
        ----------
        other
            The other stream.
        on, left_on, right_on
            What has to be equal, as in `join`.

        Returns
        -------
        Stream
            The same columns; lifetimes are cut to when there is a partner.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([(0, 9, "x")], schema=["dep", "arr", "plane"], time="dep", end="arr")
        >>> storms = wb.from_rows([(3, 5, "x")], schema=["from", "to", "plane"], time="from", end="to")
        >>> flights.query(storms, lambda f, s: f.where_exists(s, on="plane").select("plane")).to_rows()
        [Row(start=3, end=5, plane='x')]
        """
        pairs = key_pairs(self, other, on, left_on, right_on)
        return type(self)(self._plan.where_exists(other._plan, pairs))

    def where_not_exists(
        self, other: Self, on: Key | None = None, *, left_on: Key | None = None, right_on: Key | None = None
    ) -> Self:
        """
        Keep rows while no row of equal key is alive in another stream.

        Parameters
        ----------
        other, on, left_on, right_on
            As in `where_exists`.

        Returns
        -------
        Stream
            The same columns; from lifetimes the time with a partner is taken away.

        Raises
        ------
        InvalidError
            If a column does not exist, key types differ, or there is no key.

        Examples
        --------
        >>> import whimbrel as wb
        >>> flights = wb.from_rows([(0, 9, "x")], schema=["dep", "arr", "plane"], time="dep", end="arr")
        >>> storms = wb.from_rows([(3, 5, "x")], schema=["from", "to", "plane"], time="from", end="to")
        >>> flights.query(storms, lambda f, s: f.where_not_exists(s, on="plane").select("plane")).to_rows()
        [Row(start=0, end=3, plane='x'), Row(start=5, end=9, plane='x')]
        """
        pairs = key_pairs(self, other, on, left_on, right_on)
        return type(self)(self._plan.where_not_exists(other._plan, pairs))

    def clip(
        self,
        by: Self | Duration,
        *,
        on: Key | None = None,
        left_on: Key | None = None,
        right_on: Key | None = None,
    ) -> Self:
        """
        End lifetimes early: at a limit, or when something happens.

        Parameters
        ----------
        by
            The longest that a row may live (`Duration`), or a stream: a row ends with the first start of a
            row of that stream, of equal key, that is later than its own.
        on, left_on, right_on
            What has to be equal in both streams; by default the current key.

        Returns
        -------
        Stream
            The same rows with lifetimes that are no longer than before.

        Raises
        ------
        InvalidError
            If a stream has no time, the limit is not a positive whole number of ticks, or keys do not fit.

        Examples
        --------
        >>> import whimbrel as wb
        >>> moods = wb.from_rows([(0, "glad"), (5, "sad"), (7, "glad")], schema=["time", "mood"], time="time")
        >>> def until_next(q):
        ...     forever = q.alter_duration(float("inf"))
        ...     return forever.clip(forever).select("mood")
        >>> moods.query(until_next).to_rows()
        [Row(start=0, end=5, mood='glad'), Row(start=5, end=7, mood='sad'), Row(start=7, end=None,
        mood='glad')]
        """
        if not isinstance(by, JoinMethods):
            return type(self)(self._plan.clip_constant(by))
        pairs = key_pairs(self, by, on, left_on, right_on)
        return type(self)(self._plan.clip(by._plan, pairs))


def key_pairs(
    left: JoinMethods, right: JoinMethods, on: Key | None, left_on: Key | None, right_on: Key | None
) -> list[tuple[native.Expr, native.Expr]]:
    """Pair the keys of two streams; an empty list stands for their current keys."""
    _plan_of(right)
    if on is not None and (left_on is not None or right_on is not None):
        raise InvalidError("give either on=, or left_on= and right_on=")
    if (left_on is None) != (right_on is None):
        raise InvalidError("left_on= and right_on= go together")
    if on is None and left_on is None:
        return []
    left_keys = key_columns(left._plan.schema(), left_on if on is None else on)
    right_keys = key_columns(right._plan.schema(), right_on if on is None else on)
    if len(left_keys) != len(right_keys):
        raise InvalidError(f"the left side has {len(left_keys)} keys, the right side {len(right_keys)}")
    return list(zip(left_keys, right_keys, strict=True))


def _plan_of(other: Any) -> native.Plan:
    # Only a `Stream` has these methods; a sharded stream has a plan, too.
    if isinstance(other, JoinMethods):
        return other._plan
    raise InvalidError(
        f"a stream is wanted here, not {type(other).__name__}; to combine two sharded streams, "
        "use left.query(right, lambda l, r: …)"
    )


def _join_condition(
    condition: Callable[[Any, Any], Any], left: native.Plan, right: native.Plan
) -> native.Expr:
    """Make the expression of a condition of two rows."""
    plans = (left, right)
    rows = SideTracer("left", left.schema(), plans), SideTracer("right", right.schema(), plans)
    try:
        return to_native(trace(lambda row, other: condition(row, other), rows[0], rows[1]))
    except Untraceable as reason:
        raise InvalidError(
            f"the {label(condition)} has to be an expression of two rows: {reason.what}; {reason.instead}"
        ) from reason
