"""What is shown, and that showing runs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import whimbrel as wb


def explosive() -> wb.ShardedStream:
    """Make a stream that would fail if it ran."""

    def explode(e: Any) -> bool:
        raise RuntimeError("it ran")

    return wb.from_rows([{"item": "a", "price": 1.5}]).query(lambda q: q.where(wb.udf(explode)))


def test_reprs_show_schema_and_plan_and_run_nothing() -> None:
    stream = explosive().rekey("item").redistribute(2)
    text = repr(stream)
    assert "2 shards" in text and "item: string, price: float64" in text
    assert "redistribute by item" in text and "where" in text
    html = stream._repr_html_()
    assert "<td>item</td>" in html and "redistribute by item" in html and "monospace" in html


def test_explain_is_deterministic(clicks: wb.ShardedStream) -> None:
    def plan() -> str:
        return clicks.query(
            lambda q: q.tumbling(10).aggregate(n=wb.count(where=lambda e: e.price > 1))
        ).explain()

    assert plan() == plan()
    assert "tumbling 10" in plan()


def test_show_prints_the_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    wb.from_rows([{"n": n, "name": f"row {n}"} for n in range(30)]).show(2)
    assert capsys.readouterr().out == (
        "┌───────┬────────┐\n"
        "│     n │ name   │\n"
        "│ int64 │ string │\n"
        "├───────┼────────┤\n"
        "│     0 │ row 0  │\n"
        "│     1 │ row 1  │\n"
        "│     … │ …      │\n"
        "└───────┴────────┘\n"
    )


def test_show_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    wb.from_rows([], schema={"n": "int64"}).show()
    assert "int64" in capsys.readouterr().out


def test_wide_tables_are_cut_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = wb.from_rows([{f"column_{n}": n for n in range(20)}]).collect()
    lines = repr(table).splitlines()
    assert max(map(len, lines)) <= 60
    assert "column_0" in lines[1] and "column_19" in lines[1] and "…" in lines[1]


def test_table_reprs() -> None:
    table = wb.from_rows([{"a": n, "b": None, "c": "<x>\n" + "y" * 99} for n in range(12)]).collect()
    text = repr(table)
    assert text.endswith("12 rows, 3 columns") and "…" in text and "⏎" in text
    html = table._repr_html_()
    assert "&lt;x&gt;" in html and "12 rows, 3 columns; 10 shown" in html


def test_rows_and_schemas() -> None:
    stream = wb.from_rows([{"item": "a", "price": 1.5}])
    assert repr(stream.to_rows()[0]) == "Row(item='a', price=1.5)"
    assert repr(stream.schema) == "Schema(item: string, price: float64)"
    assert stream.to_rows()[0] == {"item": "a", "price": 1.5}
    with pytest.raises(AttributeError, match='"itme" not found; did you mean "item"'):
        _ = stream.to_rows()[0].itme


def test_progress_is_silent_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    import time

    slow = wb.udf(lambda e: time.sleep(0.002) or True)
    wb.from_rows([{"n": n} for n in range(400)]).query(lambda q: q.where(slow)).collect()
    assert capfd.readouterr().err == ""


SLOW = """
import time
import whimbrel as wb
slow = wb.udf(lambda e: time.sleep(0.002) or True)
wb.from_rows([{"n": n} for n in range(600)], time="n").query(lambda q: q.where(slow)).collect(batch_rows=50%s)
"""


def shown_on_a_terminal(options: str) -> str:
    import pty

    terminal, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SLOW % options], stderr=end, env={**os.environ, "TERM": "xterm"}
    ) as child:
        os.close(end)
        said = b""
        try:
            while part := os.read(terminal, 4096):
                said += part
        except OSError:
            # Linux says so when the other end is closed.
            pass
        assert child.wait() == 0
    os.close(terminal)
    return said.decode()


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo terminal")
def test_progress_is_shown_on_a_terminal_and_can_be_switched_off() -> None:
    assert "% of 600 rows" in shown_on_a_terminal("")
    assert shown_on_a_terminal(", progress=False") == ""
