"""What each of its processes does."""

import os

from training.workloads.sums.recipe import SumsDetail, SumsRecipe  # type: ignore[import-not-found]  # there in the copy
from training.workloads.sums.workload import WORKLOAD  # type: ignore[import-not-found]  # there in the copy

from training.contract import provenance
from training.contract.clock import Stamp
from training.contract.process import Process
from training.contract.result import Amount, Point, Provenance, Seconds, Steps, TrainingResult, Worker


def train(recipe: SumsRecipe, process: Process) -> TrainingResult | None:
    """Rank 0 adds for all."""
    if process.rank:
        return None
    host, wall = process.host, process.started.seconds_until(Stamp.now())
    total = float(sum(range(recipe.numbers)))
    worker = Worker(
        rank=0, node=provenance.node(), cpu_model=host.cpu_model, amount=recipe.numbers, compute_threads=1,
        affinity=None, bound=process.bound, cpus=None, software=process.software, peak_memory_bytes=None,
        mean_cpus=None, throttled_seconds=None,
    )  # fmt: skip
    return TrainingResult(
        workload=WORKLOAD.name,
        arm=process.arm,
        recipe=recipe.to_dict(),
        provenance=Provenance(
            code_hash=process.software.code_hash,
            dependencies_hash=provenance.dependencies_hash(WORKLOAD.packages), dataset_hash="",
            versions=process.software.versions, cpu_model=host.cpu_model, cpus_allowed=host.cpus_allowed,
            cpu_quota=host.cpu_quota, memory_bytes=host.memory_bytes, platform="",
        ),
        started_at="2026-01-01T00:00:00+00:00",
        world_size=process.world,
        epochs_completed=recipe.epochs,
        seconds=Seconds(
            train=1.0 / process.world, startup=wall, phases=process.phases.seconds, warmup=0.0, validation=0.0,
            evaluation=0.0, report=None, wall=wall + 1.0,
        ),
        steps=Steps(timed=10, per_epoch=10, seconds=None, exchanged_bytes=None),
        amount=Amount(unit=WORKLOAD.unit, timed=recipe.numbers, per_second=100.0 * process.world, per_step=None),
        scores={"total": total},
        curve=[Point(seconds=1.0, score=total)],
        schedule=[],
        work={"numbers": recipe.numbers},
        workers=[worker] * process.world,
        checks={},
        detail=SumsDetail(told=os.environ.get("SUMS", "nothing")),
    )  # fmt: skip
