"""Charges what a test leaves to that test, not to the next: variables and the current folder of this process, processes
that still live, files that nobody closed.

It looks for processes and files only after tests that started a process. What ends by itself within the limit is not
left.
"""

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest

from tests.limits import LEFT_SECONDS

_STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})
"""Events of Python's audit with which processes are started."""
_OF_PYTHON = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""In the command lines of processes that Python starts once and keeps for itself."""
_SET_BY_OTHERS = ("GRPC_", "KMP_", "PYTEST_", "RAY_", "TF2_", "TF_", "TPU_")
"""How variables begin that libraries set when they are imported, for this process and for good, and pytest's own."""
_FOLDER = "the current folder"
OF = "TEST_PROCESS"
"""Environment variable with the process whose tests started another: a second pytest runs tests of the same names."""

_SHARED = set[int]()
_AHEAD = list[str]()


def share(pid: int) -> None:
    """Leave a process that one test starts to the tests after it, too."""
    _SHARED.add(pid)


@contextmanager
def ahead(what: str) -> Iterator[None]:
    """Look at no test while something is started ahead of the tests that it is for."""
    _AHEAD.append(what)
    yield
    _AHEAD.remove(what)


class Leftovers:
    """A plugin of pytest: its fixture is the first of each test, so that it ends after the others."""

    def __init__(self) -> None:
        self._has_started = True
        self._known = frozenset[int]()
        os.environ[OF] = str(os.getpid())
        sys.addaudithook(self._hear)  # for good: Python has no way back

    def _hear(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self._has_started = True

    def pytest_collection_finish(self) -> None:
        """Leave out of each test's collection what is in use before it: most of the time that it would take."""
        gc.collect()
        gc.freeze()

    @pytest.fixture(autouse=True)
    def _leftovers(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Fail at the teardown of a test that left a process or an open file; processes are killed."""
        if self._has_started:  # for fixtures of several tests
            self._known = frozenset(psutil.pids())
            self._has_started = False
        before = _surroundings()
        yield
        changed = _restore(before)
        left = self._left(request.node.nodeid) if self._has_started and not _AHEAD else []
        assert not changed, f"left changed: {', '.join(changed)}"
        assert not left, "\n".join(["left running:", *left])

    def _left(self, test: str) -> list[str]:
        for name in ("last_type", "last_value", "last_traceback"):  # it keeps what a test that failed had opened
            vars(sys).pop(name, None)
        self.pytest_collection_finish()  # what is left open is said now, and pytest looks at it after this
        _, left = psutil.wait_procs(_living(self._known | _SHARED, test), timeout=LEFT_SECONDS)
        said = [_said(process) for process in left]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        return said


def _surroundings() -> dict[str, str]:
    """Return the variables of this process, but for those that libraries set, and its current folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_SET_BY_OTHERS)}
    return own | {_FOLDER: os.getcwd()}  # noqa: PTH109 - as it is compared


def _restore(before: Mapping[str, str]) -> list[str]:
    """Give this process the variables and the folder of before, and return the names of those that were others."""
    now = _surroundings()
    changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
    for name in changed:
        if name == _FOLDER:
            os.chdir(before[name])
        elif name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    return changed


def _living(known: Set[int], test: str) -> list[psutil.Process]:
    """Return processes below this one, but for those known and what is below them; and those of the test's call.

    Only new ones are looked at: to read all of a machine's takes longer than most tests.
    """
    parents, processes = dict[int, int](), dict[int, psutil.Process]()
    for pid in {*psutil.pids()} - known:
        with suppress(psutil.Error):
            processes[pid] = psutil.Process(pid)
            parents[pid] = processes[pid].ppid()

    def is_ours(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return [process for pid, process in processes.items() if _counts(process, test, below=is_ours(pid))]


def _counts(process: psutil.Process, test: str, *, below: bool) -> bool:
    with suppress(psutil.Error):
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if below:
            return not any(part in " ".join(process.cmdline()) for part in _OF_PYTHON)
        around = process.environ()
        return around.get(OF) == str(os.getpid()) and around.get("PYTEST_CURRENT_TEST") == f"{test} (call)"
    return False


def _said(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return f"  {process.pid}: {' '.join(process.cmdline())[:200]}"
    return f"  {process.pid}"
