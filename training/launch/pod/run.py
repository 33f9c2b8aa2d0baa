"""One process of an arm in a pod: the arm's entry point as it is everywhere, and its result at the end of the log.

    python -m training.launch.pod.run ARM FLAGS…

Adds what only pods need: the check of the image's versions, the workers of an Indexed Job, an end at SIGTERM (process 1
of a container ignores it otherwise), and the result in the log, because a pod's files go with it; with storage the log
is kept there.
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from training.contract.arms import ARMS
from training.contract.clock import process_start
from training.contract.codec import ResultError
from training.launch import entry, environment
from training.launch.pod import indexed_job, log_result, versions
from training.launch.storage.run_storage import Storage
from training.machine import output

RESULTS = Path(os.environ.get(environment.RESULTS, "/results")).absolute()
"""Folder of the result: /results, which every pod has; a Ray job gets its folder by an environment variable."""
RESULT = RESULTS / "result.json"
LOG_IS_KEPT = "TRAINING_LOG_IS_KEPT"
"""Environment variable that is set in a run whose output another process reads and keeps."""
_LOGS = "logs"
"""Folder of the logs, in a run's folder in storage."""


def main(arguments: list[str]) -> None:
    """Run the arm with its flags, and print its result. If something is wrong, end the process with a message."""
    arm, *flags = arguments
    if entry.STARTED not in os.environ:
        os.environ |= entry.pass_on_start(process_start())
    if (storage := _storage(flags)) and LOG_IS_KEPT not in os.environ:
        _run_with_kept_log(storage, _log_name(arm))
    signal.signal(signal.SIGTERM, _end)
    try:
        versions.check()
        os.environ |= indexed_job.join().variable() if indexed_job.INDEX in os.environ else {}
    except (ValueError, TimeoutError) as error:
        sys.exit(f"error: {error}")
    os.environ[entry.POD] = "1"
    _remove_earlier()
    _run(arm, ["--no-bind-cpus", "--result", str(RESULT), *flags])
    if RESULT.exists():
        _emit()


def _run_with_kept_log(storage: str, name: str) -> NoReturn:
    """Run this process's command again as a child whose log is kept in storage, and exit with the child's exit code."""
    os.environ[LOG_IS_KEPT] = "1"
    sys.exit(run_keeping_log([sys.executable, *sys.orig_argv[1:]], storage, name))


def _storage(flags: list[str]) -> str:
    """Return the address of the run's folder in storage, from the flags; "" if there is no such flag."""
    addresses = [flag.partition("=")[2] for flag in flags if flag.startswith("--storage=")]
    return addresses[-1] if addresses else ""


def _log_name(arm: str) -> str:
    """Return the name under which this pod's log is kept among the logs of the run."""
    return "driver.log" if ARMS[arm].start == "ray" else f"rank-{os.environ.get(indexed_job.INDEX, '0')}.log"


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)  # at once: a collective operation that waits for the other pods never returns


def _remove_earlier() -> None:
    """Delete the files of an earlier run, which a Ray pod outlives, because they could be taken for this run's."""
    for path in RESULTS.glob("*.json*"):
        path.unlink(missing_ok=True)


def _run(arm: str, flags: list[str]) -> None:
    sys.argv = [f"training.{arm}", *flags]
    try:
        runpy.run_module(f"training.{arm}", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


def _emit() -> None:
    try:
        log_result.print_result(RESULT)
    except ResultError as error:
        sys.exit(f"error: {error}")


def run_keeping_log(command: Sequence[str], storage: str, name: str) -> int:
    """Run the command as a child, keep its output as `logs/NAME` in the run's folder in storage, and return its exit
    code (128 + n if signal n ended it).

    This process passes the output on while it comes, and keeps it when the child has ended: with success, by a failure,
    or by SIGTERM. If the whole container is ended, for example for its memory, nothing is kept.
    """
    with TemporaryDirectory(prefix="log-") as folder:
        log = Path(folder) / name
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        signal.signal(signal.SIGTERM, lambda number, _frame: _pass_on(child, number, _frame))
        with log.open("wb") as file:
            for _, chunk in output.printed(child):
                for target in (sys.stdout.fileno(), file.fileno()):
                    _write_all(target, chunk)
        code = child.wait()
        if refusal := _keep(log, storage):
            print(f"warning: the log is not kept in {storage}: {refusal}", file=sys.stderr, flush=True)
    return 128 - code if code < 0 else code


def _pass_on(child: "subprocess.Popen[bytes]", number: int, _: FrameType | None) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _write_all(target: int, chunk: bytes) -> None:
    """Write the whole chunk to a file descriptor; ignore that nobody reads any more, or that the disk is full."""
    with suppress(OSError):
        while chunk:
            chunk = chunk[os.write(target, chunk) :]


def _keep(log: Path, storage: str) -> str:
    """Keep the log in storage; return the reason if that failed, else ""."""
    try:
        Storage.at(storage).put(log, f"{_LOGS}/{log.name}")
    except (OSError, ImportError) as error:
        return str(error).splitlines()[0]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
