"""What is measured: the lines of the benchmark, their events, and what every engine has to find.

Events are ordered and come ten to a tick. `key` and `value` are uniform; all three columns are int64. An
engine's answer is a triple: how many result rows there are, and the sums of their two columns. So every
result row is looked at once, and the engines' answers can be compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

EVENTS_A_TICK = 10
WINDOW = 1000
HOP = 100
VALUES = 1000
SEED = 7


class Answer(NamedTuple):
    """Result rows, and the sums of their columns."""

    rows: int
    counted: int
    summed: int


@dataclass(frozen=True)
class Line:
    """One line of the benchmark."""

    query: str
    """filter, projection, tumbling or hopping."""
    keys: int
    """How many different keys there are."""
    rows: int
    """How many events."""

    @property
    def name(self) -> str:
        """How the line is called in the table."""
        return f"{self.query}, {self.keys:,} keys" if self.query in ("tumbling", "hopping") else self.query

    def as_json(self) -> dict:
        """Return the line with its name, as it stands in the results."""
        return {"name": self.name, **asdict(self)}


def lines(rows: int) -> list[Line]:
    """List all lines at so many events.

    A hopping window with many keys has some ten result rows an event, which peers hold in memory at once:
    those lines take a tenth of the events, for every engine.
    """
    if rows % 20_000:
        raise ValueError(f"the number of events has to be a multiple of 20,000, not {rows:,}")
    return [
        Line("filter", 10, rows),
        Line("projection", 10, rows),
        *(Line("tumbling", keys, rows) for keys in (10, 10_000, 1_000_000)),
        Line("hopping", 10, rows),
        *(Line("hopping", keys, rows // 10) for keys in (10_000, 1_000_000)),
    ]


def events(line: Line) -> pa.Table:
    """Make the events of a line: the same ones every time."""
    random = np.random.default_rng(SEED)
    return pa.table(
        {
            "t": np.arange(line.rows, dtype=np.int64) // EVENTS_A_TICK,
            "key": random.integers(0, line.keys, line.rows),
            "value": random.integers(0, VALUES, line.rows),
        }
    )
