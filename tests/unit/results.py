"""Builders of results for tests: a TrainingResult of any arm with believable numbers, and the runs of a measurement.

No training happens; what a test cares about it overrides by keyword.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from compare.measurement import Context, Run
from training.contract.arms import ARMS
from training.contract.recipe import Recipe, batch_split, canonical
from training.contract.result import Epoch, Provenance, RayCluster, Software, StepSeconds, TrainingResult, Worker
from training.machine.topology import Cpu

RUN = ("baseline", "native", "ray")
"""The arms of a measurement that is made up, unless a test says otherwise."""
STEP_SECONDS = {"baseline": 0.10, "wide": 0.060, "native": 0.052, "ray": 0.053, "tuned": 0.0525}
"""Mean timed step by arm: Ray with 2 workers is 1.887 times as fast as one process."""

STARTUP_SECONDS = {"baseline": 4.0, "wide": 4.5, "native": 6.0, "ray": 12.0, "tuned": 9.0}
FIRST_START = datetime(2025, 3, 1, 12, tzinfo=UTC)
IMAGES, VALIDATION, TEST = 1280, 128, 360


def make_recipe(**changes: Any) -> Recipe:
    """A recipe of three epochs, with changes (snake_case)."""
    return replace(Recipe(epochs=3, model="cnn"), **changes)


def make_result(arm: str = "ray", repeat: int = 1, recipe: Recipe | None = None, **changes: Any) -> TrainingResult:
    """One whole, valid result; `step_seconds_mean` sets the pace, any field of TrainingResult replaces what is here."""
    recipe = recipe or make_recipe()
    pace = changes.pop("step_seconds_mean", STEP_SECONDS[arm] * (1 + 0.01 * (repeat - 1)))
    startup = changes.pop("startup_seconds", STARTUP_SECONDS[arm])
    steps = -(-IMAGES // recipe.global_batch_size)
    timed = max(0, steps * recipe.epochs - recipe.warmup_steps)
    world = ARMS[arm].processes(recipe)
    shares = batch_split(IMAGES * recipe.epochs, world)
    provenance = changes.pop("provenance", make_provenance())
    threads = ARMS[arm].compute_threads(recipe)
    cluster = RayCluster(nodes=1, cpus=2.0, memory_bytes=4e9, object_store_bytes=1e9)
    own = recipe.for_arm(arm) | {"seed": recipe.seed + repeat - 1}
    result = TrainingResult(
        arm=arm,
        recipe=own,
        provenance=provenance,
        started_at=stamp(arm, repeat),
        world_size=world,
        parameters=816_938,
        layers=25,
        class_names=[str(digit) for digit in range(10)],
        train_images=IMAGES,
        validation_images=VALIDATION,
        test_images=TEST,
        steps_per_epoch=steps,
        epochs_completed=recipe.epochs,
        history=[_epoch(number, recipe, steps, pace) for number in range(1, recipe.epochs + 1)],
        train_seconds=timed * pace,
        timed_steps=timed,
        timed_images=timed * recipe.global_batch_size,
        images_per_second=recipe.global_batch_size / pace,
        step_seconds=StepSeconds(mean=pace, p50=0.99 * pace, p95=1.05 * pace, max=1.2 * pace),
        startup_seconds=startup,
        startup_phases={"process": 0.5, "tensorflow": 2.0, "data": 0.5, "tracing": startup - 3.0},
        warmup_seconds=recipe.warmup_steps * pace,
        evaluation_seconds=1.0,
        report_seconds=0.05 if arm == "ray" else None,
        wall_seconds=startup + steps * recipe.epochs * pace + 1.0,
        test_loss=0.08,
        test_accuracy=0.975 - 0.002 * (arm == "ray"),
        class_accuracy=[0.975] * 10,
        confusion_matrix=[[35 if row == column else 0 for column in range(10)] for row in range(10)],
        workers=[_worker(rank, images, threads, provenance) for rank, images in enumerate(shares)],
        checks={"shardsCoverDataSet": True, "weightsEqual": True if world > 1 else None},
        ray=cluster if ARMS[arm].start == "ray" else None,
        step_trace=[pace * (0.98 + 0.004 * (step % 11)) for step in range(timed)],
        all_reduce={"65536": 0.0004, "4194304": 0.006} if arm == "native" and world > 1 else None,
        reasons={} if arm == "ray" else {"reportSeconds": "this arm reports to nobody"},
    )
    return replace(result, **changes)


def make_provenance(**changes: Any) -> Provenance:
    """The same code, dependencies, data and host for every run."""
    provenance = Provenance(
        code_hash="c" * 64,
        dependencies_hash="d" * 64,
        dataset_hash="e" * 64,
        versions={"python": "3.11.9", "ray": "2.60.0", "tensorflow": "2.21.0", "tf-keras": "2.21.0"},
        cpu_model="Example CPU",
        cpus_allowed=4,
        cpu_quota=None,
        memory_bytes=8 * 2**30,
        platform="Linux-x86_64",
    )
    return replace(provenance, **changes)


def make_software(threads: int = 1, **changes: Any) -> Software:
    """What a rank with so many compute threads ran with."""
    software = Software(
        code_hash="c" * 64,
        versions=make_provenance().versions,
        platform="Linux x86_64 glibc 2.36",
        kernel="6.1.0",
        environment={"OMP_NUM_THREADS": str(threads), "TF_USE_LEGACY_KERAS": "1"},
    )
    return replace(software, **changes)


def make_run(arm: str = "ray", repeat: int = 1, recipe: Recipe | None = None, **changes: Any) -> Run:
    """A run as it stands in the stack's state."""
    return as_run(make_result(arm, repeat, recipe, **changes), repeat)


