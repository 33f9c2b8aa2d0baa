"""Makes a TrainingResult of trials, which a search has as its epochs. Nothing that was not seen becomes a number."""

import hashlib
import math
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from typing import TypeVar

from training.contract import provenance
from training.contract.cpu_use import CpuWait
from training.contract.provenance import Host
from training.contract.recipe import canonical
from training.contract.result import (
    FAILED,
    Amount,
    Provenance,
    Reported,
    SearchOutcome,
    Seconds,
    Software,
    Steps,
    TrainingResult,
    Worker,
)
from training.launch import environment
from training.launch.foreign_command import End
from training.machine import topology
from training.workloads.script import plain
from training.workloads.script.plain import Proof
from training.workloads.script.recipe import variables
from training.workloads.script.resolve import ResolvedScript
from training.workloads.search.brought import Brought, Seen
from training.workloads.search.detail import COUNTED, SearchDetail, Segment, Trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe

THREADS = "OMP_NUM_THREADS"
OURS = ("optuna", "ray")
"""Packages in this project's own environment that do the search."""
UNIT = "trials"
UNKNOWN = "-"
"""Word in a result's `did` for a trial of which the item was not seen."""
CONFIGURATIONS, EPOCHS, WEIGHTS, METRICS = "configurations", "epochs", "weights", "metric"
"""Items of a result's `did`, which have one word for each trial, in the order of trials."""
POINTS = "search.points"
"""Name of the reason in a result whose trials do not have all of their points."""
DIGITS = 12
"""Hexadecimal digits of a digest in `did`."""


Started = TypeVar("Started", bound=Trial | Segment)


@dataclass(frozen=True, kw_only=True)
class EndedSearch:
    """A run that ended well, and its trials."""

    resolved: ResolvedScript
    plan: Plan
    command: str
    """Command of a trial as a user would type it."""
    end: End
    trials: Sequence[Trial]
    """Trials ordered by number."""
    host: Host
    throttled_seconds: float | None
    """Seconds for which a CPU limit held this run, or its pod, back; None if they are not counted."""
    brought: Mapping[int, Brought]
    """What was brought of each trial, by number; a trial that left no record is missing."""
    left_files: tuple[str, ...] = ()
    proof: Proof | None = None
    """What was proved about the ranks of a trial, if the script trains in one process."""

    @property
    def recipe(self) -> SearchRecipe:
        """Return the recipe of the run."""
        return self.plan.settings

    @cached_property
    def clocked(self) -> list[Trial]:
        """Return the trials whose times are known: all but those whose process was ended with its parent."""
        return [trial for trial in self.trials if trial.ended > trial.began]

    @cached_property
    def began(self) -> float:
        """Return when the first trial was started, in seconds since the epoch."""
        return min(trial.began for trial in self.clocked)

    @cached_property
    def in_order(self) -> list[Trial]:
        """Return the trials in the order in which they ended."""
        return sorted(self.clocked, key=lambda trial: trial.ended)

    @cached_property
    def train_seconds(self) -> float:
        """Return the seconds from the start of the first trial to the end of the last."""
        return self.in_order[-1].ended - self.began

    @cached_property
    def slots(self) -> list[list[Trial]]:
        """Return for each slot (place for one trial at a time) the trials that ran in the slot. A pod is a slot. On
        this machine, a trial is assigned to the slot that had been free for longest when the trial began."""
        if self.plan.in_pods:
            pods: dict[str | None, list[Trial]] = {}
            for trial in sorted(self.clocked, key=lambda trial: trial.began):
                pods.setdefault(self.brought[trial.number].pod, []).append(trial)
            return [*pods.values(), *([] for _ in range(self.plan.slots - len(pods)))]
        return _in_slots(self.clocked, self.plan.slots)

    @cached_property
    def idle_at_end(self) -> float:
        """Return the seconds for which slots had nothing left to start, summed over the slots."""
        last = self.in_order[-1].ended
        if not self.recipe.is_population:
            return sum(last - (trials[-1].ended if trials else self.began) for trials in self.slots)
        starts: list[Trial | Segment] = []
        for trial in self.clocked:
            starts.extend(trial.segments or [trial])
        slots = _in_slots(starts, self.plan.slots)
        return sum(last - (done[-1].ended if done else self.began) for done in slots)

    @property
    def passes(self) -> int:
        """Return the number of trials by which runs are compared. For a population, and for arms that train as many
        epochs, it is the number of trials that would have so many epochs in all."""
        return self.recipe.search_trials if self.recipe.is_population else len(self.trials)

    @cached_property
    def seen(self) -> dict[int, Sequence[Seen]]:
        """Return what was seen of trials' processes, by the trial's number, without trials that made no step."""
        return {number: each.seen for number, each in self.brought.items() if each.seen}

    @cached_property
    def best(self) -> Trial | None:
        """Return the finished trial with the best metric; None where no trial finished."""
        finished = [trial for trial in self.trials if trial.state == "finished" and trial.metric is not None]
        sign = 1 if self.recipe.metric_mode == "max" else -1
        return max(finished, key=lambda trial: sign * (trial.metric or 0.0), default=None)

    @cached_property
    def software(self) -> Software:
        """Return the software of the trials: versions in the script's environment, and of the packages that search."""
        ours = provenance.code_hash(self.plan.arm, self.recipe.workload)
        steering = environment.steering({**os.environ, **variables(self.recipe.environment)})
        return Software(
            code_hash=hashlib.sha256(f"{ours}{sorted(self.resolved.inputs.items())}".encode()).hexdigest(),
            versions=self.versions,
            platform=" ".join((platform.system(), platform.machine(), *platform.libc_ver())).strip(),
            kernel=platform.release(),
            environment=steering | {THREADS: str(self.plan.threads)},
        )

    @cached_property
    def versions(self) -> dict[str, str]:
        """Return versions by package; packages of this project's environment have names that say so."""
        return {**self.resolved.versions, **{f"{name} that searches": version(name) for name in OURS}}


