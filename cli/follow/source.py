"""Sources of progress: a `Source` returns the news of the runs of one measurement. Shows nothing.

`LocalSource` reads the files that runs on this machine write; `cli.follow.cluster` gives the same `News` from the
logs of a cluster's pods.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import psutil

from report.stored import LATEST
from training.contract import progress, result
from training.contract.arms import BASELINE

State = Literal["running", "finished", "failed", "interrupted"]
T = TypeVar("T")

GRACE_SECONDS = 5.0
"""Seconds for which a run's folder may exist before the run's first process exists."""

FIRST_RUN = f"{BASELINE.name}-1"
"""The first run of every measurement, except of one that keeps an earlier baseline."""
_RUN = r"[a-z]+(?:-w\d+)?-(?P<repeat>\d+)"
_FOLDER = re.compile(rf"(?P<run>{_RUN})-(?P<stamp>\d{{8}}T\d{{6}}Z)-[0-9a-f]+")


@dataclass(frozen=True)
class News:
    """The news of one run since the last poll."""

    key: str
    """An identifier that is unique to the run, also among runs of the same name."""
    run: str
    """Arm and repeat, such as `ray-2`."""
    state: State
    log: str
    """The path of the log, or the command that shows it, for users."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The new events in order, in the form in which `training.contract.progress` writes them."""


class Source(Protocol):
    """The runs of the newest measurement of a stack, as they go on."""

    trouble: str
    """Why the last poll got no answer, and what to do; empty if it got one."""

    waits_for: str
    """What pods wait for while no run is in progress, in the cluster's words; empty if no pod waits."""

    def poll(self) -> list[News]:
        """Return the news of each run of the measurement, in the order of the starts, without waiting for events."""

    def is_over(self) -> bool:
        """Return whether the measurement is over, that is, was published, or one of its runs failed meanwhile."""


class LocalSource:
    """The runs on this machine, which write runs/<stack>/<run>/progress.jsonl."""

    trouble = waits_for = ""

    def __init__(self, project: Path, stack: str) -> None:
        self._project = project
        self._runs = project / "runs" / stack
        self._stack = stack
        self._published = published(project, stack)
        self._offsets: dict[str, int] = {}
        self._running: set[str] = set()
        self._failed = False

    def poll(self) -> list[News]:
        """Return what the newest measurement's runs have written since the last call."""
        folders = newest_measurement((path for path in self._runs.glob("*/") if _FOLDER.fullmatch(path.name)), started)
        news = [self._news(folder) for folder in folders]
        self._failed = any(run_news.state == "failed" and run_news.key in self._running for run_news in news)
        self._running |= {run_news.key for run_news in news if run_news.state == "running"}
        return news

    def is_over(self) -> bool:
        """Return whether the measurement was published since this object was made, or a run in progress has failed."""
        return self._failed or published(self._project, self._stack) != self._published

    def _news(self, folder: Path) -> News:
        state = _state(folder)  # before the events: what a finished run wrote last is then among them
        events, self._offsets[folder.name] = progress.read_new(
            folder / progress.NAME, self._offsets.get(folder.name, 0)
        )
        parts = _FOLDER.fullmatch(folder.name)
        assert parts is not None  # noqa: S101 - poll lets no other through
        log = str((folder / "log.txt").relative_to(self._project))
        return News(folder.name, parts["run"], state, log, events)


def published(project: Path, stack: str) -> str:
    """Return the name of the folder that the link `latest` points to; empty if there is no result."""
    latest = project / "results" / stack / LATEST
    return latest.readlink().name if latest.is_symlink() else ""


def newest_measurement(runs: Iterable[T], started_of: Callable[[T], tuple[str, str]]) -> list[T]:
    """Return the runs of the newest measurement, oldest first. `started_of` returns a run's start, as text that can be
    sorted, and the run's name.

    A measurement makes each run once, one repeat after another. Each repeat has its own order that begins with the
    baseline (`infra.plan`). Going back in time, the newest measurement ends at the first baseline, or before a name
    that was met already, or before a later repeat.
    """
    started_runs = [(stamp, name, run) for run in runs for stamp, name in [started_of(run)]]
    chosen: dict[str, T] = {}
    repeat = None
    for _, name, run in sorted(started_runs, key=lambda started_run: started_run[:2], reverse=True):
        if name in chosen or (repeat is not None and _repeat(name) > repeat):
            break
        chosen[name], repeat = run, _repeat(name)
        if name == FIRST_RUN:
            break
    return list(chosen.values())[::-1]


def started(folder: Path) -> tuple[str, str]:
    """Return the start of a run and its name, from the name of its folder."""
    parts = _FOLDER.fullmatch(folder.name)
    return (parts["stamp"], parts["run"]) if parts else ("", "")


def _repeat(name: str) -> int:
    parts = re.fullmatch(_RUN, name)
    return int(parts["repeat"]) if parts else 0


def _state(folder: Path) -> State:
    """Return `finished` if the folder has a result, `running` if it is new or has a process, else `failed`."""
    if (folder / result.NAME).is_file():
        return "finished"
    young = time.time() - folder.stat().st_mtime < GRACE_SECONDS
    return "running" if young or _has_process(folder) else "failed"


def _has_process(folder: Path) -> bool:
    """Return whether a process of the run exists: its guard and its training processes name the folder, or a file in
    it, on their command lines."""
    wanted = str(folder)
    commands = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(
        "-m" in command and any(word == wanted or word.startswith(f"{wanted}/") for word in command)
        for command in commands  # "-m": someone who follows the log is no run
    )
