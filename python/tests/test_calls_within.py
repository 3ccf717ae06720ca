"""Queries, and waits for queries, inside of the functions that queries call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import whimbrel as wb


def folder_of(path: Path) -> Path:
    folder = path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("t,a\n1,2\n3,4\n")
    return folder


@pytest.mark.parametrize("form", ["rows", "tables"])
def test_the_callback_of_a_job_cannot_wait_for_it(tmp_path: Path, form: Literal["rows", "tables"]) -> None:
    told: list[str] = []

    def callback(epoch: int, result: Any) -> None:
        with pytest.raises(wb.InvalidError) as raised:
            job.wait()
        told.append(str(raised.value))

    source = wb.follow(folder_of(tmp_path), time="t")
    job = source.subscribe(callback, checkpoint=tmp_path / "s", stop_when_idle="300ms", form=form)
    assert job.wait(60)
    assert told and all("it would wait for itself" in text for text in told)


def test_the_callback_of_a_job_stops_it(tmp_path: Path) -> None:
    source = wb.follow(folder_of(tmp_path), time="t")
    job = source.subscribe(lambda epoch, row: job.stop(), checkpoint=tmp_path / "s")
    assert job.wait(60)


def test_a_sink_cannot_wait_for_its_job(tmp_path: Path) -> None:
    class Waits:
        def open(self, job_name: str, generation: int, schema: wb.Schema) -> int | None:
            return None

        def write(self, rows: wb.Table) -> None:
            job.wait()

        def commit(self, epoch: int) -> None:
            pass

    source = wb.follow(folder_of(tmp_path), time="t")
    job = source.run_forever(Waits(), checkpoint=tmp_path / "s", stop_when_idle="300ms", wait=False)
    with pytest.raises(wb.WhimbrelError, match="it would wait for itself"):
        job.wait(60)
