"""A proxy between a client and a server of HTTP/1.1 that does what networks and clouds do now and then.

Emulators of a cloud answer at once and always. What they never do is said by rules here: late answers, slow
bodies, refusals, connections that break, answers that are lost, objects that are not to be seen yet.

- Requests and answers pass as they are, `Host` and all other headers included, so that signatures hold.
- Bodies pass in pieces as they come, and no faster than they are taken.
- A connection of a client has one connection to the server of its own, and both are kept for many requests.
- A connection that a rule breaks is closed in order after what was sent, so that just that arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from urllib.parse import urlsplit

# As many bytes are passed on in one go, and twice as many are held before reading stops.
PIECE = 1 << 18

# What S3 says with a status.
CODES = {
    404: ("NoSuchKey", "The specified key does not exist."),
    409: (
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
    ),
    412: ("PreconditionFailed", "At least one of the pre-conditions you specified did not hold."),
    429: ("TooManyRequests", "Please reduce your request rate."),
    500: ("InternalError", "We encountered an internal error. Please try again."),
    503: ("SlowDown", "Please reduce your request rate."),
}
PHRASES = {status.value: status.phrase for status in HTTPStatus}

# How long a body is: so many bytes, "chunked", or "rest", which is until the connection ends.
Body = int | str


@dataclass(slots=True)
class Request:
    """What was asked, in the order of arrival."""

    method: str
    path: str
    """With its query."""
    range: str | None
    """The header `Range`."""
    when: float
    """By `time.monotonic()`."""
    status: int | None = None
    """What the client was answered; None as long as it was not, or if the answer was lost."""


@dataclass(eq=False)
class Fault:
    """A rule: which requests it is for, and what is done to them.

    Of the rules that are due for a request, the delays add up and the lowest rates hold. Of refusals and
    breaks (`status`, `cut_after`, `lose_response`, `hide_for`) only the first one is injected; rules with
    another one are left for the next request.
    """

    method: str = "GET"
    """`"*"` is every method."""
    path: str = ""
    """A regular expression, searched in the path with its query."""
    times: int | None = 1
    """How often it is injected at most; None: always."""
    every: int = 1
    """Only each n-th request that matches."""

    delay: float = 0.0
    """Seconds from the end of the request to the first byte of the answer, at least."""
    bytes_per_second: float | None = None
    """How fast the body of the answer comes."""
    upload_bytes_per_second: float | None = None
    """How fast the body of the request is taken. The sender's system holds its last megabytes, so that the
    sender believes them sent before they are."""
    status: int | None = None
    """The answer, with an error of S3; the server is not asked."""
    cut_after: int | None = None
    """The connection ends after so many bytes of the answer's body, whose head has its full length."""
    lose_response: bool = False
    """The server does what it is asked; the connection ends before any byte of the answer."""
    hide_for: float | None = None
    """GET and HEAD of a path are answered 404 until so many seconds after the first of them. Here `times`,
    `every` and `fired` count paths."""

    fired: int = 0
    """How often it was injected."""
    _seen: int = field(default=0, init=False, repr=False)
    _hidden_until: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def decides(self) -> bool:
        """Whether it refuses or breaks, rather than slows down."""
        hides = self.hide_for is not None
        return self.lose_response or hides or self.status is not None or self.cut_after is not None

    def is_due(self, request: Request) -> bool:
        """Whether it is injected into this request."""
        if self.hide_for is None:
            return self._matches(request, (self.method,)) and self._counts()
        # An object that is not there yet is there for neither.
        if not self._matches(request, ("GET", "HEAD") if self.method in ("GET", "*") else (self.method,)):
            return False
        path = request.path.partition("?")[0]
        if path not in self._hidden_until:
            self._hidden_until[path] = request.when + self.hide_for if self._counts() else 0.0
        return request.when < self._hidden_until[path]

    def _matches(self, request: Request, methods: Sequence[str]) -> bool:
        is_method = request.method in methods or "*" in methods
        return is_method and re.search(self.path, request.path) is not None

    def _counts(self) -> bool:
        if self.times is not None and self.fired >= self.times:
            return False
        self._seen += 1
        if self._seen % self.every:
            return False
        self.fired += 1
        return True


