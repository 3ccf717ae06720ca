"""The runner itself: cases of our own for what the cases that came with the product do not speak of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import equality, test_cases
from .equality import Said
from .pipeline import UnknownFieldError

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


def test_what_is_not_known_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="does not know knit"):
        test_cases.test_case({**OWN[0], "pipeline": {"op": "knit", "src": "input"}})


def _with_unknown_fields(part: Any, inner: str = "") -> Iterator[tuple[str, Any]]:
    """List the copies of a part of a case in which one of its objects has a field that means nothing."""
    if isinstance(part, list):
        for place, item in enumerate(part):
            for where, copy in _with_unknown_fields(item, f"{inner}[{place}]"):
                yield where, [*part[:place], copy, *part[place + 1 :]]
    if isinstance(part, dict):
        yield inner, {**part, "a_field_of_tomorrow": "e"}
        for name, value in part.items():
            # Payloads and the streams that are fed have names of their own.
            if name == "payload":
                continue
            for where, copy in _with_unknown_fields(value, f"{inner}.{name}"):
                if name != "feed" or where.count("[") > inner.count("["):
                    yield where, {**part, name: copy}


@pytest.mark.parametrize("own", OWN, ids=[case["id"] for case in OWN])
def test_fields_that_are_not_known_are_refused(own: dict[str, Any]) -> None:
    for where, case in _with_unknown_fields(own):
        with pytest.raises(UnknownFieldError, match="a_field_of_tomorrow"):
            test_cases.test_case(case)
            pytest.fail(f"a field of case{where} was passed over")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("ingress", {"disorder": "shuffle"}),
        ("ingress", {"flush": "at noon"}),
        ("ingress", {"on_completed": "again"}),
        ("compare", "roughly"),
        ("params", {"declared_constant_duration": 3}),
        ("pipeline", {"op": "alter_duration", "duration": 1, "expr": "e-s", "src": "input"}),
    ],
)
def test_words_that_are_not_known_are_refused(part: str, words: Any) -> None:
    with pytest.raises(UnknownFieldError):
        test_cases.test_case({**OWN[0], part: words})


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
    assert equality.before(equality.steps(whole), 3) == {(None, "a"): {1: 1}}
