"""Counts what other programs take of this machine during a run: warns meanwhile, and adds it to the run's result.

It decides nothing, and ends no program.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from training.contract import result
from training.contract.codec import ResultError
from training.contract.cpu_use import NOTICEABLE_CPUS, MachineUse
from training.contract.progress import Progress
from training.contract.provenance import allowed_cpus
from training.contract.result import MACHINE
from training.machine import process_session
from training.machine.cpu_time import CpuTime, Reading, most_of_others

LOOK_SECONDS = 5.0
"""The seconds between two readings of the machine. A reading takes 1.5 ms of CPU with 100 processes."""
FOLLOW_SECONDS = 0.5
"""The seconds between two readings of the run's own processes. A reading of 30 processes takes 0.3 ms of CPU."""
SAY_SECONDS = 30.0
"""The seconds between two printed warnings."""
MOST_NAMED = 3


class Beside:
    """Counts the CPU time of other programs, from its creation on. What this process then starts belongs to the run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._cpus = allowed_cpus()
        self._reason = ""
        self._printed_at = self._followed = -SAY_SECONDS
        self._first = self._last = self._time = None
        if not sys.platform.startswith("linux"):
            self._reason = "this system does not say whose its CPU time is"
            return
        process_session.adopt()
        self._time = CpuTime(self._cpus, os.getpid())
        self._first = self._last = self._read()

    def _read(self) -> Reading | None:
        try:
            return self._time.read() if self._time else None
        except (OSError, ValueError) as error:
            self._reason = f"whose the CPU time of this machine is could not be read: {error}"
            return None

    def look(self) -> None:
        """Warn if other programs use CPUs now. This may be called as often as one likes."""
        moment = time.monotonic()
        if self._time is None or self._last is None or moment - self._followed < FOLLOW_SECONDS:
            return
        self._followed = moment
        if moment - self._last.at < LOOK_SECONDS:
            self._time.follow()
            return
        now = self._read()
        if now and now.at - self._printed_at >= SAY_SECONDS and (text := in_words(self._last, now, len(self._cpus))):
            self._progress.write("note", text=text, isBusy=True)
            self._printed_at = now.at
        self._last = now

    def keep(self, path: Path) -> None:
        """Add the counts to the result at `path`, after the run has ended."""
        last = self._read()
        used = use(self._first, last, len(self._cpus)) if self._first and last else None
        try:
            run_result = result.read(path)
            reasons = {name: why for name, why in run_result.reasons.items() if name != MACHINE}
            if used is None:
                reasons[MACHINE] = self._reason
            replace(run_result, machine=used, reasons=reasons).write(path)
        except (ResultError, OSError) as error:
            print(f"what others took of the machine is not in the result: {error}", file=sys.stderr)


def use(first: Reading, last: Reading, cpus: int) -> MachineUse:
    """Return the machine's use between two readings. On a very busy machine a reading itself takes long, so that more
    may be counted than the CPUs can do: the others have at most all CPUs."""
    run, stack, programs = last.run - first.run, last.stack - first.stack, last.programs - first.programs
    return MachineUse(
        seconds=last.at - first.at,
        cpus=cpus,
        run_cpu_seconds=run,
        stack_cpu_seconds=stack,
        other_cpu_seconds=min(max(0.0, programs - run - stack), (last.at - first.at) * cpus),
        stolen_seconds=last.stolen - first.stolen,
        resolution_seconds=last.resolution,
    )


def in_words(before: Reading, now: Reading, cpus: int) -> str:
    """Return a text about the CPUs that other programs used between two readings; empty if hardly any."""
    used = use(before, now, cpus)
    takers = []
    if used.other_cpus > NOTICEABLE_CPUS:
        names = _named(most_of_others(before, now)[:MOST_NAMED], used.other_cpus)
        takers.append(f"other programs take {used.other_cpus:.1f} of {cpus} CPUs{names}")
    if used.stolen_cpus > NOTICEABLE_CPUS:
        takers.append(f"the host takes {used.stolen_cpus:.1f} of {cpus} CPUs from this virtual machine")
    return f"{' and '.join(takers)}: end them, or measure again when they have ended" if takers else ""


def _named(most: Sequence[tuple[str, float]], total_cpus: float) -> str:
    """Return a text with the names of the programs and their CPUs, which add up to the total. The rest is of programs
    that ended meanwhile or used little."""
    taken = {name: round(cpus, 1) for name, cpus in most if cpus >= 0.05}
    rest = round(round(total_cpus, 1) - sum(taken.values()), 1)
    if not taken:
        return ""
    if rest < 0:  # counted at another moment, or rounded up
        return f" (most by {', '.join(taken)})"
    shown = {**taken, "the rest": rest} if rest else taken
    return f" ({', '.join(f'{name} {cpus:.1f}' for name, cpus in shown.items())})"
