"""Two processes copy rows to each other by Arrow Flight over TLS, and do nothing else.

    .venv/bin/python benches/peers/cluster/flight_copy.py 3000000 3

Each process serves half of the rows, two columns of int64, and fetches those of the other at the same time.
Prints how many bytes a second both fetch together, the median of some turns after the first.
"""

from __future__ import annotations

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import flight

BATCH_ROWS = 1 << 16


class Rows(flight.FlightServerBase):
    """Serves the same rows to everybody."""

    def __init__(self, rows: int, certificate: bytes, key: bytes) -> None:
        super().__init__("grpc+tls://127.0.0.1:0", tls_certificates=[(certificate, key)])
        values = np.random.default_rng(7).integers(0, 1 << 40, rows)
        self._rows = pa.table({"a": values, "b": values})

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Serve all rows."""
        reader = pa.RecordBatchReader.from_batches(
            self._rows.schema, self._rows.to_batches(max_chunksize=BATCH_ROWS)
        )
        return flight.RecordBatchStream(reader)


def serve_and_fetch(pipe: Connection, rows: int, certificate: bytes, key: bytes) -> None:
    """Serve rows, and fetch those of the other process whenever that is asked for."""
    server = Rows(rows, certificate, key)
    threading.Thread(target=server.serve, daemon=True).start()
    pipe.send(server.port)
    address = f"grpc+tls://127.0.0.1:{pipe.recv()}"
    client = flight.FlightClient(address, disable_server_verification=True)
    while pipe.recv() is not None:
        fetched = sum(chunk.data.nbytes for chunk in client.do_get(flight.Ticket(b"")))
        pipe.send(fetched)


def certificate(folder: Path) -> tuple[bytes, bytes]:
    """Make a certificate and its key."""
    files = [folder / "certificate.pem", folder / "key.pem"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-days",
        "1",
    ]
    subprocess.run([*command, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files[0].read_bytes(), files[1].read_bytes()


def main() -> None:
    """Copy some times; print the rate."""
    rows, repeats = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        secret = certificate(Path(folder))
    spawn = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(2):
        ours, theirs = spawn.Pipe()
        spawn.Process(target=serve_and_fetch, args=(theirs, rows // 2, *secret), daemon=True).start()
        pipes.append(ours)
    ports = [pipe.recv() for pipe in pipes]
    for pipe, port in zip(pipes, reversed(ports), strict=True):
        pipe.send(port)
    rates = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        for pipe in pipes:
            pipe.send("fetch")
        fetched = sum(pipe.recv() for pipe in pipes)
        rates.append(fetched / (time.perf_counter() - start))
    print(statistics.median(rates[1:] or rates))


if __name__ == "__main__":
    main()
