"""Tables as text and as HTML."""

from __future__ import annotations

import datetime
import html
import shutil
from typing import Any

from . import _whimbrel as native

_RIGHT = ("int", "uint", "float", "decimal", "duration")
_WIDEST_CELL = 40


def text_table(table: native.Table, *, more: bool = False) -> str:
    """Draw a table with a frame, cut to the terminal's width; `more` says that rows are left out."""
    schema = table.schema()
    names, types = schema.names(), schema.types()
    columns = [[_cell(value) for value in table.column(name)] for name in names]
    if more:
        columns = [[*column, "…"] for column in columns]
    widths = [
        max(map(len, [name, kind, *column])) for name, kind, column in zip(names, types, columns, strict=True)
    ]
    shown = _fitting(widths, shutil.get_terminal_size((100, 24)).columns)
    return _frame(
        [_pick(names, shown), _pick(types, shown)],
        list(zip(*_pick(columns, shown), strict=True)) if columns else [],
        [widths[i] if i is not None else 1 for i in shown],
        [i is not None and types[i].startswith(_RIGHT) for i in shown],
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        return text + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
    if isinstance(value, float):
        return f"{value:.6g}" if value == value and abs(value) < 1e15 and value != int(value) else repr(value)
    text = str(value).replace("\n", "⏎")
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _fitting(widths: list[int], room: int) -> list[int | None]:
    """Choose the columns that fit, from both ends; `None` stands for those left out."""
    if sum(width + 3 for width in widths) + 1 <= room:
        return list(range(len(widths)))
    left, right, used = [], [], 5
    for step in range(len(widths)):
        index = step // 2 if step % 2 == 0 else len(widths) - 1 - step // 2
        if used + widths[index] + 3 > room and step > 0:
            break
        used += widths[index] + 3
        (left if step % 2 == 0 else right).append(index)
    return [*left, None, *reversed(right)]


def _pick(parts: list[Any], shown: list[int | None]) -> list[Any]:
    length = len(parts[0]) if parts and isinstance(parts[0], list) else 0
    return [
        parts[i] if i is not None else (["…"] * length if length or isinstance(parts[0], list) else "…")
        for i in shown
    ]


def _frame(heads: list[list[str]], rows: list[Any], widths: list[int], right: list[bool]) -> str:
    def line(cells: Any) -> str:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "│ " + " │ ".join(padded) + " │"

    def rule(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + end

    lines = [
        rule("┌", "┬", "┐"),
        *map(line, heads),
        rule("├", "┼", "┤"),
        *map(line, rows),
        rule("└", "┴", "┘"),
    ]
    return "\n".join(line.rstrip() for line in lines)


def html_table(table: native.Table, note: str) -> str:
    """Write a table for a notebook."""
    schema = table.schema()
    names, types = schema.names(), schema.types()
    heads = "".join(
        f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>"
        for name, kind in zip(names, types, strict=True)
    )
    columns = [[html.escape(_cell(value)) for value in table.column(name)] for name in names]
    rows = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in zip(*columns, strict=True))
    table_html = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f"{table_html}<small>{html.escape(note)}</small>"


# Notebooks have fonts of their own for what they show; a drawing needs letters of one width.
_DRAWING = "font-family: ui-monospace, Menlo, Consolas, monospace; white-space: pre; overflow-x: auto"


def html_plan(title: str, schema: native.Schema, plan: str) -> str:
    """Write what is known of a stream before it runs, for a notebook."""
    pairs = zip(schema.names(), schema.types(), strict=True)
    rows = "".join(
        f"<tr><td>{html.escape(n)}</td><td><code>{html.escape(t)}</code></td></tr>" for n, t in pairs
    )
    return (
        f"<div><b>{html.escape(title)}</b><table><thead><tr><th>column</th><th>type</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><details open><summary>plan</summary>"
        f'<pre style="{_DRAWING}">{html.escape(plan)}</pre></details></div>'
    )
