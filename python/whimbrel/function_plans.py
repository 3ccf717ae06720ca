"""What queries on functions are expected to take and to cost, before they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PlannedStage:
    """
    What a stage is expected to take.

    Attributes
    ----------
    tasks
        How many tasks it has: each is the work of one function.
    combines
        How many tasks combine its output, so that those that read it make fewer requests.
    source_bytes, input_bytes, output_bytes
        What it reads from tables and from other stages, and what it hands out.
    objects
        How many objects it writes.
    gets, puts
        Its requests.
    gb_seconds
        Memory in gigabytes, by seconds.
    task_seconds
        How long a task takes.
    start, end
        When it begins and ends, in seconds from the start of the query.
    """

    tasks: int
    combines: int
    source_bytes: float
    input_bytes: float
    output_bytes: float
    objects: float
    gets: int
    puts: int
    gb_seconds: float
    task_seconds: float
    start: float
    end: float


@dataclass(frozen=True)
class Choice:
    """
    A way that a query could have run (Starling, Fig. 14).

    Attributes
    ----------
    shards
        The number of shards that it was planned in.
    seconds, dollars, gb_seconds
        What it is expected to take.
    tasks
        How many tasks each stage has, those before others first: as many as there are shards, or another
        number in each stage.
    chosen
        Whether it is the one that runs.
    """

    shards: int
    seconds: float
    dollars: float
    gb_seconds: float
    tasks: tuple[int, ...]
    chosen: bool


@dataclass(frozen=True)
class PoolForecast:
    """
    What a query is expected to take if one of two pools of functions runs all of it.

    Attributes
    ----------
    pool
        ``"base"`` or ``"elastic"``: see `whimbrel.functions.pools`.
    seconds, dollars
        What it takes.
    """

    pool: str
    seconds: float
    dollars: float


@dataclass(frozen=True)
class FunctionPlan:
    """
    What a query is expected to take and to cost.

    Attributes
    ----------
    stages
        Each stage, those before others first.
    runs_here
        Whether it is so small that it runs in this process.
    seconds, dollars, invocations, gets, puts, gb_seconds
        All of it.
    memory
        The megabytes of memory of the functions that it takes, if there are several sizes.
    alone
        What it would take on each pool alone, if there are two.
    text
        All of it, a line for each stage.
    """

    stages: tuple[PlannedStage, ...]
    runs_here: bool
    seconds: float
    dollars: float
    invocations: int
    gets: int
    puts: int
    gb_seconds: float
    memory: int | None
    alone: tuple[PoolForecast, ...]
    text: str = field(repr=False)

    @property
    def tasks(self) -> tuple[int, ...]:
        """How many tasks each stage has."""
        return tuple(stage.tasks for stage in self.stages)

    @staticmethod
    def of(values: Mapping[str, Any]) -> FunctionPlan:
        """Make the plan of the native half's values."""
        stages = tuple(PlannedStage(**stage) for stage in values["stages"])
        alone = tuple(PoolForecast(*pool) for pool in values["alone"])
        return FunctionPlan(**{**values, "stages": stages, "alone": alone})

    def __str__(self) -> str:
        return self.text