def result(ended: EndedSearch) -> TrainingResult:
    """Make the result of one run."""
    best_so_far, outcome = _best_so_far(ended), _outcome(ended)
    return TrainingResult(
        workload=ended.recipe.workload,
        arm=ended.plan.arm,
        recipe=ended.plan.recipe,
        provenance=_provenance(ended),
        started_at=datetime.fromtimestamp(ended.end.began, UTC).isoformat(timespec="seconds"),
        world_size=ended.plan.slots,
        epochs_completed=ended.passes,
        seconds=Seconds(
            train=ended.train_seconds,
            startup=ended.began - ended.end.began,
            phases={},
            warmup=0.0,
            validation=0.0,
            evaluation=None,
            report=None,
            wall=ended.end.ended - ended.end.began,
        ),
        steps=Steps(timed=ended.passes, per_epoch=1, seconds=None, exchanged_bytes=None),
        amount=Amount(
            unit=UNIT,
            timed=ended.passes,
            per_second=ended.passes / ended.train_seconds if ended.train_seconds else None,
            per_step=1,
        ),
        scores={ended.recipe.metric: best_so_far[-1].value} if best_so_far else {},
        curve=[],
        schedule=[],
        work={},
        did=did(ended.trials),
        workers=[_worker(ended, slot, trials) for slot, trials in enumerate(ended.slots)],
        checks={},
        reported={ended.recipe.metric: best_so_far} if best_so_far else {},
        search=outcome,
        left_files=list(ended.left_files),
        made_ranks=plain.made_ranks(ended.proof, ended.plan.arm, ended.resolved.script, ended.recipe.trial_workers),
        detail=SearchDetail(
            kind=ended.resolved.script.kind,
            command=ended.command,
            folder=ended.plan.script_folder,
            slots=ended.plan.slots,
            trials=list(ended.trials),
        ),
        reasons=_reasons(ended, outcome),
    )