def as_run(result: TrainingResult, repeat: int = 1) -> Run:
    """The run of a result."""
    name = f"{result.arm}-{repeat}"
    sha256 = hashlib.sha256(canonical(result.to_dict()).encode()).hexdigest()
    return Run.from_summary(name, repeat, result.summary(f"runs/test/{name}/result.json", sha256))


def make_runs(recipe: Recipe | None = None, repeats: int = 3, arms: Sequence[str] = RUN) -> list[Run]:
    """Every run of a measurement, interleaved."""
    return [make_run(arm, repeat, recipe) for repeat in range(1, repeats + 1) for arm in arms]


def replaced(run: Run, **fields: Any) -> Run:
    """The run with some fields of its result replaced."""
    return replace(run, result=replace(run.result, **fields))


def make_context(recipe: Recipe | None = None, **changes: Any) -> Context:
    """The context of `make_runs`."""
    arms = changes.get("arms", RUN)
    absent = {"native": "nativeArm is off", "wide": "no node holds it", "tuned": "tunedRay is off"}
    context = Context(
        recipe=recipe or make_recipe(),
        target="local",
        repeats=3,
        arms=arms,
        absent={name: why for name, why in absent.items() if name not in arms},
    )
    return replace(context, **changes)


def stamp(arm: str, repeat: int, later: float = 0.0) -> str:
    """When a run of an interleaved measurement starts: 25 s after the one before it, `later` seconds more if said."""
    place = 3 * (repeat - 1) + {"baseline": 0, "wide": 0.5, "native": 1, "ray": 2, "tuned": 2.5}[arm]
    return (FIRST_START + timedelta(seconds=25 * place + later)).isoformat()


def _epoch(number: int, recipe: Recipe, steps: int, pace: float) -> Epoch:
    timed = max(0, steps - max(0, recipe.warmup_steps - steps * (number - 1)))
    return Epoch(
        epoch=number,
        loss=1.2 / number,
        accuracy=1 - 0.4 / number,
        validation_loss=1.0 / number,
        validation_accuracy=1 - 0.3 / number,
        learning_rate=recipe.scaled_learning_rate(),
        train_seconds=timed * pace,
        timed_steps=timed,
        timed_images=timed * recipe.global_batch_size,
        evaluation_seconds=0.2,
    )


def _worker(rank: int, images: int, threads: int, provenance: Provenance) -> Worker:
    cpus = [(rank * threads + place) % 4 for place in range(threads)]
    return Worker(
        rank=rank,
        node="this-machine",
        cpu_model="Example CPU",
        images=images,
        compute_threads=threads,
        affinity=cpus,
        bound=True,
        cpus=[Cpu(cpu=cpu, core=cpu, kind=0, numa_node=0) for cpu in cpus],
        software=make_software(threads, code_hash=provenance.code_hash, versions=provenance.versions),
        peak_memory_bytes=600_000_000 + 1_000_000 * rank,
        mean_cpus=0.97,
        throttled_seconds=0.0,
        samples=[[float(second), 0.97, 6e8] for second in range(5)],
    )
