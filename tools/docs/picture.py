"""Draws README's pictures from a result: `python -m tools.docs.picture results/local/latest`.

Only maintainers run it, after a measurement on a quiet machine whose figures README states.
"""

import re
import sys
from pathlib import Path

from compare.schema import Comparison
from report import pictures
from report.pictures import Panel, first
from report.stored import COMPARISON
from training.contract.codec import write_whole

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("end-to-end-over-epochs.svg", "where-the-time-goes.svg")
"""Of the first pictures of a report."""
_PAGE = Path(pictures.__file__).with_name("page.html.j2")
_THEME = re.compile(r":root \{.*?(?=@media print)", re.DOTALL)
"""The colours of the report's page, light and dark."""


def main(arguments: list[str]) -> int:
    """Write the pictures of the result in a folder."""
    (folder,) = arguments
    comparison = Comparison.from_json((Path(folder) / COMPARISON).read_text(encoding="utf-8"))
    for name, panel in zip(NAMES, first(comparison), strict=True):
        write_whole(DOCS / name, picture(panel))
    return 0


def picture(panel: Panel) -> str:
    """A picture of a report as an SVG file that follows light and dark themes.

    Raises ValueError where it could not be drawn.
    """
    if panel.svg is None:
        raise ValueError(panel.problem)
    theme = _THEME.search(_PAGE.read_text(encoding="utf-8"))
    assert theme  # noqa: S101 - the page is this project's own
    style = f"<style>{theme[0]}text {{ font-family: system-ui, sans-serif; }}</style>"
    opening = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    return re.sub(r">", f">{style}", str(panel.svg).replace("<svg ", opening, 1), count=1) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
