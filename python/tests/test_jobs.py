"""Jobs that survive: killed at any moment, with sources that grow and sinks that count epochs."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import whimbrel as wb

PROGRAM = Path(__file__).parent / "programs" / "surviving_job.py"
ITEMS = ["a", "b", "c", "d", "e"]

# `WHIMBREL_KILLS=1000 pytest python/tests/test_jobs.py -k killed` is the long run.
KILLS = int(os.environ.get("WHIMBREL_KILLS", "16"))


class Input:
    """Clicks and views that are written while jobs read them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.clock = 0
        self.rows = 0
        for name in ("clicks", "views"):
            (root / name).mkdir(parents=True)

    def grow(self) -> None:
        """Append some rows to one file, or write another; now and then rename the one that grew."""
        for name in ("clicks", "views"):
            folder = self.root / name
            current = folder / "z-current.csv"
            if self.random.random() < 0.1 and current.exists():
                current.rename(folder / f"old-{self.rows:06}.csv")
            is_new = not current.exists()
            with current.open("a") as file:
                if is_new:
                    file.write("time,item,n\n")
                for at in range(self.random.randrange(1, 30)):
                    file.write(f"{self.clock + at // 3},{self.random.choice(ITEMS)},{self.rows}\n")
                    self.rows += 1
        self.clock += 10


def results(folder: Path, plain: bool = False) -> list[tuple]:
    """All rows of a folder, in an order of their own."""
    if not list(folder.glob("*.parquet")):
        return []
    rows = [tuple(row) if plain else tuple(dict(row).values()) for row in wb.read(folder).to_rows()]
    return sorted(rows, key=str)


def start(root: Path, runtime: str, shards: int, finish: bool = False) -> subprocess.Popen:
    """Begin or go on with the jobs of a folder."""
    mode = "finish" if finish else "run"
    command = [sys.executable, str(PROGRAM), str(root), runtime, str(shards), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(root: Path, runtime: str, shards: int) -> None:
    """Run the jobs until they have read everything."""
    process = start(root, runtime, shards, finish=True)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix")
@pytest.mark.parametrize(("runtime", "shards"), [("local", 2), ("library", 1)])
def test_killed_jobs_give_what_undisturbed_ones_give(tmp_path: Path, runtime: str, shards: int) -> None:
    root, chance = tmp_path / "killed", random.Random(KILLS * shards)
    written = Input(root, seed=shards)
    for kill in range(KILLS // 2):
        written.grow()
        # A job goes on in as many shards as it was begun with, whatever is asked for later.
        process = start(root, runtime, shards if kill == 0 else chance.choice((1, shards, 3)))
        assert process.stdout is not None
        process.stdout.readline()
        until = time.monotonic() + chance.random() * 0.6
        while time.monotonic() < until:
            written.grow()
            time.sleep(0.02)
        if chance.random() < 0.2:
            # A process that hangs is replaced by another, and comes back.
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            process.send_signal(signal.SIGCONT)
        process.kill()
        _, errors = process.communicate()
        assert "Error" not in errors, errors
    finish(root, runtime, shards)
    undisturbed = tmp_path / "undisturbed"
    for name in ("clicks", "views"):
        shutil.copytree(root / name, undisturbed / name)
    finish(undisturbed, runtime, shards)
    lines = ("windows", "numbered", "sessions", "joined", "absent", "enriched", "history", "runs", "merged")
    for name in lines:
        expected = results(undisturbed / name / "out")
        assert expected, name
        assert results(root / name / "out") == expected, name
    # Changes depend on which rows come together; what they add up to does not.
    assert net_changes(root / "changes" / "out") == net_changes(undisturbed / "changes" / "out")


def net_changes(folder: Path) -> Counter:
    """Add up the rows that came and went; none went that had not come."""
    net: Counter = Counter()
    for row in wb.read(folder).to_rows():
        change, *values = dict(row).values()
        net[tuple(values)] += change
    return Counter({row: count for row, count in net.items() if count})


def count_query(source: wb.ShardedStream) -> wb.ShardedStream:
    return source.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), sum=wb.sum("n")))


