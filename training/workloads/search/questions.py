"""Answers the ranks of a trial, which ask at each report of the metric whether they go on, at a Unix socket.

All ranks get the same answer to the same report. Rank 0's value is the one that is decided on; where that rank reports
nothing, the lowest rank's that does. The other side: `training/workloads/script/observe/reports.py`.
"""

import json
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GO, STOP = b"go\n", b"stop\n"
PATIENCE_SECONDS = 10.0
"""Seconds for which the report of another rank waits for that of rank 0."""
LONGEST_QUESTION = 65536
"""Most bytes that are read at once."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report of the metric."""

    number: int
    """Number of the report, from 1."""
    value: float
    at: float
    """When the report arrived, in seconds of the monotonic clock."""


@dataclass(frozen=True)
class _Question:
    rank: int
    report: Report
    asker: socket.socket


class Questions:
    """The questions of one trial's ranks, whether they go on."""

    def __init__(self, path: Path, watch: selectors.BaseSelector) -> None:
        """Listen at `path`; `watch` gets a function to call for each connection that becomes readable."""
        self._watch = watch
        self._open: list[_Question] = []
        self._returned = self._answered = 0
        """Numbers of the last report that `next` returned, and of the last that was answered."""
        self._stopped = False
        self.has_told_to_stop = False
        """True once a rank was told to stop; a rank that had died by then does not count."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._connected = {self._listener}
        watch.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def has_new(self) -> bool:
        """Return whether a rank asks about a report that `next` did not return yet."""
        return any(question.report.number > self._returned for question in self._open)

    def next(self) -> Report | None:
        """Return a report that needs an answer and was not returned before; None while there is no such report."""
        new = [question for question in self._open if question.report.number > self._returned]
        if not new:
            return None
        number = min(question.report.number for question in new)
        same = [question for question in new if question.report.number == number]
        first = min(same, key=lambda question: question.rank)
        waits_since = min(question.report.at for question in same)
        if first.rank and time.monotonic() - waits_since < PATIENCE_SECONDS:
            return None
        self._returned = number
        return first.report

    def answer(self, number: int, *, goes_on: bool) -> None:
        """Answer a report to all ranks that ask about it, now or later; after a stop, every report likewise."""
        self._answered = max(number, self._answered)
        self._stopped = self._stopped or not goes_on
        waiting, self._open = self._open, []
        for question in waiting:
            self._take(question)

    def close(self) -> None:
        """Close all connections; a rank that still asks gets no answer."""
        for connection in self._connected:
            self._watch.unregister(connection)
            connection.close()
        self._connected.clear()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._connected.add(connection)
        self._watch.register(connection, selectors.EVENT_READ, self._reader(connection))

    def _reader(self, connection: socket.socket) -> Callable[[], None]:
        text = bytearray()

        def read() -> None:
            try:
                part = connection.recv(LONGEST_QUESTION)
                text.extend(part)
                while b"\n" in text:
                    line, _, rest = bytes(text).partition(b"\n")
                    text[:] = rest
                    self._take(_question(line, connection))
            except (OSError, ValueError, KeyError, TypeError):  # a rank that was killed, or is no rank
                part = b""
            if not part:
                self._watch.unregister(connection)
                self._connected.discard(connection)
                connection.close()

        return read

    def _take(self, question: _Question) -> None:
        """Answer a question, or keep the question until its report is answered."""
        if question.report.number > self._answered and not self._stopped:
            self._open.append(question)
            return
        with suppress(OSError):  # the rank has ended
            question.asker.sendall(STOP if self._stopped else GO)
            self.has_told_to_stop = self._stopped


def _question(line: bytes, asker: socket.socket) -> _Question:
    data = json.loads(line)
    report = Report(number=int(data["report"]), value=float(data["value"]), at=time.monotonic())
    return _Question(rank=int(data["rank"]), report=report, asker=asker)
