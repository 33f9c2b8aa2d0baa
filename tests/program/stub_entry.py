"""An arm that trains nothing: takes the flags of a real one, writes progress and a valid result, and keeps that in
storage where it has one. Copied over real arms.

What a run does beyond that stands in a file of the project named `control/<run>`: `fail` (it prints and exits with 3),
`silent` (no result), `wait` (it waits until the file says something else), `hang` (it ignores SIGTERM for a minute,
with a child that does so in a process group of its own), `seconds 2.5` (an epoch takes so long, by its result).
"""

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

from training.contract import provenance, result
from training.contract.arms import ARMS
from training.contract.progress import Progress
from training.contract.recipe import kebab
from training.launch.storage.run_storage import Storage
from training.workloads.cnn.detail import CnnDetail, Epoch
from training.workloads.cnn.recipe import CnnRecipe

STEPS = 4
NO_HASH = "0" * 64
"""In place of what takes longer to find out than the rest of this: nothing here looks at it."""
SOFTWARE = result.Software(code_hash=NO_HASH, versions={}, platform=sys.platform, kernel="", environment={})
EPOCH_SECONDS = {"baseline": 4.0, "wide": 2.1, "native": 2.2, "ray": 2.5}
SECONDS = "seconds "
STUBBORN = "import os, signal, time; os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


def main(arm: str) -> None:
    """One run of `arm`."""
    folder, storage, recipe = parse()
    behaviour = control(folder)
    progress = Progress(folder)
    progress.write("start", arm=arm, epochs=recipe.epochs, stepsPerEpoch=STEPS, images=256, workers=recipe.workers)
    print("stub of", arm)
    if behaviour == "fail":
        print("the stub was told to fail")
        sys.exit(3)
    if behaviour == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", STUBBORN])
        time.sleep(60)
    while control(folder) == "wait":
        time.sleep(0.1)
    for epoch in range(1, recipe.epochs + 1):
        values = {"loss": 1 / epoch, "accuracy": 0.9, "validationAccuracy": 0.9, "imagesPerSecond": 100.0}
        progress.write("epoch", arm=arm, epoch=epoch, epochs=recipe.epochs, secondsLeft=0.0, **values)
    if behaviour != "silent":
        seconds = float(behaviour.removeprefix(SECONDS)) if behaviour.startswith(SECONDS) else EPOCH_SECONDS[arm]
        made_up(arm, recipe, seconds).write(folder / result.NAME)
    if storage:
        Storage.at(storage).put(folder / result.NAME, result.NAME)


def parse() -> tuple[Path, str, CnnRecipe]:
    """The run's folder, its storage and its recipe; refuses flags that no recipe has."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--dataset-path")
    parser.add_argument("--storage", default="")
    parser.add_argument("--dashboard", action="store_true")
    for entry in CnnRecipe.settings().values():
        parser.add_argument(kebab(entry.name), type=entry.metadata["rule"].parse, required=True)
    given = vars(parser.parse_args())
    recipe = CnnRecipe(**{entry.name: given[entry.name] for entry in CnnRecipe.settings().values()})
    return given["result"].parent, given["storage"], recipe


def control(folder: Path) -> str:
    """What this run was told to do; a run's folder is named `<run>-<time>-<random>`."""
    try:
        return (provenance.PROJECT / "control" / folder.name.rsplit("-", 2)[0]).read_text().strip()
    except FileNotFoundError:
        return ""


def made_up(arm: str, recipe: CnnRecipe, seconds: float) -> result.TrainingResult:
    """A result that holds together: the arms differ in their seconds alone."""
    host = provenance.host()
    workers, threads = ARMS[arm].processes(recipe), ARMS[arm].compute_threads(recipe)
    train_seconds = seconds * recipe.epochs + 0.01 * (recipe.seed % 3)
    startup = 20.0 if ARMS[arm].start == "ray" else 3.0
    return result.TrainingResult(
        workload=recipe.workload,
        arm=arm,
        recipe=recipe.to_dict(),
        provenance=result.Provenance(
            code_hash=NO_HASH,
            dependencies_hash=NO_HASH,
            dataset_hash=NO_HASH,
            versions={"tensorflow": "2.21.0"},
            cpu_model=host.cpu_model,
            cpus_allowed=host.cpus_allowed,
            cpu_quota=host.cpu_quota,
            memory_bytes=host.memory_bytes,
            platform=sys.platform,
        ),
        started_at="2026-01-01T00:00:00+00:00",
        world_size=workers,
        epochs_completed=recipe.epochs,
        seconds=result.Seconds(
            train=train_seconds,
            startup=startup,
            phases={"process": startup},
            warmup=0.5,
            validation=0.1 * recipe.epochs,
            evaluation=0.3,
            report=0.01 if ARMS[arm].start == "ray" else None,
            wall=startup + train_seconds + 1,
        ),
        steps=result.Steps(
            timed=STEPS * recipe.epochs,
            per_epoch=STEPS,
            seconds=result.StepSeconds(mean=1.0, p50=1.0, p95=1.0, max=1.0),
            exchanged_bytes=4000,
        ),
        amount=result.Amount(
            unit="images", timed=256 * recipe.epochs, per_second=256 * recipe.epochs / train_seconds, per_step=64
        ),
        scores={"testLoss": 0.1, "testAccuracy": 0.97},
        curve=[result.Point(seconds=seconds * epoch, score=0.9) for epoch in range(1, recipe.epochs + 1)],
        schedule=[recipe.learning_rate] * recipe.epochs,
        work={"parameters": 1000, "layers": 10, "trainImages": 256, "validationImages": 28, "testImages": 100},
        workers=[
            result.Worker(
                rank=rank,
                node="here",
                cpu_model=host.cpu_model,
                amount=256 // workers,
                compute_threads=threads,
                affinity=[rank * threads + place for place in range(threads)],
                bound=True,
                cpus=None,
                software=SOFTWARE,
                peak_memory_bytes=10**9,
                mean_cpus=1.0,
                throttled_seconds=None,
            )
            for rank in range(workers)
        ],
        checks={"shardsCoverDataSet": True, "weightsEqual": True if workers > 1 else None},
        detail=CnnDetail(
            history=[
                Epoch(
                    epoch=epoch,
                    loss=1 / epoch,
                    accuracy=0.9,
                    validation_loss=1 / epoch,
                    validation_accuracy=0.9,
                    learning_rate=recipe.learning_rate,
                    train_seconds=seconds,
                    timed_steps=STEPS,
                    timed_images=256,
                    evaluation_seconds=0.1,
                )
                for epoch in range(1, recipe.epochs + 1)
            ],
            class_names=["a", "b"],
            class_accuracy=[0.97, 0.97],
            confusion_matrix=[[97, 3], [3, 97]],
        ),
        reasons={} if ARMS[arm].start == "ray" else {"seconds.report": "this arm reports to nobody"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[0]).stem)
