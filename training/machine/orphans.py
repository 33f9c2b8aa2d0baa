"""Processes whose parent has ended: on Linux they may stay a run's, whatever session they are in."""

import ctypes
import sys

PR_SET_CHILD_SUBREAPER = 36
"""Of prctl(2): <linux/prctl.h>."""


def adopt() -> None:
    """From now on, what a descendant leaves when it ends becomes a child of this process, not of the system's first.

    Nothing changes on other systems, which have no such call.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
