"""Ray's start without a training, of a script that nothing distributes: its command, what came of it, what to write.

It is what Ray needs whatever is written: `compare.bound` makes the least from it that a run with Ray could take.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.workloads.script.recognise import Script

TASKS = "tasks"
"""Stands for Ray's tasks, which start instead of Ray Train's workers where Ray has no trainer for a framework."""
TRAINED_BY = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "tf_keras": "tensorflow",
}
"""The trainer of Ray for each framework; the first of these frameworks that a script imports decides."""
PORTS: Mapping[str, str] = {
    "torch": "a training function for Ray's TorchTrainer, in it prepare_model(model) and prepare_data_loader(loader) "
    "(examples/torch_ray.py), or for torchrun init_process_group, DistributedDataParallel(model) and a "
    "DistributedSampler (examples/torch_ddp.py)",
    "tensorflow": "model and compile() in MultiWorkerMirroredStrategy().scope(), and dataset.shard() "
    "(examples/keras_tf_config.py); with TensorFlow as its backend Keras 3 can't be distributed so, but tf-keras can "
    "(TF_USE_LEGACY_KERAS=1), and Keras 3 on PyTorch as PyTorch is",
    "xgboost": "a training function for Ray's XGBoostTrainer, in which each worker has rows of its own in its DMatrix "
    "(examples/trees.py)",
    "lightgbm": "a training function for Ray's LightGBMTrainer, in which each worker has rows of its own in its "
    "Dataset (examples/trees.py)",
    TASKS: "with JAX a training function for Ray's JaxTrainer; fits that do not need each other, as of a grid or a "
    "cross-validation, as Ray's tasks (with scikit-learn ray.util.joblib.register_ray()). One fit of another framework "
    "is split only by an algorithm that can be: Ray has no trainer for it",
}
"""What the user has to write to have such a script distributed, by Ray's trainer."""
_FILE = "start.json"


@dataclass(frozen=True, kw_only=True)
class RayStart:
    """What is known about a start of Ray, apart from how long the start took."""

    import_seconds: float
    """Seconds of a Python that imports what the script imports, and ends: part of the run, not of Ray's start."""
    trainer: str
    """Ray's trainer for the script, a key of PORTS."""


def trainer_of(script: Script) -> str:
    """Return the trainer that Ray has for a script; TASKS if Ray has none."""
    return next((trainer for name, trainer in TRAINED_BY.items() if script.uses(name)), TASKS)


def arguments(script: Script, workers: int, cpus: int) -> list[str]:
    """Return the arguments of `ranks/ray_alone.py`. Ray's workers import only the framework of the trainer, whatever
    else the script imports, because a port may not need the rest."""
    imports, trainer = sorted({*script.imports, *script.loads}), trainer_of(script)
    frameworks = sorted(name for name in script.loads if TRAINED_BY.get(name, TASKS) == trainer)
    return [
        *(str(workers), str(cpus), trainer),
        *(["--frameworks", *frameworks] if frameworks else []),
        *(["--imports", *imports] if imports else []),
    ]


def read(folder: Path) -> RayStart | None:
    """Return what a start of Ray left in the folder of its observer; None if the start did not end well."""
    try:
        start: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return RayStart(import_seconds=start["importSeconds"], trainer=start["trainer"])
