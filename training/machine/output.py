"""Reads what programs of others print: by chunks, with a limit for a line and for all of it, and with a deadline that
also ends a silent one. Standard library only, for Python 3.9 and newer.

A program decides by itself how long its lines are, how much it prints, how long it is silent, and what it leaves
running. None of that may fill this process's memory, or keep it waiting.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

CHUNK_BYTES = 65536
LONGEST_LINE = 65536
"""Bytes of a line; the rest of a longer one is left out, and CUT says so."""
CUT = b" [the rest of this line was left out]\n"
MOST_CAPTURED = 64 * 2**20
"""Bytes that a program may print whose whole output is wanted."""
END_BYTES = 65536
"""Bytes of the end of a log in which its last lines are looked for."""
LONGEST_SHOWN = 500
"""Characters of a line in a message."""
LEFT_SECONDS = 1.0
"""Time for which the processes that a program leaves may hold its output open after its own end."""
_PIPE_BYTES = 2**20
"""The most that a pipe holds: so much a program may have printed just before its end."""
_POLL_SECONDS = 0.2
"""Time between two looks at whether a program has ended whose output others hold open."""


class FloodError(subprocess.SubprocessError):
    """A program printed more than is read."""


class Lines:
    """Takes chunks apart into lines with their ends. A carriage return ends a line, too: the lines of a progress bar
    have no other end."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._is_cut = False

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that ends in this chunk, and the beginning of a line as soon as it is too long."""
        for part in chunk.splitlines(keepends=True):
            ends = part.endswith((b"\n", b"\r"))
            if not self._is_cut:
                self._kept += part
                self._is_cut = len(self._kept) > LONGEST_LINE
                if self._is_cut:
                    yield bytes(self._kept[:LONGEST_LINE]) + CUT
                elif ends:
                    yield bytes(self._kept)
            if ends or self._is_cut:
                self._kept.clear()
            self._is_cut = self._is_cut and not ends

    def rest(self) -> Iterator[bytes]:
        """Yield the last line where it has no end."""
        if self._kept:
            yield bytes(self._kept)
            self._kept.clear()


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines with their ends, as `Lines` takes them apart."""
    whole = Lines()
    for chunk in chunks:
        yield from whole.take(chunk)
    yield from whole.rest()


def texts(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines as text without their ends. A newline after a carriage return ends no line of its own."""
    before = b""
    for line in lines(chunks):
        if line != b"\n" or not before.endswith(b"\r"):
            yield line.decode(errors="replace").rstrip("\r\n")
        before = line


def chunks(out: IO[bytes]) -> Iterator[bytes]:
    """Yield what is read as it comes, whether lines end in it or not."""
    return iter(lambda: out.read1(CHUNK_BYTES), b"")  # type: ignore[attr-defined]  # buffered files have it


def end(chunks: Iterable[bytes], most: int = END_BYTES) -> bytes:
    """Return the end of what is read, at most so many bytes, and never keep much more."""
    kept: deque[bytes] = deque()
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= most:
            size -= len(kept.popleft())
    return b"".join(kept)[-most:]


def end_of_file(path: Path, most: int = END_BYTES) -> str:
    """Return the end of a file's text. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most).decode(errors="replace")


def last_lines(text: str, count: int) -> list[str]:
    """Return the last lines for a message, each cut where it is too long for one."""
    last = text[-END_BYTES:].splitlines()[-count:]
    return [line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]} …" for line in last]


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose stdout is a pipe, and wait for its end. Whatever ends the body early kills it first;
    Ctrl-C has reached it, too, so that it is given a moment. Raises OSError."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
        try:
            yield process
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEFT_SECONDS)
            process.kill()
            raise
        except BaseException:
            process.kill()
            raise


def printed(process: subprocess.Popen[bytes], seconds: float | None = None) -> Iterator[tuple[IO[bytes], bytes]]:
    """Yield what a process prints as it comes, with the pipe that it comes from, until the process has ended.

    Raises TimeoutExpired after so many seconds, whether it prints or not.
    """
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    with selectors.DefaultSelector() as pipes:
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipes.register(pipe, selectors.EVENT_READ)
        while process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, seconds or 0)
            if pipes.get_map():
                yield from _ready(pipes, min(left, _POLL_SECONDS))
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, _POLL_SECONDS))
        yield from _left(pipes)


def _ready(pipes: selectors.BaseSelector, seconds: float) -> Iterator[tuple[IO[bytes], bytes]]:
    """Yield what comes within so many seconds, and watch no pipe that has ended."""
    for key, _ in pipes.select(seconds):
        if chunk := os.read(key.fd, CHUNK_BYTES):
            yield key.fileobj, chunk  # type: ignore[misc]  # a pipe was registered
        else:
            pipes.unregister(key.fileobj)


def _left(pipes: selectors.BaseSelector) -> Iterator[tuple[IO[bytes], bytes]]:
    """Yield what was in the pipes when the process ended, and wait a moment for those that hold them open."""
    until, size, came = time.monotonic() + LEFT_SECONDS, 0, True
    while pipes.get_map() and ((wait := until - time.monotonic()) > 0 or (came and size < _PIPE_BYTES)):
        came = False
        for pipe, chunk in _ready(pipes, max(0.0, wait)):
            came, size = True, size + len(chunk)
            yield pipe, chunk


def capture(
    command: Sequence[str],
    *,
    seconds: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end and return its output, as subprocess.run does, with limits.

    Raises TimeoutExpired, FloodError for a program that printed too much, and OSError.
    """
    with started(command, stderr=subprocess.PIPE, cwd=cwd, env=env) as process:
        kept = {process.stdout: bytearray(), process.stderr: bytearray()}
        for pipe, chunk in printed(process, seconds):
            kept[pipe] += chunk
            if sum(map(len, kept.values())) > MOST_CAPTURED:
                raise FloodError(f"`{' '.join(command[:3])} …` printed more than {MOST_CAPTURED // 2**20} MiB")
        out, errors = map(bytes, kept.values())
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def capture_text(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program as `capture` does, and return its output as text."""
    done = capture(command, **options)
    out, errors = (
        printed.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
        for printed in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(command, done.returncode, out, errors)
