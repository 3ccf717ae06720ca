"""The charts of the examples can be read on a phone and on a screen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from drawing import LETTER, STYLE, WIDTHS, Series, heat_chart, line_chart, stack_chart

DAY = 86_400.0
WEEK: dict[str, Series] = {name: [(day * DAY, float(day)) for day in range(8)] for name in ("UA", "B6")}
LABEL = re.compile(r'<text class="tick" x="([\d.]+)" y="([\d.]+)">([^<]+)</text>')


@pytest.mark.parametrize("chart", [line_chart, stack_chart, heat_chart])
def test_there_is_a_chart_for_each_width_whose_dates_do_not_touch(chart: Callable[..., str]) -> None:
    drawn = chart(WEEK, [day * DAY for day in range(7)], "%a %-d %b", "a week")
    charts = dict(re.findall(r'<div class="(\w+)">(<svg.*?</svg>)</div>', drawn))
    assert set(charts) == set(WIDTHS)
    for name, svg in charts.items():
        # Letters have their size where the chart is about as wide as it was drawn for.
        assert f'viewBox="0 0 {WIDTHS[name]} ' in svg
        bottom = max(y for _, y, _ in LABEL.findall(svg))
        dates = [(float(x), text) for x, y, text in LABEL.findall(svg) if y == bottom]
        ends = [x + LETTER * len(text) for x, text in dates]
        assert all(end <= x for end, (x, _) in zip(ends, dates[1:], strict=False)), (name, dates)
        assert ends[-1] <= WIDTHS[name]
        assert len(dates) >= (7 if name == "wide" else 3)


def test_the_page_shows_one_of_them() -> None:
    narrow = STYLE[STYLE.index("@media (max-width") :]
    assert ".narrow { display: none; }" in STYLE
    assert ".narrow { display: block; } .wide { display: none; }" in narrow
