"""How the examples draw: charts for the terminal, and an HTML page of SVG charts that needs nothing else.

Nothing here knows what is drawn. A series is a list of `(instant, value)` pairs in order of time: from the
instant, in seconds, the value holds until the next; `None` is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any

Series = list[tuple[float, float | None]]

EIGHTHS = " ▁▂▃▄▅▆▇█"

# Told apart in print and by most kinds of colour vision (after Okabe and Ito), then greys.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a6fd1", "#b5a642", "#8c8c8c")


def day_of(instant: float, form: str = "%-d %b") -> str:
    """Write an instant as a date."""
    return datetime.fromtimestamp(instant, timezone.utc).strftime(form)


# ---------------------------------------------------------------------------------------------- terminal


def columns(values: Sequence[float], height: int = 8) -> list[str]:
    """Draw values as block columns, `height` rows high, with the scale on the left."""
    top = nice(max(values, default=0) or 1)
    filled = [round(value / top * height * 8) for value in values]
    rows = []
    for row in reversed(range(height)):
        label = f"{top * (row + 1) / height:6.0f}" if (row + 1) * 2 % height == 0 else " " * 6
        cells = "".join(EIGHTHS[max(0, min(8, eighths - row * 8))] for eighths in filled)
        rows.append(f"{label} ┤{cells}")
    return [*rows, f"{0:6} └" + "─" * len(values)]


def bar(value: float, of: float, width: int = 24) -> str:
    """Draw one value as a horizontal bar, `of` being the longest."""
    eighths = round(width * 8 * max(0.0, value) / of) if of > 0 else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def nice(value: float) -> float:
    """Round up to 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 or 10 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.9999
    )


# ------------------------------------------------------------------------------------------------- charts


# How wide charts are drawn, each for screens of about that many pixels: letters have one size in all.
WIDTHS = {"wide": 960, "narrow": 400}

# How much room a letter of a label takes.
LETTER = 6.6


@dataclass(frozen=True)
class Axes:
    """A plot's rectangle: instants from left to right, values from 0 (or `bottom`) up to `top`."""

    start: float
    end: float
    top: float
    bottom: float = 0.0
    width: int = WIDTHS["wide"]
    height: int = 280
    left: int = 46
    right: int = 74
    above: int = 12
    below: int = 26

    def x(self, instant: float) -> float:
        """Where an instant is."""
        share = (instant - self.start) / (self.end - self.start)
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        """Where a value is."""
        share = (value - self.bottom) / (self.top - self.bottom)
        return round(self.height - self.below - share * (self.height - self.above - self.below), 1)

    def grid(self) -> str:
        """Draw horizontal lines with their values, a quarter of the top apart."""
        parts, quarter = [], self.top / 4
        for step in range(round(self.bottom / quarter), 5):
            value = quarter * step
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{self.left}" x2="{self.width - self.right}" y1="{y}" y2="{y}"/>'
            )
            parts.append(
                f'<text class="tick" x="{self.left - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>'
            )
        return "".join(parts)

    def dates(self, instants: Iterable[float], form: str) -> str:
        """Write dates under the plot, each beginning at its instant; those for which there is room."""
        parts, free = [], 0.0
        for instant in instants:
            x, y = self.x(instant), self.height - self.below
            parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{y}" y2="{y + 5}"/>')
            text = day_of(instant, form)
            if x < free or x + 4 + LETTER * len(text) > self.width:
                continue
            free = x + LETTER * (len(text) + 1)
            parts.append(f'<text class="tick" x="{x + 4}" y="{y + 17}">{text}</text>')
        return "".join(parts)

    def svg(self, inside: str, label: str) -> str:
        """Wrap what was drawn; `label` is the text for screen readers."""
        size, text = f'viewBox="0 0 {self.width} {self.height}"', escape(label)
        return f'<svg {size} role="img" aria-label="{text}"><title>{text}</title>{inside}</svg>'


def steps(axes: Axes, series: Series) -> str:
    """Return the path of a step function, interrupted in its gaps."""
    path, before = [], None
    for instant, value in series:
        if before is not None:
            path.append(f"H{axes.x(instant)}")
        if value is not None:
            move = f"M{axes.x(instant)} " if before is None else "V"
            path.append(f"{move}{axes.y(value)}")
        before = value
    return "".join(path)


def labels_apart(wanted: list[tuple[float, str, str]], gap: float = 14) -> list[tuple[float, str, str]]:
    """Move labels `(y, text, colour)` down where they would touch."""
    placed: list[tuple[float, str, str]] = []
    for y, text, colour in sorted(wanted):
        lowest = placed[-1][0] + gap if placed else y
        placed.append((max(y, lowest), text, colour))
    return placed


def legend(axes: Axes, wanted: list[tuple[float, str, str]]) -> str:
    """Write the names of what is drawn at the right edge, each in its colour."""
    x = axes.width - axes.right + 6
    return "".join(
        f'<text class="name" x="{x}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}</text>'
        for y, name, colour in labels_apart(wanted)
    )


def of_all_widths(chart: Callable[..., str]) -> Callable[..., str]:
    """Draw a chart once for each width; the page shows the one that fits."""

    @wraps(chart)
    def draw(*arguments: Any, **named: Any) -> str:
        return "".join(
            f'<div class="{name}">{chart(*arguments, **named, width=width)}</div>'
            for name, width in WIDTHS.items()
        )

    return draw


