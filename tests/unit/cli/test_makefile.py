"""The Makefile and what it may call: what runs first needs nothing installed. What a user types: `test_usage`."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Those of a `make test` around this are not meant for the make that is tested.
FIRST = ("cli.setup.bootstrap", "cli.setup.usage", "cli.stack.clean")
MOST_TARGETS = 28
"""A reader of `make help` has to find one: a new one replaces another, or does what no other comes near, as `lesson`
(Ray without training)."""


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_every_target_is_phony(tmp_path: Path) -> None:
    """A file named `test` must not hide the tests."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for target in _targets():
        (tmp_path / target).touch()
    command = ["make", "-n", "TOOLS_PYTHON=true", *sorted(_targets())]
    planned = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert 20 < len(_targets()) <= MOST_TARGETS
    assert "up to date" not in planned
    assert len(planned.splitlines()) >= len(_targets())


def test_every_tool_that_a_recipe_calls_exists() -> None:
    """A target is there only with its code."""
    called = set(re.findall(r"(?:-m|\(IN_VENV\)) ((?:cli|report|bench)[a-z_.]*)", MAKEFILE))
    paths = {name: ROOT / name.replace(".", "/") for name in called}

    assert {"report", "cli.stack", "cli.stack.clean"} <= called
    assert [] == [
        name
        for name, path in paths.items()
        if not path.with_suffix(".py").is_file() and not (path / "__main__.py").is_file()
    ]


@pytest.mark.parametrize("target", ["status", "dashboard", "submit", "jobs", "fetch", "watch"])
def test_a_sweep_s_stack_needs_what_the_stack_needs_that_it_was_made_from(target: str) -> None:
    """It has no settings of its own, by which what is missing is installed."""
    command = ["make", "BOOTSTRAP=echo", "IN_VENV=true", target, "STACK=sweep-ray"]

    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--stack=ray --no-cli" == said.strip()


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("variable", ["STACK", "SET"])
def test_what_a_user_gives_is_no_shell_code(variable: str, quote: str, tmp_path: Path) -> None:
    """Values reach the tools through the environment, quoted wherever a recipe names them."""
    hacked = tmp_path / "hacked"
    value = f"x{quote}; touch {hacked}; : {quote}"
    command = ["make", "BOOTSTRAP=true", "IN_VENV=true", "up", f"{variable}={value}"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)

    assert not hacked.exists()


def _imports(module: str) -> set[str]:
    # 3.9 is the oldest Python that the first steps are made with: newer syntax is an error here.
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 9))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (ROOT / (node.module or "").replace(".", "/")).is_dir():
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("module", FIRST)
def test_what_runs_before_the_environment_exists_needs_python_alone(module: str) -> None:
    """Bootstrap and clean, with all they import: the standard library, in the syntax of Python 3.9."""
    pending, seen, foreign = {module}, set[str](), set[str]()
    while pending:
        current = pending.pop()
        seen.add(current)
        for name in _imports(current):
            if name.startswith(("cli.", "training.machine.")):
                pending |= {name} - seen
            elif name.partition(".")[0] not in sys.stdlib_module_names:
                foreign.add(name)

    assert foreign == set()
    assert "cli.setup.project" in seen


@pytest.mark.parametrize("module", FIRST)
def test_what_runs_before_the_environment_exists_loads_in_the_oldest_python(module: str, oldest_python: str) -> None:
    """The standard library, too, has names that it lacks."""
    done = subprocess.run(
        [oldest_python, "-c", f"import {module}"], check=False, cwd=ROOT, capture_output=True, text=True
    )

    assert (0, "") == (done.returncode, done.stderr)
