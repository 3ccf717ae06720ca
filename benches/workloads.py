"""What is measured: the lines of the benchmark, their events, and what every engine has to find.

Events are ordered and come ten to a tick. `key` and `value` are uniform; all three columns are int64. The
lines about text have paths of real source files instead of keys. An engine's answer is a triple: how many
result rows there are, and the sums of their two columns. So every result row is looked at once, and the
engines' answers can be compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EVENTS_A_TICK = 10
WINDOW = 1000
HOP = 100
VALUES = 1000
SEED = 7

PAUSE = 2000
"""A session of one of 10,000 keys ends when so many ticks pass without an event: after 7 on average."""

JOINS = (100, 6_000, 60_000, 360_000)
"""How many ticks apart two events may be that are joined.

Where 1,000 events come a second, that is a second, a minute, ten minutes and an hour.
"""

STEPS = 10
"""A pattern is so many events of a key, one right after the other. Each has a condition of its own..."""
MISSED = 4
"""... that so many tenths of the values do not satisfy."""

PATHS = Path(__file__).parents[2] / "shared" / "data" / "git_file_events.parquet"
"""2.5 million paths of files, as 14 projects versioned them; without this file there are no lines of text."""

TEXTS = ("contains", "equals", "starts", "ends", "like", "offset")
"""The operations of Fig. 6(c) of the Trill paper."""


class Answer(NamedTuple):
    """Result rows, and the sums of their columns."""

    rows: int
    counted: int
    summed: int


@dataclass(frozen=True)
class Line:
    """One line of the benchmark."""

    query: str
    """filter, projection, tumbling, hopping, sessions, pattern, join, or `text` and one of `TEXTS`."""
    keys: int
    """How many different keys there are."""
    rows: int
    """How many events."""
    window: int = WINDOW
    """How many ticks a window has; for sessions, the pause that ends one."""

    @property
    def name(self) -> str:
        """How the line is called in the table."""
        if self.query == "join":
            return f"join within {self.window:,} ticks"
        return f"{self.query}, {self.keys:,} keys" if self.query in ("tumbling", "hopping") else self.query

    def as_json(self) -> dict:
        """Return the line with its name, as it stands in the results."""
        return {"name": self.name, **asdict(self)}


def lines(rows: int) -> list[Line]:
    """List all lines at so many events.

    A hopping window with many keys has some ten result rows an event, which peers hold in memory at once:
    those lines take a tenth of the events, for every engine. Joins, patterns and texts take a quarter.
    """
    if rows % 20_000:
        raise ValueError(f"the number of events has to be a multiple of 20,000, not {rows:,}")
    return [
        Line("filter", 10, rows),
        Line("projection", 10, rows),
        *(Line("tumbling", keys, rows) for keys in (10, 10_000, 1_000_000)),
        Line("hopping", 10, rows),
        *(Line("hopping", keys, rows // 10) for keys in (10_000, 1_000_000)),
        Line("sessions", 10_000, rows, PAUSE),
        *(Line("join", 100_000, rows // 4, window) for window in JOINS),
        Line("pattern", 10_000, rows // 4, STEPS * 1000),
        *(Line(f"text {operation}", 1, rows // 4) for operation in TEXTS if PATHS.exists()),
    ]


def events(line: Line) -> pa.Table:
    """Make the events of a line: the same ones every time."""
    random = np.random.default_rng(SEED)
    t = pa.array(np.arange(line.rows, dtype=np.int64) // EVENTS_A_TICK)
    key = pa.array(random.integers(0, line.keys, line.rows))
    value = pa.array(random.integers(0, VALUES, line.rows))
    if line.query.startswith("text"):
        return pa.table({"t": t, "path": paths(line.rows), "value": value})
    return pa.table({"t": t, "key": key, "value": value})


def paths(rows: int) -> pa.ChunkedArray:
    """Read so many paths, from the beginning again after the last one."""
    column = pq.read_table(PATHS, columns=["path"])["path"].cast(pa.string())
    times = -(-rows // len(column))
    return pa.chunked_array([chunk for _ in range(times) for chunk in column.chunks]).slice(0, rows)
