"""Processes whose parent has ended: on Linux they may stay a run's, whatever session they are in, or end with it."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2): <linux/prctl.h>."""
_HAS_PRCTL = sys.platform.startswith("linux")


def adopt() -> None:
    """Make this process, instead of the system's first, the parent of all later orphans among its descendants.

    Nothing changes on other systems, which have no such call.
    """
    if _HAS_PRCTL:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def killed_with_parent() -> Callable[[], None]:
    """Return a `preexec_fn`: the system kills the child as soon as the thread that started it has ended.

    For a process with one thread: between fork and exec, locks that other threads held stay locked. The child does
    nothing on other systems, which have no such call.
    """
    if not _HAS_PRCTL:
        return lambda: None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before that call
            os.kill(os.getpid(), signal.SIGKILL)

    return before_exec
