"""Makes a TrainingResult from the trials of a run: an epoch of a search is a trial. Nothing that was not seen becomes
a number."""

import hashlib
import math
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version

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
from training.workloads.script import observations
from training.workloads.script.observations import Observation
from training.workloads.script.recipe import variables
from training.workloads.script.resolve import ResolvedScript
from training.workloads.search.detail import SearchDetail, Trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe

THREADS = "OMP_NUM_THREADS"
OURS = ("optuna", "ray")
"""Packages of this project's own environment that search."""
UNIT = "trials"
UNKNOWN = "-"
"""Word of a trial in a result's `did` for what was not seen."""
CONFIGURATIONS, EPOCHS, WEIGHTS, METRICS = "configurations", "epochs", "weights", "metric"
"""Items of a result's `did`: a word a trial, in their order."""
DIGITS = 12
"""Hexadecimal digits of a digest in `did`."""


@dataclass(frozen=True, kw_only=True)
class EndedSearch:
    """A run that ended well, and its trials."""

    resolved: ResolvedScript
    plan: Plan
    command: str
    """Command of a trial as a user would type it."""
    end: End
    trials: Sequence[Trial]
    """By number."""
    host: Host
    throttled_seconds: float | None
    left_files: tuple[str, ...] = ()

    @property
    def recipe(self) -> SearchRecipe:
        """Return the recipe of the run."""
        return self.plan.settings

    @cached_property
    def clocked(self) -> list[Trial]:
        """The trials whose times are known: all but those whose process was ended with whoever ran it."""
        return [trial for trial in self.trials if trial.ended > trial.began]

    @cached_property
    def began(self) -> float:
        """When the first trial was started, in seconds since the epoch."""
        return min(trial.began for trial in self.clocked)

    @cached_property
    def in_order(self) -> list[Trial]:
        """The trials in the order in which they ended."""
        return sorted(self.clocked, key=lambda trial: trial.ended)

    @cached_property
    def train_seconds(self) -> float:
        """From the first trial's start to the last one's end."""
        return self.in_order[-1].ended - self.began

    @cached_property
    def slots(self) -> list[list[Trial]]:
        """The trials that one slot made, for each slot: of those that were free when a trial began, the one that was
        free first."""
        slots: list[list[Trial]] = [[] for _ in range(self.plan.slots)]
        for trial in sorted(self.clocked, key=lambda trial: trial.began):
            min(slots, key=lambda done: done[-1].ended if done else -math.inf).append(trial)
        return slots

    @cached_property
    def seen(self) -> dict[int, Observation]:
        """What was observed, by the trial's number; nothing of a trial that made no step."""
        read = {trial.number: observations.read(self.plan.trial_folder(trial.number)) for trial in self.trials}
        return {number: ranks[0] for number, ranks in read.items() if ranks}

    @cached_property
    def best(self) -> Trial | None:
        """The finished trial with the best metric; None where no trial finished."""
        finished = [trial for trial in self.trials if trial.state == "finished" and trial.metric is not None]
        sign = 1 if self.recipe.metric_mode == "max" else -1
        return max(finished, key=lambda trial: sign * (trial.metric or 0.0), default=None)

    @cached_property
    def software(self) -> Software:
        """Software of the trials; the versions are those of the script's own environment, and of who searches."""
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
        """Versions by package; those of this project's environment under names of their own."""
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
        epochs_completed=len(ended.trials),
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
        steps=Steps(timed=len(ended.trials), per_epoch=1, seconds=None, exchanged_bytes=None),
        amount=Amount(
            unit=UNIT,
            timed=len(ended.trials),
            per_second=len(ended.trials) / ended.train_seconds if ended.train_seconds else None,
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
    """Return the work of a run by which arms are compared: a word a trial for each item, in the order of trials."""
    return {
        CONFIGURATIONS: " ".join(_digest(canonical(trial.config)) for trial in trials),
        EPOCHS: " ".join(map(_epochs, trials)),
        WEIGHTS: _words(trials, lambda trial: trial.weights and trial.weights[:DIGITS]),
        METRICS: _words(trials, lambda trial: trial.metric),
    }


def _words(trials: Sequence[Trial], read: Callable[[Trial], object]) -> str:
    values = (FAILED if trial.state == "failed" else read(trial) for trial in trials)
    return " ".join(UNKNOWN if value is None else str(value) for value in values)


def _epochs(trial: Trial) -> str:
    """`3`, or `failed@3`: a trial that fails later in one arm than in another has done more work there."""
    if trial.state != "failed":
        return UNKNOWN if trial.epochs is None else str(trial.epochs)
    return f"{FAILED}@{trial.epochs}" if trial.epochs else FAILED


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _best_so_far(ended: EndedSearch) -> list[Reported]:
    """Return the best metric of the finished trials, whenever one of them was better: seconds since the run's start."""
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
            0.0, (ended.plan.slots * ended.train_seconds - sum(seconds) - _idle_at_end(ended)) / len(seconds)
        ),
        best_config=canonical(ended.best.config) if ended.best else None,
        best_metric=ended.best.metric if ended.best else None,
    )


