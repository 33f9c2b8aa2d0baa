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
"""Most passes that are remembered: a script with an iterator for each step has no epochs to report."""
MOST_SUMS = 4096
"""Most passes for which sums over the row numbers are recorded."""
MOST_TOGETHER = 8
"""Most passes over a data set that begin between the same two steps and whose rows are recorded separately."""


class Pass:
    """One iteration over a data set, from its first batch."""

    def __init__(self, start: int, number: int = 0, rows: int = 0, trained: int = 0) -> None:
        self.start = start
        """Number of steps that were made before the pass began."""
        self.number = number
        """Number of the pass, from 1; passes that begin before the same step share a number. 0: the model learns
        nothing from the pass."""
        self.finished = False
        """Whether the pass reached the end of the data set."""
        self.rows = rows
        """Rows that the data set had delivered before the pass."""
        self.trained = trained
        """Amount of input that had entered the model in training mode before the pass."""
        self.marks: Marks | None = None
        self.is_forgotten = False
        """Whether the pass was taken for a mere look at the data, and so is not counted."""
        self.sums = [0, 0]
        """Number of rows that the pass delivered, and the sum of the hashes of their numbers. Ranks that had the same
        rows have the same sum, in whatever order; ranks with other rows have another sum."""


class Marks:
    """The rows of a data set that one pass delivered."""

    def __init__(self, of: Pass) -> None:
        self.of = of
        self.drawn = 0
        """Number of rows delivered, where a row counts each time it is delivered."""
        self.rows = bytearray()
        """One byte for each row of the data set, 1 if the row was delivered; empty until a row is marked."""
        self.waiting: list[Any] = []
        """Numbers of the rows that were delivered and are not marked yet."""


