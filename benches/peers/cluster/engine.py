"""Run queries on one engine that spreads a query over two workers; a line of JSON for each query.

`benches/peer_clusters.py` starts it with the Python of the engine's own environment, gives it tables and
queries as JSON, and reads what it prints. Every engine reads the same Parquet files, or holds their rows in
the memory of its workers, and a run is measured from the text to an Arrow table in the client. What differs:

- Spark: a standalone master and two workers of one core, each with one executor; adaptive, as it comes.
- Sail: its local cluster. Workers are threads of one server, since processes need Kubernetes.
- Daft: Ray with two nodes of one core. It cannot read string views, so it has a copy of the files without
  them.
- Whimbrel: two workers of one thread, each a process, and Redis.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tpch import answer, timed

WORKERS = 2
START_SECONDS = 120

Program = Callable[[str], Any]

Tables = dict[str, str]
"""The path of the Parquet file of each table."""


@contextmanager
def process(command: list[str], log: Path, **environment: str) -> Iterator[None]:
    """Keep a server and what it starts running; its output goes to a file."""
    with log.open("w") as output:
        child = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            # Sail does not end while a client is connected: nothing of the server is needed any more.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port: int) -> None:
    """Wait until somebody listens on a port."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port} after {START_SECONDS} s")


def pick(candidates: list[Any], strategy: str) -> Any:
    """Give the plan of a strategy, or the chosen one."""
    return next((way.stream for way in candidates if way.strategy == strategy), candidates[0].stream)


@contextmanager
def whimbrel(tables: Tables, in_memory: bool) -> Iterator[Program]:
    """Start two workers of one thread, and the store of the cluster."""
    import whimbrel as wb

    wb.config(progress=False)
    with wb.cluster.start(WORKERS) as cluster:
        sources: dict[str, Any] = dict(tables)
        if in_memory:
            for name, path in tables.items():
                wb.read(path, shards=WORKERS).to_memory(name, on=cluster)
                sources[name] = cluster.datasets[name]

        def program(text: str) -> Any:
            if text.startswith("lambda"):
                # A program over the tables, for plans that SQL cannot ask for.
                names = {"wb": wb, "cluster": cluster, "pick": pick}
                return eval(text, names)(sources).to_arrow(on=cluster)
            return wb.sql(text, shards=WORKERS, on=cluster, **sources).to_arrow()

        yield program


