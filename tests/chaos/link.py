"""Links that can be cut: a proxy stands between a server and those who connect to it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Collection, Iterator
from pathlib import Path


class Link:
    """
    A proxy for one server, with the same port on another address of this machine.

    Parameters
    ----------
    host, port
        Where it listens.
    to
        Where the server is.
    """

    def __init__(self, host: str, port: int, to: tuple[str, int]) -> None:
        self._to = to
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket, int | None]] = []
        self._cut_off: frozenset[int] = frozenset()
        self._cuts_all = False
        self._is_silent = threading.Event()
        self._speaks = threading.Event()
        self._speaks.set()
        self._listener = socket.create_server((host, port))
        self.port = self._listener.getsockname()[1]
        self.refused = 0
        self.withheld = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, pids: Collection[int] | None = None) -> None:
        """
        Close connections, and refuse new ones.

        Parameters
        ----------
        pids
            The processes on the other side; None is all of them.
        """
        with self._lock:
            self._cuts_all, self._cut_off = pids is None, frozenset(pids or ())
            cut = [pair for pair in self._pairs if self._is_cut(pair[2])]
        for client, server, _ in cut:
            close(client, server)
        self.refused += len(cut)

    def silence(self) -> None:
        """Take everything, hand on nothing, and close nothing: a machine that is gone without a word."""
        self._speaks.clear()

    def mend(self) -> None:
        """Let everything through again. What was held back in silence is lost with its connections."""
        with self._lock:
            self._cuts_all, self._cut_off = False, frozenset()
            silent = [] if self._speaks.is_set() else list(self._pairs)
        for client, server, _ in silent:
            close(client, server)
        self._speaks.set()

    def close(self) -> None:
        """End the proxy with all connections."""
        self._listener.close()
        self.cut()
        self._speaks.set()

    def _is_cut(self, pid: int | None) -> bool:
        # One whose process is gone again, or could not be found, is none that has to be let through.
        return self._cuts_all or (bool(self._cut_off) and (pid is None or pid in self._cut_off))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, (_, port) = self._listener.accept()
                threading.Thread(target=self._connect, args=(client, port), daemon=True).start()

    def _connect(self, client: socket.socket, port: int) -> None:
        # Which process it is costs a search, and nobody asks unless links of some processes are cut.
        pid = owner(port) if self._cut_off else None
        try:
            server = socket.create_connection(self._to)
        except OSError:
            close(client)
            return
        with self._lock:
            is_cut = self._is_cut(pid)
            if is_cut:
                self.refused += 1
            else:
                self._pairs.append((client, server, owner(port) if pid is None else pid))
        if is_cut:
            close(client, server)
            return
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while received := source.recv(1 << 18):
                if not self._speaks.is_set():
                    self.withheld += 1
                    self._speaks.wait()
                    break
                sink.sendall(received)
        close(source, sink)


def close(*sockets: socket.socket) -> None:
    """Close connections, whoever uses them at the moment."""
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def owner(port: int) -> int | None:
    """Find the process that has a connection of this machine from a port."""
    inode = next((inode for local, inode in connections() if local == port), None)
    if inode is None:
        return None
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            if any(target(file) == f"socket:[{inode}]" for file in folder.iterdir()):
                return int(folder.parent.name)
    return None


def target(file: Path) -> str | None:
    """Say what a file of a process is, if it is still open."""
    try:
        return os.readlink(file)
    except OSError:
        return None


def connections() -> Iterator[tuple[int, str]]:
    """List the TCP connections of this machine: the port of this end, and which file it is."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, _, _, _, _, _, _, inode, *_ = line.split()
        yield int(local.rpartition(":")[2], 16), inode