@dataclass(slots=True)
class _Effects:
    """What the rules that are due do to a request together."""

    delay: float = 0.0
    rate: float | None = None
    upload_rate: float | None = None
    status: int | None = None
    cut_after: int | None = None
    lose_response: bool = False

    def add(self, fault: Fault) -> None:
        self.delay += fault.delay
        self.rate = _lower(self.rate, fault.bytes_per_second)
        self.upload_rate = _lower(self.upload_rate, fault.upload_bytes_per_second)
        if fault.decides:
            self.status = 404 if fault.hide_for is not None else fault.status
            self.cut_after = fault.cut_after
            self.lose_response = fault.lose_response


def _lower(a: float | None, b: float | None) -> float | None:
    return a if b is None else b if a is None else min(a, b)


class FaultProxy:
    """Serves at `url` what `upstream` serves, with faults.

    Parameters
    ----------
    upstream
        The server, as `http://host:port`.
    faults
        The first rules; `faults` may be changed while it runs.

    Examples
    --------
    >>> with FaultProxy(server, [Fault(path="/part-", delay=2.0)]) as proxy:  # doctest: +SKIP
    ...     read(proxy.url)
    """

    def __init__(self, upstream: str, faults: Sequence[Fault] = ()) -> None:
        parts = urlsplit(upstream)
        if parts.scheme != "http" or parts.hostname is None or parts.path not in ("", "/"):
            raise ValueError(f"not the address of a server, http://host:port: {upstream}")
        self.faults: list[Fault] = list(faults)
        self.requests: list[Request] = []
        self.host, self.port = parts.hostname, parts.port or 80
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listener,), name="fault-proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def effects(self, request: Request) -> _Effects:
        """What is done to a request; rules that are due are counted."""
        effects, decided = _Effects(), False
        for fault in tuple(self.faults):
            if not (decided and fault.decides) and fault.is_due(request):
                effects.add(fault)
                decided = decided or fault.decides
        return effects

    def _run(self, listener: socket.socket) -> None:
        self._loop.run_until_complete(self._serve(listener))
        self._loop.close()

    async def _serve(self, listener: socket.socket) -> None:
        server = await self._loop.create_server(lambda: _Side(self._accept), sock=listener)
        await self._stopping.wait()
        server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        # Sockets are closed in the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _accept(self, client: _Side) -> None:
        task = self._loop.create_task(_Connection(self, client).serve())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class _Connection:
    """A client's connection, and its own one to the server."""

    def __init__(self, proxy: FaultProxy, client: _Side) -> None:
        self.proxy = proxy
        self.client = client
        self.upstream: _Side | None = None

    async def serve(self) -> None:
        try:
            # What one side breaks is broken for the other one too.
            with contextlib.suppress(EOFError, OSError, ValueError):
                while (head := await self.client.head_or_end()) is not None and await self._exchange(head):
                    pass
            await self.client.end()
        finally:
            self.client.transport.abort()
            if self.upstream is not None:
                self.upstream.transport.abort()

    async def _exchange(self, head: _Head) -> bool:
        """One request and its answer; whether there may be another one."""
        method, path = (str(word, "latin-1") for word in head.raw.split(b" ", 2)[:2])
        span = head.value(b"range")
        request = Request(method, path, None if span is None else str(span, "latin-1"), time.monotonic())
        self.proxy.requests.append(request)
        effects = self.proxy.effects(request)
        if effects.status is not None:
            return await self._refuse(request, head, effects)
        upload: asyncio.Task[bool] | None = None
        try:
            if (body := head.body(0)) == 0:
                forwarded, answer = await self._ask(method, head)
            else:
                upload, forwarded, answer = await self._send(head, body, effects.upload_rate)
            await _sleep_until(forwarded + effects.delay)
            arrived = await self._answer(request, answer, effects)
            return arrived and head.is_kept and answer.is_kept and (upload is None or upload.done())
        finally:
            if upload is not None:
                # The request ends with its answer, even if that came before all of it was taken.
                upload.cancel()
                await asyncio.gather(upload, return_exceptions=True)

    async def _refuse(self, request: Request, head: _Head, effects: _Effects) -> bool:
        """Answers instead of the server."""
        status = effects.status or 500
        is_kept = head.is_kept
        if head.value(b"expect") is not None:
            # The body may come or not come now.
            is_kept = False
        else:
            await _relay(b"", self.client, None, head.body(0), effects.upload_rate)
        await _sleep_until(time.monotonic() + effects.delay)
        code, message = CODES.get(status, (f"Status{status}", "A fault was injected."))
        body = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>FAULT</RequestId></Error>"
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'
        answer = [f"HTTP/1.1 {status} {PHRASES.get(status, code)}", "Content-Type: application/xml"]
        answer.append(f"Content-Length: {len(body)}")
        if not is_kept:
            answer.append("Connection: close")
        request.status = status
        said = "\r\n".join(answer) + "\r\n\r\n" + ("" if request.method == "HEAD" else body)
        await self.client.write(said.encode("latin-1"))
        return is_kept

    async def _ask(self, method: str, head: _Head) -> tuple[float, _Head]:
        """Forwards a request that has no body; when that was, and the head of the answer."""
        kept = self.upstream
        upstream = await self._connected()
        try:
            await upstream.write(head.raw)
            return time.monotonic(), await self._final_head(upstream)
        except (EOFError, ConnectionError):
            # The server ended a connection that was kept, while the request was on its way.
            if upstream is not kept or method not in ("GET", "HEAD"):
                raise
        upstream.transport.abort()
        upstream = await self._connected()
        await upstream.write(head.raw)
        return time.monotonic(), await self._final_head(upstream)

    async def _send(
        self, head: _Head, body: Body, rate: float | None
    ) -> tuple[asyncio.Task[bool], float, _Head]:
        """Forwards a request with a body, of which an answer may not wait for the end."""
        upstream = await self._connected()
        upload = asyncio.create_task(_relay(head.raw, self.client, upstream, body, rate))
        answer = asyncio.create_task(self._final_head(upstream))
        try:
            await asyncio.wait((upload, answer), return_when=asyncio.FIRST_COMPLETED)
            forwarded = time.monotonic()
            # A server that takes no more may have answered; a client that sends no more is gone.
            if upload.done() and not isinstance(upload.exception(), ConnectionError):
                upload.result()
            return upload, forwarded, await answer
        except BaseException:
            upload.cancel()
            answer.cancel()
            await asyncio.gather(upload, answer, return_exceptions=True)
            raise

    async def _connected(self) -> _Side:
        """The server's side, by a new connection if the last one has ended."""
        if self.upstream is None or self.upstream.is_over or self.upstream.buffer:
            if self.upstream is not None:
                self.upstream.transport.abort()
            loop = asyncio.get_running_loop()
            _, self.upstream = await loop.create_connection(_Side, self.proxy.host, self.proxy.port)
        return self.upstream

    async def _final_head(self, upstream: _Side) -> _Head:
        """The head of the answer; the client also gets what came before it, such as 100 (Continue)."""
        while (head := await upstream.head()).status < 200:
            await self.client.write(head.raw)
        return head

    async def _answer(self, request: Request, head: _Head, effects: _Effects) -> bool:
        """Passes an answer on; whether all of it arrived, and the connection is good for another one."""
        upstream = self.upstream
        assert upstream is not None
        body = 0 if request.method == "HEAD" or head.status in (204, 304) else head.body("rest")
        if effects.lose_response:
            await _relay(b"", upstream, None, body, None)
            return False
        request.status = head.status
        is_whole = await _relay(head.raw, upstream, self.client, body, effects.rate, effects.cut_after)
        return is_whole and effects.cut_after is None and body != "rest"