@contextmanager
def standalone_spark(home: Path) -> Iterator[str]:
    """Start a master and two workers of one core; give the URL of the master."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    settings = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "512m", "SPARK_LOCAL_IP": "127.0.0.1"}
    deploy = "org.apache.spark.deploy"

    def command(daemon: str, *options: str) -> list[str]:
        listens = ("--host", "127.0.0.1", "--webui-port", "0")
        return [str(home / "bin" / "spark-class"), f"{deploy}.{daemon}", *listens, *options]

    with tempfile.TemporaryDirectory() as place, ExitStack() as processes:
        scratch = Path(place)
        master = command("master.Master", "--port", str(port))
        processes.enter_context(process(master, scratch / "master.log", **settings))
        wait_for_port(port)
        for number in map(str, range(WORKERS)):
            worker = command(
                "worker.Worker", "--cores", "1", "--memory", "4g", "-d", f"{place}/{number}", url
            )
            processes.enter_context(process(worker, scratch / f"{number}.log", **settings))
        yield url


@contextmanager
def spark(tables: Tables, in_memory: bool) -> Iterator[Program]:
    """Start a standalone cluster: a master and two workers of one core."""
    import pyspark
    from pyspark.sql import SparkSession

    with standalone_spark(Path(pyspark.__path__[0])) as url:
        builder = SparkSession.builder.master(url).config("spark.driver.host", "127.0.0.1")
        options = {
            "spark.executor.cores": "1",
            "spark.executor.memory": "3g",
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.cores.max": str(WORKERS),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
        }
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        for name, path in tables.items():
            session.read.parquet(path).createOrReplaceTempView(name)
            if in_memory:
                session.sql(f"cache table {name}")
        yield lambda sql: session.sql(sql).toArrow()
        session.stop()


@contextmanager
def sail(tables: Tables, _in_memory: bool) -> Iterator[Program]:
    """Start its local cluster of two workers, which are threads of one server."""
    from pyspark.sql import SparkSession

    port = free_port()
    settings = {
        "SAIL_MODE": "local-cluster",
        "SAIL_CLUSTER__WORKER_INITIAL_COUNT": str(WORKERS),
        "SAIL_CLUSTER__WORKER_MAX_COUNT": str(WORKERS),
        "SAIL_CLUSTER__WORKER_TASK_SLOTS": "8",
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(WORKERS),
    }
    server = [str(Path(sys.executable).parent / "sail"), "spark", "server", "--port", str(port)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        process(server, Path(scratch) / "server.log", **settings),
    ):
        wait_for_port(port)
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        for name, path in tables.items():
            session.read.parquet(path).createOrReplaceTempView(name)
        yield lambda sql: session.sql(sql).toArrow()


def without_views(source: Path) -> str:
    """Make the copy of a file that Daft can read, once."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    target = source.parent / "without_views" / source.name
    if target.exists():
        return str(target)
    target.parent.mkdir(exist_ok=True)
    file = parquet.ParquetFile(source)
    views = pa.types.is_string_view
    schema = pa.schema(
        [(field.name, pa.string() if views(field.type) else field.type) for field in file.schema_arrow]
    )
    begun = target.with_suffix(".begun")
    with parquet.ParquetWriter(begun, schema, compression="snappy", store_schema=False) as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group).cast(schema))
    begun.rename(target)
    return str(target)


@contextmanager
def daft(tables: Tables, _in_memory: bool) -> Iterator[Program]:
    """Start two nodes of Ray with one core each."""
    import daft
    import ray
    from ray.cluster_utils import Cluster

    copies = {name: without_views(Path(path)) for name, path in tables.items()}
    memory = 2 << 30
    head = {"num_cpus": 1, "object_store_memory": memory, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=memory)
    ray.init(address=cluster.address, log_to_driver=False)
    daft.set_runner_ray(address=cluster.address)
    os.environ["DAFT_PROGRESS_BAR"] = "0"
    yield lambda sql: daft.sql(
        sql, **{name: daft.read_parquet(path) for name, path in copies.items()}
    ).to_arrow()
    ray.shutdown()
    cluster.shutdown()


ENGINES = {"whimbrel": whimbrel, "spark": spark, "sail": sail, "daft": daft}

# Engines whose workers hold tables in their memory here.
WITH_MEMORY = {"whimbrel", "spark"}


def main() -> None:
    """Run each query once and some times more; print what that took and how it answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--repeats", type=int, required=True)
    arguments = parser.parse_args()
    work = json.load(sys.stdin)
    if work["in_memory"] and arguments.engine not in WITH_MEMORY:
        raise SystemExit(f"{arguments.engine} does not hold tables in the memory of its workers here")
    start = time.perf_counter()
    with ENGINES[arguments.engine](work["tables"], work["in_memory"]) as program:
        for query in work["queries"]:
            line: dict[str, Any] = {"query": query["query"]}
            try:
                table, seconds = timed(program, query["sql"])
                ready = time.perf_counter() - start
                line["runs"] = [seconds, *(timed(program, query["sql"])[1] for _ in range(arguments.repeats))]
                line["ready"], line["answer"] = ready, answer(table)
            except Exception as error:
                # Errors of Ray end with their cause.
                line["error"] = (str(error).strip().splitlines() or [repr(error)])[-1][:300]
            print(json.dumps(line), flush=True)
    # The client of Sail would wait at its end for the server, which is gone.
    os._exit(0)


if __name__ == "__main__":
    main()
