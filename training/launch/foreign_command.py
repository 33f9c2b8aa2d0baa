"""Runs one command that is not ours: in a network of its own, on its own CPUs, and with nothing of it left afterwards.

    python -m training.launch.foreign_command PLAN

PLAN is a JSON file: command, folder, variables (the whole environment), cpus, ends (the file that is written at the
end). Processes may leave the session, as daemons do: this one adopts them and ends them.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from training.contract.provenance import allowed_cpus
from training.launch.environment import share_of_cpus
from training.machine import isolation, process_session, topology

MOST_PROCESSES = 400
"""Most processes of a command; one with more is ended, because it probably starts itself again and again. Ray with a
few workers has about 20."""
MOST_PRINTED = 64 * 2**20
"""Most bytes that a command may print; a command that prints more would mainly measure its printing."""
POLL_SECONDS = 0.1
COUNT_EVERY = 10
"""Number of polls between two counts of the machine's processes. If there are more than ever before, the command's own
processes are counted."""
GRACE_SECONDS = 2.0
GIVE_UP_SECONDS = 30.0
"""Seconds after the first SIGKILL in which a process that may not be signalled, such as one of sudo, is waited for."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How a command ended, and what was counted of it."""

    code: int
    """Exit code; negative if a signal ended it."""
    began: float
    """Start of the command in seconds since the Unix epoch."""
    ended: float
    """End of the command: `began` and the seconds that passed on the monotonic clock, which nobody sets."""
    left: int
    """Number of processes that the command left running, and that were ended then."""
    processes: int
    """The largest number of the command's processes that was counted at a time."""


def main() -> int:
    """Run the plan's command, and return its exit code; 128 plus the signal's number if a signal ended it."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    reason = isolation.enter()
    end = run(plan["command"], plan["folder"], plan["variables"], plan["cpus"])
    Path(plan["ends"]).write_text(json.dumps(asdict(end) | {"network": reason}), encoding="utf-8")
    return end.code if end.code >= 0 else 128 - end.code


def run(
    command: Sequence[str],
    folder: str,
    variables: Mapping[str, str],
    cpus: int,
    read: Callable[[IO[bytes]], bool] | None = None,
) -> End:
    """Run the command with these environment variables on `cpus` CPUs, and end all processes that it started.

    `read` is called in a thread of its own with the command's output, and returns at the end of the output; if it
    returns False, the command is ended. Without `read` the command prints where this process prints.
    """
    signal.signal(signal.SIGTERM, _terminated)
    process_session.adopt()
    began, start = time.time(), time.monotonic()
    with _bound(cpus):
        running = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if read else None,
            stderr=subprocess.STDOUT if read else None,
        )
    reader = threading.Thread(target=_read_or_end, args=(read, running), daemon=True)
    reader.start()
    try:
        most, end = _wait(running)
    finally:
        left = end_descendants()
    reader.join(GRACE_SECONDS)
    return End(code=running.returncode, began=began, ended=began + end - start, left=left, processes=most)


def _read_or_end(read: Callable[[IO[bytes]], bool] | None, running: subprocess.Popen[bytes]) -> None:
    if read and running.stdout and not read(running.stdout):
        running.kill()


def _wait(running: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait until the command ends; kill it if it has more than MOST_PROCESSES processes. Return the largest number of
    its processes counted, and when it ended, on the monotonic clock.

    The command's processes are counted only if the machine has more processes than ever before: a count takes 3 ms of
    CPU with 120 processes, and counting every time would cost the arm time. A thread sees the end, which polls would
    round up to the next one, and counts to the end of the count.
    """
    most = polls = most_of_all = 0
    ends: list[float] = []

    def see_the_end() -> None:
        running.wait()
        ends.append(time.monotonic())

    waiting = threading.Thread(target=see_the_end, daemon=True)
    waiting.start()
    while waiting.is_alive():
        waiting.join(POLL_SECONDS)
        polls += 1
        if polls % COUNT_EVERY == 0 and (of_all := len(psutil.pids())) > most_of_all:
            most_of_all = of_all
            most = max(most, len(psutil.Process().children(recursive=True)))
        if most > MOST_PROCESSES:
            running.kill()
    return most, ends[0]


@contextmanager
def _bound(cpus: int) -> Iterator[None]:
    """Bind processes that the body starts to the first `cpus` CPUs in the order of workers; with 0, leave them the CPUs
    of this process.

    This process itself is bound only meanwhile: else it would share the baseline's only CPU.
    """
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, share_of_cpus(topology.order(allowed_cpus()), 0, cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def end_descendants(grace_seconds: float = GRACE_SECONDS) -> int:
    """End all descendants of this process: SIGTERM, then SIGKILL after `grace_seconds`. Return how many there were.

    What cannot be ended is left after `GIVE_UP_SECONDS` more.
    """
    began, first, terminated = time.monotonic(), None, set[int]()
    give_up = began + grace_seconds + GIVE_UP_SECONDS
    while (members := _descendants() or _descendants()) and time.monotonic() < give_up:
        first = len(members) if first is None else first
        for member in members:
            with suppress(psutil.Error):
                if time.monotonic() - began > grace_seconds:
                    member.kill()
                elif member.pid not in terminated:  # a second one would interrupt what it does at its end
                    terminated.add(member.pid)
                    member.terminate()
        psutil.wait_procs(members, timeout=0.2)
    return first or 0


def _descendants() -> list[psutil.Process]:
    """Return those found in one look, which may miss a process whose parent ends meanwhile."""
    return [process for process in psutil.Process().children(recursive=True) if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _terminated(*_: Any) -> NoReturn:
    end_descendants(grace_seconds=0)  # who asks kills this process soon: what left the session would be nobody's
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
