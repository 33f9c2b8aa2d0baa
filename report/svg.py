"""Pictures as inline SVG: one frame for all of them, coloured by the page's CSS so that they follow light and dark.

matplotlib draws with the stand-in colours below; they become CSS variables afterwards. No pixels, no fonts, no links.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from training.contract.arms import ARMS

INK, MUTED, GRID, HEAT, CARD = "#010100", "#010200", "#010300", "#010400", "#010500"
ARM_COLOURS = {name: f"#02{number:02x}00" for number, name in enumerate(ARMS, start=1)}
_LINES: tuple[Any, ...] = ((0, (4, 2)), (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)), "solid", (0, (8, 2)), "dashdot")
ARM_LINES = dict(zip(ARMS, cycle(_LINES), strict=False))
ARM_MARKERS = dict(zip(ARMS, cycle("oDs^vP"), strict=False))
SERIES = tuple(f"#03{number:02x}00" for number in range(1, 7))
"""Colours of the lines of a sweep, and of other things that are no arm. No arm has one of these colours."""
PARTS = tuple(f"#04{number:02x}00" for number in range(1, 6))
"""Colours of the parts of the whole time of a run."""

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    HEAT: "--heat",
    CARD: "--card",
    **{colour: f"--arm-{(number - 1) % 6 + 1}" for number, colour in enumerate(ARM_COLOURS.values(), start=1)},
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)},
    **{colour: f"--part-{number}" for number, colour in enumerate(PARTS, start=1)},
}
_STYLE: dict[str, Any] = {
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.columnspacing": 1.2,
    "legend.handlelength": 2.2,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.color": INK,
    "text.parse_math": False,  # a class may be named $x^{$, which is no formula
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.5,
}
WIDTH_INCHES = 3.9
"""Width of a picture: 338 CSS pixels, which a phone has. Labels are then at least 10 pixels high."""


class Picture:
    """A picture that is being drawn. `markup` is its `<svg>` element, once `drawing` has ended."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self.figure = figure
        self.axes = axes
        self.markup = ""

    def legend(self, columns: int = 3) -> None:
        """Add a legend of everything that was drawn with a label. It stands below the axes, where it hides nothing."""
        handles, labels = self.axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        if unique:
            self.figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=columns)


@contextmanager
def drawing(name: str, description: str, labels: tuple[str, str], *, height: float = 2.9) -> Iterator[Picture]:
    """Return a context manager that yields a picture to draw into. `labels`: the names of the axes with units. `name`:
    a prefix that makes the picture's ids unique in the page."""
    with mpl.rc_context(cast("Any", _STYLE)):
        figure = Figure(figsize=(WIDTH_INCHES, height))
        picture = Picture(figure, figure.add_subplot())
        picture.axes.set_xlabel(labels[0])
        picture.axes.set_ylabel(labels[1])
        yield picture
        picture.markup = _inline(_text(figure), name, description)


def _text(figure: Figure) -> str:
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return out.getvalue().decode()


def _inline(text: str, name: str, description: str) -> str:
    """Return the `<svg>` element alone, with own ids and the theme's colours, and without any address or name space."""
    text = text[text.index("<svg") :].rstrip()
    text = re.sub(r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # In tags alone: between them are names that may look like anything, with < and > escaped
    text = re.sub(r"<[^>]*>", lambda tag: _inline_tag(tag[0], name), text)
    opening = f'<svg role="img" aria-label="{description}" '
    return text.replace("<svg ", opening, 1)


def _inline_tag(tag: str, name: str) -> str:
    tag = re.sub(r'\s*xmlns(:xlink)?="[^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', tag)
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", tag)
    tag = re.sub(r"#0[1234][0-9a-f]{2}00\b", lambda match: f"var({_VARIABLES[match[0]]})", tag)
    return re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", tag)


def numbered(values: Sequence[Any]) -> list[tuple[Any, str]]:
    """Return each value with a colour. The colours repeat after the last one."""
    return [(value, SERIES[index % len(SERIES)]) for index, value in enumerate(values)]
