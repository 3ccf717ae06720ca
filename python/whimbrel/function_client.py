"""
Functions as a client sees them: their goal, their rates, and the queries that are expected of them.

`functions` makes them, of a function that is deployed or of a service on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _whimbrel as native
from .errors import InvalidError
from .function_bill import Bill, FunctionStage
from .function_plans import FunctionPlan
from .function_rates import Rates, measure
from .remote import RemoteRuntime

if TYPE_CHECKING:
    from .query import Query
    from .sharded import ShardedStream


class Functions(RemoteRuntime):
    """
    Functions and the place of their objects, as a client sees them: the result of `connect`.

    Parameters
    ----------
    settings
        The settings of `connect`, by name.
    """

    # Those that these were made from: a service of one's own ends when nobody has it any more.
    _origins: tuple[Functions, ...] = ()
    # Whether these are two pools, or several sizes.
    _is_compound: bool = False
    # What plans are chosen by, if it is not the knee.
    _goal: native.FunctionGoal | None = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._native = native.Functions(**settings)

    @property
    def bucket(self) -> str:
        """Where objects are: ``s3://bucket/prefix``, or a folder."""
        return self._settings["bucket"]

    @property
    def last_bill(self) -> Bill | None:
        """The bill of the last query that has ended; None before the first."""
        return Bill.of(self._native.last_bill())

    @property
    def progress(self) -> list[FunctionStage]:
        """How far the query is that was started last, stage by stage."""
        return [FunctionStage(*stage) for stage in self._native.progress()]

    def within(
        self,
        *,
        max_cost: float | None = None,
        max_latency: str | timedelta | None = None,
        knee: bool | None = None,
    ) -> Functions:
        """
        Get the same functions with another goal for the number of tasks of queries in SQL.

        Without a goal it is the knee: the number of tasks beyond which more dollars buy little time
        (Starling, §4.3).

        Parameters
        ----------
        max_cost
            Take the fastest plan that costs at most so many dollars.
        max_latency
            Take the cheapest plan that takes at most this long: ``"5s"``, or a `timedelta`.
        knee
            Take the knee, which is the default.

        Returns
        -------
        Functions
            The functions, for ``on=``.

        Raises
        ------
        InvalidError
            If not exactly one goal is given.

        Examples
        --------
        >>> import whimbrel as wb
        >>> functions = wb.functions.connect(function="whimbrel", bucket="s3://b/whimbrel")  # doctest: +SKIP
        >>> wb.sql("select 1", on=functions.within(max_cost=0.01)).collect()  # doctest: +SKIP
        """
        given = {"max_cost": max_cost, "max_latency": max_latency, "knee": knee or None}
        goals = [(kind, value) for kind, value in given.items() if value is not None]
        if len(goals) != 1:
            raise InvalidError("within takes one goal: max_cost=, max_latency= or knee=True")
        kind, value = goals[0]
        goal = native.FunctionGoal(kind, None if kind == "knee" else value)
        like = self._like(self._native.with_goal(goal), self)
        like._goal = goal
        return like

    def _like(self, half: native.Functions, *origins: Functions) -> Functions:
        like = Functions.__new__(Functions)
        like._settings, like._native = self._settings, half
        like._origins, like._is_compound, like._goal = origins, self._is_compound, self._goal
        return like

    @property
    def rates(self) -> Rates:
        """How fast the functions are thought to be."""
        return Rates.of(self._native.rates())

    def calibrated(self, sql: str | None = None, **tables: Any) -> Functions:
        """
        Get the same functions with rates that were measured.

        What is expected of a query is then what it takes here, and the number of its tasks is chosen by that.
        Some queries run for it, for some seconds, and are paid for. `rates` can be kept, and given to
        `connect` or `start`.

        Parameters
        ----------
        sql
            A query of the kind that the functions are for: one that reads tables is limited by other things
            than one that computes. By default it counts numbers.
        **tables
            Its tables by name, as `sql` takes them.

        Returns
        -------
        Functions
            The functions, for ``on=``.

        Raises
        ------
        InvalidError
            If the query is wrong, or these are several functions, which are measured one by one.

        Examples
        --------
        >>> import whimbrel as wb
        >>> with wb.functions.start(concurrency=2) as functions:  # doctest: +SKIP
        ...     functions = functions.calibrated("select count(distinct k) from rows", rows="rows.parquet")
        >>> functions.rates.processors  # doctest: +SKIP
        1.3
        """
        if self._is_compound:
            raise InvalidError(
                "several functions are measured one by one: wb.functions.pools(base=own.calibrated(), …)"
            )
        rates = measure(_Probe(self, tables), self.cores, self.rates, sql)
        return self._changed(rates=rates.values())

    def _changed(self, **changes: Any) -> Functions:
        """Get the same functions with other settings."""
        settings = {**self._settings, **changes}
        half = native.Functions(**settings)
        like = self._like(half if self._goal is None else half.with_goal(self._goal), self)
        like._settings = settings
        return like

    def forecast(self, query: ShardedStream) -> FunctionPlan:
        """
        Say what a query is expected to take and to cost, before it runs.

        Parameters
        ----------
        query
            A query, or another plan that ends.

        Returns
        -------
        FunctionPlan
            Its stages, seconds and dollars; as text, what `explain` shows of them.

        Raises
        ------
        InvalidError
            If it does not end.

        Examples
        --------
        >>> import whimbrel as wb
        >>> with wb.functions.start(concurrency=2) as functions:
        ...     forecast = functions.forecast(wb.sql("select 6 * 7 as answer", on=functions))
        >>> forecast.runs_here, forecast.dollars
        (True, 0.0)
        """
        return self._expect(query._plan)

    def upload(self, path: str | os.PathLike[str]) -> str:
        """
        Copy a file, or all files of a folder, to the bucket, so that functions can read them as a table.

        Parameters
        ----------
        path
            A file or a folder of this machine. Files of the same name in the bucket are replaced.

        Returns
        -------
        str
            Its URL, which is a table in SQL and in `read`.

        Raises
        ------
        DataError
            If it cannot be read, or not be written there.
        """
        return self._native.upload(os.fspath(path))

    def sweep(self, older_than: str | timedelta = "1h") -> tuple[int, int]:
        """
        Remove what was left in the bucket by queries whose client died, and outputs that were kept.

        Parameters
        ----------
        older_than
            Only what was written longer ago than this.

        Returns
        -------
        tuple of int
            How many objects were removed, and how many bytes they had.
        """
        return self._native.sweep(older_than)

    def _begin(self) -> native.Functions:
        return self._native.for_query()

    def _expect(self, plan: native.Plan) -> FunctionPlan:
        return FunctionPlan.of(self._native.explain(plan))

    def __repr__(self) -> str:
        return f"Functions({self._settings['function']!r}, bucket={self.bucket!r})"


class _Probe:
    """Queries by which functions are measured."""

    def __init__(self, functions: Functions, tables: Mapping[str, Any]) -> None:
        self._functions = functions._changed(small=0, keep=None)
        self._tables = tables

    def run(self, sql: str, shards: int, *, inline: bool = True, concurrency: int = 1) -> Bill:
        functions = self._functions._changed(inline=inline, concurrency=concurrency)
        bill = self._planned(sql, shards).collect(on=functions).bill
        assert bill is not None
        return bill

    def expect(self, sql: str, shards: int, rates: Rates) -> FunctionPlan:
        return self._functions._changed(rates=rates.values())._expect(self._planned(sql, shards)._plan)

    def _planned(self, text: str, shards: int) -> Query:
        # Queries in SQL know functions.
        from .statements import sql

        return sql(text, on=self._functions, shards=shards, **self._tables)
