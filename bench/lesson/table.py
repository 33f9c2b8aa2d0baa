"""What the lesson's repeats say: costs, speedups and break-even lengths in 80 columns, or why nothing is concluded.

The repeats are the observations, since every way has new processes in each (`compare.intervals`). A ratio is taken
within a repeat, whose loop is of the same pace. Pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.lesson import ways
from bench.lesson.ways import ARGUMENTS, BATCHES, EACH, EXECUTOR, LENGTHS, LOOP, OBJECTS, POOL, RAY, WAYS, Block, sized
from compare.intervals import MARGIN, Interval, ratio_interval
from compare.quiet import MOST_WAITED
from report.table import aligned, wrap
from training.contract.arms import counted
from training.contract.cpu_use import NOTICEABLE_CPUS, MachineUse
from training.machine.command_line import rwi

LEAST_REPEATS = 3
"""With fewer repeats than these an interval says too little."""
NAMES = {POOL: "Pool.map", EXECUTOR: "ProcessPoolExecutor", RAY: "Ray"}
LABELS = {
    (RAY, EACH): "Ray, each",
    (RAY, BATCHES): "Ray, in batches",
    (POOL, EACH): "Pool.map, each",
    (POOL, BATCHES): "Pool.map, in batches",
    (EXECUTOR, EACH): "Executor, each",
    (EXECUTOR, BATCHES): "Executor, in batches",
}
"""Names, in tables and in the picture, of what is compared with a loop."""
COSTS = (
    (ways.START, "start, to the first answers"),
    (ways.ONE_BY_ONE, "an empty task, one by one"),
    (ways.TOGETHER, f"  {ways.TOGETHER_TASKS:,} at once, each"),
    *((sized(ways.BY_VALUE, size), f"a task with {size}, by value") for size in ARGUMENTS),
    *((sized(ways.BY_REFERENCE, size), f"  {size}, by reference") for size in ARGUMENTS),
)
RAY_COSTS = (
    (ways.IMPORT, "of its start: import ray"),
    (ways.INIT, "  ray.init"),
    (ways.ACTOR, "an actor: made, and called once"),
    (ways.ACTOR_ONE_BY_ONE, "  a further call, one by one"),
    (ways.ACTOR_TOGETHER, f"  {ways.TOGETHER_TASKS:,} at once, each"),
)
TITLE = "Times as fast as a loop, by the length of a task"
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8)

Where = Literal["at", "below", "above", "at most", "at least", "not decided"]
"""Where a break-even lies: `at` a length; `below` the shortest or `above` the longest length; `at most` or `at least` a
length, if some repeats have it below the shortest or above the longest; `not decided` if repeats have it on both
sides."""


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Measurements of one repeat, in which every way ran once, and what other programs took of the CPUs meanwhile."""

    blocks: dict[str, Block]
    iterations_per_second: float
    """Iterations a second of the loop that a task consists of, in one process, measured just before."""
    seconds: float
    use: MachineUse | None
    """CPU time that other programs took; None if the system does not tell."""


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """The length of a task from which on a way of running tasks is faster than a loop."""

    where: Where
    seconds: Interval | None = None
    """Length of a task in seconds; only if `where` is `at`."""
    bound: float | None = None
    """Length of a task in seconds: of `at most` the longest of the repeats, of `at least` the shortest."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """The conclusions of the lesson."""

    costs: dict[str, dict[str, Interval]]
    """Seconds that each operation costs, by way and by name of the cost."""
    speedups: dict[str, dict[str, dict[str, Interval]]]
    """Seconds of the loop ÷ seconds of a way: by way, by EACH or BATCHES, and by the name of a task's length."""
    break_evens: dict[str, dict[str, BreakEven]]
    """Break-even lengths of a task, by way, and EACH or BATCHES."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The whole measurement as it is kept in benchmarks/lesson-<time>.json, so that it can be judged again."""

    schema_version: int
    made_at: str
    """Time of the measurement in UTC, ISO 8601."""
    cpu_model: str
    cpus: int
    """CPUs that every way had."""
    versions: dict[str, str]
    """Versions of Python and Ray."""
    environment: dict[str, str]
    """Environment variables that steer Ray or numpy."""
    seconds: float
    """Time of the whole lesson, without the wait for the machine."""
    repeats: list[Repeat]
    refused: list[str]
    """Reasons why nothing is concluded; empty if something is."""
    lesson: Lesson | None
    """The conclusions; None if nothing is concluded."""


def judge(repeats: Sequence[Repeat]) -> Lesson:
    """Return the conclusions from the repeats. `refusals` of these repeats has to be empty."""
    blocks = [repeat.blocks for repeat in repeats]
    costs = {
        way: {cost: _interval([of[way].costs[cost] for of in blocks]) for cost in blocks[0][way].costs} for way in WAYS
    }
    evens = {way: {shape: _break_even(blocks, way, shape) for shape in (EACH, BATCHES)} for way in NAMES}
    return Lesson(costs=costs, speedups=_speedups(blocks), break_evens=evens)


