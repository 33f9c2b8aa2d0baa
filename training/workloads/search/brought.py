"""What is brought of a trial from where it ran to the run's result: its record, and what was seen of its process.

Trials of pods share no folder. So each is brought in a few hundred bytes, and the points of its curve, of which there
may be thousands, are thinned to what the end of a pod's log holds. Standard library only.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from training.contract import provenance
from training.contract.codec import decode, encode, write_whole
from training.contract.cpu_use import CpuWait
from training.machine import cpu, output
from training.workloads.script import observation_files
from training.workloads.script.observations import Observation
from training.workloads.search import detail, population
from training.workloads.search.detail import Trial
from training.workloads.search.plan import Plan

NAME = "brought.json"
"""Name of the file, in a trial's folder, of a trial that was brought from another pod."""
MOST_POINTS = 40_000
"""Most points of all trials of a run in pods: some 1.6 MB of the 4 MiB that a pod's log may hold of a result."""
LOG_LINES = 15
"""Number of lines of a log that are kept to show why a trial failed."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the observer saw of a process of a trial that made a step."""

    threads: int | None
    affinity: list[int] | None
    waits: dict[str, CpuWait] | None
    """How long the `training`, and the whole `run`, waited for a CPU; null where that is not counted."""
    container_cpu: list[list[float]] | None = None
    """CPU time of the container, in the form of `training.contract.result.Worker`; null on this machine."""
    throttled_seconds: float | None = None
    """Seconds for which the CPU limit held the process's pod back; null on this machine, where the run counts them."""


@dataclass(frozen=True, kw_only=True)
class Brought:
    """A trial that has ended, with what is brought of it to the run's result."""

    trial: Trial
    seen: list[Seen]
    """What was seen of each process of the trial, by rank; empty if the trial made no step."""
    node: str
    pod: str | None
    """Name of the pod in which the trial ran; null on this machine."""
    cpu_model: str
    one_point_in: int = 1
    """One of this many points of the trial's curve was kept."""
    lines: list[str] = field(default_factory=list)
    """The last lines of the log of a trial that failed."""

    def text(self) -> str:
        """Return the trial and what was seen of it as JSON."""
        return json.dumps(encode(self), allow_nan=False)

    def write(self, plan: Plan) -> None:
        """Write the trial and what was seen of it into the trial's folder."""
        folder = plan.trial_folder(self.trial.number)
        self.trial.write(folder)
        write_whole(folder / NAME, self.text())


def parse(data: Any) -> Brought:
    """Return the trial that the JSON data describe."""
    return cast("Brought", decode(Brought, data, NAME))


def of_run(plan: Plan) -> Iterator[Brought]:
    """Yield the trials whose records are in the run's folder, ordered by number."""
    for number in range(plan.trials_made):
        if trial := of_trial(plan, number):
            yield trial


def of_trial(plan: Plan, number: int) -> Brought | None:
    """Return the trial of this number, which ran here or was brought here; None if it has no record."""
    folder = plan.trial_folder(number)
    if (folder / NAME).is_file():
        return parse(json.loads((folder / NAME).read_text(encoding="utf-8")))
    trial = detail.read(folder)
    if trial is None:
        return None
    thinned, every = _thinned(trial, plan)
    starts = population.folders(folder) if trial.segments else [folder]
    return Brought(
        trial=thinned,
        seen=[_seen(rank) for start in starts for rank in observation_files.read(start)],
        node=provenance.node(),
        pod=provenance.pod(),
        cpu_model=cpu.model(),
        one_point_in=every,
        lines=_last_lines(starts[-1]) if trial.state == "failed" else [],
    )


def _last_lines(folder: Path) -> list[str]:
    log = folder / detail.LOG
    return output.last_lines(output.end_of_file(log), LOG_LINES) if log.is_file() else []


def _thinned(trial: Trial, plan: Plan) -> tuple[Trial, int]:
    """Return the trial with as many points as it may have, and the number of points of which one was kept; the last
    point is always kept."""
    most = max(1, MOST_POINTS // plan.settings.search_trials)
    every = max(1, -(-len(trial.points) // most)) if plan.in_pods else 1
    return replace(trial, points=trial.points[::-1][::every][::-1]), every


def _seen(rank: Observation) -> Seen:
    return Seen(
        threads=rank.threads,
        affinity=list(rank.affinity) if rank.affinity is not None else None,
        waits=rank.cpu_waits,
        container_cpu=rank.pod.container_cpu if rank.pod else None,
        throttled_seconds=rank.pod.throttled_seconds if rank.pod else None,
    )
