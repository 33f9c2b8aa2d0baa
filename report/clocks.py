"""The arms' whole clocks over epochs and by part, as numbers: the same for the pictures and the terminal. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from compare.schema import ArmSummary, Comparison
from report import words
from report.figures import MISSING
from training.contract.arms import counted

PARTS = ("start-up", "training", "evaluation", "saving, reports", "other")
"""The parts of the whole time of a run, in the order in which they are shown."""
SHOWN_SHARE = 0.01
"""A part that in no arm is longer than this share of the longest time cannot be seen, and is not named."""
FARTHEST = 4
"""If the certain break-even lies at more than this many times the probable break-even and the measured epochs, it is
not shown: the crossing of the lines could not be seen."""
ROOM = 1.2
"""Factor by which the axis of epochs is longer than the last number of epochs that is of interest."""


@dataclass(frozen=True)
class Line:
    """The whole time of an arm's runs as a function of the epochs, in seconds."""

    fixed: tuple[float, ...]
    """The fixed seconds, in each repeat: for start-up, warm-up beyond its steps, the test and the end."""
    per_epoch: tuple[float, ...]
    """The seconds that each further epoch adds, in each repeat."""

    def at(self, epochs: float) -> tuple[float, float, float]:
        """Return the lowest, mean and highest seconds of the repeats at this number of epochs. Where the means of two
        arms are equal, the centre of their ratio is 1."""
        seconds = self.of_runs(epochs)
        return min(seconds), _mean(seconds), max(seconds)

    def of_runs(self, epochs: float) -> list[float]:
        """Return the seconds of each repeat at this number of epochs."""
        return [fixed + epochs * each for fixed, each in zip(self.fixed, self.per_epoch, strict=True)]

    @property
    def epoch(self) -> float:
        """Return the mean of the seconds that an epoch adds."""
        return _mean(self.per_epoch)


class Meeting(NamedTuple):
    """The number of epochs from which on Ray takes less time than every alternative."""

    alternative: str
    """Name of the arm that Ray probably overtakes last."""
    probably: int
    possibly: int | None
    """The lower end of the 95 % interval; `surely` is the upper end. None if the end is not known."""
    surely: int | None


@dataclass(frozen=True)
class Clocks:
    """What the picture of the whole times over epochs shows."""

    lines: Mapping[str, Line]
    """The lines, by arm. An arm whose epochs were not timed has no line."""
    measured: int
    """Epochs that were trained."""
    last: int
    """Epochs at the right end."""
    meeting: Meeting | None
    passed: str
    """Word for an epoch."""


def clocks(comparison: Comparison) -> Clocks | None:
    """Return what the picture of whole times shows; None if epochs are not known to be the same work, or not timed."""
    lines = {name: line for name in comparison.shown_arms() if (line := _line(comparison.arms[name]))}
    if comparison.claim != "same work" or not lines:
        return None
    trained = [spread.low for arm in comparison.arms.values() if (spread := arm.measures.get("epochsCompleted"))]
    measured = int(min(trained))
    meeting = last_meeting(comparison)
    if meeting is None:  # Ray may still overtake some of them, and the caption says where
        overtaken = max((meets.probably or 0 for meets in comparison.break_even.values() if meets), default=0)
        return Clocks(lines, measured, max(2 * measured, math.ceil(ROOM * overtaken)), None, comparison.passed)
    farthest = FARTHEST * max(meeting.probably, measured) if meeting.probably > 1 else math.inf  # else none is crossed
    is_in_view = meeting.surely is not None and meeting.surely <= farthest
    end = meeting.surely if meeting.surely and is_in_view else meeting.probably
    return Clocks(lines, measured, math.ceil(ROOM * max(measured, end)), meeting, comparison.passed)


def last_meeting(comparison: Comparison) -> Meeting | None:
    """Return where Ray probably overtakes the last alternative. None if Ray probably never overtakes all of them, if
    that is not known, or if Ray leads from the first epoch on."""
    known = {name: meets for name, meets in comparison.break_even.items() if meets and meets.probably}
    if not known or len(known) < len(comparison.break_even):
        return None
    last = max(known, key=lambda name: known[name].probably or 0)
    probably, possibly = (max(getattr(meets, end) or 0 for meets in known.values()) for end in ("probably", "possibly"))
    surely = comparison.break_even_epochs
    return Meeting(last, probably, possibly or None, surely) if max(probably, surely or 1) > 1 else None


