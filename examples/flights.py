"""A year of flights out of New York: three plans over a file, and unchanged over flights that arrive live.

    python examples/flights.py                    # or: make demo
    python examples/flights.py --speed 3600 --days 1 --out flights.html

The plans are plain functions from a stream of flights to a stream of results; whether the flights come from
a file or arrive while we look is no matter of theirs. A flight is an event that lives from departure to
arrival.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import whimbrel as wb
from drawing import bar, columns
from flights_page import Results, every_two_hours, write_page

DATA = Path(__file__).resolve().parent.parent / "data" / "nyc_flights_2013.parquet"

# Days begin at midnight in New York, by winter time.
MIDNIGHT = "5h"
NEW_YORK = timedelta(hours=-5)

# ---------------------------------------------------------------------------------------------- the plans


def departures(flights: wb.ShardedStream) -> wb.ShardedStream:
    """Count an hour's departures of a 5 % sample of aircraft, per origin, every ten minutes (Trill §2)."""
    return (
        flights.query(lambda q: q.where(lambda e: wb.fn.md5(e.tailnum) < "0d").select("origin"))
        .rekey(lambda e: e.origin)
        .redistribute()
        .query(lambda q: q.hopping("1h", hop="10m").aggregate(departures=wb.count()))
    )


def in_the_air(flights: wb.ShardedStream) -> wb.ShardedStream:
    """Count the aircraft of each carrier that are in the air, whenever the count changes."""
    return flights.rekey(lambda e: e.carrier).redistribute().query(lambda q: q.aggregate(flying=wb.count()))


def daily_peaks(flying: wb.ShardedStream) -> wb.ShardedStream:
    """Find the highest count of each carrier and day."""
    return flying.query(
        lambda q: q.tumbling("1d", offset=MIDNIGHT).aggregate(peak=wb.max(lambda e: e.flying))
    )


def delays(flights: wb.ShardedStream) -> wb.ShardedStream:
    """Average the delay of each carrier without the flights of troubled aircraft (Quill §3.7).

    An aircraft is in trouble while it has had more than two departures over half an hour late in the last 24
    hours; for so long, its flights are left out.
    """
    per_aircraft = flights.query(lambda q: q.alter_duration("1us")).rekey(lambda e: e.tailnum).redistribute()
    troubled = per_aircraft.query(
        lambda q: (
            q.where(lambda e: e.dep_delay > 30)
            .sliding("24h")
            .aggregate(late=wb.count())
            .where(lambda e: e.late > 2)
        )
    )
    sound = per_aircraft.query(troubled, lambda flight, trouble: flight.where_not_exists(trouble))
    return (
        sound.rekey(lambda e: e.carrier)
        .redistribute()
        .query(
            lambda q: q.hopping("6h", hop="1h").aggregate(
                delay=wb.avg(lambda e: e.dep_delay), flights=wb.count()
            )
        )
    )


PLANS = (departures, in_the_air, delays)

# ------------------------------------------------------------------------------------------- from the file


def flown() -> pa.Table:
    """Read the flights that took off and landed, in order of schedule; a plain query, without time."""
    return (
        wb.read(DATA)
        .query(lambda q: q.where(lambda e: e.dep.is_not_null() & e.arr.is_not_null()))
        .to_arrow(progress=False)
    )


def bounded(flights: pa.Table) -> wb.ShardedStream:
    """Make a stream of a table: the whole day is waited for, so that no flight comes too late."""
    return wb.from_arrow(flights, time="dep", end="arr", reorder_latency="1d")


def measured(plan: wb.ShardedStream, rows: int, what: str) -> wb.Table:
    """Run a plan and say how fast it was."""
    start = time.perf_counter()
    table = plan.collect()
    seconds = time.perf_counter() - start
    print(f"  {what:42} {seconds:6.2f} s {rows / seconds / 1e6:7.2f} million flights/s {len(table):9,} rows")
    return table


def from_file(flights: pa.Table) -> Results:
    """Run the three plans over the year."""
    rows = flights.num_rows
    flying = measured(in_the_air(bounded(flights)), rows, "aircraft in the air, per carrier")
    return Results(
        departures=measured(
            departures(bounded(flights)), rows, "departures per origin, hour by hour"
        ).to_polars(),
        flying=flying.to_polars(),
        peaks=measured(daily_peaks(in_the_air(bounded(flights))), rows, "the peak of each day").to_polars(),
        delays=measured(delays(bounded(flights)), rows, "delays without troubled aircraft").to_polars(),
    )


# ---------------------------------------------------------------------------------------------------- live

# The worst days of the year: a storm on the 8th.
FIRST_DAY = datetime(2013, 3, 6) - NEW_YORK

# A flight is announced at its scheduled departure and may have left before: so much is waited for, no more.
EARLY = timedelta(minutes=10)
STEP = timedelta(minutes=1)


