"""Where progress comes from: a `Source` gives what is new of the runs of one measurement. Shows nothing.

`LocalSource` reads the files that runs on this machine write. A cluster's source gives the same `News` from its pods'
logs, with the events of `training.progress`, and takes its place in `report.watch.SOURCES`.
"""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import psutil

from report.stored import LATEST
from training import progress, result
from training.config import ARMS

State = Literal["running", "finished", "failed"]

GRACE_SECONDS = 5.0
"""A run's folder is there a moment before its first process is."""

_FOLDER = re.compile(r"(?P<run>(?P<arm>[a-z]+)-(?P<repeat>\d+))-(?P<stamp>\d{8}T\d{6}Z)-[0-9a-f]+")


@dataclass(frozen=True)
class News:
    """What is new of one run since the last poll."""

    key: str
    """One run's alone, also among runs of the same name."""
    run: str
    """Arm and repeat, as `ray-2`."""
    state: State
    log: str
    """Where to read more, for people."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """As `training.progress` writes them, in order."""


class Source(Protocol):
    """The runs of the newest measurement of a stack, as they go on."""

    def poll(self) -> list[News]:
        """One entry for each run of the measurement, in the order of their start; at once, without waiting."""

    def is_over(self) -> bool:
        """Whether nothing more will come: the measurement was published, or a run of it failed meanwhile."""


class LocalSource:
    """Runs on this machine: runs/<stack>/<run>/progress.jsonl."""

    def __init__(self, project: Path, stack: str) -> None:
        self._project = project
        self._runs = project / "runs" / stack
        self._latest = project / "results" / stack / LATEST
        self._published = self._published_now()
        self._offsets: dict[str, int] = {}
        self._running: set[str] = set()
        self._failed = False

    def poll(self) -> list[News]:
        """What the newest measurement's runs have written since the last call."""
        folders = newest_measurement(path for path in self._runs.glob("*/") if _FOLDER.fullmatch(path.name))
        news = [self._news(folder) for folder in folders]
        self._failed = any(its.state == "failed" and its.key in self._running for its in news)
        self._running |= {its.key for its in news if its.state == "running"}
        return news

    def is_over(self) -> bool:
        """Published since this source was made, or a run that went on then has ended without a result."""
        return self._failed or self._published_now() != self._published

    def _published_now(self) -> str:
        return self._latest.readlink().name if self._latest.is_symlink() else ""

    def _news(self, folder: Path) -> News:
        state = _state(folder)  # before the events: what a finished run wrote last is then among them
        events, self._offsets[folder.name] = progress.read_new(
            folder / progress.NAME, self._offsets.get(folder.name, 0)
        )
        parts = _FOLDER.fullmatch(folder.name)
        assert parts is not None  # noqa: S101 - poll lets no other through
        log = str((folder / "log.txt").relative_to(self._project))
        return News(folder.name, parts["run"], state, log, events)


def newest_measurement(folders: Any) -> list[Path]:
    """The run folders of the newest measurement, oldest first.

    The runs of a measurement are made in a fixed order (`infra.plan`): going back in time, where a run does not come
    before the one after it in that order, an older measurement ends.
    """
    chosen: list[Path] = []
    for folder in sorted(folders, key=_started, reverse=True):
        if chosen and _place(folder) >= _place(chosen[-1]):
            break
        chosen.append(folder)
    return chosen[::-1]


def _started(folder: Path) -> tuple[str, tuple[int, int]]:
    parts = _FOLDER.fullmatch(folder.name)
    return (parts["stamp"] if parts else "", _place(folder))


def _place(folder: Path) -> tuple[int, int]:
    parts = _FOLDER.fullmatch(folder.name)
    if parts is None:
        return (0, 0)
    return (int(parts["repeat"]), ARMS.index(parts["arm"]) if parts["arm"] in ARMS else len(ARMS))


def _state(folder: Path) -> State:
    """Finished with a result; running as long as a process was started for the folder; else it ended without one."""
    if (folder / result.NAME).is_file():
        return "finished"
    young = time.time() - folder.stat().st_mtime < GRACE_SECONDS
    return "running" if young or _has_process(folder) else "failed"


def _has_process(folder: Path) -> bool:
    """A run's guard and its training processes name the folder, or a file in it, on their command lines."""
    wanted = str(folder)
    commands = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(
        "-m" in command and any(word == wanted or word.startswith(f"{wanted}/") for word in command)
        for command in commands  # "-m": someone who follows the log is no run
    )
