"""The project's documents as text: their fenced blocks, inline code, links and headings. Judges nothing.

Commands stand in fences of `sh` or `bash`, which a list may indent. A word after the language says how the docs test
treats the block: `no-run` (checked, not run; the reason follows the word) or `fails` (run, and it has to fail).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")
SHELLS = ("sh", "bash")

_FENCE = re.compile(r"^ *```(?P<language>\w*)[ ]*(?P<info>.*)$")
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


@dataclass(frozen=True)
class Place:
    """A line of a document."""

    document: str
    line: int

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Block:
    """A fenced block; `place` is its first line's."""

    place: Place
    language: str
    info: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command as it is pasted, continued lines joined."""

    place: Place
    text: str
    info: str = ""


def documents() -> list[str]:
    """Every document that people read, relative to the project."""
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    return [*TOP, *found]


def read(document: str) -> str:
    """Its text."""
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a document; ValueError for one that is not closed."""
    inside: tuple[Place, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if inside is None and fence:
            inside, lines = (Place(document, number + 1), fence["language"], fence["info"].strip()), []
        elif inside is not None and line.strip() == "```":
            yield Block(*inside, tuple(lines))
            inside = None
        elif inside is not None:
            lines.append(line.strip() if inside[1] in SHELLS else line)
    if inside is not None:
        raise ValueError(f"{inside[0]}: a fence is not closed")


def commands(document: str, text: str) -> list[Command]:
    """The commands of all shell blocks, in the order in which they stand."""
    return [found for block in blocks(document, text) if block.language in SHELLS for found in _commands_of(block)]


def _commands_of(block: Block) -> Iterator[Command]:
    begun, begun_at = "", 0
    for offset, line in enumerate(block.lines):
        begun_at = begun_at if begun else offset
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        whole, begun = begun + line, ""
        if whole.strip() and not whole.lstrip().startswith("#"):
            yield Command(Place(block.place.document, block.place.line + begun_at), whole.strip(), block.info)
    if begun:
        raise ValueError(f"{block.place}: its last line ends with a backslash")


def inline_code(document: str, text: str) -> list[Command]:
    """What stands in backticks outside of blocks."""
    return [
        Command(Place(document, number), code)
        for number, line in _prose(text)
        for code in _INLINE.findall(line.replace("\\|", "|"))
    ]


def links(document: str, text: str) -> list[Command]:
    """The addresses of all links outside of blocks; a link's text may go over lines."""
    prose = dict(_prose(text))
    whole = "\n".join(prose.get(number, "") for number in range(1, len(text.splitlines()) + 1))
    return [Command(Place(document, whole.count("\n", 0, its.end()) + 1), its[1]) for its in _LINK.finditer(whole)]


def anchors(text: str) -> set[str]:
    """What links into a document can name, made from its headings as GitHub makes them."""
    found: set[str] = set()
    for _, line in _prose(text):
        heading = _HEADING.match(line)
        if heading:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            found.add(next(each for each in _numbered(name) if each not in found))
    return found


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        yield f"{name}-{number}"
        number += 1


def _prose(text: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line
