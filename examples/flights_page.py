"""The page of charts that `flights.py` leaves behind."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path

import polars as pl

from drawing import Page, Series, heat_chart, html_table, line_chart, stack_chart

DAY = 86_400.0
# The week of the storm, from Monday, midnight in New York by winter time.
WEEK = datetime(2013, 3, 4, 5, tzinfo=timezone.utc).timestamp()
DAYS = [WEEK + day * DAY for day in range(7)]
MONTHS = [datetime(2013, month, 1, 5, tzinfo=timezone.utc).timestamp() for month in range(1, 13)]


@dataclass(frozen=True)
class Results:
    """What the three plans found: one row for each key and stretch of time, with `start` and `end`."""

    departures: pl.DataFrame
    flying: pl.DataFrame
    peaks: pl.DataFrame
    delays: pl.DataFrame

    def busiest(self) -> list[tuple[str, int, date]]:
        """List each carrier's highest count and its day, the biggest carriers first."""
        # A day's peak is known when the day is over: it lives through the day after.
        days = self.peaks.with_columns(day=(pl.col("start") - pl.duration(days=1)).dt.date())
        first = (
            days.sort("peak", "start", descending=[True, False])
            .group_by("carrier", maintain_order=True)
            .first()
        )
        return [(carrier, peak, day) for carrier, peak, day in first.select("carrier", "peak", "day").rows()]


def stepwise(frame: pl.DataFrame, name: str, value: str, empty: float | None = 0) -> dict[str, Series]:
    """Turn rows with lifetimes into one step function a name; `empty` stands where nothing is alive."""
    seconds = [(pl.col(column).dt.epoch("us") / 1e6).alias(column) for column in ("start", "end")]
    steps: dict[str, Series] = {}
    for key, start, end, now in frame.sort("start").select(name, *seconds, value).rows():
        series = steps.setdefault(key, [])
        if series and series[-1][0] == start:
            series.pop()
        series += [(start, now), (end, empty)]
    return steps


def sampled(series: Series, instants: list[float]) -> Series:
    """Read a step function at some instants."""
    times = [instant for instant, _ in series]
    found = [bisect_right(times, instant) - 1 for instant in instants]
    return [(instant, series[at][1] if at >= 0 else 0) for instant, at in zip(instants, found, strict=True)]


def within(series: Series, start: float, end: float) -> Series:
    """Cut a step function to a stretch of time."""
    inside = [pair for pair in series if start < pair[0] < end]
    return [*sampled(series, [start]), *inside, *sampled(series, [end])]


def in_order(flying: pl.DataFrame) -> list[str]:
    """List the carriers, those with the most aircraft in the air first."""
    most = (
        flying.group_by("carrier")
        .agg(pl.col("flying").max())
        .sort("flying", "carrier", descending=[True, False])
    )
    return most["carrier"].to_list()


def every_two_hours(flying: pl.DataFrame) -> list[float]:
    """Count all aircraft in the air every two hours of the week."""
    instants = [WEEK + half * 7200.0 for half in range(84)]
    carriers = [sampled(series, instants) for series in stepwise(flying, "carrier", "flying").values()]
    return [sum(series[at][1] or 0 for series in carriers) for at in range(len(instants))]


def write_page(path: Path, results: Results, flights: int, live: str) -> None:
    """Write the page."""
    carriers = in_order(results.flying)
    flying = stepwise(results.flying, "carrier", "flying")
    quarters = [WEEK + quarter * 900.0 for quarter in range(7 * 96 + 1)]
    page = Page(
        "A year of flights out of New York",
        f"Three plans over {flights:,} flights of 2013, and the same three over flights that arrive live. "
        "Times are those of New York in winter.",
    )
    shown = {carrier: sampled(flying[carrier], quarters) for carrier in carriers[:8]}
    page.section(
        "In the air",
        "How many aircraft of the eight largest carriers are in the air, in the week of 4 March. "
        "The plan counts lifetimes, from departure to arrival; the count is right at every instant.",
        stack_chart(shown, DAYS, "%a %-d %b", "Aircraft in the air by carrier, 4 to 10 March 2013"),
    )
    page.section(
        "The busiest moment of each day",
        "Each carrier's highest count of aircraft in the air, day by day: the more colour, the nearer to its "
        "highest of the year, which stands at the right.",
        heat_chart(
            peaks(results, carriers), MONTHS, "%b", "Daily peak of aircraft in the air by carrier, 2013"
        ),
    )
    sample = stepwise(results.departures, "origin", "departures")
    page.section(
        "Departures of a sample of aircraft",
        "One aircraft in twenty: departures per airport over the last hour, every ten minutes.",
        stack_chart(
            {origin: sampled(sample[origin], quarters) for origin in sorted(sample)},
            DAYS,
            "%a %-d %b",
            "Departures in the last hour by airport, 5 % sample of aircraft",
        ),
    )
    delay = stepwise(results.delays, "carrier", "delay", empty=None)
    page.section(
        "Delays without troubled aircraft",
        "Mean departure delay in minutes over the last six hours. An aircraft with more than two late "
        "departures in 24 hours is left out for as long as that holds.",
        line_chart(
            {carrier: within(delay[carrier], WEEK, WEEK + 7 * DAY) for carrier in carriers[:5]},
            DAYS,
            "%a %-d %b",
            "Mean departure delay by carrier, minutes, 4 to 10 March 2013",
        ),
    )
    page.section("The same plans, live", live + ".")
    rows = [(carrier, peak, f"{day:%-d %B}") for carrier, peak, day in results.busiest()]
    page.section("Most aircraft in the air at once", "", html_table(["carrier", "aircraft", "day"], rows))
    page.write(path)


def peaks(results: Results, carriers: list[str]) -> dict[str, Series]:
    """Give each carrier's peak of each day, at the day's beginning."""
    days = results.peaks.select("carrier", pl.col("start").dt.epoch("us") / 1e6 - DAY, "peak").sort("start")
    found: dict[str, Series] = {carrier: [] for carrier in carriers}
    for carrier, day, peak in days.rows():
        found[carrier].append((day, peak))
    return found
