"""Functions of the comparison give values back: none writes into what it is given."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOM = Path(__file__).resolve().parents[3] / "compare"
CHANGES = {"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"}
"""Methods that change what they belong to."""


def written(function: ast.FunctionDef) -> Iterator[str]:
    """The parameters that a function writes into, as it stands in the file."""
    parameters = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [each.value for each in node.targets if isinstance(each, ast.Subscript | ast.Attribute)]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target.value if isinstance(node.target, ast.Subscript | ast.Attribute) else node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            targets = [node.func.value]
        yield from (each.id for each in targets if isinstance(each, ast.Name) and each.id in parameters)


def functions(text: str) -> Iterator[ast.FunctionDef]:
    """Every function of a module, those in classes and functions too."""
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))


def test_no_function_writes_into_its_arguments() -> None:
    """So the order of calls decides nothing, and the same runs give the same comparison."""
    found = {
        f"{path.name}: {function.name}": names
        for path in sorted(ROOM.glob("*.py"))
        for function in functions(path.read_text(encoding="utf-8"))
        if (names := sorted(written(function)))
    }

    assert {} == found


def test_a_function_that_writes_is_seen() -> None:
    """By a key, by `|=`, by a method."""
    bodies = ("reasons['a'] = 'b'", "reasons |= {'a': 'b'}", "reasons.update(a='b')", "del reasons['a']")

    for body in bodies:
        (function,) = functions(f"def f(reasons):\n    {body}\n")
        assert ["reasons"] == list(written(function)), body
