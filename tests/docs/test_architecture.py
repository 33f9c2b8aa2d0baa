"""The picture of the graph in docs/architecture.md shows what the program declares, and nothing else."""

import re
from pathlib import Path

from tests.docs import markdown

URNS = Path(__file__).resolve().parents[1] / "unit/urns"
DOCUMENT = "docs/architecture.md"


def declared() -> set[tuple[str, str]]:
    """Type and name of every resource that the program declares for any stack; repeats as `-r`."""
    lines = [line for path in sorted(URNS.glob("*.txt")) for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.rsplit("::", 1) for line in lines]
    return {(types.rpartition("$")[2], re.sub(r"-\d+(?=$|-)", "-r", name)) for types, name in pairs}


def picture() -> str:
    """The first Mermaid block."""
    found = markdown.blocks(DOCUMENT, markdown.read(DOCUMENT))
    return next("\n".join(block.lines) for block in found if block.language == "mermaid")


def types_in(text: str) -> set[str]:
    """The resource types that a text names: package:module:Type."""
    return set(re.findall(r"[\w-]+:[\w./-]+:[A-Z]\w*|pulumi:providers:\w+", text))


def test_every_type_of_the_program_is_in_the_picture() -> None:
    """Components and resources of every stack."""
    assert {kind for kind, _ in declared()} <= types_in(picture())


def test_the_picture_has_no_type_that_the_program_lacks() -> None:
    """A type that is gone, or misspelt."""
    known = {kind for kind, _ in declared()} | {"pulumi:pulumi:Stack"}

    assert set() == types_in(picture()) - known


def test_every_name_of_the_program_is_in_the_picture() -> None:
    """Names as they stand in `pulumi up`'s lines."""
    words = set(re.findall(r"[\w-]+", picture()))

    assert set() == {name for _, name in declared()} - words


def test_every_file_of_a_component_is_named() -> None:
    """Each module of infra that makes a component stands in the table."""
    text = markdown.read(DOCUMENT)
    infra = sorted((markdown.ROOT / "infra").rglob("*.py"))
    makers = [path for path in infra if "pulumi.ComponentResource)" in path.read_text(encoding="utf-8")]

    assert [] == [path.name for path in makers if str(path.relative_to(markdown.ROOT)) not in text]
