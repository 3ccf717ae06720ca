"""The sources follow the house rules: modules without circles, documents, comments within the columns.

A list below names the crates that do not follow a rule yet. A crate that does has to be struck off its list,
so that lists only get shorter.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
import tomllib
from rust_source import wide_comments
from structure import Crate, describe

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 110
DOCUMENTED_SHARE = 0.15
CRATES = sorted(manifest.parent.name for manifest in ROOT.glob("crates/*/Cargo.toml"))
RUST_BESIDE_CRATES = ["benches"]
PYTHON = ["python", "tests", "benches", "examples", "data"]

WITH_CIRCLES: set[str] = set()
WITH_WIDE_COMMENTS: set[str] = set()
WITH_TWO_STYLES_OF_MODULES: set[str] = set()
WITH_MODULES_ELSEWHERE: set[str] = set()
WITH_FEW_DOCUMENTS: set[str] = set()


def each(names: list[str], unfinished: set[str]) -> list[object]:
    """A case for each name. One that is unfinished has to fail."""
    assert unfinished <= set(names), "a list names what is not there"
    mark = pytest.mark.xfail(strict=True, raises=AssertionError, reason="still to be put in order")
    return [pytest.param(name, marks=[mark] if name in unfinished else []) for name in names]


def rust_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.rs")) if "target" not in path.parts]


@pytest.mark.parametrize("crate", each(CRATES, WITH_CIRCLES))
def test_modules_do_not_use_each_other_in_a_circle(crate: str) -> None:
    modules = Crate(ROOT / "crates" / crate)
    assert [text for folder in modules.folders() if (text := describe(modules, folder))] == []


@pytest.mark.parametrize("crate", each(CRATES, WITH_TWO_STYLES_OF_MODULES))
def test_a_folder_of_modules_has_its_own_file_in_it(crate: str) -> None:
    """`x/mod.rs`, not `x.rs` beside `x/`."""
    sources = ROOT / "crates" / crate / "src"
    folders = {path.parent for path in sources.rglob("*.rs")} - {sources}
    assert [
        str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "mod.rs").exists()
    ] == []


@pytest.mark.parametrize("crate", each(CRATES, WITH_MODULES_ELSEWHERE))
def test_a_module_lies_where_its_name_says(crate: str) -> None:
    files = rust_files(ROOT / "crates" / crate / "src")
    assert [str(file.relative_to(ROOT)) for file in files if "#[path" in file.read_text()] == []


@pytest.mark.parametrize("crate", each(CRATES, WITH_FEW_DOCUMENTS))
def test_a_good_part_of_a_crate_is_documents(crate: str) -> None:
    text = "\n".join(path.read_text() for path in rust_files(ROOT / "crates" / crate / "src"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    documents = [line for line in lines if line.startswith(("///", "//!"))]
    assert len(documents) >= DOCUMENTED_SHARE * len(lines), f"{len(documents)} of {len(lines)} lines"


@pytest.mark.parametrize("folder", each([*CRATES, *RUST_BESIDE_CRATES], WITH_WIDE_COMMENTS))
def test_comments_in_rust_are_not_too_wide(folder: str) -> None:
    root = ROOT / "crates" / folder if folder in CRATES else ROOT / folder
    wide = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in rust_files(root)
        for line in wide_comments(path.read_text(), COLUMNS)
    ]
    assert wide == []


@pytest.mark.parametrize("folder", PYTHON)
def test_comments_in_python_are_not_too_wide(folder: str) -> None:
    wide = [
        f"{path.relative_to(ROOT)}:{token.start[0]}"
        for path in sorted((ROOT / folder).rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        if token.end[1] > COLUMNS
    ]
    assert wide == []


@pytest.mark.parametrize("crate", CRATES)
def test_every_crate_takes_the_lints_of_the_workspace(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    assert manifest.get("lints") == {"workspace": True}


def test_errors_are_documented_and_nothing_is_unwrapped() -> None:
    lints = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["lints"]["clippy"]
    assert {"missing_errors_doc", "unwrap_used"} <= set(lints)
    assert tomllib.loads((ROOT / "clippy.toml").read_text())["allow-unwrap-in-tests"]


@pytest.mark.parametrize("crate", CRATES)
def test_no_crate_is_let_off_a_lint(crate: str) -> None:
    library = (ROOT / "crates" / crate / "src" / "lib.rs").read_text()
    assert re.findall(r"#!\[(?:allow|expect)\([^)]*\b(?:missing_errors_doc|unwrap_used)\b", library) == []


SOURCES = {
    "lib.rs": "mod a;\nmod b;\npub mod c;\npub use c::Exported;\n",
    "a.rs": "use crate::b::B;\n/// crate::c::inner is only text\npub struct A(B);\n",
    "b.rs": "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    "c/mod.rs": "mod inner;\npub use inner::Exported;\n",
    "c/inner.rs": 'pub struct Exported;\npub const TEXT: &str = "crate::a::A";\n',
}


def written(tmp_path: Path, more: dict[str, str]) -> Crate:
    for name, text in SOURCES.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + more.get(name, ""))
    return Crate(tmp_path)


def test_tests_comments_and_strings_close_no_circle(tmp_path: Path) -> None:
    crate = written(tmp_path, {})
    assert crate.arrows(()).keys() == {"a"}
    assert crate.circles(()) == []


@pytest.mark.parametrize(
    ("more", "circle"),
    [
        ({"b.rs": "use crate::{a::{self, A as Other}};"}, ["a", "b"]),
        ({"b.rs": "fn f() { let x = super::a::A::new(); }"}, ["a", "b"]),
        ({"b.rs": "macro_rules! m { () => { $crate::a::A }; }"}, ["a", "b"]),
        ({"b.rs": "use crate::Exported;", "c/inner.rs": "use super::super::a::A;"}, ["a", "b", "c"]),
        ({"b.rs": "use crate::c::*; type T = Exported;", "c/inner.rs": "use crate::b::B;"}, ["b", "c"]),
    ],
    ids=["use", "path", "macro", "export", "glob"],
)
def test_a_circle_is_found(tmp_path: Path, more: dict[str, str], circle: list[str]) -> None:
    assert written(tmp_path, more).circles(()) == [circle]


def test_every_folder_of_modules_is_looked_at(tmp_path: Path) -> None:
    added = {"c/mod.rs": "mod other;", "c/inner.rs": "use super::other::Other;"}
    other = tmp_path / "src/c/other.rs"
    other.parent.mkdir(parents=True)
    other.write_text("pub struct Other(super::Exported);")
    crate = written(tmp_path, added)
    assert crate.folders() == [(), ("c",)]
    assert crate.circles(()) == []
    assert crate.circles(("c",)) == [["inner", "other"]]