def reading(comparison: Comparison, shown: Clocks) -> str:
    """Return a text that says how to read the picture of the whole times over epochs."""
    texts = [f"A line begins at the fixed time ({fixed_words(shown.passed)}) and rises with each {shown.passed}."]
    texts += ["Its band holds every repeat."] if comparison.repeats > 1 else []
    texts += ["Grey: where Ray may catch up, with 95 % confidence."] if shown.meeting and shown.meeting.possibly else []
    named = [end for meets in comparison.break_even.values() if meets for end in astuple(meets) if end]
    is_beyond = max(named, default=0) > shown.last
    beyond = f"More than {counted(shown.last, shown.passed)} lie beyond the right end." * is_beyond
    return " ".join(filter(None, [*texts, break_even_words(comparison), beyond]))


def fixed_words(passed: str) -> str:
    """Return what the fixed time of a run is, in words. `passed`: the word for an epoch."""
    return f"start-up and all else that more {passed}s do not add"


def break_even_words(comparison: Comparison) -> str:
    """Return the break-even of Ray with each alternative, in words; "" if no epochs were compared."""
    against = [f"{name}: {words.break_even_with(comparison, name)}" for name in comparison.break_even]
    interval = " (95 % interval)" if comparison.repeats > 1 else ""
    return f"Break-even{interval} with {'; with '.join(against)}." if against else ""


def rows(comparison: Comparison, shown: Clocks | None) -> list[list[str]]:
    """Return the lines of the picture as a table with a row for each arm: the fixed seconds, those of an epoch and at
    the break-even, and the measured median."""
    arms = {name: comparison.arms[name].median("wallSeconds") for name in comparison.shown_arms()}
    if shown is None:
        return [["", "end to end s"], *([name, _seconds(seconds)] for name, seconds in arms.items())]
    meeting = shown.meeting
    ends = [meeting.surely or meeting.probably] if meeting else []
    article = "an" if shown.passed[0] in "aeiou" else "a"
    ends_and_measured = (f"{counted(end, shown.passed)} s" for end in [*ends, shown.measured])
    heading = ["", "fixed s", f"{article} {shown.passed} s", *ends_and_measured]
    lines = {name: shown.lines.get(name) for name in arms}
    measured = {name: _measured(comparison.arms[name], line, shown.measured) for name, line in lines.items()}
    cells = [[name, *_cells(line, ends), _seconds(measured[name])] for name, line in lines.items()]
    return [heading, *cells]


def _measured(arm: ArmSummary, line: Line | None, epochs: int) -> float | None:
    """Return the median of an arm's whole times at this number of epochs, by its line if runs trained more."""
    trained = arm.measures.get("epochsCompleted")
    if trained and trained.low == trained.high == epochs:
        return arm.median("wallSeconds")
    return statistics.median(line.of_runs(epochs)) if line else None


def _cells(line: Line | None, ends: Sequence[int]) -> list[str]:
    if line is None:
        return [MISSING] * (2 + len(ends))
    return [_seconds(line.at(0)[1]), f"{line.epoch:,.2f}", *(_seconds(line.at(end)[1]) for end in ends)]


def _seconds(seconds: float | None) -> str:
    return MISSING if seconds is None else f"{seconds:,.1f}"


def parts(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return the median seconds of each part, by arm. What no clock measures is `other`: they add up to the whole."""
    return {name: _parts(comparison.arms[name]) for name in comparison.shown_arms()}


def visible(of_arms: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the parts that can be seen in some arm."""
    longest = max(sum(of_arm.values()) for of_arm in of_arms.values())
    return [part for part in PARTS if any(of_arm[part] > SHOWN_SHARE * longest for of_arm in of_arms.values())]


def _parts(arm: ArmSummary) -> dict[str, float]:
    startup, warmup, train, evaluation, report, checkpoint, whole = (
        arm.median(f"{name}Seconds") or 0.0
        for name in ("startup", "warmup", "train", "evaluation", "report", "checkpoint", "wall")
    )
    rest, room = (warmup + train, evaluation, report + checkpoint), max(0.0, whole - startup)
    share = min(1.0, room / sum(rest)) if sum(rest) else 1.0  # medians of runs that differ may add up to more
    known = (startup, *(share * seconds for seconds in rest))
    return dict(zip(PARTS, (*known, max(0.0, whole - sum(known))), strict=True))


def _line(arm: ArmSummary) -> Line | None:
    whole, epochs, each = (arm.measures.get(name) for name in ("wallSeconds", "epochsCompleted", "wallSecondsPerEpoch"))
    if not whole or not epochs or not each or not len(arm.runs) == whole.n == epochs.n == each.n:
        return None
    of_runs = zip(whole.values, epochs.values, each.values, strict=True)
    return Line(tuple(wall - count * seconds for wall, count, seconds in of_runs), tuple(each.values))


def _mean(values: tuple[float, ...] | list[float]) -> float:
    """Return the geometric mean, the centre of a ratio's interval; the arithmetic one if a value is not above 0."""
    return statistics.geometric_mean(values) if min(values) > 0 else statistics.fmean(values)
