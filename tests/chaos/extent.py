"""How much chaos there is: a little with every test run, and as much as anybody likes."""

from __future__ import annotations

import os
from collections.abc import Sequence

# How many rounds of random faults there are. More than the default also runs scenarios with every query,
# every schedule and at every point of a job's life.
FEW = 3
ROUNDS = int(os.environ.get("WHIMBREL_CHAOS", str(FEW)))
IS_LONG = ROUNDS > FEW

SCHEDULES = [
    {"pipelined": True, "dynamic": True},
    {"pipelined": True, "dynamic": False},
    {"pipelined": False, "dynamic": True},
    {"pipelined": False, "dynamic": False},
]
CASES = ["join", "small_batches", "window", "hopping", "sort", "aggregate"]

Schedule = dict[str, bool]


def combinations(cases: Sequence[str], schedules: Sequence[Schedule]) -> list[tuple[str, Schedule]]:
    """Pair cases with schedules: each with each in a long run, else each at least once."""
    if IS_LONG:
        return [(case, schedule) for case in cases for schedule in schedules]
    pairs = range(max(len(cases), len(schedules)))
    return [(cases[pair % len(cases)], schedules[pair % len(schedules)]) for pair in pairs]


def shown(pair: object) -> str:
    """Name a case or a schedule."""
    if isinstance(pair, dict):
        return "-".join(name if on else f"not_{name}" for name, on in pair.items())
    return str(pair)
