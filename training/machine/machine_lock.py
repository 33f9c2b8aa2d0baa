"""The machine's lock: one measurement at a time, whoever's it is. It goes with the process that has it.

On Linux it is the name of an abstract Unix socket: no file that another user could make first as something else, no
folder that differs by user, and the kernel says who has it. The name is one of a network namespace: containers with
networks of their own do not see each other's. Another user can take the name and keep it, and is named then.
Elsewhere it is a file in this user's own folder, and holds off this user's measurements alone.
"""

import fcntl
import os
import pwd
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

NAME = "\0ray-worth-it/measurement"
PROC = Path("/proc")
FILE = "ray-worth-it.lock"
POLL_SECONDS = 0.2
BACKLOG = 4096
"""Number of processes that can ask who has the lock, each once, because the queue is never emptied. The kernel may
allow only 128 (net.core.somaxconn). Processes that the holder itself starts do not ask."""
DARWIN_USER_TEMP_DIR = 65537
"""Number by which macOS' confstr(3) returns a folder of this user alone, whatever TMPDIR says."""

WAITS = "waits: another measurement runs on this machine, and would spoil this"
"""Beginning of the message at the start of a wait. It comes once, whoever has the lock then."""
WAITED = "it is this one's turn"
"""What is said after a wait. The other measurement may go on: `rwi try` takes its turn between two runs of an `up`."""
UNWANTED = "TRAINING_UNWANTED"
"""Environment variable of a run with the path of a file. Once it exists, nobody wants the runs that still wait."""
SHOWN_WORDS, SHOWN_CHARACTERS = 3, 50
"""How much is shown of the command of the process that has the lock: what follows may be secret."""

_kept_locks: list[ExitStack] = []


class LockError(OSError):
    """The lock cannot be made; the message says what is in its place."""


@dataclass(frozen=True)
class Holder:
    """The process that has the lock. If the system does not tell it, `pid` is 0, and `user` may be None."""

    pid: int
    user: int | None

    def __str__(self) -> str:
        """Return in words who has the lock and, of another user's process, who can end it."""
        if not self.pid:
            return "process unknown: `ss -xlp | grep ray-worth-it` as root names it"
        whose = f"process {self.pid} of {_name_of(self.user)}{_command_of(self.pid)}"
        if self.user in (None, os.geteuid()):
            return whose
        return f"{whose}; if that measures nothing, root or {_name_of(self.user)} can end it: kill {self.pid}"


def take(say: Callable[[str], None], wait: Callable[[float], bool] | None = None) -> ExitStack | None:
    """Take the lock, and return what frees it. If another process has it, wait, and call `say` at once with that
    process, and again when it is this one's turn.

    `wait` waits for the given seconds, and returns False if nobody wants the lock any more; then `take` returns None.
    If this process or one of its ancestors has the lock already, the result frees nothing. Raises LockError.
    """
    taken = _try_to_take(ask=True)
    if isinstance(taken, Holder):
        if taken.pid in _family():
            return ExitStack()
        say(f"{WAITS} ({taken})")
        return _wait(say, wait)
    return taken


def _wait(say: Callable[[str], None], wait: Callable[[float], bool] | None) -> ExitStack | None:
    """Wait until the lock is free and take it; return what frees it, or None when nobody wants it any more."""
    while True:
        if wait is None:
            time.sleep(POLL_SECONDS)
        elif not wait(POLL_SECONDS):
            return None
        # The holder is not asked again: a process that waits for hours would fill its queue, and its own runs could
        # not recognise it
        taken = _try_to_take(ask=False)
        if isinstance(taken, ExitStack):
            say(WAITED)
            return taken


def hold(say: Callable[[str], None]) -> None:
    """Take the lock for the rest of this process's life. Raises LockError."""
    lock = take(say)
    if lock:
        _kept_locks.append(lock)


def _try_to_take(*, ask: bool) -> ExitStack | Holder:
    return take_name(NAME, ask=ask) if sys.platform.startswith("linux") else take_file(_own_folder() / FILE)


def take_name(name: str, *, ask: bool = True) -> ExitStack | Holder:
    """Bind an abstract Unix socket of this name, and return what frees it; if the name is taken, return the process
    that has it. Without `ask` that process is returned as unknown."""
    mine = socket.socket(socket.AF_UNIX)
    try:
        mine.bind(name)
    except OSError:
        mine.close()
        return (_relative_with(name) or _owner_of(name)) if ask else Holder(0, None)
    mine.listen(BACKLOG)
    return _freed_by(mine.close)


def _relative_with(name: str) -> Holder | None:
    """Return the process that has the socket if it is this process or one of its ancestors, as far as /proc shows; else
    None. This needs no place in the socket's queue, so it works for any number of runs."""
    try:
        entries = [line.split(maxsplit=7) for line in (PROC / "net/unix").read_text(errors="replace").splitlines()]
    except OSError:
        return None
    links = {f"socket:[{entry[6]}]" for entry in entries if entry[7:] == [name.replace("\0", "@")]}
    for pid in _family():
        with suppress(OSError):  # another user's
            if links & {str(descriptor.readlink()) for descriptor in (PROC / f"{pid}/fd").iterdir()}:
                return Holder(pid, os.geteuid())
    return None


def _owner_of(name: str) -> Holder:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)  # whatever has that name, it may answer nobody
        try:
            asking.connect(name)
            credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return Holder(0, None)
    pid, user, _ = struct.unpack("3i", credentials)
    return Holder(pid, user)


def take_file(path: Path) -> ExitStack | Holder:
    """Lock a regular file of this user, which is created if it is absent, and return what frees it; if the file is
    locked, return the process that has it. Raises LockError."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LockError(f"the machine's lock, {path}, can't be opened ({error.strerror}): remove it") from None
    status = os.fstat(lock)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(lock)
        raise LockError(f"the machine's lock, {path}, is not a file of this user: remove it")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with os.fdopen(lock) as lock_file:
            text = lock_file.read()
        return Holder(int(text) if text.isascii() and text.isdigit() else 0, os.geteuid())
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return _freed_by(lambda: os.close(lock))


def _freed_by(free: Callable[[], None]) -> ExitStack:
    stack = ExitStack()
    stack.callback(free)
    return stack


def _own_folder() -> Path:
    return Path((os.confstr(DARWIN_USER_TEMP_DIR) if sys.platform == "darwin" else None) or Path.home())


def _family() -> set[int]:
    """Return the ids of this process and its ancestors."""
    import psutil  # not of the standard library, and needed only where the lock is taken already

    family, process = {os.getpid()}, psutil.Process()
    with suppress(psutil.Error):  # another user's, as a login's, may be hidden: what comes before it still counts
        while parent := process.parent():
            family.add(parent.pid)
            process = parent
    return family


def _command_of(pid: int) -> str:
    """Return the first words of a process's command after a comma, `, python -m infra.places.local.guard`; "" if /proc
    does not show it."""
    try:
        words = (PROC / f"{pid}/cmdline").read_text(errors="replace").split("\0")[:SHOWN_WORDS]
    except OSError:
        return ""
    shown = " ".join([words[0].rpartition("/")[2], *words[1:]]).strip()[:SHOWN_CHARACTERS]
    return f", {shown}" if shown and shown.isprintable() else ""


def _name_of(user: int | None) -> str:
    if user is None:
        return "nobody known"
    with suppress(KeyError):
        return f"user {pwd.getpwuid(user).pw_name}"
    return f"user {user}"
