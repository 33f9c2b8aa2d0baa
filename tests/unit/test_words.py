"""Names in production code say what they hold: a name that fits any value is refused."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_imports import PROJECT, files, parsed

SAY_NOTHING = {"found", "one", "given", "made", "said", "told", "its", "held", "asked", "there"}
EXEMPT = {("infra/places/cluster/image_check.py", "found")}
"""`found` is a property in the state of every stack that has the resource: renaming it would replace the resource."""


def bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a module binds, with its line: variables, parameters, fields, functions, classes, aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case (
                ast.arg(arg=name)
                | ast.alias(asname=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield node.lineno, name


def test_no_name_fits_any_value() -> None:
    """No production module binds one of these names."""
    refused = [
        f"{path.relative_to(PROJECT)}:{line}: {name}"
        for path in files()
        for line, name in bindings(parsed(path))
        if name.strip("_") in SAY_NOTHING and (_relative(path), name) not in EXEMPT
    ]

    assert [] == refused


def _relative(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "def f(given): ...",
        "def f(*, _one): ...",
        "def asked(): ...",
        "class made: ...",
        "import json as said",
        "try: ...\nexcept OSError as told: ...",
        "match 1:\n    case its: ...",
        "match 1:\n    case [*held]: ...",
        "match 1:\n    case {**there}: ...",
        "self._found = 1",
        "[one for one in ()]",
        "(found := 1)",
        "for given in (): ...",
        "class A:\n    held: int",
    ],
)
def test_every_kind_of_binding_is_seen(code: str) -> None:
    """A variable, parameter, field, function, class, alias, caught error and matched value."""
    assert {name.strip("_") for _, name in bindings(ast.parse(code))} & SAY_NOTHING
