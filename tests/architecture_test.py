"""What ARCHITECTURE.md and the house rules say of the repository is so."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()

PRODUCT_LINES_MAX = 600
ROOMS_WITHOUT_A_NAME = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}
NOT_OURS = {
    ".git",
    ".venv",
    "target",
    "node_modules",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
}


def tree(*suffixes: str) -> list[Path]:
    """The files of the repository that end in one of the suffixes."""
    files = []
    for path in sorted(ROOT.rglob("*")):
        if (
            path.suffix in suffixes
            and not NOT_OURS.intersection(path.relative_to(ROOT).parts)
            and path.is_file()
        ):
            files.append(path)
    return files


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def crates() -> dict[str, set[str]]:
    """Each crate's folder and the folders of the crates of ours that it uses (not for its tests alone)."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folders = {}
    for package in json.loads(output)["packages"]:
        used = (each for each in package["dependencies"] if each.get("path") and each["kind"] != "dev")
        folders[Path(package["manifest_path"]).parent.name] = {Path(each["path"]).name for each in used}
    return folders


def test_the_table_lists_every_crate(crates: dict[str, set[str]]) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.MULTILINE)
    assert sorted(rows) == sorted(crates)


def test_the_arrows_are_those_of_cargo(crates: dict[str, set[str]]) -> None:
    drawn = {}
    for name, targets in re.findall(r"^(\w+) +-> +([\w, ()]+)$", ARCHITECTURE, re.MULTILINE):
        words = {word.strip() for word in targets.split(",")}
        drawn[name] = set(crates) - {name} if words == {"all"} else words - {"(none)"}
    assert drawn == crates


def product_files() -> list[Path]:
    rust = [
        path for path in tree(".rs") if "src" in path.parts and path.relative_to(ROOT).parts[0] == "crates"
    ]
    python = [path for path in tree(".py", ".pyi") if relative(path).startswith("python/whimbrel")]
    return [path for path in rust + python if "test" not in path.stem and "tests" not in path.parts]


def length(path: Path) -> int:
    """Lines of a file; a Python docstring is what a user reads, and not counted."""
    text = path.read_text()
    if path.suffix == ".rs":
        return len(text.splitlines())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    first = (node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, documented) and node.body)
    strings = (node for node in first if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return len(text.splitlines()) - sum((node.end_lineno or 0) - node.lineno + 1 for node in strings)


def test_every_crate_is_quick_to_edit(crates: dict[str, set[str]]) -> None:
    profile = tomllib.loads((ROOT / "edit.toml").read_text())["profile"]["release"]
    assert set(profile["package"]) == {f"whimbrel-{crate}" for crate in crates}


def test_product_files_are_short() -> None:
    lengths = {relative(path): length(path) for path in product_files()}
    assert {name: lines for name, lines in lengths.items() if lines > PRODUCT_LINES_MAX} == {}


def test_every_room_has_a_name_of_its_own() -> None:
    rooms = {
        part for path in tree(".rs", ".py", ".md") for part in [path.stem, *path.relative_to(ROOT).parts]
    }
    assert rooms & ROOMS_WITHOUT_A_NAME == set()


def test_nothing_is_left_to_do() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX)\b|\b(todo|unimplemented)!\(")
    assert [relative(path) for path in product_files() if marker.search(path.read_text())] == []


def anchors(page: Path) -> set[str]:
    """The names that a link may give after `#`, as Git forges make them from headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", tree(".md"), ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []
