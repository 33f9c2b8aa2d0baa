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
"""Most bytes of a line; the rest of a longer line is left out, and CUT says so."""
CUT = b" [the rest of this line was left out]\n"
MOST_CAPTURED = 64 * 2**20
"""Most bytes that a program may print if its whole output is kept."""
END_BYTES = 65536
"""Number of bytes at the end of a log in which its last lines are searched."""
LONGEST_SHOWN = 500
"""Most characters of a line that a message shows."""
LEFT_SECONDS = 1.0
"""Seconds for which processes that a program leaves running may keep its output open after its own end."""
_PIPE_BYTES = 2**20
"""Most bytes that a pipe holds, and so that a program may have printed just before its end."""
_POLL_SECONDS = 0.2
"""Seconds between two checks whether a program has ended while other processes keep its output open."""


class FloodError(subprocess.SubprocessError):
    """A program printed more than may be kept."""


class Lines:
    """Splits chunks of output into lines, each with its line end. A carriage return ends a line, too, because the lines
    of a progress bar have no other end."""

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
        """Yield the last line if it has no line end."""
        if self._kept:
            yield bytes(self._kept)
            self._kept.clear()


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of the chunks, each with its line end, as `Lines` splits them."""
    whole = Lines()
    for chunk in chunks:
        yield from whole.take(chunk)
    yield from whole.rest()


def texts(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of the chunks as text without line ends; a carriage return and a newline are one line end."""
    before = b""
    for line in lines(chunks):
        if line != b"\n" or not before.endswith(b"\r"):
            yield line.decode(errors="replace").rstrip("\r\n")
        before = line


def chunks(out: IO[bytes]) -> Iterator[bytes]:
    """Yield what is read from the file as soon as it comes, whether or not a line ends in it."""
    return iter(lambda: out.read1(CHUNK_BYTES), b"")  # type: ignore[attr-defined]  # buffered files have it


def end(chunks: Iterable[bytes], most: int = END_BYTES) -> bytes:
    """Return the last bytes of the chunks, at most `most`, without keeping many more in memory."""
    kept: deque[bytes] = deque()
    size = 0
    for chunk in chunks:
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) >= most:
            size -= len(kept.popleft())
    return b"".join(kept)[-most:]


def end_of_file(path: Path, most: int = END_BYTES) -> str:
    """Return the last `most` bytes of a file as text. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most).decode(errors="replace")


def last_lines(text: str, count: int) -> list[str]:
    """Return the last `count` lines of a text for a message. A line that is too long is cut."""
    last = text[-END_BYTES:].splitlines()[-count:]
    return [line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]} …" for line in last]


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program whose stdout is a pipe, give it to the body of the `with`, and wait for its end. Raises OSError.

    If an exception ends the body early, the program is killed first. After Ctrl-C, which the program gets too, it has a
    moment to end by itself.
    """
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
    """Yield what a process prints as soon as it comes, each chunk with its pipe, until the process has ended.

    Raises TimeoutExpired after `seconds`, whether the process prints or not.
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
    """Yield what comes from the pipes within `seconds`, and stop watching pipes that have ended."""
    for key, _ in pipes.select(seconds):
        if chunk := os.read(key.fd, CHUNK_BYTES):
            yield key.fileobj, chunk  # type: ignore[misc]  # a pipe was registered
        else:
            pipes.unregister(key.fileobj)


def _left(pipes: selectors.BaseSelector) -> Iterator[tuple[IO[bytes], bytes]]:
    """Yield what was still in the pipes when the process ended. If other processes keep the pipes open, wait at most
    LEFT_SECONDS for them."""
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
