"""Counts what other programs take of this machine while arms are tried: times of a busy machine are no basis."""

import os
import sys
import threading
import time
from types import TracebackType

from infra.places.local.beside import FOLLOW_SECONDS, LOOK_SECONDS, in_words, use
from training.contract.cpu_use import MachineUse
from training.contract.provenance import allowed_cpus
from training.machine import process_session
from training.machine.cpu_time import CpuTime, Reading


class Others:
    """Counts the CPUs that other programs use during the `with` block. Processes that this one starts are the arms'.

    All processes are read every `look_seconds`. A process of Ray that begins and ends between two readings is counted
    as another program, because Ray's raylet does not report the CPU time of its workers.
    """

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        self._cpus = allowed_cpus()
        self._look_seconds = look_seconds
        self._time: CpuTime | None = None
        self._first: Reading | None = None
        self._last: Reading | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Others":
        if sys.platform.startswith("linux"):  # no other system says whose its CPU time is
            process_session.adopt()
            self._time = CpuTime(self._cpus, os.getpid())
            self._first = self._read()
            self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._is_over.set()
        if self._thread.ident:
            self._thread.join()
            self._last = self._read()

    def _read(self) -> Reading | None:
        try:
            return self._time.read() if self._time else None
        except (OSError, ValueError):  # a container may hide it
            return None

    def _follow(self) -> None:
        looked = time.monotonic()
        while self._time and self._first and not self._is_over.wait(FOLLOW_SECONDS):
            if time.monotonic() - looked < self._look_seconds:
                self._time.follow()
            else:
                self._read()
                looked = time.monotonic()

    def in_words(self) -> str:
        """Return a text about the CPUs that others took, the host included; "" if few, or if it is not known."""
        return in_words(self._first, self._last, len(self._cpus)) if self._first and self._last else ""

    def use(self) -> MachineUse | None:
        """Return the use of the machine by all programs; None if it is not known."""
        return use(self._first, self._last, len(self._cpus)) if self._first and self._last else None

    def cpus(self) -> float | None:
        """Return the number of CPUs that other programs took; None if it is not known."""
        used = self.use()
        return used.other_cpus if used else None
