"""Builders of results for tests: a TrainingResult of any arm with believable numbers, and the runs of a measurement.

No training happens; what a test cares about it overrides by keyword.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compare import commits
from compare.commits import Commit, CommitComparison
from compare.measurement import Context, Run
from compare.schema import Comparison, Estimate
from training.contract.arms import ARMS
from training.contract.cpu_use import CpuWait, MachineUse
from training.contract.recipe import batch_split
from training.contract.result import (
    Amount,
    Point,
    Provenance,
    RayCluster,
    Seconds,
    Software,
    Steps,
    StepSeconds,
    TrainingResult,
    Worker,
    summarise,
)
from training.machine.topology import Cpu
from training.workloads.cnn.detail import CnnDetail, Epoch
from training.workloads.cnn.recipe import EXCHANGED_BYTES, CnnRecipe

RUN = ("baseline", "native", "ray")
"""The arms of a measurement that is made up, unless a test says otherwise."""
COMPARED = tuple(name for name, arm in ARMS.items() if arm.usual_role != "variant")
"""Every arm that the answer is about."""
STEP_SECONDS = {"baseline": 0.10, "wide": 0.060, "native": 0.052, "ray": 0.053}
"""Mean timed step by arm: Ray with 2 workers is 1.887 times as fast as one process."""

STARTUP_SECONDS = {"baseline": 4.0, "wide": 4.5, "native": 6.0, "ray": 12.0}
FIRST_START = datetime(2025, 3, 1, 12, tzinfo=UTC)
IMAGES, VALIDATION, TEST = 1280, 128, 360


def make_recipe(**changes: Any) -> CnnRecipe:
    """A recipe of three epochs, with changes (snake_case)."""
    return replace(CnnRecipe(epochs=3, model="cnn"), **changes)


def make_result(arm: str = "ray", repeat: int = 1, recipe: CnnRecipe | None = None, **changes: Any) -> TrainingResult:
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
    own = ARMS[arm].settings(recipe) | {"seed": recipe.seed + repeat - 1}
    result = TrainingResult(
        workload="cnn",
        arm=arm,
        recipe=own,
        provenance=provenance,
        started_at=stamp(arm, repeat),
        world_size=world,
        epochs_completed=recipe.epochs,
        seconds=Seconds(
            train=timed * pace,
            startup=startup,
            phases={"process": 0.5, "tensorflow": 2.0, "data": 0.5, "tracing": startup - 3.0},
            warmup=recipe.warmup_steps * pace,
            validation=0.2 * recipe.epochs,
            evaluation=1.0,
            report=0.05 if arm == "ray" else None,
            wall=startup + steps * recipe.epochs * pace + 1.0,
        ),
        steps=Steps(
            timed=timed,
            per_epoch=steps,
            seconds=StepSeconds(mean=pace, p50=0.99 * pace, p95=1.05 * pace, max=1.2 * pace),
            exchanged_bytes=816_938 * EXCHANGED_BYTES[recipe.gradient_precision],
            trace=[pace * (0.98 + 0.004 * (step % 11)) for step in range(timed)],
        ),
        amount=Amount(
            unit="images",
            timed=timed * recipe.global_batch_size,
            per_second=recipe.global_batch_size / pace,
            per_step=recipe.global_batch_size,
        ),
        scores={"testLoss": 0.08, "testAccuracy": 0.975 - 0.002 * (arm == "ray")},
        curve=[Point(seconds=steps * pace * number, score=1 - 0.3 / number) for number in range(1, recipe.epochs + 1)],
        schedule=[recipe.scaled_learning_rate()] * recipe.epochs,
        work={
            "parameters": 816_938,
            "layers": 25,
            "trainImages": IMAGES,
            "validationImages": VALIDATION,
            "testImages": TEST,
        },
        workers=[_worker(rank, images, threads, provenance) for rank, images in enumerate(shares)],
        checks={"shardsCoverDataSet": True, "weightsEqual": True if world > 1 else None},
        detail=CnnDetail(
            history=[_epoch(number, recipe, steps, pace) for number in range(1, recipe.epochs + 1)],
            class_names=[str(digit) for digit in range(10)],
            class_accuracy=[0.975] * 10,
            confusion_matrix=[[35 if row == column else 0 for column in range(10)] for row in range(10)],
        ),
        ray=cluster if ARMS[arm].start == "ray" else None,
        machine=quiet_machine(startup + timed * pace),
        reasons={} if arm == "ray" else {"seconds.report": "this arm reports to nobody"},
    )
    return changed(result, **changes)


PARTS = {
    "detail": ("history", "class_names", "class_accuracy", "confusion_matrix", "saved_model"),
    "seconds": tuple(f"{part.name}_seconds" for part in fields(Seconds)),
    "steps": tuple(f"steps_{part.name}" for part in fields(Steps)),
    "amount": tuple(f"amount_{part.name}" for part in fields(Amount)),
}
"""What tests call the fields of a result's parts: `wall_seconds`, `steps_timed`, `history`."""


def changed(result: TrainingResult, **fields_: Any) -> TrainingResult:
    """The result with some fields replaced; `scores` and `work` keep what is not named."""
    for part, names in PARTS.items():
        own = {name: fields_.pop(name) for name in names if name in fields_}
        short = {_without(part, name): value for name, value in own.items()}
        result = replace(result, **{part: replace(getattr(result, part), **short)}) if own else result
    merged = {name: getattr(result, name) | fields_.pop(name) for name in ("scores", "work") if name in fields_}
    return replace(result, **merged, **fields_)


