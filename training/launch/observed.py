"""Runs one command that is not ours: in a network of its own, on its own CPUs, and with nothing of it left afterwards.

    python -m training.launch.observed PLAN

PLAN is a JSON file: command, folder, variables (the whole environment), cpus, ends (the file that is written at the
end). Processes may leave the session, as daemons do: this one adopts them (PR_SET_CHILD_SUBREAPER) and ends them.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import psutil

from training.contract.provenance import allowed_cpus
from training.launch.environment import share_of_cpus
from training.machine import isolation, topology

PR_SET_CHILD_SUBREAPER = 36
"""Of prctl(2): <linux/prctl.h>."""
MOST_PROCESSES = 400
"""Ray with a few workers has some 20; what has more starts itself again and again."""
POLL_SECONDS = 0.1
COUNT_EVERY = 10
"""Polls between two counts of processes."""
GRACE_SECONDS = 2.0


def main() -> int:
    """Run the plan's command; returns its exit code, 128 and the signal's number where a signal ended it."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, _terminated)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reason = isolation.enter()
    _bind(plan["cpus"])
    began = time.time()
    running = subprocess.Popen(plan["command"], cwd=plan["folder"], env=plan["variables"], stdin=subprocess.DEVNULL)
    most, left = 0, 0
    try:
        most = _wait(running)
    finally:
        ended = time.time()
        left = end_descendants()
    end: dict[str, Any] = {
        "code": running.returncode, "began": began, "ended": ended, "left": left, "processes": most, "network": reason,
    }  # fmt: skip
    Path(plan["ends"]).write_text(json.dumps(end), encoding="utf-8")
    return running.returncode if running.returncode >= 0 else 128 - running.returncode


def _wait(running: subprocess.Popen[bytes]) -> int:
    """Until the command ends, or starts processes without end; gives the most that were counted."""
    most = polls = 0
    while running.poll() is None:
        time.sleep(POLL_SECONDS)
        polls += 1
        if polls % COUNT_EVERY == 0:
            most = max(most, len(psutil.Process().children(recursive=True)))
        if most > MOST_PROCESSES:
            running.kill()
    return most


def _bind(cpus: int) -> None:
    """This process, and what it starts, to the first CPUs in the order in which workers get them."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share_of_cpus(topology.order(allowed_cpus()), 0, cpus))


def end_descendants(grace_seconds: float = GRACE_SECONDS) -> int:
    """SIGTERM, then SIGKILL, until none is left; gives how many there were at first."""
    began, first = time.monotonic(), None
    while members := [one for one in psutil.Process().children(recursive=True) if _is_alive(one)]:
        first = len(members) if first is None else first
        for member in members:
            with suppress(psutil.Error):
                if time.monotonic() - began > grace_seconds:
                    member.kill()
                else:
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
