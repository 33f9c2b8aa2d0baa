"""From what was observed of a run to its TrainingResult. Nothing that was not seen becomes a number."""

import hashlib
import math
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from training.contract import provenance
from training.contract.arms import NATIVE
from training.contract.provenance import Host
from training.contract.result import (
    WORKERS,
    Amount,
    Provenance,
    Reported,
    Seconds,
    Software,
    Steps,
    StepSeconds,
    TrainingResult,
    Worker,
)
from training.launch import environment
from training.launch.observed import End
from training.machine import topology
from training.workloads.script import facts
from training.workloads.script.asked import Asked
from training.workloads.script.commands import ArmCommand, folder
from training.workloads.script.detail import Artifact, Rank, ScriptDetail
from training.workloads.script.observations import RLLIB, Observation
from training.workloads.script.recipe import variables
from training.workloads.script.step_clock import StepClock, step_clock

THREADS = "OMP_NUM_THREADS"
MOST_REPORTED = 1000
"""Of one number: it stays in Pulumi's state with its run."""
ROWS_PER_EPOCH = "rowsPerEpoch"
"""Key of a result's `work`."""
CHECKS = ("rowsDisjoint", "stepsOfRanksEqual", "weightsEqual")
OF_STEPS = ("seconds.train", "amount.perSecond", "steps.seconds", "startupSeconds", "warmupSeconds", "meanCpus")
OF_RUNNERS = "of RLlib the process that learns is observed, and its runners are others"
UNSEEN = (
    "no step was seen: those of PyTorch's optimizers, of Keras' fit and of XGBoost's and LightGBM's train are, and "
    "RLlib's iterations; "
    "own loops of TensorFlow are not"
)


@dataclass(frozen=True)
class Made:
    """A run that ended well, and what was seen of it."""

    asked: Asked
    command: ArmCommand
    end: End
    seen: tuple[Observation, ...]
    """By rank; empty where no rank was seen to make a step."""
    host: Host
    """As it was before the arm was bound to its CPUs."""
    throttled_seconds: float | None
    """That a quota held the whole run back."""
    artifacts: tuple[Artifact, ...] = ()
    left_files: tuple[str, ...] = ()

    @cached_property
    def facts(self) -> facts.ArmFacts | None:
        """Of all ranks; None where nothing was seen."""
        return facts.of_arm(self.command.arm, self.command.ranks, self.seen) if self.seen else None

    @cached_property
    def clock(self) -> StepClock | None:
        """Of rank 0."""
        if self.facts is None:
            return None
        first = self.seen[0]
        return step_clock(first.step_ends, first.passes, ended_early=first.ended_early)

    @cached_property
    def software(self) -> Software:
        """What its ranks ran with: the versions are those of the script's own environment."""
        ours = provenance.code_hash(self.command.arm, self.asked.recipe.workload)
        given = environment.steering({**os.environ, **variables(self.asked.recipe.environment)})
        return Software(
            code_hash=hashlib.sha256(f"{ours}{sorted(self.asked.inputs.items())}".encode()).hexdigest(),
            versions=dict(self.asked.versions),
            platform=" ".join((platform.system(), platform.machine(), *platform.libc_ver())).strip(),
            kernel=platform.release(),
            environment=given | {THREADS: self.command.variables[THREADS]},
        )


def result(made: Made) -> TrainingResult:
    """Of one run."""
    clock, known = made.clock, made.facts
    checks, reasons = _checks(made)
    return TrainingResult(
        workload=made.asked.recipe.workload,
        arm=made.command.arm,
        recipe=made.asked.recipe.to_dict(),
        provenance=_provenance(made),
        started_at=datetime.fromtimestamp(made.end.began, UTC).isoformat(timespec="seconds"),
        world_size=max(one.world for one in made.seen) if made.seen and made.asked.script.kind != "other" else None,
        epochs_completed=clock.epochs if clock else 0,
        seconds=_seconds(made),
        steps=_steps(made),
        amount=_amount(made),
        scores={name: points[-1].value for name, points in _reported(made).items()},
        curve=[],
        schedule=[],
        work={ROWS_PER_EPOCH: float(known.rows_per_epoch)} if known and known.rows_per_epoch else {},
        did=dict(known.work.items) if known else {},
        workers=[_worker(made, one) for one in made.seen] or [_worker(made, None)],
        checks=checks,
        reported=_reported(made),
        ray_ran=known.ray if known else None,
        left_files=list(made.left_files),
        weights=known.weights if known else None,
        all_reduce=made.seen[0].all_reduce if made.seen else None,
        detail=_detail(made),
        reasons=reasons | _reasons(made),
    )