def did(trials: Sequence[Trial]) -> dict[str, str]:
    """Return the work of a run, by which arms are compared: for each item one word a trial, in their order."""
    return {
        CONFIGURATIONS: " ".join(_digest(canonical(trial.config)) for trial in trials),
        EPOCHS: " ".join(map(_epochs, trials)),
        WEIGHTS: _words(trials, lambda trial: trial.weights and trial.weights[:DIGITS]),
        METRICS: _words(trials, lambda trial: trial.metric),
        **{name: _words(trials, partial(_counted, name)) for name in COUNTED},
    }


def _counted(name: str, trial: Trial) -> str | None:
    return trial.counted[name].replace(" ", "_") if name in trial.counted else None


def _words(trials: Sequence[Trial], read: Callable[[Trial], object]) -> str:
    values = (FAILED if trial.state == "failed" else read(trial) for trial in trials)
    return " ".join(UNKNOWN if value is None else str(value) for value in values)


def _epochs(trial: Trial) -> str:
    """Return the number of epochs as `3`, or `failed@3` for a failed trial. A trial that fails later in one arm than in
    another has done more work there."""
    if trial.state != "failed":
        return UNKNOWN if trial.epochs is None else str(trial.epochs)
    return f"{FAILED}@{trial.epochs}" if trial.epochs else FAILED


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _best_so_far(ended: EndedSearch) -> list[Reported]:
    """Return the best metric so far each time that a trial finishes, with the seconds since the run's start."""
    is_better = max if ended.recipe.metric_mode == "max" else min
    points: list[Reported] = []
    for trial in ended.in_order:
        if trial.state == "finished" and trial.metric is not None:
            best = is_better(trial.metric, points[-1].value) if points else trial.metric
            points.append(Reported(seconds=trial.ended - ended.end.began, value=best))
    return points


def _outcome(ended: EndedSearch) -> SearchOutcome:
    states = [trial.state for trial in ended.trials]
    epochs = [trial.epochs for trial in ended.trials if trial.state != "failed"]
    known = [number for number in epochs if number is not None]
    seconds = [trial.seconds for trial in ended.clocked]
    return SearchOutcome(
        finished=states.count("finished"),
        stopped=states.count("stopped"),
        failed=states.count("failed"),
        epochs_trained=sum(known) if known and len(known) == len(epochs) else None,
        trial_seconds=statistics.fmean(seconds),
        between_trials_seconds=max(
            0.0, (ended.plan.slots * ended.train_seconds - sum(seconds) - ended.idle_at_end) / len(seconds)
        ),
        best_config=canonical(ended.best.config) if ended.best else None,
        best_metric=ended.best.metric if ended.best else None,
    )


def _in_slots(started: Sequence[Started], slots: int) -> list[list[Started]]:
    """Return for each slot (place for one trial at a time) what started in it; each start takes the slot that had been
    free for longest."""
    done: list[list[Started]] = [[] for _ in range(slots)]
    for each in sorted(started, key=lambda each: each.began):
        min(done, key=lambda own: own[-1].ended if own else -math.inf).append(each)
    return done


def _worker(ended: EndedSearch, slot: int, trials: Sequence[Trial]) -> Worker:
    """Return the worker that stands for a slot, with the CPUs, threads and memory of the slot's trials."""
    seen = [process for trial in trials for process in ended.seen.get(trial.number, ())]
    affinity = sorted({cpu for each in seen for cpu in each.affinity or ()}) or None
    threads = {each.threads for each in seen}
    training = _wait(seen, "training")
    peaks = [trial.peak_memory_bytes for trial in trials if trial.peak_memory_bytes is not None]
    where = next((ended.brought[trial.number] for trial in trials), None)
    return Worker(
        rank=slot,
        node=where.node if where else provenance.node(),
        pod=where.pod if where else None,
        cpu_model=where.cpu_model if where else ended.host.cpu_model,
        amount=len(trials),
        compute_threads=threads.pop() if len(threads) == 1 else None,
        affinity=affinity,
        bound=False,
        cpus=topology.read(affinity) if affinity else None,
        software=ended.software,
        peak_memory_bytes=max(peaks, default=None),
        mean_cpus=_mean_cpus(training, ended.recipe.trial_workers),
        throttled_seconds=_throttled(seen) if ended.plan.in_pods else ended.throttled_seconds,
        container_cpu=_container_cpu(seen),
        training_wait=training,
        run_wait=_wait(seen, "run"),
    )


