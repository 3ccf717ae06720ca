"""How long it takes from an edit of a crate to the end of its tests.

    .venv/bin/python tests/edit_loop.py                every crate
    .venv/bin/python tests/edit_loop.py temporal sql   these

The crate is built and tested once, as `edit.toml` has it: quickly. Then a line is added to the first function
of its longest file, and what `cargo test` takes from there is measured; afterwards the file is as it was.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where `make` has it.
TARGET = os.environ.get("CARGO_TARGET_DIR", str(Path.home() / ".cache/whimbrel/target"))
FUNCTION = re.compile(r"^ *(?:pub(?:\(\w+\))? )?fn [^;{}]*\{\n", re.MULTILINE)
EDIT = "    let _ = std::hint::black_box(0);\n"


def test(crate: str) -> float:
    """The seconds that building and running the tests of a crate take."""
    start = time.monotonic()
    options = ["--release", "--config", "edit.toml", "--locked", "--quiet", "--package", f"whimbrel-{crate}"]
    command = ["cargo", "test", *options]
    environment = {**os.environ, "CARGO_TARGET_DIR": TARGET}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def edited(source: str) -> str:
    """A source with a line more in its first function."""
    function = FUNCTION.search(source)
    assert function is not None, "no function to edit"
    return source[: function.end()] + EDIT + source[function.end() :]


def measure(crate: str) -> float:
    """The seconds from an edit of a crate to the end of its tests."""
    files = (ROOT / "crates" / crate / "src").rglob("*.rs")
    longest = max(files, key=lambda file: len(file.read_text().splitlines()))
    source = longest.read_text()
    test(crate)
    try:
        longest.write_text(edited(source))
        return test(crate)
    finally:
        longest.write_text(source)


def main(crates: list[str]) -> None:
    """Measures some crates, or all."""
    every = sorted(manifest.parent.name for manifest in ROOT.glob("crates/*/Cargo.toml"))
    for crate in crates or every:
        print(f"{measure(crate):6.1f} s  {crate}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
