"""The command that the package brings, and its shell on a terminal. More is in crates/cli/tests."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

FLIGHTS = Path(__file__).parents[2] / "data" / "nyc_flights_2013.parquet"
PROMPT = "whimbrel> "
COMMAND = [sys.executable, "-m", "whimbrel"]


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    return subprocess.run([*COMMAND, *arguments], input=text, capture_output=True, text=True, timeout=60)


def test_the_command_is_there() -> None:
    result = run("sql", "--format", "csv", "select 1 as a")
    assert (result.returncode, result.stdout, result.stderr) == (0, "a\n1\n", "")
    script = Path(sys.executable).parent / "whimbrel"
    result = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert result.stdout.startswith("whimbrel ")


def test_exit_codes() -> None:
    assert run("sql", "select").returncode == 1
    assert run("--no-such-option").returncode == 2


def test_a_plan_file_has_this_python_and_the_package(tmp_path: Path) -> None:
    plan = tmp_path / "plan.py"
    plan.write_text("import sys, whimbrel as wb\nprint(wb.from_rows([{'a': 1}]).to_rows(), *sys.argv[1:])\n")
    result = run("run", str(plan), "x")
    assert (result.returncode, result.stdout) == (0, "[Row(a=1)] x\n")


class Terminal:
    """The shell on a terminal of its own: keys go in, what is shown comes out."""

    def __init__(self, home: Path, size: tuple[int, int] = (100, 30)) -> None:
        columns, lines = size
        environment = {**os.environ, "XDG_STATE_HOME": str(home), "TERM": "xterm"}
        environment.pop("TERM_PROGRAM", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(FLIGHTS.parent)
            os.execvpe(COMMAND[0], COMMAND, environment)
        set_size(self.fd, lines, columns)
        self.shown = ""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.fd, keys.encode())

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """What is shown up to this text, without what moves the cursor."""
        until = time.monotonic() + seconds
        while text not in self.shown:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} is not in {self.shown!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.shown += plain(self._read())
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def answer(self, statement: str) -> str:
        """What is shown after a statement, up to the next prompt."""
        self.type(statement + "\r")
        self.wait_for("\r\n")
        return self.wait_for(PROMPT).removesuffix(PROMPT)

    def exit_code(self) -> int:
        """Wait for the end."""
        with contextlib.suppress(OSError):
            while self._read():
                pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> str:
        return os.read(self.fd, 1 << 16).decode(errors="replace")


def set_size(fd: int, lines: int, columns: int) -> None:
    """Make the terminal so large."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def plain(text: str) -> str:
    """The text without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shell = Terminal(tmp_path)
    shell.wait_for(PROMPT)
    yield shell
    with contextlib.suppress(OSError):
        os.close(shell.fd)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(shell.pid, signal.SIGKILL)
        os.waitpid(shell.pid, 0)


def test_statements_and_commands(terminal: Terminal) -> None:
    assert "│     2 │" in terminal.answer("select 1 + 1 as two;")
    assert "late" not in terminal.answer("\\dt")
    made = terminal.answer("create view late as select carrier, dep_delay from 'nyc_flights_2013.parquet';")
    assert "late" in made
    assert "late" in terminal.answer("\\d")
    assert "dep_delay" in terminal.answer("\\d late")
    assert "timer is on" in terminal.answer("\\timing")
    assert re.search(r"\d m?s\r\n", terminal.answer("select 1;"))
    terminal.type("\\q\r")
    assert terminal.exit_code() == 0


def test_a_statement_has_several_lines(terminal: Terminal) -> None:
    terminal.type("select 40 + 2\r")
    terminal.type("  as answer\r")
    terminal.type(";\r")
    assert "│     42 │" in terminal.wait_for("1 row")


def test_an_error_does_not_end_the_shell(terminal: Terminal) -> None:
    shown = terminal.answer("select carier from 'nyc_flights_2013.parquet';")
    assert 'did you mean "carrier"?' in shown and "^^^^^^" in shown
    assert "did you mean .tables?" in terminal.answer(".tabels")
    assert "│     7 │" in terminal.answer("select 7;")


def test_tab_completes(terminal: Terminal) -> None:
    terminal.answer("create view delays as select dep_delay from 'nyc_flights_2013.parquet';")
    terminal.type("selec\t max(dep_de\t) as most from dela\t;\r")
    assert "most" in terminal.wait_for("1 row")
    terminal.wait_for(PROMPT)
    terminal.type("describe 'nyc_fl\t';\r")
    assert "carrier" in terminal.wait_for(" rows")


def test_ctrl_c_cancels_the_query_and_not_the_shell(terminal: Terminal) -> None:
    terminal.type(
        "select count(*) from 'nyc_flights_2013.parquet' a, 'nyc_flights_2013.parquet' b "
        "where a.dep_delay + b.dep_delay < a.distance;\r"
    )
    terminal.wait_for("\r\n")
    time.sleep(0.7)
    terminal.type("\x03")
    terminal.wait_for("interrupted", seconds=10)
    terminal.wait_for(PROMPT)
    # What is being typed is forgotten.
    terminal.type("select 'no\x03")
    terminal.wait_for(PROMPT)
    assert "│     5 │" in terminal.answer("select 5;")
    terminal.type("\x04")
    assert terminal.exit_code() == 0


def test_the_history_is_kept(tmp_path: Path) -> None:
    first = Terminal(tmp_path)
    first.wait_for(PROMPT)
    first.answer("select 'remember me';")
    first.type("\x04")
    assert first.exit_code() == 0
    assert "remember me" in (tmp_path / "whimbrel" / "history").read_text()
    second = Terminal(tmp_path)
    second.wait_for(PROMPT)
    second.type("\x1b[A\r")
    assert "│ remember me" in second.wait_for("1 row")
    second.wait_for(PROMPT)
    second.type("\x04")
    assert second.exit_code() == 0


def test_a_table_fits_the_terminal(tmp_path: Path) -> None:
    shell = Terminal(tmp_path, size=(60, 20))
    shell.wait_for(PROMPT)
    shown = shell.answer("select * from 'nyc_flights_2013.parquet' limit 2;")
    frames = [line for line in shown.splitlines() if line.startswith(("│", "┌", "└"))]
    assert frames and all(len(line) <= 60 for line in frames), shown
    shell.type("\x04")
    assert shell.exit_code() == 0
