"""Ends every process of a session: of a training run, or of a pulumi command, whose children have groups of their own.

By /proc, or ps(1) on systems that have none.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from training.machine import output

GRACE_SECONDS = 2.0
"""The time from SIGTERM to SIGKILL. After a second Ctrl-C Pulumi takes 5 seconds to kill the provider: all is gone
within 10."""
GIVE_UP_SECONDS = 30.0
"""The longest wait for a process: one in an uninterruptible call may never end."""
POLL_SECONDS = 0.05
_HAS_PROC = Path("/proc/self").exists()


def end_session(session: int, more: Callable[[], list[int]] = list, give_up_seconds: float | None = None) -> set[int]:
    """Kill every process of `session` but this one, and `more`: SIGTERM, then SIGKILL; return those that are left.

    Args:
        session: Id of the session.
        more: Returns further processes at each call.
        give_up_seconds: The longest wait; None for GIVE_UP_SECONDS.
    """
    began = time.monotonic()
    limit = GIVE_UP_SECONDS if give_up_seconds is None else give_up_seconds
    terminated: set[int] = set()
    while left := {*session_members(session), *more()}:
        waited = time.monotonic() - began
        if waited > limit:
            break
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                if waited > GRACE_SECONDS:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in terminated:
                    terminated.add(pid)
                    os.kill(pid, signal.SIGTERM)
        time.sleep(POLL_SECONDS)
    return left


def session_members(session: int) -> list[int]:
    """Return the processes of `session` without this one, and without those that are dead and not yet waited for."""
    return [pid for pid in _pids() if pid != os.getpid() and _session_of(pid) == session and not _is_dead(pid)]


def _pids() -> list[int]:
    if _HAS_PROC:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(pid) for pid in _ps("-A", "-o", "pid=").split()]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_dead(pid: int) -> bool:
    """Return whether it ended and is not yet reaped: for an orphan that can last where process 1 reaps none."""
    if not _HAS_PROC:
        return _ps("-o", "stat=", "-p", str(pid)).strip()[:1] in ("", "Z")
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _ps(*arguments: str) -> str:
    return output.capture_text(["ps", *arguments]).stdout
