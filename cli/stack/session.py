"""Runs one pulumi command in a session of its own, hands it the user's signals, and leaves nothing of it behind.

Pulumi's plugins have process groups of their own, and its language host looks for the engine every 5 minutes only:
a session is what still holds them together when pulumi was killed. A training run has another session and a guard
that ends it; nothing here knows of it.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from cli.setup.project import say
from training.machine import process_session

# What a terminal or a supervisor sends; each means "end" to pulumi, once per press.
_FORWARDED = {signal.SIGINT: signal.SIGINT, signal.SIGTERM: signal.SIGTERM, signal.SIGHUP: signal.SIGTERM}
_PATIENCE_SECONDS = 10
_SAME_SECONDS = 5
"""Seconds after a signal within which any but Ctrl-C's is taken for the same request to end: a supervisor may signal
both a launcher and us, and the launcher passes its signal on."""

Output = tuple[IO[bytes], IO[bytes]]
"""Files for stdout and stderr of a command that shows nothing itself, and so can ask nothing."""


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    output: Output | None = None,
    pressed: Callable[[int], None] = lambda _: None,
) -> int:
    """Run the command, and return its exit status (128 + n for signal n) after the last process of its session has
    ended.

    After the first signal, pulumi waits for the running steps; after a second signal it has 10 seconds to end.
    `pressed` is called after each signal, with the number of signals so far.
    """
    terminal = is_in_foreground()
    is_given = sys.stdin is not None and not sys.stdin.isatty()  # it is None where nobody opened it: `./rwi up <&-`
    stdin = None if not output and (terminal or is_given) else subprocess.DEVNULL
    stdout, stderr = output or (None, None)
    with _terminal_kept() if terminal else nullcontext(), _Signals(pressed) as signals:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            signals.deliver_to(process)
            status = process.wait()
        finally:
            if left := process_session.end_session(process.pid, give_up_seconds=_PATIENCE_SECONDS):
                say(f"these processes of pulumi could not be ended: {', '.join(map(str, sorted(left)))}")
    return status if status >= 0 else 128 - status


class _Signals:
    """Receives the signals that are meant for pulumi; those that come before it starts are delivered then."""

    def __init__(self, pressed: Callable[[int], None]) -> None:
        self._pressed = pressed
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[signal.Signals] = []
        self._count = 0
        self._last_told = -math.inf
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> _Signals:
        for number in (*_FORWARDED, signal.SIGALRM):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup: it goes on when the terminal is closed
            self._previous[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        signal.alarm(0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def deliver_to(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        early, self._early = self._early, []
        for number in early:
            process.send_signal(number)

    def _take(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGALRM:
            say(f"pulumi has not ended within {_PATIENCE_SECONDS} s: killing it")
            self._send(signal.SIGKILL)
            return
        if number != signal.SIGINT and time.monotonic() - self._last_told < _SAME_SECONDS:
            return
        self._last_told = time.monotonic()
        self._count += 1
        if self._count == 2:
            signal.alarm(_PATIENCE_SECONDS)
        self._send(_FORWARDED[signal.Signals(number)])
        with suppress(OSError):  # a terminal that was closed sends a signal, too
            self._pressed(self._count)

    def _send(self, number: signal.Signals) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def is_in_foreground() -> bool:
    """Return whether this process is in the terminal's foreground. After `rwi up &` it is not, and leaves the terminal
    to the shell, because pulumi would set the raw mode."""
    try:
        return sys.stdin is not None and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def _terminal_kept() -> Iterator[None]:
    """Restore the terminal's modes at the end: a pulumi that is killed cannot undo its display's raw mode."""
    modes = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
