"""What `sql` gives: a query, and all the ways to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from . import feeds
from .sharded import ShardedStream


@dataclass(frozen=True)
class Candidate:
    """
    A way to run a query in shards. All of them have the same answer.

    Attributes
    ----------
    strategy
        What is done where there is a choice: the cheapest (``"by cost"``), or one strategy for aggregates
        (Quill, Fig. 1) and one for joins (Fig. 4) wherever it can be followed.
    stream
        The plan; it can be run, printed and changed.
    rows
        How many rows are expected.
    bytes_moved
        How many bytes are expected to move between shards.
    cost
        What it is expected to take: nanoseconds of the busiest core, roughly; for comparison only.
    chosen
        Whether it is the one that the query runs.
    """

    strategy: str
    stream: ShardedStream
    rows: float
    bytes_moved: float
    cost: float
    chosen: bool

    def __str__(self) -> str:
        mark = "*" if self.chosen else " "
        return (
            f"{mark} cost {self.cost:>12.0f}, moves {self.bytes_moved:>14.0f} bytes, "
            f"gives {self.rows:>10.0f} rows: {self.strategy}"
        )


class Query(ShardedStream):
    """A query in SQL: a sharded stream that knows in which other ways it could be run."""

    __slots__ = ("_ways",)

    def __init__(self, plan: native.Plan, ways: Callable[[], list[Any]]) -> None:
        super().__init__(plan)
        self._ways = ways

    def candidates(self) -> list[Candidate]:
        """
        List the ways to run this query in its shards, with what each is expected to cost.

        Returns
        -------
        list of Candidate
            The one that is chosen first. With one shard, or few rows, there is only one.

        Examples
        --------
        >>> import whimbrel as wb
        >>> query = wb.sql("select n, count(*) as times from t group by n", t=[{"n": 1}, {"n": 1}])
        >>> [(way.strategy, way.chosen) for way in query.candidates()]
        [('by cost', True)]
        """
        return [
            Candidate(strategy, ShardedStream(plan), *numbers) for strategy, plan, *numbers in self._ways()
        ]

    def explain(self, *, analyze: bool = False, **options: Any) -> str:
        """
        Draw the stages of the plan, from the result down, with what is expected of each operator.

        Parameters
        ----------
        analyze
            Run the query, and show what its operators did beside that. Estimates that were more than ten
            times too high or too low are marked.
        **options
            As in `collect`, for the run.

        Returns
        -------
        str
            A line for each operator, movement and source, inputs indented below.

        Examples
        --------
        >>> import whimbrel as wb
        >>> print(wb.sql("select n from t where n > 1", t=[{"n": 1}, {"n": 2}]).explain())
        where memory.n > 1     | 1 shard, about 1 rows, 8 bytes
          read memory, 2 rows  | 1 shard, about 2 rows, 16 bytes
        <BLANKLINE>
        """
        if analyze:
            with feeds.running(self._plan) as poll:
                return native.analyze(self._plan, self._options(**options), poll)
        return native.expected(self._plan)
