"""Writes the list that claim A rests on into docs/own-script.md: `python -m cli.docs.same_work_table`. A test compares
the page with what this writes."""

import sys
from pathlib import Path

from cli.docs.config_table import between
from training.contract.codec import write_whole
from training.workloads.script.work_items import ITEMS, Item

PATH = Path(__file__).resolve().parents[2] / "docs" / "own-script.md"
MARKERS = "<!-- same work table -->\n", "<!-- end of same work table -->\n"


def main() -> int:
    """Rewrite the table in its page, and return the exit status."""
    write_whole(PATH, in_page(PATH.read_text(encoding="utf-8")))
    return 0


def in_page(page: str) -> str:
    """Return the page with its table rewritten; ValueError when it has no markers."""
    rows = [f"| `{item.name}` | {item.title} | {_frameworks(item)} |\n" for item in ITEMS]
    return between(page, MARKERS, f"| item | what | seen of |\n| --- | --- | --- |\n{''.join(rows)}")


def _frameworks(item: Item) -> str:
    seen = {"PyTorch": item.torch, "Keras": item.keras, "boosters": item.boosters}
    return "all" if all(seen.values()) else ", ".join(name for name, way in seen.items() if way)


if __name__ == "__main__":
    sys.exit(main())
