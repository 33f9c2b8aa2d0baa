"""Writes the list that claim A rests on into docs/own-script.md.

Only maintainers run it: `python -m cli.docs.same_work_table`. A test compares the page with what this writes.
"""

import sys
from pathlib import Path

from cli.docs.config_table import between
from training.contract.codec import write_whole
from training.workloads.script.work_items import ITEMS

PATH = Path(__file__).resolve().parents[2] / "docs" / "own-script.md"
MARKERS = "<!-- same work table -->\n", "<!-- end of same work table -->\n"
MARKERS_OF_ERRORS = "<!-- errors table -->\n", "<!-- end of errors table -->\n"


def main() -> int:
    """Write the page."""
    write_whole(PATH, in_page(PATH.read_text(encoding="utf-8")))
    return 0


def in_page(page: str) -> str:
    """Return the page with its tables rewritten; ValueError when it has no markers."""
    rows = [f"| `{item.name}` | {item.title} | {item.torch} | {item.keras} | {item.boosters} |\n" for item in ITEMS]
    titles = (
        "| item | what | PyTorch | Keras (`fit`) | XGBoost, LightGBM (`train`) |\n| --- | --- | --- | --- | --- |\n"
    )
    errors = [f"| `{item.name}` | {item.right} | {item.wrong} |\n" for item in ITEMS]
    titles_of_errors = (
        "| item | where a correct script may differ | where other work may be equal |\n| --- | --- | --- |\n"
    )
    page = between(page, MARKERS, f"{titles}{''.join(rows)}")
    return between(page, MARKERS_OF_ERRORS, f"{titles_of_errors}{''.join(errors)}")


if __name__ == "__main__":
    sys.exit(main())