class Loader:
    """The rows of one data set that reached the training, in the order of its passes. Of passes from which the model
    cannot learn (without gradients: validations), only the number is recorded."""

    def __init__(self, dataset_rows: int | None, epoch_rows: int | None, epoch_batches: int | None) -> None:
        self.dataset_rows = dataset_rows
        """Rows of the data set to which the row numbers refer: the base data set below any subset."""
        self.own_rows = dataset_rows
        """Rows of the data set itself, which may be a subset of that base data set."""
        self.epoch_rows = epoch_rows
        """Rows that a pass of this rank will have, as its sampler announces; None if it does not."""
        self.epoch_batches = epoch_batches
        self.identity: str | None = None
        """Digest by which the content of the data set is told from another's; None if there is no such digest."""
        self.content: str | None = None
        """The same as `identity`, but independent of the last digits of the numbers in the data set."""
        self.is_ahead = False
        """Whether another thread than that of the steps reads the data set, so that no batch belongs to a step."""
        self.rows = 0
        self.rows_at_step: list[int] = []
        """Rows delivered up to the end of each step for which this data set was read."""
        self.passes: list[Pass] = []
        """The passes from which the model can learn."""
        self.validations = 0
        """Number of passes from which the model did not learn."""
        self.in_training = self.in_evaluation = 0
        """Number of batches that were seen to enter the model in training mode, and in evaluation mode."""
        self.numbered = dataset_rows is not None and dataset_rows <= MOST_ROWS
        self.marks: list[Marks] = []
        """Rows of some passes: of the first pass, of the last of the passes 2, 4, 8, … that had a step, of the last
        pass that had a step, and of the passes after that one."""
        self.below: Callable[[], Below] = lambda: _same
        """Returns a function that turns row numbers of this data set into row numbers of the base data set; raises
        LookupError if the data set is gone."""
        self._below: Below | None = None
        """The function that `below` returned, held only while rows wait, as it keeps the data set in memory."""
        self.is_part = False
        """Whether the data set is a subset, so that equal row numbers of two loaders may be different rows."""
        self.waiting = 0
        self._latest: Pass | None = None
        """The latest pass from which the model can learn; `_before` is the pass before it."""
        self._before: Pass | None = None

    @property
    def validates(self) -> bool:
        """Return whether the data set's batches were seen to enter the model in evaluation mode alone."""
        return self.in_evaluation > 0 and not self.in_training

    def is_over(self, steps: int) -> bool:
        """Return whether the pass that delivered the last of `steps` steps is over: it is finished, or the script has
        left it for another pass. A pass of a single step that the script leaves is not counted as a pass: some scripts
        create an iterator for each step."""
        latest, before = self._latest, self._before
        if latest is None or latest.finished or latest.start != steps:
            return latest is None or latest.finished
        return before is None or before.finished or steps - before.start > 1

    def begin(self, steps: int, learning: bool, entered: int = 0) -> Pass:
        """Record that the first batch of a pass was delivered after `steps` steps, and return the new pass. `learning`:
        whether gradients are on. `entered`: how many numbers have entered the model in training mode."""
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
        """Start recording the rows of a new pass; keep the rows of the passes that are reported and of all passes since
        the last step, any of which may be the last."""
        since = [marks for marks in self.marks if marks.of.start == started.start]
        self.numbered = len(since) < MOST_TOGETHER
        started.marks = Marks(started)
        self.marks = [*_of_told_passes(self.marks, started.start), *since, started.marks]

    def go_on(self, passed: Pass, steps: int, entered: int = 0) -> None:
        """Record another batch of `passed`. Passes that began later and had no step are forgotten: the script only
        looked at their data."""
        if passed is not self._latest and self._forget_what_was_looked_at(steps, entered):
            self._latest = passed

    def end(self, ended: Pass, steps: int) -> None:
        """Record that the data set has no more batches for the pass `ended`."""
        ended.finished = True
        if ended.start == steps and ended in self.passes[-1:]:  # no step was made of it
            self.passes.pop()
            self.validations += 1

    def _forget_what_was_looked_at(self, steps: int, entered: int) -> bool:
        """Forget the latest pass if no step was made since it began, and return whether it was forgotten. The script
        only looked at such a pass, for a shape, a picture or a mean."""
        looked = self._latest
        if looked is None or looked.start != steps or self.is_ahead or looked.trained != self.in_training + entered:
            return False
        self.rows, looked.is_forgotten = looked.rows, True
        if looked in self.passes[-1:]:
            self.passes.pop()
        self.marks = [marks for marks in self.marks if marks.of is not looked]
        return True

    def deliver(self, rows: int, index: Any = None, of: Pass | None = None) -> int:
        """Record that a batch of `rows` rows was delivered for training in the pass `of` (default: the latest), with
        the row numbers `index` that its sampler drew, if known. Return how many rows wait for `mark`, which is called
        while no step is timed."""
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
        """Mark the delivered rows that wait, each by its number in the base data set."""
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
        """Return [steps before the pass, whether it was finished] of each pass; None if there are too many passes, or
        if the data set is read ahead of the steps."""
        return pairs(self.passes) if len(self.passes) < MOST_PASSES and not self.is_ahead else None

    def sums(self, steps: int) -> list[list[int]] | None:
        """Return [steps before the pass, rows, sum of the hashes of their numbers] of each pass that had one of the
        `steps` steps; None if equal row numbers may stand for different rows."""
        if not self.numbered or self.is_part:
            return None
        return [[each.start, *each.sums] for each in self.passes[:MOST_SUMS] if each.start < steps]

    def packed(self, steps: int) -> list[list[Any]] | None:
        """Return [steps before the pass, number of rows delivered, which rows] of each marked pass that had one of the
        `steps` steps; "which rows" is a byte for each row (0 or 1), compressed, as base64 text. Return None if rows
        have no numbers."""
        self.mark()
        if not self.numbered:
            return None
        return [
            [marks.of.start, marks.drawn, base64.b64encode(zlib.compress(bytes(marks.rows), 1)).decode()]
            for marks in _of_told_passes(self.marks, steps)
        ]


def _of_told_passes(marks: list[Marks], steps: int) -> list[Marks]:
    """Return the marks of the passes that are reported, out of those that began before step `steps`: the first, one
    between, and the last; several for each if they began before the same step."""
    stepped = {each: each.of.number for each in marks if each.of.start < steps}
    ends = {min(stepped.values()), max(stepped.values())} if stepped else set()
    amid = max(filter(is_looked_at, stepped.values()), default=0)
    return [each for each, number in stepped.items() if number in {*ends, amid}]


def _same(numbers: Any) -> Any:
    return numbers


def pairs(passes: Iterable[Pass]) -> list[list[Any]]:
    """Return [steps before the pass, whether the pass was finished] of each pass."""
    return [[each_pass.start, each_pass.finished] for each_pass in passes]


def _mark(marks: bytearray, numbers: Any) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        for number in numbers:
            marks[number] = 1
    else:
        numpy.frombuffer(marks, numpy.uint8)[numpy.asarray(numbers)] = 1


class InputWait:
    """The time that this process waits for training batches: from the request for a batch, or for an iterator over
    batches, until it is delivered."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.first_at: float | None = None
        """Time of the first batch, in seconds of the monotonic clock; None if no batch was delivered."""
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
        """Record that a batch was delivered."""
        if self.first_at is None:
            self.first_at = time.monotonic()

    def to_dict(self) -> dict[str, Any]:
        """Return the waits as plain data; the values are null if no batch was delivered."""
        seconds = None if self.first_at is None else self.seconds
        return {"dataWaitSeconds": seconds, "firstBatchAt": self.first_at}
