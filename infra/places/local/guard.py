"""The process between a training run and whatever may be killed around it. Not a supervisor: it never restarts.

Started in a session of its own, it waits for the machine's lock and runs one command in that session. At the command's
exit, at the deadline or at end-of-file on stdin (its starter holds the only other end of that pipe) it kills every
process of the session until none is left, and every descendant of its own: torchrun gives its workers sessions. A
process group would not do: Ray gives its workers groups of their own.

    python -m infra.places.local.guard --deadline SECONDS --progress FOLDER -- COMMAND…
"""

import argparse
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from infra.places.local.beside import Beside
from training.contract import result
from training.contract.progress import Progress
from training.machine import machine_lock, process_session

DEADLINE = 124
"""The exit code if the deadline ended the command, the same as timeout(1) uses."""
ABANDONED = 125
"""The exit code if the process that started the guard is gone."""
UNWANTED = 126
"""The exit code if the command was not started, because its update was stopped while it waited for the lock."""
SIGNALLED = 128
"""The number to which the number of the signal is added if a signal ended the command, as in shells. The command's own
exit code is passed on unchanged."""

WARM_UP = [sys.executable, "-m", "training.launch.warm_up"]
POLL_SECONDS = 0.2


def command(deadline_seconds: float, folder: Path, *more: str) -> list[str]:
    """Return the command that starts a guard whose progress is in `folder`; `more` are its other options, `--` and the
    command of the run."""
    own = [sys.executable, "-m", "infra.places.local.guard"]
    return [*own, "--deadline", f"{deadline_seconds:g}", "--progress", str(folder), *more]


def main() -> int:
    """Run the command on the command line under the guard, and return the exit code."""
    parser = argparse.ArgumentParser(prog="infra.places.local.guard", description=__doc__)
    parser.add_argument("--deadline", type=float, required=True, help="seconds that the command may take")
    parser.add_argument("--progress", type=Path, required=True, help="folder whose progress.jsonl says it when waiting")
    parser.add_argument("--warm-up", default="", help="recipe that training.launch.warm_up is run for, with the lock")
    parser.add_argument("--elsewhere", action="store_true", help="what is measured is no part of this machine: no lock")
    parser.add_argument(
        "--count-others", action="store_true", help="the result in that folder gets what others took of this machine"
    )
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if os.getpid() != os.getsid(0):
        parser.error(
            "it ends every process of its session, and this session is not its own; to run one arm by hand:\n"
            "  python -m training.baseline --result runs/by-hand/baseline/result.json"
        )
    process_session.adopt()
    unwanted = Path(os.environ.pop(machine_lock.UNWANTED, ""))  # `Path("")` is no file
    try:
        lock = ExitStack() if options.elsewhere else _lock(Progress(options.progress), unwanted)
        if lock is None:
            return UNWANTED if unwanted.is_file() else ABANDONED
        if options.warm_up and (code := _run(_warm_up_command(options), options.deadline)) in (DEADLINE, ABANDONED):
            return code
        if not options.count_others:
            return _run(options.command, options.deadline)
        beside = Beside(Progress(options.progress))
        code = _run(options.command, options.deadline, beside.look)
        if code == 0:
            beside.keep(options.progress / result.NAME)
        return code
    except machine_lock.LockError as error:
        sys.exit(f"error: {error}")
    finally:
        process_session.end_session(os.getsid(0), descendants)
        (options.progress / result.RAY_TOKEN).unlink(missing_ok=True)  # of a Ray that was killed


def _warm_up_command(options: argparse.Namespace) -> list[str]:
    return [*WARM_UP, options.warm_up, str(options.progress)]


def _lock(progress: Progress, unwanted: Path) -> ExitStack | None:
    """Take this machine's lock until this process ends. Return None if meanwhile the guard's starter ended, or the file
    `unwanted` was made."""
    return machine_lock.take(
        say=lambda text: progress.write("note", text=text),
        wait=lambda seconds: not (_starter_is_gone(seconds) or unwanted.is_file()),
    )


def descendants() -> list[int]:
    """Return this process's descendants, in any session, without zombies."""
    pids = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
    return pids


def _bury_orphans(child: int) -> None:
    """Reap every orphan that this process adopted and that has ended, to free its number, but not the own child."""
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child:
            os.waitpid(ended.si_pid, 0)


def _run(command: list[str], deadline_seconds: float, meanwhile: Callable[[], None] = lambda: None) -> int:
    began = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while (code := child.poll()) is None:
        _bury_orphans(child.pid)
        if time.monotonic() - began > deadline_seconds:
            return DEADLINE
        if _starter_is_gone(POLL_SECONDS):
            return ABANDONED
        meanwhile()
    return code if code >= 0 else SIGNALLED - code


def _starter_is_gone(wait_seconds: float) -> bool:
    """Return whether the guard's starter is gone. It never writes, so stdin is readable only at end-of-file."""
    return bool(select.select([sys.stdin], [], [], wait_seconds)[0])


if __name__ == "__main__":
    sys.exit(main())
