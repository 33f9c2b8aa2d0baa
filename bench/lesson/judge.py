"""What the lesson's repeats say: intervals, speedups and break-even lengths, or why nothing is concluded. Pure.

The repeats are the observations, since every way has new processes in each (`compare.intervals`). A ratio is taken
within a repeat, whose loop is of the same pace.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.lesson.record import BATCHES, EACH, LENGTHS, LOOP, NAMES, PARALLEL, WAYS, Repeat
from compare.intervals import MARGIN, Interval, ratio_interval
from compare.quiet import MOST_WAITED
from training.contract.cpu_use import NOTICEABLE_CPUS

SHAPES = (EACH, BATCHES)
LEAST_REPEATS = 3
"""Below which an interval says too little."""

Where = Literal["at", "below", "above", "at most", "at least", "not decided"]
"""Of a break-even: at a length; below the shortest or above the longest one; at a length or below, or at a length or
above, by the repeat; below in some repeats and above in others."""


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The length of a task from which on a way is faster than a loop."""

    where: Where
    seconds: Interval | None = None
    """With `at` alone."""
    bound: float | None = None
    """With `at most` and `at least`: seconds of the repeat with the longest, or with the shortest."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What may be said."""

    costs: dict[str, dict[str, Interval]]
    """Seconds by way and cost."""
    speedups: dict[str, dict[str, dict[str, Interval]]]
    """The loop's seconds ÷ a way's, by way, EACH or BATCHES, and the name of a length."""
    break_evens: dict[str, dict[str, BreakEven]]
    """By way, and EACH or BATCHES."""


def judge(repeats: Sequence[Repeat]) -> Lesson:
    """Say what the repeats say; `refusals` has to be empty."""
    return Lesson(costs=_costs(repeats), speedups=_speedups(repeats), break_evens=_break_evens(repeats))


def refusals(repeats: Sequence[Repeat], cpus: int) -> list[str]:
    """Return why nothing may be concluded from these repeats on so many CPUs; empty if there is no reason."""
    reasons = [text for number, repeat in enumerate(repeats, start=1) if (text := _not_quiet(number, repeat))]
    if reasons:
        return reasons
    if len(repeats) < LEAST_REPEATS:
        return [f"{len(repeats)} repeats are too few for an interval: {LEAST_REPEATS} are needed"]
    too_fast = [
        (interval, way, length)
        for way, shapes in _speedups(repeats).items()
        for of_lengths in shapes.values()
        for length, interval in of_lengths.items()
        if interval.centre > cpus * MARGIN or interval.lower > cpus
    ]
    if not too_fast:
        return []
    interval, way, length = max(too_fast, key=lambda each: each[0].centre)
    return [
        f"{NAMES[way]} with tasks of {length} was {interval.centre:.2f} times as fast as a loop "
        f"({interval.lower:.2f} to {interval.upper:.2f}), and {cpus} CPUs allow {cpus} at most: "
        "something slowed the loop"
    ]


def _not_quiet(number: int, repeat: Repeat) -> str:
    use, waited = repeat.use, repeat.blocks[LOOP].waited
    takers = []
    if use and use.other_cpus > NOTICEABLE_CPUS:
        takers.append(f"other programs took {use.other_cpus:.1f} of {use.cpus} CPUs")
    if use and use.stolen_cpus > NOTICEABLE_CPUS:
        takers.append(f"the host of this virtual machine took {use.stolen_cpus:.1f} of {use.cpus} CPUs")
    if not takers and waited is not None and waited > MOST_WAITED:
        takers.append(f"the loop waited {waited:.2f} s for a CPU for each second that it had one")
    return f"in repeat {number} {' and '.join(takers)}" if takers else ""


def _costs(repeats: Sequence[Repeat]) -> dict[str, dict[str, Interval]]:
    return {way: {cost: _cost(repeats, way, cost) for cost in repeats[0].blocks[way].costs} for way in WAYS}


def _cost(repeats: Sequence[Repeat], way: str, cost: str) -> Interval:
    return _interval([repeat.blocks[way].costs[cost] for repeat in repeats])


def _speedups(repeats: Sequence[Repeat]) -> dict[str, dict[str, dict[str, Interval]]]:
    names = [length.name for length in LENGTHS]
    return {
        way: {shape: {name: _speedup(repeats, way, shape, name) for name in names} for shape in SHAPES}
        for way in PARALLEL
    }


def _speedup(repeats: Sequence[Repeat], way: str, shape: str, length: str) -> Interval:
    blocks = [repeat.blocks for repeat in repeats]
    return _interval([of[LOOP].tasks[EACH][length] / of[way].tasks[shape][length] for of in blocks])


def _interval(values: Sequence[float]) -> Interval:
    interval = ratio_interval(values)
    assert interval is not None  # noqa: S101 (there are at least LEAST_REPEATS)
    return interval


def break_even(loop: Mapping[str, float], way: Mapping[str, float]) -> float:
    """Seconds of a task from which on a way takes less time than a loop, in one repeat.

    0 if it does so from the shortest length on, infinity if not even with the longest. Between two lengths the seconds
    of both are taken to grow linearly, as they do where a task costs the same whatever its length.

    Args:
        loop: The loop's seconds of a task, by the name of its length.
        way: Those of the way.
    """
    lengths = [loop[length.name] for length in LENGTHS]
    lost = [way[length.name] - loop[length.name] for length in LENGTHS]
    last = max((place for place, seconds in enumerate(lost) if seconds >= 0), default=None)
    if last is None:
        return 0.0
    if last == len(lost) - 1:
        return math.inf
    share = lost[last] / (lost[last] - lost[last + 1])
    return lengths[last] + share * (lengths[last + 1] - lengths[last])


def _break_evens(repeats: Sequence[Repeat]) -> dict[str, dict[str, BreakEven]]:
    return {way: {shape: _break_even(repeats, way, shape) for shape in SHAPES} for way in PARALLEL}


def _break_even(repeats: Sequence[Repeat], way: str, shape: str) -> BreakEven:
    values = [break_even(repeat.blocks[LOOP].tasks[EACH], repeat.blocks[way].tasks[shape]) for repeat in repeats]
    least, most = min(values), max(values)
    if most == 0:
        return BreakEven(where="below")
    if math.isinf(least):
        return BreakEven(where="above")
    if least == 0 and math.isinf(most):
        return BreakEven(where="not decided")
    if least == 0:
        return BreakEven(where="at most", bound=most)
    if math.isinf(most):
        return BreakEven(where="at least", bound=least)
    return BreakEven(where="at", seconds=_interval(values))
