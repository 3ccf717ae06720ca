"""Methods by which the author of a query asserts what no plan shows; each is checked while the query runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._types import Duration
from .errors import InvalidError
from .plan_builder import PlanBuilder

if TYPE_CHECKING:
    from typing_extensions import Self


class RequirementMethods(PlanBuilder):
    """The methods of `Stream` that change no row: what is asserted chooses the variants of what follows."""

    __slots__ = ()

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

    def require_sorted(self, *columns: str) -> Self:
        """
        Assert that rows come in the order of some columns (Trill's ``IsSnapshotSorted``).

        Ids that grow with time are such columns, and so is what a file is sorted by. If both sides of an
        inner join come in the order of its key, it keeps the rows of one key only, however long rows live;
        `ShardedStream.reshard` can keep equal rows ``together`` without copying them.

        Parameters
        ----------
        *columns
            Names of columns. Rows come in the ascending order of the first, and where it is equal, of the
            second, and so on: nulls last, at one instant and over time, in every shard by itself.

        Returns
        -------
        Stream
            The same rows. The query ends with a `DataError` at a row that is less than the one before it.

        Raises
        ------
        InvalidError
            If the stream has no time, or a column is not there.

        Examples
        --------
        >>> import whimbrel as wb
        >>> orders = wb.from_rows([(1, 7), (4, 8)], schema=["at", "id"], time="at")
        >>> bills = wb.from_rows([(2, 7, 30), (6, 8, 20)], schema=["at", "order", "sum"], time="at")
        >>> def paid(orders, bills):
        ...     forever = lambda q, column: q.require_sorted(column).alter_duration(float("inf"))
        ...     return (
        ...         forever(orders, "id")
        ...         .join(forever(bills, "order"), left_on="id", right_on="order")
        ...         .select("id", "sum")
        ...     )
        >>> orders.query(bills, paid).to_rows()
        [Row(start=2, end=None, id=7, sum=30), Row(start=6, end=None, id=8, sum=20)]
        """
        return type(self)(self._plan.require_sorted(list(columns)))

    def require_distinct_starts(self) -> Self:
        """
        Assert that no two rows start at one instant (Trill's ``IsSyncTimeSimultaneityFree``).

        What follows from a row then comes as soon as the row has come: nothing waits for the next row, or a
        clock, to say that its instant is over.

        Returns
        -------
        Stream
            The same rows. The query ends with a `DataError` at a row that starts together with another of its
            shard.

        Raises
        ------
        InvalidError
            If the stream has no time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> ticks = wb.from_rows([(1, 10), (4, 20)], schema=["at", "price"], time="at")
        >>> ticks.query(lambda q: q.require_distinct_starts().sliding(5).aggregate(n=wb.count())).to_rows()
        [Row(start=2, end=5, n=1), Row(start=5, end=7, n=2), Row(start=7, end=10, n=1)]
        """
        return type(self)(self._plan.require_distinct_starts())
