"""Makes a TrainingResult from the observations of a run. Nothing that was not seen becomes a number."""

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
from training.contract.arms import counted
from training.contract.provenance import Host
from training.contract.result import (
    NOT_MEASURED,
    TRAINER,
    WORKERS,
    Amount,
    MadeRanks,
    Provenance,
    Reported,
    Seconds,
    Software,
    StepParts,
    Steps,
    StepSeconds,
    TrainingResult,
    Worker,
)
from training.launch import environment
from training.launch.foreign_command import End
from training.machine import topology
from training.workloads.script import facts, plain, work_items
from training.workloads.script.commands import ArmCommand, folder
from training.workloads.script.detail import Artifact, Rank, ScriptDetail
from training.workloads.script.observations import RLLIB, Observation
from training.workloads.script.plain import Proof
from training.workloads.script.ranks_work import are_uneven, no_steps
from training.workloads.script.ray_start import RayStart
from training.workloads.script.recipe import variables
from training.workloads.script.resolve import ResolvedScript
from training.workloads.script.step_clock import StepClock, step_clock
from training.workloads.script.step_parts import step_parts

THREADS = "OMP_NUM_THREADS"
MOST_REPORTED = 1000
"""Most values of one reported number, because they stay in Pulumi's state with the run."""
ROWS_PER_EPOCH = "rowsPerEpoch"
"""Key in a result's `work` for the number of rows in an epoch."""
CHECKS = ("rowsDisjoint", "stepsOfRanksEqual", "weightsEqual")
OF_STEPS = ("seconds.train", "amount.perSecond", "steps.seconds", "startupSeconds", "warmupSeconds", "meanCpus")
BLOCKS = (
    "the GPU computes beside the program, and is waited for after {steps} at a time: a step has the mean of its block"
)
TOGETHER = "Keras executes {steps} at a time: a step has the mean of its execution"
OF_RUNNERS = "RLlib's runners are processes of their own, and only the learning process is observed"
NO_BATCHES = "seen are batches of PyTorch's DataLoader and of Ray Data, and none was delivered"
UNSEEN = (
    "no step was seen; seen are steps of PyTorch's optimizers, Keras' fit, XGBoost's and LightGBM's train, and RLlib's "
    "iterations, but not your own loops in TensorFlow"
)
ONLY_STARTED = "Ray was started, and nothing was trained"


@dataclass(frozen=True)
class EndedRun:
    """A run that ended well, and what the observer saw of the run."""

    resolved: ResolvedScript
    command: ArmCommand
    end: End
    seen: tuple[Observation, ...]
    """Observations ordered by rank; empty if the observer saw no rank make a step."""
    host: Host
    """The host, read before the arm was bound to its CPUs."""
    throttled_seconds: float | None
    """Seconds for which a CPU quota held the whole run back."""
    artifacts: tuple[Artifact, ...] = ()
    left_files: tuple[str, ...] = ()
    ray_start: RayStart | None = None
    """What is known about Ray's start, in the arm that only starts Ray."""
    proof: Proof | None = None
    """What was proved about the ranks of a plain script."""

    @property
    def not_measured(self) -> str:
        """Return why the arm was not run, according to its proof; "" if the arm was run."""
        return self.proof.words if self.proof and self.command.arm in self.proof.left_out else ""

    @property
    def unseen(self) -> str:
        """Return why the observer saw no step, for a run in which it saw none."""
        return self.not_measured or (ONLY_STARTED if self.ray_start else UNSEEN)

    @cached_property
    def facts(self) -> facts.ArmFacts | None:
        """Return the facts over all ranks; None if the observer saw nothing."""
        of_arm = facts.of_arm(self.command.arm, self.command.ranks, self.seen) if self.seen else None
        return plain.proved(of_arm, self.proof) if of_arm else None

    @cached_property
    def clock(self) -> StepClock | None:
        """Return the clock of rank 0; None if the observer did not see all of its steps."""
        if self.facts is None or "steps" in self.seen[0].lost:
            return None
        first = self.seen[0]
        return step_clock(first.step_ends, first.passes, ended_early=first.ended_early, marks=first.device_marks)

    @cached_property
    def step_parts(self) -> StepParts | None:
        """Return where the time of the timed steps went; None if unknown."""
        return step_parts([rank.parts for rank in self.seen], self.clock.timed_steps) if self.clock else None

    @cached_property
    def software(self) -> Software:
        """Return the software of the run's ranks, with the versions in the script's own environment."""
        ours = provenance.code_hash(self.command.arm, self.resolved.recipe.workload)
        steering = environment.steering({**os.environ, **variables(self.resolved.recipe.environment)})
        return Software(
            code_hash=hashlib.sha256(f"{ours}{sorted(self.resolved.inputs.items())}".encode()).hexdigest(),
            versions=dict(self.resolved.versions),
            platform=" ".join((platform.system(), platform.machine(), *platform.libc_ver())).strip(),
            kernel=platform.release(),
            environment=steering | {THREADS: self.command.variables[THREADS]},
        )


