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
"""The file by which a folder is one of these. Its process, and the forks of it, hold a lock on it as long as one of
them lives, however they end."""


@contextlib.contextmanager
def temporary() -> Iterator[str]:
    """Have a folder that is removed at the end, and remove those of processes that were killed.

    It is in the folder that a run has for Ray, if it has one: that goes with the run.
    """
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
    """Lock a folder; nobody finds it unlocked. Without locks in its file system it is never taken for abandoned."""
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
    """Return whether a folder is one of this user's whose processes are gone."""
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
