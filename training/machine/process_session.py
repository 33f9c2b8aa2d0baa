"""Ends every process of a session: of a run, or of a pulumi command, whose children have groups of their own.

On Linux processes whose parent has ended may stay a run's, whatever session they are in, or end with it.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

GRACE_SECONDS = 2.0
"""Seconds from SIGTERM to SIGKILL. After a second Ctrl-C Pulumi takes 5 seconds to kill the provider, so all processes
are gone within 10."""
GIVE_UP_SECONDS = 30.0
"""Longest wait, in seconds, for processes to end: a process in an uninterruptible call may never end."""
POLL_SECONDS = 0.05
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2): <linux/prctl.h>."""
_HAS_PRCTL = sys.platform.startswith("linux")


def end_session(session: int, more: Callable[[], list[int]] = list, give_up_seconds: float | None = None) -> set[int]:
    """End every process of `session` except this one, and those of `more`, by SIGTERM, then SIGKILL.

    Return the ids of the processes that are still there after the longest wait.

    Args:
        session: Id of the session.
        more: Returns the ids of further processes at each call.
        give_up_seconds: The longest wait in seconds; None for GIVE_UP_SECONDS.
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
    """Return the process ids of `session`, without this process and dead ones that nobody has waited for yet."""
    import psutil  # not of the standard library, and needed only where something is ended

    def is_dead(pid: int) -> bool:  # for an orphan that can last where process 1 reaps none
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    own = os.getpid()
    return [pid for pid in psutil.pids() if pid != own and _session_of(pid) == session and not is_dead(pid)]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def adopt() -> None:
    """Make this process the parent of all descendants that lose their parent from now on, instead of the system's first
    process.

    On other systems than Linux nothing changes, because they have no such call.
    """
    if _HAS_PRCTL:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def killed_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn` for subprocess, by which the system kills the child as soon as the thread that started it
    has ended.

    Use it only in a process with one thread: between fork and exec, locks that other threads held stay locked. On other
    systems than Linux the function does nothing, because they have no such call.
    """
    if not _HAS_PRCTL:
        return lambda: None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before that call
            os.kill(os.getpid(), signal.SIGKILL)

    return before_exec
