"""A live job over a folder that grows, and what it has to have written in the end."""

from __future__ import annotations

from pathlib import Path

from chaos_cluster import ChaosCluster
from waiting import until

import whimbrel as wb

# How many rows a file of the input has, and how many instants it covers.
ROWS = 50


class LiveScenario:
    """
    A live job that counts rows for each key and window.

    Parameters
    ----------
    cluster
        Where it runs.
    root
        The folder of its input, its state and its results.
    """

    def __init__(self, cluster: ChaosCluster, root: Path) -> None:
        self._root = root
        self._files = 0
        self._grow()
        rows = wb.follow(root / "in", time="time").rekey(lambda e: e.item).redistribute(shards=3)
        windows = rows.query(lambda q: q.tumbling(10).aggregate(n=wb.count()))
        self.job = windows.run_forever(root / "out", checkpoint=root / "state", every="100ms", on=cluster)

    def wait_for_results(self, attempt: int) -> None:
        """Let input come until the attempt of this number, or a later one, has written results."""

        def has_written() -> bool:
            self._grow()
            progress = self.job.progress
            if progress is None or self.job.attempt < attempt:
                return False
            return progress.committed > (progress.restored_from or 0) + 3

        until(f"results of attempt {attempt}", has_written)

    def check_results(self) -> None:
        """Check that each window that has ended is in the results, once and right."""
        # The rows of a window live from its end on.
        expected = sorted(
            (end, end + 10, key, sum(time % 4 == key for time in range(end - 10, end)))
            for end in range(10, self._files * ROWS, 10)
            for key in range(4)
        )

        def written() -> list[tuple]:
            return sorted(tuple(dict(row).values()) for row in wb.read(self._root / "out").to_rows())

        until("the last results", lambda: len(written()) >= len(expected))
        assert written() == expected
        self.job.stop()
        assert self.job.wait(60)

    def _grow(self) -> None:
        folder = self._root / "in"
        folder.mkdir(exist_ok=True)
        first = self._files * ROWS
        rows = "".join(f"{time},{time % 4}\n" for time in range(first, first + ROWS))
        part = self._root / "part.csv"
        part.write_text("time,item\n" + rows)
        part.rename(folder / f"{self._files:06}.csv")
        self._files += 1
