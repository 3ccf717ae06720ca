"""What `Stream` and `ShardedStream` have in common: a plan, and the columns of its result."""

from __future__ import annotations

from . import _whimbrel as native
from .schema import Schema


class PlanBuilder:
    """A plan that methods extend; every method returns a new one."""

    __slots__ = ("_plan",)

    _plan: native.Plan

    def __init__(self, plan: native.Plan) -> None:
        self._plan = plan

    @property
    def schema(self) -> Schema:
        """The columns: a mapping of names to names of types."""
        return Schema(self._plan.schema())

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._plan.schema().names()

    @property
    def key(self) -> list[str]:
        """The names of the key's columns, by which rows are grouped."""
        return self._plan.properties()["key"]

    def explain(self) -> str:
        """
        Draw the plan, without running it.

        Returns
        -------
        str
            A line for each operator, inputs indented below.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.values([{"price": 1}])
        >>> print(clicks.query(lambda q: q.where(lambda e: e.price > 2)).explain())
        where price > 2       | untimed, 1 shard
          Values: (Int64(1))  | untimed, 1 shard
        <BLANKLINE>
        """
        return self._plan.explain()
