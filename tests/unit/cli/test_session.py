"""cli.stack.session: a command's status, its signals, and the end of all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.machine import process_session

RUN = """
import os, pathlib, sys
from cli.stack import session
from training.machine import process_session
session._PATIENCE_SECONDS = 1
process_session.GRACE_SECONDS = 0.3
sys.exit(session.run(sys.argv[1:], os.environ, pathlib.Path.cwd()))
"""

# Leaves a child in the same session that does not mind being asked to end, and says its number.
LEAVES_A_CHILD = """
import subprocess, sys
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, process_group=0)
child.stdout.readline()
print(child.pid, flush=True)
"""

COUNTS_SIGNALS = """
import os, signal, time
counted = []
def count(number, _):
    counted.append(number)
    os.write(1, f"{{signal.Signals(number).name}}\\n".encode())  # `print` may be what is interrupted
signal.signal(signal.SIGINT, count)
signal.signal(signal.SIGTERM, count)
print("ready", flush=True)
while not counted:
    time.sleep(0.05)
time.sleep({seconds})
"""
"""Goes on for so many seconds after the first signal, in which a second would be counted, too."""


def _wrapped(code: str, before: str = "true") -> subprocess.Popen[str]:
    command = ["sh", "-c", f'{before}; exec "$@"', "sh", sys.executable, "-c", RUN, sys.executable, "-c", code]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def _is_alive(pid: int) -> bool:
    return pid in process_session.session_members(os.getsid(pid)) if Path(f"/proc/{pid}").exists() else False


def test_a_command_needs_no_input() -> None:
    """Of a job of cron's, nobody has opened it."""
    done = subprocess.run(
        [*("sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", RUN), *(sys.executable, "-c", "print(input())")],
        capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert 1 == done.returncode
    assert "EOFError" in done.stderr


def test_the_status_is_that_of_the_command() -> None:
    """And 128 + n for one that signal n ended, as a shell has it; the kill of its group does not reach us."""
    ends = f"{RUN.rpartition('sys.exit')[0]}for line in sys.argv[1:]: print(session.run(['sh', '-c', line], {{}}, '/'))"
    done = subprocess.check_output([sys.executable, "-c", ends, "exit 0", "exit 7", "kill -9 0"], text=True)

    assert ["0", "7", "137"] == done.split()


def test_what_the_command_leaves_in_its_session_is_ended() -> None:
    """Also what has a process group of its own and ignores SIGTERM."""
    wrapped = _wrapped(LEAVES_A_CHILD)
    output, _ = wrapped.communicate(timeout=LONGEST_SECONDS)

    assert wrapped.returncode == 0
    assert not _is_alive(int(output))


def test_what_has_a_session_of_its_own_is_left_alone(tmp_path: Path) -> None:
    """A training run's guard ends it; that is not for here to do."""
    code = (
        "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=-3, stderr=-3).pid)"
    )
    output, _ = _wrapped(code).communicate(timeout=LONGEST_SECONDS)
    alive = _is_alive(int(output))
    os.kill(int(output), signal.SIGKILL)

    assert alive


@pytest.mark.parametrize(
    ("send", "number", "arrives"),
    [
        pytest.param(os.killpg, signal.SIGINT, "SIGINT", id="a press, which a terminal sends to the whole group"),
        pytest.param(
            os.kill, signal.SIGHUP, "SIGTERM",
            id="a closed terminal: SIGHUP would kill pulumi, which would leave its lock; to SIGTERM it ends its create",
        ),
        pytest.param(
            os.kill, signal.SIGTERM, "SIGTERM",
            id="two who tell it to end, as a supervisor tells make and us, and make tells us again",
        ),
    ],
)  # fmt: skip
def test_a_signal_reaches_the_command_once(
    send: Callable[[int, int], None], number: signal.Signals, arrives: str
) -> None:
    """It has another session than the terminal's, so only what is handed on arrives."""
    wrapped = _wrapped(COUNTS_SIGNALS.format(seconds=0.5))
    assert wrapped.stdout is not None
    wrapped.stdout.readline()
    send(wrapped.pid, number)
    first = wrapped.stdout.readline()
    if number == signal.SIGTERM:
        os.kill(wrapped.pid, number)
    output, _ = wrapped.communicate(timeout=LONGEST_SECONDS)

    assert (f"{arrives}\n", "") == (first, output)


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    """It stays ignored, here and in the command."""
    code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    output, _ = _wrapped(code, "trap '' HUP").communicate(timeout=LONGEST_SECONDS)

    assert output == "True\n"


def test_after_two_signals_the_command_has_some_seconds(wording: Wording) -> None:
    """Then it is killed, and that is said."""
    wrapped = _wrapped(COUNTS_SIGNALS.format(seconds=600))
    assert wrapped.stdout is not None
    wrapped.stdout.readline()
    os.kill(wrapped.pid, signal.SIGINT)
    assert "SIGINT\n" == wrapped.stdout.readline()
    os.kill(wrapped.pid, signal.SIGINT)
    _, errors = wrapped.communicate(timeout=LONGEST_SECONDS)

    assert wrapped.returncode == 137
    wording("stack", errors)


def test_an_empty_session_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for after an orderly end."""
    waits: list[float] = []
    monkeypatch.setattr(process_session, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waits.append))
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    process_session.end_session(process.pid)

    assert [] == waits


def test_a_session_is_ended_and_what_is_left_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ignores SIGTERM is left where nobody waits for SIGKILL."""
    monkeypatch.setattr(process_session, "GRACE_SECONDS", 0.5)
    code = "trap '' TERM; echo ignores it; exec sleep 600"
    with subprocess.Popen(["sh", "-c", code], start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert [process.pid] == process_session.session_members(process.pid)
        assert {process.pid} == process_session.end_session(process.pid, give_up_seconds=0.1)
        assert set() == process_session.end_session(process.pid)
        assert -9 == process.wait(LONGEST_SECONDS)
