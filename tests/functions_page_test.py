"""The page of the functions example shows every attempt, adds bills up, and needs nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import functions_page as page  # noqa: E402
from drawing import WIDTHS  # noqa: E402

if TYPE_CHECKING:
    from whimbrel.functions import Attempt, Bill
else:
    # The module alone: the package has a native half, which need not be built.
    source = ROOT / "python" / "whimbrel" / "function_bill.py"
    spec = importlib.util.spec_from_file_location("function_bill", source)
    module = sys.modules["function_bill"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    Attempt, Bill = module.Attempt, module.Bill

CALM = (
    Attempt(0, 0, "task", 0.0, 1.0, "ended"),
    Attempt(0, 1, "task", 0.0, 1.1, "ended"),
    Attempt(0, 0, "combine", 1.1, 1.4, "ended"),
    Attempt(1, 0, "task", 1.4, 2.0, "ended"),
)
TROUBLED = (
    Attempt(0, 0, "task", 0.0, 0.4, "lost"),
    Attempt(0, 1, "task", 0.0, 0.05, "throttled"),
    Attempt(0, 1, "task", 0.1, 1.1, "ended"),
    Attempt(0, 0, "task", 0.4, 1.6, "ended"),
    Attempt(1, 0, "kept", 0.0, 0.0, "ended"),
    Attempt(2, 0, "task", 1.6, 3.0, "late"),
    Attempt(2, 0, "task", 2.0, 2.5, "ended"),
)


def bill(attempts: tuple[Attempt, ...] = CALM, **changes: Any) -> Bill:
    usual: dict[str, Any] = {
        "dollars": 0.000125,
        "compute_dollars": 0.0001,
        "invocation_dollars": 0.000001,
        "get_dollars": 0.000004,
        "put_dollars": 0.00002,
        "storage_dollars": 0.0,
        "gets": 12,
        "puts": 4,
        "table_gets": 2,
        "invocations": 5,
        "gb_seconds": 6.0,
        "seconds": max(attempt.end for attempt in attempts),
        "read_bytes": 1000,
        "written_bytes": 1000,
        "hedged": 0,
        "failures": 0,
        "duplicates": 0,
        "formula": (9, 4),
        "prices": "aws-us-east-1-x86",
        "ran": "functions",
        "tasks": 4,
        "kept": 0,
        "attempts": attempts,
    }
    return Bill(**(usual | changes))


def ran(name: str, disturbed: Bill | None = None) -> page.Ran:
    return page.Ran(name, 0.5, bill(), disturbed, is_right=True)


CURVE = page.Curve(
    "TPC-H 12",
    "where a < b\n  * 2 shards: 1.00 s, $0.000100, 4.00 GB-s\n",
    2,
    [
        page.Point(1, (2.0, 0.00008), (2.5, 0.00009)),
        page.Point(2, (1.0, 0.0001), (1.4, 0.0002)),
        page.Point(4, (0.9, 0.0003), (1.3, 0.0004)),
    ],
)
RECT = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" ([^>]*)>')


def charts(drawn: str) -> dict[str, str]:
    return dict(re.findall(r'<div class="(\w+)">(<svg.*?</svg>)</div>', drawn))


@pytest.mark.parametrize("attempts", [CALM, TROUBLED])
def test_every_attempt_has_a_bar_of_its_outcome_and_no_bar_is_over_another(
    attempts: tuple[Attempt, ...],
) -> None:
    drawn = charts(page.timeline(bill(attempts), 3.0, "a query"))
    assert set(drawn) == set(WIDTHS)
    for name, svg in drawn.items():
        bars = RECT.findall(svg)
        assert len(bars) == len(attempts)
        for outcome, colour in page.OUTCOMES.items():
            assert sum(colour in look for *_, look in bars) == sum(a.outcome == outcome for a in attempts)
        assert sum("dasharray" in look for *_, look in bars) == sum(a.kind == "combine" for a in attempts)
        assert sum('fill="none"' in look for *_, look in bars) == sum(a.kind == "kept" for a in attempts)
        lines: dict[str, list[tuple[float, float]]] = {}
        for x, y, width, *_ in bars:
            lines.setdefault(y, []).append((float(x), float(x) + float(width)))
        for spans in map(sorted, lines.values()):
            # Positions are rounded to tenths.
            assert all(end <= start + 0.2 for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
            assert spans[-1][1] <= WIDTHS[name]
        assert max(float(y) + float(height) for _, y, _, height, _ in bars) < int(height_of(svg))


def height_of(svg: str) -> str:
    found = re.search(r'viewBox="0 0 \d+ (\d+)"', svg)
    assert found is not None
    return found[1]


def test_the_curve_has_a_point_for_each_number_of_shards_as_expected_and_as_measured() -> None:
    for name, svg in charts(page.curve_chart(CURVE.points, "a curve")).items():
        points = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
        assert len(points) == 2 * len(CURVE.points)
        measured = points[: len(CURVE.points)]
        # More shards cost more, to the right, and take less, which is further down.
        assert measured == sorted(measured)
        assert all(0 <= x <= WIDTHS[name] and 0 <= y <= int(height_of(svg)) for x, y in points)


def test_bills_are_added_up_and_requests_stand_beside_the_formula() -> None:
    *each, every = page.bill_rows([("a", bill()), ("b", bill(failures=1, hedged=1200))])
    assert [row[0] for row in each] == ["a", "b"]
    cost = ["125.0", "100.0", "1.0", "4.0", "20.0", "0.0"]
    assert each[0] == ["a", "2.00", *cost, "10 / 9", "4 / 4", "2", "0", "0", "0"]
    assert every[:3] == ["all", "4.00", "250.0"]
    assert every[-6:] == ["20 / 18", "8 / 8", "4", "1", "0", "1,200"]


def test_the_timeline_is_that_of_the_query_that_was_disturbed_most() -> None:
    queries = [ran("calm", bill()), ran("troubled", bill(TROUBLED)), ran("alone")]
    assert page.most_disturbed(queries).name == "troubled"
    assert page.most_disturbed([ran("alone")]).name == "alone"


class Nesting(HTMLParser):
    """Checks that elements end in order, but for those that have no end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("with_faults", [True, False])
def test_the_page_has_all_of_it_and_nothing_from_elsewhere(tmp_path: Path, with_faults: bool) -> None:
    troubled = bill(TROUBLED, failures=1) if with_faults else None
    wrong = page.Ran("TPC-H <2>", 0.5, bill(), troubled, is_right=False)
    page.write_page(tmp_path / "page.html", [ran("TPC-H 1"), wrong], CURVE, "4 emulators")
    html = (tmp_path / "page.html").read_text()
    nesting = Nesting()
    nesting.feed(html)
    assert nesting.open == []
    assert "http" not in html and "<script" not in html
    assert "TPC-H &lt;2&gt;" in html and "TPC-H <2>" not in html
    assert "where a &lt; b" in html
    assert "DIFFERENT" in html and "equal" in html
    # A timeline without faults, one with them, and the curve; each for a wide window and for a phone.
    assert html.count("<svg") == 2 * (3 if with_faults else 2)
    assert html.count("<table") == (4 if with_faults else 3)
