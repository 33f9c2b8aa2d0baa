"""Draws README's pictures from a result: `python -m cli.docs.picture results/local/latest`.

Only maintainers run it, after a measurement on a quiet machine whose figures README states.
"""

import sys
from pathlib import Path

from compare.schema import Comparison
from report.pictures import as_file, first
from report.stored import COMPARISON
from training.contract.codec import write_whole

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("end-to-end-over-epochs.svg", "where-the-time-goes.svg")
"""Of the first pictures of a report."""


def main(arguments: list[str]) -> int:
    """Write the pictures of the result in a folder."""
    (folder,) = arguments
    comparison = Comparison.from_json((Path(folder) / COMPARISON).read_text(encoding="utf-8"))
    for name, panel in zip(NAMES, first(comparison), strict=True):
        write_whole(DOCS / name, as_file(panel))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
