"""Building or testing one crate compiles none of the dependencies a second time.

Cargo unites the features of what is built together, so a crate that is tested alone, or the program of
functions, could have DataFusion or Cranelift with other features than the workspace has them, which costs ten
minutes. Crates switch such features on for their own builds; see the end of the workspace's dependencies.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

CRATES = sorted(path.parent.name for path in ROOT.glob("crates/*/Cargo.toml"))


def resolved(*packages: str) -> set[str]:
    """The packages below some, with their versions and features."""
    options = ["--edges", "normal,build,dev", "--format", "{p} {f}"]
    return {line.removesuffix(" (*)") for line in tree(*packages, *options)}


def tree(*arguments: str) -> list[str]:
    """Give the lines of ``cargo tree``."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", *arguments]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in output.stdout.splitlines() if line]


@pytest.fixture(scope="module")
def workspace() -> set[str]:
    return resolved("--workspace")


@pytest.fixture(scope="module")
def foundation() -> set[str]:
    """The names of the packages that all runtimes are built from: DataFusion, Cranelift, and those below."""
    options = ["--edges", "normal,build", "--format", "{p}"]
    return {line.split()[0] for line in tree("--package", "whimbrel-sharded", *options)}


@pytest.mark.parametrize("crate", CRATES)
def test_the_foundation_is_that_of_the_workspace(
    crate: str, workspace: set[str], foundation: set[str]
) -> None:
    alone = resolved("--package", f"whimbrel-{crate}")
    uses_datafusion = any(package.startswith("datafusion v") for package in alone)
    different = {package for package in alone - workspace if package.split()[0] in foundation}
    assert not uses_datafusion or different == set()
