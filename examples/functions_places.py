"""Where `functions.py` runs its queries, and what disturbs them there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import whimbrel as wb

# The proxy of the tests injects faults here, too.
sys.path.append(str(Path(__file__).resolve().parent.parent / "python" / "tests"))
from fault_proxy import Fault, FaultProxy

MEMORY = 3008
TIMEOUT = 300
PRICES = "aws-us-east-1-x86"

# The only path that the emulator serves.
INVOCATIONS = "2015-03-31/functions/function/invocations"

# Some requests for what queries exchange are answered this many seconds late.
DELAY = 0.6
LATE = (
    Fault("GET", "/queries/", times=None, every=40, delay=DELAY),
    Fault("PUT", "/queries/", times=None, every=20, delay=DELAY),
)

# What a function may compute that only waits for its next invocation, in nanoseconds a look.
IDLE = 1_000_000
LOOK = 0.01


def free_ports(count: int) -> list[int]:
    """Find ports that nobody has; all are held until all are known, so that they differ."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in held]


class RiePool:
    """Emulators of AWS Lambda (RIE), each with a function that runs one invocation at a time.

    A function is a child of its emulator, which starts it with the first invocation. When it dies, the
    invocation is lost that it runs, or else the next one; the one after that starts it again.
    """

    def __init__(self, emulator: str, function: Path, size: int, s3: str) -> None:
        self.urls: list[str] = []
        self._emulators: list[subprocess.Popen[bytes]] = []
        self._size = size
        self._environment = os.environ | {
            "AWS_ENDPOINT": s3,
            "AWS_ALLOW_HTTP": "true",
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(TIMEOUT),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(MEMORY),
        }
        # Emulators also end where this process is killed; their functions end without them.
        along = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._emulator, self._function = [*along, emulator], str(function.resolve())

    def __enter__(self) -> RiePool:
        ports = free_ports(2 * self._size)
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(tempfile.TemporaryFile())
            stack.push(lambda kind, error, trace: tell_why(error, log))
            for port, api in zip(ports[::2], ports[1::2], strict=True):
                stack.callback(stop, self._start(f"127.0.0.1:{port}", f"127.0.0.1:{api}", log))
            for port, emulator in zip(ports[::2], self._emulators, strict=True):
                wait_for(port, emulator)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _start(self, address: str, api: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        places = ["--runtime-interface-emulator-address", address, "--runtime-api-address", api]
        command = [*self._emulator, *places, self._function]
        emulator = subprocess.Popen(
            command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._emulators.append(emulator)
        self.urls.append(f"http://{address}")
        return emulator

    def pids(self) -> list[int]:
        """List the processes of the functions that have started."""
        return [pid for emulator in self._emulators for pid in children(emulator.pid)]

    def revive(self) -> None:
        """Let emulators notice which functions have died, before the next query loses an invocation."""
        for emulator, url in zip(self._emulators, self.urls, strict=True):
            # Where there is a function, it may be at work: then a second invocation would make RIE panic.
            if not children(emulator.pid):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{url}/{INVOCATIONS}", b"{}", 30).close()


def children(pid: int) -> list[int]:
    """List the processes that the threads of a process have started."""
    found: list[int] = []
    for started in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may have ended.
        with contextlib.suppress(OSError):
            found += map(int, started.read_text().split())
    return found


def stop(emulator: subprocess.Popen[bytes]) -> None:
    """End an emulator, which ends its function."""
    emulator.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        emulator.wait(5)
    emulator.kill()
    emulator.wait()


def tell_why(error: BaseException | None, log: IO[bytes]) -> None:
    """Print the last lines of the log of the emulators if something has failed."""
    if isinstance(error, Exception):
        log.seek(0)
        last = log.read().decode(errors="replace").splitlines()[-20:]
        print("The emulators said last:", *last, sep="\n", file=sys.stderr)


def wait_for(port: int, emulator: subprocess.Popen[bytes]) -> None:
    """Wait until an emulator accepts connections."""
    until = time.monotonic() + 30
    while emulator.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"an emulator does not answer at port {port}")


def computed(pid: int) -> int:
    """Add up for how many nanoseconds the threads of a process have run; 0 where there is no /proc."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(thread.read_text().split()[0])
    return total


@dataclass
class Place:
    """Where queries run: functions, their processes, and what stands before their objects."""

    name: str
    functions: wb.functions.Functions
    pids: Callable[[], list[int]]
    proxy: FaultProxy | None = None
    revive: Callable[[], None] = lambda: None

    def kill_one(self) -> bool:
        """Kill the function that computes most at the moment; say whether there was one that did.

        One without an invocation is left alone: its loss might only be noticed by the next query.
        """
        before = {pid: computed(pid) for pid in self.pids()}
        time.sleep(LOOK)
        work = {pid: computed(pid) - earlier for pid, earlier in before.items()}
        victim = max(work, key=work.__getitem__, default=None)
        if victim is None or work[victim] < IDLE:
            return False
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    @contextlib.contextmanager
    def slow(self) -> Iterator[None]:
        """Let some requests come late, if there is a proxy."""
        if self.proxy is None:
            yield
            return
        self.proxy.faults = list(LATE)
        try:
            yield
        finally:
            self.proxy.faults = []


@contextlib.contextmanager
def emulated(size: int, with_faults: bool) -> Iterator[Place]:
    """Run queries on emulators of AWS Lambda over an S3 server."""
    server = os.environ["WHIMBREL_S3"]
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(RiePool(os.environ["WHIMBREL_RIE"], function_program(), size, server))
        # One client for all runs, since it knows which emulators are busy: a second invocation would make one
        # panic. So the proxy is there for all runs, and has rules only while there are to be faults.
        proxy = stack.enter_context(FaultProxy(server)) if with_faults else None
        functions = wb.functions.connect(
            function="function",
            endpoint=pool.urls,
            bucket="s3://whimbrel/example",
            s3=server if proxy is None else proxy.url,
            concurrency=size,
            memory=MEMORY,
            timeout=f"{TIMEOUT}s",
            small=0,
            prices=PRICES,
        )
        name = f"{size} emulators of AWS Lambda over an S3 server"
        yield Place(name, functions, pool.pids, proxy, pool.revive)


@contextlib.contextmanager
def embedded(size: int) -> Iterator[Place]:
    """Run queries on a function service and a folder of this machine, at the prices of AWS Lambda."""
    with wb.functions.start(size, memory=MEMORY, small=0, prices=PRICES) as functions:
        yield Place(f"{size} functions of a service of this machine", functions, lambda: functions.pids)


def function_program() -> Path:
    """Find the program of a function, as it is deployed to AWS Lambda."""
    target = os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache" / "whimbrel" / "target"
    built = Path(target) / "release" / "whimbrel-function"
    return Path(os.environ.get("WHIMBREL_FUNCTION") or built)


def what_is_missing() -> list[str]:
    """List what emulators need and is not there."""
    missing = []
    if not os.environ.get("WHIMBREL_S3"):
        missing.append("no S3 server: WHIMBREL_S3 is not set")
    if not os.environ.get("WHIMBREL_RIE"):
        missing.append("no emulator of AWS Lambda: WHIMBREL_RIE is not set")
    if not function_program().exists():
        missing.append(f"no function at {function_program()}, and WHIMBREL_FUNCTION is not set")
    return missing
