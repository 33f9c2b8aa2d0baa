"""One training run on this machine as a Pulumi dynamic resource. Which runs there are is decided in `infra.plan`.

The state holds the provider pickled by reference, that is by the name of this module and its class: both keep their
names for ever, and the class has no attributes.

Pulumi tells a dynamic provider nothing: not that the user pressed Ctrl-C, not that the engine died. What is known of
that comes from stdout, see `_heartbeat`; what is done about it is the guard's work (docs/adr).
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource

from infra.places.local import guard
from infra.programs import ProgramError
from infra.provider import Provider, changed, replaced_by
from infra.storage_role import assumed
from training.contract import progress, result
from training.contract.arms import ARMS
from training.contract.codec import ResultError
from training.contract.printable import printable
from training.contract.provenance import PROJECT
from training.contract.recipe import canonical, from_texts
from training.contract.workload import recipe_of
from training.launch import environment
from training.launch.environment import SECRET
from training.machine import output, process_session

SHORTEST_REPORT_SECONDS = 2.0
LONGEST_REPORT_SECONDS = 30.0
"""The least and the most seconds between two lines about a run; they grow while the run lasts. Pulumi prints all these
lines again at the end."""
LOG_LINES = 15
HOW_TO_STOP = "Ctrl-C: finish it, keep it and stop there; twice: stop now, and lose it"
"""How to stop a run, printed with the first run of an update."""

_guards: set[subprocess.Popen[bytes]] = set()
"""The guard processes of the runs that this process executes."""


_runs_begun = itertools.count()
"""Counts the runs of this process, which lives as long as the update. Only the first run gets the warm-up."""
_runs_reported = itertools.count()
"""Counts the runs that were reported. Only the first report says how to stop a run."""


class RunFailedError(Exception):
    """Raised if a run ended without a result."""


class TrainingRun(Resource, module="training", name="Run"):
    """One run of one arm. Its output `result` is the summary of the run's result, as canonical JSON."""

    result: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(self.provider(), name, properties | {"result": None}, opts)

    @staticmethod
    def provider() -> "TrainingRunProvider":
        """Return the provider that executes the run."""
        return TrainingRunProvider()


class TrainingRunProvider(Provider):
    """Creates a run by executing it, and never updates a run. Deleting the resource leaves the run's files."""

    def configure(self, req: ConfigureRequest) -> None:
        """Hide tracebacks, and start the heartbeat. Pulumi calls this first, and only in the provider's own process."""
        super().configure(req)
        _start_heartbeat()

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the run is repeated if anything on which it depends has changed since it was executed.

        `olds` are the outputs as of creation: a kept baseline still has the measurement for which it was executed. An
        unknown value (`pulumi.output.Unknown`) differs from every other value.
        """
        decisive = ["ownKey"] if news.get("keep") is True else ["ownKey", "measurement"]
        return replaced_by(changed(olds, news, *decisive))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Execute the run, print its progress, and return its result. Raise RunFailedError without a result."""
        folder = _new_folder(props["stack"], props["name"])
        say = _Reporter(props["name"], folder)
        with _guarded(self.command(props, folder), folder, self.variables(props)) as running:
            while running.poll() is None:
                say.news()
                time.sleep(0.25)
        say.news(last=True)
        if running.returncode == guard.UNWANTED:
            raise RunFailedError(f"{props['name']} was interrupted while it waited, before it began")
        try:
            if running.returncode != 0:
                raise RunFailedError(_cause(running.returncode, props))
            summary = result.summarise(folder / result.NAME, PROJECT)
        except (RunFailedError, ResultError) as error:
            raise RunFailedError(_failure(props["name"], str(error), folder)) from None
        return CreateResult(str(folder.relative_to(PROJECT)), props | {"result": summary})

    def command(self, props: dict[str, Any], folder: Path) -> list[str]:
        """Return the command that starts the guard with the run, which writes its result into the folder."""
        return _guard_command(props, folder)

    def variables(self, props: dict[str, Any]) -> dict[str, str]:
        """Return all environment variables of the run."""
        return _variables(props)


