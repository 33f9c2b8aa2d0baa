"""Modules of the project that something starts by name (`python -m`): each can be started."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from cli.setup.project import ROOT
from tests.unit.test_imports import parsed

FOLDERS = ("__main__.py", "bench", "cli", "compare", "infra", "policy", "report", "tests", "training")
NAME = re.compile(r"(bench|cli|compare|infra|policy|report|tests|training)(\.\w+)*")


def started() -> Iterator[tuple[str, str]]:
    """Yield each file that has a list with "-m" and one of our modules behind it, and that module."""
    for folder in FOLDERS:
        for file in [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(parsed(file)) if '"-m"' in file.read_text(encoding="utf-8") else ():
                if isinstance(node, ast.List | ast.Tuple):
                    words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
                    for before, word in pairwise(words):
                        if before == "-m" and isinstance(word, str) and NAME.fullmatch(word):
                            yield str(file.relative_to(ROOT)), word


def file_of(module: str) -> Path:
    """Return the file that Python runs for a module or a package."""
    path = ROOT / module.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def test_each_can_be_started() -> None:
    """A package has a `__main__`, a module a part that runs only then."""
    modules = list(started())

    assert len(modules) > 10
    assert [] == [
        (where, module)
        for where, module in modules
        if not file_of(module).is_file()
        or (file_of(module).name != "__main__.py" and "__main__" not in file_of(module).read_text(encoding="utf-8"))
    ]
