"""One process of an arm in a pod: the arm's entry point as it is everywhere, and its result at the end of the log.

    python -m training.launch.pod.run ARM FLAGS…

Adds what only pods need: the check of the image's versions, the workers of an Indexed Job, an end at SIGTERM (process 1
of a container ignores it otherwise), and the result in the log, because a pod's files go with it; with storage the log
is kept there.
"""

import os
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from training.contract.arms import ARMS
from training.contract.clock import process_start
from training.contract.codec import ResultError
from training.launch import entry, environment
from training.launch.pod import indexed_job, kept_log, log_result, versions

RESULTS = Path(os.environ.get(environment.RESULTS, "/results")).absolute()
"""A folder that every pod has; a Ray job is told of one."""
RESULT = RESULTS / "result.json"
LOG_IS_KEPT = "TRAINING_LOG_IS_KEPT"
"""Environment variable of a run that another process started to keep what it prints."""


def main(arguments: list[str]) -> None:
    """Run the arm with its flags; ends the process with a message when something is wrong."""
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
    """The same command again, as a child."""
    os.environ[LOG_IS_KEPT] = "1"
    sys.exit(kept_log.run([sys.executable, *sys.orig_argv[1:]], storage, name))


def _storage(flags: list[str]) -> str:
    """The address of the run's own folder; "": there is none."""
    addresses = [flag.partition("=")[2] for flag in flags if flag.startswith("--storage=")]
    return addresses[-1] if addresses else ""


def _log_name(arm: str) -> str:
    """Return the name of this pod's log among the run's."""
    return "driver.log" if ARMS[arm].start == "ray" else f"rank-{os.environ.get(indexed_job.INDEX, '0')}.log"


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)  # at once: a collective operation that waits for the other pods never returns


def _remove_earlier() -> None:
    """A Ray pod outlives a run: the result of an earlier one must not pass for this one's."""
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


if __name__ == "__main__":
    main(sys.argv[1:])
