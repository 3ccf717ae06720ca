"""What `Stream` and `ShardedStream` have in common: a plan, and the columns of its result."""

from __future__ import annotations

from typing import Any, Literal

from . import _whimbrel as native
from .errors import InvalidError
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

    def to_bytes(self, *, python_functions: Literal["refuse", "pickle"] = "refuse") -> bytes:
        """
        Write the plan as bytes, which any process with this release reads.

        `from_bytes` reads them, and ``whimbrel run job.plan`` runs a file of them.
        Tables in memory are written with the plan. Files are not: the plan says where they are and what they
        were, and reading it fails if one has changed since. Plans can be pickled, which does the same.

        Parameters
        ----------
        python_functions
            What happens to black boxes, which are functions of Python: ``"refuse"``, or ``"pickle"``, by the
            package cloudpickle if it is installed. Reading pickled functions runs code of whoever wrote them,
            so `from_bytes` has to allow it too.

        Returns
        -------
        bytes
            Equal for plans that were built alike. A digest in them finds damage.

        Raises
        ------
        InvalidError
            If a source or a function is of this process only: a live source, a black box of Python unless it
            is pickled.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([(0, "a"), (70, "b"), (80, "b")], schema=["time", "item"], time="time")
        >>> job = clicks.query(lambda q: q.tumbling(60).aggregate(n=wb.count())).to_bytes()
        >>> wb.from_bytes(job).to_rows()
        [Row(start=60, end=120, n=1), Row(start=120, end=180, n=2)]
        """
        return self._plan.to_bytes(check_python_functions(python_functions))

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever unpickles runs code of whoever pickled in any case.
        return (type(self)._unpickle, (self._plan.to_bytes(pickle=True),))

    @classmethod
    def _unpickle(cls, data: bytes) -> PlanBuilder:
        return cls(native.Plan.unpickle(data))


def check_python_functions(choice: str) -> bool:
    """Check how functions of Python travel; whether they are pickled."""
    if choice not in ("refuse", "pickle"):
        raise InvalidError(f'python_functions is "refuse" or "pickle", not {choice!r}')
    return choice == "pickle"