async def _relay(
    head: bytes, source: _Side, target: _Side | None, body: Body, rate: float | None, cut: int | None = None
) -> bool:
    """Passes on a head and a body, or drops them where there is no target; whether it was not cut."""
    started, sent = time.monotonic(), 0
    if target is not None and (body == 0 or rate is not None or not source.buffer):
        await target.write(head)
        head = b""
    async for piece in source.pieces(body, PIECE if rate is None else max(1, min(PIECE, int(rate / 20)))):
        is_cut = False
        if cut is not None and sent + len(piece) > cut:
            is_cut, piece = True, piece[: cut - sent]
        sent += len(piece)
        if rate is not None:
            await _sleep_until(started + sent / rate)
        if target is not None:
            await target.write(head + piece if head else piece)
            head = b""
        if is_cut:
            return False
    return True


async def _sleep_until(when: float) -> None:
    seconds = when - time.monotonic()
    if seconds > 0:
        await asyncio.sleep(seconds)


class _Head:
    """The head of a request or an answer, with the empty line at its end."""

    __slots__ = ("lower", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.lower = raw.lower()

    def value(self, name: bytes) -> bytes | None:
        """A header, whose name is given in lower case."""
        at = self.lower.find(b"\r\n" + name + b":")
        if at < 0:
            return None
        at += len(name) + 3
        return self.raw[at : self.raw.index(b"\r\n", at)].strip()

    def body(self, default: Body) -> Body:
        """How long the body is; the default if the head does not say it."""
        coding = self.value(b"transfer-encoding")
        if coding is not None and coding.lower().endswith(b"chunked"):
            return "chunked"
        length = self.value(b"content-length")
        return default if length is None else int(length)

    @property
    def status(self) -> int:
        return int(self.raw[9:12])

    @property
    def is_kept(self) -> bool:
        """Whether the connection is kept after it."""
        said = (self.value(b"connection") or b"").lower()
        is_old = b"HTTP/1.0" in self.raw.partition(b"\r\n")[0]
        return b"keep-alive" in said if is_old else b"close" not in said


class _Side(asyncio.Protocol):
    """One end of the proxy: what arrived and was not taken yet, and what is still to be sent."""

    transport: asyncio.Transport

    def __init__(self, opened: Callable[[_Side], None] | None = None) -> None:
        self.opened = opened
        self.buffer = bytearray()
        self.is_over = False
        self._is_lost = False
        self._is_paused = False
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.opened is not None:
            self.opened(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > 2 * PIECE and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.is_over = True
        self._wake()
        # A client that has asked may still listen.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = self._is_lost = True
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # Reading: by one task at a time.

    async def _more(self) -> None:
        """Waits until more has arrived than there is."""
        if self.is_over:
            raise EOFError("the connection ended early")
        self._arrival = asyncio.get_running_loop().create_future()
        try:
            await self._arrival
        finally:
            self._arrival = None

    def _take(self, size: int) -> bytes:
        """So many bytes of what arrived, or all of it."""
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        if self._is_paused and len(self.buffer) < PIECE:
            self._is_paused = False
            self.transport.resume_reading()
        return taken

    async def _until(self, mark: bytes) -> bytes:
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > PIECE:
                raise ValueError("a head or a line has no end")
            await self._more()
        return self._take(at + len(mark))

    async def head(self) -> _Head:
        return _Head(await self._until(b"\r\n\r\n"))

    async def head_or_end(self) -> _Head | None:
        """The next head, or None where the connection has ended after the last one."""
        if not self.buffer:
            try:
                await self._more()
            except EOFError:
                return None
        return await self.head() if self.buffer else None

    async def pieces(self, body: Body, at_most: int) -> AsyncIterator[bytes]:
        """A body as it comes; a chunked one with its frame."""
        if isinstance(body, int):
            while body > 0:
                if not self.buffer:
                    await self._more()
                piece = self._take(min(body, at_most))
                body -= len(piece)
                if piece:
                    yield piece
        elif body == "rest":
            while self.buffer or not self.is_over:
                if not self.buffer:
                    await self._more()
                if piece := self._take(at_most):
                    yield piece
        else:
            size, line = -1, b""
            while size != 0:
                line = await self._until(b"\r\n")
                size = int(line.split(b";")[0], 16)
                yield line
                if size > 0:
                    async for piece in self.pieces(size + 2, at_most):
                        yield piece
            while line != b"\r\n":
                line = await self._until(b"\r\n")
                yield line

    # Writing.

    async def write(self, data: bytes) -> None:
        """Sends, and waits while too much is still to be sent."""
        if self._is_lost or self.transport.is_closing():
            raise ConnectionResetError("the connection is gone")
        self.transport.write(data)
        if self._room is not None:
            await self._room

    async def end(self) -> None:
        """Ends in order: what was sent is not lost because something that nobody wants still arrives."""
        if not self._is_lost and not self.transport.is_closing():
            # A client that was killed has closed both ways.
            with contextlib.suppress(asyncio.TimeoutError, EOFError, OSError):
                self.transport.write_eof()
                await asyncio.wait_for(self._drop(), 1)

    async def _drop(self) -> None:
        while True:
            self._take(len(self.buffer))
            await self._more()