@of_all_widths
def line_chart(
    named: dict[str, Series], ticks: Sequence[float], form: str, label: str, width: int = WIDTHS["wide"]
) -> str:
    """Draw step lines, each with its name where it ends."""
    every = [(instant, value) for series in named.values() for instant, value in series if value is not None]
    values = [value for _, value in every]
    top, lowest = nice(max(*values, 1)), min(values)
    # Below zero go as many of the scale's quarters as are needed.
    bottom = -top / 4 * math.ceil(-lowest / (top / 4)) if lowest < 0 else 0.0
    axes = Axes(min(t for t, _ in every), max(t for t, _ in every), top, bottom, width)
    parts, ends = [axes.grid(), axes.dates(ticks, form)], []
    for (name, series), colour in zip(named.items(), COLOURS, strict=False):
        parts.append(f'<path d="{steps(axes, series)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        ends.append((axes.y(next(v for _, v in reversed(series) if v is not None)), name, colour))
    return axes.svg("".join([*parts, legend(axes, ends)]), label)


@of_all_widths
def stack_chart(
    named: dict[str, Series], ticks: Sequence[float], form: str, label: str, width: int = WIDTHS["wide"]
) -> str:
    """Draw areas one upon another; all series have the same instants, and a gap counts as 0."""
    instants = [instant for instant, _ in next(iter(named.values()))]
    levels = [[0.0] * len(instants)]
    for series in named.values():
        levels.append([base + (value or 0) for base, (_, value) in zip(levels[-1], series, strict=True)])
    axes = Axes(instants[0], instants[-1], nice(max(levels[-1])), width=width, height=320)
    widest = max(range(len(instants)), key=levels[-1].__getitem__)
    parts, names = [axes.grid()], []
    for name, colour, below, above in zip(named, COLOURS, levels, levels[1:], strict=False):
        forth = [f"{axes.x(t)} {axes.y(v)}" for t, v in zip(instants, above, strict=True)]
        back = [f"{axes.x(t)} {axes.y(v)}" for t, v in zip(instants, below, strict=True)]
        outline = "L".join([*forth, *reversed(back)])
        parts.append(f'<path d="M{outline}Z" fill="{colour}" fill-opacity=".88"/>')
        names.append((axes.y((below[widest] + above[widest]) / 2), name, colour))
    return axes.svg("".join([*parts, axes.dates(ticks, form), legend(axes, names)]), label)


@of_all_widths
def heat_chart(
    named: dict[str, Series],
    ticks: Sequence[float],
    form: str,
    label: str,
    levels: int = 8,
    width: int = WIDTHS["wide"],
) -> str:
    """Draw a row of cells a series: the more colour, the nearer to its highest value, shown at its end."""
    instants = sorted({instant for series in named.values() for instant, _ in series})
    pitch, wide = 20, instants[-1] - instants[0]
    step = wide / max(1, len(instants) - 1)
    height = pitch * len(named) + 32
    axes = Axes(instants[0], instants[-1] + step, 1, width=width, height=height, above=6, right=54)
    cell = step / (axes.end - axes.start) * (axes.width - axes.left - axes.right)
    parts = [axes.dates(ticks, form)]
    for row, (name, series) in enumerate(named.items()):
        y, top = axes.above + row * pitch, max((value or 0 for _, value in series), default=0) or 1
        cells: dict[int, list[str]] = {}
        for instant, value in series:
            level = math.ceil((value or 0) / top * levels)
            cells.setdefault(level, []).append(f"M{axes.x(instant)} {y}h{cell:.2f}v{pitch - 3}h-{cell:.2f}z")
        for level, paths in cells.items():
            shade = f'fill="var(--heat)" fill-opacity="{(level / levels) ** 1.6:.3f}"'
            parts.append(f'<path d="{"".join(paths)}" {shade}/>')
        parts.append(
            f'<text class="tick" x="{axes.left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
        )
        parts.append(f'<text class="tick" x="{axes.width - axes.right + 6}" y="{y + 13}">{top:g}</text>')
    return axes.svg("".join(parts), label)


# --------------------------------------------------------------------------------------------------- page

STYLE = """
:root { color-scheme: light dark;
        --ink: #1d2129; --soft: #667085; --line: #e4e7ec; --paper: #fdfdfc; --heat: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #98a2b3; --line: #30353d; --paper: #16191e; --heat: #56b4e9; }
  .name { filter: brightness(1.35); }
}
body { margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.5rem 4rem; color: var(--ink);
       background: var(--paper); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.8rem 0 .2rem; }
p { margin: .2rem 0 .8rem; color: var(--soft); max-width: 46rem; }
svg { display: block; width: 100%; height: auto; }
.narrow { display: none; }
@media (max-width: 40rem) {
  body { padding: 1.5rem 1rem 3rem; }
  .narrow { display: block; } .wide { display: none; }
}
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.tick { fill: var(--soft); font-size: 12px; } .name { font-size: 12.5px; font-weight: 600; }
"""


@dataclass
class Page:
    """An HTML page with everything in it: no script, no network."""

    title: str
    summary: str
    sections: list[str] = field(default_factory=list)

    def section(self, heading: str, text: str, *contents: str) -> None:
        """Add a heading, a paragraph, and charts or tables."""
        self.sections.append(f"<h2>{escape(heading)}</h2><p>{escape(text)}</p>{''.join(contents)}")

    def write(self, path: Path) -> None:
        """Write the page."""
        title = escape(self.title)
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        body = f"<h1>{title}</h1><p>{escape(self.summary)}</p>{''.join(self.sections)}"
        head = f"<head>{meta}<title>{title}</title><style>{STYLE}</style></head>"
        path.write_text(
            f'<!doctype html><html lang="en">{head}<body>{body}</body></html>\n', encoding="utf-8"
        )


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table; the first column is text, the others are numbers."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"
