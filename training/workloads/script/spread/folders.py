"""Folders of this package in the temporary one: each goes with its process, and that of a killed one with the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator

PREFIX = "spread-"
LOCK = ".ray-worth-it"
"""Name of the file that marks a folder of this package. The process that has the folder and its forks hold a lock on
the file as long as one of them lives, however they end."""


@contextlib.contextmanager
def temporary() -> Iterator[str]:
    """Yield a new temporary folder, and remove it at the end; first remove such folders of processes that were killed.
    The folder is in RAY_TMPDIR if that is set, so that it is removed with the run."""
    top = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    _remove_abandoned(top)
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=top)
    lock = _hold(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _hold(folder: str) -> int:
    """Lock a folder, and return the lock's file descriptor. The folder is never seen unlocked. In a file system without
    locks it never counts as abandoned."""
    file = os.path.join(folder, LOCK)
    lock = os.open(f"{file}-", os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(f"{file}-", file)
    return lock


def _remove_abandoned(top: str) -> None:
    for name in os.listdir(top):
        folder = os.path.join(top, name)
        if name.startswith(PREFIX) and _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: str) -> bool:
    """Return whether a folder belongs to this user, and all its processes have ended."""
    try:
        if os.lstat(folder).st_uid != os.getuid():
            return False
        lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