def run_count(source: wb.ShardedStream, root: Path) -> wb.Job:
    return count_query(source).run_forever(
        root / "out", checkpoint=root / "state", every="20ms", stop_when_idle="100ms"
    )


def test_a_log_keeps_what_was_pushed(tmp_path: Path) -> None:
    schema = {"time": "int64", "n": "int64"}
    source = wb.live(schema, time="time", log=tmp_path / "log")
    source.push([(t, t) for t in range(25)])
    job = run_count(source, tmp_path)
    assert job.restored_from is None and job.checkpointed_at is not None
    assert results(tmp_path / "out") == [(10, 20, 10, 45), (20, 30, 10, 145)]
    with pytest.raises(wb.DataError, match="another process, or another source"):
        wb.live(schema, time="time", log=tmp_path / "log")
    del source, job
    source = wb.live(schema, time="time", log=tmp_path / "log")
    source.push([(t, t) for t in range(25, 31)])
    source.close()
    job = run_count(source, tmp_path)
    assert job.restored_from is not None and job.rows_read == 6
    assert results(tmp_path / "out") == [
        (10, 20, 10, 45),
        (20, 30, 10, 145),
        (30, 40, 10, 245),
        (40, 50, 1, 30),
    ]
    # The query has ended: nothing is left to do.
    run_count(source, tmp_path)
    assert len(results(tmp_path / "out")) == 4


PUSHER = """
import sys
import whimbrel as wb
log, first = sys.argv[1], int(sys.argv[2])
source = wb.live({"time": "int64", "n": "int64"}, time="time", log=log)
n = first
while True:
    source.push([(n, n)])
    print(n, flush=True)
    n += 1
"""


