"""The process between a trial and who searches: it runs the trial's command, and leaves nothing of it.

    python -m training.workloads.search.supervisor

It is started in a session of its own. stdin is a pipe that who searches holds: the first line is a Task; a line more
asks for the trial's end; end-of-file says that who searches is gone, a Tune actor that was killed, say. Then the trial
ends at once. stdout gets a line of JSON for each report that the trial printed, and one for its end.

The trial's process is killed with this one, and what has left its session is adopted and ended: torchrun gives its
ranks sessions of their own.
"""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from training.launch.foreign_command import MOST_PRINTED, end_descendants
from training.machine import output, process_session
from training.workloads.script.printed import Secrets

END = b"end\n"
"""The line that asks the supervisor to end the trial."""
CHUNK_BYTES = 65536
READ_SECONDS = 30.0
"""Seconds for reading what an ended trial has left in its pipe, which another process may still hold open."""
RAYS_PREFIX = re.compile(r"^(?:\x1b\[\d+m)?\([^()]*pid=\d+[^()]*\)(?:\x1b\[0m)? ")
"""Matches what Ray puts before each line of a worker's output."""
NOT_STARTED = 127
"""Exit code of a command that can't be started; shells use the same code."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A trial to run, as the search describes it to the supervisor."""

    command: list[str]
    folder: str
    variables: dict[str, str]
    """The whole environment."""
    log: str
    """Path of the file for what the trial prints."""
    secrets: list[str]
    """Texts that may not stand in the log."""
    pattern: str
    """Regular expression whose one group is the number that is reported; "" if no number is read from the output."""
    temporary: list[str]
    """Folders that are deleted when the trial has ended."""
    grace_seconds: float
    """Seconds from SIGTERM to SIGKILL, if the search asks for the trial's end."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How and when a trial ended."""

    code: int
    """Exit code; negative if a signal ended the trial."""
    at: float
    """When no process of the trial was left, in seconds of the monotonic clock."""
    printed: int
    """Number of bytes that the trial printed."""
    error: str
    """Reason why the trial could not be started; "" if it was."""
    matches: int = 0
    """How often the pattern was found in what the trial printed, also where the match was not a number."""
    ended_on_request: bool = False
    """True if the trial ran until the search asked for its end; false if it had ended by itself by then."""


def main() -> int:
    """Run the task on stdin in a child process, and return its exit code. Ray kills the children of a worker that it
    ends, and the process that ends the trial must not be among them."""
    _take_usual_signals()
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    process_session.adopt()
    head, _, more = _first_line()
    task = Task(**json.loads(head))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _terminated)
    try:
        end = _run(task, is_to_end=bool(more))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        end_descendants()
        for folder in task.temporary:
            shutil.rmtree(folder, ignore_errors=True)
    _tell(asdict(end))
    return 0


def _take_usual_signals() -> None:
    """Give this process, and so the trial, the signal handling of a process started at a terminal, which makes all arms
    equal. A job in the background ignores some signals, and Ray's workers block SIGINT."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _first_line() -> tuple[bytes, bytes, bytes]:
    """Return the first line of stdin, its line end, and what else was written to stdin already."""
    text = b""
    while b"\n" not in text:
        part = os.read(0, CHUNK_BYTES)
        if not part:
            raise SystemExit(1)  # who searches is gone
        text += part
    return text.partition(b"\n")


def _terminated(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def _tell(what: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # who searches is gone
        os.write(1, json.dumps(what).encode() + b"\n")


def _run(task: Task, *, is_to_end: bool) -> End:
    """Run the trial until it ends, or is ended, and return how it ended; `is_to_end` is true if the search has already
    asked for the end."""
    ended = _readable_at_child_end()
    log = Path(task.log).open("ab", buffering=0)  # noqa: SIM115 (open as long as this process)
    try:
        trial = subprocess.Popen(
            task.command,
            cwd=task.folder,
            env=task.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=process_session.killed_with_parent(),  # noqa: PLW1509 (there is no other thread yet)
        )
    except OSError as error:
        return End(code=NOT_STARTED, at=time.monotonic(), printed=0, error=str(error))
    assert trial.stdout  # noqa: S101 (a pipe)
    copy = _Copy(task, log, trial)
    reader = threading.Thread(target=copy.all_of, args=(trial.stdout,), daemon=True)
    reader.start()
    if ended_on_request := (is_to_end or _wait(trial, ended)) and trial.poll() is None:
        _end(trial, task.grace_seconds)
    code = trial.wait()  # before all others are waited for, of which it is one
    end_descendants()
    at = time.monotonic()
    reader.join(READ_SECONDS)
    return End(code=code, at=at, printed=copy.count, error="", matches=copy.matches, ended_on_request=ended_on_request)


def _readable_at_child_end() -> socket.socket:
    """Return a socket that becomes readable when a child process has ended."""
    ended, waker = socket.socketpair()
    for end in (ended, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)  # open as long as this process
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ended


def _wait(trial: subprocess.Popen[bytes], ended: socket.socket) -> bool:
    """Wait for the trial's end; return whether the search asks for it. Raise SystemExit if the search is gone."""
    while trial.poll() is None:
        readable, _, _ = select.select([0, ended.fileno()], [], [])
        if 0 not in readable:
            ended.recv(CHUNK_BYTES)
        elif os.read(0, CHUNK_BYTES):
            return True
        else:
            raise SystemExit(1)
    return False


def _end(trial: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """End the trial by SIGTERM to all of its processes, then by SIGKILL if it has not ended after `grace_seconds`."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.terminate()
    try:
        trial.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        trial.kill()


class _Copy:
    """Copies what a trial prints to the trial's log, without secrets, and tells the search the reports in it, until the
    trial has printed too much."""

    def __init__(self, task: Task, log: IO[bytes], trial: subprocess.Popen[bytes]) -> None:
        self.count = self.matches = 0
        self._log, self._trial = log, trial
        self._secrets = Secrets(task.secrets)
        self._pattern = re.compile(task.pattern) if task.pattern else None

    def all_of(self, out: IO[bytes]) -> None:
        """Copy the trial's output to its end. If the trial prints too much, end it and keep reading, because its
        remaining processes would wait for a reader."""
        chunks = output.chunks(out)
        with suppress(output.FloodError):
            for line in output.lines(self._counted(chunks)):
                at = time.monotonic()
                self._log.write(self._secrets.hidden_in(line))
                self._tell_reports(line, at)
        for _ in chunks:
            self._trial.kill()

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks. Raise FloodError when they are too much. The line in which that happens is not copied,
        because a secret may continue in the part that is no longer read."""
        for chunk in chunks:
            self.count += len(chunk)
            if self.count > MOST_PRINTED:
                self._trial.kill()
                raise output.FloodError
            yield chunk

    def _tell_reports(self, line: bytes, at: float) -> None:
        is_cut, text = line.endswith(output.CUT), line.removesuffix(output.CUT).decode("utf-8", "replace")
        text = RAYS_PREFIX.sub("", text).rstrip("\r\n")
        for match in self._pattern.finditer(f"{text}\n") if self._pattern else ():  # `$` matches before a newline
            if is_cut and match.end() >= len(text):
                continue  # the rest of the number is left out
            self.matches += 1
            with suppress(ValueError, IndexError, TypeError):  # no number
                _tell({"report": float(match[1]), "at": at})


if __name__ == "__main__":
    sys.exit(main())