def _reported(made: Made) -> dict[str, list[Reported]]:
    """By name; of a number that is reported more often than MOST_REPORTED times every so many, and the last."""
    by_name: dict[str, list[Reported]] = {}
    for at, name, value in made.seen[0].metric_points if made.seen else ():
        if math.isfinite(value):
            by_name.setdefault(name, []).append(Reported(seconds=at - made.end.began, value=value))
    return {name: _thinned(points) for name, points in by_name.items()}


def _thinned(points: list[Reported]) -> list[Reported]:
    every = -(-len(points) // MOST_REPORTED)
    return [*points[:-1][::every], points[-1]]


def _checks(made: Made) -> tuple[dict[str, bool | None], dict[str, str]]:
    """What the ranks of the run say of each other; and why, where that is not true."""
    if made.facts is None:
        return dict.fromkeys(CHECKS), dict.fromkeys((f"checks.{name}" for name in CHECKS), UNSEEN)
    steps = sorted({len(one.step_ends) for one in made.seen})
    said = {
        "rowsDisjoint": made.facts.rows_disjoint,
        "stepsOfRanksEqual": (len(steps) == 1, f"ranks made different numbers of steps: {', '.join(map(str, steps))}"),
        "weightsEqual": made.facts.weights_equal,
    }
    reasons = {f"checks.{name}": words for name, (value, words) in said.items() if value is not True}
    return {name: value for name, (value, _) in said.items()}, reasons


def _seconds(made: Made) -> Seconds:
    clock = made.clock
    return Seconds(
        train=sum(clock.timed) if clock and clock.timed else None,
        startup=max(one.step_ends[0] for one in made.seen) - made.end.began if made.seen else None,
        phases={},
        warmup=clock.warmup_seconds if clock else None,
        validation=clock.between_seconds if clock else None,
        evaluation=None,
        report=None,
        wall=made.end.ended - made.end.began,
        probe=min((one.own_seconds + one.hook_seconds for one in made.seen), default=0.0),  # the others waited for it
        observer=max((one.hook_seconds for one in made.seen), default=0.0),
    )


def _steps(made: Made) -> Steps:
    clock = made.clock
    if clock is None:
        return Steps(timed=0, per_epoch=0, seconds=None, exchanged_bytes=None, whole_epochs=False)
    return Steps(
        timed=len(clock.timed),
        per_epoch=clock.per_epoch,
        seconds=_distribution(clock.timed),
        exchanged_bytes=made.seen[0].gradient_bytes,
        trace=clock.timed,
        whole_epochs=clock.whole_epochs,
        gaps=clock.gaps,
    )


def _distribution(steps: Sequence[float]) -> StepSeconds | None:
    if len(steps) < 2:
        return None
    p95 = statistics.quantiles(steps, n=20, method="inclusive")[-1]
    return StepSeconds(mean=statistics.fmean(steps), p50=statistics.median(steps), p95=p95, max=max(steps))


def _amount(made: Made) -> Amount:
    known, clock, unit = made.facts, made.clock, made.asked.recipe.unit
    if known is None or known.rows_per_step is None or clock is None or not clock.timed:
        return Amount(unit=unit, timed=None, per_second=None, per_step=None, known="unknown")
    timed, per_step = round(known.rows_per_step * len(clock.timed)), round(known.rows_per_step)
    return Amount(
        unit=unit,
        timed=timed,
        per_second=timed / sum(clock.timed),
        per_step=per_step,
        known=known.rows_known,
    )


def _provenance(made: Made) -> Provenance:
    host, versions = made.host, dict(made.asked.versions)
    return Provenance(
        code_hash=made.software.code_hash,
        dependencies_hash=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest(),
        dataset_hash=None,
        versions=versions,
        cpu_model=host.cpu_model,
        cpus_allowed=host.cpus_allowed,
        cpu_quota=host.cpu_quota,
        memory_bytes=host.memory_bytes,
        platform=platform.platform(),
    )


def _worker(made: Made, one: Observation | None) -> Worker:
    """A rank, with the CPUs that its own threads had; where none was seen, one that stands for the command."""
    pod = one.pod if one else None
    affinity = list(one.affinity) if one and one.affinity and not pod else None
    is_rllib = one is not None and one.framework == RLLIB
    return Worker(
        rank=one.rank if one else 0,
        node=pod.node if pod else provenance.node(),
        pod=pod.name if pod else provenance.pod(),
        cpu_model=pod.cpu_model if pod else made.host.cpu_model,
        container_cpu=pod.container_cpu if pod else None,
        amount=one.rows if one else None,
        compute_threads=one.threads if one else None,
        affinity=affinity,
        bound=False,
        cpus=topology.read(affinity) if affinity else None,
        software=made.software,
        peak_memory_bytes=one.peak_memory_bytes if one and not is_rllib else None,
        mean_cpus=_mean_cpus(one, made.clock) if one and made.clock and not is_rllib else None,
        throttled_seconds=pod.throttled_seconds if pod else made.throttled_seconds,
        samples=[list(sample) for sample in one.samples] if one and not is_rllib else [],
        training_wait=(one.cpu_waits or {}).get("training") if one and not is_rllib else None,
        run_wait=(one.cpu_waits or {}).get("run") if one and not is_rllib else None,
    )


def _mean_cpus(one: Observation, clock: StepClock) -> float | None:
    """CPU seconds a second of one process, over the steps that are timed; of a rank with fewer those that it made."""
    last = min(len(one.step_ends), len(one.cpu_at_step))
    steps = [step for step in clock.timed_steps if step < last]
    seconds = sum(one.step_ends[step] - one.step_ends[step - 1] for step in steps)
    used = sum(one.cpu_at_step[step] - one.cpu_at_step[step - 1] for step in steps)
    return used / seconds if seconds else None


def _detail(made: Made) -> ScriptDetail:
    return ScriptDetail(
        kind=made.asked.script.kind,
        framework=made.seen[0].framework if made.seen else "unknown",
        command=str(made.command),
        folder=str(folder(made.asked.script)),
        settled_after=made.clock.settled_after if made.clock else None,
        ranks=[
            Rank(
                rank=one.rank,
                world=one.world,
                steps=len(one.step_ends),
                rows=one.rows,
                weights=one.weights,
                threads=one.threads,
                report_seconds=one.report_seconds,
                hook_seconds=one.hook_seconds,
                ended_early=one.ended_early,
                notes=list(one.notes),
            )
            for one in made.seen
        ],
        processes=made.end.processes,
        left=made.end.left,
        artifacts=list(made.artifacts),
    )


def _reasons(made: Made) -> dict[str, str]:
    """Why a number of this run is null."""
    reasons = {
        "seconds.report": "it is part of what lies between epochs",
        "ray": "a Ray that the script starts is its own",
        "evaluationSeconds": "it is not told from what else lies between epochs",
        "provenance.datasetHash": "the script reads its data itself",
        "workers.cpus": "a pod's limit holds it instead of a binding to CPUs"
        if provenance.pod()
        else "the system does not say which CPUs are of one core",
        "workers.computeThreads": "its framework does not say how many threads compute",
        "throttledSeconds": "the system does not count it",
    }
    if made.facts:
        reasons |= {f"work.{item}": why for item, why in made.facts.work.unknown.items()}
    if not (made.seen and made.seen[0].all_reduce):
        reasons["allReduce"] = _why_not_probed(made)
    if not made.seen:
        reasons |= dict.fromkeys(("workers.affinity", "peakMemoryBytes"), UNSEEN)
    if made.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this run"
    if made.clock is None or not made.clock.timed:
        why = "it made too few steps" if made.clock else UNSEEN
        reasons |= dict.fromkeys(OF_STEPS, why)
    elif made.facts and made.facts.rows_per_step is None:
        reasons["amount.perSecond"] = "the script's rows could not be counted"
    if made.seen and made.seen[0].framework == RLLIB:
        reasons |= dict.fromkeys((WORKERS, "meanCpus", "peakMemoryBytes", "steps.exchangedBytes"), OF_RUNNERS)
    return reasons


def _why_not_probed(made: Made) -> str:
    if made.command.arm != NATIVE.name:
        return "only the native arm probes the link"
    if not made.seen:
        return UNSEEN
    first = made.seen[0]
    if first.framework != "torch":
        return f"only a process group of PyTorch is probed: nobody else can use that of {first.framework}"
    return first.no_all_reduce or "the probe was not made"
