"""Counts what a script's data sets deliver: rows, which rows, and passes. For any framework, without a call to one."""

from __future__ import annotations

import base64
import operator
import sys
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from .work import is_looked_at

Below = Callable[[Any], Any]
MOST_ROWS = 50_000_000
"""Largest data set whose rows are marked one by one, a byte each while the process lives."""
MOST_PASSES = 100_000
"""Most passes that are remembered one by one: a script that makes an iterator a step has no epochs to report."""
MOST_SUMS = 4096
"""Most passes of which sums of the row numbers are told."""
MOST_TOGETHER = 8
"""Passes over a data set between two steps whose rows are told apart."""


class Pass:
    """One iteration over a data set, from its first batch."""

    def __init__(self, start: int, number: int = 0, rows: int = 0, trained: int = 0) -> None:
        self.start = start
        """Steps that were made before it."""
        self.number = number
        """From 1; passes that begin before the same step share one. 0: nothing is learned from it."""
        self.finished = False
        """Whether it came to the end of the data set."""
        self.rows = rows
        """That the data set had delivered before it."""
        self.trained = trained
        """What had entered the model in training before it."""
        self.marks: Marks | None = None
        self.is_forgotten = False
        """It was taken for one that is only looked at."""
        self.sums = [0, 0]
        """Rows that it delivered, and the sum of their numbers' hashes: ranks that had the same rows have the same sum,
        in whatever order, and others do not, however evenly they were dealt out."""


class Marks:
    """The rows of a data set that one pass delivered."""

    def __init__(self, of: Pass) -> None:
        self.of = of
        self.drawn = 0
        """Rows, each as often as it was delivered."""
        self.rows = bytearray()
        """A byte a row of the data set, once any is marked."""
        self.waiting: list[Any] = []
        """What was drawn since."""


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
        self.content: str | None = None
        """Likewise, but for the last digits of its numbers."""
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
        """Of the first pass, of the last of the passes 2, 4, 8, … of which a step was made, of the last of all of which
        one was, and of what came after."""
        self.below: Callable[[], Below] = lambda: _same
        """Gives what turns numbers in this data set into those in the one below; LookupError if the data set is
        gone."""
        self._below: Below | None = None
        """Kept while rows wait to be marked, and with it what the data set is made of."""
        self.is_part = False
        """Whether it is a part of the one below: then equal numbers are other rows."""
        self.waiting = 0
        self._latest: Pass | None = None
        """Of those that something can be learned from; and the one before it."""
        self._before: Pass | None = None

    @property
    def validates(self) -> bool:
        """Return whether its batches were seen in evaluation, and in no training."""
        return self.in_evaluation > 0 and not self.in_training

    def is_over(self, steps: int) -> bool:
        """Return whether the pass that the last of so many steps was made of is over: finished, or left for another.

        A pass of a single step that is left is none: a script makes an iterator for each step.
        """
        latest, before = self._latest, self._before
        if latest is None or latest.finished or latest.start != steps:
            return latest is None or latest.finished
        return before is None or before.finished or steps - before.start > 1

    def begin(self, steps: int, learning: bool, entered: int = 0) -> Pass:
        """The first batch of a pass is there, after so many steps. `learning`: gradients are on.

        `entered`: numbers that have entered the model in training.
        """
        if not learning:
            self.validations += 1
            return Pass(steps)
        if self._forget_what_was_looked_at(steps, entered):
            self._latest = self._before
        before = self._latest
        number = (before.number + (before.start != steps)) if before else 1
        started = Pass(steps, number, self.rows, self.in_training + entered)
        self._before, self._latest = before, started
        if len(self.passes) < MOST_PASSES:
            self.passes.append(started)
        if self.numbered:
            self._begin_marks(started)
        return started

    def _begin_marks(self, started: Pass) -> None:
        """Keep those of the passes that are told, and of those since the last step: any may be the last."""
        since = [marks for marks in self.marks if marks.of.start == started.start]
        self.numbered = len(since) < MOST_TOGETHER
        started.marks = Marks(started)
        self.marks = [*_of_told_passes(self.marks, started.start), *since, started.marks]

    def go_on(self, passed: Pass, steps: int, entered: int = 0) -> None:
        """Note another batch of `passed`: passes begun since, of which no step was made, were only looked at."""
        if passed is not self._latest and self._forget_what_was_looked_at(steps, entered):
            self._latest = passed

    def end(self, ended: Pass, steps: int) -> None:
        """The data set has no more batches for that pass."""
        ended.finished = True
        if ended.start == steps and ended in self.passes[-1:]:  # no step was made of it
            self.passes.pop()
            self.validations += 1

    def _forget_what_was_looked_at(self, steps: int, entered: int) -> bool:
        """Return the latest pass, where no step was made since it began: a shape, a picture, a mean was wanted of
        it."""
        looked = self._latest
        if looked is None or looked.start != steps or self.is_ahead or looked.trained != self.in_training + entered:
            return False
        self.rows, looked.is_forgotten = looked.rows, True
        if looked in self.passes[-1:]:
            self.passes.pop()
        self.marks = [marks for marks in self.marks if marks.of is not looked]
        return True

    def deliver(self, rows: int, index: Any = None, of: Pass | None = None) -> int:
        """Return a batch of so many rows for a training, of a pass (else the latest), and what its sampler drew, if
        anything.

        Gives how many rows wait to be marked: `mark` is for a moment at which no step is timed.
        """
        self.rows += rows
        of = of or self._latest
        self.numbered = self.numbered and index is not None and (of is None or of.number > 0)
        if self.numbered and of and of.marks:
            if of.is_forgotten:  # it goes on: it was more than looked at
                self.marks.append(of.marks)
                of.is_forgotten = False
            self._below = self._below or self.below()
            of.marks.waiting.append(index)
            of.marks.drawn += rows
            self.waiting += rows
            self._sum(of, index)
        return self.waiting

    def _sum(self, of: Pass, index: Any) -> None:
        numbers = index if isinstance(index, (list, tuple)) else [index]
        try:
            of.sums[0] += len(numbers)
            of.sums[1] += sum(map(hash, zip(map(operator.index, numbers))))  # a tuple's hash, unlike a number's, mixes
        except (TypeError, ValueError):  # a sampler that draws something else
            self.numbered = False

    def mark(self) -> None:
        """Mark the rows that wait, each by its number in the data set below."""
        self.waiting, below, self._below = 0, self._below or _same, None
        try:
            for marks in self.marks if self.numbered else ():
                waiting, marks.waiting = marks.waiting, []
                marks.rows = marks.rows or bytearray(self.dataset_rows or 0)
                for index in waiting:
                    drawn = array("q", index if isinstance(index, (list, tuple)) else [index])
                    _mark(marks.rows, below(drawn))
        except (TypeError, OverflowError, IndexError, ValueError):  # a sampler that draws something else
            self.numbered = False

    def pass_pairs(self) -> list[list[Any]] | None:
        """Return the passes that were begun; None if they are too many, or begin before the step that they are for."""
        return pairs(self.passes) if len(self.passes) < MOST_PASSES and not self.is_ahead else None

    def sums(self, steps: int) -> list[list[int]] | None:
        """Return [steps before it, rows, sum of their hashes] of each pass that had a step, of so many in all; None
        where equal numbers are not known to be the same rows."""
        if not self.numbered or self.is_part:
            return None
        return [[each.start, *each.sums] for each in self.passes[:MOST_SUMS] if each.start < steps]

    def packed(self, steps: int) -> list[list[Any]] | None:
        """Return [steps before it, rows delivered, which these are] of each pass that was marked and had a step, of so
        many in all: a byte a row, 0 or 1, compressed, as text. None where rows have no numbers."""
        self.mark()
        if not self.numbered:
            return None
        return [
            [marks.of.start, marks.drawn, base64.b64encode(zlib.compress(bytes(marks.rows), 1)).decode()]
            for marks in _of_told_passes(self.marks, steps)
        ]


