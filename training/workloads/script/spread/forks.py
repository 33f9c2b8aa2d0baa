"""Processes of one script, each a fork of this one, which has imported PyTorch and computed nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from . import process
from .originals import EXIT
from .reads import NAME, Reads
from .settings import Settings


@dataclass
class Fork:
    """A forked process, and the file with its output."""

    settings: Settings
    pid: int
    printed: Path
    code: int | None = None


def start(
    settings: Settings, command: Sequence[str], printed: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> Fork:
    """Start the script with these settings, and with more environment variables."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Fork(settings, pid, printed)
    code = 1
    try:
        os.setpgid(0, 0)
        os.environ.update(variables)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        read = Reads(printed.with_name(f"{NAME}{settings.rank}"), settings.private)
        code = process.main(settings, list(command))
        read.end()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        EXIT(code)


def wait(forks: Sequence[Fork], seconds: float) -> bool:
    """Wait until all forks have ended, and return whether they did. A fork that has not ended within `seconds` is
    killed with its children."""
    deadline = time.monotonic() + seconds
    running = list(forks)
    while running and time.monotonic() < deadline:
        for each in list(running):
            pid, status = os.waitpid(each.pid, os.WNOHANG)
            if pid:
                each.code = os.waitstatus_to_exitcode(status)
                running.remove(each)
        time.sleep(0.01)
    end(running)
    for each in forks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)  # what the script left running
    return not running


def end(forks: Iterable[Fork]) -> None:
    """Kill the forks that are still running, with their children."""
    for each in forks:
        if each.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(each.pid, signal.SIGKILL)
            os.kill(each.pid, signal.SIGKILL)
            os.waitpid(each.pid, 0)
            each.code = -signal.SIGKILL
