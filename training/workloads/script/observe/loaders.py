"""What the data sets of a script deliver: rows, which rows, and passes over them. Of any framework; it asks nothing."""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import Any

MOST_ROWS = 50_000_000
"""Of a data set whose rows are marked one by one, a byte each while the process lives."""
MOST_PASSES = 100_000
"""That are remembered one by one: who makes an iterator a step has no epochs to tell."""


class Pass:
    """One iteration over a data set, from its first batch."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Steps that were made before it."""
        self.finished = False
        """Whether it came to the end of the data set."""


class Loader:
    """The rows of one data set that reached the training, in the order of its passes. What is read while nothing can
    be learned from it (without gradients) is a validation's, and only its passes are counted."""

    def __init__(self, dataset_rows: int | None, epoch_rows: int | None, epoch_batches: int | None) -> None:
        self.dataset_rows = dataset_rows
        """Of the data set that rows have their numbers in: below any subset."""
        self.own_rows = dataset_rows
        """Of the data set itself, which may be a part of that."""
        self.epoch_rows = epoch_rows
        """That a pass of this rank will have, as its sampler announces it; None where it does not."""
        self.epoch_batches = epoch_batches
        self.identity: str | None = None
        """Of the data set's content; None where it can't be told."""
        self.is_ahead = False
        """Whether another thread than that of the steps reads it: then no batch is known to be of a step."""
        self.rows = 0
        self.rows_at_step: list[int] = []
        """Delivered up to the end of each step that this data set was read for."""
        self.passes: list[Pass] = []
        """Those that something can be learned from."""
        self.validations = 0
        """Passes that nothing was learned from."""
        self.in_training = self.in_evaluation = 0
        """Batches that were seen to enter the model in each mode."""
        self.numbered = dataset_rows is not None and dataset_rows <= MOST_ROWS
        self.first_pass = bytearray(dataset_rows if self.numbered and dataset_rows else 0)
        self.drawn = 0
        """Rows of the first pass, each as often as it was delivered."""
        self.below: Callable[[Any], Any] = lambda numbers: numbers
        """From numbers in this data set to those in the one below."""
        self.waiting = 0
        self._waiting: list[Any] = []

    @property
    def validates(self) -> bool:
        """Whether its batches were seen in evaluation, and in no training."""
        return self.in_evaluation > 0 and not self.in_training

    def begin(self, steps: int, learning: bool) -> Pass:
        """The first batch of a pass is there, after so many steps. `learning`: gradients are on."""
        started = Pass(steps)
        if not learning:
            self.validations += 1
        elif len(self.passes) < MOST_PASSES:
            self.passes.append(started)
        return started

    def end(self, ended: Pass, steps: int) -> None:
        """The data set has no more batches for that pass."""
        ended.finished = True
        if ended.start == steps and ended in self.passes[-1:]:  # no step was made of it
            self.passes.pop()
            self.validations += 1

    def deliver(self, rows: int, index: Any = None) -> int:
        """A batch of so many rows for a training, and what its sampler drew, if anything.

        Gives how many rows wait to be marked: `mark` is for a moment at which no step is timed.
        """
        self.rows += rows
        if index is None:
            self.numbered = False
        elif self.numbered and len(self.passes) <= 1:
            self._waiting.append(index)
            self.drawn += rows
            self.waiting += rows
        return self.waiting

    def mark(self) -> None:
        """Mark the rows that wait, each by its number in the data set below."""
        waiting, self._waiting, self.waiting = self._waiting, [], 0
        if not self.numbered:
            return
        try:
            for index in waiting:
                drawn = array("q", index if isinstance(index, (list, tuple)) else [index])
                _mark(self.first_pass, self.below(drawn))
        except (TypeError, OverflowError, IndexError, ValueError):  # a sampler that draws something else
            self.numbered = False

    def told_passes(self) -> list[list[Any]] | None:
        """Those that were begun; None where they are too many to tell, or begin before the step that they are for."""
        return told(self.passes) if len(self.passes) < MOST_PASSES and not self.is_ahead else None

    def packed(self) -> str | None:
        """A byte a row, 0 or 1, compressed, as text; None where rows have no numbers."""
        self.mark()
        return base64.b64encode(zlib.compress(bytes(self.first_pass), 1)).decode() if self.numbered else None


def told(passes: Iterable[Pass]) -> list[list[Any]]:
    """[steps before it, whether it was finished] of each."""
    return [[one.start, one.finished] for one in passes]


def _mark(marks: bytearray, numbers: Any) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        for number in numbers:
            marks[number] = 1
    else:
        numpy.frombuffer(marks, numpy.uint8)[numpy.asarray(numbers)] = 1
