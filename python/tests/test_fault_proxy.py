"""The proxy of the tests: what passes unchanged, and each kind of fault."""

from __future__ import annotations

import http.client
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from fault_proxy import Fault, FaultProxy

BODY = bytes(range(256)) * 4000


class Objects(http.server.BaseHTTPRequestHandler):
    """Keeps what is put to a path, and gives it back."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    url: str
    objects: dict[str, bytes]
    # Method, path, headers and port of the client, of each request.
    seen: list[tuple[str, str, list[tuple[str, str]], int]]

    def do_GET(self) -> None:
        self.note()
        body = self.objects.get(self.path)
        if body is None:
            self.answer(404, b"nothing")
        elif self.path.startswith("/chunked"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(body), 100_000):
                piece = body[start : start + 100_000]
                self.wfile.write(b"%x;a=b\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\nafter: all\r\n\r\n")
        elif self.path.startswith("/rest"):
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        elif self.path.startswith("/broken"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + 1))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
        else:
            self.answer(200, body)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self.note()
        if self.path.startswith("/refused"):
            self.close_connection = True
            self.answer(403, b"refused")
            return
        body = b""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size + 2)[:size]
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.objects[self.path] = body
        self.answer(200)

    def do_DELETE(self) -> None:
        self.note()
        self.objects.pop(self.path, None)
        self.send_response(204)
        self.end_headers()

    def note(self) -> None:
        self.seen.append((self.command, self.path, self.headers.items(), self.client_address[1]))

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[type[Objects]]:
    class Handler(Objects):
        objects = {"/a": BODY}
        seen = []

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield Handler
        server.shutdown()


@pytest.fixture
def proxied(upstream: type[Objects]) -> Iterator[Callable[..., FaultProxy]]:
    """Makes a proxy with rules before the upstream."""
    proxies = []

    def make(*faults: Fault) -> FaultProxy:
        proxies.append(FaultProxy(upstream.url, faults))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.stop()


def connection(proxy: FaultProxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)


def raw(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), timeout=20)


def ask(proxy: FaultProxy, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """The answer's status and body, on a connection of its own."""
    with closing(connection(proxy)) as client:
        client.request(method, path, body)
        answer = client.getresponse()
        return answer.status, answer.read()


def timed(proxy: FaultProxy, method: str, path: str, body: bytes | None = None) -> float:
    started = time.monotonic()
    assert ask(proxy, method, path, body)[0] == 200
    return time.monotonic() - started


def statuses(proxy: FaultProxy, count: int, method: str = "GET", path: str = "/a") -> list[int]:
    return [ask(proxy, method, path)[0] for _ in range(count)]


def test_requests_pass_unchanged(upstream: type[Objects], proxied: Callable[..., FaultProxy]) -> None:
    proxy = proxied()
    with closing(connection(proxy)) as client:
        headers = {"Host": "bucket.example", "Range": "bytes=0-9", "X-Odd": "a,  b", "x-ODD": "c"}
        client.request("GET", "/a?x=%2F&y", headers=headers)
        assert client.getresponse().read() == b"nothing"
    sent = [*headers.items(), ("Accept-Encoding", "identity")]
    assert upstream.seen[0][:2] == ("GET", "/a?x=%2F&y")
    assert sorted(upstream.seen[0][2]) == sorted(sent)
    (request,) = proxy.requests
    assert (request.method, request.path, request.range) == ("GET", "/a?x=%2F&y", "bytes=0-9")
    assert request.status == 404
    assert request.when <= time.monotonic()


def test_connections_are_kept(upstream: type[Objects], proxied: Callable[..., FaultProxy]) -> None:
    with closing(connection(proxied())) as client:
        for method, path in [
            ("GET", "/a"),
            ("HEAD", "/a"),
            ("PUT", "/chunked"),
            ("GET", "/chunked"),
            ("DELETE", "/chunked"),
            ("HEAD", "/chunked"),
            ("PUT", "/b"),
            ("GET", "/b"),
        ]:
            # A body without a length is sent in chunks.
            body = BODY if path == "/b" else iter([BODY[:5], BODY[5:]])
            client.request(method, path, body if method == "PUT" else None)
            answer = client.getresponse()
            assert answer.read() == (BODY if (method, answer.status) == ("GET", 200) else b"")
            assert upstream.objects.get("/b", BODY) == BODY
    assert len({port for _, _, _, port in upstream.seen}) == 1


def test_a_connection_that_the_server_ends_is_made_again(
    upstream: type[Objects], proxied: Callable[..., FaultProxy]
) -> None:
    upstream.objects["/rest"] = BODY
    with closing(connection(proxied())) as client:
        for path in ["/a", "/rest", "/a"]:
            client.request("GET", path)
            assert client.getresponse().read() == BODY


def test_a_body_that_the_server_breaks_is_broken(
    upstream: type[Objects], proxied: Callable[..., FaultProxy]
) -> None:
    upstream.objects["/broken"] = BODY
    with pytest.raises(http.client.IncompleteRead) as broken:
        ask(proxied(), "GET", "/broken")
    assert broken.value.partial == BODY


def test_no_server(proxied: Callable[..., FaultProxy]) -> None:
    proxy = proxied()
    proxy.port = 1
    with pytest.raises(ConnectionError):
        ask(proxy, "GET", "/a")
    with pytest.raises(ValueError, match="not the address of a server"):
        FaultProxy("https://127.0.0.1:1")


def test_an_answer_before_the_end_of_its_request(proxied: Callable[..., FaultProxy]) -> None:
    with raw(proxied()) as client:
        client.sendall(b"PUT /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 403")


