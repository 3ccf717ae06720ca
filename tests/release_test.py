"""The release workflow is YAML, builds for every machine, and asks `make` only for what it can do."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

ROOT = Path(__file__).resolve().parent.parent
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def commands(workflow: dict[Any, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def test_a_tag_starts_it(workflow: dict[Any, Any]) -> None:
    # YAML 1.1 reads the key `on` as the truth value.
    assert workflow[True] == {"push": {"tags": ["v*"]}}


def test_make_knows_what_it_is_asked_for(workflow: dict[Any, Any]) -> None:
    asked = {target for command in commands(workflow) for target in re.findall(r"\bmake (\w+)", command)}
    assert asked
    assert asked <= TARGETS


def test_the_profile_is_there(workflow: dict[Any, Any]) -> None:
    steps = workflow["jobs"]["wheel"]["steps"]
    arguments = [step["with"]["args"] for step in steps if "maturin" in step.get("uses", "")]
    assert re.findall(r"--profile (\w+)", "\n".join(arguments)) == ["wheel"]
    assert "wheel" in tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]


def test_there_is_a_wheel_for_every_machine(workflow: dict[Any, Any]) -> None:
    machines = workflow["jobs"]["wheel"]["strategy"]["matrix"]["include"]
    assert {machine["wheel"] for machine in machines} == {"linux-x86-64", "linux-aarch64", "macos-arm64"}
    (counted,) = re.findall(r"-eq (\d+)$", "\n".join(commands(workflow)), re.MULTILINE)
    assert int(counted) == len(machines)


def test_there_is_a_program_of_functions_for_each_kind_of_processor(workflow: dict[Any, Any]) -> None:
    job = workflow["jobs"]["function"]
    packages = {machine["package"] for machine in job["strategy"]["matrix"]["include"]}
    source = (ROOT / "deploy/functions/package.py").read_text()
    (architectures,) = re.findall(r"^ARCHITECTURES = (.*)$", source, re.MULTILINE)
    assert packages == {f"function-{name}" for name in set(ast.literal_eval(architectures).values())}


def test_nothing_is_published_before_all_is_there(workflow: dict[Any, Any]) -> None:
    publish = workflow["jobs"]["publish"]
    assert set(publish["needs"]) == workflow["jobs"].keys() - {"publish"}
    # PyPI takes wheels only.
    downloads = {step["with"]["path"]: step["with"]["pattern"] for step in publish["steps"] if "with" in step}
    assert downloads == {"dist": "wheel-*", "functions": "function-*"}
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
