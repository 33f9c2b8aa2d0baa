"""Draws README's pictures from a result, for light and dark pages: `python -m cli.docs.picture results/local/latest`.

Only maintainers run it, after a measurement on a quiet machine whose figures README states. A page's theme need not be
that of the system, which alone a picture knows. So each picture is two files, and README names both in a `<picture>`.
"""

import re
import sys
from pathlib import Path

from compare.schema import Comparison
from report.pictures import as_file, first
from report.stored import COMPARISON
from training.contract.codec import write_whole

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("end-to-end-over-epochs", "where-the-time-goes")
"""Names of the first two pictures of a report, without the endings `-light.svg` and `-dark.svg`."""
_DARK = re.compile(r"@media screen and \(prefers-color-scheme: dark\) \{ (:root \{.*?\}) \}", re.DOTALL)
"""Matches the colours of the dark theme in a picture that follows the system's theme."""


def main(arguments: list[str]) -> int:
    """Write the first pictures of the result in a folder into the docs, and return the exit status."""
    (folder,) = arguments
    comparison = Comparison.from_json((Path(folder) / COMPARISON).read_text(encoding="utf-8"))
    for name, panel in zip(NAMES, first(comparison), strict=True):
        for theme, text in themed(as_file(panel)).items():
            write_whole(DOCS / f"{name}-{theme}.svg", text)
    return 0


def themed(svg: str) -> dict[str, str]:
    """Return two versions of a picture that follows the system's theme: one always light, one always dark."""
    return {"light": _DARK.sub("", svg), "dark": _DARK.sub(r"\1", svg)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
