"""Writes the config table of README and the declarations of Pulumi.yaml from `infra.settings.table`, or checks them.

Only what stands between the marker lines of each is touched.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from infra.settings.key import TARGETS, Key
from infra.settings.table import every_key

ROOT = Path(__file__).resolve().parents[2]


def table() -> str:
    """The config table, in Markdown."""
    rows = [_row(key) for key in every_key().values()]
    return "\n".join(["| key | default | allowed | meaning |", "|---|---|---|---|", *rows])


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", _default(key), key.rule.allowed, _meaning(key))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(key: Key) -> str:
    """The default, or those of each target where they differ."""
    by_target = {target: key.default_for(target) for target in TARGETS}
    words = {target: f"`{text}`" if text else key.derived for target, text in by_target.items()}
    if len(set(words.values())) == 1:
        return words[TARGETS[0]]
    return ", ".join(
        f"{word} ({', '.join(t for t in TARGETS if words[t] == word)})" for word in dict.fromkeys(words.values())
    )


def _meaning(key: Key) -> str:
    """What the key means, for which targets, and an example where the default is none."""
    only = "" if key.targets == TARGETS else f" ({' and '.join(key.targets)} only)"
    example = f"; for example `{key.example}`" if key.example else ""
    return f"{key.help}{only}{example}"


def declarations() -> str:
    """The keys as Pulumi.yaml declares them, without types: JSON strings are YAML strings."""
    return "\n".join(
        f"  {key.name}:\n    description: {_quoted(key.help)}\n    default: {_quoted(key.declared_default())}"
        for key in every_key().values()
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


DOCUMENTS: dict[str, tuple[str, str, Callable[[], str]]] = {
    "README.md": ("<!-- config table -->", "<!-- end of config table -->", table),
    "Pulumi.yaml": ("  # config table: made by tools/docs/config_table.py", "  # end of config table", declarations),
}
"""By file: the marker lines, and what stands between them."""


def rendered(name: str, text: str) -> str:
    """The text of a document with the part between its markers made anew; ValueError when it has no markers."""
    begin, end, make = DOCUMENTS[name]
    head, found_begin, rest = text.partition(f"{begin}\n")
    _, found_end, tail = rest.partition(f"{end}\n")
    if not (found_begin and found_end):
        raise ValueError(f"{name} has no lines {begin!r} and {end!r}: the table goes between them")
    return f"{head}{found_begin}{make()}\n{found_end}{tail}"


def main(arguments: list[str]) -> int:
    """Write both documents, or with `--check` say which are not as they would be written."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs.config_table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when something would change")
    check = parser.parse_args(arguments).check
    stale = [name for name in DOCUMENTS if _update(ROOT / name, write=not check)]
    for name in stale:
        print(f"{name}: config table {'differs; run python -m tools.docs.config_table' if check else 'written'}")
    return 1 if check and stale else 0


def _update(path: Path, *, write: bool) -> bool:
    """Whether the document's text was not as rendered; written if asked."""
    text = path.read_text(encoding="utf-8")
    wanted = rendered(path.name, text)
    if write and text != wanted:
        path.write_text(wanted, encoding="utf-8")
    return text != wanted


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
