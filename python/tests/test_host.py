"""Programs take the package in: it works in any of their threads and processes, and takes none down."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def run(program: str, *options: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program of its own; it has to come to its end."""
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


GROUPS = '"select n % 7 as k, count(*) as c from range(20000) t(n) group by 1 order by 1"'


@pytest.mark.parametrize("first", ["pass", "import whimbrel", "import whimbrel; whimbrel.sql"])
def test_threads_that_end(first: str) -> None:
    run(f"""
        from threading import Thread

        def first():
            {first}

        def query():
            import whimbrel as wb
            rows = wb.sql("select 1 as n").to_rows()
            assert rows[0].n == 1

        for work in (first, *([query] * 100)):
            thread = Thread(target=work)
            thread.start()
            thread.join()
    """)


def test_many_threads_at_once() -> None:
    run(f"""
        from threading import Thread

        wrong = []

        def query():
            import whimbrel as wb
            table = wb.sql({GROUPS}).collect()
            if sum(table["c"]) != 20000:
                wrong.append(table)

        for _ in range(10):
            threads = [Thread(target=query) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not wrong
    """)


def test_pools_of_threads() -> None:
    run(f"""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        def query(n):
            import whimbrel as wb
            return len(wb.sql({GROUPS}).to_rows()) + n

        for _ in range(5):
            with ThreadPoolExecutor(4) as pool:
                assert list(pool.map(query, range(20))) == [7 + n for n in range(20)]

        async def all_of_them():
            return await asyncio.gather(*(asyncio.to_thread(query, n) for n in range(20)))

        for _ in range(3):
            assert asyncio.run(all_of_them()) == [7 + n for n in range(20)]
    """)


def test_rows_of_a_thread_that_ended() -> None:
    run("""
        from threading import Thread

        kept = []

        def query(n):
            import whimbrel as wb
            kept.append(wb.from_rows([{"n": n, "text": "x" * 1000}] * 1000).collect())

        for n in range(30):
            thread = Thread(target=query, args=(n,))
            thread.start()
            thread.join()
        assert [table["n"][-1] for table in kept] == list(range(30))
        del kept[::2]
        assert all(table["text"][0] == "x" * 1000 for table in kept)
    """)


@posix
@pytest.mark.parametrize("runtime", ["local", "library"])
def test_a_fork_runs_queries(runtime: str) -> None:
    run(f"""
        import os
        import whimbrel as wb

        def query():
            assert sum(wb.sql({GROUPS}).collect(runtime="{runtime}")["c"]) == 20000
            two = wb.from_rows([{{"n": n}} for n in range(100)], shards=2)
            per = two.rekey("n").redistribute(3).query(lambda q: q.aggregate(c=wb.count()))
            assert len(per.to_rows(runtime="{runtime}")) == 100

        query()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                query()
                grandchild = os.fork()
                if grandchild == 0:
                    query()
                    os._exit(0)
                assert os.waitpid(grandchild, 0)[1] == 0
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            query()
    """)


