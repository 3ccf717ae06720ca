"""A Redis that scenarios can talk to, kill and start again."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import until

# Under this name a cluster is in a Redis if its address says nothing else.
NAMESPACE = "{whimbrel}"


def free_port() -> int:
    """Find a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port: int, *words: str) -> str:
    """Send a command, and give the answer as it comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        answer = connection.recv(1 << 16).decode()
    assert not answer.startswith("-"), answer
    return answer


class RedisServer:
    """
    A server in a folder of its own.

    Parameters
    ----------
    folder
        Where it keeps what it was told.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        folder.mkdir(parents=True)
        self.port = free_port()
        options = {"port": self.port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "save": ""}
        words = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self._command = [program, *words]
        self.start()

    def start(self) -> None:
        """Start it, with what it had."""
        self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until("a redis-server that answers", self.answers)

    def answers(self) -> bool:
        """Say whether it is there, and has read its files."""
        with contextlib.suppress(OSError), contextlib.suppress(AssertionError):
            return ask(self.port, "PING").startswith("+PONG")
        return False

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()

    def follow(self, master: RedisServer) -> None:
        """Become the replica of another, and wait until everything is here."""
        ask(self.port, "REPLICAOF", "127.0.0.1", str(master.port))
        until(
            "a replica that follows", lambda: "master_link_status:up" in ask(self.port, "INFO", "replication")
        )

    def offset(self) -> int:
        """Say how much of what its master was told it has."""
        answer = ask(self.port, "INFO", "replication")
        return int(answer.split("slave_repl_offset:")[1].splitlines()[0])

    def promote(self) -> None:
        """Become a master."""
        ask(self.port, "REPLICAOF", "NO", "ONE")


@contextmanager
def recovery_off(port: int, job: str) -> Iterator[None]:
    """
    Switch recovery off for a job: somebody who does nothing holds the lease under which it is done.

    Parameters
    ----------
    port
        That of the Redis.
    job
        The name of the job.
    """
    leases, lease, hour = f"{NAMESPACE}:leases", f"recovery/{job}", 3_600_000
    expires = int(time.time() * 1000) + hour
    # As the control store writes it: a token, when it lapses, how long it was granted for, and by whom.
    ask(port, "HSET", leases, lease, f"1 {expires} {hour} nobody")
    try:
        yield
    finally:
        ask(port, "HDEL", leases, lease)
