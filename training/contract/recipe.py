"""The recipe: everything that changes what a training run learns, and nothing about where or how often it runs.

Standard library only. The same recipe is config keys in Pulumi, flags on a command line and JSON in a result.
"""

import hashlib
import json
import math
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from training.contract import arms
from training.contract.rules import Rule, boolean, choice, number, whole
from training.workloads.cnn import registry

REFERENCE_BATCH = 128
"""The global batch at which `learningRate` applies unscaled."""


def _setting(default: Any, rule: Rule, help_text: str) -> Any:
    return field(default=default, metadata={"rule": rule, "help": help_text})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What changes training. Field names are snake_case here, camelCase in config and JSON, --kebab-case as flags."""

    workers: int = _setting(2, whole(1, 256), "workers of the distributed arms")
    worker_cpus: float = _setting(
        1.0, number(0, 256, above=True), "CPUs of each worker, and of the baseline; whole on local"
    )
    epochs: int = _setting(4, whole(1, 10_000), "passes over the training images")
    global_batch_size: int = _setting(64, whole(1, 65_536), "images a step, over all workers together")
    learning_rate: float = _setting(0.001, number(0, 10, above=True), "Adam's learning rate at a global batch of 128")
    precision: str = _setting(
        "float32", choice(["float32", "bfloat16"]), "compute type; bfloat16 keeps float32 weights"
    )
    gradient_precision: str = _setting(
        "float32", choice(["float32", "bfloat16"]), "type in which workers exchange gradients"
    )
    seed: int = _setting(1, whole(0, 2**31 - 1), "seed of repeat 1; repeat r uses seed + r - 1")
    warmup_steps: int = _setting(3, whole(0, 10_000), "first steps of a run that train but are not timed")
    model: str = _setting("cnn-half", choice(registry.MODELS), "model to train")
    sync_batch_norm: bool = _setting(False, boolean(), "batch statistics over all workers instead of each worker's own")
    dataset: str = _setting("digits", choice(registry.DATASETS), "data set to train on")
    train_images: int = _setting(0, whole(0), "use only so many images for training and validation; 0: all")
    augmentation: str = _setting("none", choice(["none", "flip-crop"]), "random flips and crops of training images")
    learning_rate_schedule: str = _setting(
        "constant", choice(["constant", "cosine", "plateau"]), "how the learning rate changes from epoch to epoch"
    )
    learning_rate_scaling: str = _setting(
        "none", choice(["none", "linear", "sqrt"]), "scale the learning rate with globalBatchSize / 128"
    )
    early_stopping: int = _setting(
        0, whole(0, 10_000), "stop after so many epochs without a better validation loss; 0: off"
    )
    save_model: bool = _setting(False, boolean(), "write the trained model into the run's folder")

    def to_dict(self) -> dict[str, Any]:
        """This recipe with camelCase keys, as config and JSON have it."""
        return {camel(name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Recipe":
        """The recipe of a camelCase dict; raises ValueError naming keys that are unknown, and the valid ones."""
        known = {camel(f.name): f.name for f in fields(cls)}
        unknown = sorted(set(data) - set(known))
        if unknown:
            raise ValueError(f"unknown recipe keys {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**{known[key]: value for key, value in data.items()})

    def for_arm(self, arm: str) -> dict[str, Any]:
        """The part of the recipe that can change this arm's run: the baseline's leaves out `workers`."""
        return {key: value for key, value in self.to_dict().items() if key not in arms.ARMS[arm].ignores}

    def flags(self) -> list[str]:
        """This recipe as the flags that every entry point reads."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [f"{kebab(name)}={str(v).lower() if isinstance(v, bool) else v}" for name, v in values]

    def digest(self) -> str:
        """A short name for this recipe: 8 hex digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(canonical(self.to_dict()).encode()).hexdigest()[:8]

    def scaled_learning_rate(self) -> float:
        """The learning rate at this global batch: Goyal et al. 2017 (linear), Krizhevsky 2014 (sqrt)."""
        ratio = self.global_batch_size / REFERENCE_BATCH
        factors = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}
        return self.learning_rate * factors[self.learning_rate_scaling]

    def compute_threads(self) -> int:
        """Intra-op and OpenMP threads of one worker: its CPUs, rounded up."""
        return max(1, -int(-self.worker_cpus // 1))


def recipe_fields() -> dict[str, Field[Any]]:
    """Every field of a recipe by its camelCase name; `metadata` has its `rule` and `help`."""
    return {camel(f.name): f for f in fields(Recipe)}


def camel(name: str) -> str:
    """snake_case to camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def kebab(name: str) -> str:
    """snake_case to a --kebab-case flag."""
    return "--" + name.replace("_", "-")


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces and no NaN: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def batch_split(images: int, workers: int) -> list[int]:
    """How many of a step's images each rank takes: as even as can be, larger shares first (128 over 3: 43, 43, 42)."""
    share, rest = divmod(images, workers)
    return [share + (rank < rest) for rank in range(workers)]
