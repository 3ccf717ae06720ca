"""Every Python block in the documents runs, and prints what the page says it prints.

The blocks of one page share a namespace and run in order, in the folder of the repository. A block fenced as
`text` right after a Python block is that block's output; `...` in it stands for anything. To paste what the
blocks print now:

    python tests/docs_test.py
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if "```python" in path.read_text()
)

# Tables are cut to the width of the terminal.
WIDTH = "100"

# A Python block, and the text block right after it if there is one.
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n?```text\n(?P<output>.*?)^```$)?", re.DOTALL | re.MULTILINE
)


@dataclass
class Outcome:
    """A block, where it begins, and what it printed."""

    match: re.Match[str]
    line: int
    printed: str


def run(page: Path) -> list[Outcome]:
    """Run the blocks of a page in order, in one namespace."""
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": "__main__"}
    outcomes = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        # Blank lines in front make a traceback name the line of the page.
        code = compile("\n" * line + match["code"], str(page), "exec")
        captured = io.StringIO()
        with contextlib.redirect_stdout(captured):
            exec(code, namespace)
        printed = "\n".join(row.rstrip() for row in captured.getvalue().splitlines()).rstrip("\n")
        outcomes.append(Outcome(match, line, printed + "\n" if printed else ""))
    return outcomes


@pytest.fixture
def in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where `data/` and `benches/` are found and what a page writes is thrown away."""
    for folder in ("data", "benches"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)


@pytest.mark.usefixtures("in_a_copy")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path) -> None:
    same = doctest.OutputChecker()
    for outcome in run(page):
        expected = outcome.match["output"]
        if expected is None:
            continue
        assert same.check_output(expected, outcome.printed, doctest.ELLIPSIS), (
            f"{page.relative_to(ROOT)}:{outcome.line} printed\n{outcome.printed}\nthe page says\n{expected}"
        )


def paste(page: Path) -> None:
    """Write what the blocks of a page print now into its `text` blocks; those with `...` stay."""
    text = page.read_text()
    for outcome in reversed(run(page)):
        expected = outcome.match["output"]
        if expected is not None and "..." not in expected:
            text = (
                text[: outcome.match.start("output")] + outcome.printed + text[outcome.match.end("output") :]
            )
    page.write_text(text)


if __name__ == "__main__":
    os.chdir(ROOT)
    os.environ["COLUMNS"] = WIDTH
    for each in PAGES:
        paste(each)
        print(each.relative_to(ROOT))
