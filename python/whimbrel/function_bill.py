"""Bills of queries that ran on functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FunctionStage:
    """
    How far a stage of a query is.

    Attributes
    ----------
    tasks
        How many tasks it has.
    running
        How many of them run.
    ended
        How many have ended.
    """

    tasks: int
    running: int
    ended: int


@dataclass(frozen=True)
class Attempt:
    """
    One attempt to run a task.

    Attributes
    ----------
    stage, task
        Which task of which stage. Combining tasks have the stage whose output they combine.
    kind
        ``"task"``, ``"combine"``, or ``"kept"`` for an output that was there.
    start, end
        When it ran, in seconds from the start of the query.
    outcome
        ``"ended"``, ``"lost"``, ``"late"`` for one that was overtaken by another attempt, ``"early"`` for one
        that waited for an object that did not come, or ``"throttled"``.
    pool
        ``"base"`` or ``"elastic"``: see `whimbrel.functions.pools`.
    """

    stage: int
    task: int
    kind: str
    start: float
    end: float
    outcome: str
    pool: str = "elastic"


@dataclass(frozen=True)
class PoolBill:
    """
    What one pool of functions has done for a query, and the price of the query there.

    Attributes
    ----------
    pool
        ``"base"`` or ``"elastic"``: see `whimbrel.functions.pools`.
    prices
        The name of its price sheet.
    invocations, gb_seconds
        What its functions used.
    dollars
        What they cost.
    alone
        What the query would have cost, requests included, if this pool had run all of it for as many
        gigabyte-seconds.
    """

    pool: str
    prices: str
    invocations: int
    gb_seconds: float
    dollars: float
    alone: float


@dataclass(frozen=True)
class Bill:
    """
    What a query on functions has used, and what that costs (Starling, §4.2 and §6).

    Attributes
    ----------
    dollars
        All of it.
    compute_dollars, invocation_dollars, get_dollars, put_dollars, storage_dollars
        The dollars by kind.
    gets, puts
        Requests of the exchange and of tables that read and wrote, those that were sent twice included.
    table_gets
        Those of them that read tables.
    invocations
        Invocations of functions.
    gb_seconds
        Memory of functions in gigabytes, by the seconds for which it is billed.
    seconds
        From the start of the query to its last row.
    read_bytes, written_bytes
        Bytes of objects.
    hedged
        Requests that were sent a second time, since the first took too long.
    failures
        Attempts to run a task that were lost.
    duplicates
        Tasks that were invoked a second time, since they took too long.
    formula
        The requests of the exchange, as (reads, writes), if each is sent once.
    prices
        The name of the price sheet.
    ran
        ``"functions"``, or ``"coordinator"`` for a query that was so small that it ran in this process.
    tasks
        How many tasks the query had.
    kept
        How many of their outputs were there, from an earlier query.
    attempts
        All attempts to run tasks.
    pools
        The part of each pool of functions, the base pool first; one if there is no base pool.
    text
        The dollars by kind, in a line.
    """

    dollars: float
    compute_dollars: float
    invocation_dollars: float
    get_dollars: float
    put_dollars: float
    storage_dollars: float
    gets: int
    puts: int
    table_gets: int
    invocations: int
    gb_seconds: float
    seconds: float
    read_bytes: int
    written_bytes: int
    hedged: int
    failures: int
    duplicates: int
    formula: tuple[int, int]
    prices: str
    ran: str
    tasks: int
    kept: int
    attempts: tuple[Attempt, ...]
    pools: tuple[PoolBill, ...] = ()
    text: str = field(default="", repr=False)

    @staticmethod
    def of(values: Mapping[str, Any] | None) -> Bill | None:
        """Make the bill of the native half's values."""
        if values is None:
            return None
        attempts = tuple(Attempt(*attempt) for attempt in values["attempts"])
        pools = tuple(PoolBill(*pool) for pool in values["pools"])
        return Bill(**{**values, "attempts": attempts, "pools": pools})

    def __str__(self) -> str:
        return self.text