def _without(part: str, name: str) -> str:
    return name.removesuffix("_seconds") if part == "seconds" else name.removeprefix(f"{part}_")


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


def make_run(arm: str = "ray", repeat: int = 1, recipe: CnnRecipe | None = None, **changes: Any) -> Run:
    """A run as it stands in the stack's state."""
    return as_run(make_result(arm, repeat, recipe, **changes), repeat)


def as_run(result: TrainingResult, repeat: int = 1) -> Run:
    """The run of a result."""
    name = f"{result.arm}-{repeat}"
    sha256 = hashlib.sha256(repr(result).encode()).hexdigest()
    return Run.from_summary(name, repeat, result.summary(f"runs/test/{name}/result.json", sha256))


def written_run(project: Path, result: TrainingResult, repeat: int = 1) -> Run:
    """The run of a result whose file lies in `project`."""
    name = f"{result.arm}-{repeat}"
    path = project / "runs/test" / name / "result.json"
    result.write(path)
    return Run.from_summary(name, repeat, json.loads(summarise(path, project)))


def make_runs(recipe: CnnRecipe | None = None, repeats: int = 3, arms: Sequence[str] = RUN) -> list[Run]:
    """Every run of a measurement, interleaved."""
    return [make_run(arm, repeat, recipe) for repeat in range(1, repeats + 1) for arm in arms]


def replaced(run: Run, **fields: Any) -> Run:
    """The run with some fields of its result replaced."""
    return replace(run, result=changed(run.result, **fields))


def disturbed(run: Run) -> Run:
    """The run beside other programs, which kept its ranks waiting."""
    wait = CpuWait(seconds=10.0, cpu_seconds=8.0, waited_seconds=1.7)
    workers = [replace(worker, training_wait=wait) for worker in run.result.workers]
    return replaced(run, machine=quiet_machine(20, other_cpu_seconds=30), workers=workers)


def make_context(recipe: CnnRecipe | None = None, **changes: Any) -> Context:
    """The context of `make_runs`."""
    arms = changes.get("arms", RUN)
    absent = {"native": "nativeArm is off", "wide": "no node holds it"}
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
    place = 3 * (repeat - 1) + {"baseline": 0, "wide": 0.5, "native": 1, "ray": 2}[arm]
    return (FIRST_START + timedelta(seconds=25 * place + later)).isoformat()


def _epoch(number: int, recipe: CnnRecipe, steps: int, pace: float) -> Epoch:
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
        amount=images,
        compute_threads=threads,
        affinity=cpus,
        bound=True,
        cpus=[Cpu(cpu=cpu, core=cpu, kind=0, numa_node=0) for cpu in cpus],
        software=make_software(threads, code_hash=provenance.code_hash, versions=provenance.versions),
        peak_memory_bytes=600_000_000 + 1_000_000 * rank,
        mean_cpus=0.97,
        throttled_seconds=0.0,
        samples=[[float(second), 0.97, 6e8] for second in range(5)],
        training_wait=CpuWait(seconds=10.0, cpu_seconds=9.7, waited_seconds=0.03),
        run_wait=CpuWait(seconds=15.0, cpu_seconds=13.0, waited_seconds=0.09),
    )


def ratio_of(comparison: Comparison, name: str) -> Estimate:
    """A ratio that was measured."""
    ratio = comparison.ratios[name]
    assert ratio is not None, comparison.reasons[name]
    return ratio


def estimated(median: float, lower: float | None = None, upper: float | None = None, **changes: Any) -> Estimate:
    """A ratio with this interval, of four repeats; without one, of one."""
    n = 4 if lower is not None else 1
    found = Estimate(
        median=median, low=median, high=median, n=n, values=[median] * n, lower=lower, upper=upper,
        decision="not decided", repeats_to_decide=9,
    )  # fmt: skip
    return replace(found, **changes)


def quiet_machine(seconds: float, **changes: Any) -> MachineUse:
    """Of a run on a machine with 4 CPUs, on which nothing else happens."""
    use = MachineUse(
        seconds=seconds,
        cpus=4,
        run_cpu_seconds=0.9 * seconds,
        stack_cpu_seconds=0.01 * seconds,
        other_cpu_seconds=0.02 * seconds,
        stolen_seconds=0.0,
        resolution_seconds=0.2,
    )
    return replace(use, **changes)


def make_commits(**ratios: float) -> CommitComparison:
    """What is said of two commits: of arms whose head takes so many times as long, with little noise."""
    by, noise, arms = commits.rule(len(ratios)), (1.0, 1.02, 0.99, 1.01), {}
    for arm, ratio in ratios.items():
        base, head = ([10 * times * each for each in order] for times, order in ((1.0, noise), (ratio, noise[::-1])))
        arms[arm] = commits.arm_change(base, head, by, (100, 100))
    return CommitComparison(
        schema_version=commits.SCHEMA_VERSION,
        base=Commit(name="main", sha="a" * 40, subject="Train for one epoch"),
        head=Commit(name="HEAD", sha="b" * 40, subject="Load rows | twice <b>`x`</b> @you"),
        script="train.py",
        arguments=["--epochs", "1"],
        workers=2,
        cpu_model="Test CPU",
        busy="",
        minutes=15.0,
        ended=commits.MOST_REPEATS if ratios else "",
        confidence=by.confidence,
        arms=arms,
        absent={},
        failed={},
        against=commits.against(arms, by),
        notes=[],
    )
