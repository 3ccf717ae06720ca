"""What queries on functions are expected to take and to cost, before they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .function_bill import Bill


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
    chosen: bool = False


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
    alone
        What it would take on each pool alone, if there are two.
    """

    stages: tuple[PlannedStage, ...]
    runs_here: bool
    seconds: float
    dollars: float
    invocations: int
    gets: int
    puts: int
    gb_seconds: float
    alone: tuple[PoolForecast, ...]

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

    def text(self, choices: list[Choice] | None = None, bill: Bill | None = None) -> str:
        """
        Draw the stages, and the numbers of shards that there were to choose from.

        Parameters
        ----------
        choices
            The numbers of shards.
        bill
            What happened, to stand beside what was expected.

        Returns
        -------
        str
            A line for each stage, and one for all of them.
        """
        lines = ["on functions"]
        if self.runs_here:
            lines[0] += ": it reads so little that it runs in this process"
        for number, stage in enumerate(self.stages):
            combines = f" + {stage.combines} that combine" if stage.combines else ""
            lines.append(
                f"  stage {number}: {stage.tasks} tasks{combines}, {stage.objects:.0f} objects, "
                f"reads {_bytes(stage.source_bytes + stage.input_bytes)}, hands out "
                f"{_bytes(stage.output_bytes)}, {stage.gets} GETs, {stage.puts} PUTs, "
                f"{stage.start:.2f} to {stage.end:.2f} s{_happened(number, bill)}"
            )
        lines.append(
            f"  expected: {self.seconds:.2f} s, ${self.dollars:.6f}, {self.invocations} invocations, "
            f"{self.gets} GETs, {self.puts} PUTs, {self.gb_seconds:.2f} GB-s"
        )
        for pool in self.alone:
            lines.append(f"  {pool.pool} pool alone: {pool.seconds:.2f} s, ${pool.dollars:.6f}")
        if bill is not None:
            lines.append(f"  happened: {bill.seconds:.2f} s, {bill}")
        for place, choice in enumerate(choices or []):
            mark = "*" if choice.chosen else " "
            is_changed = any(choice.shards == other.shards for other in (choices or [])[:place])
            tasks = f" in stages of {', '.join(map(str, choice.tasks))} tasks" if is_changed else ""
            lines.append(
                f"  {mark} {choice.shards} shards{tasks}: {choice.seconds:.2f} s, ${choice.dollars:.6f}, "
                f"{choice.gb_seconds:.2f} GB-s"
            )
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()


def _happened(stage: int, bill: Bill | None) -> str:
    if bill is None:
        return ""
    own = [a for a in bill.attempts if a.stage == stage and a.kind == "task" and a.outcome == "ended"]
    if not own:
        return ""
    return f" | was {min(a.start for a in own):.2f} to {max(a.end for a in own):.2f} s"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