def _new_folder(stack: str, name: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    folder = PROJECT / "runs" / stack / f"{name}-{stamp}-{uuid.uuid4().hex[:6]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)  # whatever a log or Ray's own files tell, they tell it to this user
    return folder


def _guard_command(props: dict[str, Any], folder: Path) -> list[str]:
    warm_up = [f"--warm-up={canonical(from_texts(props['recipe']))}"] if next(_runs_begun) == 0 else []
    entry = [sys.executable, "-m", f"training.{props['arm']}", "--result", str(folder / result.NAME)]
    run = ["--", *entry, *_flags(props, folder)]
    return guard.command(props["timeoutMinutes"] * 60, folder, *warm_up, "--count-others", *run)


def _flags(props: dict[str, Any], folder: Path) -> list[str]:
    flags = recipe_of(from_texts(props["recipe"])).flags()
    if props["datasetPath"]:
        flags.append(f"--dataset-path={props['datasetPath']}")
    if props["storage"]:
        flags.append(f"--storage={props['storage']}/{folder.name}")
    if ARMS[props["arm"]].start == "ray" and props["rayDashboard"]:
        flags.append("--dashboard")
    return flags


def _variables(props: dict[str, Any]) -> dict[str, str]:
    """Return a run's environment variables: those allowed of this process, the run's own, and its credentials."""
    own = {"PYTHONUNBUFFERED": "1"}  # the last lines of a killed run are in its log
    if props.get("secretEnvironment"):
        own[SECRET] = props["secretEnvironment"]
    of_storage: dict[str, str] = json.loads(props.get("storageEnvironment") or "{}")
    caller = environment.allowed(os.environ, props["storage"])
    return environment.let_in(caller, _credentials(props)) | of_storage | own


def _credentials(props: dict[str, Any]) -> dict[str, str]:
    """Return the credentials with which the run uses its storage, if it does not use the caller's. Raise RunFailedError
    if a role cannot be assumed."""
    if not props.get("storageRole"):
        credentials: dict[str, str] = json.loads(props.get("storageCredentials") or "{}")
        return credentials
    try:
        return assumed(props["storageRole"], props["timeoutMinutes"], props["name"]).variables()
    except ProgramError as failure:
        raise RunFailedError(f"{props['name']} was not started: {failure}") from None


@contextmanager
def _guarded(command: list[str], folder: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the run under its guard, in a session of its own, and yield the guard's process. Whatever happens, no
    process of the run is left afterwards."""
    with (folder / "log.txt").open("ab") as log:
        running = subprocess.Popen(
            command, cwd=PROJECT, env=variables, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    _guards.add(running)
    try:
        yield running
    finally:
        _end(running)
        _guards.discard(running)


def _end(running: subprocess.Popen[bytes]) -> None:
    """Make the guard end its session, or end the session here if the guard is gone."""
    if running.stdin:
        running.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        running.wait(process_session.GRACE_SECONDS + 2)
    process_session.end_session(running.pid)
    running.wait()


@cache
def _start_heartbeat() -> None:
    threading.Thread(target=_heartbeat, name="heartbeat", daemon=True).start()


def _heartbeat() -> None:
    """Write an empty line to stdout every second, which Pulumi does not print. End this process if nobody reads stdout
    any more.

    The process ends by `os._exit`, because the gRPC server of a dynamic provider catches every exception and would wait
    for ever.
    """
    while True:
        try:
            os.write(1, b"\n")
        except OSError:
            for running in list(_guards):
                _end(running)
            os._exit(1)
        time.sleep(1)


class _Reporter:
    """Prints the progress of a run, each line after the run's name. Pulumi shows what a dynamic provider prints."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._path = name, folder / progress.NAME
        self._offset, self._waiting_text, self._began, self._last_time = 0, "", time.monotonic(), 0.0
        is_first = next(_runs_reported) == 0
        self._print("starts" + (f" ({HOW_TO_STOP})" if is_first else ""))

    def news(self, *, last: bool = False) -> None:
        """Print notes, the final line, and the newest line if the last one was printed long enough ago."""
        events, self._offset = progress.read_new(self._path, self._offset)
        for event in events:
            self._waiting_text = progress.describe(event)
            if event.get("event") == "note":
                self._print(self._waiting_text)
        now = time.monotonic()
        pause = min(LONGEST_REPORT_SECONDS, max(SHORTEST_REPORT_SECONDS, (now - self._began) / 20))
        if self._waiting_text and (last or now - self._last_time >= pause):
            self._print(self._waiting_text)

    def _print(self, line: str) -> None:
        self._waiting_text, self._last_time = "", time.monotonic()
        with suppress(OSError):  # the heartbeat deals with it
            os.write(1, f"{self._name}: {line}\n".encode())


def _cause(code: int, props: dict[str, Any]) -> str:
    """Return why a run has no result, given the exit code of its guard."""
    minutes = props["timeoutMinutes"]
    if code == guard.DEADLINE:
        return (
            f"it took longer than runTimeoutMinutes = {minutes:g}, a first download of its data included, and was"
            " stopped; to allow it more time:\n"
            f"  pulumi config set runTimeoutMinutes {2 * minutes:g}"
        )
    if code == guard.ABANDONED:
        return "Pulumi's provider went away, and it was stopped"
    if code < 0:
        return f"its guard process was killed by {_signal(-code)}"
    if code <= guard.SIGNALLED:
        return f"it ended with exit code {code}"
    memory = ": the system does that when memory runs out (see its kernel log), and fewer workers need less"
    return f"it was killed by {_signal(code - guard.SIGNALLED)}" + (memory if code - guard.SIGNALLED == 9 else "")


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _failure(name: str, cause: str, folder: Path) -> str:
    log = folder / "log.txt"
    lines = output.last_lines(printable(output.end_of_file(log)), LOG_LINES)
    shown = "".join(f"\n  | {line}" for line in lines) or " (empty)"
    return (
        f"{name} failed: {cause}\nThe end of its log, {log.relative_to(PROJECT)}:{shown}{_last_warning(folder)}\n"
        "The next `up` retries it."
    )


def _last_warning(folder: Path) -> str:
    """Return a line with the last warning of a busy machine, where heartbeats of TensorFlow or Ray may be lost; "" if
    the run had none."""
    events, _ = progress.read_new(folder / progress.NAME, 0)
    warnings = [progress.describe(event) for event in events if event.get("isBusy")]
    return f"\nSeen last while it ran: {warnings[-1]}" if warnings else ""
