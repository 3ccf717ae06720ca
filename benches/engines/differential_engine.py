"""differential dataflow, for hopping windows and joins: the program `peers/differential`.

`make bench` builds it. It reads the keys and values from a file before its clock starts, and measures itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

from engines import Programs, Run
from workloads import Answer, Line

PROGRAM = "DIFFERENTIAL_PEER"


def programs(line: Line, events: pa.Table, threads: int) -> Programs:
    """Return the one program there is; `DIFFERENTIAL_PEER` names it."""
    query = {"hopping": ["hopping"], "join": ["join", str(line.window)]}[line.query]
    folder = tempfile.TemporaryDirectory()
    columns = Path(folder.name) / "events"
    with columns.open("wb") as file:
        for name in ("key", "value"):
            events[name].to_numpy().tofile(file)

    def run() -> Run:
        # `folder` is named here so that it lives as long as the program.
        command = [os.environ[PROGRAM], str(columns), str(threads), *query]
        output = subprocess.run(command, cwd=folder.name, check=True, capture_output=True, text=True).stdout
        measured = json.loads(output)
        return Run(measured["seconds"], Answer(measured["rows"], measured["count"], measured["sum"]))

    return {line.query: run}
