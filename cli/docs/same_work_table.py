"""Writes the list that claim A rests on into docs/own-script.md: `python -m cli.docs.same_work_table`. A test compares
the page with what this writes."""

import sys
import textwrap
from pathlib import Path

from cli.docs.config_table import between
from training.contract.codec import write_whole
from training.workloads.script.work_items import ITEMS, Item

PATH = Path(__file__).resolve().parents[2] / "docs" / "own-script.md"
MARKERS = "<!-- same work table -->\n", "<!-- end of same work table -->\n"
WIDTH = 127
"""Characters of a line of the page."""


def main() -> int:
    """Rewrite the list in its page, and return the exit status."""
    write_whole(PATH, in_page(PATH.read_text(encoding="utf-8")))
    return 0


def in_page(page: str) -> str:
    """Return the page with its list rewritten; ValueError when it has no markers."""
    groups: dict[str, list[str]] = {}
    for item in ITEMS:
        groups.setdefault(_frameworks(item), []).append(f"`{item.name}` ({item.title})")
    lines = [_bullet(f"- **{frameworks}**: {'; '.join(items)}") for frameworks, items in groups.items()]
    return between(page, MARKERS, "\n" + "".join(lines) + "\n")


def _bullet(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _frameworks(item: Item) -> str:
    seen = {"PyTorch": item.torch, "Keras": item.keras, "boosters": item.boosters}
    return "all" if all(seen.values()) else ", ".join(name for name, way in seen.items() if way)


if __name__ == "__main__":
    sys.exit(main())
