"""The result of `sql`: a query, and its candidate plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _whimbrel as native
from . import feeds
from .function_client import Functions
from .function_plans import Choice
from .remote import RemoteRuntime
from .sharded import ShardedStream


@dataclass(frozen=True)
class Candidate:
    """
    A plan of a query in shards. All candidates of a query have the same result.

    Attributes
    ----------
    strategy
        How the planner chooses: the cheapest operators (``"by cost"``), or one strategy for all aggregates
        (Quill, Fig. 1) and one for all joins (Fig. 4), or one for all sorts, where it applies.
    stream
        The plan.
    rows
        The estimated number of rows of the result.
    bytes_moved
        The estimated number of bytes that move between shards.
    cost
        The estimated cost, in nanoseconds of the busiest core; for comparison only.
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
    """A query in SQL: a sharded stream that has candidate plans."""

    __slots__ = ("_choices", "_choices_text", "_list_candidates", "_on")

    def __init__(self, plan: native.Plan, list_candidates: Callable[[], list[Any]]) -> None:
        super().__init__(plan)
        self._list_candidates = list_candidates
        self._on: RemoteRuntime | None = None
        self._choices: list[Choice] = []
        self._choices_text = ""

    def __reduce__(self) -> tuple[Any, ...]:
        # The candidates stay with the session that planned the query.
        return ShardedStream(self._plan).__reduce__()

    @property
    def choices(self) -> list[Choice]:
        """The plans that functions have compared for this query; empty elsewhere."""
        return list(self._choices)

    def candidates(self) -> list[Candidate]:
        """
        List the candidate plans of this query, with the estimated cost of each.

        Returns
        -------
        list of Candidate
            The chosen one first. With one shard, or few rows, there is only one.

        Examples
        --------
        >>> import whimbrel as wb
        >>> query = wb.sql("select n, count(*) as times from t group by n", t=[{"n": 1}, {"n": 1}])
        >>> [(candidate.strategy, candidate.chosen) for candidate in query.candidates()]
        [('by cost', True)]
        """
        candidates = self._list_candidates()
        return [Candidate(strategy, ShardedStream(plan), *numbers) for strategy, plan, *numbers in candidates]

    def explain(self, *, analyze: bool = False, **options: Any) -> str:
        """
        Draw the stages of the plan, from the result down, with the estimates of each operator.

        Parameters
        ----------
        analyze
            Run the query, and show the actual numbers next to the estimates. Estimates that were more than
            ten times too high or too low are marked.
        **options
            As in `collect`, for the run.

        Returns
        -------
        str
            A line for each operator, movement and source, inputs indented below. On functions, also what each
            stage is expected to take, what all of it costs, and the numbers of shards to choose from.

        Examples
        --------
        >>> import whimbrel as wb
        >>> print(wb.sql("select n from t where n > 1", t=[{"n": 1}, {"n": 2}]).explain())
        where memory.n > 1     | 1 shard, about 1 rows, 8 bytes
          read memory, 2 rows  | 1 shard, about 2 rows, 16 bytes
        <BLANKLINE>
        """
        run = self._options(**options)
        if not analyze:
            return native.expected(self._plan) + run.forecast(self._plan) + self._choices_text
        with feeds.running(self._plan) as poll:
            if not isinstance(self._remote(options.get("on")), Functions):
                return native.analyze(self._plan, run, poll)
            native.collect(self._plan, run, poll)
        return native.expected(self._plan) + run.forecast(self._plan) + self._choices_text