def _idle_at_end(ended: EndedSearch) -> float:
    """Return the seconds for which slots had no trial left to make, after their last."""
    last = ended.in_order[-1].ended
    return sum(last - (trials[-1].ended if trials else ended.began) for trials in ended.slots)


def _worker(ended: EndedSearch, slot: int, trials: Sequence[Trial]) -> Worker:
    """A slot, with what its trials had."""
    seen = [ended.seen[trial.number] for trial in trials if trial.number in ended.seen]
    affinity = sorted({cpu for observation in seen for cpu in observation.affinity or ()}) or None
    threads = {observation.threads for observation in seen}
    training = _wait(seen, "training")
    peaks = [trial.peak_memory_bytes for trial in trials if trial.peak_memory_bytes is not None]
    return Worker(
        rank=slot,
        node=provenance.node(),
        cpu_model=ended.host.cpu_model,
        amount=len(trials),
        compute_threads=threads.pop() if len(threads) == 1 else None,
        affinity=affinity,
        bound=False,
        cpus=topology.read(affinity) if affinity else None,
        software=ended.software,
        peak_memory_bytes=max(peaks, default=None),
        mean_cpus=training.cpu_seconds / training.seconds if training and training.seconds else None,
        throttled_seconds=ended.throttled_seconds,
        training_wait=training,
        run_wait=_wait(seen, "run"),
    )


def _wait(seen: Sequence[Observation], which: str) -> CpuWait | None:
    """Return the sum over trials that one slot made; None where one is not counted."""
    waits = [(observation.cpu_waits or {}).get(which) for observation in seen]
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
    """Return the reasons why numbers of this run are null, by their names."""
    unseen = "no step of a trial was seen"
    reasons = {
        "evaluationSeconds": "it is part of each trial",
        "seconds.report": "it is part of each trial",
        "ray": "a Ray that the script starts is its own",
        "provenance.datasetHash": "the script reads its data itself",
        "steps.exchangedBytes": "trials exchange nothing",
        "throttledSeconds": "the system does not count it",
        "steps.seconds": "a step of a search is a trial",
        "allReduce": "trials exchange nothing",
        "stepParts": "a step of a search is a trial",
        "workers.affinity": unseen,
        "workers.cpus": "the system does not say which CPUs are of one core" if ended.seen else unseen,
        "workers.computeThreads": "its framework does not say how many threads compute" if ended.seen else unseen,
        "peakMemoryBytes": unseen,
        "meanCpus": unseen,
    }
    if ended.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this run"
    if outcome.epochs_trained is None:
        reasons["search.epochsTrained"] = "neither epochs nor reports of the metric were seen in a trial"
    if outcome.best_config is None:
        reasons["search.bestConfig"] = "no trial finished"
    return reasons
