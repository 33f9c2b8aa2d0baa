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
"""Ray with a few workers has some 20; what has more starts itself again and again."""
MOST_PRINTED = 64 * 2**20
"""Bytes. Who prints more is measured printing."""
POLL_SECONDS = 0.1
COUNT_EVERY = 10
"""Polls between two looks at how many processes the machine has; where they became more, the command's are counted."""
GRACE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of a command."""

    code: int
    """Exit code; negative if a signal ended it."""
    began: float
    """Seconds since the epoch."""
    ended: float
    """`began` and what a clock that nobody sets counted since."""
    left: int
    """Processes that were left, and were ended."""
    processes: int
    """The most that were counted at a time."""


def main() -> int:
    """Run the plan's command; returns its exit code, 128 and the signal's number where a signal ended it."""
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
    """Run the command with this environment on so many CPUs, and end all that it started.

    `read` is given what it prints, in a thread of its own, and returns at its end: false, and the command is ended.
    Without it the command prints where this process does.
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
    most, left = 0, 0
    try:
        most = _wait(running)
    finally:
        ended = began + time.monotonic() - start
        left = end_descendants()
    reader.join(GRACE_SECONDS)
    return End(code=running.returncode, began=began, ended=ended, left=left, processes=most)


def _read_or_end(read: Callable[[IO[bytes]], bool] | None, running: subprocess.Popen[bytes]) -> None:
    if read and running.stdout and not read(running.stdout):
        running.kill()


def _wait(running: subprocess.Popen[bytes]) -> int:
    """Wait until the command ends, or starts processes without end; return the largest number of processes counted.

    Its own processes are counted only where the machine has more than ever before: that takes 3 ms of CPU with 120
    processes, and a count every time would cost the arm time.
    """
    most = polls = most_of_all = 0
    while running.poll() is None:
        time.sleep(POLL_SECONDS)
        polls += 1
        if polls % COUNT_EVERY == 0 and (of_all := len(psutil.pids())) > most_of_all:
            most_of_all = of_all
            most = max(most, len(psutil.Process().children(recursive=True)))
        if most > MOST_PROCESSES:
            running.kill()
    return most


@contextmanager
def _bound(cpus: int) -> Iterator[None]:
    """Bind what is started meanwhile to the first CPUs in the workers' order; with 0, to those of this process.

    Not this process itself, which would share the baseline's only CPU with it.
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
    """Send SIGTERM once to each, then SIGKILL until none is left; return how many there were at first."""
    began, first, terminated = time.monotonic(), None, set[int]()
    while members := [process for process in psutil.Process().children(recursive=True) if _is_alive(process)]:
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


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _terminated(*_: Any) -> NoReturn:
    end_descendants(grace_seconds=0)  # who asks kills this process soon: what left the session would be nobody's
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
