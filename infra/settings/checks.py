"""What must agree between settings: batch, workers, cores, images, paths. Not the rules of one key alone, which are in
`infra.settings.table`, and not those of one place: each has its own, in `infra.places`."""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.settings import script_checks
from infra.settings.draft import Draft, Problem, set_line
from infra.settings.key import CLUSTER
from infra.settings.table import AUTO, AUTO_DATASETS, KEYS
from training.contract.workload import WORKLOADS, named
from training.workloads.cnn.registry import DATASETS

CIFAR10_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_LEAST_IMAGES = 10
"""Fewer leave no image for validation, which is every tenth."""


@dataclass(frozen=True)
class Check:
    """A check, and the keys that must have been parsed for it to say anything."""

    run: Callable[[Draft], Iterator[Problem]]
    keys: tuple[str, ...]


def run_checks(draft: Draft, checks: tuple[Check, ...]) -> list[Problem]:
    """The problems that the checks find, of those whose keys could be parsed."""
    able = [check for check in checks if set(check.keys) <= set(draft.values)]
    return [problem for check in able for problem in check.run(draft)]


def dataset_of(draft: Draft) -> str:
    """The data set, `auto` resolved."""
    name = str(draft["dataset"])
    if name != AUTO:
        return name
    return "cifar10" if draft["datasetPath"] else AUTO_DATASETS[draft.target]


def path_of(draft: Draft, key: str) -> Path | None:
    """The path a key names, from the project's folder; None when it is not set."""
    if not draft[key]:
        return None
    return draft.facts.folder / os.path.expanduser(str(draft[key]))  # noqa: PTH111 (Path's raises for an unknown ~user)


def is_readable(path: Path | None) -> bool:
    """Whether there is a file or folder that can be read."""
    try:
        return path is not None and path.exists() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long
        return False


def is_readable_folder(path: Path) -> bool:
    """Whether a folder is there whose files can be listed; a broken link, or one in a circle, is none."""
    try:
        return path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long, a NUL
        return False


def fewer_workers(draft: Draft) -> tuple[int, ...]:
    """The numbers of workers of `workersCurve` that `workers` is not, ascending."""
    return tuple(sorted(set(draft["workersCurve"]) - {draft["workers"]}))


def _images(draft: Draft) -> int:
    """Images before validation is split off; 0 when only the data set's loader knows."""
    return int(draft["trainImages"] or DATASETS[dataset_of(draft)].train_images)


def _after_validation(images: int) -> int:
    """As `training.workloads.cnn.dataset.load` splits them; a test holds both together."""
    return images - images // 10


def _batch_holds_workers(draft: Draft) -> Iterator[Problem]:
    workers, batch = draft["workers"], draft["globalBatchSize"]
    if batch < workers:
        yield Problem(
            f"{draft.shown('globalBatchSize')} with {draft.shown('workers')}",
            f"globalBatchSize of {workers} or more with {workers} workers",
            (set_line("globalBatchSize", workers), set_line("workers", batch)),
            why="every worker takes at least one image of each step",
        )


def _curve_ends_at_workers(draft: Draft) -> Iterator[Problem]:
    curve, workers = draft["workersCurve"], draft["workers"]
    if not curve or (fewer_workers(draft) and max(curve) <= workers):
        return
    raised = [set_line("workers", max(curve))] if len(set(curve)) > 1 else []
    fitting = [number for number in fewer_workers(draft) if number < workers] or [1]
    lowered = [set_line("workersCurve", ",".join(map(str, (*fitting, workers))))] if workers > 1 else []
    yield Problem(
        f"{draft.shown('workersCurve')} with {draft.shown('workers')}",
        "none, or numbers up to workers with at least one below it",
        (*lowered, *raised, set_line("workersCurve", "none")),
        why="the curve ends at `workers`, whose runs the comparison has anyway",
    )


def _images_exist(draft: Draft) -> Iterator[Problem]:
    name = dataset_of(draft)
    available = DATASETS[name].train_images
    if not DATASETS[name].any_size and draft["trainImages"] > available:
        yield Problem(
            draft.shown("trainImages"),
            f"at most {available}, the training images of {name}",
            (set_line("trainImages", available),),
        )


def _epoch_has_a_step(draft: Draft) -> Iterator[Problem]:
    images, batch = _images(draft), draft["globalBatchSize"]
    training = _after_validation(images)
    if not images or (images >= _LEAST_IMAGES and training >= batch):
        return
    enough = _images_for(batch)
    entry = DATASETS[dataset_of(draft)]
    can_grow = entry.any_size or (draft["trainImages"] and enough <= entry.train_images)
    more = [set_line("trainImages", enough)] if can_grow else []
    less = [set_line("globalBatchSize", training)] if images >= _LEAST_IMAGES else []
    yield Problem(
        f"{draft.shown('globalBatchSize')} with {draft.shown('trainImages')}",
        f"globalBatchSize of at most the images left for training, and trainImages of at least {_LEAST_IMAGES}",
        (*more, *less),
        why=f"of {images} images of {dataset_of(draft)}, {images - training} validate and {training} train",
    )


