"""The names of the package, its types and its documentation."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whimbrel as wb
from whimbrel import _whimbrel

PACKAGE = Path(wb.__file__).parent
MODULES = [
    "whimbrel",
    *(m.name for m in pkgutil.walk_packages([str(PACKAGE)], "whimbrel.") if m.name != "whimbrel._whimbrel"),
]


def public_methods(cls: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(cls) if not name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


def test_all_names_exist_and_are_documented() -> None:
    for name in wb.__all__:
        if name not in ("INFINITY", "__version__"):
            assert inspect.getdoc(getattr(wb, name)), name


def test_names_are_loaded_when_one_is_used() -> None:
    program = """
import sys
import whimbrel.__main__ as command
assert "whimbrel.api" not in sys.modules
import whimbrel
assert {"sql", "bounded", "__version__"} <= set(dir(whimbrel))
assert not hasattr(whimbrel, "sequel")
assert "whimbrel.api" not in sys.modules
from whimbrel import *
assert sql is whimbrel.sql and bounded is whimbrel.bounded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "cls",
    [
        wb.Stream,
        wb.ShardedStream,
        wb.Expr,
        wb.Table,
        wb.Subscription,
        wb.LiveStream,
        *(cls for cls in map(vars(wb.bounded).get, wb.bounded.__all__) if isinstance(cls, type)),
    ],
)
def test_methods_are_documented(cls: type) -> None:
    for name in public_methods(cls):
        assert inspect.getdoc(getattr(cls, name)), f"{cls.__name__}.{name}"


def test_the_operators_of_the_first_release_are_there() -> None:
    wanted = [
        "where",
        "select",
        "with_columns",
        "drop",
        "select_many",
        "alter_lifetime",
        "alter_duration",
        "shift",
        "tumbling",
        "hopping",
        "sliding",
        "session",
        "clip",
        "chop",
        "point_at_end",
        "aggregate",
        "group_apply",
        "union",
        "distinct",
        "join",
        "where_exists",
        "where_not_exists",
        "multicast",
        "sort",
        "limit",
    ]
    assert set(wanted) <= set(public_methods(wb.Stream))
    wanted = [
        "query",
        "rekey",
        "redistribute",
        "reshard",
        "broadcast",
        "multicast",
        "to_memory",
        "to_storage",
        "to_binary_stream",
        "subscribe",
        "to_arrow",
        "to_polars",
        "to_pandas",
        "to_events",
        "show",
        "explain",
        "schema",
        "columns",
    ]
    assert set(wanted) <= set(public_methods(wb.ShardedStream))


def stub() -> dict[str, Any]:
    """Read what the stub declares: functions with their parameters, classes with their methods."""
    declared: dict[str, Any] = {}
    for node in ast.parse((PACKAGE / "_whimbrel.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            declared[node.name] = [arg.arg for arg in node.args.args]
        elif isinstance(node, ast.ClassDef) and node.name != "_Properties":
            declared[node.name] = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
    return declared


def test_stub_and_native_module_declare_the_same_names() -> None:
    native = {name for name in dir(_whimbrel) if not name.startswith("_")}
    assert set(stub()) == native


def test_stub_and_native_module_declare_the_same_members() -> None:
    for name, declared in stub().items():
        if isinstance(declared, list):
            signature = inspect.signature(getattr(_whimbrel, name))
            assert list(signature.parameters) == declared, name
            continue
        members = {member for member in vars(getattr(_whimbrel, name)) if not member.startswith("__")}
        # A row's `keys` gives way to a column of that name, so it is no attribute of the class.
        assert {member for member in declared if not member.startswith("__")} - {"keys"} == members, name


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_import_needs_no_other_library() -> None:
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.split(".")[0])
    assert not imported & {"numpy", "pandas", "polars", "pyarrow", "duckdb"}
