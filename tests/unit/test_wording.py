"""Sentences that users read stand in `tests/golden`, not in assertions: there a person can review and change them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden import read
from tests.unit.test_imports import parsed

ROOT = Path(__file__).resolve().parents[2]
WORDS = 4
"""A literal of so many words is a sentence, or a part of one, that somebody may want to improve."""
PROGRAMS = r"\\?\./rwi|pulumi|uv|git|kubectl|minikube|docker|curl|ssh|aws|gcloud"
COMMAND = re.compile(rf"(^|[^\w\s])\s*([A-Z]+=\S+ )?(({PROGRAMS}) [\w./=-]+( |$)|\S*python -m )")
"""Where a literal is no longer read, but typed: a line that fixes something is asserted as it is."""
EXEMPT = re.compile("# not prose: .")
"""On one of the literal's lines, with what it is: code, YAML, what another program prints."""


def text_of(node: ast.AST) -> Iterator[tuple[ast.Constant | ast.JoinedStr, str]]:
    """The string literals in it; a field of an f-string counts as one word."""
    match node:
        case ast.Constant(value=str(text)):
            yield node, text
        case ast.JoinedStr(values=parts):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from text_of(child)


def assertions(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and sentence of each `assert` and each `match=` with a literal of so many words."""
    lines = source.splitlines()
    for node in ast.walk(tree):
        asserted: list[ast.AST] = [node.test] if isinstance(node, ast.Assert) else []
        if isinstance(node, ast.Call):
            asserted = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
        for part in asserted:
            for literal, text in text_of(part):
                exempt = any(map(EXEMPT.search, lines[literal.lineno - 1 : literal.end_lineno]))
                if len(COMMAND.split(text)[0].split()) >= WORDS and not exempt:
                    yield literal.lineno, text
                    break


def of_all_tests() -> list[str]:
    """The assertions that hold a sentence, each with its place."""
    return [
        f"{file.relative_to(ROOT)}:{line}: {text!r}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for line, text in assertions(file.read_text(encoding="utf-8"), parsed(file))
    ]


def test_assertions_hold_no_sentences() -> None:
    """A better sentence would break tests that are about something else.

    Assert a key, a reason's code, a number, the line that fixes it; for a sentence there is `wording`.
    """
    sentences = of_all_tests()

    assert [] == sentences, "\n".join(sentences)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("assert 'this is a sentence' in shown", 1),
        ("assert f'there is no {name}' == shown", 1),
        ("assert 'two of' in a and 'one of these here' in b and 'as many as four' in c", 1),
        ("with pytest.raises(ValueError, match='this is a sentence'): pass", 1),
        ("assert 'three words alone' in shown", 0),
        ("assert 'fix:     pulumi config set workers 2' in shown", 0),
        ("assert './rwi jobs stop train-1 --stack ci' in shown", 0),
        ("assert 'so that it fits: pulumi config set workers 2' in shown", 1),
        ("assert 'kind: Job, name: a, x: y' in shown  # not prose: YAML", 0),
        ("expected = 'this is a sentence'", 0),
        ("assert seen, 'this is what pytest shows'", 0),
    ],
)
def test_what_counts(source: str, count: int) -> None:
    """Four words in a row of one literal, wherever it stands in the assertion, but for commands."""
    assert count == len(list(assertions(source, ast.parse(source))))


def test_each_section_is_of_a_test_that_is_there() -> None:
    """A test that was renamed or removed leaves no sentence behind that the program no longer says."""
    text_of_file = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    gone = []
    for golden in sorted((ROOT / "tests/golden").glob("*.txt")):
        for node, _ in read(golden.read_text(encoding="utf-8")):
            file, name = node.split("::", 1)
            function = name.split("::")[-1].split("[")[0]
            if f"def {function}(" not in text_of_file.get(file, ""):
                gone.append(f"{golden.name}: {node}")

    assert not gone
