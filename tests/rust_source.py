"""Rust sources as words and marks, as far as the checks of the repository need it."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>\b(?:br|cr|r)(?P<hashes>\#*)".*?"(?P=hashes)|(?:\b[bc])?"(?:\\.|[^"\\])*")
  | (?P<char>\bb?'(?:\\[^\n]+?|[^'\\\n])'|'(?:\\[^\n]+?|[^'\\\n])')
  | (?P<word>(?:r\#)?\w+)
  | (?P<mark>::|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
OPENING, CLOSING = {"(", "[", "{"}, {")", "]", "}"}
ENDED_BY_SEMICOLON = {"use", "const", "static", "type", "let"}
TESTS_ONLY = ["#", "[", "cfg", "(", "test", ")", "]"]


@dataclass(frozen=True)
class Token:
    """A word or mark of a source, and its line."""

    text: str
    line: int


def tokens(source: str) -> list[Token]:
    """The words and marks of a source, without comments, strings and characters."""
    found = []
    line, position = 1, 0
    for match in TOKEN.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        if match.lastgroup in ("word", "mark"):
            found.append(Token(match.group().removeprefix("r#"), line))
    return found


def wide_comments(source: str, columns: int) -> list[int]:
    """The lines of comments that are wider than so many columns."""
    commented = set()
    for match in TOKEN.finditer(source):
        if match.lastgroup == "comment":
            first = source.count("\n", 0, match.start()) + 1
            commented |= set(range(first, first + match.group().count("\n") + 1))
    lines = enumerate(source.splitlines(), start=1)
    return [number for number, line in lines if number in commented and len(line) > columns]


def after_group(all_tokens: list[Token], start: int) -> int:
    """The place after the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(all_tokens)):
        if all_tokens[place].text in OPENING:
            depth += 1
        elif all_tokens[place].text in CLOSING:
            depth -= 1
            if depth == 0:
                return place + 1
    return len(all_tokens)


def after_item(all_tokens: list[Token], start: int) -> int:
    """The place after the item at `start`, whatever attributes it still has."""
    place = start
    braces_end = True
    while place < len(all_tokens):
        text = all_tokens[place].text
        if text in ENDED_BY_SEMICOLON and all_tokens[place + 1].text != "fn":
            braces_end = False
        if text == ";":
            return place + 1
        if text in CLOSING:
            return place
        if text in OPENING:
            place = after_group(all_tokens, place)
            if text == "{" and braces_end:
                return place
        else:
            place += 1
    return place


def of_the_product(all_tokens: list[Token]) -> list[Token]:
    """The tokens without attributes, and without items that only tests compile."""
    kept = []
    place = 0
    while place < len(all_tokens):
        following = [token.text for token in all_tokens[place + 1 : place + 3]]
        if all_tokens[place].text != "#" or "[" not in following:
            kept.append(all_tokens[place])
            place += 1
            continue
        end = after_group(all_tokens, place + 1 + following.index("["))
        attribute = [token.text for token in all_tokens[place:end]]
        if attribute in (["#", "[", "test", "]"], TESTS_ONLY):
            end = after_item(all_tokens, end)
        place = end
    return kept
