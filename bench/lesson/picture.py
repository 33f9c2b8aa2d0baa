"""The lesson's picture: how many times as fast as a loop, over the length of a task. It decides nothing."""

from typing import Any

from matplotlib.ticker import NullFormatter, NullLocator

from bench.lesson.judge import Lesson
from bench.lesson.record import EACH, EXECUTOR, LENGTHS, POOL, RAY
from bench.lesson.show import LABELS
from report.pictures import as_file, drawn
from report.svg import ARM_COLOURS, INK, MUTED, SERIES, drawing

COLOURS = {RAY: ARM_COLOURS["ray"], POOL: SERIES[0], EXECUTOR: SERIES[1]}
TITLE = "Times as fast as a loop, by the length of a task"
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8)


def picture(lesson: Lesson, cpus: int) -> str:
    """The picture as an SVG file. Raises ValueError where it could not be drawn."""
    return as_file(drawn(TITLE, lambda: _draw(lesson, cpus)))


def _draw(lesson: Lesson, cpus: int) -> str:
    lengths = [length.seconds for length in LENGTHS]
    with drawing("lesson", TITLE, ("length of a task", "times as fast as a loop"), height=3.6) as picture:
        picture.axes.set_xscale("log")
        picture.axes.set_yscale("log")
        picture.axes.axhline(1, color=INK, linewidth=0.9)
        picture.axes.axhline(cpus, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.5)), label=f"{cpus} CPUs")
        for (way, shape), label in LABELS.items():
            intervals = [lesson.speedups[way][shape][length.name] for length in LENGTHS]
            centres = [interval.centre for interval in intervals]
            ends = [
                [interval.centre - interval.lower for interval in intervals],
                [interval.upper - interval.centre for interval in intervals],
            ]
            style: dict[str, Any] = {"color": COLOURS[way], "capsize": 2, "label": label}
            style |= {"fmt": "o-"} if shape == EACH else {"fmt": "s--", "markersize": 3}
            picture.axes.errorbar(lengths, centres, yerr=ends, **style)
            if even := lesson.break_evens[way][shape].seconds:
                across = [[even.centre - even.lower], [even.upper - even.centre]]
                picture.axes.errorbar([even.centre], [1], xerr=across, fmt="D", color=COLOURS[way], capsize=3)
        low, high = picture.axes.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        picture.axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        picture.axes.set_xticks(lengths, [length.name for length in LENGTHS])
        for axis in (picture.axes.xaxis, picture.axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        picture.legend(columns=2)
    return picture.markup
