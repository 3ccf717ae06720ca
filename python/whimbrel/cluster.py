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

import atexit
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from . import _whimbrel as native
from . import attribute_errors
from .cluster_job import ClusterJob, JobStatistics, Run, Stage
from .datasets import Dataset, Datasets
from .errors import InvalidError, UnavailableError
from .live_job import LiveJob
from .ray_workers import RayWorkers
from .remote import RemoteRuntime

__all__ = [
    "Cluster",
    "ClusterJob",
    "Dataset",
    "Datasets",
    "JobStatistics",
    "LiveJob",
    "LocalCluster",
    "RayWorkers",
    "Run",
    "Stage",
    "Worker",
    "connect",
    "ray",
    "start",
]

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
    cluster
        The name of the virtual cluster that it belongs to; None if it is free.
    draining
        Whether it is given nothing new, so that it can be stopped.
    """

    name: str
    address: str
    pid: int
    threads: int
    cluster: str | None
    draining: bool


class Cluster(RemoteRuntime):
    """
    A cluster, as a client sees it: all of it, or a virtual cluster.

    Parameters
    ----------
    address
        That of the Redis in which it meets: ``redis://user:password@host:port/database?cluster=name``. Of
        several servers, with commas between them, the one that is the master is used. ``&virtual=name``
        chooses a virtual cluster.

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

    def _like(self, cluster: native.Cluster) -> Cluster:
        """Make the same cluster with another native half."""
        like = Cluster.__new__(Cluster)
        like.address, like._native = self.address, cluster
        return like

    @property
    def name(self) -> str | None:
        """The name of the virtual cluster; None for the whole cluster."""
        return self._native.name()

    @property
    def workers(self) -> list[Worker]:
        """The workers that are alive: of the virtual cluster, or all."""
        return [Worker(*worker) for worker in self._native.workers()]

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs that are there."""
        return self._native.jobs()

    def job(self, id: str) -> ClusterJob:
        """
        Get a job that is there, whoever submitted it.

        Parameters
        ----------
        id
            The name of the job.

        Returns
        -------
        ClusterJob
            The job.

        Raises
        ------
        DataError
            If there is none: it was cancelled, or its time is over.
        """
        return ClusterJob(self._native.job(id))

    @property
    def live_jobs(self) -> list[str]:
        """The names of the live jobs that are there, those that are over among them."""
        return self._native.live_jobs()

    def live_job(self, id: str) -> LiveJob:
        """
        Get a live job that is there, whoever submitted it.

        Parameters
        ----------
        id
            The name of the job.

        Returns
        -------
        LiveJob
            The job.

        Raises
        ------
        DataError
            If there is none.
        """
        return LiveJob(native.LiveJob(self._native, id))

    @property
    def datasets(self) -> Datasets:
        """The datasets of the cluster."""
        return Datasets(self._native)

    @property
    def clusters(self) -> list[str]:
        """The names of the virtual clusters."""
        return self._native.clusters()

    def create_cluster(self, name: str, *, workers: int) -> Cluster:
        """
        Group free workers as a virtual cluster (Quill, §5.2).

        What runs on it runs on these workers only; one that is lost is replaced by a free one if there is
        one. What runs on the whole cluster runs on the workers that are free.

        Parameters
        ----------
        name
            Its name.
        workers
            How many.

        Returns
        -------
        Cluster
            The virtual cluster, for ``on=``; its name is a ``location=`` of `ShardedStream.redistribute`,
            `ShardedStream.reshard`, `ShardedStream.broadcast` and `ShardedStream.multicast`.

        Raises
        ------
        InvalidError
            If there is one of this name.
        DataError
            If not as many workers are free.
        """
        return self._like(self._native.create_cluster(name, workers))

    def cluster(self, name: str) -> Cluster:
        """
        Get a virtual cluster that is there.

        Parameters
        ----------
        name
            Its name.

        Returns
        -------
        Cluster
            The virtual cluster.

        Raises
        ------
        InvalidError
            If there is none of this name.
        """
        return self._like(self._native.cluster(name))

    def tear_down(self) -> None:
        """
        End the virtual cluster. Its workers are free then, and keep the datasets that they have.

        Raises
        ------
        InvalidError
            If it is the whole cluster.
        DataError
            If a job runs on it.
        """
        self._native.tear_down()

    def add_workers(self, workers: int) -> None:
        """
        Give the virtual cluster more of the free workers.

        Parameters
        ----------
        workers
            How many more.

        Raises
        ------
        InvalidError
            If it is the whole cluster.
        DataError
            If not as many workers are free.
        """
        self._native.add_workers(workers)

    def drain(self, worker: Worker | str) -> None:
        """
        Give a worker nothing new, so that it can be stopped once it has nothing to do.

        Parameters
        ----------
        worker
            The worker, its name or its address.

        Raises
        ------
        InvalidError
            If there is no such worker.
        """
        self._native.drain(worker.name if isinstance(worker, Worker) else worker)

    def scheduled(self, *, pipelined: bool = True, dynamic: bool = False) -> Cluster:
        """
        Get the same cluster with another schedule for what is run on it.

        Parameters
        ----------
        pipelined
            Whether all stages run at once (Quokka, §II). Otherwise a stage begins when those before it have
            ended.
        dynamic
            Whether a channel reads what is there if the input whose turn it is has nothing for some
            milliseconds (Quokka, §II). That pays where inputs are uneven. Rows that nothing orders may then
            come in another order in each run, and sums of floats may differ in their last digits.

        Returns
        -------
        Cluster
            The cluster, for ``on=``.
        """
        return self._like(self._native.with_schedule(pipelined, dynamic))

    def _submit(self, plan: native.Plan, keep: str | timedelta) -> ClusterJob:
        return ClusterJob(self._native.submit(plan, keep))

    def _run_forever(
        self,
        plan: native.Plan,
        options: native.Options,
        to: str,
        format: str | None,
        checkpoint: str,
        every: str | timedelta,
        stop_when_idle: str | timedelta | None,
    ) -> LiveJob:
        job = native.start_live(self._native, plan, options, checkpoint, every, stop_when_idle, to, format)
        return LiveJob(job)

    def _store(self, name: str, plan: native.Plan) -> native.Plan:
        return self._native.store_dataset(name, plan)

    def __repr__(self) -> str:
        virtual = "" if self.name is None else f", virtual={self.name!r}"
        # User and password come before the last @.
        shown = re.sub("//.*@", "//…@", self.address)
        return f"Cluster({shown!r}{virtual})"


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
        self._process = os.getpid()
        # Processes in sessions of their own do not end with this one.
        atexit.register(self.stop)
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
        InvalidError
            If the cluster was stopped.
        """
        if isinstance(self._native, _Stopped):
            self._native.refuse()
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

    def owns(self, pid: int) -> bool:
        """
        Say whether a process was started here.

        Parameters
        ----------
        pid
            The number of the process.

        Returns
        -------
        bool
            Whether it was; others may have joined the cluster.
        """
        return any(process.pid == pid for process in self._processes)

    def stop(self) -> None:
        """End all processes of the cluster. In a forked process they stay: the parent has them."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.stop)
        self._native = cast("native.Cluster", _Stopped())
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
            # In a session of its own: an interrupt of this process is for its query, and not for its cluster.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process

    def _log(self) -> str:
        return (Path(self._folder.name) / "log").read_text(errors="replace")[-2000:]

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if isinstance(self._native, _Stopped) else f"{len(self.workers)} workers"
        return f"LocalCluster({state}, {self.address!r})"


class _Stopped:
    """Stands for a cluster whose processes have ended."""

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Say that the cluster is not there."""
        raise InvalidError("this cluster was stopped; start another one")


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


def ray(
    address: str,
    workers: int,
    *,
    threads: int = 1,
    folder: str | None = None,
    backup_memory: int | None = None,
    backup_disk: int | None = None,
) -> RayWorkers:
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
    folder
        Where each keeps on its node what it has sent, if that does not fit into the memory; by default the
        folder for temporary files.
    backup_memory
        How many bytes of that each keeps in memory; by default 1 GiB.
    backup_disk
        How many bytes of that each keeps on the disk at most; by default as many as the disk takes. A query
        that needs more ends with `ResourceExhaustedError`.

    Returns
    -------
    RayWorkers
        The workers, which have registered. Ray restarts those that die.

    Raises
    ------
    InvalidError
        If Ray is not installed, there are to be no workers, or the backup is to have no room.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.cluster.ray("redis://redis-host:6379", workers=8):  # doctest: +SKIP
    ...     wb.sql("select 1", on=wb.cluster.connect("redis://redis-host:6379")).show()
    """
    return RayWorkers(address, workers, threads, folder, (backup_memory, backup_disk))


def _attempts() -> Iterator[None]:
    """Try again for a while."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        yield
        time.sleep(0.02)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise AttributeError(attribute_errors.for_submodule(sys.modules[__name__], name))