def refusals(repeats: Sequence[Repeat], cpus: int) -> list[str]:
    """Return why nothing may be concluded from these repeats on so many CPUs; empty if there is no reason."""
    if reasons := [text for number, repeat in enumerate(repeats, start=1) if (text := _not_quiet(number, repeat))]:
        return reasons
    if len(repeats) < LEAST_REPEATS:
        return [f"{len(repeats)} repeats are too few for an interval: {LEAST_REPEATS} are needed"]
    too_fast = [
        (interval, way, length)
        for way, shapes in _speedups([repeat.blocks for repeat in repeats]).items()
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


def _speedups(blocks: Sequence[Mapping[str, Block]]) -> dict[str, dict[str, dict[str, Interval]]]:
    def speedup(way: str, shape: str, length: str) -> Interval:
        return _interval([of[LOOP].tasks[EACH][length] / of[way].tasks[shape][length] for of in blocks])

    shapes, names = (EACH, BATCHES), [length.name for length in LENGTHS]
    return {way: {shape: {name: speedup(way, shape, name) for name in names} for shape in shapes} for way in NAMES}


def _interval(values: Sequence[float]) -> Interval:
    interval = ratio_interval(values)
    assert interval is not None  # noqa: S101 (there are at least LEAST_REPEATS)
    return interval


def break_even(loop: Mapping[str, float], way: Mapping[str, float]) -> float:
    """Return the length of a task, in seconds, from which on a way takes less time than a loop, in one repeat.

    Return 0 if the way takes less time with every length, infinity if it does not even with the longest. Between two
    lengths the seconds of both are assumed to grow linearly, as they do where a task costs the same whatever its
    length.

    Args:
        loop: The loop's seconds of a task, by the name of its length.
        way: The way's seconds of a task, by the name of its length.
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


def _break_even(blocks: Sequence[Mapping[str, Block]], way: str, shape: str) -> BreakEven:
    values = [break_even(of[LOOP].tasks[EACH], of[way].tasks[shape]) for of in blocks]
    least, most = min(values), max(values)
    if most == 0:
        return BreakEven(where="below")
    if math.isinf(least):
        return BreakEven(where="above")
    if math.isinf(most):
        return BreakEven(where="at least", bound=least) if least else BreakEven(where="not decided")
    return BreakEven(where="at", seconds=_interval(values)) if least else BreakEven(where="at most", bound=most)


def text(kept: Kept) -> str:
    """Return the whole text that the lesson prints."""
    head = (
        f"Ray {kept.versions['ray']} on {kept.cpus} CPUs of {kept.cpu_model}, Python {kept.versions['python']}: "
        f"{counted(len(kept.repeats), 'repeat')} in {kept.seconds:.0f} s"
    )
    if kept.lesson is None:
        reasons = [wrap(f"- {reason}", "  ") for reason in kept.refused]
        again = f"To measure again, with nothing else running: {rwi('bench lesson')}"
        return "\n".join([wrap(head), "", "Nothing is concluded:", *reasons, again])
    return "\n".join([wrap(head), "", *_tables(kept.lesson), *_notes(kept, kept.lesson)])


def _tables(lesson: Lesson) -> list[str]:
    """Return the lines of all tables, with an empty line below each table."""
    lengths, of_ray = [length.name for length in LENGTHS], lesson.costs[RAY]
    costs = [[title, *(_cell(lesson.costs[way].get(cost)) for way in (RAY, EXECUTOR, POOL))] for cost, title in COSTS]
    stored = [[size, *(_cell(of_ray[sized(of, size)]) for of in (ways.PUT, ways.GET, ways.COPY))] for size in OBJECTS]
    speedups = [
        [label, *(_times(lesson.speedups[way][shape][name]) for name in lengths)]
        for (way, shape), label in LABELS.items()
    ]
    evens = [[label, length(lesson.break_evens[way][shape])] for (way, shape), label in LABELS.items()]
    return [
        aligned([["what it costs", "Ray", "Executor", "Pool"], *costs]),
        "",
        aligned([["Ray alone", ""], *([title, _cell(of_ray[cost])] for cost, title in RAY_COSTS)]),
        "",
        aligned([["Ray's object store, an array of", "put", "get", "a copy"], *stored]),
        "",
        TITLE[0].lower() + TITLE[1:],
        aligned([["", *lengths], *speedups]),
        "",
        "break-even: a task must take so long before this is faster than a loop",
        aligned(evens, (0, 1)),
        "",
    ]


def length(break_even: BreakEven) -> str:
    """Return a break-even in words: `1.44 ms (1.31 to 1.58 ms)`, `at most 0.21 ms: …`, or that it lies below or above
    all lengths measured."""
    if break_even.seconds:
        ends = f"{seconds(break_even.seconds.lower)} to {seconds(break_even.seconds.upper)}"
        return f"{seconds(break_even.seconds.centre)} ({ends})"
    shortest, longest = LENGTHS[0].name, LENGTHS[-1].name
    if break_even.bound:
        beyond = f"below {shortest}" if break_even.where == "at most" else f"above {longest}"
        return f"{break_even.where} {seconds(break_even.bound)}: in some repeats it lies {beyond}"
    return {
        "below": f"below {shortest}: it was faster with every length",
        "above": f"above {longest}: it was faster with none",
        "not decided": f"not decided: in some repeats it lies below {shortest}, in others above {longest}",
    }[break_even.where]


def _notes(kept: Kept, lesson: Lesson) -> list[str]:
    blocks = kept.repeats[0].blocks
    notes = [
        "Executor: concurrent.futures.ProcessPoolExecutor. Pool: multiprocessing.Pool. Both start processes by spawn.",
        "A call of a function, which is an empty task of a loop, takes "
        f"{seconds(lesson.costs[LOOP][ways.ONE_BY_ONE].centre)}.",
        "± is half of a 95 % interval over the repeats; the break-evens have theirs in parentheses. A start is in no "
        "speedup. In batches: one for each CPU. Of tasks of 1 s each CPU has one: that is a batch.",
        f"Ray runs tasks at niceness {blocks[RAY].niceness}, the others at {blocks[LOOP].niceness}: beside other "
        "programs Ray would seem slower than it is.",
    ]
    if any(repeat.use is None for repeat in kept.repeats):
        notes.append("What other programs took of the CPUs is not known on this system.")
    return [wrap(note) for note in notes]


def _cell(interval: Interval | None) -> str:
    return f"{seconds(interval.centre)} {_half(interval)}" if interval else "-"


def _times(interval: Interval) -> str:
    return f"{interval.centre:.2f} {_half(interval)}"


def _half(interval: Interval) -> str:
    """Return half the width of an interval in percent, `±5%`, computed from its logarithms."""
    return f"±{math.sqrt(interval.upper / interval.lower) - 1:.0%}"


def seconds(value: float) -> str:
    """Return a time with three digits and its unit: `1.44 ms`."""
    unit, scale = ("s", 1.0) if value >= 1 else ("ms", 1e-3) if value >= 1e-3 else ("µs", 1e-6)
    shown = value / scale
    return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"


def picture(lesson: Lesson, cpus: int) -> str:
    """Return an SVG picture of how many times as fast as a loop each way is, by the length of a task. Raises ValueError
    if the picture could not be drawn."""
    from report.pictures import as_file, drawn  # matplotlib takes a second, and memory beside what is measured

    return as_file(drawn(TITLE, lambda: _draw(lesson, cpus)))


def _draw(lesson: Lesson, cpus: int) -> str:
    from matplotlib.ticker import NullFormatter, NullLocator

    from report.svg import ARM_COLOURS, INK, MUTED, SERIES, drawing

    colours = {RAY: ARM_COLOURS["ray"], POOL: SERIES[0], EXECUTOR: SERIES[1]}
    lengths = [length.seconds for length in LENGTHS]
    with drawing("lesson", TITLE, ("length of a task", "times as fast as a loop"), height=3.6) as picture:
        picture.axes.set_xscale("log")
        picture.axes.set_yscale("log")
        picture.axes.axhline(1, color=INK, linewidth=0.9)
        picture.axes.axhline(cpus, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.5)), label=f"{cpus} CPUs")
        for (way, shape), label in LABELS.items():
            intervals = [lesson.speedups[way][shape][length.name] for length in LENGTHS]
            centres = [interval.centre for interval in intervals]
            style: dict[str, Any] = {"color": colours[way], "capsize": 2, "label": label}
            style |= {"fmt": "o-"} if shape == EACH else {"fmt": "s--", "markersize": 3}
            picture.axes.errorbar(lengths, centres, yerr=_bars(intervals), **style)
            if even := lesson.break_evens[way][shape].seconds:
                across = _bars([even])
                picture.axes.errorbar([even.centre], [1], xerr=across, fmt="D", color=colours[way], capsize=3)
        low, high = picture.axes.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        picture.axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        picture.axes.set_xticks(lengths, [length.name for length in LENGTHS])
        for axis in (picture.axes.xaxis, picture.axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        picture.legend(columns=2)
    return picture.markup


def _bars(intervals: Sequence[Interval]) -> list[list[float]]:
    """Return the error bars: the distances from each interval's centre to its lower and to its upper end."""
    return [[each.centre - each.lower for each in intervals], [each.upper - each.centre for each in intervals]]
