"""Clusters of other engines: an environment for each, and queries that it runs on two workers of one core.

Every peer has a Python environment of its own below `~/.cache/whimbrel/peers`, made the first time (some
hundred megabytes each; Spark needs Java 17). What is deployed of each is documented in
`benches/peers/cluster/engine.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tpch import HERE, same

ENGINE = HERE / "peers" / "cluster" / "engine.py"
ENVIRONMENTS = Path.home() / ".cache" / "whimbrel" / "peers"
PACKAGES = {
    "spark": ["pyspark==4.3.0", "pyarrow==26.0.1", "pandas==3.1.1"],
    "sail": ["pysail==0.7.2", "pyspark-client==4.2.0", "pyarrow==26.0.1", "pandas==3.1.1"],
    "daft": ["daft==0.7.26", "ray==2.60.0", "pyarrow==25.0.1", "pandas==3.1.1"],
}
OURS = "whimbrel"

Texts = dict[Any, str]
"""The text of each query."""


def python_of(engine: str) -> str:
    """Give the interpreter of an engine's environment, which is made if it is not there."""
    if engine == OURS:
        return sys.executable
    folder = ENVIRONMENTS / engine
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists() or complete.read_text().split() != PACKAGES[engine]:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[engine]], check=True)
        complete.write_text("\n".join(PACKAGES[engine]))
    return str(python)


def measure(
    engine: str, tables: dict[str, str], texts: Texts, repeats: int, *, in_memory: bool = False
) -> list[dict]:
    """Run an engine on all queries; give a record for each."""
    python = python_of(engine)
    queries = [{"query": query, "sql": sql} for query, sql in texts.items()]
    # The engine's own environment comes first in what it starts itself.
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        [python, str(ENGINE), engine, f"--repeats={repeats}"],
        input=json.dumps({"tables": tables, "in_memory": in_memory, "queries": queries}),
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    records = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    if len(records) != len(queries):
        raise SystemExit(f"{engine} ended early:\n{process.stderr[-2000:]}")
    return records


def checked(records: list[dict], answers: dict[Any, list[float]]) -> list[dict]:
    """Replace the times of a wrong answer by an error."""
    return [
        {"query": record["query"], "error": f"a wrong answer: {record['answer']}"}
        if "answer" in record and not same(record["answer"], answers[record["query"]])
        else record
        for record in records
    ]
