"""A store of objects with the latency and the bandwidth of a remote one: files of a folder over HTTP.

    .venv/bin/python benches/slow_store.py FOLDER --latency 0.03 --bandwidth 100

Prints its address, and serves until its standard input ends. Every request waits for the latency; all answers
together get no more than the bandwidth.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = 1 << 20

# Shorter waits are saved up: a loop of events has no finer clock.
TICK = 0.005


@dataclass
class Store:
    """A folder, the seconds before each answer, and the bytes a second of all answers."""

    folder: Path
    latency: float
    bandwidth: float
    free_at: float = 0.0

    async def pace(self, size: int) -> None:
        """Wait until so many bytes may go out."""
        now = asyncio.get_running_loop().time()
        self.free_at = max(self.free_at, now) + size / self.bandwidth
        if self.free_at - now > TICK:
            await asyncio.sleep(self.free_at - now)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while await self.answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; tell whether there was one."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, *_ = head.split(" ", 2)
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
        }
        await asyncio.sleep(self.latency)
        path = self.folder / target.lstrip("/")
        if method not in ("GET", "HEAD") or not path.is_file():
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return True
        size = path.stat().st_size
        first, last, status = 0, size - 1, "200 OK"
        if "range" in fields:
            begin, _, end = fields["range"].removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end), last) if end else last
            status = "206 Partial Content"
        tag = hashlib.sha256(f"{path}{path.stat().st_mtime_ns}".encode()).hexdigest()[:16]
        answer = [
            f"HTTP/1.1 {status}",
            f"Content-Length: {last - first + 1}",
            f"Content-Range: bytes {first}-{last}/{size}",
            "Accept-Ranges: bytes",
            "Last-Modified: Tue, 24 Nov 2026 00:00:00 GMT",
            f'ETag: "{tag}"',
        ]
        writer.write(("\r\n".join(answer) + "\r\n\r\n").encode())
        if method == "GET":
            with path.open("rb") as file:
                file.seek(first)
                left = last - first + 1
                while left:
                    block = file.read(min(left, BLOCK))
                    left -= len(block)
                    await self.pace(len(block))
                    writer.write(block)
                    await writer.drain()
        await writer.drain()
        return True


async def main() -> None:
    """Serve the folder of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of each request (0.03)")
    parser.add_argument("--bandwidth", type=float, default=100.0, help="megabytes a second of all (100)")
    arguments = parser.parse_args()
    store = Store(arguments.folder, arguments.latency, arguments.bandwidth * 1e6)
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
