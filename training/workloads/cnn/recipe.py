"""The CNN's recipe: its settings beside those of every workload. Standard library only."""

import math
from dataclasses import dataclass

from training.contract.recipe import Recipe, Recovery, setting
from training.contract.rules import boolean, choice, number, whole
from training.workloads.cnn import registry
from training.workloads.cnn.shapes import SIDE

REFERENCE_BATCH = 128
"""The global batch at which `learningRate` applies unscaled."""
SCORE = "validationLoss"
"""Name of the reported number that decides which checkpoints are best."""
EXCHANGED_BYTES = {"float32": 4, "bfloat16": 2}
"""Bytes of each exchanged number of a gradient, by `gradientPrecision`."""


@dataclass(frozen=True, kw_only=True)
class CnnRecipe(Recipe):
    """The settings that change the training of the CNN."""

    global_batch_size: int = setting(64, whole(1, 65_536), "images a step, over all workers together")
    learning_rate: float = setting(0.001, number(0, 10, above=True), "Adam's learning rate at a global batch of 128")
    precision: str = setting("float32", choice(["float32", "bfloat16"]), "compute type; bfloat16 keeps float32 weights")
    gradient_precision: str = setting(
        "float32",
        choice(["float32", "bfloat16"]),
        "type in which workers exchange gradients",
        derived="that of precision",
        example="float32",
    )
    warmup_steps: int = setting(3, whole(0, 10_000), "first steps, which train but are not timed")
    model: str = setting("cnn-half", choice(registry.MODELS), "model to train")
    sync_batch_norm: bool = setting(False, boolean(), "batch statistics over all workers")
    dataset: str = setting("digits", choice(registry.DATASETS), "data set to train on")
    train_images: int = setting(
        0,
        whole(0),
        "images for training and validation; 0: all",
        derived="all",
        example="1024",
        on_cluster=2560,  # an epoch of all CIFAR-10 takes one core five minutes, and nine runs should take under twenty
    )
    image_size: int = setting(SIDE, whole(32, 1024), "pixels a side to which imagefolder's images are resized")
    augmentation: str = setting("none", choice(["none", "flip-crop"]), "random flips and crops of training images")
    learning_rate_schedule: str = setting(
        "constant", choice(["constant", "cosine", "plateau"]), "how the learning rate changes by epoch"
    )
    learning_rate_scaling: str = setting(
        "none", choice(["none", "linear", "sqrt"]), "scale the learning rate with globalBatchSize / 128"
    )
    early_stopping: int = setting(
        0, whole(0, 10_000), "stop after so many epochs without a better validation loss; 0: off"
    )
    save_model: bool = setting(
        False, boolean(), "keep the trained model in the run's folder, and in storage if it is set"
    )
    checkpoint_epochs: int = setting(
        0, whole(0, 10_000), "write a checkpoint to storage every so many epochs; 0: never"
    )
    checkpoints_kept: int = setting(
        3,
        whole(1, 1000),
        "checkpoints of the best validation loss to keep; the newest is kept, too",
    )
    max_failures: int = setting(
        0, whole(0, 1000), "failures of workers that Ray tolerates: it resumes from the newest complete checkpoint"
    )

    def scaled_learning_rate(self) -> float:
        """Return the learning rate at this global batch: Goyal et al. 2017 (linear), Krizhevsky 2014 (sqrt)."""
        ratio = self.global_batch_size / REFERENCE_BATCH
        factors = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}
        return self.learning_rate * factors[self.learning_rate_scaling]

    def recovery(self) -> Recovery:
        """Return how a run recovers from failures, with checkpoints judged by the validation loss."""
        kept = self.checkpoints_kept if self.checkpoint_epochs else 0
        return Recovery(checkpoints_kept=kept, score=SCORE, max_failures=self.max_failures)

    def why_not(self, processes: int) -> str:
        """Return why a step can't be split over this number of processes; "" if it has at least one image for each."""
        if self.global_batch_size >= processes:
            return ""
        return (
            f"--global-batch-size {self.global_batch_size} cannot be split over --workers {processes}: "
            f"it must be at least {processes}"
        )