def _of_told_passes(marks: list[Marks], steps: int) -> list[Marks]:
    """Return the first of the passes that began before `steps`, one amid them, and the last; several if they began
    before the same one."""
    stepped = {each: each.of.number for each in marks if each.of.start < steps}
    ends = {min(stepped.values()), max(stepped.values())} if stepped else set()
    amid = max(filter(is_looked_at, stepped.values()), default=0)
    return [each for each, number in stepped.items() if number in {*ends, amid}]


def _same(numbers: Any) -> Any:
    return numbers


def pairs(passes: Iterable[Pass]) -> list[list[Any]]:
    """Return [steps before it, whether it was finished] of each."""
    return [[each_pass.start, each_pass.finished] for each_pass in passes]


def _mark(marks: bytearray, numbers: Any) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        for number in numbers:
            marks[number] = 1
    else:
        numpy.frombuffer(marks, numpy.uint8)[numpy.asarray(numbers)] = 1


class InputWait:
    """The waits of this process for batches that something is learned from: from asking for one, or for an iterator
    over them, until it is there."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.first_at: float | None = None
        """Seconds of the monotonic clock, when the first batch was there; None: none was."""
        self._here = threading.local()

    def __enter__(self) -> None:
        self._here.depth = getattr(self._here, "depth", 0) + 1
        if self._here.depth == 1:
            self._here.began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._here.depth -= 1
        if not self._here.depth:  # not within another one's
            self.seconds += time.monotonic() - self._here.began

    def deliver(self) -> None:
        """Note that a batch is there."""
        if self.first_at is None:
            self.first_at = time.monotonic()

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data; null where no batch was delivered."""
        seconds = None if self.first_at is None else self.seconds
        return {"dataWaitSeconds": seconds, "firstBatchAt": self.first_at}
