"""What the data sets of a script deliver: rows, which rows, and passes over them. Of any framework; it asks nothing."""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from .work import is_looked_at

MOST_ROWS = 50_000_000
"""Of a data set whose rows are marked one by one, a byte each while the process lives."""
MOST_PASSES = 100_000
"""That are remembered one by one: who makes an iterator a step has no epochs to tell."""


class Pass:
    """One iteration over a data set, from its first batch."""

    def __init__(self, start: int, rows: int = 0, in_training: int = 0) -> None:
        self.start = start
        """Steps that were made before it."""
        self.finished = False
        """Whether it came to the end of the data set."""
        self.rows = rows
        """That the data set had delivered before it."""
        self.in_training = in_training
        """Batches of the data set that had entered the model in training before it."""


class Marks:
    """Which rows of a data set one pass delivered."""

    def __init__(self, number: int, start: int, dataset_rows: int) -> None:
        self.number = number
        """Of the pass, from 1."""
        self.start = start
        """Steps that were made before it."""
        self.drawn = 0
        """Rows, each as often as it was delivered."""
        self.rows = bytearray(dataset_rows)
        self.waiting: list[Any] = []


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
        self.marks: list[Marks] = []
        """Of the first pass, and of the last of the passes 2, 4, 8, …"""
        self.below: Callable[[Any], Any] = lambda numbers: numbers
        """From numbers in this data set to those in the one below."""
        self.waiting = 0
        self._begun = 0
        """Passes that something can be learned from, so far."""
        self._latest: Pass | None = None

    @property
    def validates(self) -> bool:
        """Whether its batches were seen in evaluation, and in no training."""
        return self.in_evaluation > 0 and not self.in_training

    def begin(self, steps: int, learning: bool) -> Pass:
        """The first batch of a pass is there, after so many steps. `learning`: gradients are on."""
        if not learning:
            self.validations += 1
            return Pass(steps)
        self._forget_what_was_looked_at(steps)
        started = Pass(steps, self.rows, self.in_training)
        self._latest, self._begun = started, self._begun + 1
        if len(self.passes) < MOST_PASSES:
            self.passes.append(started)
        if self.numbered and is_looked_at(self._begun):
            self.mark()
            self.marks = [*self.marks[:1], Marks(self._begun, steps, self.dataset_rows or 0)]
        return started

    def end(self, ended: Pass, steps: int) -> None:
        """The data set has no more batches for that pass."""
        ended.finished = True
        if ended.start == steps and ended in self.passes[-1:]:  # no step was made of it
            self.passes.pop()
            self.validations += 1

    def _forget_what_was_looked_at(self, steps: int) -> None:
        """The pass before, where no step was made since it began: a shape, a picture, a mean was wanted of it."""
        looked = self._latest
        if looked is None or looked.start != steps or looked.in_training != self.in_training or self.is_ahead:
            return
        self.rows, self._begun = looked.rows, self._begun - 1
        if looked in self.passes[-1:]:
            self.passes.pop()
        if self.marks and self.marks[-1].number > self._begun:
            self.marks.pop()
            self.waiting = 0

    def deliver(self, rows: int, index: Any = None) -> int:
        """A batch of so many rows for a training, and what its sampler drew, if anything.

        Gives how many rows wait to be marked: `mark` is for a moment at which no step is timed.
        """
        self.rows += rows
        if index is None:
            self.numbered = False
        elif self.numbered and self.marks and self.marks[-1].number == self._begun:
            marks = self.marks[-1]
            marks.waiting.append(index)
            marks.drawn += rows
            self.waiting += rows
        return self.waiting

    def mark(self) -> None:
        """Mark the rows that wait, each by its number in the data set below."""
        self.waiting = 0
        if not self.numbered or not self.marks:
            return
        marks = self.marks[-1]
        waiting, marks.waiting = marks.waiting, []
        try:
            for index in waiting:
                drawn = array("q", index if isinstance(index, (list, tuple)) else [index])
                _mark(marks.rows, self.below(drawn))
        except (TypeError, OverflowError, IndexError, ValueError):  # a sampler that draws something else
            self.numbered = False

    def told_passes(self) -> list[list[Any]] | None:
        """Those that were begun; None where they are too many to tell, or begin before the step that they are for."""
        return told(self.passes) if len(self.passes) < MOST_PASSES and not self.is_ahead else None

    def packed(self, steps: int) -> list[list[Any]] | None:
        """[number of the pass, rows that it delivered, which these are] of each pass that was marked and had a step, of
        so many in all: a byte a row, 0 or 1, compressed, as text. None where rows have no numbers."""
        self.mark()
        if not self.numbered:
            return None
        return [
            [one.number, one.drawn, base64.b64encode(zlib.compress(bytes(one.rows), 1)).decode()]
            for one in self.marks
            if one.start < steps
        ]


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