def _images_for(batch: int) -> int:
    """The fewest images whose training part fills one batch."""
    images = max(_LEAST_IMAGES, batch)
    while _after_validation(images) < batch:
        images += 1
    return images


def _steps_are_timed(draft: Draft) -> Iterator[Problem]:
    images, warmup = _after_validation(_images(draft)), draft["warmupSteps"]
    steps = math.ceil(images / draft["globalBatchSize"])
    total = draft["epochs"] * steps
    if images < draft["globalBatchSize"] or warmup < total:  # without one full step, another check says so
        return
    yield Problem(
        draft.shown("warmupSteps"),
        f"at most {total - 1}",
        (
            set_line("warmupSteps", min(int(KEYS["warmupSteps"].default), total - 1)),
            set_line("epochs", warmup // steps + 1),
        ),
        why=f"a run has {total} steps ({draft['epochs']} × {steps}), and only those after the warm-up are timed",
    )


def _dataset_path_exists(draft: Draft) -> Iterator[Problem]:
    folder = path_of(draft, "datasetPath")
    if folder and not is_readable_folder(folder):
        yield Problem(
            draft.shown("datasetPath"),
            "a folder that exists, whatever the data set",
            ("pulumi config rm datasetPath",),
            why=f"there is no folder {str(folder)!r}, or it can't be read",
        )


def _cifar10_is_whole(draft: Draft) -> Iterator[Problem]:
    folder = path_of(draft, "datasetPath")
    if folder is None or not is_readable_folder(folder) or dataset_of(draft) != "cifar10":
        return
    missing = [name for name in CIFAR10_FILES if not (folder / name).is_file()]
    inside = [found.parent for found in sorted(folder.glob("*/data_batch_1"))]
    if missing:
        yield Problem(
            draft.shown("datasetPath"),
            f"a folder with the files {', '.join(CIFAR10_FILES)}",
            (*(set_line("datasetPath", found) for found in inside[:1]), "pulumi config rm datasetPath"),
            why=f"{folder} has no {', '.join(missing)}",
        )


def _models_have_a_place(draft: Draft) -> Iterator[Problem]:
    targets = KEYS["saveModel"].targets
    if draft["saveModel"] and draft.target not in targets:
        yield Problem(
            f"{draft.shown('saveModel')} with target {draft.target}",
            f"true on target {' and '.join(targets)} only",
            (set_line("saveModel", "false"),),
            why="a pod has no storage that stays",
        )


def _workload_has_a_place(draft: Draft) -> Iterator[Problem]:
    if named(draft["workload"]).here_only and draft.target in CLUSTER:
        yield Problem(
            f"{draft.shown('workload')} with {draft.shown('target')}",
            f"workload {WORKLOADS[0]} on a cluster",
            (set_line("target", "local"), set_line("workload", WORKLOADS[0])),
            why="the script and its Python are on this machine, and in no image yet",
        )


def _seeds_stay_valid(draft: Draft) -> Iterator[Problem]:
    rule, repeats = KEYS["seed"].rule, draft["repeats"]
    try:
        rule.parse(str(draft["seed"] + repeats - 1))
    except ValueError:
        yield Problem(
            f"{draft.shown('seed')} with {draft.shown('repeats')}",
            f"{rule.allowed}, for the last repeat too",
            (set_line("seed", draft["seed"] - repeats + 1),),
            why=f"repeat {repeats} uses seed + {repeats - 1}",
        )


_IMAGE_KEYS = ("target", "dataset", "datasetPath", "trainImages", "globalBatchSize")
CHECKS = (
    Check(_batch_holds_workers, ("workers", "globalBatchSize")),
    Check(_curve_ends_at_workers, ("workers", "workersCurve")),
    Check(_images_exist, ("target", "dataset", "datasetPath", "trainImages")),
    Check(_epoch_has_a_step, _IMAGE_KEYS),
    Check(_steps_are_timed, (*_IMAGE_KEYS, "epochs", "warmupSteps")),
    Check(_dataset_path_exists, ("datasetPath",)),
    Check(_cifar10_is_whole, ("target", "dataset", "datasetPath")),
    Check(_models_have_a_place, ("target", "saveModel")),
    Check(_seeds_stay_valid, ("seed", "repeats")),
    Check(_workload_has_a_place, ("target", "workload")),
    Check(script_checks.is_recognised, script_checks.SCRIPT_KEYS),
    Check(script_checks.settings_reach_it, ("epochs", "scriptArguments")),
    Check(script_checks.has_python, (*script_checks.SCRIPT_KEYS, "python")),
    Check(script_checks.has_ray_arm, script_checks.SCRIPT_KEYS),
    Check(script_checks.folder_is_small, ("scriptFolder",)),
    Check(script_checks.metric_is_named, ("metric", "metricTarget", "metricTolerance", "measureSteps")),
    Check(script_checks.secrets_are_secret, ("scriptFolder", "secretEnvironment")),
    Check(script_checks.each_variable_once, ("environment", "secretEnvironment")),
)
