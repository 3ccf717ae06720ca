"""A page with the timeline of every channel of some queries: where it ran, and what ran again."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whimbrel as wb

WIDTH, ROW, LEFT = 900, 14, 150
COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#72b7b2", "#eeca3b", "#ff9da6")

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h2 { margin: 2em 0 0; font-size: 16px; } p { margin: 0 0 .5em; color: #555; }
.scroll { overflow-x: auto; } svg { display: block; width: 100%; min-width: 640px; max-width: 1054px; }
svg text { font-size: 10px; fill: #555; } .key span { display: inline-block; margin-right: 1.2em; }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
"""


@dataclass
class Disturbed:
    """A query during which a worker was lost: its seconds, its answer, and what its channels did."""

    name: str
    seconds: float
    answer: list[tuple[Any, ...]]
    stats: wb.cluster.JobStatistics
    runs: list[wb.cluster.Run]


def timeline(query: Disturbed) -> str:
    """Draw the runs of the channels of a query, a line for each channel."""
    start = min(run.began for run in query.runs)
    span = max((run.seen - start).total_seconds() for run in query.runs) or 1e-3
    workers = sorted({run.worker for run in query.runs})
    lines = sorted({(run.stage, run.channel) for run in query.runs})
    last = {
        line: max(run.attempt for run in query.runs if (run.stage, run.channel) == line) for line in lines
    }
    marks = []
    for run in query.runs:
        line = (run.stage, run.channel)
        x = LEFT + (run.began - start).total_seconds() / span * WIDTH
        width = max((run.seen - run.began).total_seconds() / span * WIDTH, 2)
        color = COLORS[workers.index(run.worker) % len(COLORS)]
        is_lost = run.attempt < last[line]
        about = f"stage {run.stage}, channel {run.channel}, attempt {run.attempt}: {run.rows:,} rows"
        look = f'fill="{color}" fill-opacity="0.25" stroke="{color}"' if is_lost else f'fill="{color}"'
        y = lines.index(line) * ROW
        marks.append(
            f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{ROW - 4}" {look}>'
            f"<title>{about}{', lost' if is_lost else ''}</title></rect>"
        )
    labels = [
        f'<text x="0" y="{number * ROW + 11}">stage {stage}, channel {channel}</text>'
        for number, (stage, channel) in enumerate(lines)
    ]
    key = "".join(
        f'<span><i style="background:{COLORS[n % len(COLORS)]}"></i>{html.escape(worker)}</span>'
        for n, worker in enumerate(workers)
    )
    size = f'viewBox="0 0 {LEFT + WIDTH + 4} {len(lines) * ROW}"'
    svg = f"<svg {size}>{''.join(labels + marks)}</svg>"
    return f'<div class="scroll">{svg}</div><p class="key">{key}</p>'


def write_page(path: Path, queries: list[Disturbed]) -> None:
    """Write the page."""
    parts = []
    for query in queries:
        stats = query.stats
        facts = (
            f"{query.seconds:.2f} s",
            f"{stats.rows - stats.replayed_rows:,} rows, {stats.replayed_rows:,} of them again",
            f"{stats.moved_bytes:,} bytes moved between workers",
            f"{stats.lineage_bytes:,} bytes of lineage",
        )
        parts.append(f"<h2>{html.escape(query.name)}</h2><p>{'; '.join(facts)}</p>{timeline(query)}")
    intro = (
        "A line for each channel, a bar for each run of it, a color for each worker. A pale bar was lost "
        "with its worker; what it had done is done again by another one."
    )
    path.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Channels of a cluster</title><style>{STYLE}</style>"
        f"<h1>Where the channels ran</h1><p>{intro}</p>{''.join(parts)}\n"
    )