def result(ended: EndedRun) -> TrainingResult:
    """Make the result of one run."""
    clock, known = ended.clock, ended.facts
    (checks, reasons), waits = _checks(ended), _input_waits(ended)
    return TrainingResult(
        workload=ended.resolved.recipe.workload,
        arm=ended.command.arm,
        recipe=ended.resolved.recipe.to_dict(),
        provenance=_provenance(ended),
        started_at=datetime.fromtimestamp(ended.end.began, UTC).isoformat(timespec="seconds"),
        world_size=max(observation.world for observation in ended.seen)
        if ended.seen and ended.resolved.script.kind != "other"
        else None,
        epochs_completed=clock.epochs if clock else 0,
        seconds=_seconds(ended),
        steps=_steps(ended),
        amount=_amount(ended),
        scores={name: points[-1].value for name, points in _reported(ended).items()},
        curve=[],
        schedule=[],
        work={ROWS_PER_EPOCH: float(known.rows_per_epoch)} if known and known.rows_per_epoch else {},
        did=dict(known.work.items) if known else {TRAINER: ended.ray_start.trainer} if ended.ray_start else {},
        workers=[_worker(ended, observation) for observation in ended.seen] or [_worker(ended, None)],
        checks=checks,
        reported=_reported(ended),
        ray_ran=known.ray if known else None,
        left_files=list(ended.left_files),
        weights=known.weights if known else None,
        data_wait_seconds=waits[0] if waits else None,
        first_batch_seconds=waits[1] if waits else None,
        step_parts=ended.step_parts,
        made_ranks=_made_ranks(ended),
        detail=_detail(ended),
        reasons=reasons | _reasons(ended) | ({NOT_MEASURED: ended.not_measured} if ended.not_measured else {}),
    )


def _made_ranks(ended: EndedRun) -> MadeRanks | None:
    resolved, arm = ended.resolved, ended.command.arm
    proof = ended.proof if arm in plain.OF_RANKS else None
    return plain.made_ranks(proof, arm, resolved.script, resolved.recipe.workers, in_pods=resolved.in_pods)


def _reported(ended: EndedRun) -> dict[str, list[Reported]]:
    """Return the reported numbers by name; of more than MOST_REPORTED values every n-th and the last."""
    by_name: dict[str, list[Reported]] = {}
    for at, name, value in ended.seen[0].metric_points if ended.seen else ():
        if math.isfinite(value):
            by_name.setdefault(name, []).append(Reported(seconds=at - ended.end.began, value=value))
    return {name: _thinned(points) for name, points in by_name.items()}


