"""One run of the arm `ray` with checkpoints, followed while it trains; a part of it may be killed. Judges nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from cli.setup.project import ROOT, ToolError
from infra.places.local import guard
from training.contract import progress, result
from training.contract.recipe import Recipe
from training.launch import environment
from training.launch.storage.checkpoint_store import Manifest, manifests
from training.launch.storage.run_storage import Storage
from training.machine import output, process_session

WORKER = "ray::RayTrainWorker"
"""Beginning of the command line of Ray Train's training processes."""
POLL_SECONDS = 0.05
LOG_LINES = 15


class Victim(StrEnum):
    """The part of a run that is killed, once there are steps beyond the first checkpoint."""

    WORKER = "worker"
    """Kill one worker; Ray Train continues with another worker."""
    HEAD = "head"
    """Kill the head, and with it the job, which is restarted with the same storage."""


@dataclass(frozen=True)
class Seen:
    """A progress event of a run, and the time when it was seen."""

    at: float
    """Seconds of the monotonic clock."""
    event: dict[str, Any]

    @property
    def step(self) -> int | None:
        """Return the number of optimizer steps done, or None if the event has no such number."""
        return self.event.get("step")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The events and the result of a run that succeeded."""

    events: list[Seen]
    killed_at: float | None
    """When the victim was killed, in seconds of the monotonic clock; None if nothing was killed."""
    result: result.TrainingResult
    newest: Manifest
    """The manifest of the run's newest checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The training to run."""

    recipe: Recipe
    dataset_path: str
    """A folder with the data set; "" if the data set is not in a folder."""
    storage: str
    """The address of the run's own folder in storage."""
    minutes: float
    """The deadline of the run, in minutes."""


@dataclass
class _Followed:
    """A run's progress so far."""

    folder: Path
    events: list[Seen] = field(default_factory=list)
    _offset: int = 0

    def look(self) -> None:
        """Read the new progress events of the run, and add them to `events`."""
        new, self._offset = progress.read_new(self.folder / progress.NAME, self._offset)
        self.events += [Seen(time.monotonic(), event) for event in new]


def run(wanted: Wanted, folder: Path, *, kill: Victim | None) -> Ended:
    """Run the training with its files in `folder`, and return the ended run. Raise ToolError with the end of the log if
    the training fails."""
    folder.mkdir(mode=0o700)
    followed = _Followed(folder)
    killed_at = _train(wanted, followed, kill)
    if kill is Victim.HEAD and killed_at is not None:
        _train(wanted, followed, None)
    kept = manifests(Storage.at(wanted.storage)).values()
    newest = max(kept, key=lambda manifest: manifest.epoch)
    run_result = result.read(folder / result.NAME)
    return Ended(events=followed.events, killed_at=killed_at, result=run_result, newest=newest)


def _train(wanted: Wanted, followed: _Followed, kill: Victim | None) -> float | None:
    """Run the training to its end or to the kill of the head; return the time of the kill, or None. Raise ToolError if
    the training fails."""
    killed_at = None
    with _guarded(wanted, followed.folder) as running:
        while running.poll() is None:
            followed.look()
            if kill and killed_at is None and is_beyond_a_checkpoint(followed.events):
                killed_at = _KILLS[kill](running.pid)
            time.sleep(POLL_SECONDS)
        followed.look()
    is_meant = kill is Victim.HEAD and killed_at is not None
    if running.returncode and not is_meant:
        raise ToolError(
            f"the run ended with exit code {running.returncode}; the end of its log:\n{_end_of_log(followed.folder)}"
        )
    return killed_at


@contextmanager
def _guarded(wanted: Wanted, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the run under a guard, and yield the guard's process. Whatever happens, no process of the run is left at
    the end."""
    command = guard.command(
        wanted.minutes * 60,
        folder,
        *("--", sys.executable, "-m", "training.ray", "--result", str(folder / result.NAME)),
        f"--storage={wanted.storage}",
        *([f"--dataset-path={wanted.dataset_path}"] if wanted.dataset_path else []),
        *wanted.recipe.flags(),
    )
    own = {progress.EACH_STEP: "1", "PYTHONUNBUFFERED": "1"}
    with environment.temporary_folder() as temporary:
        variables = environment.allowed(os.environ, wanted.storage) | own | {"TMPDIR": temporary}
        with (folder / "log.txt").open("ab") as log:
            running = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield running
        finally:
            assert running.stdin is not None  # noqa: S101 (it is a pipe)
            running.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                running.wait(process_session.GRACE_SECONDS + 2)
            process_session.end_session(running.pid)
            running.wait()


def is_beyond_a_checkpoint(events: list[Seen]) -> bool:
    """Return whether steps were done after the first checkpoint."""
    kept = [seen.step for seen in events if seen.event["event"] == "checkpoint"]
    return bool(kept) and any((seen.step or 0) > (kept[0] or 0) for seen in events)


def _kill_a_worker(session: int) -> float:
    """Kill one worker, and return the time. Raise ToolError if there is no worker."""
    for pid in process_session.session_members(session):
        with suppress(psutil.Error, ProcessLookupError):
            if " ".join(psutil.Process(pid).cmdline()).startswith(WORKER):
                os.kill(pid, signal.SIGKILL)
                return time.monotonic()
    raise ToolError("there was no worker of Ray Train to kill: the run was over by then; train more epochs")


def _kill_all(session: int) -> float:
    """Kill the driver, Ray's head and workers, and their guard; return the time of the first kill."""
    began = time.monotonic()
    while time.monotonic() - began < process_session.GIVE_UP_SECONDS and (
        members := process_session.session_members(session)
    ):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return began


_KILLS = {Victim.WORKER: _kill_a_worker, Victim.HEAD: _kill_all}


def _end_of_log(folder: Path) -> str:
    lines = output.last_lines(output.end_of_file(folder / "log.txt"), LOG_LINES)
    return "\n".join(f"  | {line}" for line in lines)
