"""The learning rate of each epoch, and when to stop early. Standard library only.

Decided from validation losses that are summed over all workers, so every rank decides the same.
"""

import math

from training.workloads.cnn.recipe import CnnRecipe

PLATEAU_PATIENCE = 2
PLATEAU_FACTOR = 0.5


class Schedule:
    """The recipe's `learningRateSchedule` and `earlyStopping`, fed with each epoch's validation loss."""

    def __init__(self, recipe: CnnRecipe) -> None:
        self._recipe = recipe
        self._rate = recipe.scaled_learning_rate()
        self._best = math.inf
        self._since_best = 0
        self._since_change = 0

    def rate(self, epoch: int) -> float:
        """The learning rate of epoch `epoch`, from 1. Cosine: Loshchilov and Hutter 2016, without restarts."""
        if self._recipe.learning_rate_schedule == "cosine":
            return self._rate * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / self._recipe.epochs))
        return self._rate

    @property
    def is_over(self) -> bool:
        """Return whether training should stop early."""
        return 0 < self._recipe.early_stopping <= self._since_best

    def after(self, validation_loss: float) -> None:
        """Take note of an epoch's validation loss."""
        better = validation_loss < self._best
        self._best = min(self._best, validation_loss)
        self._since_best = 0 if better else self._since_best + 1
        self._since_change = 0 if better else self._since_change + 1
        if self._recipe.learning_rate_schedule == "plateau" and self._since_change >= PLATEAU_PATIENCE:
            self._rate *= PLATEAU_FACTOR
            self._since_change = 0