@posix
def test_a_fork_leaves_as_any_process_does() -> None:
    run("""
        import os, sys, threading, time
        import whimbrel as wb

        live = wb.live({"time": "int64"}, time="time")
        subscription = live.subscribe(lambda row: None)
        waiting = threading.Thread(target=subscription.wait)
        waiting.start()
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            try:
                for n in range(1000):
                    live.push([(n,)])
            except wb.DataError as error:
                assert "every query that read this live source is over" in str(error), error
            else:
                os._exit(3)
            try:
                subscription.wait()
            except wb.InvalidError as error:
                assert "fork" in str(error), error
            else:
                os._exit(1)
            import atexit
            atexit._run_exitfuncs()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        live.close()
        waiting.join()
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@posix
def test_processes_of_multiprocessing(method: str, tmp_path: object) -> None:
    program = f"""
        import multiprocessing
        import whimbrel as wb

        def query(n):
            return wb.sql("select $1 + 1 as n, 'x' as s", parameters=[n]).to_rows()

        if __name__ == "__main__":
            assert query(0)[0].n == 1
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                rows = pool.map(query, range(10))
            assert [row.n for [row] in rows] == list(range(1, 11))
            assert repr(rows[0][0]) == "Row(n=1, s='x')"
    """
    file = os.path.join(str(tmp_path), "program.py")
    with open(file, "w") as out:
        out.write(textwrap.dedent(program))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_subinterpreters_are_refused_and_do_no_harm() -> None:
    run("""
        import sys
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            try:
                import _interpreters as interpreters
            except ImportError:
                sys.exit(0)
        import whimbrel as wb
        assert wb.sql("select 1 as n").to_rows()[0].n == 1
        other = interpreters.create()
        text = "\\n".join([
            "try:",
            "    import whimbrel",
            "except ImportError as error:",
            "    assert 'main interpreter' in str(error), error",
            "else:",
            "    raise SystemExit('it was taken in')",
        ])
        interpreters.run_string(other, text)
        interpreters.destroy(other)
        assert wb.sql("select 1 as n").to_rows()[0].n == 1
    """)


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are closed as on Linux")
def test_the_library_may_be_closed() -> None:
    run("""
        import _ctypes, ctypes, importlib.util, threading

        path = importlib.util.find_spec("whimbrel").submodule_search_locations[0]
        import glob
        [library] = glob.glob(path + "/_whimbrel*.so")

        def open_and_close():
            _ctypes.dlclose(ctypes.CDLL(library)._handle)

        for _ in range(5):
            thread = threading.Thread(target=open_and_close)
            thread.start()
            thread.join()
        import whimbrel as wb
        assert wb.sql("select 1 as n").to_rows()[0].n == 1
        open_and_close()
        assert wb.sql("select 1 as n").to_rows()[0].n == 1
    """)


def test_the_library_is_there_once_the_package_is() -> None:
    run("import sys, whimbrel; assert 'whimbrel._whimbrel' in sys.modules")


def test_pending_results_are_waited_for_or_named() -> None:
    done = run("""
        import whimbrel as wb
        live = wb.live({"time": "int64"}, time="time")
        live.subscribe(lambda row: print("got", row.time, flush=True))
        live.push([(n,) for n in range(3)])
        live.close()
    """)
    assert done.stdout.split() == ["got", "0", "got", "1", "got", "2"]
    assert done.stderr == ""
    done = run("""
        import whimbrel as wb
        live = wb.live({"time": "int64"}, time="time")
        live.subscribe(lambda row: print("got", row.time, flush=True))
        live.push([(n,) for n in range(3)])
    """)
    assert "UserWarning: a subscription is still running as Python ends" in done.stderr
    assert "<string>:4" in done.stderr
    done = run("""
        import whimbrel as wb
        live = wb.live({"time": "int64"}, time="time")
        with live.subscribe(print) as subscription:
            live.push([(n,) for n in range(3)])
    """)
    assert done.stderr == ""


def test_a_failure_while_python_ends_is_named() -> None:
    done = run("""
        import whimbrel as wb
        live = wb.live({"time": "int64"}, time="time")
        live.subscribe(lambda row: 1 / 0)
        live.push([(1,)])
        live.close()
    """)
    assert "a subscription failed as Python ended" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_session_in_two_threads() -> None:
    # The planner looks at signals: it needs the interpreter while it holds the session.
    run(
        """
        from threading import Thread
        import whimbrel as wb
        from whimbrel import _whimbrel as native

        session = native.Session(None)
        plan = wb.from_rows([{"a": 1}])._plan
        session.register("t", plan)
        values = native.Parameters([1], [])
        terms = " or ".join(f"a + {n} = {n % 7}" for n in range(2000))
        query = f"select count(*) from t where a = $1 or {terms}"
        planner = Thread(target=session.plan, args=(query, values))
        planner.start()
        while planner.is_alive():
            session.register("t", plan)
            values.copy()
        """,
        timeout=60,
    )
