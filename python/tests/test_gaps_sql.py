"""`fill_gaps` in SQL, over tables and streams, against its definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import whimbrel as wb

Row = tuple[Any, ...]

SCHEMA = pa.schema([("at", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])

CALL = "values => {'n': 0}, linear => x"

GRIDS = [(10, 0, 50), (7, 3, 30), (25, -4, 1), (1, 0, 40)]


def rows_at_random(seed: int, count: int = 300, span: int = 2000) -> list[Row]:
    """Rows in order of time, several of a key at an instant among them."""
    random = Random(seed)
    times = sorted(random.randrange(span) for _ in range(count))
    pick = lambda of: None if random.random() < 0.1 else of  # noqa: E731
    values = lambda: (pick(random.choice("abc")), pick(random.randrange(9)), pick(random.random()))  # noqa: E731
    return [(at, *values()) for at in times]


def table(rows: list[Row]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)), schema=SCHEMA)


def last_of(rows: list[Row]) -> Row:
    """The last row in the order of time and of all columns; nulls come first."""
    order = lambda row: [(value is not None, value if value is not None else 0) for value in row]  # noqa: E731
    return max(rows, key=lambda row: (row[0], order(row[1:])))


def by_hand(rows: list[Row], period: int, offset: int = 0, max_gap: int | None = None) -> Counter[Row]:
    """The rows, and those of the gaps: `n` is 0, and `x` on a line."""
    cell = lambda at: (at - offset) // period * period + offset  # noqa: E731
    cells: dict[Any, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row[1]][cell(row[0])].append(row)
    out = Counter(rows)
    for key, of_key in cells.items():
        begins = sorted(of_key)
        for begin, following in zip(begins, [*begins[1:], None], strict=True):
            previous, end = last_of(of_key[begin]), begin + period
            limit = following
            forgotten = None if max_gap is None else -(-(end + max_gap - offset) // period) * period + offset
            if forgotten is not None and (limit is None or limit > forgotten):
                limit = forgotten
            if limit is None:
                continue
            next_row = None
            if following is not None:
                at = min(row[0] for row in of_key[following])
                if forgotten is None or at < forgotten:
                    next_row = last_of([row for row in of_key[following] if row[0] == at])
            for instant in range(end, limit, period):
                x = None
                if next_row is not None and previous[3] is not None and next_row[3] is not None:
                    way = (instant - previous[0]) / (next_row[0] - previous[0])
                    x = previous[3] + (next_row[3] - previous[3]) * way
                out[instant, key, 0, x] += 1
    return out


def answer(source: Any, sql: str, shards: int = 1) -> Counter[Row]:
    """The rows, without the lifetimes of those of a stream."""
    rows: list[dict[str, Any]] = pa.table(wb.sql(sql, t=source, shards=shards).collect()).to_pylist()
    return Counter(tuple(v for name, v in row.items() if name not in ("start", "end")) for row in rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("period", "offset", "max_gap"), [(10, 0, None), *GRIDS])
def test_a_table_is_filled_by_definition(seed: int, period: int, offset: int, max_gap: int | None) -> None:
    rows = rows_at_random(seed)
    more = "" if max_gap is None else f", max_gap => {max_gap}"
    sql = f"select * from fill_gaps(t, at, {period}, k, {CALL}, offset => {offset}{more})"
    expected = by_hand(rows, period, offset, max_gap)
    Random(seed).shuffle(rows)
    assert answer(table(rows), sql) == expected
    assert answer(table(rows), sql, shards=3) == expected


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("period", "offset", "max_gap"), GRIDS)
def test_a_stream_is_filled_as_a_table(
    seed: int, period: int, offset: int, max_gap: int, shards: int
) -> None:
    rows = rows_at_random(seed)
    stream = wb.from_arrow(table(rows), time="at")
    sql = f"select * from fill_gaps(t, at, {period}, k, {CALL}, offset => {offset}, max_gap => {max_gap})"
    assert answer(stream, sql, shards) == by_hand(rows, period, offset, max_gap)


def test_without_a_key_all_rows_have_the_same_gaps() -> None:
    rows = [(at, "a", n, x) for at, _, n, x in rows_at_random(5, count=40)]
    expected = by_hand(rows, 10, 0, 30)
    fills = "values => {'n': 0}, linear => [x], previous => [k]"
    sql = f"select * from fill_gaps(t, at, 10, {fills}, max_gap => 30)"
    assert answer(table(rows), sql) == expected
    assert answer(wb.from_arrow(table(rows), time="at"), sql) == expected


def at(minute: float) -> datetime:
    return datetime(2024, 3, 1, 9, tzinfo=timezone.utc) + timedelta(minutes=minute)


CLICKS = pa.table(
    {
        "time": pa.array([at(1), at(2), at(3), at(17), at(31)], pa.timestamp("us", "UTC")),
        "item": ["a", "b", "a", "a", "b"],
    }
)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("time", ["window_end", "window_start"])
def test_empty_windows_are_zeros(stream: bool, time: str) -> None:
    source: Any = wb.from_arrow(CLICKS, time="time") if stream else CLICKS
    windows = """(select item, window_start, window_end, count(*) as n
                  from tumble(t, time, interval '5' minute) group by all)"""
    sql = f"""select item, n, window_start, window_end from
              fill_gaps({windows}, {time}, interval '5' minute, item,
                        values => {{'n': 0}}, max_gap => '10 minutes')"""
    counts = [("a", 0, 2), ("a", 5, 0), ("a", 10, 0), ("a", 15, 1), ("a", 20, 0), ("a", 25, 0)]
    counts += [("b", 0, 1), ("b", 5, 0), ("b", 10, 0), ("b", 30, 1), ("b", 35, 0), ("b", 40, 0)]
    expected = Counter((item, n, at(start), at(start + 5)) for item, start, n in counts)
    assert answer(source, sql) == expected
    # What comes out are windows again.
    again = f"select window_end, count(*) as items, sum(n) as n from ({sql}) group by window_end"
    totals: Counter[Row] = Counter()
    for minute in range(5, 50, 5):
        of_window = [n for _, start, n in counts if start + 5 == minute]
        totals.update([(at(minute), len(of_window), sum(of_window))] if of_window else [])
    assert answer(source, again) == totals


def test_rows_that_were_filled_have_windows_again() -> None:
    rows = rows_at_random(9)
    sql = """select window_end, count(*) as n from
             tumble(fill_gaps(t, at, 10, k, values => {'n': 0}, max_gap => 50), at, 100)
             group by window_end"""
    expected: Counter[int] = Counter()
    for row, times in by_hand(rows, 10, 0, 50).items():
        expected[row[0] // 100 * 100 + 100] += times
    for source in (table(rows), wb.from_arrow(table(rows), time="at")):
        assert {row[0]: row[1] for row in answer(source, sql)} == expected


def test_months_and_days_are_those_of_the_calendar() -> None:
    sales = pa.table({"day": [date(2024, 1, 31), date(2024, 4, 2)], "n": [5, 7]})
    filled = wb.sql("select * from fill_gaps(t, day, interval '1' month, values => {'n': 0})", t=sales)
    months = [date(2024, 1, 31), date(2024, 2, 1), date(2024, 3, 1), date(2024, 4, 2)]
    assert sorted(tuple(row) for row in filled.to_rows()) == list(zip(months, [5, 0, 0, 7], strict=True))
    # Clocks are set forward on the 31st of March.
    midnights = ("2024-03-29 23:30:00+01", "2024-04-02 00:30:00+02")
    berlin = " union all ".join(f"select timestamptz '{at}' as at" for at in midnights)
    filled = wb.sql(
        f"""set timezone = 'Europe/Berlin';
            select at::text as at, window_end::text as e from fill_gaps(
                (select window_start as at, window_end from tumble(({berlin}), at, interval '1' day)),
                at, interval '1' day, previous => window_end)"""
    )
    days = [row.at[:10] for row in filled.to_rows()]
    assert sorted(days) == [f"2024-{day}" for day in ("03-29", "03-30", "03-31", "04-01", "04-02")]
    moved = wb.sql(
        f"""set timezone = 'Europe/Berlin';
            select window_start::text as s, window_end::text as e from fill_gaps(
                (select window_start, window_end from tumble(({berlin}), at, interval '1' day)),
                window_start, interval '1' day)"""
    )
    pairs = sorted((row.s, row.e) for row in moved.to_rows())
    assert all(end == start for (_, end), (start, _) in pairwise(pairs))
    assert len(pairs) == 5


def test_a_row_without_a_time_is_kept_and_has_no_gap() -> None:
    rows: list[Row] = [(None, "a", 1, 1.0), (3, "a", 2, None), (None, None, 3, 2.0), (35, "a", 4, 1.0)]
    expected = Counter(rows) + Counter([(10, "a", 0, None), (20, "a", 0, None)])
    assert answer(table(rows), f"select * from fill_gaps(t, at, 10, k, {CALL})") == expected


def test_arguments_may_be_written_as_flink_does() -> None:
    rows = rows_at_random(3)
    expected = by_hand(rows, 10, 0, 50)
    sql = f"""select * from fill_gaps(data => table t partition by k, timecol => descriptor(at), period => 10,
                                      max_gap => 50, {CALL})"""
    assert answer(table(rows), sql) == expected
    named = sql.replace("data => table t partition by k", "table t partition by (k)")
    assert answer(wb.from_arrow(table(rows), time="at"), named.replace("timecol => ", "")) == expected


def test_values_are_brought_to_the_types_of_their_columns() -> None:
    rows = pa.table(
        {
            "at": [0, 20],
            "d": pa.array([1, 2], pa.decimal128(9, 2)),
            "s": ["a", "b"],
            "day": pa.array([date(2024, 1, 1)] * 2, pa.date32()),
            "l": [[1], [2]],
        }
    )
    sql = """select d, s, day, l from fill_gaps(t, at, 10,
             values => {'d': -1 - 1.5, 's': 'none', 'day': date '2024-01-02', 'l': [7, 8]}) where at = 10"""
    (row,) = wb.sql(sql, t=rows).to_rows()
    assert (str(row.d), row.s, row.day, row.l) == ("-2.50", "none", date(2024, 1, 2), [7, 8])


def test_changes_of_a_stream_are_those_of_its_table() -> None:
    rows = rows_at_random(6, count=30, span=200)
    stream = wb.from_arrow(table(rows), time="at")
    sql = f"select * from fill_gaps(t, at, 10, k, {CALL}) emit changes"
    sums: Counter[Row] = Counter()
    for row in wb.sql(sql, t=stream).to_rows():
        sums[tuple(row)[1:]] += row.change
    assert +sums == by_hand(rows, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fill_gaps(t, at)", "an argument is missing"),
        ("fill_gaps(t, at, 0, k)", "positive"),
        ("fill_gaps(t, at, interval '1' hour, k)", "logical clock"),
        ("fill_gaps(t, k, 10)", "cannot tell time"),
        ("fill_gaps(t, at, 10, k, values => {'m': 0})", "m"),
        ("fill_gaps(t, at, 10, k, values => 0)", "does not say what columns have"),
        ("fill_gaps(t, at, 10, k, values => {'n': n})", "n"),
        ("fill_gaps(t, at, 10, k, values => {'n': 'many'})", "no value of column"),
        ("fill_gaps(t, at, 10, k, linear => k)", "of the key"),
        ("fill_gaps(t, at, 10, linear => k)", "no line leads through it"),
        ("fill_gaps(t, at, 10, k, linear => n, previous => [x, n])", "named twice"),
        ("fill_gaps(t, at, 10, k, linear => n, linear => x)", "given twice"),
        ("fill_gaps(t, at, 10, at)", "is the time"),
        ("fill_gaps(t, at, 10, k, previous => at)", "is the time"),
        ("fill_gaps(t, at, 10, k, size => 3)", "there is no argument size"),
        ("fill_gaps(t, at, 10, k, max_gap => -1)", "negative"),
        ("fill_gaps((select at, count(*) as m from t group by at), at, 10)", "say what it has in a gap"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    with pytest.raises(wb.WhimbrelError, match=message):
        answer(table(rows_at_random(1)), f"select * from {call}")


def test_a_stream_has_to_say_when_a_key_is_forgotten() -> None:
    stream = wb.live({"at": "int64", "k": "string", "n": "int64"}, time="at")
    for call, message in [
        ("fill_gaps(t, at, 10, k)", "max_gap => "),
        ("fill_gaps(t, n, 10, k, max_gap => 5)", '"n" is not the time at which these rows come'),
    ]:
        with pytest.raises(wb.InvalidError, match=message):
            wb.sql(f"select * from {call}", t=stream)


def test_a_live_stream_is_filled_as_time_comes() -> None:
    stream = wb.live({"at": "int64", "k": "string", "n": "int64"}, time="at")
    seen: list[Row] = []
    sql = "select at, k, n from fill_gaps(t, at, 10, k, values => {'n': 0}, max_gap => 30)"
    with wb.sql(sql, t=stream).subscribe(lambda row: seen.append((row.at, row.k, row.n))) as job:
        stream.push([(3, "a", 1), (4, "b", 2)])
        stream.advance(25)
        while len(seen) < 4:
            pass
        assert sorted(seen) == [(3, "a", 1), (4, "b", 2), (10, "a", 0), (10, "b", 0)]
        stream.push([(37, "b", 3)])
        stream.close()
        job.wait()
    assert sorted(seen)[4:] == [
        *[(20, k, 0) for k in "ab"],
        (30, "a", 0),
        (37, "b", 3),
        *[(at, "b", 0) for at in (40, 50, 60)],
    ]
