"""The pictures that answer, from numbers of `report.clocks` and `report.spot`: whole clocks over epochs, where their
time went, and the cost on spot capacity."""

import textwrap
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from compare.words import shown_seconds, time_unit
from report import clocks, svg
from report.clocks import Clocks, Line, Meeting
from report.plots import LONGEST_TITLE
from report.spot import Curves
from report.svg import ARM_COLOURS, ARM_LINES, ARM_MARKERS, INK, MUTED, drawing

COLOURS = dict(zip(clocks.PARTS, svg.PARTS, strict=True))
STEPS = 60
"""Number of points at which the edges of a band are computed. The lowest and highest repeat change along the band."""
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}
MOST_RATIO = 1.3
"""The highest ratio of the cost on spot to the cost on demand that is drawn."""
HEIGHT_INCHES = 3.5
"""Height of the pictures with lines. It is also the height of the picture with the bars of four arms."""


def over_epochs(shown: Clocks) -> str:
    """Return a picture of whole times over epochs: a line for each arm, a band of its repeats, and the break-even."""
    highest = max(line.at(shown.last)[2] for line in shown.lines.values())
    unit, name = time_unit(highest)
    labels = (f"{shown.passed}s", f"{UNITS[name]}, start to result")
    title = f"End to end over {shown.passed}s, by arm"
    with drawing("clocks", title, labels, height=HEIGHT_INCHES) as picture:
        axes = picture.axes
        for arm, line in shown.lines.items():
            _line(axes, arm, line, shown, unit)
        axes.set(xlim=(0, shown.last), ylim=(0, 1.12 * highest / unit))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.axvline(shown.measured, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        _note(axes, "measured", shown.measured, shown.last, (1, -9))
        if shown.meeting:
            _mark(axes, shown.meeting, shown.last)
        picture.legend(columns=4)
    return picture.markup


def by_part(parts: Mapping[str, Mapping[str, float]], titles: Mapping[str, str]) -> str:
    """Return a picture of the median seconds of each arm from start to result, with a colour for each part.

    Args:
        parts: By arm, the seconds of `clocks.PARTS`, which are drawn one after another.
        titles: What each arm is, in words.
    """
    longest = max(sum(of_arm.values()) for of_arm in parts.values())
    unit, name = time_unit(longest)
    height = 1.0 + 0.62 * len(parts)
    with drawing("time", "Where the time went, by arm", (f"{UNITS[name]}, median run", ""), height=height) as picture:
        axes = picture.axes
        for row, of_arm in enumerate(parts.values()):
            ended = 0.0
            for part, seconds in of_arm.items():
                axes.barh(row, seconds / unit, left=ended, height=0.62, color=COLOURS[part])
                ended += seconds / unit
            startup = shown_seconds(of_arm[clocks.PARTS[0]])
            label = f"{shown_seconds(sum(of_arm.values()))}\nstart-up {startup}"
            axes.text(ended + 0.02 * longest / unit, row, label, va="center", fontsize=8.5, linespacing=1.45)
        axes.set_xlim(0, 1.65 * longest / unit or 1.0)
        names = [f"{arm}\n{textwrap.fill(titles[arm], LONGEST_TITLE)}" for arm in parts]
        axes.set_yticks(range(len(parts)), names, fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        samples = [Patch(color=COLOURS[part], label=part) for part in clocks.visible(parts)]
        columns = min(3, len(samples))
        picture.figure.legend(handles=samples, loc="outside lower center", ncols=columns or 1)
    return picture.markup


def on_spot(shown: Curves) -> str:
    """Return a picture of the cost on spot ÷ the cost on demand, over interruptions: a line for each arm, marked where
    spot stops paying, and the rate of the stack's settings."""
    labels = ("interruptions per hour of one worker", "cost on spot ÷ on demand")
    with drawing("spot", "Cost on spot capacity over interruptions", labels, height=HEIGHT_INCHES) as picture:
        axes, last = picture.axes, shown.rates[-1]
        axes.axhline(1, color=INK, linewidth=0.9)
        for arm, ratios in shown.ratios.items():
            axes.plot(shown.rates, ratios, color=ARM_COLOURS[arm], linestyle=ARM_LINES[arm], label=arm)
            axes.plot([shown.stops[arm]], [1], color=ARM_COLOURS[arm], marker=ARM_MARKERS[arm], markersize=6)
        axes.set(xlim=(0, last), ylim=(0, MOST_RATIO))
        axes.axvline(shown.own, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        _note(axes, f"this stack: {shown.own:g}", shown.own, last, (0, 5))
        picture.legend(columns=4)
    return picture.markup


def _line(axes: Axes, arm: str, line: Line, shown: Clocks, unit: float) -> None:
    epochs = [shown.last * step / STEPS for step in range(STEPS + 1)]
    low, mean, high = zip(*(line.at(each) for each in epochs), strict=True)
    colour = ARM_COLOURS[arm]
    axes.fill_between(epochs, [s / unit for s in low], [s / unit for s in high], color=colour, alpha=0.2, linewidth=0)
    axes.plot(epochs, [s / unit for s in mean], color=colour, linestyle=ARM_LINES[arm], label=arm)


def _mark(axes: Axes, meeting: Meeting, last: int) -> None:
    """Mark the epochs in which Ray may catch up, with 95 % confidence, and the number that the text names."""
    if meeting.possibly:
        axes.axvspan(meeting.possibly, meeting.surely or last, color=MUTED, alpha=0.18, linewidth=0)
    is_sure = meeting.surely is not None and meeting.surely <= last
    epochs = meeting.surely if meeting.surely and is_sure else meeting.probably
    axes.axvline(epochs, color=INK, linewidth=0.9)
    text = f"Ray ahead from {epochs:,}" if is_sure else f"Ray meets {meeting.alternative} at about {epochs:,}"
    _note(axes, text, epochs, last, (1, -20) if epochs < last / 2 else (0, 5))  # where there are no lines


def _note(axes: Axes, text: str, epochs: float, last: float, height: tuple[float, float]) -> None:
    """Write a note beside a vertical line, on the side with more room. `height`: a share of the axes, and points above
    that."""
    side = 1 if epochs < last / 2 else -1
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    place |= {"xytext": (4 * side, height[1]), "ha": "left" if side > 0 else "right"}
    axes.annotate(text, (epochs, height[0]), fontsize=8, **place)