def _thinned(points: list[Reported]) -> list[Reported]:
    every = -(-len(points) // MOST_REPORTED)
    return [*points[:-1][::every], points[-1]]


def _checks(ended: EndedRun) -> tuple[dict[str, bool | None], dict[str, str]]:
    """Return the checks of the ranks against each other, and the reason for each check that is not true."""
    if ended.facts is None:
        return dict.fromkeys(CHECKS), dict.fromkeys((f"checks.{name}" for name in CHECKS), ended.unseen)
    steps = sorted({len(observation.step_ends) for observation in ended.seen})
    in_step = len(steps) == 1 or are_uneven(ended.seen)
    known = {
        "rowsDisjoint": ended.facts.rows_disjoint,
        "stepsOfRanksEqual": (None, why)
        if (why := no_steps(ended.seen))
        else (in_step, f"ranks made different numbers of steps: {', '.join(map(str, steps))}"),
        "weightsEqual": ended.facts.weights_equal,
    }
    reasons = {f"checks.{name}": words for name, (value, words) in known.items() if value is not True}
    return {name: value for name, (value, _) in known.items()}, reasons


def _seconds(ended: EndedRun) -> Seconds:
    clock, imports = ended.clock, ended.ray_start.import_seconds if ended.ray_start else 0.0
    return Seconds(
        train=sum(clock.timed) if clock and clock.timed else None,
        startup=max(observation.first_step_at for observation in ended.seen) - ended.end.began if ended.seen else None,
        phases={},
        warmup=clock.warmup_seconds if clock else None,
        validation=clock.between_seconds if clock else None,
        evaluation=None,
        report=None,
        wall=ended.end.ended - ended.end.began,
        # The others waited for it
        probe=min((observation.own_seconds + observation.hook_seconds for observation in ended.seen), default=imports),
        observer=max((observation.hook_seconds for observation in ended.seen), default=0.0),
    )


def _input_waits(ended: EndedRun) -> tuple[float, float] | None:
    """Return how long the rank that waited longest waited for batches, and when the last rank had its first batch. None
    if the wait of any rank was not seen."""
    known = [
        (observation.data_wait_seconds, observation.first_batch_at)
        for observation in ended.seen
        if not (observation.framework == "torch" and observation.rows_ahead)
    ]
    waits = [(wait, first) for wait, first in known if wait is not None and first is not None]
    if not waits or len(waits) < len(ended.seen):
        return None
    return max(wait for wait, _ in waits), max(first for _, first in waits) - ended.end.began


def _steps(ended: EndedRun) -> Steps:
    clock = ended.clock
    if clock is None:
        return Steps(timed=0, per_epoch=0, seconds=None, exchanged_bytes=None, whole_epochs=False)
    return Steps(
        timed=len(clock.timed),
        per_epoch=clock.per_epoch,
        seconds=_distribution(clock.timed) if _are_told_one_by_one(ended.seen[0]) else None,
        exchanged_bytes=ended.seen[0].gradient_bytes,
        trace=clock.timed,
        whole_epochs=clock.whole_epochs,
        gaps=clock.gaps,
    )


def _are_told_one_by_one(observation: Observation) -> bool:
    return observation.device_marks is None and observation.executed_together == 1


def _distribution(steps: Sequence[float]) -> StepSeconds | None:
    if len(steps) < 2:
        return None
    p95 = statistics.quantiles(steps, n=20, method="inclusive")[-1]
    return StepSeconds(mean=statistics.fmean(steps), p50=statistics.median(steps), p95=p95, max=max(steps))


def _amount(ended: EndedRun) -> Amount:
    known, clock, unit = ended.facts, ended.clock, ended.resolved.recipe.unit
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


def _provenance(ended: EndedRun) -> Provenance:
    host, versions = ended.host, dict(ended.resolved.versions)
    return Provenance(
        code_hash=ended.software.code_hash,
        dependencies_hash=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest(),
        dataset_hash=None,
        versions=versions,
        cpu_model=host.cpu_model,
        cpus_allowed=host.cpus_allowed,
        cpu_quota=host.cpu_quota,
        memory_bytes=host.memory_bytes,
        platform=platform.platform(),
    )


def _worker(ended: EndedRun, observation: Observation | None) -> Worker:
    """Return a rank's worker, with its own threads' CPUs; without an observation, one that stands for the command."""
    pod = observation.pod if observation else None
    affinity = list(observation.affinity) if observation and observation.affinity and not pod else None
    is_rllib = observation is not None and observation.framework == RLLIB
    return Worker(
        rank=observation.rank if observation else 0,
        node=pod.node if pod else provenance.node(),
        pod=pod.name if pod else provenance.pod(),
        cpu_model=pod.cpu_model if pod else ended.host.cpu_model,
        container_cpu=pod.container_cpu if pod else None,
        amount=observation.rows if observation else None,
        compute_threads=observation.threads if observation else None,
        affinity=affinity,
        bound=False,
        cpus=topology.read(affinity) if affinity else None,
        software=ended.software,
        peak_memory_bytes=observation.peak_memory_bytes if observation and not is_rllib else None,
        mean_cpus=_mean_cpus(observation, ended.clock) if observation and ended.clock and not is_rllib else None,
        throttled_seconds=pod.throttled_seconds if pod else ended.throttled_seconds,
        samples=[list(sample) for sample in observation.samples] if observation and not is_rllib else [],
        training_wait=(observation.cpu_waits or {}).get("training") if observation and not is_rllib else None,
        run_wait=(observation.cpu_waits or {}).get("run") if observation and not is_rllib else None,
        gpu=observation.gpu if observation else None,
    )


def _mean_cpus(observation: Observation, clock: StepClock) -> float | None:
    """Return the CPU seconds per second of a process over the timed steps that it made."""
    last = min(len(observation.step_ends), len(observation.cpu_at_step))
    steps = [step for step in clock.timed_steps if step < last]
    seconds = sum(observation.step_ends[step] - observation.step_ends[step - 1] for step in steps)
    used = sum(observation.cpu_at_step[step] - observation.cpu_at_step[step - 1] for step in steps)
    return used / seconds if seconds else None


def _detail(ended: EndedRun) -> ScriptDetail:
    return ScriptDetail(
        kind=ended.resolved.script.kind,
        framework=ended.seen[0].framework if ended.seen else "unknown",
        command=str(ended.command),
        folder=str(folder(ended.resolved.script)),
        settled_after=ended.clock.settled_after if ended.clock else None,
        ranks=[
            Rank(
                rank=observation.rank,
                world=observation.world,
                steps=len(observation.step_ends),
                rows=observation.rows,
                weights=observation.weights,
                threads=observation.threads,
                report_seconds=observation.report_seconds,
                hook_seconds=observation.hook_seconds,
                ended_early=observation.ended_early,
                notes=list(observation.notes),
            )
            for observation in ended.seen
        ],
        processes=ended.end.processes,
        left=ended.end.left,
        artifacts=list(ended.artifacts),
    )


def _reasons(ended: EndedRun) -> dict[str, str]:
    """Return the reasons why numbers of this run are null, by the names of the numbers."""
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
    if ended.facts:
        reasons |= {f"work.{item}": why for item, why in ended.facts.work.unknown.items()}
    reasons |= _why_no_parts(ended)
    if _input_waits(ended) is None:
        ahead = any(observation.rows_ahead for observation in ended.seen)
        why = "a thread beside the training reads its batches" if ahead else NO_BATCHES
        reasons |= dict.fromkeys(("dataWaitSeconds", "firstBatchSeconds"), why)
    reasons |= _of_gpus(ended)
    if not ended.seen:
        reasons |= dict.fromkeys(("workers.affinity", "peakMemoryBytes"), ended.unseen)
    if ended.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this run"
    if ended.seen and (together := ended.seen[0].executed_together) > 1:
        reasons["steps.seconds"] = TOGETHER.format(steps=counted(together, "step"))
    if ended.clock is None or not ended.clock.timed:
        why = "it made too few steps" if ended.clock else ended.seen[0].lost["steps"] if ended.seen else ended.unseen
        reasons |= dict.fromkeys(OF_STEPS, why)
    elif ended.facts and ended.facts.rows_per_step is None:
        reasons["amount.perSecond"] = "the script's rows could not be counted"
    if ended.seen and ended.seen[0].framework == RLLIB:
        reasons |= dict.fromkeys((WORKERS, "meanCpus", "peakMemoryBytes", "steps.exchangedBytes"), OF_RUNNERS)
    return reasons | {name: why for each in reversed(ended.seen) for name, why in _lost(each).items()}


def _lost(observation: Observation) -> dict[str, str]:
    """Return the numbers that are null because the observer failed, and why; those of the work are left out, because
    the work has them."""
    numbers = {
        name: why for name, why in observation.lost.items() if name not in {each.name for each in work_items.ITEMS}
    }
    return numbers | ({"firstBatchSeconds": numbers["dataWaitSeconds"]} if "dataWaitSeconds" in numbers else {})


def _of_gpus(ended: EndedRun) -> dict[str, str]:
    """Return the reasons why numbers are null because GPUs computed, or are not known of GPUs."""
    reasons = {
        f"workers.{name}": f"rank {observation.rank}: {why}"
        for observation in ended.seen
        for name, why in observation.gpu_reasons.items()
    }
    if ended.seen and (every := ended.seen[0].device_every):
        reasons["steps.seconds"] = BLOCKS.format(steps=counted(every, "step"))
    return reasons


def _why_no_parts(ended: EndedRun) -> dict[str, str]:
    """Return the reasons why the parts of a step, or one part, are unknown."""
    parts = ended.seen[0].parts if ended.seen else None
    if parts is None:
        framework = ended.seen[0].framework if ended.seen else ""
        return {"stepParts": f"the parts of a step of {framework} are not told apart" if framework else ended.unseen}
    why = next((each.parts.no_parts for each in ended.seen if each.parts and each.parts.no_parts), "")
    if why or ended.step_parts is None:
        return {"stepParts": why or "none of the timed steps has parts: those of the first 20,000 are kept"}
    alone = "one process exchanges nothing" if len(ended.seen) == 1 else parts.no_exchange
    reasons = {"stepParts.input": parts.no_input, "stepParts.exchange": parts.no_exchange and alone}
    return {name: why for name, why in reasons.items() if why}