@pytest.mark.skipif(os.name != "posix", reason="processes are killed as on Unix")
def test_what_was_acknowledged_is_in_the_log(tmp_path: Path) -> None:
    acknowledged = -1
    for _ in range(5):
        command = [sys.executable, "-c", PUSHER, str(tmp_path / "log"), str(acknowledged + 1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(40):
            acknowledged = int(process.stdout.readline())
        process.kill()
        rest, _ = process.communicate()
        acknowledged = int((rest.split() or [acknowledged])[-1])
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    source.close()
    rows = source.query(lambda q: q.select("n"))
    rows.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", stop_when_idle="200ms")
    found = Counter(row[-1] for row in results(tmp_path / "out"))
    # A push that was not acknowledged may have been written; it was then pushed again.
    assert set(range(acknowledged + 1)) <= set(found)
    assert sum(found.values()) <= acknowledged + 1 + 5


def test_a_sink_that_fails_ends_a_job_without_news(tmp_path: Path) -> None:
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    source.push([(t, t) for t in range(25)])

    def call(epoch: int, row: wb.Row) -> None:
        # The last epoch has been cut, and a checkpoint of it is written meanwhile: nothing more comes.
        time.sleep(0.5)
        raise ValueError("the database is away")

    job = count_query(source).subscribe(call, checkpoint=tmp_path / "state", every="20ms")
    with pytest.raises(wb.DataError, match="the database is away"):
        job.wait()


def test_a_callback_learns_the_epoch(tmp_path: Path) -> None:
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    source.push([(t, t) for t in range(25)])
    seen: list[tuple[int, wb.Row]] = []

    def call(epoch: int, row: wb.Row) -> None:
        if row.start == 20 and len(seen) == 1:
            raise ValueError("the database is away")
        seen.append((epoch, row))

    options = {"checkpoint": tmp_path / "state", "every": "20ms", "stop_when_idle": "100ms"}
    job = count_query(source).subscribe(call, **options)
    with pytest.raises(wb.DataError, match="the database is away"):
        job.wait()
    assert [row.start for _, row in seen] == [10]
    first = seen.pop()
    seen.append((0, first[1]))
    seen.append((0, first[1]))
    job = count_query(source).subscribe(call, **options)
    assert isinstance(job, wb.Job) and job.wait()
    # The epoch comes again, under its number.
    assert seen[2] == first
    assert [row.start for _, row in seen[2:]] == [10, 20]
    with pytest.raises(wb.InvalidError, match='form="events"'):
        count_query(source).subscribe(call, form="events", **options)


def test_files_that_grow_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(wb.InvalidError, match="declare them"):
        wb.follow(folder, time="time")
    (folder / "_hidden.csv").write_text("nonsense\n")
    (folder / "a.csv").write_text('time,item\n1,"two\nlines"\n2,half')
    (folder / "b.csv.tmp").write_text("time,item\n99,x\n")
    rows: list[wb.Row] = []

    def wait_for(count: int) -> None:
        until = time.monotonic() + 60
        while len(rows) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(rows) == count, rows

    stream = wb.follow(folder, time="time").query(lambda q: q.select("item"))
    with stream.subscribe(rows.append) as job:
        wait_for(1)
        assert rows[0].item == "two\nlines"
        with (folder / "a.csv").open("a") as file:
            file.write(" a line\n3,three\n")
        wait_for(3)
        (folder / "b.csv.tmp").rename(folder / "b.csv")
        wait_for(4)
        (folder / "a.csv").rename(folder / "a-old.csv")
        with (folder / "a-old.csv").open("a") as file:
            file.write("100,late\n")
        (folder / "a.csv").write_text("time,item\n101,new\n")
        wait_for(6)
        assert [row.item for row in rows] == ["two\nlines", "half a line", "three", "x", "late", "new"]
        (folder / "c.csv").write_text("item,time\nx,102\n")
        with pytest.raises(wb.DataError, match="the files before it have time, item"):
            job.wait(10)


def test_other_formats_are_read_when_they_are_complete(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    table = wb.from_rows([{"time": 1, "n": 1}, {"time": 2, "n": 2}])
    table.to_storage(folder)
    (folder / "part-00000.parquet").rename(folder / "1.parquet")
    stream = wb.follow(folder, time="time").query(lambda q: q.select("n"))

    def run() -> list[tuple]:
        stream.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", stop_when_idle="150ms")
        return results(tmp_path / "out")

    assert len(run()) == 2
    more = wb.from_rows([{"time": 3, "n": 3}])
    more.to_storage(tmp_path / "more")
    shutil.copy(tmp_path / "more/part-00000.parquet", folder / ".2.parquet")
    assert len(run()) == 2
    (folder / ".2.parquet").rename(folder / "2.parquet")
    assert len(run()) == 3
    other = wb.from_rows([{"time": 4, "m": 3}])
    other.to_storage(tmp_path / "other")
    shutil.copy(tmp_path / "other/part-00000.parquet", folder / "3.parquet")
    with pytest.raises(wb.DataError, match=r"column 2 is `n` in the first and `m` in the second"):
        run()


def test_files_that_are_larger_than_a_slice_come_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = 1_500_000
    for number, name in enumerate(["a", "b"]):
        times = range(number * rows, (number + 1) * rows)
        text = "".join(f"{time},{time % 7}\n" for time in times)
        (tmp_path / f"in/{name}.csv").write_text("time,n\n" + text)
        assert len(text) > 12 << 20
    # A row that is out of order would be an error.
    source = wb.follow(tmp_path / "in", time="time")
    windows = source.query(lambda q: q.tumbling(100_000).aggregate(n=wb.count()))
    windows.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", stop_when_idle="100ms")
    assert [row[-1] for row in results(tmp_path / "out")] == [100_000] * 29


def test_lines_that_were_lost_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    path.write_text("time,n\n1,1\n2,2\n")
    source = wb.follow(path.parent / "*.csv", time="time")
    root = tmp_path / "job"
    job = count_query(source).run_forever(
        root / "out", checkpoint=root / "state", every="1h", stop_when_idle=None, wait=False
    )
    while job.epoch == 0:
        time.sleep(0.01)
    job.stop()
    # The rows that have to be read again are gone.
    path.unlink()
    with pytest.raises(wb.DataError, match=r"a\.csv` is gone or was written anew, and its bytes 0 to"):
        run_count(source, root)


def test_what_cannot_survive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wb.InvalidError, match="give the source a log"):
        run_count(wb.live({"time": "int64", "n": "int64"}, time="time"), tmp_path)
    assert not (tmp_path / "state").exists()
    source = wb.from_rows([{"time": 1, "n": 1}], time="time")
    with pytest.raises(wb.InvalidError, match="cannot be written to kafkaesque"):
        count_query(source).run_forever("kafkaesque://x", checkpoint=tmp_path / "a")
    with pytest.raises(wb.InvalidError, match="names no table"):
        count_query(source).run_forever("postgres://localhost/x", checkpoint=tmp_path / "a")
    with pytest.raises(wb.InvalidError, match="every"):
        count_query(source).run_forever(tmp_path / "out", checkpoint=tmp_path / "a", every="soon")
    with pytest.raises(wb.InvalidError, match="log keeps what is pushed"):
        wb.live([{"time": 1}], time="time", log=tmp_path / "log")


def test_state_of_another_query_is_refused(tmp_path: Path) -> None:
    table = wb.from_rows([{"time": t, "n": t} for t in range(50)], time="time")
    run_count(table, tmp_path)
    expected = results(tmp_path / "out")
    assert len(expected) == 5
    other = wb.from_rows([{"time": t, "n": 0} for t in range(50)], time="time")
    with pytest.raises(wb.DataError, match="of another query or of other tables"):
        run_count(other, tmp_path)
    run_count(table, tmp_path)
    assert results(tmp_path / "out") == expected
    with pytest.raises(wb.InvalidError, match="results of another job"):
        count_query(table).run_forever(tmp_path / "out", checkpoint=tmp_path / "state2")
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(wb.DataError, match="file"):
        count_query(table).run_forever(tmp_path / "out2", checkpoint=blocker / "state")


def text_is_long(e: wb.Row) -> bool:
    return len(str(e.k)) > 1


PLANS: dict[str, Callable[[wb.Stream], wb.Stream]] = {
    "pairs": lambda q: q.consecutive_pairs().select("k"),
    "union": lambda q: q.union(q.shift(1)),
    "join": lambda q: q.join(q.select("k"), on="k"),
    "multicast": lambda q: q.multicast(lambda r: r.union(r.where(lambda e: e.k == "aa"))),
    "black_box": lambda q: q.detect(
        wb.event(wb.udf(text_is_long, returns="bool")).then(wb.event()), within=10
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_known_again(tmp_path: Path, name: str) -> None:
    """A part that is read twice, and a function of Python, are the same after a restart."""

    def run() -> None:
        steps = wb.follow(tmp_path / "in", time="time").query(PLANS[name])
        steps.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", stop_when_idle="100ms")

    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(f"time,k\n{2 * number},aa\n{2 * number + 1},b\n")
        run()


def test_one_process_at_a_time_runs_a_job(tmp_path: Path) -> None:
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    query = count_query(source)
    job = query.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", wait=False)
    with pytest.raises(wb.DataError, match="another process runs a job"):
        query.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", wait=False)
    job.stop()
    assert job.done
    query.run_forever(tmp_path / "out", checkpoint=tmp_path / "state", stop_when_idle="0s")


@pytest.mark.skipif(sys.platform != "linux", reason="a small disk is mounted as on Linux")
def test_a_full_disk_loses_nothing(small_disk: Callable[[int], Path], tmp_path: Path) -> None:
    disk = small_disk(256)
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    source.push([(t, t) for t in range(25)])
    filler = disk / "filler"
    filler.write_bytes(b"x" * (200 << 10))
    with pytest.raises(wb.ResourceExhaustedError, match="No space left"):
        while True:
            filler.open("ab").write(b"x" * 4096)
            run_count(source, disk)
    filler.unlink()
    run_count(source, disk)
    assert results(disk / "out") == [(10, 20, 10, 45), (20, 30, 10, 145)]


def postgres_rows(url: str, query: str) -> list[tuple]:
    """The rows of a query, by psql."""
    command = ["psql", url, "--no-psqlrc", "--tuples-only", "--no-align", "--command", query]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("|")) for line in out.splitlines()]


@pytest.mark.skipif("WHIMBREL_POSTGRES" not in os.environ, reason="WHIMBREL_POSTGRES names no server")
def test_a_table_of_postgres_has_each_result_once(tmp_path: Path) -> None:
    server = os.environ["WHIMBREL_POSTGRES"]
    table = f"jobs_{os.getpid()}"
    source = wb.live({"time": "int64", "n": "int64"}, time="time", log=tmp_path / "log")
    stop = threading.Event()

    def kill_connections() -> None:
        while not stop.is_set():
            kill = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%progress%'"
            subprocess.run(["psql", server, "--no-psqlrc", "-c", kill], capture_output=True, check=False)
            time.sleep(0.05)

    killer = threading.Thread(target=kill_connections)
    killer.start()
    try:
        for first in range(0, 600, 100):
            source.push([(t, t) for t in range(first, first + 100)])
            count_query(source).run_forever(
                f"{server}&table={table}", checkpoint=tmp_path / "state", every="20ms", stop_when_idle="200ms"
            )
    finally:
        stop.set()
        killer.join()
    rows = postgres_rows(server, f"select start, n, sum from {table} order by start")
    assert rows == [(str(s), "10", str(sum(range(s - 10, s)))) for s in range(10, 600, 10)]


def test_jobs_end_with_python(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
import whimbrel as wb
root = pathlib.Path({str(tmp_path)!r})
source = wb.live({{"time": "int64", "n": "int64"}}, time="time", log=root / "log")
source.push([(t, t) for t in range(25)])
query = source.query(lambda q: q.tumbling(10).aggregate(n=wb.count(), sum=wb.sum("n")))
job = query.run_forever(root / "out", checkpoint=root / "state", every="20ms", wait=False)
while not job.committed:
    time.sleep(0.01)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert results(tmp_path / "out") == [(10, 20, 10, 45), (20, 30, 10, 145)]


def test_paths_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("in").mkdir()
    pathlib.Path("in/a.jsonl").write_text('{"time": 1, "n": 1}\n{"time": 12, "n": 2}\n')
    source = wb.follow("in/*.jsonl", time="time")
    run_count(source, Path("."))
    assert results(tmp_path / "out") == [(10, 20, 1, 1)]


def test_the_command_runs_jobs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("time,item\n1,a\n2,b\n12,a\n")
    (tmp_path / "windows.sql").write_text(
        "create external table clicks (time bigint, item varchar) stored as csv location 'in/*.csv'\n"
        "    options (follow 'true', time 'time');\n"
        "select window_end, count(*) as n from tumble(table clicks, descriptor(time), 10)\n"
        "    group by window_end;\n"
    )
    command = [
        str(Path(sys.executable).parent / "whimbrel"),
        "run",
        *("--checkpoint", "state", "--to", "out", "--every", "20ms", "--stop-when-idle", "100ms"),
    ]

    def run(*arguments: str) -> subprocess.CompletedProcess:
        whole = [*command, *arguments]
        return subprocess.run(whole, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    ended = run("windows.sql")
    assert ended.returncode == 0, ended.stderr
    assert "3 rows read, 1 rows out" in ended.stderr
    (tmp_path / "in/b.csv").write_text("time,item\n25,a\n")
    ended = run("windows.sql")
    assert ended.returncode == 0 and "goes on behind epoch" in ended.stderr, ended.stderr
    assert len(results(tmp_path / "out")) == 2
    (tmp_path / "p.py").write_text("")
    assert "says itself where its state is kept" in run("p.py").stderr
    command[command.index("20ms")] = "soon"
    assert run("windows.sql").returncode == 2
    bare = subprocess.run([*command[:2], "--to", "x", "y.sql"], capture_output=True, text=True, check=False)
    assert bare.returncode == 2 and "--checkpoint" in bare.stderr
