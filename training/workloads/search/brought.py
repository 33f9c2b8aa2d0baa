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
"""File of a trial that was brought from another pod, in its folder."""
MOST_POINTS = 40_000
"""Points of all trials of a run in pods: some 1.6 MB of the 4 MiB that a pod's log may hold of a result."""
LOG_LINES = 15
"""Lines of a log that say why a trial failed."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen of a process of a trial; it made a step."""

    threads: int | None
    affinity: list[int] | None
    waits: dict[str, CpuWait] | None
    """Of the `training` and of the `run`."""
    container_cpu: list[list[float]] | None = None
    """As `training.contract.result.Worker` has it; null on this machine."""
    throttled_seconds: float | None = None
    """Time for which its CPU limit held its pod back; null on this machine, where the run counts it."""


@dataclass(frozen=True, kw_only=True)
class Brought:
    """A trial that has ended."""

    trial: Trial
    seen: list[Seen]
    """Of each of its processes, by rank; of none if it made no step."""
    node: str
    pod: str | None
    """Name of the pod that it ran in; null on this machine."""
    cpu_model: str
    one_point_in: int = 1
    """Of so many points of its curve one was kept."""
    lines: list[str] = field(default_factory=list)
    """The last ones of its log, of a trial that failed."""

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(encode(self), allow_nan=False)

    def write(self, plan: Plan) -> None:
        """Write it into the trial's folder."""
        folder = plan.trial_folder(self.trial.number)
        self.trial.write(folder)
        write_whole(folder / NAME, self.text())


def parse(data: Any) -> Brought:
    """Return the trial of such JSON data."""
    return cast("Brought", decode(Brought, data, NAME))


def of_run(plan: Plan) -> Iterator[Brought]:
    """Yield the trials whose records are in the run's folder, by number."""
    for number in range(plan.trials_made):
        if trial := of_trial(plan, number):
            yield trial


def of_trial(plan: Plan, number: int) -> Brought | None:
    """Return the trial of this number, which ran here or was brought here; None where there is no record of it."""
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
    """Return the trial with as many points as it may have, and of how many one was kept; the last one always is."""
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
