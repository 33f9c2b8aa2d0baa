"""`started_by_name.toml` has each module that a string starts or loads, by whom; docs/architecture.md has the types."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from infra.image.spec import ENTRIES
from tests.unit.test_imports import FILES, PROJECT, module_of

DOCUMENT = PROJECT / "docs" / "architecture.md"
NAME = re.compile(r"(training|infra|report|bench|cli)(\.\w+)+")
AN_ARM = "training.<arm>"
NO_START = {
    *(("infra.image.spec", name) for name in ENTRIES),  # what a pod's image holds
    ("training.contract.provenance", AN_ARM),  # what a run's hash covers
    ("report.stored", "report.html"),  # a file
}
"""Names that nobody starts or loads where they stand."""
NOT_STARTED = ("prog", "description", "help")
"""Arguments of a command line's own texts."""


def named_in_code() -> set[tuple[str, str]]:
    """Modules, each with a module of the project that a string in it names: alone, or after `-m`."""
    names = {module_of(path) for path in FILES}
    pairs = {(module_of(path), name) for path in FILES for name in _named(path)}
    return {pair for pair in pairs if pair[1] in {AN_ARM, *names} - {pair[0]}} - NO_START


def _named(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {id(inner) for node in ast.walk(tree) for inner in _only_read(node)}
    for node in ast.walk(tree):
        if id(node) in texts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.search(r"-m (\S+)$", node.value)
            yield from [found[1] if found else node.value] if NAME.fullmatch(found[1] if found else node.value) else []
        elif isinstance(node, ast.JoinedStr) and getattr(node.values[0], "value", "") == "training.":
            yield AN_ARM


def _only_read(node: ast.AST) -> Iterator[ast.AST]:
    """Texts that a person reads: docstrings, and what a command line says of itself."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    elif isinstance(node, ast.keyword) and node.arg in NOT_STARTED:
        yield from ast.walk(node.value)


def table() -> dict[tuple[str, str], str]:
    """Where a module runs, by its starter and its own name."""
    places = tomllib.loads(Path(__file__).with_name("started_by_name.toml").read_text(encoding="utf-8"))
    return {
        (starter, name): where
        for where, modules in places.items()
        for name, starters in modules.items()
        for starter in starters
    }


def test_every_module_that_a_string_names_is_in_the_table() -> None:
    """Control leaves an import's way there: whoever follows it finds the other end in one place."""
    assert named_in_code() == table().keys()


def test_pods_start_what_their_image_holds() -> None:
    """The image is packed from these names, and what they import."""
    in_pods = {name for (_, name), where in table().items() if where == "a pod"}

    assert set(ENTRIES) <= in_pods


def test_the_types_are_where_the_document_says() -> None:
    """One line each, with the file that defines it."""
    types = re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    kinds = {"Settings", "Place", "RunPlan", "Arm", "Workload", "TrainingResult", "Comparison"}

    assert kinds <= {name for name, _ in types}
    assert [] == [name for name, file in types if f"class {name}" not in (PROJECT / file).read_text(encoding="utf-8")]
