"""The runner itself: cases of our own for what the cases that came with the product do not speak of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from . import equality, test_cases
from .equality import Said

OWN = json.loads(Path(__file__).with_name("own_cases.json").read_text())["cases"]


@pytest.mark.parametrize("own", OWN, ids=[case["id"] for case in OWN])
def test_own_case(own: dict[str, Any]) -> None:
    test_cases.test_case(own)


@pytest.mark.parametrize(
    "own", [case for case in OWN if case["compare"] == "logical"], ids=lambda case: case["id"]
)
def test_a_wrong_expectation_fails(own: dict[str, Any]) -> None:
    first, *others = own["expected_logical"]
    wrong = {**own, "expected_logical": [{**first, "start": first["start"] - 1}, *others]}
    with pytest.raises(AssertionError):
        test_cases.test_case(wrong)


def test_what_is_not_built_is_skipped() -> None:
    for pipeline in ({"op": "stitch", "src": "input"}, {"op": "aggregate", "agg": "top_k", "src": "input"}):
        with pytest.raises(pytest.skip.Exception, match="not built yet"):
            test_cases.test_case({**OWN[0], "pipeline": pipeline})


def test_what_is_not_known_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="does not know knit"):
        test_cases.test_case({**OWN[0], "pipeline": {"op": "knit", "src": "input"}})


def test_equality_is_that_of_relations() -> None:
    whole = [Said("interval", 1, 9, "a"), Said("interval", 3, 5, "a")]
    pieces = [
        Said("start", 1, None, "a"),
        Said("interval", 3, 5, "a"),
        Said("punctuation", 4, None, None),
        Said("end", 1, 6, "a"),
        Said("interval", 6, 9, "a"),
    ]
    assert equality.steps(whole) == equality.steps(pieces)
    assert equality.steps(whole) != equality.steps(whole[:1])
    assert equality.before(equality.steps(whole), 3) == {"a": {1: 1}}
