"""
Clusters: queries that run in many processes, and survive the loss of any of them.

The processes of a cluster meet in a Redis, and have no master. `connect` takes its address; `start` brings up
a whole cluster on this machine, for tests and notebooks. A query runs there with ``on=cluster``, or under
``wb.config(on=cluster)``.

Examples
--------
>>> import whimbrel as wb
>>> with wb.cluster.start(workers=2) as cluster:  # doctest: +SKIP
...     wb.sql("select count(*) as n from range(1000000)").to_rows(on=cluster)
[Row(n=1000000)]
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import _whimbrel as native
from .errors import InvalidError, UnavailableError
from .ray_workers import RayWorkers

__all__ = ["Cluster", "LocalCluster", "RayWorkers", "Worker", "connect", "ray", "start"]

_START_SECONDS = 60.0


@dataclass(frozen=True)
class Worker:
    """
    A worker of a cluster.

    Attributes
    ----------
    name
        What identifies it. A worker that was lost and comes back has another name.
    address
        Where other workers fetch what it has computed: a host and a port.
    pid
        Its process, on its machine.
    threads
        How many channels of queries it runs at the same time.
    """

    name: str
    address: str
    pid: int
    threads: int


class Cluster:
    """
    A cluster, as a client sees it.

    Parameters
    ----------
    address
        That of the Redis in which it meets: ``redis://user:password@host:port/database?cluster=name``. Of
        several servers, with commas between them, the one that is the master is used.

    Raises
    ------
    InvalidError
        If it is no such address.
    DataError
        If no Redis answers there.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._native = native.Cluster(address)

    @property
    def workers(self) -> list[Worker]:
        """The workers that are alive."""
        return [Worker(*worker) for worker in self._native.workers()]

    @property
    def cores(self) -> int:
        """How many channels of a query run at the same time, on all workers together."""
        return self._native.cores()

    @property
    def jobs(self) -> list[str]:
        """The names of the queries that run."""
        return self._native.jobs()

    def __repr__(self) -> str:
        return f"Cluster({self.address!r})"


def connect(address: str) -> Cluster:
    """
    Connect to a cluster.

    Parameters
    ----------
    address
        As in `Cluster`.

    Returns
    -------
    Cluster
        The cluster.

    Raises
    ------
    InvalidError
        If it is no such address.
    DataError
        If no Redis answers there.
    """
    return Cluster(address)


class LocalCluster(Cluster):
    """
    A cluster of processes on this machine: the result of `start`.

    It ends with the ``with`` block, or with `stop`.
    """

    def __init__(self, workers: int, threads: int | None) -> None:
        self._threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="whimbrel-cluster-")
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            super().__init__(self._start_redis())
            self.add(workers)
        except BaseException:
            self.stop()
            raise

    def add(self, workers: int) -> None:
        """
        Start more workers, and wait until they are there.

        Parameters
        ----------
        workers
            How many.

        Raises
        ------
        UnavailableError
            If one does not start.
        """
        command = [sys.executable, "-m", "whimbrel", "worker", self.address, "--folder", self._folder.name]
        if self._threads is not None:
            command += ["--threads", str(self._threads)]
        started = [self._start(command) for _ in range(workers)]
        pids = {process.pid for process in started}
        for _ in _attempts():
            if pids <= {worker.pid for worker in self.workers}:
                return
            if any(process.poll() is not None for process in started):
                break
        raise UnavailableError(f"a worker did not start: {self._log()}")

    def stop(self) -> None:
        """End all processes of the cluster."""
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def _start_redis(self) -> str:
        program = shutil.which("redis-server")
        if program is None:
            raise UnavailableError(
                "a cluster meets in a Redis, and there is no redis-server here; install the Debian package "
                "redis-server, or connect to a Redis that runs elsewhere: wb.cluster.connect"
            )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        folder = Path(self._folder.name) / "redis"
        folder.mkdir()
        options = {"port": port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "save": ""}
        self._start(
            [program, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
        )
        for _ in _attempts():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return f"redis://127.0.0.1:{port}"
        raise UnavailableError(f"redis-server did not start: {self._log()}")

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (Path(self._folder.name) / "log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def _log(self) -> str:
        return (Path(self._folder.name) / "log").read_text(errors="replace")[-2000:]

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"LocalCluster({len(self.workers)} workers, {self.address!r})"


def start(workers: int = 2, *, threads: int | None = 1) -> LocalCluster:
    """
    Start a cluster on this machine: a Redis, and workers that are processes of their own.

    Parameters
    ----------
    workers
        How many workers.
    threads
        How many channels each runs at the same time; None is as many as there are cores.

    Returns
    -------
    LocalCluster
        The cluster; it ends with the ``with`` block.

    Raises
    ------
    InvalidError
        If there are to be no workers.
    UnavailableError
        If there is no ``redis-server``, or a process does not start.
    """
    if workers < 1:
        raise InvalidError(f"a cluster has at least one worker, not {workers}")
    return LocalCluster(workers, threads)


def ray(address: str, workers: int, *, threads: int = 1) -> RayWorkers:
    """
    Let Ray host workers of a cluster, spread over its nodes.

    Parameters
    ----------
    address
        That of the cluster, as in `Cluster`; each node has to reach it.
    workers
        How many workers.
    threads
        How many channels each runs at the same time; it takes as many CPUs of Ray.

    Returns
    -------
    RayWorkers
        The workers, which have registered. Ray restarts those that die.

    Raises
    ------
    InvalidError
        If Ray is not installed, or there are to be no workers.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.cluster.ray("redis://redis-host:6379", workers=8):  # doctest: +SKIP
    ...     wb.sql("select 1", on=wb.cluster.connect("redis://redis-host:6379")).show()
    """
    return RayWorkers(address, workers, threads)


def _attempts() -> Iterator[None]:
    """Try again for a while."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        yield
        time.sleep(0.02)
