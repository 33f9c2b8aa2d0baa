"""Processes whose parent has ended: on Linux they may stay a run's, whatever session they are in."""

import ctypes
import sys

PR_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2): <linux/prctl.h>."""


def adopt() -> None:
    """Make this process, instead of the system's first, the parent of all later orphans among its descendants.

    Nothing changes on other systems, which have no such call.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