def _mean_cpus(training: CpuWait | None, processes: int) -> float | None:
    """Return the mean number of CPUs that a trial used; all of its processes train for the same seconds."""
    return processes * training.cpu_seconds / training.seconds if training and training.seconds else None


def _throttled(seen: Sequence[Seen]) -> float | None:
    """Return the throttled seconds of one pod's trials, added up; None if those of any are not counted."""
    seconds = [each.throttled_seconds for each in seen if each.throttled_seconds is not None]
    return sum(seconds) if seconds and len(seconds) == len(seen) else None


def _container_cpu(seen: Sequence[Seen]) -> list[list[float]] | None:
    """Return the first and the last reading of one pod's CPU time; None if the time was not read."""
    readings = [reading for each in seen for reading in each.container_cpu or ()]
    return [min(readings), max(readings)] if readings else None


def _wait(seen: Sequence[Seen], which: str) -> CpuWait | None:
    """Return the sum of the waits over the processes of one slot's trials; None if the wait of any is not counted."""
    waits = [(each.waits or {}).get(which) for each in seen]
    known = [wait for wait in waits if wait]
    if not known or len(known) < len(waits):
        return None
    return CpuWait(
        seconds=sum(wait.seconds for wait in known),
        cpu_seconds=sum(wait.cpu_seconds for wait in known),
        waited_seconds=sum(wait.waited_seconds for wait in known),
    )


def _provenance(ended: EndedSearch) -> Provenance:
    host = ended.host
    return Provenance(
        code_hash=ended.software.code_hash,
        dependencies_hash=hashlib.sha256(repr(sorted(ended.versions.items())).encode()).hexdigest(),
        dataset_hash=None,
        versions=ended.versions,
        cpu_model=host.cpu_model,
        cpus_allowed=host.cpus_allowed,
        cpu_quota=host.cpu_quota,
        memory_bytes=host.memory_bytes,
        platform=platform.platform(),
    )


def _reasons(ended: EndedSearch, outcome: SearchOutcome) -> dict[str, str]:
    """Return the reasons why numbers of this run are null, by the names of the numbers."""
    unseen = "no step of a trial was seen"
    reasons = {
        "evaluationSeconds": "it is part of each trial",
        "seconds.report": "it is part of each trial",
        "ray": "a Ray that the script starts is its own",
        "provenance.datasetHash": "the script reads its data itself",
        "steps.exchangedBytes": "trials exchange nothing",
        "throttledSeconds": "the system does not count it",
        "steps.seconds": "a step of a search is a trial",
        "stepParts": "a step of a search is a trial",
        "workers.affinity": unseen,
        "workers.cpus": "the system does not say which CPUs are of one core" if ended.seen else unseen,
        "workers.computeThreads": "its framework does not say how many threads compute" if ended.seen else unseen,
        "peakMemoryBytes": unseen,
        "meanCpus": unseen,
    }
    if ended.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this run"
    if every := max((each.one_point_in for each in ended.brought.values()), default=1) - 1:
        reasons[POINTS] = f"of a trial's reports one in {every + 1} is kept: all would be too long for a pod's log"
    if outcome.epochs_trained is None:
        reasons["search.epochsTrained"] = "neither epochs nor reports of the metric were seen in a trial"
    if outcome.best_config is None:
        reasons["search.bestConfig"] = "no trial finished"
    return reasons
