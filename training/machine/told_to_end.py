"""What a command does when it is told to end: by Ctrl-C, by a supervisor, or by a terminal that is closed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class ToldToEnd(KeyboardInterrupt):
    """Raised in the main thread when a signal tells this process to end, so that every `finally` is run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """The exit status that a shell expects: 128 plus the signal's number."""


@contextmanager
def raised() -> Iterator[None]:
    """Make these signals raise ToldToEnd while the body runs: SIGINT, SIGTERM, and SIGHUP unless nohup made the process
    ignore it.

    SIGINT raises it even if the process ignored it: a shell makes a script's background jobs ignore SIGINT, and all
    their children would inherit that. Children of this process get the default action instead, as for every signal that
    has a handler here. A second SIGTERM or SIGHUP is ignored: a supervisor may send the signal also to the parent of
    this process, which sends it again.
    """
    received: list[int] = []

    def take(number: int, _: object) -> None:
        if number == signal.SIGINT or not received:
            received.append(number)
            raise ToldToEnd(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, take) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            is_told = number != signal.SIGINT and received  # also after this, while Python ends
            signal.signal(number, signal.SIG_IGN if is_told else handler)
