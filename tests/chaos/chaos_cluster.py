"""A cluster of processes whose Redis and whose workers can be harmed one by one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from redis_server import RedisServer
from waiting import until

import whimbrel as wb


class ChaosCluster(wb.cluster.LocalCluster):
    """
    A cluster as `whimbrel.cluster.start` gives it, on a Redis of ours.

    Parameters
    ----------
    workers
        How many workers.
    replicas
        How many replicas the Redis has.
    """

    def __init__(self, workers: int = 3, *, replicas: int = 0) -> None:
        self._replicas = replicas
        self.servers: list[RedisServer] = []
        super().__init__(workers, threads=1)

    @property
    def redis(self) -> RedisServer:
        """The first of the servers."""
        return self.servers[0]

    @property
    def folder(self) -> Path:
        """Where the processes have what they keep."""
        return Path(self._folder.name)

    def _start_redis(self) -> str:
        for number in range(1 + self._replicas):
            self.servers.append(RedisServer(self.folder / f"redis-{number}"))
        for replica in self.servers[1:]:
            replica.follow(self.redis)
        servers = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"redis://{servers}?replicas={min(self._replicas, 1)}"

    def fail_over(self) -> None:
        """Kill the Redis for good; the replica that has most takes over, and the others follow it."""
        self.redis.kill()
        master, *replicas = sorted(self.servers[1:], key=RedisServer.offset, reverse=True)
        master.promote()
        for replica in replicas:
            replica.follow(master)

    def stop(self) -> None:
        """End all processes, those that were stopped as well."""
        super().stop()
        for server in self.servers:
            server.kill()

    def add_as(
        self, *options: str, within: tuple[str, ...] = (), address: str | None = None
    ) -> wb.cluster.Worker:
        """
        Start a worker that is not like the others, and wait until it is there.

        Parameters
        ----------
        options
            Its options.
        within
            A command that runs it.
        address
            Where it finds the Redis, if elsewhere than the others.

        Returns
        -------
        Worker
            The worker.
        """
        worker = [sys.executable, "-m", "whimbrel", "worker", address or self.address, "--threads", "1"]
        process = self._start([*within, *worker, *options])
        until(f"a worker with {options}", lambda: process.poll() is not None or self.has(process.pid))
        assert process.poll() is None, f"a worker did not start: {self._log()}"
        return next(worker for worker in self.workers if worker.pid == process.pid)

    def has(self, pid: int) -> bool:
        """Say whether a process is a worker that is taken for alive."""
        return any(worker.pid == pid for worker in self.workers)

    def kill(self, worker: wb.cluster.Worker) -> None:
        """Kill a worker."""
        process = next(process for process in self._processes if process.pid == worker.pid)
        process.kill()
        process.wait()

    def hang(self, worker: wb.cluster.Worker) -> None:
        """Stop a worker; it keeps its connections and says nothing."""
        os.kill(worker.pid, signal.SIGSTOP)

    def wake(self, worker: wb.cluster.Worker) -> None:
        """Let a worker go on that was stopped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGCONT)

    def declared_dead(self, *workers: wb.cluster.Worker) -> None:
        """Wait until workers have been declared dead."""
        names = {worker.name for worker in workers}
        until("workers declared dead", lambda: not names & {worker.name for worker in self.workers})

    def in_full_strength(self, workers: int = 3) -> None:
        """Wait until all that run are there, and start or kill some until there are so many."""
        alive = [process for process in self._processes if process.poll() is None]
        for process in alive[workers:]:
            process.kill()
            process.wait()
        alive = alive[:workers]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        pids = {process.pid for process in alive}
        until("the workers that run", lambda: {worker.pid for worker in self.workers} == pids)
        if len(pids) < workers:
            self.add(workers - len(pids))


def client(program: str) -> subprocess.Popen[str]:
    """Start a process that is a client, and prints what it has to say."""
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
