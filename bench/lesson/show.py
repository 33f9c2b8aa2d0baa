"""The lesson in words and tables of 80 columns. Pure."""

import math
import textwrap
from collections.abc import Sequence

from bench.lesson import record
from bench.lesson.judge import BreakEven, Lesson
from bench.lesson.kept import Kept
from bench.lesson.record import ARGUMENTS, BATCHES, EACH, EXECUTOR, LENGTHS, LOOP, OBJECTS, POOL, RAY, sized
from compare.intervals import Interval
from training.contract.arms import counted
from training.machine.command_line import rwi

WIDTH = 80
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
LABELS = {
    (RAY, EACH): "Ray, each",
    (RAY, BATCHES): "Ray, in batches",
    (POOL, EACH): "Pool.map, each",
    (POOL, BATCHES): "Pool.map, in batches",
    (EXECUTOR, EACH): "Executor, each",
    (EXECUTOR, BATCHES): "Executor, in batches",
}
"""Of ways in tables and in the picture."""
COLUMNS = (RAY, EXECUTOR, POOL)
COSTS = (
    (record.START, "start, to the first answers"),
    (record.ONE_BY_ONE, "an empty task, one by one"),
    (record.TOGETHER, f"  {record.TOGETHER_TASKS:,} at once, each"),
    *((sized(record.BY_VALUE, size), f"a task with {size}, by value") for size in ARGUMENTS),
    *((sized(record.BY_REFERENCE, size), f"  {size}, by reference") for size in ARGUMENTS),
)
RAY_COSTS = (
    (record.IMPORT, "of its start: import ray"),
    (record.INIT, "  ray.init"),
    (record.ACTOR, "an actor: made, and called once"),
    (record.ACTOR_ONE_BY_ONE, "  a further call, one by one"),
    (record.ACTOR_TOGETHER, f"  {record.TOGETHER_TASKS:,} at once, each"),
)


def text(kept: Kept) -> str:
    """All that is printed."""
    head = (
        f"Ray {kept.versions['ray']} on {kept.cpus} CPUs of {kept.cpu_model}, Python {kept.versions['python']}: "
        f"{counted(len(kept.repeats), 'repeat')} in {kept.seconds:.0f} s"
    )
    if kept.lesson is None:
        return "\n".join([*_wrapped(head), "", *_refusal(kept.refused)])
    return "\n".join(
        [*_wrapped(head), "", *_tables(kept.lesson), "", *_break_evens(kept.lesson), "", *_notes(kept, kept.lesson)]
    )


def _refusal(reasons: Sequence[str]) -> list[str]:
    lines = [line for reason in reasons for line in _wrapped(f"- {reason}", "  ")]
    return ["Nothing is concluded:", *lines, f"To measure again, with nothing else running: {rwi('bench lesson')}"]


def _tables(lesson: Lesson) -> list[str]:
    costs = [[title, *(_cell(lesson.costs[way].get(cost)) for way in COLUMNS)] for cost, title in COSTS]
    of_ray = [[title, _cell(lesson.costs[RAY][cost])] for cost, title in RAY_COSTS]
    objects = [
        [size, *(_cell(lesson.costs[RAY][sized(cost, size)]) for cost in (record.PUT, record.GET, record.COPY))]
        for size in OBJECTS
    ]
    speedups = [
        [label, *(_times(lesson.speedups[way][shape][length.name]) for length in LENGTHS)]
        for (way, shape), label in LABELS.items()
    ]
    return [
        *_columns(["what it costs", "Ray", "Executor", "Pool"], costs),
        *("", *_columns(["Ray alone", ""], of_ray)),
        *("", *_columns(["Ray's object store, an array of", "put", "get", "a copy"], objects)),
        *("", "times as fast as a loop, by the length of a task"),
        *_columns(["", *(length.name for length in LENGTHS)], speedups),
    ]


def _break_evens(lesson: Lesson) -> list[str]:
    rows = [[label, length(lesson.break_evens[way][shape])] for (way, shape), label in LABELS.items()]
    width = max(len(label) for label in LABELS.values())
    return [
        "break-even: a task must take so long before this is faster than a loop",
        *(f"{label:<{width}}  {words}" for label, words in rows),
    ]


def length(break_even: BreakEven) -> str:
    """`1.44 ms (1.31 to 1.58 ms)`, `at most 0.21 ms: …`, or on which side of the lengths it lies."""
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
    loop = lesson.costs[LOOP][record.ONE_BY_ONE]
    notes = [
        "Executor: concurrent.futures.ProcessPoolExecutor. Pool: multiprocessing.Pool. Both start processes by spawn.",
        f"A call of a function, which is an empty task of a loop, takes {seconds(loop.centre)}.",
        "± is half of a 95 % interval over the repeats; the break-evens have theirs in parentheses. A start is in no "
        "speedup. In batches: one for each CPU. Of tasks of 1 s each CPU has one: that is a batch.",
        f"Ray runs tasks at niceness {kept.repeats[0].blocks[RAY].niceness}, the others at "
        f"{kept.repeats[0].blocks[LOOP].niceness}: beside other programs Ray would seem slower than it is.",
    ]
    if any(repeat.use is None for repeat in kept.repeats):
        notes.append("What other programs took of the CPUs is not known on this system.")
    return [line for note in notes for line in _wrapped(note)]


def _columns(title: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A label on the left, numbers on the right of their columns."""
    lines = [title, *rows]
    first, *others = [max(len(line[place]) for line in lines) for place in range(len(title))]
    return [
        "  ".join(
            [line[0].ljust(first), *(cell.rjust(width) for cell, width in zip(line[1:], others, strict=True))]
        ).rstrip()
        for line in lines
    ]


def _wrapped(paragraph: str, indent: str = "") -> list[str]:
    return textwrap.wrap(paragraph, WIDTH, subsequent_indent=indent)


def _cell(interval: Interval | None) -> str:
    return f"{seconds(interval.centre)} {_half(interval)}" if interval else "-"


def _times(interval: Interval) -> str:
    return f"{interval.centre:.2f} {_half(interval)}"


def _half(interval: Interval) -> str:
    """Half the width of an interval of logarithms: ±5%."""
    return f"±{math.sqrt(interval.upper / interval.lower) - 1:.0%}"


def seconds(value: float) -> str:
    """Three digits and a unit: `1.44 ms`."""
    unit, scale = next((pair for pair in UNITS if value >= pair[1]), UNITS[-1])
    shown = value / scale
    places = 2 if shown < 10 else 1 if shown < 100 else 0
    return f"{shown:.{places}f} {unit}"
