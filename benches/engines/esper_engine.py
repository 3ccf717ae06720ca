"""Esper, for patterns: the program `peers/esper`, built by `make bench`. It has one thread.

It reads the events from a file before its clock starts, in the order in which events of an instant follow one
another, and measures itself; its query is compiled anew in each run.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

from engines import Programs, Run
from workloads import MISSED, STEPS, Answer, Line

PROGRAM = "ESPER_PEER"


def programs(line: Line, events: pa.Table, _: int) -> Programs:
    """Return the one program there is; `ESPER_PEER` names the folder of its classes."""
    assert line.query == "pattern", "Esper is a peer for patterns only"
    folder = tempfile.TemporaryDirectory()
    columns = Path(folder.name) / "events"
    names = ("t", "key", "value")
    ordered = events.sort_by([(name, "ascending") for name in names])
    with columns.open("wb") as file:
        for name in names:
            ordered[name].to_numpy().tofile(file)
    classes = f"{os.environ[PROGRAM]}/classes:{os.environ[PROGRAM]}/lib/*"
    query = [str(number) for number in (STEPS, MISSED, line.window, 3)]
    runs: list[Run] = []

    def run() -> Run:
        # Runs share a process, as those of the other engines do. `folder` is named here so that it lives.
        if not runs:
            command = ["java", "-cp", classes, "EsperPeer", str(columns), *query]
            output = subprocess.run(
                command, cwd=folder.name, check=True, capture_output=True, text=True
            ).stdout
            measured = json.loads(output)
            runs.extend(Run(seconds, Answer(*measured["answer"])) for seconds in measured["seconds"])
        return runs.pop(0)

    return {"match_recognize": run}