@dataclass
class Board:
    """Prints a line for every full hour as soon as all three results are final there."""

    widest: float = 250

    def __post_init__(self) -> None:
        """Start without results."""
        self._lock = threading.Lock()
        self._by_hour: dict[datetime, dict[str, list[wb.Row]]] = {}

    def report(self, plan: str, hour: datetime, rows: list[wb.Row]) -> None:
        """Take the rows of one result that are alive at an hour."""
        with self._lock:
            results = self._by_hour.setdefault(hour, {})
            results[plan] = rows
            if len(results) == len(PLANS):
                print(self._line(hour, **self._by_hour.pop(hour)), flush=True)

    def _line(
        self, hour: datetime, departures: list[wb.Row], in_the_air: list[wb.Row], delays: list[wb.Row]
    ) -> str:
        flying = sum(row.flying for row in in_the_air)
        most = sorted(in_the_air, key=lambda row: -row.flying)[:3]
        worst = sorted((row for row in delays if row.flights >= 5), key=lambda row: -row.delay)[:3]
        parts = [
            f"{hour + NEW_YORK:%a %d %b %H:%M}",
            f"{flying:4} {bar(flying, self.widest, 20):20}",
            f"{' '.join(f'{row.carrier} {row.flying}' for row in most):16}",
            f"{sum(row.departures for row in departures):4}",
            " ".join(f"{row.carrier} {row.delay:+.0f}" for row in worst),
        ]
        return "  ".join(parts)


class Hours:
    """Follows a result event by event, and reports the rows alive at each hour once they are final."""

    def __init__(
        self, first: datetime, every: timedelta, report: Callable[[datetime, list[wb.Row]], None]
    ) -> None:
        self._next, self._every, self._report = first, every, report
        self._alive: list[tuple[Any, Any, Any]] = []

    def __call__(self, event: wb.Event) -> None:
        """Take the next event; events come in order of time."""
        now = event.end if event.kind == "end" else event.start
        if isinstance(now, datetime):
            while self._next < now:
                self._alive = [each for each in self._alive if each[1] is None or each[1] > self._next]
                self._report(self._next, [row for start, _, row in self._alive if start <= self._next])
                self._next += self._every
        if event.kind == "end":
            self._alive.remove((event.start, None, event.row))
        elif event.kind != "punctuation":
            self._alive.append((event.start, event.end, event.row))


def announce(flights: pa.Table, source: wb.LiveStream, speed: float) -> None:
    """Push flights when they are scheduled to depart, `speed` times as fast as it was."""
    scheduled = flights["sched_dep"].to_pylist()
    row, now, start = 0, scheduled[0], time.monotonic()
    began = now
    while row < len(scheduled):
        first = row
        while row < len(scheduled) and scheduled[row] <= now:
            row += 1
        if row > first:
            source.push(flights.slice(first, row - first))
        source.advance(now - EARLY)
        now += STEP
        time.sleep(max(0.0, start + (now - began).total_seconds() / speed - time.monotonic()))
    source.close()


def live(flights: pa.Table, days: int, speed: float) -> str:
    """Run the same three plans over flights that arrive out of order; return a summary."""
    source = wb.live(flights.schema, time="dep", end="arr", disorder="drop", reorder_latency="2d")
    board = Board()
    jobs = []
    for plan in PLANS:
        name = plan.__name__
        hours = Hours(
            FIRST_DAY + timedelta(hours=6),
            timedelta(hours=max(1, days)),
            lambda hour, rows, name=name: board.report(name, hour, rows),
        )
        # reshard(1) merges the events of the shards, in order of time.
        jobs.append(plan(source).reshard(1).subscribe(hours, form="events"))
    chosen = between(flights, FIRST_DAY, FIRST_DAY + timedelta(days=days))
    start = time.perf_counter()
    # If a query fails, pushing to it fails too; wait() raises the cause.
    with contextlib.suppress(wb.DataError):
        announce(chosen, source, speed)
    for job in jobs:
        job.wait()
    seconds = time.perf_counter() - start
    late = jobs[0].late_rows
    return (
        f"{chosen.num_rows:,} flights of {days} days in {seconds:.0f} s, {speed:,.0f} times as fast; "
        f"{late:,} came too late: they had left more than {EARLY.seconds // 60} minutes before schedule"
    )


def between(flights: pa.Table, first: datetime, last: datetime) -> pa.Table:
    """Choose the flights that are scheduled in a span of time."""
    return (
        wb.from_arrow(flights)
        .query(lambda q: q.where(lambda e: (e.sched_dep >= first) & (e.sched_dep < last)))
        .to_arrow(progress=False)
    )


# --------------------------------------------------------------------------------------------------- demo


def arguments_of_command() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", type=float, default=10_800, help="how many times as fast as it was")
    parser.add_argument("--days", type=int, default=3, help="how many days arrive live")
    parser.add_argument(
        "--out", type=Path, default=Path("flights.html"), help="where the page of charts goes"
    )
    parser.add_argument("--no-progress", action="store_true", help="without progress bars")
    return parser.parse_args()


def main() -> None:
    """Run the demo."""
    arguments = arguments_of_command()
    wb.config(progress=False if arguments.no_progress else None)
    flights = flown()
    print(f"\nFlights out of New York, 2013: {flights.num_rows:,} that took off and landed\n")
    results = from_file(flights)

    print("\nThe busiest moments\n")
    busiest = results.busiest()
    for carrier, peak, day in busiest:
        print(f"  {carrier}  {peak:4}  {bar(peak, busiest[0][1], 40):40}  {day:%a %-d %b}")
    print("\nIn the air, every two hours, Monday 4 to Sunday 10 March\n")
    print("\n".join(columns(every_two_hours(results.flying))))

    print("\nThe same three plans, live; a line is printed when its hour is final\n")
    print(f"{'New York':16}  {'in the air':25}  {'of these':16}  left  delays, minutes")
    summary = live(flights, arguments.days, arguments.speed)
    print(f"\n{summary}")
    write_page(arguments.out, results, flights.num_rows, summary)
    print(f"\nCharts: {arguments.out.resolve()}")


if __name__ == "__main__":
    main()
