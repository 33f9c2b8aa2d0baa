"""What a command does when it is told to end: by Ctrl-C, by a supervisor, or by a terminal that is closed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class ToldToEnd(KeyboardInterrupt):
    """Raised in the main thread; it ends what waits, and every `finally` is run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """The exit status that a shell expects."""


@contextmanager
def raised() -> Iterator[None]:
    """Have each of these signals raise ToldToEnd: SIGINT, SIGTERM, and SIGHUP unless nohup has it ignored.

    SIGINT raises it where it was ignored, too: a shell has that in a script's background jobs, and all that they start
    would inherit it. What this process starts has the default action instead, as of every signal that is handled here.
    A second SIGTERM or SIGHUP is no other request: a supervisor may tell what started this process, too, which tells
    it again.
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
