"""Filters over many batches: the rows that are kept are those of Arrow, whatever share of them it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import whimbrel as wb

ROWS = 200_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows with nulls, of which `share` is uniform between 0 and 1."""
    chance = np.random.default_rng(3)
    share = chance.random(ROWS)
    numbers = chance.integers(0, 1_000, ROWS)
    return pa.table(
        {
            "time": np.arange(ROWS),
            "share": share,
            "float": pa.array(np.where(numbers == 5, -0.0, share), mask=numbers % 11 == 0),
            "n": pa.array(numbers, mask=numbers % 7 == 0),
            "text": pa.array([None if n % 13 == 0 else f"text {n}" for n in numbers.tolist()]),
            "list": pa.array([[n, None] if n % 3 else [] for n in numbers.tolist()]),
        }
    )


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("below", [-1.0, 0.0, 0.001, 0.3, 0.79, 0.81, 0.97, 1.0, 2.0])
def test_rows_of_any_share(table: pa.Table, below: float, is_stream: bool) -> None:
    """Few rows, most rows, none and all."""
    source = wb.from_arrow(table, time="time" if is_stream else None)
    columns = "share, float, n, text, list"
    found: Any = wb.sql(f"select {columns} from t where share < {below}", t=source).to_arrow()
    kept = pc.call_function("less", [table["share"], pa.scalar(below)])
    expected = table.filter(kept).select(columns.split(", "))
    assert found.select(columns.split(", ")).to_pylist() == expected.to_pylist()


CONDITIONS = {
    "n <> 8": lambda n, f, s: n is not None and n != 8,
    "n is null": lambda n, f, s: n is None,
    "float >= 0": lambda n, f, s: f is not None and f >= 0,
    "float > 0": lambda n, f, s: f is not None and f > 0,
    "float between 0.1 and 0.2": lambda n, f, s: f is not None and 0.1 <= f <= 0.2,
    "float < 0.5 and n > 100": lambda n, f, s: f is not None and f < 0.5 and n is not None and n > 100,
    "float <= 0.01 or float > 0.9": lambda n, f, s: f is not None and (f <= 0.01 or f > 0.9),
    "text = 'text 8'": lambda n, f, s: s == "text 8",
    "text <> 'text 8'": lambda n, f, s: s is not None and s != "text 8",
    "text like '%xt 8%' and float > 0.1": lambda n, f, s: (
        bool(s) and "xt 8" in s and f is not None and f > 0.1
    ),
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(table: pa.Table, condition: str, is_stream: bool) -> None:
    """Conditions over columns with nulls."""
    source = wb.from_arrow(table, time="time" if is_stream else None)
    found: Any = wb.sql(f"select n, float, text from t where {condition}", t=source).to_arrow()
    rows = zip(*(table[name].to_pylist() for name in ("n", "float", "text")), strict=True)
    expected = [row for row in rows if CONDITIONS[condition](*row)]
    assert [tuple(row[name] for name in ("n", "float", "text")) for row in found.to_pylist()] == expected


KEYS = [
    "text",
    "n, text",
    "text, n % 3",
    "n % 10, n % 3",
    "n % 10, n % 3, n % 2, n % 5, n % 7",
    "float > 0.5, text",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["string", "large_string", "string_view"])
def test_keys_of_several_columns(table: pa.Table, form: str, key: str) -> None:
    """Groups of integers, texts and both, with nulls: a stream has those of a table."""
    texts = table.set_column(4, "text", table["text"].cast(getattr(pa, form)()))
    sources = {
        "t": wb.from_arrow(texts),
        f"tumble(t, time, {ROWS})": wb.from_arrow(texts, time="time"),
    }
    answers = []
    for windows, source in sources.items():
        sql = f"select {key}, count(*) as c, min(share) as low from {windows} group by all"
        found: Any = wb.sql(sql, t=source, shards=2).to_arrow()
        names = [name for name in found.column_names if name not in ("start", "end")]
        answers.append(sorted((tuple(row.values()) for row in found.select(names).to_pylist()), key=repr))
    assert answers[0] == answers[1]
