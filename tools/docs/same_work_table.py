"""Writes the list that claim A rests on into docs/own-script.md.

Only maintainers run it: `python -m tools.docs.same_work_table`. A test compares the page with what this writes.
"""

import sys
from pathlib import Path

from training.contract.codec import write_whole
from training.workloads.script.same_work import ITEMS

PATH = Path(__file__).resolve().parents[2] / "docs" / "own-script.md"
BEGIN, END = "<!-- same work table -->\n", "<!-- end of same work table -->\n"


def main() -> int:
    """Write the page."""
    write_whole(PATH, in_page(PATH.read_text(encoding="utf-8")))
    return 0


def in_page(page: str) -> str:
    """The page with its table rewritten; ValueError when it has no markers."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PATH.name} has no lines {BEGIN!r} and {END!r}: the table goes between them")
    rows = [f"| `{item.name}` | {item.title} | {item.torch} | {item.keras} | {item.boosters} |\n" for item in ITEMS]
    titles = (
        "| item | what | PyTorch | Keras (`fit`) | XGBoost, LightGBM (`train`) |\n| --- | --- | --- | --- | --- |\n"
    )
    return f"{head}{begin}{titles}{''.join(rows)}{end}{tail}"


if __name__ == "__main__":
    sys.exit(main())
