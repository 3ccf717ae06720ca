"""Replay: a channel that is run again from its tape hands out the same messages, in any process and runtime.

A cluster stands on this: quokka.txt rebuilds a lost channel from what it consumed. A channel whose consumers
have all they need is stopped, sooner or later, so a query has more tasks in one run than in another; a task
that is in both has the same digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import test_tpcds
import test_tpch
from test_plan_bytes import in_another_process, windows
from test_tpcds import data as data  # a fixture
from test_tpch import tables as tables  # a fixture

import whimbrel as wb
from whimbrel import _whimbrel as native

Tasks = dict[tuple[int, int, int], bytes]

REPLAY = """
from whimbrel import _whimbrel as native
plans = {path.stem: wb.from_bytes(path.read_bytes()) for path in folder.glob("*.plan")}
answer = {name: native.replay(plan._plan, plan._options("local", None, None)) for name, plan in plans.items()}
"""


def replay(query: wb.ShardedStream) -> Tasks:
    tasks = native.replay(query._plan, query._options("library", None, None))
    return {(stage, channel, number): digest for stage, channel, number, digest in tasks}


def check_in_another_process(queries: Mapping[str, wb.ShardedStream], folder: Path) -> None:
    for name, query in queries.items():
        (folder / f"{name}.plan").write_bytes(query.to_bytes())
    here = {name: replay(query) for name, query in queries.items()}
    there = in_another_process(REPLAY, folder)
    compared = 0
    for name, tasks in here.items():
        others = {(stage, channel, number): digest for stage, channel, number, digest in there[name]}
        common = tasks.keys() & others.keys()
        assert [task for task in common if tasks[task] != others[task]] == [], name
        # A query without rows may have no tasks at all.
        compared += len(common)
    assert compared >= len(queries)


def test_tpch_is_replayed_message_for_message(tables: dict[str, Any], tmp_path: Path) -> None:
    numbers = range(1, 23)
    queries = {str(n): wb.sql(test_tpch.query(n), shards=3, **tables) for n in numbers}
    check_in_another_process(queries, tmp_path)


def test_tpcds_is_replayed_message_for_message(data: test_tpcds.Data, tmp_path: Path) -> None:
    queries = {str(n): wb.sql(data.query(n), shards=2, **data.tables) for n in range(1, 100)}
    check_in_another_process(queries, tmp_path)


def test_streams_are_replayed_message_for_message(tmp_path: Path) -> None:
    check_in_another_process({"windows": windows()}, tmp_path)


def test_what_has_another_value_each_time_is_refused() -> None:
    with pytest.raises(wb.InvalidError, match="another value each time, so it cannot be replayed"):
        replay(wb.sql("select n from range(9) t(n) where random() < 0.5"))
