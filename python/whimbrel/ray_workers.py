"""Workers that Ray hosts: it places them on its nodes, and restarts them where they die.

Ray is neither in the way of data nor of control: workers meet in the Redis of their cluster, and fetch from
each other what they need. A worker that Ray has restarted is another worker to the cluster.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError


class RayWorkers:
    """
    Workers of a cluster that are actors of Ray: the result of `cluster.ray`.

    They end with `stop`, with the ``with`` block, or with Ray's job.
    """

    def __init__(
        self,
        address: str,
        workers: int,
        threads: int,
        folder: str | None,
        backup: tuple[int | None, int | None],
    ) -> None:
        ray = _ray()
        if workers < 1:
            raise InvalidError(f"a cluster has at least one worker, not {workers}")
        for name, size in zip(("backup_memory", "backup_disk"), backup, strict=True):
            if size is not None and size < 1:
                raise InvalidError(f"{name} is at least one byte, not {size}")
        actor = ray.remote(num_cpus=threads, max_restarts=-1, scheduling_strategy="SPREAD")(_RayWorker)
        self._ray = ray
        self._actors = [actor.remote(address, threads, folder, backup) for _ in range(workers)]
        ray.get([each.address.remote() for each in self._actors])

    @property
    def pids(self) -> list[int]:
        """The processes of the workers, each on its node."""
        return self._ray.get([actor.pid.remote() for actor in self._actors])

    def stop(self) -> None:
        """End the workers; what they ran is given to others."""
        for actor in self._actors:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.get(actor.stop.remote())
            self._ray.kill(actor)
        self._actors.clear()

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class _RayWorker:
    """The actor: a worker on threads of its process."""

    def __init__(
        self, address: str, threads: int, folder: str | None, backup: tuple[int | None, int | None]
    ) -> None:
        host = _ray().util.get_node_ip_address()
        self._worker = native.Worker(address, f"{host}:0", host, threads, folder, backup)

    def address(self) -> str:
        return self._worker.address()

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        self._worker.stop()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InvalidError("Ray is not installed: pip install whimbrel[ray]") from None
    return ray
