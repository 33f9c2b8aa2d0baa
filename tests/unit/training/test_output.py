"""Reading what programs of others print: lines, limits, deadlines, and what a program leaves running."""

import io
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from unittest.mock import Mock

import pytest

from training.machine import output
from training.workloads.script import printed
from training.workloads.search import supervisor

LONG_SECONDS = 60
"""What hangs goes on for so long."""
SOON_SECONDS = 40
"""Whoever does not wait for that is back by then, on any machine."""


def shell(line: str) -> list[str]:
    """A program."""
    return ["sh", "-c", line]


def test_a_carriage_return_ends_a_line_as_it_comes() -> None:
    """A progress bar's: with the ends as they were printed, and none of them twice."""
    lines = output.Lines()

    assert [b"10 %\r", b"20 %\r"] == list(lines.take(b"10 %\r20 %\rlo"))
    assert [b"loss 1\r\n", b"end\r"] == list(lines.take(b"ss 1\r\nend\r"))
    assert [b"\n"] == list(lines.take(b"\nrest"))
    assert [b"rest"] == list(lines.rest())
    assert ["10 %", "", "20 %", "x"] == list(output.texts([b"10 %\r\n\r", b"\n20 %\r", b"\nx"]))


def test_a_line_that_is_too_long_is_cut_and_the_next_is_whole() -> None:
    """It is said as soon as it is too long, whatever comes then."""
    lines = output.Lines()
    most = output.LONGEST_LINE

    assert [] == list(lines.take(b"x" * most))
    assert [b"x" * most + output.CUT] == list(lines.take(b"yy"))
    assert [] == list(lines.take(b"z" * 3 * most))
    assert [b"next\n"] == list(lines.take(b"z\nnext\n"))
    assert [b"w" * most + output.CUT, b"v\n"] == list(lines.take(b"w" * 2 * most + b"\nv\n"))
    assert [] == list(lines.rest())


def test_output_without_an_end_fills_no_memory() -> None:
    """A quarter of a gigabyte without a newline: one line, and the end."""
    assert 1 == len(list(output.lines(repeat(b"y" * 65536, 4096))))
    assert b"y" * output.END_BYTES == output.end(repeat(b"y" * 1000, 4096))
    assert b"cd" == output.end([b"a", b"b", b"c", b"d"], 2)


def test_the_last_lines_of_a_log_are_read_from_its_end(tmp_path: Path) -> None:
    """Each of a length for a message, however long the only line is."""
    log = tmp_path / "log.txt"
    log.write_bytes(b"y" * 2**20 + b"\nlast\n")

    long, last = output.last_lines(output.end_of_file(log), 2)

    assert "last" == last
    assert "y" * output.LONGEST_SHOWN + " …" == long
    assert output.END_BYTES == len(output.end_of_file(log))


def test_all_that_a_program_printed_is_captured() -> None:
    """More than a pipe holds, of both streams, up to its end."""
    code = "import sys; print('x' * 3_000_000); print('y' * 3_000_000, file=sys.stderr); print('end'); sys.exit(3)"

    done = output.capture_text([sys.executable, "-c", code])

    assert (3, "x" * 3_000_000 + "\nend\n", "y" * 3_000_000 + "\n") == (done.returncode, done.stdout, done.stderr)


