"""Ctrl-C stops a query at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import itertools, sys, time
import whimbrel as wb

def forever():
    for n in itertools.count():
        yield {{"time": n, "x": n % 7}}

def many():
    return wb.from_rows([{{"x": n}} for n in range(30_000)])

def push(live):
    # The reader is so slow that the queue fills up.
    subscription = live.subscribe(lambda row: time.sleep(2), runtime="{runtime}")
    for n in itertools.count():
        live.push([(n,)])

print("running", flush=True)
try:
    {what}
except KeyboardInterrupt:
    print("stopped", flush=True)
    sys.exit(3)
"""

ACTIONS = {
    "collect": 'wb.live(forever(), time="time").collect(runtime="{runtime}")',
    "relation": 'many().query(many(), lambda a, b: a.join(b, how="cross").sort("x")).collect()',
    "subscribe": 'wb.live(forever(), time="time").subscribe(lambda row: None, runtime="{runtime}").wait()',
    "push": "push(wb.live({{'time': 'int64'}}, time='time'))",
    "recursion": (
        'wb.sql("with recursive r as (select 1 x union all select 1 from r) select count(*) from r")'
        '.collect(runtime="{runtime}")'
    ),
    "idle": 'wb.live({{"time": "int64"}}, time="time").collect(runtime="{runtime}")',
}


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on Unix")
@pytest.mark.parametrize(
    ("action", "runtime"),
    [
        ("collect", "local"),
        ("collect", "library"),
        ("relation", "local"),
        ("subscribe", "local"),
        ("subscribe", "library"),
        ("push", "local"),
        ("recursion", "local"),
        ("recursion", "library"),
        ("idle", "local"),
        ("idle", "library"),
    ],
)
def test_an_interrupt_stops_a_query(action: str, runtime: str) -> None:
    program = PROGRAM.format(what=ACTIONS[action].format(runtime=runtime), runtime=runtime)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline()
        assert said == "stopped\n"
        assert process.wait(60) == 3


LEFT = {
    "subscription": """
live = wb.live({"t": "int64"}, time="t")
slow = live.query(lambda q: q.select(x=wb.udf(lambda e: time.sleep(0.05) or 1)))
job = slow.subscribe(print)
live.push([(n,) for n in range(200)])
time.sleep(0.3)
""",
    "callback": """
live = wb.live({"t": "int64"}, time="t")
job = live.subscribe(lambda row: time.sleep(0.05))
live.push([(n,) for n in range(200)])
live.advance(500)
time.sleep(0.3)
""",
    "feed": """
def slowly():
    for n in range(100000):
        time.sleep(0.001)
        yield {"t": n}

job = wb.live(slowly(), time="t").subscribe(lambda row: None)
time.sleep(0.3)
""",
    "black box": """
import _thread, threading
threading.Timer(0.5, _thread.interrupt_main).start()
try:
    rows = wb.from_rows([{"i": i} for i in range(3000)])
    rows.query(lambda q: q.select(x=wb.udf(lambda e: time.sleep(0.01) or 1))).to_rows()
except KeyboardInterrupt:
    pass
""",
}


@pytest.mark.parametrize("what", LEFT)
def test_leaving_python_ends_its_queries(what: str) -> None:
    program = (
        f"import time\nimport warnings\nimport whimbrel as wb\nwarnings.simplefilter('ignore')\n{LEFT[what]}"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stderr) == (0, "")