def test_a_body_that_waits(upstream: type[Objects], proxied: Callable[..., FaultProxy]) -> None:
    with raw(proxied()) as client:
        client.sendall(b"PUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert upstream.objects["/b"] == b"abc"


def test_a_late_answer(upstream: type[Objects], proxied: Callable[..., FaultProxy]) -> None:
    fault = Fault("*", r"/a(\?|$)", times=2, every=2, delay=0.3)
    proxy = proxied(fault)
    assert [timed(proxy, "GET", "/a") >= 0.3 for _ in range(5)] == [False, True, False, True, False]
    assert fault.fired == 2
    fault.times = None
    assert [timed(proxy, "PUT", "/a", BODY) >= 0.3 for _ in range(2)] == [False, True]
    assert timed(proxy, "PUT", "/ab", BODY) < 0.3
    # The server was asked before.
    proxy.faults = [Fault(delay=20)]
    with closing(connection(proxy)) as client:
        client.request("GET", "/a?now")
        until = time.monotonic() + 60
        while upstream.seen[-1][1] != "/a?now":
            assert time.monotonic() < until
            time.sleep(0.01)


def test_slow_bodies(proxied: Callable[..., FaultProxy]) -> None:
    size = len(BODY)
    proxy = proxied(Fault(bytes_per_second=2 * size), Fault("PUT", upload_bytes_per_second=2 * size))
    assert 0.5 <= timed(proxy, "GET", "/a") < 5
    assert timed(proxy, "GET", "/a") < 0.5
    assert 0.5 <= timed(proxy, "PUT", "/b", BODY) < 5
    assert ask(proxy, "GET", "/b") == (200, BODY)


@pytest.mark.parametrize(
    ("status", "code"), [(503, b"SlowDown"), (409, b"ConditionalRequestConflict"), (500, b"InternalError")]
)
def test_a_refusal(
    status: int, code: bytes, upstream: type[Objects], proxied: Callable[..., FaultProxy]
) -> None:
    proxy = proxied(Fault("PUT", "^/b", times=2, status=status))
    with closing(connection(proxy)) as client:
        for expected in [status, status, 200]:
            assert "/b" not in upstream.objects
            client.request("PUT", "/b", BODY)
            answer = client.getresponse()
            assert answer.status == expected
            assert (b"<Code>" + code + b"</Code>" in answer.read()) == (expected == status)
    assert [request.status for request in proxy.requests] == [status, status, 200]
    assert len(upstream.seen) == 1


def test_a_refusal_of_a_body_that_waits(proxied: Callable[..., FaultProxy]) -> None:
    proxy = proxied(Fault("PUT", status=503))
    with raw(proxy) as client:
        client.sendall(b"PUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"Connection: close\r\n" in answer


@pytest.mark.parametrize("size", [0, 1, 300_000, len(BODY) - 1])
def test_a_cut(size: int, proxied: Callable[..., FaultProxy]) -> None:
    proxy = proxied(Fault(cut_after=size))
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(proxy, "GET", "/a")
    assert cut.value.partial == BODY[:size]
    assert cut.value.expected == len(BODY) - size
    assert ask(proxy, "GET", "/a") == (200, BODY)


def test_a_lost_answer(upstream: type[Objects], proxied: Callable[..., FaultProxy]) -> None:
    proxy = proxied(Fault("PUT", lose_response=True))
    with pytest.raises(http.client.RemoteDisconnected):
        ask(proxy, "PUT", "/b", BODY)
    assert upstream.objects["/b"] == BODY
    assert ask(proxy, "PUT", "/b", BODY) == (200, b"")
    assert [request.status for request in proxy.requests] == [None, 200]


def test_an_object_that_is_not_seen_yet(proxied: Callable[..., FaultProxy]) -> None:
    fault = Fault(path="^/[bc]", hide_for=0.3)
    proxy = proxied(fault)
    for path in ["/b", "/c"]:
        assert ask(proxy, "PUT", path, b"x") == (200, b"")
    status, body = ask(proxy, "GET", "/b?part")
    assert (status, b"<Code>NoSuchKey</Code>" in body) == (404, True)
    assert ask(proxy, "HEAD", "/b") == (404, b"")
    # One path is hidden, as often as it is asked for.
    assert (ask(proxy, "GET", "/c"), fault.fired) == ((200, b"x"), 1)
    time.sleep(0.3)
    assert ask(proxy, "GET", "/b") == (200, b"x")
    assert statuses(proxy, 1, "HEAD", "/b") == [200]


def test_rules_together(proxied: Callable[..., FaultProxy]) -> None:
    slow = Fault("*", times=None, delay=0.1)
    refused, lost = Fault(times=2, status=429), Fault(lose_response=True)
    proxy = proxied(slow, Fault(delay=0.2), refused, lost)
    started = time.monotonic()
    assert statuses(proxy, 1) == [429]
    assert time.monotonic() - started >= 0.3
    assert statuses(proxy, 1) == [429]
    # Its turn comes when the one before it is done.
    assert lost.fired == 0
    with pytest.raises(http.client.RemoteDisconnected):
        ask(proxy, "GET", "/a")
    assert statuses(proxy, 2) == [200, 200]
    assert (slow.fired, refused.fired, lost.fired) == (5, 2, 1)


def test_stop_ends_connections(proxied: Callable[..., FaultProxy]) -> None:
    with proxied(Fault(delay=60)) as proxy, closing(connection(proxy)) as client:
        client.request("GET", "/a")
        time.sleep(0.1)
        proxy.stop()
        with pytest.raises(ConnectionError):
            client.getresponse()
    with pytest.raises(ConnectionRefusedError):
        ask(proxy, "GET", "/a")