def test_a_program_that_prints_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With or without newlines."""
    monkeypatch.setattr(output, "MOST_CAPTURED", 2**20)
    for endless in ("yes", "yes | tr -d '\\n'"):
        with pytest.raises(output.FloodError):
            output.capture(shell(f"exec 2>&1; {endless}"))


@pytest.mark.parametrize(
    "program",
    [
        f"exec sleep {LONG_SECONDS}",
        f"exec sleep {LONG_SECONDS} >&- 2>&-",
        "while :; do echo x; sleep 0.05; done",
    ],
    ids=["silent", "without output", "printing on"],
)
def test_a_deadline_ends_a_program(program: str) -> None:
    """Whether something arrives or not."""
    began = time.monotonic()

    with pytest.raises(subprocess.TimeoutExpired):
        output.capture(shell(program), seconds=0.5)

    assert time.monotonic() - began < SOON_SECONDS


@pytest.mark.parametrize(
    "left",
    [f"sleep {LONG_SECONDS}", f"for i in $(seq {LONG_SECONDS}0); do echo left; sleep 0.1; done"],
    ids=["silent", "printing on"],
)
def test_what_a_program_leaves_is_not_waited_for(left: str) -> None:
    """Though it holds the output open; what the program itself printed is whole."""
    began = time.monotonic()

    done = output.capture_text(shell(f"({left}) & echo $!; exit 3"))

    seconds = time.monotonic() - began
    with suppress(ProcessLookupError):
        os.kill(int(next(word for word in done.stdout.split() if word != "left")), signal.SIGKILL)
    assert 3 == done.returncode
    assert seconds < SOON_SECONDS


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_ends_the_reading_ends_the_program(error: type[BaseException]) -> None:
    """Nobody would read what it prints: as at SIGTERM and Ctrl-C, which may reach this process alone."""
    with suppress(error), output.started(shell(f"exec sleep {LONG_SECONDS}")) as process:
        raise error

    assert -signal.SIGKILL == process.returncode


class Endless(io.RawIOBase):
    """Bytes without a newline, until it is ended, or 64 MiB of them."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0
        self.is_ended = False

    def readable(self) -> bool:
        """Whether it may be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a narrower buffer
        """Fill the buffer, or give the end."""
        if self.is_ended or self.given >= 64 * 2**20:
            return 0
        buffer[:] = b"y" * len(buffer)
        self.given += len(buffer)
        return len(buffer)


def test_a_script_that_prints_without_a_newline_is_ended(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """By what it printed, and not by a newline that never comes."""
    monkeypatch.setattr(printed, "MOST_PRINTED", 2**20)
    endless = Endless()

    assert not printed.Printed({}).pass_on(io.BufferedReader(endless))
    assert endless.given < 2 * 2**20
    assert capfdbinary.readouterr().out.endswith(output.CUT)


def test_no_part_of_a_secret_is_where_a_line_was_cut(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Its beginning would be left without the rest, by which it is known."""
    text = b"x" * (output.LONGEST_LINE - 9) + b"my-token-is-long\rmy-token-is-long\r"

    assert printed.Printed({"KEY": "my-token-is-long"}).pass_on(io.BytesIO(text))
    assert b"x" * (output.LONGEST_LINE - 9) + output.CUT + b"[secret]\r" == capfdbinary.readouterr().out


HIDDEN = "my-token-is-long"


@pytest.mark.parametrize("room", range(len(HIDDEN)))
def test_no_part_of_a_secret_is_where_too_much_was_printed(
    room: int, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """By a script: the line in which that happens is not passed on."""
    monkeypatch.setattr(printed, "MOST_PRINTED", 10 + room)

    assert not printed.Printed({"KEY": HIDDEN}).pass_on(io.BytesIO(f"123456789\n{HIDDEN}\n".encode()))
    assert b"123456789\n" == capfdbinary.readouterr().out


def test_no_part_of_a_secret_is_where_a_trial_printed_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk in which the secret goes on is not copied, and what it began with neither."""
    monkeypatch.setattr(supervisor, "MOST_PRINTED", 20)
    task = supervisor.Task(
        command=[], folder="", variables={}, log="", secrets=[HIDDEN], pattern="", temporary=[], grace_seconds=0
    )
    chunks = iter([b"123456789\nmy-token", b"-is-long\n", b"more\n", b""])
    monkeypatch.setattr(output, "chunks", lambda _: iter(lambda: next(chunks), b""))
    trial = Mock()
    with (tmp_path / "log.txt").open("wb", buffering=0) as log:
        supervisor._Copy(task, log, trial).all_of(io.BytesIO())

    assert b"123456789\n" == (tmp_path / "log.txt").read_bytes()
    trial.kill.assert_called()


def test_a_metric_in_a_progress_bar_is_told_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ends its lines by carriage returns alone: whoever searches would else decide when all is over."""
    told: queue.Queue[float] = queue.Queue()
    monkeypatch.setattr(supervisor, "_tell", lambda what: told.put(what["report"]))
    task = supervisor.Task(
        command=[], folder="", variables={}, log="", secrets=[], pattern=r"loss=([0-9.]+)$", temporary=[],
        grace_seconds=0,
    )  # fmt: skip
    reading, writing = os.pipe()
    with (tmp_path / "log.txt").open("wb", buffering=0) as log, os.fdopen(reading, "rb") as out:
        copy = supervisor._Copy(task, log, Mock())
        reader = threading.Thread(target=copy.all_of, args=(out,), daemon=True)
        reader.start()
        try:
            for value in (0.5, 0.25):
                os.write(writing, f"epoch loss={value}\r".encode())
                assert value == told.get(timeout=LONG_SECONDS)
        finally:
            os.close(writing)
            reader.join()

    assert b"epoch loss=0.5\repoch loss=0.25\r" == (tmp_path / "log.txt").read_bytes()
