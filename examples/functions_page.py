"""The page that `functions.py` leaves behind: what each attempt did, and what queries cost and took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from drawing import COLOURS, WIDTHS, Axes, Page, html_table, legend, nice, of_all_widths

if TYPE_CHECKING:
    # The package has a native half, and the page does not need it.
    from whimbrel.functions import Attempt, Bill

OUTCOMES = {"ended": COLOURS[2], "late": COLOURS[1], "lost": COLOURS[4], "throttled": COLOURS[8]}
DOLLARS = (
    "dollars",
    "compute_dollars",
    "invocation_dollars",
    "get_dollars",
    "put_dollars",
    "storage_dollars",
)
LANE = 14


@dataclass(frozen=True)
class Ran:
    """A query: its seconds in the process that asks, its bills on functions, and whether answers agree."""

    name: str
    here: float
    alone: Bill
    disturbed: Bill | None
    is_right: bool


@dataclass(frozen=True)
class Point:
    """A number of shards, and the seconds and dollars that a query takes in it."""

    shards: int
    expected: tuple[float, float]
    measured: tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """What a query costs and takes in several numbers of shards, and the plan that is chosen."""

    name: str
    plan: str
    chosen: int | None
    points: list[Point]


# -------------------------------------------------------------------------------------------------- bills


def costs(bills: Sequence[Bill]) -> list[str]:
    """Add up what queries cost, in millionths of a dollar: all of it, and by kind, as in `DOLLARS`."""
    return [f"{sum(getattr(bill, name) for bill in bills) * 1e6:,.1f}" for name in DOLLARS]


def requests(bills: Sequence[Bill]) -> list[str]:
    """Add up reads and writes of exchanges, each beside that of the formula, and reads of tables."""
    tables = sum(bill.table_gets for bill in bills)
    reads, writes = sum(bill.gets for bill in bills) - tables, sum(bill.puts for bill in bills)
    least_reads, least_writes = (sum(bill.formula[kind] for bill in bills) for kind in (0, 1))
    return [f"{reads:,} / {least_reads:,}", f"{writes:,} / {least_writes:,}", f"{tables:,}"]


def troubles(bills: Sequence[Bill]) -> list[str]:
    """Add up attempts that were lost, tasks that were invoked twice, and requests that were sent twice."""
    return [f"{sum(getattr(bill, n) for bill in bills):,}" for n in ("failures", "duplicates", "hedged")]


def seconds(bills: Sequence[Bill]) -> str:
    """Add up how long queries took."""
    return f"{sum(bill.seconds for bill in bills):,.2f}"


def bill_rows(queries: Sequence[tuple[str, Bill]]) -> list[list[str]]:
    """Make a line of a table for each query, and one for all of them."""
    named = [(name, [bill]) for name, bill in queries]
    named.append(("all", [bill for _, bill in queries]))
    return [[name, seconds(of), *costs(of), *requests(of), *troubles(of)] for name, of in named]


def bills_table(queries: Sequence[tuple[str, Bill]]) -> str:
    """Write the bills of some queries as a table that scrolls on narrow screens."""
    kinds = ("all of it", "compute", "invocations", "GETs", "PUTs", "storage")
    head = ("query", "seconds", *kinds, "reads", "writes", "of tables", "lost", "twice", "hedged")
    return f'<div style="overflow-x: auto">{html_table(head, bill_rows(queries))}</div>'


# ------------------------------------------------------------------------------------------------- charts


def ticks(axes: Axes, unit: str) -> str:
    """Write values under a plot that begins with 0, as many as there is room for."""
    parts, step = [], nice(axes.end * 90 / axes.width)
    for number in range(int(axes.end / step * 1.0001) + 1):
        x, y = axes.x(number * step), axes.height - axes.below
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{y}" y2="{y + 5}"/>')
        text = f"{number * step:g}{unit}"
        parts.append(f'<text class="tick" x="{x}" y="{y + 18}" text-anchor="middle">{text}</text>')
    return "".join(parts)


def lanes(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """Lay attempts into few lines, in none of which one begins before the one before it has ended."""
    found: list[list[Attempt]] = []
    for attempt in sorted(attempts, key=lambda attempt: (attempt.start, attempt.end)):
        free = next((lane for lane in found if lane[-1].end <= attempt.start), None)
        if free is None:
            found.append([attempt])
        else:
            free.append(attempt)
    return found


def attempt_bar(attempt: Attempt, axes: Axes, y: float) -> str:
    """Draw an attempt: its colour is its outcome, its look what it was at."""
    x, colour = axes.x(attempt.start), OUTCOMES[attempt.outcome]
    width = max(axes.x(attempt.end) - x, 2)
    look = f'fill="{colour}"'
    if attempt.kind == "combine":
        look += ' stroke="var(--ink)" stroke-dasharray="3 2"'
    elif attempt.kind == "kept":
        # It took no time.
        look, width = f'fill="none" stroke="{colour}"', 6
    about = f"stage {attempt.stage}, {attempt.kind} {attempt.task}: {attempt.outcome}"
    about += f", {attempt.start:.2f} to {attempt.end:.2f} s"
    size = f'width="{width:.1f}" height="{LANE - 3}"'
    return f'<rect x="{x}" y="{y}" {size} {look}><title>{escape(about)}</title></rect>'


@of_all_widths
def timeline(bill: Bill, end: float, label: str, width: int = WIDTHS["wide"]) -> str:
    """Draw the attempts of a query below each other, stage by stage, up to an instant."""
    stages = sorted({attempt.stage for attempt in bill.attempts})
    lines = {stage: lanes(a for a in bill.attempts if a.stage == stage) for stage in stages}
    height = LANE * sum(map(len, lines.values())) + 38
    axes = Axes(0, end, 1, width=width, height=height, left=62, right=26, above=6)
    parts, y = [ticks(axes, " s")], axes.above
    for stage, own in lines.items():
        parts.append(f'<line class="grid" x1="0" x2="{width - axes.right}" y1="{y - 1}" y2="{y - 1}"/>')
        parts.append(f'<text class="tick" x="0" y="{y + 10}">stage {stage}</text>')
        for lane in own:
            parts += [attempt_bar(attempt, axes, y) for attempt in lane]
            y += LANE
    return axes.svg("".join(parts), label)


def key() -> str:
    """Say what the colours and looks of attempts mean."""
    names = [f'<b style="color: {colour}">■</b> {outcome}' for outcome, colour in OUTCOMES.items()]
    names += ["dashed: it combines what others have written", "hollow: its output was kept"]
    return f"<p>{' &ensp; '.join(names)}</p>"


@of_all_widths
def curve_chart(points: Sequence[Point], label: str, width: int = WIDTHS["wide"]) -> str:
    """Draw seconds over millionths of a dollar, as expected and as measured, a point a number of shards."""
    both = [place for point in points for place in (point.expected, point.measured)]
    most_seconds, most_dollars = (nice(max(1e-9, *(place[kind] for place in both))) for kind in (0, 1))
    axes = Axes(0, most_dollars * 1e6, most_seconds, width=width)
    parts, ends = [axes.grid(), ticks(axes, "")], []
    for name, colour, dash in (("measured", COLOURS[0], ""), ("expected", COLOURS[1], "4 3")):
        found = [(point.shards, *getattr(point, name)) for point in points]
        places = [(shards, axes.x(dollars * 1e6), axes.y(took)) for shards, took, dollars in found]
        path = "L".join(f"{x} {y}" for _, x, y in places)
        stroke = f'stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'
        parts.append(f'<path d="M{path}" fill="none" {stroke}/>')
        for shards, x, y in places:
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"><title>{name}</title></circle>')
            parts.append(f'<text class="tick" x="{x + 6}" y="{max(y - 6, 11)}">{shards}</text>')
        ends.append((places[-1][2], name, colour))
    return axes.svg("".join([*parts, legend(axes, ends)]), label)


# --------------------------------------------------------------------------------------------------- page


def most_disturbed(queries: Sequence[Ran]) -> Ran:
    """Find the query in which the most attempts had another outcome than to end, or the most there were."""

    def failed(query: Ran) -> tuple[int, int]:
        attempts = (query.disturbed or query.alone).attempts
        return sum(attempt.outcome != "ended" for attempt in attempts), len(attempts)

    return max(queries, key=failed)


def add_timelines(page: Page, query: Ran) -> None:
    """Show what the attempts of a query did, without and with faults, in the same scale of time."""
    bills = {"undisturbed": query.alone}
    if query.disturbed is not None:
        bills["with faults"] = query.disturbed
    every = [attempt.end for bill in bills.values() for attempt in bill.attempts]
    end = max([0.01, *every, *(bill.seconds for bill in bills.values())])
    charts = []
    for how, bill in bills.items():
        label = f"{query.name}, {how}: {bill.seconds:.2f} s, {bill.dollars * 1e6:,.1f} millionths of a dollar"
        charts.append(f"<p>{escape(label)}</p>{timeline(bill, end, label)}")
    text = (
        "A bar for each attempt to run a task of a stage, from its invocation to its answer. A task whose "
        "attempt is lost is invoked again; an attempt is late if another one at the same task was faster. "
        "Tasks that have little to read are invoked together, and lost together."
    )
    page.section(f"Attempts: {query.name}", text, *charts, key())


def add_curve(page: Page, curve: Curve) -> None:
    """Show what more shards cost, and what they bring."""
    chosen = "" if curve.chosen is None else f" The planner takes {curve.chosen}."
    text = (
        "Seconds from bottom to top, millionths of a dollar from left to right; the numbers at the points "
        f"are shards.{chosen} What is expected is computed before the query runs, for functions that have a "
        "processor each; here, all of them and their objects share one machine."
    )
    rows = [
        (point.shards, *(f"{took:.2f}" for took, _ in both), *(f"{cost * 1e6:,.1f}" for _, cost in both))
        for point in curve.points
        for both in [(point.expected, point.measured)]
    ]
    head = ("shards", "seconds expected", "measured", "millionths of a dollar expected", "measured")
    plan = f'<pre style="overflow-x: auto; font-size: 12px">{escape(curve.plan)}</pre>'
    chart = curve_chart(curve.points, f"{curve.name}: seconds and dollars by the number of shards")
    page.section(f"Cost and time: {curve.name}", text, chart, html_table(head, rows), plan)


def add_bills(page: Page, queries: Sequence[Ran]) -> None:
    """Show all bills."""
    text = (
        "In millionths of a dollar. Reads and writes are those of exchanges, beside those of the formula, "
        "which sends each once; tables are read besides. Lost are attempts, twice are tasks that were "
        "invoked again as they took too long, hedged are requests that were sent again."
    )
    alone = [(query.name, query.alone) for query in queries]
    page.section(f"Bills, undisturbed, at the prices of {queries[0].alone.prices}", text, bills_table(alone))
    disturbed = [(query.name, query.disturbed) for query in queries if query.disturbed is not None]
    if disturbed:
        page.section("Bills with faults", "The same queries again.", bills_table(disturbed))
    answers = {True: "equal", False: "DIFFERENT"}
    rows = [(query.name, f"{query.here:.2f}", answers[query.is_right]) for query in queries]
    text = "Seconds in the process that asks, and whether the answers of functions are equal to its own."
    page.section("Answers", text, html_table(("query", "seconds here", "answers"), rows))


def write_page(path: Path, queries: Sequence[Ran], curve: Curve | None, place: str) -> None:
    """Write the page; `place` says where the functions ran."""
    summary = (
        f"Queries of TPC-H and over a year of flights on {place}. Functions keep nothing and know nothing of "
        "each other: all that they exchange goes through object storage, and every query has a bill."
    )
    page = Page("Queries on functions", summary)
    add_timelines(page, most_disturbed(queries))
    if curve is not None:
        add_curve(page, curve)
    add_bills(page, queries)
    page.write(path)
